"""Reductions on the CPU whose elements lie across memory, and of more than 2^32 elements."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import same_bits

import gpuops
from gpuops import _core

ROWS = [None, *(r["name"] for r in engine.ladder("reduce", "cpu") if r["name"] != "naive")]
WORDS = ("uint8", "float16", "float32", "float64", "complex128")
SHAPES = (
    (300, 200), (4, 5000), (5, 4099), (1000, 129), (2048, 64), (33, 2049), (700, 701),
    (70, 3, 90), (16, 40, 50), (130, 17, 19), (3, 4, 5, 600), (9, 8, 7, 6, 50), (3000, 4, 2, 2),
)  # fmt: skip


@engine.remembered
def reference(a, axis=None):
    return np.sum(a, axis) if a.dtype.kind in "iu" else engine.tree(a, axis)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kernel", ROWS)
def test_transposed_sums(kernel, word):
    """Positions follow the logical array, whatever the strides."""
    for seed, shape in enumerate(SHAPES):
        if kernel == "blocked" and seed % 2 and word != "float32":
            continue
        a = engine.random(shape, word, seed)
        for view in (a.T, a.T[..., ::-1], a.T[::-1], a.T[::2], a.swapaxes(0, -1)):
            same_bits(np.asarray(gpuops.sum(view, kernel=kernel)), np.asarray(reference(view)))
        if len(shape) > 2:
            b = a.T
            for axis in (0, -1, (0, 1), (0, -1)):
                want = np.asarray(reference(b, axis))
                same_bits(np.asarray(gpuops.sum(b, axis, kernel=kernel)), want)


@pytest.mark.parametrize("kernel", ROWS)
def test_transposed_positions(kernel):
    for seed, shape in enumerate(SHAPES):
        a = engine.random(shape, "float32", seed, special=seed % 2 == 1).T
        for op in ("argmax", "argmin"):
            assert getattr(gpuops, op)(a, kernel=kernel) == getattr(np, op)(a)
        a = engine.random(shape, "int16", seed).T
        assert gpuops.max(a, kernel=kernel) == a.max()
        assert gpuops.any(a == a.max(), kernel=kernel)
        assert not gpuops.all(a == a.max(), kernel=kernel)


@pytest.mark.parametrize("word", ["float32", "complex64", "int8"])
def test_levels_and_threads(word):
    arrays = [engine.random(s, word, 1).T for s in ((700, 701), (40, 50, 130))]
    results = []
    for level in _core.cpu_levels():
        for threads in (1, 2, 3):
            try:
                _core.set_cpu_level(level)
                gpuops.set_num_threads(threads)
                results.append([gpuops.sum(a) for a in arrays])
            finally:
                _core.set_cpu_level(None)
                gpuops.set_num_threads(None)
    for result in results[1:]:
        for x, y in zip(result, results[0], strict=True):
            same_bits(x, y)


# ---- more than 2^32 elements, of views that need no memory ----

LONG = (1 << 17, (1 << 15) + 3)


@pytest.mark.sampled(later=True)
def test_more_than_32_bits_of_elements():
    row = engine.random((LONG[1],), "int8", 1)
    wide = np.broadcast_to(row, LONG)
    assert wide.size > 1 << 32
    assert gpuops.sum(wide) == LONG[0] * row.sum(dtype=np.int64)


@pytest.mark.sampled(later=True)
def test_positions_beyond_32_bits():
    column = np.zeros((LONG[0], 1), np.int8)
    column[-1] = 1
    tall = np.broadcast_to(column, LONG)
    assert gpuops.argmax(tall) == (LONG[0] - 1) * LONG[1] > 1 << 32


@pytest.mark.sampled(later=True)
def test_columns_beyond_32_bits():
    """Each of many outputs, of an array of more than 2^32 elements."""
    column = engine.random((LONG[0], 1), "int8", 2)
    tall = np.broadcast_to(column, LONG)
    got = gpuops.sum(tall, axis=0)
    assert (got == column.sum(dtype=np.int64)).all()
    assert got.shape == (LONG[1],)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kernel", ROWS)
def test_few_elements_or_few_outputs(kernel, word):
    """Outputs side by side: turned where their own elements are neighbours, lanes in halves."""
    for seed, (outputs, count) in enumerate(
        [(5000, 2), (1100, 3), (700, 16), (513, 31), (300, 32), (129, 100), (40, 127),
         (33, 129), (70, 256), (65, 257), (9, 2048), (17, 2049), (5, 4200)]
    ):  # fmt: skip
        a = engine.random((outputs, count), word, seed, special=seed % 3 == 1)
        with np.errstate(all="ignore"):
            want = reference(a, 1)
        same_bits(gpuops.sum(a, 1, kernel=kernel), want)
        same_bits(gpuops.sum(np.ascontiguousarray(a.T), 0, kernel=kernel), want)
        same_bits(gpuops.sum(a[::-1, ::-1], 1, kernel=kernel), reference(a[::-1, ::-1], 1))
        assert (gpuops.argmax(a, 1, kernel=kernel) == np.argmax(a, 1)).all()
