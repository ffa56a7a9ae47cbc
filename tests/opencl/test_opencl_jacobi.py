"""jacobi_step and the solver by every OpenCL kernel, against the bits of docs/numerics.md."""

from __future__ import annotations

import numpy as np
import pytest
import test_jacobi as solver
import test_jacobi_step as steps
import test_stencils as stencils
from engine import LAYOUTS, same_bits
from opencl_machine import needs_build, opencl, rows, said  # noqa: F401

import gpuops

pytestmark = [needs_build, pytest.mark.usefixtures("opencl"), pytest.mark.sampled(every=2)]

STEPS = pytest.mark.parametrize(("device", "kernel"), rows("jacobi_step"))
KINDS = pytest.mark.parametrize("dtype", steps.DTYPES)
FACTORS = pytest.mark.parametrize("factor", [{}, {"omega": 0.6}, {"alpha": -0.1}], ids=str)


@pytest.mark.sampled(every=23)
@FACTORS
@KINDS
@STEPS
def test_dense(device, kernel, dtype, factor):
    for n in (1, 31, 128, 129):
        steps.test_dense(device, kernel, n, dtype, factor)


@pytest.mark.sampled(every=29)
@FACTORS
@pytest.mark.parametrize("index", ["i4", "i8"])
@KINDS
@STEPS
def test_csr(device, kernel, dtype, index, factor):
    for n, longest in ((1, 0), (20, 9), (40, 128), (300, 129)):
        steps.test_csr(device, kernel, n, longest, dtype, index, factor)
    if not factor:
        steps.test_csr_with_several_leaves(device, kernel, dtype)
        steps.test_csr_of_all_elements_equals_dense(device, kernel, dtype)


@pytest.mark.sampled(every=24)
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("bc", stencils.BOUNDARIES)
@KINDS
def test_stencils(dtype, bc, varies):
    for grid in ((2, 2), (9, 35)) if varies else ((1,), (70,), (3, 4, 5)):
        A, f, x = stencils.operator(grid, bc, dtype, varies)
        F, X = np.stack([f, x], 1)[::-1], np.asfortranarray(np.stack([x, f], 1))
        for factor, g, y in (({"alpha": -0.125}, f, x), ({}, F, X)):
            want = gpuops.jacobi_step(A, g, y, **factor, device="cpu")
            got = gpuops.jacobi_step(A, g, y, **factor, device="opencl", kernel="rows")
            same_bits(got, want)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("grid", "bc", "dtype", "varies"),
    [((70,), "periodic", "f4", False), ((4, 41), "neumann", "f4", True),
     ((3, 4, 30), "dirichlet", "f4", False), ((2, 40), "dirichlet", "f8", True)], ids=str,
)  # fmt: skip
def test_runs_of_a_stencil(grid, bc, dtype, varies):
    """Rows with the same terms, in vectors along the last axis."""
    A, f, x = stencils.operator(grid, bc, dtype, varies)
    for factor in ({"alpha": -0.125}, {"omega": 0.75}):
        got, want = (gpuops.jacobi_step(A, f, x, **factor, device=d) for d in ("opencl", "cpu"))
        same_bits(got, want)
    same_solution(*(gpuops.jacobi(A, f, maxiter=2, device=d) for d in ("opencl", "cpu")))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("n", "dtype"), [(2100, "f4"), (530, "f8"), (17, "f4")])
def test_contiguous_columns(n, dtype):
    """Strips of rows, of which some are no whole vector; one leaf of terms, and two."""
    A, f, x = steps.system(n, dtype)
    A = np.asfortranarray(A)
    for factor in ({"alpha": -0.125}, {}):
        got = gpuops.jacobi_step(A, f, x, **factor, device="opencl")
        same_bits(got, gpuops.jacobi_step(A, f, x, **factor, device="cpu"))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("n", "dtype"), [(2100, "f4"), (4610, "f8"), (36, "f4")])
def test_rows_in_vectors(n, dtype):
    """Several rows a work-group, of which the last has fewer; leaves that end early."""
    A, f, x = steps.system(n, dtype)
    F, X = (np.asfortranarray(np.stack([v, v[::-1]], 1)) for v in (f, x))
    for g, y, factor in ((f, x, {"alpha": -0.125}), (F, X, {})):
        for params in ({}, {"held": 2, "group": 64}):
            got = gpuops.jacobi_step(
                A, g, y, **factor, device="opencl", kernel="group", params=params
            )
            same_bits(got, gpuops.jacobi_step(A, g, y, **factor, device="cpu"))


@pytest.mark.sampled(every=12)
@KINDS
@STEPS
def test_special_values(device, kernel, dtype):
    steps.test_special_values(device, kernel, dtype)


@pytest.mark.sampled(every=7)
@pytest.mark.parametrize("name", LAYOUTS)
@STEPS
def test_layouts(device, kernel, name):
    steps.test_layouts(device, kernel, "f4", name)
    if name in ("plain", "strided", "negative", "transposed", "broadcast"):
        for k in (0, 1, 4):
            steps.test_columns(device, kernel, k, False, name)


@pytest.mark.sampled(every=3)
@STEPS
def test_columns_residuals_and_nothing(device, kernel):
    steps.test_csr_of_many_rows(device, kernel)
    steps.test_complex_quotient_does_not_overflow(device, kernel)
    for k in (0, 1, 4):
        steps.test_columns(device, kernel, k, True, "transposed")
    for csr in (False, True):
        steps.test_nothing_to_do(device, kernel, csr)
        for shape in ((50,), (50, 3)):
            steps.test_residual(device, kernel, shape, csr)


# ---- the solver ----

SOLVERS = pytest.mark.parametrize(("device", "kernel"), rows("jacobi"))


def same_solution(got, want):
    same_bits(got.x, want.x)
    same_bits(got.residuals, want.residuals)
    assert (got.iterations, got.reason) == (want.iterations, want.reason)


@pytest.mark.sampled(every=17)
@pytest.mark.parametrize("form", ["dense", "csr", "stencil"])
@KINDS
@SOLVERS
def test_the_solver(device, kernel, dtype, form):
    """Columns that converge, that diverge, that are 0; checks after some steps."""
    A, f = solver.dominant(60, dtype) if form == "dense" else solver.laplace(9, dtype)
    if form == "stencil":
        A = gpuops.stencil(np.array([-1, -1, 4, -1, -1], dtype), (9, 9))
    F = np.stack([f, 0 * f, f * 3, f], 1)
    F[3, 3] = np.inf
    for rhs, how in ((f, {"maxiter": 5, "rtol": 0.0}), (F, {"rtol": 1e-3, "check_every": 4})):
        want = gpuops.jacobi(A, rhs, **how, device="cpu")
        same_solution(gpuops.jacobi(A, rhs, **how, device=device, kernel=kernel), want)


@pytest.mark.sampled(every=2)
@SOLVERS
def test_norms_that_lose_no_squares(device, kernel):
    A, f = solver.dominant(2500, "f8")
    for scale in (1e-200, 1e200, 1e-310, 1.0):
        how = {"maxiter": 2, "rtol": 0.0, "alpha": 1e-9}
        want = gpuops.jacobi(A, f * scale, **how, device="cpu")
        same_solution(gpuops.jacobi(A, f * scale, **how, device=device, kernel=kernel), want)


def test_solver_ends_and_goes_on():
    for k in (None, 3):
        solver.test_converges("opencl", k)
    for check in (solver.test_x0_is_read_only, solver.test_diverges, solver.test_callback,
                  solver.test_nothing_to_do, solver.test_no_right_hand_sides):  # fmt: skip
        check("opencl")


@pytest.mark.sampled
def test_devices_that_lack_something(everything):
    """Memory of the host, float64, correctly rounded quotients of float32."""
    shown = """
import test_opencl_jacobi as tests
A, f = tests.solver.laplace(40, "f4")
tests.same_solution(gpuops.jacobi(A, f, maxiter=7, device="opencl"),
                    gpuops.jacobi(A, f, maxiter=7, device="cpu"))
A, f = gpuops.poisson((3, 30), dtype="f4"), np.linspace(1, 2, 90, dtype="f4")
assert (gpuops.jacobi_step(A, f, f, omega=0.7, device="opencl")
        == gpuops.jacobi_step(A, f, f, omega=0.7, device="cpu")).all()
p = np.random.default_rng(0).random((700, 3), "f4")
for kernel in gpuops.kernels("rdf", "opencl")[first:]:
    got = gpuops.rdf(p, r_max=0.2, bins=9, box=(1, 1, 1), device="opencl", kernel=kernel.name)
    assert (got.counts == gpuops.rdf(p, r_max=0.2, bins=9, box=(1, 1, 1)).counts).all()
"""
    for lacking in ("quotients", "sharing")[: 2 if everything else 1]:
        first = f"first = {2 if everything else -1}"
        assert said(first + shown, GPUOPS_FAULT=f"opencl.{lacking}:1:forever") == ""
    text = said("""
name = gpuops.devices("opencl")[0].name
A, f, p = np.eye(3, dtype="f4"), np.ones(3, "f4"), np.ones((3, 3))
for call in (lambda: gpuops.jacobi_step(A.astype("c16"), f, f, device="opencl"),
             lambda: gpuops.jacobi(A, f, device="opencl"),
             lambda: gpuops.rdf(p, 1.0, norm="none", device="opencl")):
    try: call()
    except TypeError as error: print(str(error).replace(name, "NAME"))
print(gpuops.jacobi_step(A, f, f, device="opencl"))
for kernel in (None, "guessed", "cells"):
    how = {"norm": "none", "device": "opencl", "kernel": kernel}
    try: print(gpuops.rdf(p.astype("f4"), 1.0, 2, **how).counts)
    except gpuops.KernelRefusedError as error: print("needs float64 for places" in str(error))
""", GPUOPS_FAULT="opencl.double:1:forever")  # fmt: skip
    assert text.splitlines() == [
        "jacobi_step: NAME has no float64, which complex128 takes; expected another dtype, or "
        "another device such as 'cpu'",
        "jacobi: NAME has no float64, in which norms of residuals are; use jacobi_step there, "
        "or another device such as 'cpu'",
        "rdf: NAME has no float64, which float64 takes; expected another dtype, or another "
        "device such as 'cpu'",
        "[1. 1. 1.]",
        "[3 0]",
        "[3 0]",
        "True",
    ]


def test_what_kernels_refuse():
    x = np.ones(3)
    with pytest.raises(gpuops.KernelRefusedError, match="takes a matrix, got a stencil"):
        gpuops.jacobi_step(gpuops.poisson(3), x, x, device="opencl", kernel="group")
