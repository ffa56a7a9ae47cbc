"""One call, one answer: bits do not depend on where they are computed: on no instruction set,
number of threads, kernel or device.

Each random case, of sums, means and products, of elementwise operations and transposes, and of
Jacobi iterates, is computed in every way there is here, by every conforming kernel that takes
it, and the answers' hashes must be equal. A case follows from its number's remainders: a few
meet all pairs of what a case may be; the rest runs with --all.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import itertools
from dataclasses import dataclass

import engine
import numpy as np
import pytest
import scipy.sparse

import gpuops
from gpuops import _core

CASES = 1000
LONG = 2**20
OPS = ("sum", "mean", "prod")
WORDS = ("float32", "float64", "float16", "complex64", "complex128", "bfloat16")


@dataclass(frozen=True)
class Way:
    """A way to compute: device, kernel, instruction set and threads."""

    device: str
    kernel: str | None = None
    level: str | None = None
    threads: int | None = None

    def takes(self, number: int) -> bool:
        """The slowest ways leave most long cases out."""
        slow = self.kernel == "naive" or self.device == "sim"
        return not slow or is_short(number) or number % 100 == 0

    def __enter__(self):
        _core.set_cpu_level(self.level)
        gpuops.set_num_threads(self.threads)
        return self

    def __exit__(self, *exception):
        _core.set_cpu_level(None)
        gpuops.set_num_threads(None)


def ways(op: str = "reduce") -> list[Way]:
    """Every conforming kernel (the CPU's at every instruction set) and automatic choice."""
    found = []
    for row in engine.ladder(op, "cpu"):
        name = row["name"]
        levels = [None] if name == "naive" else _core.cpu_levels()
        threads = (1, 2) if name == "threaded" else (1,)
        found += [Way("cpu", name, *more) for more in itertools.product(levels, threads)]
    for device in engine.backends():
        if device != "cpu":
            rows = engine.ladder(op, device)
            names = [
                r["name"] for r in rows if r["role"] in ("lesson", "production") and r["dtypes"]
            ]
            found += [Way(device, name) for name in (None, *names)]
    return found


class Tally:
    """How many calls each way took: one that refuses all has shown nothing."""

    def __init__(self, op: str) -> None:
        self.ways = ways(op)
        self.taken: collections.Counter = collections.Counter()

    def check(self, way: Way, compute, expected: str, what: str) -> None:
        try:
            with way:
                assert compute(way) == expected, f"{what}: {way}"
        except gpuops.KernelRefusedError:
            return
        self.taken[way] += 1

    def finish(self) -> None:
        assert not [way for way in self.ways if not self.taken[way]]


@dataclass
class Case:
    op: str
    a: np.ndarray
    axis: int | tuple[int, ...] | None
    where: np.ndarray | None

    @property
    def is_strided(self) -> bool:
        return not self.a.flags.c_contiguous


def is_short(number: int) -> bool:
    return number % 4 != 0


def shape_of(number: int, rng) -> tuple[int, ...]:
    """Every fourth case is longer than 2^20; the others have one to four axes."""
    if not is_short(number):
        n = LONG + int(rng.integers(1, 200_000))
        rows = int(rng.integers(1, 9)) if number % 8 else 1
        return ((n,), (rows, n // rows + 1), (n // rows + 1, rows))[number // 4 % 3]
    ndim = int(rng.integers(1, 5))
    most = (30_000, 300, 40, 14)[ndim - 1]
    return tuple(int(x) for x in rng.integers(1, most, ndim))


def strided(a: np.ndarray, rng) -> np.ndarray:
    kind = int(rng.integers(4))
    if kind == 0:
        return a[..., ::-1] if a.shape[-1] > 1 else a[::-1]
    if kind == 1 and a.ndim > 1:
        return np.asfortranarray(a)
    if kind == 2 and a.ndim > 1:
        return a.swapaxes(0, -1)
    wide = np.empty((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def case_of(number: int) -> Case:
    rng = np.random.default_rng(number)
    op = OPS[number % 3]
    shape = shape_of(number, rng)
    word = WORDS[number // len(OPS) % len(WORDS)]
    dtype = engine.bfloat16() if word == "bfloat16" else np.dtype(word)
    a = rng.standard_normal(shape, np.float32)
    if op == "prod":  # near 1 in size, so that long products neither vanish nor overflow
        a = np.exp2(a / 8) * rng.choice(np.array([-1, 1], np.float32), shape)
    if dtype.kind == "c":
        a = a * np.exp(1j * rng.standard_normal(shape, np.float32))
    a = a.astype(dtype)
    if number % 5 < 2:
        a = strided(a, rng)
    count = int(rng.integers(1, a.ndim + 1))
    axis = tuple(int(i) for i in rng.permutation(a.ndim)[:count])
    where = rng.random(a.shape[-1]) < 0.7 if number % 10 == 9 else None
    return Case(op, a, None if number % 7 < 2 else axis, where)


def answer(case: Case, way: Way) -> str:
    """The hash of the answer's bits."""
    more = {} if case.where is None else {"where": case.where}
    got = getattr(gpuops, case.op)(
        case.a, axis=case.axis, device=way.device, kernel=way.kernel, **more
    )
    return hashlib.sha256(engine.bits(got).tobytes()).hexdigest()


def what_it_is(number: int):
    """What a case has."""
    length = is_short(number) or number // 4 % 3
    rank = len(shape_of(number, np.random.default_rng(number)))
    kind = (number % 3, number // 3 % 6, length, rank)
    return *kind, number % 5 < 2, number % 10 == 9, number % 7 < 2


def sample() -> list[int]:
    """Cases that meet all pairs, a long one that the slowest ways take, and short rows."""
    found = engine.cover([engine.pairs(what_it_is(number)) for number in range(CASES)])
    return sorted({41, 100, *found})


@pytest.mark.filterwarnings("ignore:mean of an empty slice")
@pytest.mark.sampled
def test_reductions(everything):
    cases = range(CASES) if everything else sample()
    tally = Tally("reduce")
    long = with_strides = 0
    axes = set()
    for number in cases:
        case = case_of(number)
        long += case.a.size > LONG
        with_strides += case.is_strided
        axes.add(case.axis)
        first = answer(case, Way("cpu"))
        for way in tally.ways:
            if way.takes(number):
                tally.check(way, functools.partial(answer, case), first, f"case {number}")
    tally.finish()
    assert long >= len(cases) // 5
    assert with_strides >= len(cases) // 5
    assert len(axes) > 10


# ---- elementwise operations and transposes ----


def is_image(number: int) -> bool:
    """Pixels of three items that stay together, where arrays are transposed."""
    return number % 12 == 6


def operands_of(op: str, number: int) -> list[np.ndarray]:
    """Operands of one shape, but for some that repeat along an axis; of any layout."""
    rng = np.random.default_rng(20_000 + number)
    words = ["float16", "bfloat16", "float32", "float64"]
    if op != "fma":
        words += ["bool", "int8", "uint16", "int32", "uint64", "complex64", "complex128"]
    word = words[number % len(words)]
    dtype = engine.bfloat16() if word == "bfloat16" else np.dtype(word)
    ndim = int(rng.integers(1, 5))
    most = (9000, 130, 24, 9)[ndim - 1]
    shape = tuple(int(n) for n in rng.integers(1, most, ndim))
    if number % 3 == 0:  # whole vectors and tiles, for the kernels that want them
        shape = tuple(-(-n // 16) * 16 for n in shape)
    if op == "transpose" and is_image(number):
        shape = (*(4 * int(n) for n in rng.integers(16, 40, 2)), 3)
    found = []
    for i in range({"add": 2, "multiply_add": 3, "fma": 3, "transpose": 1}[op]):
        a = engine.random(shape, dtype, 10 * number + i, special=True)
        kind = engine.LAYOUTS[int(rng.integers(len(engine.LAYOUTS)))] if number % 4 else "plain"
        found.append(engine.layout(a, kind))
    return found


def computed(op: str, operands, axes, way: Way) -> str:
    options = {} if axes is None else {"axes": axes}
    with np.errstate(all="ignore"):
        got = getattr(gpuops, op)(*operands, device=way.device, kernel=way.kernel, **options)
    return hashlib.sha256(engine.bits(got).tobytes()).hexdigest()


@pytest.mark.sampled
@pytest.mark.parametrize("op", ["add", "multiply_add", "fma", "transpose"])
def test_elements(op, everything):
    tally = Tally(op)
    for number in range(300 if everything else 11 * 6):
        operands = operands_of(op, number)
        axes = None
        if op == "transpose":
            order = np.random.default_rng(number).permutation(operands[0].ndim)
            axes = (1, 0, 2) if is_image(number) else tuple(int(i) for i in order)
        first = computed(op, operands, axes, Way("cpu"))
        for way in tally.ways:
            compute = functools.partial(computed, op, operands, axes)
            tally.check(way, compute, first, f"case {number}")
    tally.finish()


# ---- Jacobi iterates ----


def system_of(number: int):
    """A dense, CSR or stencil system, mostly diagonal, with right-hand sides and options."""
    rng = np.random.default_rng(10_000 + number)
    dtype = np.dtype(("float32", "float64", "complex64", "complex128")[number % 4])
    n = int(rng.integers(1, (60, 400, 2500)[number // 4 % 3]))
    columns = () if number % 3 else (int(rng.integers(1, 4)),)

    def numbers(shape):
        a = rng.standard_normal(shape)
        return (a + 1j * rng.standard_normal(shape) if dtype.kind == "c" else a).astype(dtype)

    if number % 2:
        A = scipy.sparse.random_array((n, n), density=min(1, 9 / n), rng=rng).tocsr()
        A = (A + scipy.sparse.diags_array(np.full(n, 4.0))).tocsr().astype(dtype)
    else:
        A = numbers((n, n)) + np.diag(np.full(n, 4 * n)).astype(dtype)
        A = A.T if number % 8 == 4 else A
    if number % 40 == 21:
        A = gpuops.stencil(np.array([1, 4, 2], dtype), n, "periodic")
    options = {"alpha": -0.01 / n} if number % 5 == 0 else {"omega": 0.75}
    return A, numbers((n, *columns)), numbers((n, *columns)), options


def iterates(system, way: Way) -> str:
    A, f, x, options = system
    found = hashlib.sha256()
    for _ in range(3):
        x = gpuops.jacobi_step(A, f, x, device=way.device, kernel=way.kernel, **options)
        found.update(engine.bits(x).tobytes())
    return found.hexdigest()


@pytest.mark.sampled
def test_jacobi_iterates(everything):
    tally = Tally("jacobi_step")
    for number in range(200 if everything else 3 * 4 * 5):
        system = system_of(number)
        first = iterates(system, Way("cpu"))
        for way in tally.ways:
            if way.device != "sim" or number % 20 < 2:
                compute = functools.partial(iterates, system)
                tally.check(way, compute, first, f"system {number}")
    tally.finish()


# ---- the samples ----


def by_three_and_four(n):
    return n % 3 == 0, n % 4 == 0


@pytest.mark.parametrize(
    ("cases", "sample", "properties"),
    [
        (CASES, sample(), what_it_is),
        (300, range(11 * 12), lambda n: (n % 11, is_image(n), *by_three_and_four(n))),
        (300, range(11 * 12), lambda n: (n % 4, *by_three_and_four(n))),
        (200, range(3 * 4 * 5), lambda n: (n % 4, n // 4 % 3, n % 3, n % 8 == 4, n % 5 == 0)),
    ],
    ids=["reductions", "elements", "fma", "jacobi"],
)
def test_a_sample_meets_every_pair(cases, sample, properties):
    def pairs(numbers):
        values = map(properties, numbers)
        return {pair for row in values for pair in itertools.combinations(enumerate(row), 2)}

    assert pairs(sample) == pairs(range(cases))
