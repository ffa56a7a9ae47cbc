"""memory - exercises 00 to 04: grids, warps, global and shared memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .task import (
    Case,
    Limit,
    Task,
    excess,
    floats,
    is_unwritten,
    told,
    unwritten,
    up,
    whole_sectors,
)

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
        tile=(16, 16),
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
    sizes=("rows", "columns"),
    in_order=True,
)


# ---- 01: warps ----


def _two_ways(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    even, odd = a.copy(), a.copy()
    for _ in range(4):
        even = even * even + np.float32(0.25)
        odd = odd * np.float32(0.5) - np.float32(1)
    return even, odd


def _is_other_way(case: Case, got: np.ndarray) -> bool:
    """Whether what is wrong went the other element's way."""
    even, odd = _two_ways(case.args[0])
    wrong = got != case.expected[1]
    return bool(((got == even) | (got == odd))[wrong].all())


def _warp(shape, rng) -> Case:
    (n,) = shape
    a = floats(rng, n)
    right = np.where(np.arange(n) % 2 == 0, *_two_ways(a))
    return Case((a, unwritten(n), n), (n // 256,), (256,), {1: right}, {"n": n})


def _whole_blocks(shape: tuple[int, ...], _counted: bool) -> str:
    return "" if shape[0] % 256 == 0 else "expected a multiple of 256, as blocks are"


WARP = Task(
    "01",
    "warp",
    "void two_ways(const float *a, float *out, int n)",
    _warp,
    unfit=_whole_blocks,
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
            lambda case, got: _is_other_way(case, got[1]),
            "An element is even or odd by its own number, whichever thread takes it: a warp "
            "that goes one way has to take every second element.",
        ),
    ),
)


# ---- 02: coalescing ----


# In a source without a shared array.
OWN_ARRAY = r"^(?![\s\S]*__shared__)[\s\S]*\w\s+\w+\[\d+\]"


def _points(shape, rng) -> Case:
    (n,) = shape
    p = floats(rng, n, 3)
    x, y, z = p.T
    return Case(
        (p, unwritten(n), n), (up(n, 256),), (256,), {1: x * x + y * y + z * z}, {"n": n}
    )


def _wrong_lengths(case: Case) -> Iterator[tuple[np.ndarray, str]]:
    x, y, z = case.args[0].T
    yield x + y + z, "These are the sums: x * x + y * y + z * z is asked for."
    words = "These are {}: each of a point's three numbers is squared, once."
    for k, a in {"x": x, "y": y, "z": z}.items():
        yield a * a, words.format(f"the squares of {k} alone")
    for k, two in {"x": y * y + z * z, "y": x * x + z * z, "z": x * x + y * y}.items():
        yield two, words.format(f"the sums without {k}")


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
    unfit=lambda shape, counted: (
        "expected at least 256: of fewer points nobody could move so few bytes"
        if counted and shape[0] < 256
        else ""
    ),
    in_order=True,
    hints=(
        (
            lambda case, got: is_unwritten(got[1]).any(),
            "Each point needs a thread: thread t of block b computes point 256 * b + t.",
        ),
        (
            lambda case, got: np.allclose(got[1], case.expected[1], rtol=1e-5),
            "Near, but rounded otherwise: x * x + y * y + z * z, from the left, without fmaf.",
        ),
        (
            lambda case, got: np.allclose(got[1] ** 2, case.expected[1], rtol=1e-5),
            "These are the roots: x * x + y * y + z * z is asked for.",
        ),
        (
            lambda case, got: (got[1] == (np.trunc(case.args[0]) ** 2).sum(1)).all(),
            "The values lost their decimals: the array is of float, as p is.",
        ),
        (
            lambda case, got: (got[1] == case.expected[1])[:256].all(),
            "The first 256 points are right, the others are not: block b begins with point "
            "256 * b, which is p[768 * b].",
        ),
        (
            lambda case, got: True,
            "An array without the word `__shared__` is a thread's own: what others store to "
            "theirs is not in it.",
            OWN_ARRAY,
        ),
        told(1, _wrong_lengths, rtol=1e-5),
        (
            lambda case, got: True,
            "Does thread t take the three numbers of its own point, words 3 * t, 3 * t + 1 and "
            "3 * t + 2 of the block's 768, and add their squares?",
        ),
    ),
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
    args, right = (a, unwritten((n, n)), n), {1: a.T.copy()}
    return Case(args, (blocks, blocks), (32, 8), right, {"n": n}, tile=(32, 32))


def _whole_tiles(a: np.ndarray) -> np.ndarray:
    """By tile's row, row, tile's column, column; without the tiles at the edges."""
    k = len(a) // 32
    return a[: 32 * k, : 32 * k].reshape(k, 32, k, 32)


def _is(got: np.ndarray, tiles: np.ndarray) -> bool:
    return len(tiles) > 1 and bool((_whole_tiles(got) == tiles).all())


def _is_moved(case: Case, got) -> bool:
    """Tiles are in their new places, as they were."""
    return _is(got[1], _whole_tiles(case.args[0]).transpose(2, 1, 0, 3))


def _is_turned(case: Case, got) -> bool:
    """Tiles are in their old places, turned."""
    return _is(got[1], _whole_tiles(case.args[0]).transpose(0, 3, 2, 1))


def _is_mixed(case: Case, got) -> str:
    """Where all is from the right tile: what a wrong place of it holds; "" if it is not so."""
    put = _whole_tiles(got[1]).transpose(0, 2, 1, 3)
    old = _whole_tiles(case.args[0]).transpose(2, 0, 1, 3)
    pairs = list(zip(put.reshape(-1, 32, 32), old.reshape(-1, 32, 32), strict=True))
    if not all(np.isin(p, o).all() for p, o in pairs):
        return ""
    for p, o in pairs:
        for row, column in np.argwhere(p != o.T)[:1]:
            y, x = np.argwhere(o == p[row, column])[0]
            return (
                f"row {row}, column {column} of a tile holds what was at row {y}, column {x}, "
                f"expected that of row {column}, column {row}"
            )
    return ""


def _are_whole_tiles_right(case: Case, got) -> bool:
    return bool((_whole_tiles(got[1]) == _whole_tiles(case.expected[1])).all())


def _has_holes(case: Case, got) -> bool:
    """Something was stored that nobody had put into the tile: NaN, though of other bits."""
    tiles = _whole_tiles(got[1].copy())
    return bool((np.isnan(tiles) & ~is_unwritten(tiles)).any())


def only_diagonals(case: Case, got) -> bool:
    """Whether the diagonals of the tiles are right and nearly nothing else is: what a tile of
    the thread's own leaves, whose other elements nobody has written. They need not be 0."""
    right = got[1] == case.expected[1]
    row, column = np.indices(right.shape) % 32
    return bool(right[row == column].all() and right[row != column].mean() < 0.1)


_TILES = (
    (
        lambda case, got: (got[1] == case.args[0]).all(),
        "That is the input itself: nothing was transposed.",
    ),
    (
        only_diagonals,
        "Only the diagonals of tiles are right: a tile is the whole block's, `__shared__`; an "
        "array without that word is a thread's own, and most of it was never written.",
        r"^(?![\s\S]*__(?:shared|local))",
    ),
    (
        _is_moved,
        "Each tile is in its new place, but not turned: thread (x, y) of the block stores to "
        "row y + j and column x of the tile, and loads from row x and column y + j.",
    ),
    (
        _is_turned,
        "Each tile is turned, but in its old place: tile (x, y) goes to (y, x), so compute x "
        "and y anew, with the numbers of the block exchanged.",
    ),
    (
        lambda case, got: (got[1] == np.trunc(case.expected[1])).all(),
        "The values lost their decimals: the tile is of float, as the array is.",
    ),
    (
        _has_holes,
        "Words of the tile are loaded that nobody stores to: does each element lie where it is "
        "loaded from? With 32 x 8 threads each thread carries four elements, on both ways.",
    ),
    (
        lambda case, got: is_unwritten(got[1]).any() and _are_whole_tiles_right(case, got),
        "A thread without an element to load may have one to store: let none return before the "
        "barrier, and compare x and y with n at each load and at each store.",
        r"\breturn\b[\s\S]*(?:__syncthreads|barrier)",
    ),
    (
        lambda case, got: is_unwritten(got[1]).any(),
        "A block of 32 x 8 threads has a tile of 32 x 32: each thread carries four elements, "
        "at y, y + 8, y + 16 and y + 24, on both ways, as far as n goes.",
    ),
    (
        lambda case, got: True,
        "A block of 32 x 8 threads has a tile of 32 rows: y begins at blockIdx.y * 32, not at "
        "blockIdx.y * blockDim.y.",
        r"blockIdx\.y\s*\*\s*(?:8|blockDim\.y)\b",
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
    hints=(
        *_TILES[:-1],
        (
            _is_mixed,
            "Each element comes from the right tile, but from a wrong place in it: {}. Store "
            "to row y + j and column x of the tile, and load from row x and column y + j.",
        ),
        _TILES[-1],
    ),
    unfit=whole_sectors,
    in_order=True,
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
            "32 x 32 floats and no extra column: put element (row, column) at column ^ row of "
            "its row.",
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
        *_TILES[:-1],
        (
            _TILES[-1][0],
            "All elements are there, in other places: what was stored at column ^ row has to "
            "be loaded from there, where row and column are the tile's.",
        ),
        (
            _is_mixed,
            "Each element comes from the right tile, but from a wrong place in it: {}. It is "
            "stored at column ^ row and has to be loaded from there.",
        ),
    ),
    unfit=whole_sectors,
    in_order=True,
)
