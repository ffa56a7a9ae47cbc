"""sparse: matrices that are checked once give the bits of plain ones, on every device."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from engine import backends, random, same_bits

import gpuops
from gpuops import DeviceArray, _core
from gpuops._call import road as _road

scipy_sparse = pytest.importorskip("scipy.sparse")

EVERY_DEVICE = pytest.mark.parametrize("device", backends())
DTYPES = ("f4", "f8", "c8", "c16")


def matrix(n=60, dtype="f8", seed=0, index="i4"):
    """CSR with unsorted and repeated columns and a diagonal in each row, now and then twice."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 12, n)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    indices = rng.integers(0, n, indptr[-1]).astype(index)
    indices[indptr[:-1]] = np.arange(n)
    indices[indptr[1:] - 1] = np.where(np.arange(n) % 3, indices[indptr[1:] - 1], np.arange(n))
    data = random(len(indices), dtype, seed)
    data[indptr[:-1]] += 3
    A = scipy_sparse.csr_matrix((data, indices, indptr), shape=(n, n))
    A.indptr, A.indices = indptr, indices
    return A, random(n, dtype, seed + 1), random(n, dtype, seed + 2)


@pytest.mark.parametrize("factor", [{}, {"omega": 0.6}, {"alpha": -0.1}], ids=str)
@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("dtype", DTYPES)
@EVERY_DEVICE
def test_the_bits_of_a_plain_matrix(device, dtype, index, factor):
    A, f, x = matrix(dtype=dtype, index=index)
    S = gpuops.sparse(A, device=device)
    want = gpuops.jacobi_step(A, f, x, **factor, device="cpu")
    y = gpuops.jacobi_step(S, f, x, **factor)
    assert type(y) is np.ndarray
    same_bits(y, want)
    same_bits(gpuops.jacobi_step(S, f, x, **factor, device=device), want)
    F = np.stack([f, x], 1)
    X = np.stack([x, f], 1)
    same_bits(gpuops.jacobi_step(S, F, X, **factor)[:, 0], want)


def test_the_rule_auto_is_a_device_too():
    A, f, x = matrix()
    S = gpuops.sparse(A, device="auto")
    assert S.device == gpuops.sparse(A).device
    same_bits(gpuops.jacobi_step(S, f, x), gpuops.jacobi_step(A, f, x))


@EVERY_DEVICE
def test_device_arrays_stay_on_their_device(device):
    A, f, x = matrix()
    S = gpuops.sparse(A, device=device)
    assert S.device == gpuops.Device(device) if device != "cpu" else str(S.device) == "cpu"
    f, x = gpuops.to_device(f, device), gpuops.to_device(x, device)
    y = gpuops.jacobi_step(S, f, x)
    assert type(y) is DeviceArray
    same_bits(y.get(), gpuops.jacobi_step(A, f.get(), x.get(), device="cpu"))


@EVERY_DEVICE
def test_the_solver_takes_it(device):
    A = scipy_sparse.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(80, 80))
    f = random(80, "f8", 1)
    plain = gpuops.jacobi(A, f, rtol=1e-8, device=device)
    kept = gpuops.jacobi(gpuops.sparse(A, device=device), f, rtol=1e-8, device=device)
    assert kept.converged
    assert kept.iterations == plain.iterations
    same_bits(kept.x, plain.x)
    same_bits(kept.residuals, plain.residuals)
    np.testing.assert_allclose(A @ kept.x, f, atol=1e-7)


@pytest.mark.parametrize("callback", [None, lambda x: None], ids=["call", "steps"])
@pytest.mark.parametrize("format", ["csr", "coo", "csc", "dia", "bsr", "lil", "dok"])
def test_the_solver_looks_for_the_diagonal_once(format, callback, monkeypatch):
    """Of a plain matrix too: its steps are told of it, as those of `sparse`."""
    told, run = [], _road.run
    monkeypatch.setattr(_road, "run", lambda op, o, meaning, **k: told.append(meaning)
                        or run(op, o, meaning, **k))  # fmt: skip
    A = scipy_sparse.diags_array([np.ones(29), 4 * np.ones(30), np.ones(29)],
                                 offsets=[-1, 0, 1]).asformat(format)  # fmt: skip
    plain = gpuops.jacobi(A, np.ones(30), omega=0.9, device="cpu", callback=callback)
    assert told
    for meaning in told:
        assert meaning["checked"]
        same_bits(meaning["diagonal"], np.full(30, 4.0))
    want = gpuops.jacobi(gpuops.sparse(A), np.ones(30), omega=0.9, device="cpu")
    same_bits(plain.x, want.x)
    same_bits(plain.residuals, want.residuals)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_formats_are_converted_once(format, monkeypatch):
    A, f, x = matrix(30)
    A.sum_duplicates()
    B = scipy_sparse.csr_array(A).asformat(format)
    want = gpuops.jacobi_step(A, f, x)
    S = gpuops.sparse(B)
    monkeypatch.setattr(type(B), "tocsr", None)
    same_bits(gpuops.jacobi_step(S, f, x), want)


def test_indices_are_narrowed_and_arrays_owned():
    A, f, x = matrix(index="i8")
    S = gpuops.sparse(A)
    want = gpuops.jacobi_step(A, f, x)
    assert "int32" in repr(S)
    assert S.shape == (60, 60)
    assert S.nnz == A.nnz
    assert S.dtype == np.float64
    A.data[:], A.indices[:] = 7, 0
    same_bits(gpuops.jacobi_step(S, f, x), want)
    B = S.tocsr()
    B.data[:] = 0
    same_bits(gpuops.jacobi_step(S, f, x), want)
    same_bits(gpuops.jacobi_step(gpuops.sparse(S), f, x), want)


def test_the_structure_is_checked_once(monkeypatch):
    """A broken matrix is found when it is made; then nothing is looked at any more."""
    A = matrix()[0]
    S = gpuops.sparse(A)
    meaning = S.operands()[1]
    S.complete(meaning, S.dtype, True)
    assert meaning["checked"]
    same_bits(meaning["diagonal"], A.diagonal())
    S.complete(meaning := S.operands()[1], S.dtype, False)
    assert "diagonal" not in meaning


@pytest.mark.parametrize("dtype", DTYPES)
def test_another_dtype_than_that_of_f(dtype):
    """The terms are cast first, and add up to the diagonal then."""
    A, f, x = matrix(dtype="f4")
    S = gpuops.sparse(A)
    f = f.astype(dtype)
    y = gpuops.jacobi_step(S, f, x)
    assert y.dtype == f.dtype
    same_bits(y, gpuops.jacobi_step(A, f, x))


@pytest.mark.parametrize(
    ("given", "kept"), [("i4", "f8"), ("?", "f8"), ("f4", "f4"), ("c16", "c16")]
)
def test_dtypes(given, kept):
    assert gpuops.sparse(scipy_sparse.eye_array(4, dtype=given)).dtype == kept


class Tensor:
    """What is asked of a PyTorch tensor with a sparse layout."""

    def __init__(self, A, layout):
        self._A, self.layout, self.shape = A, layout, A.shape

    def to_sparse_csr(self):
        return Tensor(self._A, "torch.sparse_csr")

    def _only_of_csr(self):
        if self.layout != "torch.sparse_csr":
            raise RuntimeError(self.layout)
        return self._A

    def values(self):
        return self._only_of_csr().data

    def col_indices(self):
        return self._only_of_csr().indices.astype("i8")

    def crow_indices(self):
        return self._only_of_csr().indptr.astype("i8")


@pytest.mark.parametrize("layout", ["torch.sparse_csr", "torch.sparse_coo"])
def test_tensors_of_pytorch(layout):
    A, f, x = matrix()
    want = gpuops.jacobi_step(A, f, x)
    same_bits(gpuops.jacobi_step(Tensor(A, layout), f, x), want)
    same_bits(gpuops.jacobi_step(gpuops.sparse(Tensor(A, layout)), f, x), want)


class OnDevice:
    """What is asked of a CuPy matrix in CSR."""

    def __init__(self, A, device):
        parts = A.data, A.indices, A.indptr
        self.shape = A.shape
        self.data, self.indices, self.indptr = (gpuops.to_device(a, device) for a in parts)

    def tocsr(self):
        return self


@EVERY_DEVICE
def test_what_was_looked_at_is_what_is_kept(device, monkeypatch):
    """Another thread may write to the caller's arrays between the two."""
    A, f, x = matrix()
    module = sys.modules[gpuops.SparseMatrix.__module__]
    given, check = OnDevice(A, device), module._check

    def then_spoil(*operands, **words):
        longest = check(*operands, **words)
        gpuops.add(given.indices, np.int32(1 << 20), out=given.indices)
        return longest

    monkeypatch.setattr(module, "_check", then_spoil)
    S = gpuops.sparse(given)
    same_bits(S.tocsr().indices, A.indices)
    same_bits(gpuops.jacobi_step(S, f, x, alpha=0.5), gpuops.jacobi_step(A, f, x, alpha=0.5))
    given.indices = gpuops.to_device(A.indices + 60, device)
    with pytest.raises(ValueError, match=r"sparse: indices\[0\] is .*, expected"):
        gpuops.sparse(given)


@EVERY_DEVICE
def test_a_diagonal_with_a_zero_needs_alpha(device):
    A = scipy_sparse.csr_array(
        ([1.0, 2.0, -2.0, 3.0], [0, 1, 1, 0], [0, 1, 3, 4]), shape=(3, 3)
    )
    S = gpuops.sparse(A, device=device)
    one = np.ones(3)
    same_bits(gpuops.jacobi_step(S, one, one, alpha=0.5), np.array([1.0, 0.5, 2.0]))
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError, match=r"jacobi_step: .* is zero in row 1"):
            gpuops.jacobi_step(S, one, one)


def spoiled(**changes):
    A = matrix()[0]
    for name, (at, value) in changes.items():
        getattr(A, name)[at] = value
    return A


@pytest.mark.parametrize(
    ("A", "error", "sentence"),
    [
        (np.eye(3), TypeError, "sparse: A is a ndarray, expected a sparse matrix of SciPy"),
        (None, TypeError, "sparse: A is a NoneType"),
        (scipy_sparse.eye_array(3, 4), ValueError, r"sparse: expected a square .*\(3, 4\)"),
        (spoiled(indices=(7, 60)), ValueError, r"sparse: indices\[7\] is 60, expected"),
        (spoiled(indices=(7, -1)), ValueError, r"sparse: indices\[7\] is -1, expected"),
        (spoiled(indptr=(60, 1)), ValueError, "sparse: indptr of the CSR matrix A decreases"),
        (spoiled(indptr=(0, 1)), ValueError, r"sparse: indptr\[0\] .* is 1, expected 0"),
    ],
)
def test_bad_matrices(A, error, sentence):
    with pytest.raises(error, match=sentence):
        gpuops.sparse(A)


def test_bad_diagonals_of_the_core():
    """The core believes no diagonal that does not fit."""
    A, f, x = matrix()
    operands = (A.data, A.indices, A.indptr, f, x)
    for diagonal in (np.ones(59), np.ones(60, "f4"), np.ones((60, 1)), np.ones(120)[::2]):
        meaning = {"csr": True, "n": 60, "columns": 60, "checked": True, "diagonal": diagonal}
        with pytest.raises(ValueError, match="jacobi_step: expected the diagonal"):
            _core.run("jacobi_step", operands, meaning, None, ("cpu", 0), None, None)


def test_odd_sizes():
    for n in (0, 1):
        S = gpuops.sparse(scipy_sparse.eye_array(n, format="csr"))
        same_bits(gpuops.jacobi_step(S, np.ones(n), np.zeros(n)), np.ones(n))
    empty = gpuops.sparse(scipy_sparse.csr_array((3, 3)))
    same_bits(gpuops.jacobi_step(empty, np.ones(3), np.ones(3), alpha=1.0), np.zeros(3))


def few_kinds(n, dtype, kinds):
    """Rows of 1 to 5 terms in any order, now and then a column twice: of so many kinds."""
    rng = np.random.default_rng(kinds)
    distances = rng.integers(-2, 3, (kinds, 5))
    distances[:, 0] = 0
    values = random((kinds, 5), dtype, kinds)
    values[:, 0] += 20
    length, kind = rng.integers(1, 6, kinds), rng.integers(0, kinds, n)
    there = np.arange(5) < length[kind][:, None]
    columns = np.clip(np.arange(n)[:, None] + distances[kind], 0, n - 1)
    starts = np.concatenate([[0], np.cumsum(there.sum(1))]).astype("i4")
    parts = values[kind][there], columns[there].astype("i4"), starts
    A = scipy_sparse.csr_matrix((n, n), dtype=dtype)
    A.data, A.indices, A.indptr = parts
    return A


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("device", [name for name in backends() if name != "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kinds", [1, 9, 40, 400])
def test_kinds_of_rows(kinds, dtype, device):
    """Rows alike in all, in their columns only, in nothing: the solver finds out which."""
    for n in (5, 3000):
        A, f = few_kinds(n, dtype, kinds), random(n, dtype, 1)
        own = A.copy()
        own.data = own.data + random(len(own.data), dtype, 2)
        for matrix in (A, own):
            how = {"rtol": 0, "maxiter": 5, "check_every": 2, "omega": 0.5}
            want = gpuops.jacobi(matrix, f, **how, device="cpu")
            got = gpuops.jacobi(matrix, f, **how, device=device, kernel="regular")
            same_bits(got.x, want.x)
            same_bits(got.residuals, want.residuals)


@pytest.mark.parametrize("device", [name for name in backends() if name != "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1500, 5000])
def test_columns_anywhere(n, dtype, device):
    """Rows of no to 5 terms: a leaf that stays with its block reads what other leaves have."""
    rng = np.random.default_rng(n)
    lengths = rng.integers(0, 6, n)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype("i4")
    A = scipy_sparse.csr_matrix((n, n), dtype=dtype)
    A.data, A.indptr = random(starts[-1], dtype, 1), starts
    A.indices = rng.integers(0, n, starts[-1]).astype("i4")
    f, x0 = random(n, dtype, 2), random(n, dtype, 3)
    how = {"rtol": 0, "dtol": np.inf, "maxiter": 4, "alpha": -0.25}
    want = gpuops.jacobi(A, f, x0, **how, device="cpu")
    got = gpuops.jacobi(A, f, x0, **how, device=device, kernel="regular")
    same_bits(got.x, want.x)
    same_bits(got.residuals, want.residuals)


def test_a_diagonal_that_is_kept_has_the_signs_of_its_zeros():
    """Its sum begins with -0, as that of a kernel that looks for it."""
    parts = (complex(-0.0, 5), complex(5, -0.0), complex(-1, -0.0), complex(-0.0, -1))
    for value, one in itertools.product(parts, (complex(-0.0, -0.0), complex(-0.0, 1))):
        A = scipy_sparse.csr_array(np.array([[value]]))
        f, x = np.array([one]), np.array([complex(-0.0, -0.0)])
        want = gpuops.jacobi_step(A, f, x, device="cpu")
        same_bits(gpuops.jacobi_step(gpuops.sparse(A), f, x), want)
