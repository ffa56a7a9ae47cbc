"""memory - exercises 00 to 05: grids, warps, global and shared memory."""

from __future__ import annotations

import numpy as np

from .task import Case, Limit, Task, excess, floats, unwritten, up

# ---- 00: grid and block ----


def _grid(shape, rng) -> Case:
    rows, columns = shape
    a, b = floats(rng, rows, columns), floats(rng, rows, columns)
    return Case(
        (a, b, unwritten(shape), rows, columns),
        (up(columns, 16), up(rows, 16)),
        (16, 16),
        {2: a + b},
        {"rows": rows, "columns": columns},
    )


def _is_short(case: Case, got) -> bool:
    """The elements behind some place were never written: rows lie too close together."""
    missing = np.isnan(got[2].ravel())
    return bool(missing.any() and missing[missing.argmax() :].all())


GRID = Task(
    "00",
    "grid",
    "void add(const float *a, const float *b, float *out, int rows, int columns)",
    _grid,
    hints=(
        (
            _is_short,
            "A row has `columns` elements: (row, column) lies at row * columns + column.",
        ),
        (
            lambda case, got: np.isnan(got[2]).any(),
            "Some elements get no thread: x counts columns here, y rows, and each is compared "
            "with its own size.",
        ),
    ),
)


# ---- 01: warps ----


def _warp(shape, rng) -> Case:
    (n,) = shape
    a = floats(rng, n)
    even, odd = a.copy(), a.copy()
    for _ in range(4):
        even = even * even + np.float32(0.25)
        odd = odd * np.float32(0.5) - np.float32(1)
    right = np.where(np.arange(n) % 2 == 0, even, odd)
    return Case((a, unwritten(n), n), (n // 256,), (256,), {1: right}, {"n": n})


WARP = Task(
    "01",
    "warp",
    "void two_ways(const float *a, float *out, int n)",
    _warp,
    limits=(
        Limit(
            "warps whose threads part are",
            lambda t: t.divergent,
            lambda case: 0,
            "Threads of a warp go the same way if what decides is the same for all 32: give a "
            "whole warp even elements, or odd ones.",
            lambda t: t.parted(),
        ),
    ),
    hints=(
        (
            lambda case, got: np.isnan(got[1]).any(),
            "Every element needs one thread: 128 threads of a block take its even elements, "
            "128 its odd ones.",
        ),
        (
            lambda case, got: True,
            "An element is even or odd by its own number, whichever thread takes it: a warp "
            "that goes one way has to take every second element.",
        ),
    ),
)


# ---- 02: coalescing ----


def _points(shape, rng) -> Case:
    (n,) = shape
    p = floats(rng, n, 3)
    x, y, z = p.T
    return Case(
        (p, unwritten(n), n), (up(n, 256),), (256,), {1: x * x + y * y + z * z}, {"n": n}
    )


def _moved(kind: str, bytes_each: int, hint: str) -> Limit:
    return Limit(
        f"bytes that global {kind}s move are",
        lambda t: t.sum("global", kind, "moved"),
        lambda case: bytes_each * case.sizes["n"] * 4 / 3,
        hint,
        lambda t: t.worst("global", kind),
    )


COALESCING = Task(
    "02",
    "coalescing",
    "void lengths(const float *p, float *out, int n)",
    _points,
    limits=(
        _moved(
            "load",
            12,
            "Neighbouring threads have to load neighbouring words: let the block copy its 768 "
            "floats to shared memory in their order, then each thread takes its three.",
        ),
        _moved("store", 4, "Thread t stores element t of the block's elements."),
    ),
)


# ---- 03: transpose, 04: banks ----


def _square(shape, rng) -> Case:
    (n,) = shape
    a = floats(rng, n, n)
    blocks = up(n, 32)
    return Case((a, unwritten((n, n)), n), (blocks, blocks), (32, 8), {1: a.T.copy()}, {"n": n})


_TILES = (
    (
        lambda case, got: (got[1] == case.args[0]).all(),
        "That is the input itself: nothing was transposed.",
    ),
    (
        lambda case, got: np.isnan(got[1]).any(),
        "A block of 32 x 8 threads has a tile of 32 x 32: each thread carries four elements, "
        "at y, y + 8, y + 16 and y + 24, on both ways, as far as n goes.",
    ),
    (
        lambda case, got: (np.sort(got[1].ravel()) == np.sort(case.expected[1].ravel())).all(),
        "All elements are there, in other places: tile (x, y) goes to (y, x), and inside the "
        "tile row and column change too.",
    ),
)

TRANSPOSE = Task(
    "03",
    "transpose",
    "void transpose(const float *in, float *out, int n)",
    _square,
    limits=(
        excess("global", "load", "Let threadIdx.x run along a row of the input."),
        excess(
            "global",
            "store",
            "Let threadIdx.x run along a row of the output: turn the tile on its way, in "
            "shared memory.",
        ),
    ),
    hints=_TILES,
)

BANKS = Task(
    "04",
    "banks",
    "void transpose(const float *in, float *out, int n)",
    _square,
    limits=(
        Limit(
            "bytes of shared memory that a block declares are",
            lambda t: t.shared,
            lambda case: 4096,
            "No extra column: put element (row, column) at column ^ row of its row.",
        ),
        excess(
            "shared",
            "load store",
            "The 32 words of a request have to lie in 32 banks, both when the tile is filled "
            "and when it is read.",
        ),
        excess("global", "load store", "Rows of the input and of the output, as in 03."),
    ),
    hints=(
        *_TILES[:2],
        (
            _TILES[2][0],
            "All elements are there, in other places: what was stored at column ^ row has to "
            "be loaded from there, where row and column are the tile's.",
        ),
    ),
)


# ---- 05: reduction ----

_BLOCKS = 16


def _sum(shape, rng) -> Case:
    (n,) = shape
    v = rng.integers(-1000, 1000, n).astype("i4")
    total = np.array([v.sum(dtype="i8")])
    return Case(
        (v, unwritten(_BLOCKS, "i4"), n), (_BLOCKS,), (256,), {1: total}, {"n": n}, total=True
    )


def _loads(t):
    return t.sum("global", "load", "requests")


def _atomics(most: int) -> Limit:
    return Limit(
        "threads that add by atomics are",
        lambda t: t.sum("global", "atomic", "lanes") + t.sum("shared", "atomic", "lanes"),
        lambda case: most,
        "Who adds by an atomic waits for all others that do: add in registers and by the "
        "rounds in shared memory, by an atomic at most the sums of whole warps.",
    )


_SUM_LIMITS = (
    Limit(
        "requests of global loads are",
        _loads,
        lambda case: up(case.sizes["n"], 32) + 8 * _BLOCKS,
        "One load of a warp for 32 elements: a thread adds many elements, as far apart as the "
        "grid has threads.",
    ),
    Limit(
        "requests of shared memory are",
        lambda t: t.sum("shared", "load store", "requests"),
        lambda case: 48 * _BLOCKS,
        "Let the threads that work be neighbours, so that whole warps have done: "
        "s[t] += s[t + d] for t < d, with d from 128 down.",
    ),
    excess("shared", "load store", "Neighbouring threads take neighbouring words."),
    excess(
        "global",
        "load",
        "Neighbouring threads take neighbouring elements, and step by as many as the grid has "
        "threads.",
    ),
    _atomics(8 * _BLOCKS),
)

_SUM_HINTS = (
    (
        lambda case, got: not (got[1] == -77777777).any(),
        "Does every element go into exactly one sum, also the last ones, where n is no "
        "multiple of the block?",
    ),
)

REDUCE = Task(
    "05",
    "reduce",
    "void sum(const int *v, int *part, int n)",
    _sum,
    limits=_SUM_LIMITS,
    hints=_SUM_HINTS,
)


def _ticket(shape, rng) -> Case:
    (n,) = shape
    v = rng.integers(-1000, 1000, n).astype("i4")
    total = np.array([v.sum(dtype="i8")], "i4")
    part, ticket = unwritten(_BLOCKS, "i4"), np.zeros(1, "u4")
    args = (v, part, ticket, unwritten(1, "i4"), n)
    return Case(args, (_BLOCKS,), (256,), {3: total}, {"n": n})


TICKET = Task(
    "05b",
    "reduce in one launch",
    "void sum(const int *v, int *part, unsigned *ticket, int *out, int n)",
    _ticket,
    limits=(
        _SUM_LIMITS[0],
        Limit(
            "requests of shared memory are",
            lambda t: t.sum("shared", "load store", "requests"),
            # One meeting more, of the last block, and whether a block is it: a store, 8 loads.
            lambda case: (48 + 9) * _BLOCKS + 48,
            _SUM_LIMITS[1].hint,
        ),
        _atomics((8 + 1) * _BLOCKS + 8),  # the tickets, and the last block's warps
    ),
    hints=(
        (
            lambda case, got: got[3][0] == case.expected[3][0] - 77777777,
            "out[0] holds no 0 at the start, and nobody may set it while others add: let one "
            "thread store the sum.",
        ),
        (
            lambda case, got: got[3][0] == -77777777,
            "Nobody wrote the result: the block whose ticket is the last, gridDim.x - 1, adds "
            "the parts.",
        ),
    ),
    variable="ONE_LAUNCH",
)
