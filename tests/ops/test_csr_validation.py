"""CSR matrices that nobody looks at before the step: bits, and what becomes of wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
from engine import backends, same_bits
from test_csr_rows import system

import gpuops
from gpuops._call import road as _road

DEVICES = [d for d in backends() if d != "cpu"]
EVERY_DEVICE = pytest.mark.parametrize("device", DEVICES)
# Rows of a few terms, as is guessed; one that belies the guess; of any length; past a leaf.
LENGTHS = {
    "few": [5] * 700,
    "eight": [8] * 300,
    "one more": [4] * 600 + [9] + [3] * 300,
    "one long": [2] * 3000 + [5000],
    "any": [40] * 60 + [1, 300, 1100, 2049, 7] + [3] * 90,
}
EVERY_LENGTH = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)


def steps(parts, f, x, device, **words):
    """The step of arrays where the device's kernels find them, into new memory and given."""
    there = [gpuops.to_device(a, device) for a in (*parts, f, x)]
    meaning = {"csr": True, "n": len(f), "columns": len(f), **words}
    outs = None, gpuops.to_device(np.full_like(x, 7), device), there[4]

    def step(out):
        return _road.run("jacobi_step", there, meaning, device=device, out=out)

    for out in outs:
        yield lambda out=out: step(out), there if out is None else [*there, out]


def host(a):
    return a.get() if hasattr(a, "get") else np.asarray(a)


def wrong(kind, A, lengths):
    """Its arrays with something wrong in them, and the words of a step that refuses them."""
    data, indices, indptr = A.data.copy(), A.indices.copy(), A.indptr.copy()
    n, stored, row = len(lengths), len(data), np.repeat(np.arange(len(lengths)), lengths)
    if kind == "column past the last":
        indices[stored // 2] = n
    if kind == "negative column":
        indices[-1] = -1
    if kind == "zero diagonal":
        data[(row == n - 1) & (indices == row)] = 0
    if kind == "first row":
        indptr[0] = 1
    if kind == "last row":
        indptr[-1] -= 1
    if kind == "rows that overlap":  # and have more leaves than the matrix
        indptr[1:-1] = np.arange(n - 1) % 2 * stored
    return (data, indices, indptr), {"omega": 0.5} if "diagonal" in kind else {"alpha": 1.0}


@pytest.mark.parametrize("words", [{"omega": 0.7}, {"alpha": -0.3}])
@EVERY_LENGTH
@EVERY_DEVICE
def test_bits(device, lengths, words):
    A, f, x = system(lengths, "f4", diagonals=2)
    want = gpuops.jacobi_step(A, f, x, **words, device="cpu")
    for step, _ in steps((A.data, A.indices, A.indptr), f, x, device, **words):
        same_bits(host(step()), want)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize(
    "kind",
    [
        "column past the last",
        "negative column",
        "zero diagonal",
        "first row",
        "last row",
        "rows that overlap",
    ],
)
@EVERY_LENGTH
@EVERY_DEVICE
def test_a_wrong_matrix_is_named_and_nothing_written(device, lengths, kind):
    A, f, x = system(lengths, "f4")
    parts, words = wrong(kind, A, lengths)
    meaning = {"csr": True, "n": len(f), "columns": len(f), **words}
    with pytest.raises((ValueError, np.linalg.LinAlgError)) as of_cpu:
        _road.run("jacobi_step", (*parts, f, x), meaning, device="cpu")
    for step, arrays in steps(parts, f, x, device, **words):
        before = [host(a).copy() for a in arrays]
        with pytest.raises(of_cpu.type) as said:
            step()
        assert str(said.value) == str(of_cpu.value)
        for a, was in zip(arrays, before, strict=True):
            same_bits(host(a), was)


@pytest.mark.parametrize("longest", [5, 8, 30, 60])
@pytest.mark.parametrize("device", [d for d in DEVICES if d == "cuda"])
def test_matrices_large_enough_for_a_gpu(device, longest):
    """Below some millions of terms a look before takes less time there."""
    n, chance = 2_400_000 // longest * 2, np.random.default_rng(longest)
    lengths = chance.integers(1, longest + 1, n)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype("i4")
    indices = chance.integers(0, n, indptr[-1]).astype("i4")
    indices[indptr[:-1]] = np.arange(n)
    data = chance.standard_normal(len(indices)).astype("f4")
    f, x = (chance.standard_normal(n).astype("f4") for _ in range(2))
    meaning = {"csr": True, "n": n, "columns": n}
    want = _road.run("jacobi_step", (data, indices, indptr, f, x), meaning, device="cpu")
    for step, _ in steps((data, indices, indptr), f, x, device):
        same_bits(host(step()), want)
    data[indptr[n // 2]] = 0
    indices[indptr[n // 2] : indptr[n // 2 + 1]] = n // 2
    data[indptr[n // 2] : indptr[n // 2 + 1]] = 0
    for step, arrays in steps((data, indices, indptr), f, x, device):
        before = [host(a).copy() for a in arrays]
        with pytest.raises(np.linalg.LinAlgError, match=rf"zero in row {n // 2}\b"):
            step()
        for a, was in zip(arrays, before, strict=True):
            same_bits(host(a), was)
