"""arithmetic - exercises 06 to 09: passes of a sum, rounding, instructions, a product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .task import Case, Limit, Task, excess, floats, is_unwritten, told, unwritten, up

_U = 2.0**-24  # half a unit in the last place of float32, relative

# ---- 06: unrolling ----


def _passes(shape, rng) -> Case:
    (n,) = shape
    a = rng.integers(-1000, 1000, n).astype("i4")
    total = np.array([a.sum(dtype="i8")], "i4")
    return Case((a, unwritten(1, "i4"), n), (1,), (256,), {1: total}, {"n": n})


def _after_passes(case: Case, until: int = 1, orphans: bool = True) -> np.int32:
    """The first number once so few are left."""
    a, n = case.args[0].astype("i8"), case.sizes["n"]
    while n > until:
        left = n // 7 or 1
        whole = np.resize(np.append(a[: 7 * left], np.zeros(7 * left, "i8")), (7, left))
        rest = a[7 * left : n].sum()
        a, n = whole.sum(axis=0), left
        a[0] += rest * orphans
    return np.int32(a[0])


def _wrong_passes(case: Case) -> Iterator[tuple[Any, str]]:
    early = "The passes ended too early: fewer than 7 numbers were left, and have to be added "
    yield _after_passes(case, until=6), early + "too. Go on until one number is left."
    lost = "The orphans are lost: each pass also has to add its last n % 7 numbers to one sum."
    yield _after_passes(case, orphans=False), lost
    unset = "out[0] holds no 0 at the start, and nobody may set it while others add: let one "
    yield case.expected[1] + unwritten((), "i4"), unset + "thread store the sum."


UNROLLING = Task(
    "06",
    "unrolling",
    "void sum(int *a, int *out, int n)",
    _passes,
    hints=(
        (
            lambda case, got: is_unwritten(got[1]).any(),
            "Nobody stores the sum: one thread does, after the last barrier.",
        ),
        (
            lambda case, got: got[1][0] == case.args[0][0],
            "That is only the first number: was no pass made? With fewer than 7 numbers left, "
            "n / 7 is 0, and all of them are orphans.",
        ),
        told(1, _wrong_passes),
        (
            lambda case, got: True,
            "A pass leaves n / 7 numbers, rounded down, and n % 7 orphans, which have to go "
            "into one of the sums, once; and passes go on until one number is left.",
        ),
    ),
)


# ---- 07: rounding ----

EXTENDED = r"\bdouble\b|\b(?:__)?fmaf?(?:_r[nzud])?\s*\("  # what rounds less often


def lanes_of(products: np.ndarray, count: int = 256) -> np.ndarray:
    """The sums of so many threads, each of elements `count` apart."""
    lanes = np.zeros(count, products.dtype)
    for first in range(0, len(products), count):
        part = products[first : first + count]
        lanes[: len(part)] += part
    return lanes


def folded(lanes: np.ndarray, last: int = 1) -> Any:
    """lanes[0] after rounds from half of them down to `last`."""
    d = len(lanes) // 2
    while d >= last:
        lanes = lanes[:d] + lanes[d : 2 * d]
        d //= 2
    return lanes[0]


def paired(lanes: np.ndarray) -> Any:
    """lanes[0] after rounds from 1 up."""
    while len(lanes) > 1:
        lanes = lanes[::2] + lanes[1::2]
    return lanes[0]


def _dot(shape, rng) -> Case:
    (n,) = shape
    a, b = floats(rng, n), floats(rng, n)
    right = np.array([folded(lanes_of(a * b))])
    return Case((a, b, unwritten(1), n), (1,), (256,), {2: right}, {"n": n})


def _wrong_dots(case: Case) -> Iterator[tuple[Any, str]]:
    a, b, _, n = case.args
    if n < 512:  # so few that one result may have several causes
        return
    p = a * b
    lanes = lanes_of(p)
    warps = np.array([folded(warp) for warp in lanes.reshape(8, 32)])
    runs = np.zeros(256 * up(n, 256), "f4")
    runs[:n] = p
    runs = np.add.accumulate(runs.reshape(256, -1), axis=1)[:, -1]
    last = p[n - 256 + (np.arange(256) - n) % 256]
    yield lanes[0], "That is the sum of thread 0: nothing is added from the other threads."
    yield folded(lanes_of(p[:256])), "The first 256 products: a thread goes on with i += 256."
    yield folded(last), "Each thread keeps only its last product: add by +=."
    yield folded(lanes_of(p[:-1])), "The last product is missing: go on while i < n."
    yield folded(lanes[:128]), "The sums of threads 128 to 255 are missing: begin with d = 128."
    yield folded(lanes, last=2), "The last round is missing: go on to d = 1."
    yield folded(lanes_of(a * a)), "These are the squares of a: multiply a[i] by b[i]."
    yield folded(lanes_of(a + b)), "These are sums of a and b: multiply a[i] by b[i]."
    for made, order in (
        (np.add.accumulate(p)[-1], "all products one after the other"),
        (np.add.accumulate(lanes)[-1], "the threads' sums one after the other"),
        (folded(warps), "the 32 sums of each warp first"),
        (np.add.accumulate(warps)[-1], "the 32 sums of each warp first"),
        (paired(lanes), "neighbouring sums first, with d from 1 up,"),
        (folded(runs), "a run of neighbouring elements in each thread"),
    ):
        words = f"Near, but rounded otherwise: adding {order} gives these bits. Thread t adds "
        yield made, words + "elements t, t + 256, ... in order; then come d = 128, 64, ..., 1."


def _is_near(case: Case, got) -> bool:
    a, b = (x.astype("f8") for x in case.args[:2])
    return bool(abs(got[2][0] - a @ b) <= 1e-6 * (abs(a) @ abs(b)))


ROUNDING = Task(
    "07",
    "rounding",
    "void dot(const float *a, const float *b, float *out, int n)",
    _dot,
    hints=(
        (
            lambda case, got: is_unwritten(got[2]).any(),
            "Nobody stores the sum: thread 0 does, after the last barrier.",
        ),
        (
            _is_near,
            "Near, but rounded otherwise: an fma or a double is in the source. Round each "
            "product to float before it is added, and each sum too.",
            EXTENDED,
        ),
        told(2, _wrong_dots),
        (
            _is_near,
            "Near, but rounded otherwise: each product is rounded before it is added (no fma), "
            "thread t adds its elements in order, and the tree folds t + d onto t, d from 128 "
            "down.",
        ),
        (
            lambda case, got: got[2][0] == 0,
            "The sum is 0: is each product added, and are all variables floats? An int cuts "
            "the decimals off.",
        ),
        (
            lambda case, got: True,
            "That is further off than rounding explains: does each of the n products go into "
            "one sum, once, and does every sum begin at 0?",
        ),
    ),
)


# ---- 08: instructions ----


def _around(shape, rng) -> Case:
    n, d = shape
    a = rng.integers(-1000, 1000, n).astype("i4")
    right = np.zeros(n, "i4")
    for k in range(16):
        right += a[(np.arange(n) + d + k) % n]
    return Case(
        (a, unwritten(n, "i4"), n, d), (up(n, 256),), (256,), {1: right}, {"n": n, "d": d}
    )


def _wrong_ways(case: Case) -> Iterator[tuple[Any, str]]:
    a, _, n, d = case.args
    k = np.arange(16)
    first = np.arange(n)[:, None] + d
    at = first + k

    def added(index: np.ndarray) -> np.ndarray:
        return a[index % n].sum(axis=1)

    def walk(index: np.ndarray, end: int, to: int) -> np.ndarray:
        """On by 1, from `end` to `to`."""
        total = np.zeros(n, "i4")
        for _ in k:
            total += a[index]
            index = np.where(index + 1 < end, index + 1, to)
        return total

    begin = first[:, 0] % n
    yield added(at - d), "d is missing: the first element is the one at i + d."
    yield added(at + 1), "That begins one too far: the first element is the one at i + d."
    yield added(at - 2 * d), "The elements lie at i + d, not at i - d."
    yield added(first - k), "The index goes on by + 1: not by - 1, and not by d."
    yield added(first + 0 * k), "That is one element 16 times: the index has to go on by 1."
    yield added(at[:, :15]), "The last of the 16 elements is missing."
    yield added(first + np.arange(17)), "These are 17 elements: k goes from 0 to 15."
    yield case.expected[1] + a, "The sum begins at 0, not at a[i]."
    reset = "An index that begins beyond the end is to be n less, not 0: at -= n."
    yield walk(np.where(first[:, 0] < n, begin, 0), n, 0), reset
    behind = "What lies around the end is missing: an index that reaches n goes on from 0."
    yield (a[at % n] * (at < n)).sum(axis=1), behind
    last = "The last element, a[n - 1], is left out: go on from 0 once the index is n."
    yield walk(begin, n - 1, 0), last
    zero = "The element a[0] is left out: where the index is n, it goes on from 0."
    yield walk(begin, n, 1), zero
    yield added(at + (at >= n)), zero
    yield a[at & (n - 1)].sum(axis=1), "& (n - 1) is a remainder only where n is a power of 2."


INSTRUCTIONS = Task(
    "08",
    "instructions",
    "void around(const int *a, int *out, int n, int d)",
    _around,
    sizes=("n", "d"),
    hints=(
        (
            lambda case, got: is_unwritten(got[1]).any(),
            "Some elements are never stored: thread t of block b has element 256 * b + t.",
        ),
        told(1, _wrong_ways),
        (
            lambda case, got: True,
            "0 <= i < n and 0 <= d < n: i + d is below 2 n, so one subtraction brings it back, "
            "and each step onwards meets n at most once.",
        ),
    ),
    without=(
        (r"%", "There is still a %: compare with n, and subtract it where it was reached."),
        (r"/", "A division is what % is made of: compare and subtract."),
        (r"\b(fmod|remainder|div|ldiv)\w*\s*\(", "A function that divides is a division too."),
    ),
)


# ---- 09: matrix product ----


def _product(shape, rng) -> Case:
    (n,) = shape
    a, b = floats(rng, n, n), floats(rng, n, n)
    right = a.astype("f8") @ b.astype("f8")
    # Each of n products and sums is rounded once, whatever their order.
    bound = 1.1 * (n + 1) * _U * (np.abs(a).astype("f8") @ np.abs(b).astype("f8"))
    blocks = up(n, 16)
    return Case(
        (a, b, unwritten((n, n)), n),
        (blocks, blocks),
        (16, 16),
        {2: right},
        {"n": n},
        within={2: bound},
    )


def _wrong_products(case: Case) -> Iterator[tuple[Any, str]]:
    a, b = (x.astype("f8") for x in case.args[:2])
    n = case.sizes["n"]
    k = np.arange(n)
    yield b @ a, "That is b a: rows are a's, columns are b's."
    yield (a @ b).T, "That is c with its axes exchanged: x counts columns, y rows."
    for made, name in ((a.T @ b, "a"), (a @ b.T, "b")):
        yield (
            made,
            f"{name} is turned: s[y][j] runs along a row of a, t[j][x] down a column of b.",
        )
    part = "That is one tile of each row and column: the sum is set to 0 once, before the loop."
    few = "The last products of each row are missing: the loop over tiles goes on while k < n."
    for kept, why in (
        (k < n // 16 * 16, few),
        (k < 16, few),
        (k >= (n - 1) // 16 * 16, part),
        (k % 16 < 15, "Each tile lacks its last product: j goes from 0 to 15."),
        (k % 16 > 0, "Each tile lacks its first product: j goes from 0 to 15."),
    ):
        yield (a * kept) @ b, why
    rows = np.zeros((up(n, 16) * 16, n))
    rows[:n] = b
    yield (
        a[:, :16] @ rows.reshape(-1, 16, n).sum(axis=0)[: min(n, 16)],
        "a's tile stays where it is: in each turn it begins at column k, a[row * n + k + x].",
    )
    rows[:n] = a.T
    yield (
        rows.reshape(-1, 16, n).sum(axis=0)[: min(n, 16)].T @ b[:16],
        "b's tile stays where it is: in each turn it begins at row k, b[(k + y) * n + column].",
    )


MATMUL = Task(
    "09",
    "matrix product",
    "void multiply(const float *a, const float *b, float *c, int n)",
    _product,
    limits=(
        Limit(
            "sectors that global loads take are",
            lambda t: t.sum("global", "load", "parts"),
            # A tile of a or b has 16 rows of 64 bytes; an unaligned row touches three sectors.
            lambda case: 2 * up(case.sizes["n"], 16) ** 3 * 16 * 3,
            "Each element is loaded by a whole row of blocks: let a block load a tile of 16 x "
            "16 of a and of b to shared memory once, and use it 16 times.",
            lambda t: t.worst("global", "load"),
        ),
        excess("shared", "load store", "A row of a tile for neighbouring threads: tile[y][x]."),
    ),
    hints=(
        (
            lambda case, got: np.isnan(got[2]).any(),
            "NaNs come in from beyond the edges: put 0 into the tiles there, and let no thread "
            "return before the last barrier, since each loads what others need.",
        ),
        told(2, _wrong_products),
        (
            lambda case, got: True,
            "Element (row, column) is the sum of a[row * n + k] * b[k * n + column] over all k "
            "below n. Which of these products does a turn of your loop add?",
        ),
    ),
)
