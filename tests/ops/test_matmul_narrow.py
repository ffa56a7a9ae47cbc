"""matmul where b has few columns: the bits are those of more; vectors of integers on GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from engine import backends, dtype_of, of_turn, random, same_bits
from test_matmul import exact, product

import gpuops
from gpuops import _core


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_few_columns_add_like_many(dtype, order):
    for m, k in ((7, 40), (8, 16), (33, 15), (50, 300), (129, 700)):
        a, b = random((m, k), dtype, 1), random((k, 40), dtype, 2)
        a = np.asarray(a, order=order)
        want = gpuops.matmul(a, b, device="cpu", kernel="simd")
        for level in _core.cpu_levels():
            _core.set_cpu_level(level)
            try:
                for n in (1, 2, 3, 4, 5, 8, 9):
                    got = gpuops.matmul(a, b[:, :n], device="cpu", kernel="direct")
                    same_bits(got, want[:, :n])
            finally:
                _core.set_cpu_level(None)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_tiles_of_rows_add_alike(dtype):
    """How many rows there are, and on which side, `vector` gives them the same bits."""
    for k, lines in ((64, 16), (71, 17), (100, 40), (1030, 33), (40000, 19)):
        most = 4 if k < 2000 else 3  # lines that are not in a cache: three rows
        a, b = random((most, k), dtype, 1), np.asarray(random((k, lines), dtype, 2), order="F")
        want = gpuops.matmul(a, b, device="cpu", kernel="vector")
        np.testing.assert_allclose(want, a @ b, rtol=0, atol=1e-2)
        for level in _core.cpu_levels():
            _core.set_cpu_level(level)
            try:
                for m in range(2, most + 1):
                    got = gpuops.matmul(a[:m], b, device="cpu", kernel="vector")
                    same_bits(got, want[:m])
                    for few in (np.ascontiguousarray(a[:m].T), a[:m].T):
                        got = gpuops.matmul(b.T, few, device="cpu", kernel="vector")
                        same_bits(np.ascontiguousarray(got.T), want[:m])
            finally:
                _core.set_cpu_level(None)


@pytest.mark.parametrize("word", ["float32", "float64"])
def test_results_whose_columns_are_apart(word):
    """`direct` multiplies a.T by a few columns with a's lines as lanes, and turns the sums."""
    for m in (2, 3, 4, 5, 7, 8, 9, 14, 16, 27):
        for n, k in ((17, 2), (33, 16), (130, 300), (700, 40), (1100, 530)):
            a, b = random((k, n + 3), word, 1)[:, :n].T, random((k, m), word, 2)
            want = gpuops.matmul(a, b, device="cpu", kernel="threaded")
            for there in (np.zeros((n, m), word), np.zeros((n, m + 2), word)[:, :m]):
                gpuops.matmul(a, b, out=there, device="cpu", kernel="direct")
                same_bits(there, want)
            gpuops.matmul(b.T, a.T, out=there.T, device="cpu", kernel="direct")
            same_bits(there, want)


@pytest.mark.parametrize("word", ["float32", "float64", "complex64", "complex128"])
def test_a_vector_times_short_lines(word):
    d = dtype_of(word)
    for k in (8, 9, 16, 17, 31, 33, 48, 63, 64, 65, 80, 128, 130, 255, 257, 320):
        for n in (8, 15, 16, 17, 35):
            a, b = exact((3, n, k + 1), d)[..., 1:], exact((3, k, 1), d, 1)
            same_bits(gpuops.matmul(a, b, device="cpu", kernel="vector"), product(a, b))
            there = np.zeros((3, n, 2), d)[..., :1]
            gpuops.matmul(a, b, out=there, device="cpu", kernel="vector")
            same_bits(there, product(a, b))
            left = gpuops.matmul(b.mT, a.mT, device="cpu", kernel="vector")
            same_bits(left, product(b.mT, a.mT))


@pytest.mark.parametrize("word", ["float32", "float64"])
def test_up_to_eight_rows_with_lanes_along_the_sum(word):
    d = dtype_of(word)
    for m in range(2, 9):
        for n, k in ((32, 256), (45, 301), (16, 70), (5, 150)):
            if m > 4 and k < 256:
                continue
            a, b = exact((m, k), d), exact((n, k), d, 1)
            for x in (a, np.ascontiguousarray(a.T).T):
                got = gpuops.matmul(x, b.T, device="cpu", kernel="vector")
                same_bits(got, product(x, b.T))


WHOLE = ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
LINES = [(9, 64, 0), (33, 2000, 0), (64, 257, 3), (130, 48, 0), (3, 5000, 1)]


@pytest.mark.sampled
@pytest.mark.parametrize("device", [d for d in backends() if d in ("sim", "cuda")])
@pytest.mark.parametrize("kernel", ["gemv_row", "gemv_col"])
@pytest.mark.parametrize("dtype", WHOLE)
def test_a_matrix_of_integers_times_a_vector(dtype, kernel, device, everything):
    """Sums wrap as NumPy's do, by loads of 16 bytes and of items, in any layout. A signed and
    its unsigned type share a kernel: of two, each takes half of the calls on sim."""
    rng = np.random.default_rng(5)
    calls = [(*shape, layout) for shape in LINES for layout in ("C", "F", "reversed")]
    for m, k, at, layout in of_turn(
        calls, 2, everything, "matmul", device, kernel, WHOLE.index(dtype)
    ):
        whole = rng.integers(-100, 100, (m, k + at))
        a = (whole > 90 if dtype == "bool" else whole.astype(dtype))[:, at:]
        x = a[0].copy()
        b = {"C": a, "F": np.asfortranarray(a), "reversed": a[::-1]}[layout]
        want = b @ x
        same_bits(gpuops.matmul(b, x, device=device, kernel=kernel), want)
        same_bits(gpuops.matmul(x, b.T, device=device, kernel=kernel), want)
    with pytest.raises(gpuops.KernelRefusedError, match="few rows or columns, at most 1"):
        gpuops.matmul(a, a.T[:, :2], device=device, kernel=kernel)
