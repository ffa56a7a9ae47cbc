"""CSR rows of every length in one matrix, on every row of the ladder: the bits of the CPU's."""

from __future__ import annotations

import numpy as np
import pytest
from engine import backends, random, same_bits

import gpuops
from gpuops._call import road as _road

sparse = pytest.importorskip("scipy.sparse")

DEVICES = [d for d in backends() if d != "cpu"]
EVERY_DEVICE = pytest.mark.parametrize("device", DEVICES)
DTYPES = ("f4", "f8", "c8", "c16")


def system(lengths, dtype, index="i4", diagonals=1, band=None, seed=0):
    """Rows of these lengths; each that has room has so many terms on its diagonal."""
    n = len(lengths)
    chance = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    row = np.repeat(np.arange(n), lengths)
    if band is None:
        indices = chance.integers(0, n, indptr[-1])
    else:
        indices = (row + chance.integers(-band, band + 1, indptr[-1])) % n
    for i in range(n):
        places = np.arange(indptr[i], indptr[i + 1])
        indices[chance.permutation(places)[:diagonals]] = i
    data = random(len(indices), dtype, seed)
    data[indices == row] += 3
    A = sparse.csr_matrix((data, indices.astype(index), indptr), shape=(n, n))
    A.indptr, A.indices = indptr, indices.astype(index)
    return A, random(n, dtype, seed + 1), random(n, dtype, seed + 2)


def compare(A, f, x, device, **words):
    want = gpuops.jacobi_step(A, f, x, **words, device="cpu")
    for matrix in (A, gpuops.sparse(A, device=device)):
        same_bits(gpuops.jacobi_step(matrix, f, x, **words, device=device), want)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("diagonals", [1, 2, 40])
@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("dtype", DTYPES)
@EVERY_DEVICE
def test_every_length_in_one_matrix(device, dtype, index, diagonals):
    lengths = [1, 8, 9, 128, 129, 300, 1024, 1025, 2048, 2049, 4097, 9000, 31, 32, 33, 64, 65]
    lengths += [3] * 40 + [100] * 20 + [5] * 64 + [1100] * 2 + [40] * 7
    compare(*system(lengths, dtype, index, diagonals), device)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("band", [None, 3, 20])
@pytest.mark.parametrize("longest", [1, 4, 5, 6, 8, 9, 16, 27, 32, 70, 128])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@EVERY_DEVICE
def test_rows_of_like_lengths(device, dtype, longest, band):
    lengths = np.random.default_rng(longest).integers(1, longest + 1, 333)
    lengths[20:70] = longest
    compare(*system(lengths, dtype, band=band), device, omega=0.7)


@pytest.mark.parametrize("longest", [5, 8, 30, 60, 1500])
@EVERY_DEVICE
def test_rows_without_terms(device, longest):
    lengths = np.random.default_rng(1).integers(0, longest + 1, 300)
    lengths[lengths < 2] = 0
    lengths[100:180] = 0
    compare(*system(lengths, "f4"), device, alpha=-0.3)


@pytest.mark.parametrize("longest", [5, 8, 30, 60])
@EVERY_DEVICE
def test_columns_and_strides(device, longest):
    A, f, x = system(np.random.default_rng(2).integers(1, longest + 1, 200), "f4")
    compare(A, f[::-1], x, device)
    compare(A, f, np.repeat(x, 2)[::2], device)
    F, X = np.stack([f, x, f], 1), np.stack([x, f, f], 1)
    compare(A, F, X, device)
    compare(A, F[:, :1], X[:, 1:2], device)
    out = np.zeros((200, 2), "f4")
    gpuops.jacobi_step(gpuops.sparse(A, device=device), f, x, out=out[:, 1], device=device)
    same_bits(out[:, 1], gpuops.jacobi_step(A, f, x, device="cpu"))


@pytest.mark.parametrize(
    "lengths", [[5] * 300, [7] * 300, [20] * 300, [40] * 300, [3000] * 4 + [5] * 60]
)
@EVERY_DEVICE
def test_a_zero_of_the_diagonal_is_found_where_the_matrix_lies(device, lengths):
    n = len(lengths)
    A, f, x = system(lengths, "f4", diagonals=2)
    row = np.repeat(np.arange(n), lengths)
    meaning = {"csr": True, "n": n, "columns": n, "omega": 1.0}
    for i in (0, n - 1):
        data = A.data.copy()
        on = np.flatnonzero((A.indices == i) & (row == i))
        data[on] = 0
        data[on[:2]] = 1, -1
        parts = (data, A.indices, A.indptr, f, x)
        there = [gpuops.to_device(a, device) for a in parts]
        with pytest.raises(np.linalg.LinAlgError, match=rf"zero in row {i}\b"):
            _road.run("jacobi_step", there, meaning, device=device)
