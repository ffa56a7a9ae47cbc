"""stencil and poisson: the bits of the CSR matrix of the same operator."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from engine import backends, note, of_turn, random, same_bits
from jacobi_reference import reference

import gpuops
from gpuops import _core

pytest.importorskip("scipy.sparse")

DTYPES = ("f4", "f8", "c8", "c16")
BOUNDARIES = ("dirichlet", "periodic", "neumann")
GRIDS = [(1,), (2,), (3,), (600,), (1, 1), (1, 7), (7, 1), (2, 2), (5, 300), (3, 4, 5),
         (1, 1, 9), (2, 2, 2), (4, 3, 270)]  # fmt: skip


def operator(grid, bc, dtype, varies):
    terms, n = 2 * len(grid) + 1, int(np.prod(grid))
    coefficients = random((terms, *grid) if varies else (terms,), dtype, 5)
    coefficients[len(grid)] += 9
    return gpuops.stencil(coefficients, grid, bc), random(n, dtype, 1), random(n, dtype, 2)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("bc", BOUNDARIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_the_bits_of_the_csr_matrix(grid, dtype, bc, varies):
    A, f, x = operator(grid, bc, dtype, varies)
    csr = A.tocsr()
    for factor in ({"alpha": -0.125}, {"omega": 0.75}):
        want = gpuops.jacobi_step(csr, f, x, **factor, device="cpu", kernel="naive")
        for level in _core.cpu_levels():
            _core.set_cpu_level(level)
            try:
                y = gpuops.jacobi_step(A, f, x, **factor, device="cpu")
            finally:
                _core.set_cpu_level(None)
            same_bits(y, want)
    F, X = np.stack([f, x, f], 1), np.asfortranarray(np.stack([x, f, f], 1))
    want = gpuops.jacobi_step(csr, F, X, device="cpu", kernel="naive")
    same_bits(gpuops.jacobi_step(A, F, X, device="cpu"), want)
    same_bits(gpuops.jacobi_step(A, f[::-1], x[::-1], device="cpu"),
              gpuops.jacobi_step(csr, f[::-1], x[::-1], device="cpu"))  # fmt: skip


def test_against_the_arithmetic_of_the_page():
    A, f, x = operator((6, 7), "dirichlet", "f4", True)
    same_bits(gpuops.jacobi_step(A, f, x), reference(A.tocsr(), f, x)[0])


@pytest.mark.parametrize("device", backends())
def test_on_every_device(device):
    A, f, x = operator((9, 11), "neumann", "f8", False)
    want = gpuops.jacobi_step(A, f, x, device="cpu")
    same_bits(gpuops.jacobi_step(A, f, x, device=device), want)
    there = gpuops.jacobi_step(A, *(gpuops.to_device(v, device) for v in (f, x)))
    same_bits(there.get(), want)
    solved = gpuops.jacobi(gpuops.poisson((9, 11)), f, maxiter=50, device=device)
    plain = gpuops.jacobi(gpuops.poisson((9, 11)).tocsr(), f, maxiter=50, device="cpu")
    same_bits(solved.x, plain.x)
    same_bits(solved.residuals, plain.residuals)


GPUS = [name for name in backends() if name != "cpu"]


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("bc", BOUNDARIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("grid", [(1,), (70,), (1, 7), (9, 135), (3, 4, 5), (1, 1, 9)], ids=str)
def test_steps_on_a_gpu(grid, dtype, bc, device):
    for varies in (False, True):
        A, f, x = operator(grid, bc, dtype, varies)
        for factor in ({"alpha": -0.125}, {"omega": 0.75}):
            want = gpuops.jacobi_step(A, f, x, **factor, device="cpu")
            how = {**factor, "device": device, "kernel": "stencil"}
            note("jacobi_step", (f,), how)
            same_bits(gpuops.jacobi_step(A, f, x, **how), want)
        F, X = np.stack([f, x], 1)[::-1], np.asfortranarray(np.stack([x, f], 1))
        want = gpuops.jacobi_step(A, F, X, device="cpu")
        same_bits(gpuops.jacobi_step(A, F, X, device=device), want)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("bc", BOUNDARIES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("grid", "every"),
    [((3, 2), 3), ((30, 124), 6), ((131, 9), 13), ((33, 233), 10), ((243, 228), 11)],
)
def test_several_sweeps_at_once(grid, every, dtype, bc, device, everything):
    f = random(grid[0] * grid[1], dtype, 1)
    # A division, one that is a multiplication, and products that are changes of sign.
    terms = ((-1, 0.5, 9.3, -2, 1), (-1, 0.5, 8, -2, 1), (-1, -1, 8, -1, -1))
    cases = itertools.product(terms, ({"alpha": -0.0625}, {"omega": 0.75}))
    turn = (2 * BOUNDARIES.index(bc), DTYPES.index(dtype))
    for coefficients, factor in of_turn(
        cases, 6, everything, "jacobi", device, "blocked", *turn
    ):
        A = gpuops.stencil(np.array(coefficients, dtype), grid, bc)
        how = {"maxiter": every + 2, "check_every": every, "rtol": 0, **factor}
        want = gpuops.jacobi(A, f, **how, device="cpu")
        how |= {"device": device, "kernel": "blocked"}
        note("jacobi", (f,), how)
        got = gpuops.jacobi(A, f, **how)
        same_bits(got.x, want.x)
        same_bits(got.residuals, want.residuals)


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("kernel", ["blocked", "chained"])
@pytest.mark.parametrize("bc", BOUNDARIES)
@pytest.mark.parametrize("length", [130, 132])
def test_zeros_and_what_is_no_number(length, bc, kernel, device):
    """Signs of zero, overflow and NaN are those of the CPU, where a product is none too."""
    f, x = np.zeros(40 * length, "f4"), np.zeros(40 * length, "f4")
    x[::3] = f[::7] = -0.0
    x[2000:5200:401] = [3e38, -3e38, np.inf, np.nan, 1e-45, -1e-39, 2e38, -np.inf]
    x[length - 1] = x[5 * length] = np.inf
    A = gpuops.stencil(np.array([-1, -1, 4, -1, -1], "f4"), (40, length), bc)
    how = {"x0": x, "maxiter": 6, "check_every": 5, "rtol": 0, "alpha": -0.25}
    want = gpuops.jacobi(A, f, **how, device="cpu")
    got = gpuops.jacobi(A, f, **how, device=device, kernel=kernel)
    same_bits(got.x, want.x)
    same_bits(got.residuals, want.residuals)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("bc", BOUNDARIES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("grid", [(5000,), (37, 130), (3, 700), (4, 5, 272)], ids=str)
def test_steps_that_sum_their_squares(grid, dtype, bc, device):
    """Leaves begin anywhere on a line, and end on another."""
    A, f, _ = operator(grid, bc, dtype, False)
    for factor in ({"alpha": -0.0625}, {"omega": 0.75}):
        how = {"maxiter": 3, "rtol": 0, **factor}
        want = gpuops.jacobi(A, f, **how, device="cpu")
        got = gpuops.jacobi(A, f, **how, device=device, kernel="chained")
        same_bits(got.x, want.x)
        same_bits(got.residuals, want.residuals)


@pytest.mark.parametrize("device", GPUS)
def test_lost_squares_are_found_in_the_residual(device):
    """Of float64 a sum of squares that underflows is taken again, scaled."""
    A, f = gpuops.poisson((40, 70)), 1e-200 * random(2800, "f8", 1)
    how = {"maxiter": 3, "rtol": 0}
    want = gpuops.jacobi(A, f, **how, device="cpu")
    got = gpuops.jacobi(A, f, **how, device=device, kernel="chained")
    same_bits(got.residuals, want.residuals)


@pytest.mark.parametrize("device", GPUS)
def test_sweeps_end_at_the_check(device):
    A, f = gpuops.stencil(np.array([1, 1, 16, 1, 1], "f4"), (20, 30)), random(600, "f4", 1)
    how = {"check_every": 4, "rtol": 1e-4}
    want = gpuops.jacobi(A, f, **how, device="cpu")
    got = gpuops.jacobi(A, f, **how, device=device, kernel="blocked")
    assert got.converged
    assert got.iterations == want.iterations == 8
    same_bits(got.x, want.x)
    same_bits(got.residuals, want.residuals)


@pytest.mark.parametrize("device", GPUS)
def test_what_gpu_kernels_refuse(device):
    A, f, _ = operator((4, 5), "dirichlet", "f4", True)
    for kernel in ("naive", "tiled", "warp", "block", "column", "balanced"):
        with pytest.raises(gpuops.KernelRefusedError):
            gpuops.jacobi_step(A, f, f, device=device, kernel=kernel)
    for kernel in ("naive", "blocked", "regular", "resident"):
        with pytest.raises(gpuops.KernelRefusedError):
            gpuops.jacobi(A, f, device=device, kernel=kernel)
    with pytest.raises(gpuops.KernelRefusedError, match="takes a stencil, got a matrix"):
        gpuops.jacobi_step(A.tocsr(), f, f, device=device, kernel="stencil")


def test_poisson_is_the_laplacian():
    A = gpuops.poisson((3, 4)).tocsr().toarray()
    line = [2 * np.eye(m) - np.eye(m, k=1) - np.eye(m, k=-1) for m in (3, 4)]
    np.testing.assert_array_equal(A, np.kron(line[0], np.eye(4)) + np.kron(np.eye(3), line[1]))
    for bc in ("periodic", "neumann"):
        A = gpuops.poisson((3, 4, 5), bc)
        np.testing.assert_array_equal(A.tocsr() @ np.ones(60), np.zeros(60))
        np.testing.assert_array_equal(A.tocsr().toarray(), A.tocsr().toarray().T)
    columns = gpuops.poisson((3, 4, 5)).tocsr()
    assert all(
        (np.diff(columns.indices[a:b]) > 0).all()
        for a, b in zip(columns.indptr, columns.indptr[1:], strict=False)
    )


def test_other_dtypes_of_f():
    A, f, x = operator((5, 6), "dirichlet", "f4", True)
    f = f.astype("c16")
    same_bits(gpuops.jacobi_step(A, f, x), gpuops.jacobi_step(A.tocsr(), f, x))
    assert gpuops.stencil([1, 4, 1], 5).dtype == np.float64


def test_a_zero_on_the_diagonal_needs_alpha():
    for A in (gpuops.stencil([1.0, 0, 1], 4), gpuops.poisson(1, "periodic"),
              gpuops.stencil([-1.0, 1, -1], 4, "neumann")):  # fmt: skip
        f = np.ones(A.shape[0])
        gpuops.jacobi_step(A, f, f, alpha=0.5)
        for _ in range(2):
            with pytest.raises(
                np.linalg.LinAlgError, match=r"^jacobi_step: the diagonal of A is zero in row 0"
            ):
                gpuops.jacobi_step(A, f, f)
        with pytest.raises(np.linalg.LinAlgError, match=r"^jacobi: the diagonal of A is zero"):
            gpuops.jacobi(A, f)


def test_no_points():
    A = gpuops.poisson((0, 4))
    assert gpuops.jacobi_step(A, np.ones(0), np.ones(0)).shape == (0,)


def test_a_shape_may_be_an_array():
    for shape in (np.array([2, 3]), [2, 3], (np.int8(2), 3)):
        assert gpuops.poisson(shape).grid == (2, 3)
    assert gpuops.poisson(np.array(4)).grid == (4,)


def test_what_it_owns():
    k = np.array([-1.0, 4.0, -1.0])
    A = gpuops.stencil(k, 5)
    k[:] = 0
    assert A.coefficients[1] == 4.0
    with pytest.raises(ValueError, match="read-only"):
        A.coefficients[0] = 1.0


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: gpuops.poisson(()), ValueError, r"poisson: shape is \(\), expected 1 to 3"),
        (lambda: gpuops.poisson((2, 2, 2, 2)), ValueError, "poisson: shape is"),
        (lambda: gpuops.poisson((2, -1)), ValueError, "poisson: shape is"),
        (lambda: gpuops.poisson((2**40, 2**40)), ValueError, r"fewer than 2\^62 points"),
        (lambda: gpuops.poisson((2, 2.5)), TypeError, "poisson: an extent of shape"),
        (lambda: gpuops.poisson(4, "open"), ValueError, "poisson: bc is 'open', expected"),
        (lambda: gpuops.poisson(4, dtype="U3"), TypeError, "poisson: the dtype is <U"),
        (lambda: gpuops.poisson(4, dtype={"a": 1}), TypeError, "poisson: dtype: "),
        (lambda: gpuops.stencil([1, 2], 4), ValueError,
         r"stencil: coefficients have shape \(2,\), expected \(3,\) or \(3, 4\)"),
        (lambda: gpuops.stencil(np.ones((5, 2, 3)), (3, 2)), ValueError, r"\(5, 3, 2\)"),
        (lambda: gpuops.jacobi_step(gpuops.poisson(4), np.ones(5), np.ones(5)), ValueError,
         "jacobi_step: expected f of shape .* n = 4"),
        (lambda: gpuops.jacobi_step(gpuops.poisson(4), np.ones(4), np.ones(4), kernel="naive",
                                    device="cpu"), gpuops.KernelRefusedError, "got a stencil"),
    ],
)  # fmt: skip
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [({"grid": (2, 3)}, "expected 5 coefficients"), ({"grid": (2, 2, 2, 2)}, "1 to 3 axes"),
     ({"grid": (-3,)}, "an extent of the grid is -3"), ({"grid": (3,), "bc": 9}, "boundary")],
)  # fmt: skip
def test_the_core_believes_nothing(given, sentence):
    operands = np.ones(3), np.ones(3), np.ones(3)
    with pytest.raises(ValueError, match=sentence):
        _core.run(
            "jacobi_step", operands, {"csr": False, **given}, None, ("cpu", 0), None, None
        )
