"""jacobi_step: every kernel against the arithmetic of docs/numerics.md, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from engine import (
    LAYOUTS,
    attempt,
    backends,
    is_conforming,
    layout,
    random,
    rows,
    same_bits,
)
from jacobi_reference import fma, reference

import gpuops
from gpuops import _core

pytestmark = pytest.mark.sampled(every=2)

sparse = pytest.importorskip("scipy.sparse")

DTYPES = ("f4", "f8", "c8", "c16")
EVERY_ROW = pytest.mark.parametrize(("device", "kernel"), rows("jacobi_step"))
EVERY_DEVICE = pytest.mark.parametrize("device", backends())


def test_reference_fma():
    one = np.float32(1 + 2**-12)
    assert fma(one, one, np.float32(-1)) == np.float32(2**-11 + 2**-24)
    one = np.float64(1 + 2**-30)
    assert fma(one, one, np.float64(-1)) == 2.0**-29 + 2.0**-60
    assert np.signbit(fma(np.float64(-0.0), np.float64(1), np.float64(-0.0)))


# ---- systems ----


def system(n, dtype, seed=0, special=False):
    """A dense A with a diagonal that is not zero, f and x."""
    A, f, x = (
        random(shape, dtype, seed + i, special=special and i != 0)
        for i, shape in enumerate(((n, n), (n,), (n,)))
    )
    A[np.arange(n), np.arange(n)] += 3
    return A, f, x


def csr_system(n, dtype, seed=0, index="i4", longest=7):
    """CSR with empty, unsorted and duplicated columns; row 1 is the longest."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 7, n)
    lengths[1 % n] = longest
    indptr = np.concatenate([[0], np.cumsum(lengths + 1)]).astype(index)
    indices = rng.integers(0, n, indptr[-1]).astype(index)
    indices[indptr[:-1]] = np.arange(n)  # a term on the diagonal
    data = random(len(indices), dtype, seed)
    data[indptr[:-1]] += 3
    A = sparse.csr_matrix((data, indices, indptr), shape=(n, n))
    A.indptr, A.indices = indptr, indices  # SciPy narrows the indices where it can
    return A, random(n, dtype, seed + 1), random(n, dtype, seed + 2)


def close(y, want):
    tolerance = 1e-3 if y.dtype.itemsize == (8 if y.dtype.kind == "c" else 4) else 1e-10
    np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance)


def compare(device, kernel, y, want):
    if is_conforming("jacobi_step", device, kernel):
        same_bits(y, want)
    else:
        close(y, want)


FACTORS = pytest.mark.parametrize("factor", [{}, {"omega": 0.6}, {"alpha": -0.1}], ids=str)


@pytest.mark.sampled
@FACTORS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 31, 127, 128, 129, 200])
@EVERY_ROW
def test_dense(device, kernel, n, dtype, factor):
    A, f, x = system(n, dtype)
    only = range(n) if n < 40 else (0, 1, n // 2, n - 1)
    y = attempt(gpuops.jacobi_step, A, f, x, **factor, device=device, kernel=kernel)
    assert y.shape == x.shape
    compare(device, kernel, y[list(only)], reference(A, f, x, **factor, only=only)[0])


LENGTHS = pytest.mark.parametrize(
    ("n", "longest"), [(1, 0), (20, 9), (40, 7), (40, 127), (40, 128), (300, 129)]
)


@pytest.mark.sampled
@FACTORS
@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("dtype", DTYPES)
@LENGTHS
@EVERY_ROW
def test_csr(device, kernel, n, longest, dtype, index, factor):
    A, f, x = csr_system(n, dtype, index=index, longest=longest)
    only = range(n) if n < 50 else (0, 1, 2, n - 1)
    y = attempt(gpuops.jacobi_step, A, f, x, **factor, device=device, kernel=kernel)
    compare(device, kernel, y[list(only)], reference(A, f, x, **factor, only=only)[0])


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("dtype", DTYPES)
@EVERY_ROW
def test_csr_with_several_leaves(device, kernel, dtype):
    A, f, x = csr_system(50, dtype, longest=4500)
    y = attempt(gpuops.jacobi_step, A, f, x, device=device, kernel=kernel)
    compare(device, kernel, y[:4], reference(A, f, x, only=range(4))[0])


@EVERY_ROW
def test_csr_of_many_rows(device, kernel):
    """More rows than a block takes, with blocks of short, long and no rows at all."""
    n = 3000
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 9, n)
    lengths[700:1000] = 0
    lengths[1500:1520] = 200
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype("i4")
    indices = rng.integers(0, n, indptr[-1]).astype("i4")
    A = sparse.csr_matrix((random(len(indices), "f4", 1), indices, indptr), shape=(n, n))
    f, x = random(n, "f4", 2), random(n, "f4", 3)
    y = attempt(gpuops.jacobi_step, A, f, x, alpha=2.0, device=device, kernel=kernel)
    compare(device, kernel, y, reference(A, f, x, alpha=2.0)[0])


@pytest.mark.parametrize("dtype", DTYPES)
@EVERY_ROW
def test_csr_of_all_elements_equals_dense(device, kernel, dtype):
    A, f, x = system(150, dtype)
    stored = sparse.csr_array(A)
    if stored.nnz == A.size:
        y = attempt(gpuops.jacobi_step, stored, f, x, device=device, kernel=kernel)
        same_bits(y, gpuops.jacobi_step(A, f, x, device="cpu"))


def test_an_empty_row_sums_to_positive_zero():
    A = sparse.csr_matrix((2, 2), dtype="f8")
    f, x = np.array([-0.0, 0.0]), np.array([-0.0, -0.0])
    for alpha in (1.0, -1.0):
        y = gpuops.jacobi_step(A, f, x, alpha=alpha, device="cpu")
        same_bits(y, reference(A, f, x, alpha=alpha)[0])


# ---- layouts, columns, outputs ----


@pytest.mark.sampled
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@EVERY_ROW
def test_layouts(device, kernel, dtype, name):
    A, f, x = (layout(v, name) for v in system(67, dtype))
    native = [np.ascontiguousarray(v).astype(dtype) for v in (A, f, x)]
    y = attempt(gpuops.jacobi_step, A, f, x, alpha=0.3, device=device, kernel=kernel)
    only = (0, 66)
    compare(device, kernel, y[list(only)], reference(*native, alpha=0.3, only=only)[0])


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["plain", "strided", "negative", "transposed", "broadcast"])
@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 4, 11])
@EVERY_ROW
def test_columns(device, kernel, k, csr, name):
    """Each column is a system of its own."""
    A = csr_system(70, "f4", longest=150)[0] if csr else layout(system(70, "f4")[0], name)
    f, x = (layout(random((70, k), "f4", seed), name) for seed in (1, 2))
    y = attempt(gpuops.jacobi_step, A, f, x, alpha=0.3, device=device, kernel=kernel)
    assert y.shape == (70, k)
    for c in range(k):
        one = gpuops.jacobi_step(A, f[:, c], x[:, c], alpha=0.3, device="cpu", kernel="naive")
        compare(device, kernel, y[:, c], one)


@pytest.mark.parametrize("dtype", DTYPES)
@EVERY_ROW
def test_special_values(device, kernel, dtype):
    if not is_conforming("jacobi_step", device, kernel):
        pytest.skip("infinities cancel in the order of the sum")
    A, f, x = system(33, dtype, special=True)
    for factor in ({"alpha": 0.25}, {"omega": 0.7}):
        y = attempt(gpuops.jacobi_step, A, f, x, **factor, device=device, kernel=kernel)
        same_bits(y, reference(A, f, x, **factor)[0])
    x = np.zeros(33, dtype)
    tiny, x = (A * 1e-30).astype(dtype), f * x.dtype.type(1e-9)
    y = attempt(gpuops.jacobi_step, tiny, f, x, device=device, kernel=kernel)
    same_bits(y, reference(tiny, f, x)[0])


@EVERY_ROW
def test_complex_quotient_does_not_overflow(device, kernel):
    A = np.diag(np.array([3e30 + 4e30j, 1e-30 - 2e-30j, 5j, 2], "c8"))
    f, x = np.array([1e30, 1e-30j, 1, 3 - 1j], "c8"), np.zeros(4, "c8")
    y = attempt(gpuops.jacobi_step, A, f, x, device=device, kernel=kernel)
    compare(device, kernel, y, reference(A, f, x)[0])
    np.testing.assert_allclose(y, f / np.diag(A), rtol=1e-6)


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("shape", [(50,), (50, 3)])
@EVERY_ROW
def test_residual(device, kernel, shape, csr):
    """The second output, which the solver asks the core for."""
    A = csr_system(50, "f8")[0] if csr else system(50, "f8")[0]
    f, x = random(shape, "f8", 1), random(shape, "f8", 2)
    operands = (A.data, A.indices, A.indptr, f, x) if csr else (A, f, x)
    residual = np.empty(shape)
    meaning = {"csr": csr, "n": 50, "columns": 50, "alpha": 0.5, "residual": residual}

    def jacobi_step(device, kernel):
        return _core.run("jacobi_step", operands, meaning, None, (device, 0), kernel, None)

    y = attempt(jacobi_step, device=device, kernel=kernel)
    for c in range(f.size // 50):
        fc, xc, yc, rc = (v.reshape(50, -1)[:, c] for v in (f, x, y, residual))
        want = reference(A, fc, xc, alpha=0.5)
        compare(device, kernel, yc, want[0])
        compare(device, kernel, rc, want[1])


@pytest.mark.parametrize("csr", [False, True])
@EVERY_ROW
def test_nothing_to_do(device, kernel, csr):
    A = sparse.csr_matrix((0, 0)) if csr else np.empty((0, 0))
    for shape in ((0,), (0, 3)):
        y = attempt(gpuops.jacobi_step, A, np.empty(shape), np.empty(shape), device=device,
                    kernel=kernel)  # fmt: skip
        assert y.shape == shape


@EVERY_DEVICE
def test_out(device):
    A, f, x = system(20, "f4")
    want = gpuops.jacobi_step(A, f, x, device="cpu")
    for out in (np.empty(20, "f4"), np.empty(40, "f4")[::-2], np.empty(20, "f8")):
        assert gpuops.jacobi_step(A, f, x, out=out, device=device) is out
        np.testing.assert_array_equal(out, want)
    for alias in (0, 1, 2):
        operands = [v.copy() for v in (A, f, x)]
        out = operands[alias] if alias else operands[0][3]
        gpuops.jacobi_step(*operands, out=out, device=device)
        same_bits(out, want)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_threads_or_instructions(dtype, threads):
    A, f, x = system(333, dtype)
    S, g, y = csr_system(900, dtype, longest=300)
    want = gpuops.jacobi_step(A, f, x, device="cpu"), gpuops.jacobi_step(S, g, y, device="cpu")
    before = _core.threads()
    try:
        _core.set_threads(threads)
        for level in _core.cpu_levels():
            _core.set_cpu_level(level)
            same_bits(gpuops.jacobi_step(A, f, x, device="cpu"), want[0])
            same_bits(gpuops.jacobi_step(S, g, y, device="cpu"), want[1])
    finally:
        _core.set_threads(before)
        _core.set_cpu_level(None)


# ---- what goes in ----


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_sparse_formats(format):
    A, f, x = csr_system(30, "f8")
    A.sum_duplicates()
    want = gpuops.jacobi_step(A, f, x)
    for kind in (sparse.csr_matrix, sparse.csr_array):
        same_bits(gpuops.jacobi_step(kind(A).asformat(format), f, x), want)


@pytest.mark.parametrize(
    ("dtypes", "want"),
    [(("i4", "i8", "?"), "f8"), (("f4", "f4", "f4"), "f4"), (("f2", "f2", "f2"), "f4"),
     (("i2", "f4", "f4"), "f4"), (("f4", "f8", "f4"), "f8"), (("c8", "f4", "f4"), "c8"),
     (("f8", "c8", "f8"), "c16"), (("i1", "i1", "c8"), "c8"), ((">f4", "<f4", "f4"), "f4")],
)  # fmt: skip
def test_promotion(dtypes, want):
    A, f, x = (np.ones(s).astype(d) for s, d in zip(((3, 3), (3,), (3,)), dtypes, strict=True))
    assert gpuops.jacobi_step(A, f, x).dtype == np.dtype(want)
    if dtypes[0] not in ("f2", ">f4"):  # which SciPy's formats do not know
        S = sparse.csr_matrix(np.ones((3, 3), dtypes[0]))
        assert gpuops.jacobi_step(S, f, x).dtype == np.dtype(want)


def test_factors_take_the_dtype_of_the_arrays():
    A, f, x = system(9, "f4")
    y = gpuops.jacobi_step(A, f, x, alpha=0.1)
    same_bits(gpuops.jacobi_step(A, f, x, alpha=np.float64(0.1)), y)
    assert gpuops.jacobi_step(A, f, x, alpha=0.1j).dtype == np.complex64
    same_bits(gpuops.jacobi_step(A, f, x, omega=1), gpuops.jacobi_step(A, f, x))


def test_meaning():
    """The formulas of the docstring, in plain NumPy."""
    A, f, x = system(50, "f8")
    S = sparse.csr_array(A)
    for matrix in (A, S, A.tolist()):
        y = gpuops.jacobi_step(matrix, f, x, alpha=-0.1)
        np.testing.assert_allclose(y, x - 0.1 * (A @ x - f), rtol=1e-12, atol=1e-12)
        y = gpuops.jacobi_step(matrix, f, x, omega=0.7)
        np.testing.assert_allclose(
            y, x + 0.7 * (f - A @ x) / np.diag(A), rtol=1e-12, atol=1e-12
        )


GOOD = np.eye(9), np.ones(9), np.ones(9)


def broken(**changes):
    """A CSR matrix whose arrays were changed after SciPy had checked them."""
    A = sparse.csr_matrix(np.eye(9) + np.eye(9, k=1))
    for name, (at, value) in changes.items():
        getattr(A, name)[at] = value
    return A


def shortened(name):
    A = broken()
    setattr(A, name, getattr(A, name)[:-1])
    return A


BAD = [
    ((np.ones((3, 4)), np.ones(3), np.ones(3)), {}, ValueError,
     r"expected a square matrix A, got an array of shape \(3, 4\)"),
    ((np.ones(3), np.ones(3), np.ones(3)), {}, ValueError, r"square matrix A.*\(3,\)"),
    ((np.ones((2, 3, 3)), np.ones(3), np.ones(3)), {}, ValueError, r"\(2, 3, 3\)"),
    ((sparse.csr_matrix((3, 4)), np.ones(3), np.ones(3)), {}, ValueError, r"\(3, 4\)"),
    ((np.eye(9), np.ones(8), np.ones(9)), {}, ValueError, r"expected f of .*n = 9.*\(8,\)"),
    ((np.eye(9), np.ones(9), np.ones(10)), {}, ValueError, r"expected x of shape .*\(10,\)"),
    ((np.eye(9), np.ones((9, 1, 1)), np.ones(9)), {}, ValueError, r"f of shape"),
    ((np.eye(9), np.ones(9), np.ones((9, 2))), {}, ValueError,
     r"expected f and x of one shape, got \(9,\) and \(9, 2\)"),
    ((np.eye(9), np.ones((9, 3)), np.ones((9, 2))), {}, ValueError, r"\(9, 3\) and \(9, 2\)"),
    ((np.eye(9), 1.0, np.ones(9)), {}, ValueError, r"expected f of shape"),
    (GOOD, {"alpha": 1.0, "omega": 0.5}, ValueError, "alpha and omega are both given"),
    (GOOD, {"alpha": "1"}, TypeError, "alpha is a number"),
    (GOOD, {"omega": "1"}, TypeError, "omega is a number"),
    (GOOD, {"omega": [1.0]}, TypeError, "omega is a number"),
    (GOOD, {"kernel": "nonsense"}, ValueError, "nonsense"),
    (GOOD, {"out": np.empty(8)}, ValueError, "shape"),
    (GOOD, {"out": np.empty(9, int)}, TypeError, "out"),
    (GOOD, {"out": np.broadcast_to(np.zeros(1), 9)}, ValueError, "read-only"),
    ((None, np.ones(9), np.ones(9)), {}, TypeError, "A is None"),
    ((np.eye(9), "f", np.ones(9)), {}, TypeError, "f is 'f'"),
    ((np.eye(9).astype(object), np.ones(9), np.ones(9)), {}, TypeError, "A has dtype object"),
    ((np.ma.array(np.eye(9)), *GOOD[1:]), {}, TypeError, "A is a masked array"),
    ((np.eye(9), sparse.csr_matrix(np.ones((9, 1))), np.ones(9)), {}, TypeError,
     "f is a sparse matrix"),
    ((np.diag([1.0, 0, 1]), np.ones(3), np.ones(3)), {}, np.linalg.LinAlgError, "in row 1"),
    ((np.diag([1.0, -0.0, 0]), np.ones(3), np.ones(3)), {"omega": 0.5}, np.linalg.LinAlgError,
     "zero in row 1"),
    ((sparse.csr_matrix(np.eye(9, k=1)), *GOOD[1:]), {}, np.linalg.LinAlgError,
     "missing in row 0"),
    ((sparse.csr_matrix(([1.0, -1.0, 2.0], [0, 0, 1], [0, 2, 3])), np.ones(2), np.ones(2)), {},
     np.linalg.LinAlgError, "zero in row 0"),
    ((broken(indices=(16, 9)), *GOOD[1:]), {}, ValueError,
     r"indices\[16\] is 9, expected 0 <= index < 9"),
    ((broken(indices=(3, -1)), *GOOD[1:]), {"alpha": 1.0}, ValueError, r"indices\[3\] is -1"),
    ((broken(indptr=(0, 1)), *GOOD[1:]), {}, ValueError, r"indptr\[0\].* is 1, expected 0"),
    ((broken(indptr=(3, 2**31 - 1)), *GOOD[1:]), {}, ValueError, r"decreases: indptr\[4\]"),
    ((broken(indptr=(9, 99)), *GOOD[1:]), {}, ValueError, "ends at 99, expected 17"),
    ((broken(indptr=(5, -4)), *GOOD[1:]), {}, ValueError, r"decreases: indptr\[5\] is -4"),
    ((shortened("indptr"), *GOOD[1:]), {}, ValueError, r"indptr of length n \+ 1 .* n = 9"),
    ((shortened("data"), *GOOD[1:]), {}, ValueError, "indices and data .* got 17 and 16"),
    ((shortened("indices"), *GOOD[1:]), {}, ValueError, "indices and data .* got 16 and 17"),
]  # fmt: skip


@pytest.mark.parametrize(("operands", "options", "error", "sentence"), BAD)
@EVERY_DEVICE
def test_bad_input(device, operands, options, error, sentence):
    out = options.get("out", np.full(np.shape(operands[2]), 7.0))
    before = np.array(out)
    with pytest.raises(error, match=sentence) as caught:
        gpuops.jacobi_step(*operands, **{"out": out, "device": device, **options})
    assert type(caught.value) is error
    assert str(caught.value).startswith("jacobi_step: ")
    np.testing.assert_array_equal(out, before)
    same_bits(gpuops.jacobi_step(*GOOD, device=device), np.ones(9))
