"""engine - what every test of an operation is built from.

`rows(op)` lists every kernel of every backend that is present, so that a kernel is tested by
being in its table. `attempt` runs a call and skips with the kernel's own sentence where it
refuses. `same_bits` is the equality of this project. `layouts` lays one array out in every way
NumPy can. `tree` is the summation tree of docs/numerics.md, written plainly.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import os
import zlib

import numpy as np
import pytest

import gpuops
from gpuops import _core
from gpuops._call import registry as _registry

REDUCTIONS = ("sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax")

# (op, kernel, dtype) of the cuda calls of the running test; conftest.py writes them down.
ran: set[tuple[str, str, str]] = set()
# Calls of the running test that were answered: it may not be skipped after them.
answered: list[str] = []


def backends() -> list[str]:
    """The backends that can run here; GPUOPS_TEST_BACKENDS=cuda narrows them."""
    wanted = os.environ.get("GPUOPS_TEST_BACKENDS", "cpu,cuda,sim").split(",")
    return [name for name in wanted if name == "cpu" or gpuops.is_available(name)]


def ladder(op: str, device: str) -> list[dict]:
    """All rows but that of exact sums: it takes calls of exact=True only."""
    return [r for r in _core.ladder(op, device.split(":")[0]) if r["name"] != "exact"]


def row(op: str, device: str, kernel: str) -> dict:
    rows = _core.ladder(op, device.split(":")[0])
    return next(r for r in rows if r["name"] == kernel)


KEEPS = ("lesson", "production", "candidate")  # every promise


def is_conforming(op: str, device: str, kernel: str | None) -> bool:
    """False for a teaching row: its caveat says which promise it does not keep."""
    return kernel is None or row(op, device, kernel)["role"] in KEEPS


def rows(op: str, *, teaching: bool = True, auto: bool = True) -> list:
    """pytest params (device, kernel): every row that answers; None lets gpuops choose."""
    params = []
    for device in backends():
        if auto:
            params.append(pytest.param(device, None, id=f"{device}-auto"))
        for r in ladder(op, device):
            if r["role"] != "yardstick" and (teaching or is_conforming(op, device, r["name"])):
                params.append(pytest.param(device, r["name"], id=f"{device}-{r['name']}"))
    return params


SIM_WORK = 2e6  # operations and loads of 4 bytes, some 20 ns each


def small_enough(device: str, work: float) -> bool:
    """False where sim, which plays a GPU on the CPU, would take longer than a test may."""
    return device != "sim" or work <= SIM_WORK


def cover(wanted: list[frozenset]) -> list[int]:
    """Which of them meet all that any of them does: few, those that meet most first."""
    mixed = sorted(range(len(wanted)), key=lambda i: zlib.crc32(b"%d" % i))
    met: set = set()
    chosen = []
    for share in (1, 0.8, 0.6, 0.4, 0.2, 0):
        for i in mixed:
            fresh = wanted[i] - met
            if fresh and len(fresh) >= share * len(wanted[i]):
                chosen.append(i)
                met |= fresh
    return sorted(chosen)


def pairs(values) -> frozenset:
    """What a test has that is made of these values: each of them, and each two."""
    at = [*enumerate(values)]
    return frozenset([(one,) for one in at] + [*itertools.combinations(at, 2)])


def of_turn(cases, parts: int, everything: bool, op: str, device: str, kernel, *turn) -> list:
    """All cases, but unless `everything` one of `parts` of them on sim, and on the CPU one of a
    fifth as many: another one for each kernel and turn, so that as many kernels, or turns, meet
    them all."""
    cases = [*cases]
    parts = {"sim": parts, "cpu": -(-parts // 5)}.get(device, 1)
    if everything or parts == 1:
        return cases
    number = [None, *(r["name"] for r in ladder(op, device))].index(kernel)
    return cases[(number + sum(turn)) % parts :: parts]


def note(name: str, args, kwargs) -> None:
    """What runs on a GPU, for its record."""
    if str(kwargs.get("device", "")).startswith("cuda"):
        dtype = next((str(x.dtype) for x in args if hasattr(x, "dtype")), "")
        ran.add((name, kwargs.get("kernel") or "auto", dtype))


def attempt(f, *args, **kwargs):
    """f(*args, **kwargs); a kernel asked for by name may refuse, which skips the test.

    On sim only small calls run: the others skip as well.
    """
    if kwargs.get("device") == "sim" and _registry.name_of(f):
        kept = {k: v for k, v in kwargs.items() if k not in ("kernel", "params")}
        plan = gpuops.explain(f, *args, **kept | {"device": "cpu"})
        if not small_enough("sim", plan.flops + plan.bytes / 4):
            pytest.skip("too much work for sim")
    note("reduce" if f.__name__ in REDUCTIONS else f.__name__, args, kwargs)
    try:
        result = f(*args, **kwargs)
    except gpuops.KernelRefusedError as refusal:
        if kwargs.get("kernel") is None:
            raise
        pytest.skip(str(refusal))
    answered.append(f.__name__)
    return result


def taken(cases, call):
    """(case, call(case)) of each case that the kernel takes; skipped if it refuses them all."""
    count, refusal = 0, None
    for case in cases:
        try:
            got = call(case)
        except pytest.skip.Exception as skipped:
            refusal = skipped
            continue
        count += 1
        yield case, got
    if refusal and not count:
        raise refusal


def bits(x) -> np.ndarray:
    """The array's bits as unsigned integers, every NaN written as all ones."""
    x = np.ascontiguousarray(np.asarray(x)).reshape(np.shape(x))
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if x.dtype.kind == "c":
        x = np.stack([x.real, x.imag], axis=-1)
    if x.dtype.kind in "biuSU":
        return x
    out = x.view(f"u{x.dtype.itemsize}").copy()
    if x.dtype.kind == "f" or x.dtype.name == "bfloat16":
        out[np.isnan(x)] = np.iinfo(out.dtype).max
    return out


def same_bits(x, y) -> None:
    """Asserts equal dtype, shape and bits; any NaN equals any NaN, -0.0 differs from 0.0."""
    x, y = (host(v) for v in (x, y))
    assert x.dtype == y.dtype, f"dtype {x.dtype} is not {y.dtype}"
    assert x.shape == y.shape, f"shape {x.shape} is not {y.shape}"
    if x.tobytes() == y.tobytes():  # nearly always, and much cheaper than to find where
        return
    different = np.argwhere(bits(x) != bits(y))
    if len(different):
        at = tuple(int(i) for i in different[0][: x.ndim])
        raise AssertionError(
            f"{len(different)} of {x.size} items differ, the first at {at}: "
            f"{x[at]!r} is not {y[at]!r}"
        )


def same_bytes(x: np.ndarray, y: np.ndarray, case: str) -> None:
    """Asserts equal bytes, of items that may be no numbers."""
    x, y = (np.ascontiguousarray(v) for v in (x, y))
    if x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes():
        return
    items = [np.frombuffer(v.tobytes(), "u1").reshape(v.size, v.itemsize) for v in (x, y)]
    different = np.flatnonzero((items[0] != items[1]).any(axis=-1))
    if len(different):
        at = tuple(int(i) for i in np.unravel_index(different[0], x.shape))
        raise AssertionError(
            f"{case}: {len(different)} of {x.size} items differ, the first at {at}: "
            f"{x[at]!r} is not {y[at]!r}"
        )


def remembered(reference):
    """A reference that is computed once, for all kernels that are compared with it. It is
    given arrays, which are told by their items, numbers and words; all else is itself alone."""
    found, others = {}, {}

    def key(x):
        if isinstance(x, tuple):
            return tuple(map(key, x))
        if isinstance(x, np.ndarray):
            return x.dtype, x.shape, hashlib.blake2b(x.tobytes()).digest()
        if x is None or isinstance(x, str | int | float | complex | np.generic):
            return type(x), repr(x)
        return id(others.setdefault(id(x), x))

    @functools.wraps(reference)
    def of(*args, **kwargs):
        call = (*map(key, args), *((name, key(x)) for name, x in sorted(kwargs.items())))
        if call not in found:
            found[call] = reference(*args, **kwargs)
        return found[call]

    return of


def host(x) -> np.ndarray:
    return np.asarray(x.get() if isinstance(x, gpuops.DeviceArray) else x)


# ---- one array in every layout ----

LAYOUTS = (
    "plain", "strided", "negative", "transposed", "unaligned", "packed", "swapped", "readonly",
    "broadcast",
)  # fmt: skip


def layout(a: np.ndarray, name: str) -> np.ndarray:
    """The values of `a` as a view of the named kind.

    "broadcast" repeats the first item of the first axis instead, with stride 0: compute the
    reference from the view, never from `a`.
    """
    a = np.ascontiguousarray(a).reshape(np.shape(a))
    if name == "plain":
        return a.copy()
    if name == "strided":
        wide = np.empty([3 * n for n in a.shape], a.dtype)
        wide.view(np.uint8 if a.ndim else a.dtype)[...] = 0x7F
        view = wide[(..., *(slice(1, None, 3) for _ in a.shape))]
    elif name == "negative":
        view = np.empty_like(a)[(..., *(slice(None, None, -1) for _ in a.shape))]
    elif name == "transposed":
        view = np.empty(a.shape[::-1], a.dtype).T
    elif name == "unaligned":
        memory = np.zeros(a.nbytes + 1, np.uint8)
        view = np.ndarray(a.shape, a.dtype, memory, offset=1)
    elif name == "packed":
        # As a field of packed records: even the strides are no multiple of the item size.
        item = a.dtype.itemsize + 1
        memory = np.zeros(item * max(a.size, 1) + 1, np.uint8)
        strides = [s // a.dtype.itemsize * item for s in a.strides]
        view = np.ndarray(a.shape, a.dtype, memory, offset=1, strides=strides)
    elif name == "swapped":
        swapped = a.dtype.newbyteorder() if a.dtype.kind != "V" else a.dtype
        return a.astype(swapped)
    elif name == "readonly":
        view = a.copy()
        view.flags.writeable = False
        return view
    elif name == "broadcast":
        return np.broadcast_to(a[:1], a.shape) if a.ndim and a.shape[0] else a.copy()
    else:
        raise ValueError(name)
    view[...] = a
    return view


def layouts(a: np.ndarray):
    """(name, view) for every layout."""
    for name in LAYOUTS:
        yield name, layout(a, name)


# ---- values that break kernels ----

INTS = tuple(np.dtype(d) for d in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))
FLOATS = tuple(np.dtype(d) for d in ("f2", "f4", "f8"))
COMPLEX = tuple(np.dtype(d) for d in ("c8", "c16"))
DTYPES = (np.dtype(bool), *INTS, *FLOATS, *COMPLEX)
SHAPES = (
    (), (0,), (1,), (31,), (32,), (33,), (1021,), (0, 5), (5, 0), (1, 1), (7, 13), (33, 31),
    (1, 257), (257, 1), (64, 64), (3, 4, 5), (2, 1, 3, 1, 5), (2,) * 9,
)  # fmt: skip


def bfloat16() -> np.dtype:
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def dtype_of(word: str) -> np.dtype:
    return bfloat16() if word == "bfloat16" else np.dtype(word)


def random(shape, dtype, seed: int = 0, *, special: bool = False) -> np.ndarray:
    """Random values over the dtype's range; `special` adds NaN, infinities, subnormals."""
    shape = tuple(map(int, np.atleast_1d(shape)))
    make = drawn if math.prod(shape) <= 1 << 14 else drawn.__wrapped__
    return make(shape, np.dtype(dtype), seed, special).copy()


@functools.lru_cache(maxsize=2048)  # a kernel after the other is given the same ones
def drawn(shape: tuple, dtype: np.dtype, seed: int, special: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        a = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    elif dtype.kind == "c":
        a = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    else:
        a = np.asarray(rng.normal(size=shape)).astype(dtype)
    a = np.asarray(a, dtype).reshape(shape)
    if special and a.size and dtype.kind not in "iu":
        parts = a.reshape(-1).view(a.real.dtype) if dtype.kind == "c" else a.reshape(-1)
        values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-310, 6e-8, 65504.0]
        with np.errstate(over="ignore", under="ignore"):
            values = np.array(values).astype(parts.dtype)
        at = rng.integers(0, parts.size, max(1, parts.size // 5))
        parts[at] = values[rng.integers(0, len(values), at.size)]
    return a


# ---- tree/v1 ----


def complex_product(a, b) -> np.ndarray:
    """Every operation rounded; a factor of 1 leaves the other as it is, and 1 + 0i does so to
    1 - 0i, whichever comes first."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    out.real = a.real * b.real - a.imag * b.imag
    out.imag = a.real * b.imag + a.imag * b.real
    out = np.where(a == 1, b, np.where(b == 1, a, out))
    out.imag = np.where((a == 1) & (b == 1), -(-a.imag - b.imag), out.imag)
    return out


def tree(x, axes=None, *, product=False, where=None, initial=None, mean=False) -> np.ndarray:
    """The sum (or product) of docs/numerics.md, one rounding to x's dtype at the end."""
    x = np.asarray(x)
    if x.dtype.kind == "c" and not product:
        part = x.real.dtype
        start = [None, None] if initial is None else [np.real(initial), np.imag(initial)]
        re, im = (
            tree(p.astype(part), axes, where=where, initial=s, mean=mean)
            for p, s in zip((x.real, x.imag), start, strict=True)
        )
        out = np.empty(re.shape, x.dtype)
        out.real, out.imag = re, im
        return out
    axes = range(x.ndim) if axes is None else np.atleast_1d(axes) % max(x.ndim, 1)
    axes = sorted(int(i) for i in axes)
    kept = [i for i in range(x.ndim) if i not in axes]
    exact = x.dtype.kind == "c" or x.dtype == np.float64
    wide = x.dtype.newbyteorder("=").type if exact else np.float32
    fold = np.add if not product else complex_product if x.dtype.kind == "c" else np.multiply
    neutral = wide(1.0 if product else -0.0)
    v = x.astype(wide)
    count = np.asarray(int(np.prod([x.shape[i] for i in axes])))
    if where is not None:
        where = np.broadcast_to(where, x.shape)
        v = np.where(where, v, neutral)
        count = np.sum(where, tuple(axes))
    v = v.transpose(kept + axes).reshape([x.shape[i] for i in kept] + [-1 if x.size else 0])
    n = v.shape[-1]
    leaves = 1
    while leaves * 2048 < n:
        leaves *= 2
    # Of one leaf, rows that would be neutral throughout change nothing and are left out.
    rows = 16 if leaves > 1 else max(1, -(-n // 128))
    padded = np.full((*v.shape[:-1], leaves * rows * 128), neutral)
    padded[..., :n] = v
    padded = padded.reshape(*v.shape[:-1], leaves, rows, 128)
    with np.errstate(all="ignore"):
        lanes = np.full((*v.shape[:-1], leaves, 128), neutral)
        for i in range(rows):
            lanes = fold(lanes, padded[..., i, :])
        while lanes.shape[-1] > 1:
            half = lanes.shape[-1] // 2
            lanes = fold(lanes[..., :half], lanes[..., half:])
        nodes = lanes[..., 0]
        while nodes.shape[-1] > 1:
            nodes = fold(nodes[..., 0::2], nodes[..., 1::2])
        if initial is None:
            initial = 1.0 if product else 0.0  # a root of -0.0 is given as +0.0
        root = fold(np.asarray(nodes[..., 0]), np.asarray(initial, wide))
        if mean:
            root = root / count.astype(wide)
        return np.asarray(root).astype(x.dtype)


def tree_sum(a, axes=None) -> np.ndarray:
    """The plain reference of tree/v1: the sum of `a` over `axes`, all of them if None."""
    return tree(a, axes)
