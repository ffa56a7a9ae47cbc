"""reduce where its rows differ: few rows or columns, leaves and parts of one, many outputs."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from engine import attempt, dtype_of, of_turn, random, rows, same_bits, tree
from test_reduce import POSITIONS, ROWS, WORDS, check_all, is_float, reference

import gpuops
from gpuops import _core

pytestmark = pytest.mark.sampled(every=2)


@pytest.fixture(params=_core.cpu_levels())
def level(request):
    _core.set_cpu_level(request.param)
    yield request.param
    _core.set_cpu_level(None)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_few_columns_and_few_rows(device, kernel, word, everything):
    """Rows that follow each other without a gap, fewer than a leaf has or more; lines of a few
    elements each along either axis."""
    cases = []
    for i, shape in enumerate([(2500, 3), (300, 9), (5, 1300), (8, 40), (9, 70), (1300, 5)]):
        a = random(shape, dtype_of(word), i, special=i % 2 == 1)
        for op in ("sum", "max", "argmin", "any", "mean"):
            cases += [(op, a, axis, {}) for axis in (0, 1)]
    turn = WORDS.index(word)
    cases = of_turn(cases, 14, everything, "reduce", device, kernel, turn)
    check_all(cases, device, kernel)


@pytest.mark.sampled
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("device", "kernel"), [row for row in ROWS if row.values[1] == "columns"]
)
def test_many_columns(device, kernel, word, everything):
    """Threads with one column or several, with a part of their elements or all; lines that are
    no multiple of a thread's columns, or follow each other with gaps."""
    dtype = dtype_of(word)
    cases = []
    for i, shape in enumerate([(3, 32768), (9, 32768), (40, 1300)]):
        a = random(shape, dtype, i, special=i % 2 == 1)
        cases += [(op, a, 0, {}) for op in ("sum", "max", "argmin", "mean")]
    a = random((3, 17, 40), dtype, 9)
    cases += [(op, a[:, :, first:], 1, {}) for op in ("sum", "argmax") for first in (0, 1, 4)]
    turn = WORDS.index(word)
    check_all(of_turn(cases, 20, everything, "reduce", device, kernel, turn), device, kernel)
    long = ((17, 65537), (9, 262144))  # more than attempt() grants sim
    for shape in of_turn(long, 20, everything, "reduce", device, kernel, turn):
        a = random(shape, dtype, 1)
        got = gpuops.sum(a, axis=0, device=device, kernel=kernel)
        same_bits(np.asarray(got), np.asarray(gpuops.sum(a, axis=0, device="cpu")))


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_few_elements_with_gaps(device, kernel, word):
    """Outputs of up to eight elements in lines of an odd length, or an item apart; short rows
    whose axes do not merge."""
    a = random((3, 8, 157), dtype_of(word), 1, special=True)
    rows = random((206, 6, 40), dtype_of(word), 2)[:, 1:]
    cases = [("sum", rows, 2, {}), ("argmax", rows, 2, {})]
    for op in ("sum", "min", "any"):
        cases += [(op, a[:, :count], 1, {}) for count in (3, 4, 7, 8)]
        cases += [(op, a[:, :5, ::2], 1, {}), (op, a[:, :2, ::-2], 1, {})]
    check_all(cases, device, kernel)


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_items_of_one_and_two_bytes(device, kernel):
    """Leaves, and parts of one: the largest sums, and what alone decides any, all, min and max,
    wherever it is in a word; -0 is not true."""
    cases = []
    for word in ("bool", "int8", "uint8", "int16", "uint16", "float16"):
        kind = np.dtype(word).kind
        low, high = {"b": (0, 1), "f": (-0.0, 1)}.get(kind) or (
            np.iinfo(word).min, np.iinfo(word).max)  # fmt: skip
        for most, one in ((0, 1), (1, 0), (low, high), (high, low)):
            a = np.full((9, 2304), most, word)
            cases += [("sum", a, 1, {})] * (kind != "f")
            a[range(9), [0, 1, 2, 3, 1001, 2046, 2047, 2048, 2303]] = one
            cases += [(op, a, 1, {}) for op in ("any", "all", "min", "max")]
    check_all(cases, device, kernel)


def test_rows_of_bytes_end_at_the_first_that_decides(level):
    """Rows of one leaf, of several, and of more than a node has, many to a run or one: what
    decides is the first element, the last, one at the seam of two leaves, or missing."""
    for n, outputs in ((2048, 40), (2049, 7), (7351, 67), (131_072, 5), (131_073, 3)):
        places = [n, *(k for k in (0, 63, 64, 2047, 2048, n - 1) if k < n)]
        a = np.zeros((outputs, n), bool)
        for i in range(outputs):
            a[i, places[i % len(places)] :] = np.arange(n - places[i % len(places)]) % 3 != 1
        for x in (a, ~a):
            for op in ("argmax", "argmin", "any", "all"):
                same_bits(
                    gpuops.reduce(x, op, axis=1, device="cpu"), getattr(np, op)(x, axis=1)
                )


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_a_byte_that_is_not_0_is_true(device, kernel):
    a = np.arange(2 * 2304).astype(np.uint8).reshape(2, 2304)
    for op in ("sum", "min", "max", "any", "all"):
        for bytes_of in (a, a | 1, a & 0):
            got = attempt(getattr(gpuops, op), bytes_of.view(bool), axis=1, device=device,
                          kernel=kernel)  # fmt: skip
            assert np.array_equal(got, getattr(np, op)(bytes_of != 0, axis=1))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("device", "kernel"), [row for row in ROWS if row.values[1] == "vectorized"]
)
def test_lines(device, kernel, word):
    """Elements in lines with gaps, whose lengths and starts are multiples of 16 bytes, of fewer
    or of one element, along several axes; and rows that are a part of a leaf."""
    dtype = dtype_of(word)
    cases = []
    for i, (shape, axes) in enumerate([
        ((5, 3, 48), (0, 2)), ((70, 2, 36), (0, 2)), ((9, 2, 301), (0, 2)),
        ((2100, 1, 18), None), ((3, 2, 4, 2, 17), (0, 2, 4)),
        ((3, 2, 4, 2, 5, 2, 16), (0, 2, 4, 6)),
    ]):  # fmt: skip
        a = random(shape, dtype, i, special=i % 2 == 1)
        cases += [(op, a, axes, {}) for op in ("sum", "max", "any", "mean", "prod")]
        cases += [("sum", a[..., 1:], axes, {}), ("min", a[::-1], axes, {})]
    for shape in ((40, 56), (40, 52), (60, 51), (1, 2100)):
        a = random(shape, dtype, shape[1])
        cases += [(op, a[:, first:-4], None, {}) for op in ("argmin", "max", "sum")
                  for first in (0, 1)]  # fmt: skip
    for shape in ((30, 256), (1100, 132), (9, 2044), (600, 17)):
        a = random(shape, dtype, shape[1])
        cases += [(op, a, 1, {}) for op in ("sum", "max", "argmax", "all")]
        a = random(shape, dtype, shape[1], special=True)
        cases += [(op, a, 1, {}) for op in ("mean", "min", "argmin")]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("device", "kernel"), [row for row in ROWS if row.values[1] == "columns"]
)
def test_columns_along_several_axes(device, kernel, word):
    """Outputs side by side whose elements do not lie one distance apart: few and many of them,
    a leaf and more; lines of outputs that are no multiple of a thread's columns."""
    cases = []
    for i, (shape, axes) in enumerate([
        ((3, 2, 5, 40), (0, 2)), ((3, 2, 5, 33), (0, 2)), ((70, 2, 40, 16), (0, 2)),
        ((2, 3, 2, 2, 3, 2, 36), (0, 2, 4)), ((9, 3, 30, 35), (0, 2)),
    ]):  # fmt: skip
        a = random(shape, dtype_of(word), i, special=i % 2 == 1)
        cases += [(op, a, axes, {}) for op in ("sum", "max", "any", "mean", "prod")]
        cases += [("sum", a[:, 1:], axes, {}), ("min", a[::-1], axes, {})]
    check_all(cases, device, kernel)


@pytest.mark.sampled
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), [row for row in ROWS if row.values[1] == "rows"])
def test_rows_by_shared_memory(device, kernel, word, everything):
    """Rows of a multiple of 16 bytes and of any number; with gaps; that begin anywhere, and end
    with the array; a block with all of its rows or a few, and several."""
    dtype = dtype_of(word)
    cases = []
    for i, (count, outputs) in enumerate([
        (1, 300), (2, 129), (3, 700), (5, 128), (8, 257), (13, 40), (16, 130), (17, 128),
        (24, 9), (31, 131), (32, 65), (33, 260), (47, 20), (64, 129), (65, 5), (100, 33),
        (128, 3),
    ]):  # fmt: skip
        long = random((outputs + 2, count + 3), dtype, i, special=i % 2 == 1)
        a = np.ascontiguousarray(long[:, :count])
        for op in ("sum", "max", "argmin", "any", "mean", "prod", "min"):
            cases += [(op, b, 1, {}) for b in (a, a[1:], long[1:, 1 : count + 1])]
            cases.append((op, a.ravel()[3 : 3 + count * outputs].reshape(-1, count), 1, {}))
        cases.append(("sum", a, 1, {"initial": 3}))
    for shape in (
        (3, 70, 33),
        (2, 1, 65, 16),
        (2, 3, 64, 8),
        (2, 2, 2, 130, 13),
        (2, 130, 368),
    ):
        a = random((*shape[:-2], shape[-2] + 1, shape[-1] + 5), dtype, shape[-2])
        cases += [(op, b, -1, {}) for op in ("sum", "max", "argmin")
                  for b in (a[..., 1:, 2 : 2 + shape[-1]], a[..., : shape[-1]])]  # fmt: skip
    turn = WORDS.index(word)
    check_all(of_turn(cases, 14, everything, "reduce", device, kernel, turn), device, kernel)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), [row for row in ROWS if row.values[1] == "thin"])
def test_parts_of_leaves(device, kernel, word):
    """Leaves of which several blocks have a part each, the last with fewer rows."""
    cases = []
    for i, shape in enumerate([(2048, 8), (2048, 7), (4133, 4), (130, 40), (5000, 3)]):
        a = random(shape, dtype_of(word), i, special=i % 2 == 1)
        cases += [(op, a, 0, {}) for op in ("sum", "max", "argmin", "mean", "prod")]
    check_all(cases, device, kernel)


@pytest.mark.parametrize(
    ("device", "kernel"), [row for row in ROWS if row.values[1] == "short"]
)
def test_positions_of_one_element(device, kernel):
    """The first of one: more than a block stores, and an odd number."""
    check_all([("argmin", random((1, n), np.dtype("i2"), n), 0, {}) for n in (1, 2, 4099)],
              device, kernel)  # fmt: skip


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_positions_among_ties_and_nans(device, kernel, word):
    """Whole leaves, parts of one, and a start at any address: the first of the least, or of the
    NaNs, wherever it is."""
    dtype = dtype_of(word)
    rng = np.random.default_rng(11)
    cases = []
    for n in (2048, 4096, 5000):
        a = rng.integers(0, 3, n).astype(dtype)
        cases += [(op, a[first:], None, {}) for op in POSITIONS for first in (0, 1)]
        if is_float(dtype):
            for at in ([n - 1], [17, n - 2000, n - 1], list(range(n))):
                b = a.copy()
                b[at] = np.nan
                cases += [(op, b, None, {}) for op in POSITIONS]
            cases += [(op, np.full(n, x, dtype), None, {}) for op in POSITIONS
                      for x in (np.inf, -np.inf, -0.0)]  # fmt: skip
        else:
            ends = (
                (True, False) if word == "bool" else (np.iinfo(dtype).max, np.iinfo(dtype).min)
            )
            cases += [(op, np.full(n, x, dtype), None, {}) for op in POSITIONS for x in ends]
    check_all(cases, device, kernel)


@pytest.mark.sampled
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.usefixtures("level")
def test_runs_of_many_outputs(word, everything):
    """More outputs side by side than a run holds, of any item; rows that fill lines of memory,
    or do not; rows of few elements, which are turned."""
    cases = []
    for i, shape in enumerate([(3, 40_003), (17, 8200), (128, 1024), (2051, 130)]):
        a = random(shape, dtype_of(word), i, special=i % 2 == 1)
        for op in ("sum", "max"):
            cases += [(op, a, 0, {}), (op, a[:, 1:], 0, {})]
    for i, shape in enumerate([(9000, 1), (9001, 5), (5000, 16), (4099, 31), (2100, 100)]):
        a = random(shape, dtype_of(word), i, special=i % 2 == 1)
        for op in ("sum", "min", "argmax"):
            cases.append((op, a, 1, {}))
        cases.append(("sum", a[:, ::-1], 1, {}))
    if not everything:
        cases = cases[WORDS.index(word) % 3 :: 3]
    check_all(cases, "cpu", "threaded")


@pytest.mark.parametrize("word", ["float32", "int8", "complex128"])
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_axes_that_do_not_merge(device, kernel, word):
    """Outputs along more and more axes with gaps between them, up to more than brief arguments
    have room for; their elements side by side."""
    cases = []
    for kept in (1, 3, 4, 8):
        a = random((3,) * kept + (5,), dtype_of(word), kept)[(slice(None, None, 2),) * kept]
        cases += [(op, a, -1, {}) for op in ("sum", "max", "argmin")]
        cases += [(op, a, -2, {}) for op in ("sum", "any")]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("outputs", "leaves"), [(9, 32), (9, 33), (2, 64), (2, 65), (1, 1025), (1, 2049)]
)
@pytest.mark.parametrize(("device", "kernel"), [row for row in ROWS if row.values[1] == "tree"])
def test_leaves_fold_by_threads_warps_and_blocks(device, kernel, outputs, leaves):
    """As many leaves as a warp or a block folds, and one more: a thread has two sums of
    complex128, or one position."""
    a = random((outputs, leaves * 2048 - 3), np.dtype("c16"), leaves)
    for op in ("sum", "argmax"):  # some are larger than `check` lets sim do
        got = getattr(gpuops, op)(a, axis=1, device=device, kernel=kernel)
        same_bits(got, reference(op, a, 1))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize(("device", "kernel"), rows("reduce", teaching=False))
def test_padding_a_product_changes_no_sign(device, kernel, dtype):
    """1 - 0i beside the 1 + 0i that products are padded with, wherever a kernel pads."""
    rng, call = np.random.default_rng(5), {"device": device, "kernel": kernel}
    for n in (1, 2, 3, 5, 65, 200):
        a = np.ones((n, 3), dtype)
        for a.imag in (-0.0, np.where(rng.random((n, 3)) < 0.5, -0.0, 0.0)):
            for view, axis in ((a, 0), (a[:, 0], 0), (a.T.copy(), 1), (a, None)):
                with contextlib.suppress(gpuops.KernelRefusedError):
                    got = gpuops.prod(view, axis, **call)
                    want = np.ones(got.shape, dtype)
                    want.imag = np.where(np.signbit(view.imag).any(axis), -0.0, 0.0)
                    same_bits(got, want)
                    same_bits(got, tree(view, axis, product=True))


@pytest.mark.parametrize("word", ["uint8", "float32", "complex128"])
@pytest.mark.parametrize("kernel", ["tree", "indexed", "columns"])
@pytest.mark.parametrize("device", [d for d in ("cuda", "sim") if gpuops.is_available(d)])
def test_calls_in_turn_from_either_end(device, kernel, word):
    """Every other call begins with the last blocks, if its array is longer than the cache; on
    sim, which has none, they all do."""
    items = (48 << 20) // dtype_of(word).itemsize if device == "cuda" else 21_000
    a = random((3, items // 210, 10, 7), word, 0)
    held = gpuops.to_device(a, device)
    for axis in (1,) if kernel == "columns" else (1, (1, 3)):
        want = np.asarray(gpuops.sum(a, axis, device="cpu"))
        for _ in range(3):
            same_bits(gpuops.sum(held, axis, device=device, kernel=kernel).get(), want)
