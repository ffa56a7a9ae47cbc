"""problems - exercises 10 and 11: a sparse iteration, a histogram of distances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .arithmetic import EXTENDED, folded, lanes_of, paired
from .memory import OWN_ARRAY
from .task import Case, Limit, Task, floats, told, unwritten, up

# ---- 10: iteration ----


def _down(part: np.ndarray) -> Any:
    """The sum of a row's terms, by 32 lanes and then by rounds."""
    return folded(lanes_of(part, 32))


def _up(part: np.ndarray) -> Any:
    return paired(lanes_of(part, 32))


def _products(value: np.ndarray, x: np.ndarray) -> np.ndarray:
    return value * x


def _row_sums(args: tuple[Any, ...], of=_products, added=_down, ends=(0, 0)) -> np.ndarray:
    """Of each row: `of` its values and their x, from its first entry to its last, `added`."""
    value, column, start, x = args[:4]
    first, last = start[:-1] + ends[0], start[1:] + ends[1]
    rows = [slice(i, max(i, j)) for i, j in zip(first, last, strict=True)]
    return np.array([added(of(value[row], x[column[row]])) for row in rows], "f4")


def _rows(shape, rng) -> Case:
    """One step of x + alpha (A x - f), of a matrix in CSR, a warp a row."""
    (n,) = shape
    count = rng.integers(0, min(n, 70) + 1, n)
    start = np.concatenate([[0], np.cumsum(count)]).astype("i4")
    column = np.concatenate([rng.choice(n, c, replace=False) for c in count]).astype("i4")
    value, x, f = floats(rng, len(column)), floats(rng, n), floats(rng, n)
    alpha = np.float32(-0.25)
    right = x + alpha * (_row_sums((value, column, start, x)) - f)
    if len(value) == 0:
        value, column = np.zeros(1, "f4"), np.zeros(1, "i4")
    args = (value, column, start, x, f, unwritten(n), float(alpha), n)
    sizes = {"n": n, "entries": int(start[-1])}
    return Case(args, (up(n, 8),), (256,), {5: right}, sizes)


def _one_by_one(part: np.ndarray) -> Any:
    return np.add.accumulate(np.append(part, part.dtype.type(0)))[-1]


def _wrong_steps(case: Case) -> Iterator[tuple[Any, str]]:
    args = case.args
    x, f, alpha = args[3], args[4], np.float32(args[6])

    def step(**how: Any) -> np.ndarray:
        return x + alpha * (_row_sums(args, **how) - f)

    s = _row_sums(args)
    yield x - alpha * (s - f), "The correction has the wrong sign: x + alpha * (sum - f)."
    yield x + alpha * s, "f is missing: x + alpha * (sum - f)."
    yield x + alpha * (s + f), "f has the wrong sign: x + alpha * (sum - f)."
    yield x + (s - f), "alpha is missing: x + alpha * (sum - f)."
    yield alpha * (s - f), "x itself is missing: x + alpha * (sum - f)."
    yield s, "That is A x, from which the step has to be made: x + alpha * (sum - f)."
    end = "Each row's last entry is missing: go on while k < start[row + 1]."
    yield step(ends=(0, -1)), end
    yield step(ends=(1, 0)), "Each row's first entry is missing: lane 0 begins at start[row]."
    lane = "That is the sum of lane 0: the other lanes' sums are missing."
    yield step(added=lambda part: _one_by_one(part[::32])), lane
    few = "These are only the first 32 entries of each row: a lane goes on with k += 32."
    yield step(added=lambda part: _down(part[:32])), few
    half = "Half of the lanes' sums are missing: the rounds go from d = 16 to d = 1."
    for kept in (np.arange(32) < 16, np.arange(32) % 2 == 0):
        yield step(added=lambda part, k=kept: _down(part * np.resize(k, len(part)))), half
    none = "The entries' values are missing: value[k] * x[column[k]]."
    yield step(of=lambda value, x: x), none
    yield step(of=lambda value, x: value), "x is missing in the sum: value[k] * x[column[k]]."
    rows = np.repeat(np.arange(len(x)), np.diff(args[2]))
    own = "Each entry is to be multiplied by x of its own column: x[column[k]], not x[row]."
    yield x + alpha * (_row_sums((args[0], rows, *args[2:])) - f), own
    for added, order in (
        (_one_by_one, "the entries of a row one after the other"),
        (_up, "neighbouring sums first, with d from 1 up,"),
    ):
        words = f"Near, but rounded otherwise: adding {order} gives these bits. Lane l adds "
        rounds = "entries l, l + 32, ...; then comes __shfl_down_sync by 16, 8, 4, 2, 1."
        yield step(added=added), words + rounds


def _is_near(case: Case, got) -> bool:
    return bool(np.allclose(got[5], case.expected[5], rtol=1e-4, atol=1e-5))


ITERATION = Task(
    "10",
    "iteration",
    "void step(const float *value, const int *column, const int *start, const float *x, "
    "const float *f, float *next, float alpha, int n)",
    _rows,
    limits=(
        Limit(
            "requests of global loads are",
            lambda t: t.sum("global", "load", "requests"),
            # A row: its bounds, its x and f; of each 32 entries value, column and x.
            lambda case: (
                4 * case.sizes["n"] + 3 * (case.sizes["entries"] // 32 + case.sizes["n"])
            ),
            "The 32 threads of a warp take neighbouring entries of one row; a thread a row "
            "asks for entries that are a row apart.",
            lambda t: t.worst("global", "load"),
        ),
    ),
    hints=(
        (
            lambda case, got: np.isnan(got[5]).any(),
            "Some rows are never stored: row (blockIdx.x * 256 + threadIdx.x) / 32 has a warp, "
            "also where it has no entries.",
        ),
        (
            _is_near,
            "Near, but rounded otherwise: an fma or a double is in the source. Round each "
            "product to float before it is added, and each sum too.",
            EXTENDED,
        ),
        told(5, _wrong_steps),
        (
            _is_near,
            "Near, but rounded otherwise: lane l adds entries l, l + 32, ... of its row in "
            "order, then come __shfl_down_sync by 16, 8, 4, 2, 1, and the step is x + alpha * "
            "(sum - f).",
        ),
        (
            lambda case, got: True,
            "Does each entry k of a row, from start[row] to before start[row + 1], go into one "
            "sum, once, as value[k] * x[column[k]]? And is the step x + alpha * (sum - f)?",
        ),
    ),
)


# ---- 11: histogram of distances ----

_BINS = 64


def _distances(shape, rng) -> Case:
    (n,) = shape
    # So some pairs of many points lie beyond the last bin, and none of few.
    p = rng.uniform(0, 1 if n >= 10 else 0.25, (n, 3)).astype("f4")
    width = np.float32(2.0 ** -rng.integers(6, 8))
    args = (p, np.zeros(_BINS, "i4"), n, float(width))
    case = Case(args, (up(n, 128),), (128,), {}, {"n": n})
    return replace(case, expected={1: _histogram(case)})


def _first_bin(case: Case) -> np.ndarray:
    return case.args[2] * (np.arange(_BINS) == 0)


def _half_empty(case: Case, got: np.ndarray) -> int:
    """The bin from which on all are 0, where those before are right; 0: it is not so."""
    first = int(np.max(np.flatnonzero(got), initial=-1)) + 1
    return first if first and (got == case.expected[1])[:first].all() else 0


def _histogram(
    case: Case,
    p: np.ndarray | None = None,
    of: Callable[[np.ndarray], np.ndarray] = np.sqrt,
    whole: Callable[[np.ndarray], np.ndarray] = np.trunc,
    points: int | None = None,
) -> np.ndarray:
    """Of the pairs i < j of points p: `of` their squared distances, in bins made `whole`; with
    `points` of so many first points i, with -1 without the last."""
    p = case.args[0] if p is None else p
    n, width = case.args[2], np.float32(case.args[3])
    if points == -1:
        p, n, points = p[:-1], n - 1, None
    found = np.zeros(_BINS, "i4")
    for i in range(n - 1)[:points]:
        squares = (p[i + 1 :] - p[i]) ** 2
        bins = whole(of(np.add.accumulate(squares, axis=1)[:, -1]) / width).astype("i4")
        found += np.bincount(bins[bins < _BINS], minlength=_BINS).astype("i4")
    return found


def _is_few(case: Case) -> bool:
    """Points that tell nothing."""
    return case.args[2] < 10


def _wrong_histograms(case: Case) -> Iterator[tuple[np.ndarray, str]]:
    p, _, n, _ = case.args
    if _is_few(case):
        return
    squares = "These are the squares of the distances: the root is missing."
    yield _histogram(case, of=np.asarray), squares
    for whole in (np.rint, np.ceil):
        cut = "The bins are rounded: (int)(r / width) cuts the decimals off."
        yield _histogram(case, whole=whole), cut
    for k, name in enumerate("xyz"):
        words = f"{name} is left out of the distances: dx * dx + dy * dy + dz * dz."
        yield _histogram(case, np.delete(p, k, axis=1)), words
    beside = "The numbers of point j lie side by side: p[3 * j], p[3 * j + 1], p[3 * j + 2]."
    flat = p.ravel()
    yield _histogram(case, flat.reshape(3, n).T), beside
    yield _histogram(case, np.stack([flat[k : k + n] for k in range(3)], 1)), beside
    first = "All pairs are in h[0]: is each difference a float, and r divided by width?"
    yield n * (n - 1) // 2 * (np.arange(_BINS) == 0), first


def _is_of(case: Case, got, points: int) -> bool:
    return not _is_few(case) and bool((got[1] == _histogram(case, points=points)).all())


HISTOGRAM = Task(
    "11",
    "histogram",
    "void pairs(const float *p, int *h, int n, float width)",
    _distances,
    limits=(
        Limit(
            "additions to global memory are",
            lambda t: t.sum("global", "atomic", "lanes"),
            lambda case: _BINS * up(case.sizes["n"], 128),
            "Count in shared memory, a histogram of the block's own, and add it to h at the "
            "end, once a bin.",
        ),
    ),
    hints=(
        (
            lambda case, got: (got[1] == case.expected[1] + _first_bin(case)).all(),
            "Each point is paired with itself, which counts in h[0]: j begins at i + 1.",
        ),
        (
            lambda case, got: (got[1] == 2 * case.expected[1] + _first_bin(case)).all(),
            "Each pair is met twice, and each point is paired with itself: j begins at i + 1.",
        ),
        (
            lambda case, got: (got[1] == case.expected[1])[:-1].all() and got[1][-1],
            "h[63] alone is wrong: leave the pairs beyond the last bin out.",
        ),
        (
            lambda case, got: _half_empty(case, got[1]),
            "The bins from {} on stay 0: 64 threads of the block add a bin each.",
        ),
        (
            lambda case, got: _is_of(case, got, -1),
            "The pairs with the last point are missing: j goes on while j < n.",
        ),
        (
            lambda case, got: _is_of(case, got, 128),
            "These are the pairs of the first block's points alone: does every block set its "
            "own bins to 0 and add them, by threadIdx.x?",
        ),
        (
            lambda case, got: (got[1] == 2 * case.expected[1]).all(),
            "Every count is twice what it should be: either each pair is met twice (j goes "
            "from i + 1 on), or each bin of the block is added to h by two threads.",
        ),
        told(1, _wrong_histograms),
        (
            lambda case, got: True,
            "An array without the word `__shared__` is a thread's own: what others count in "
            "theirs is not in it.",
            OWN_ARRAY,
        ),
        (
            lambda case, got: not _is_few(case) and (got[1] >= case.expected[1]).all(),
            "Pairs are counted more than once, or added to h more than once: which pairs does "
            "each thread meet, and how many threads add each bin?",
        ),
        (
            lambda case, got: not _is_few(case) and (got[1] <= case.expected[1]).all(),
            "Pairs are missing: does every bin of the block's histogram begin at 0 and come to "
            "h, also in a block whose threads without a point have returned? And do all "
            "threads meet at `__syncthreads()` before the bins are added to h?",
        ),
        (
            lambda case, got: not _is_few(case),
            "Some bins have too many pairs and others too few: the bin is (int)(r / width), "
            "and r the root of dx * dx + dy * dy + dz * dz, of p[3 * j] to p[3 * j + 2].",
        ),
    ),
)
