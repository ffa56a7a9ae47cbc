"""Columns side by side: each has the bits of its own call, however the operands lie."""

import itertools

import numpy as np
import pytest
import scipy.sparse

import gpuops

GRID = 7, 43
N = GRID[0] * GRID[1]


def numbers(rng, shape, dtype):
    made = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.standard_normal(shape)
    return made.astype(dtype)


def system(form, dtype):
    """A matrix with a large diagonal."""
    rng = np.random.default_rng(5)
    if form == "stencil":
        coefficients = numbers(rng, (5, *GRID), dtype)
        coefficients[2] += 9
        return gpuops.stencil(coefficients, GRID, "periodic")
    center = np.array([0, 0, 9, 0, 0], dtype)
    if form in ("dirichlet", "periodic", "neumann"):
        return gpuops.stencil(numbers(rng, 5, dtype) + center, GRID, form)
    if form == "even":
        return gpuops.sparse(system("periodic", dtype).tocsr())
    share = {"short": 4 / N, "long": 0.2}[form]
    A = scipy.sparse.random(N, N, share, random_state=3) + 9 * scipy.sparse.eye(N)
    return gpuops.sparse(A.tocsr().astype(dtype))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize(
    "form", ["even", "short", "long", "dirichlet", "periodic", "neumann", "stencil"]
)
def test_a_step_of_columns_has_the_bits_of_each_alone(form, dtype):
    A, rng = system(form, dtype), np.random.default_rng(6)
    for k in (2, 3, 33, 260):
        f, x = (numbers(rng, (N, k), dtype) for _ in range(2))
        for how in ({"omega": 0.7}, {"alpha": -0.2}):
            alone = [gpuops.jacobi_step(A, f[:, c], x[:, c], **how) for c in range(k)]
            expected = np.stack(alone, 1)
            for orders in itertools.product("CF", repeat=3):
                given, start, out = (
                    np.array(v, order=o) for v, o in zip((f, x, x), orders, strict=True)
                )
                gpuops.jacobi_step(A, given, start, out=out, **how)
                np.testing.assert_array_equal(out, expected, f"{k} {how} {orders}")
    apart = np.repeat(x, 2, 1)[:, ::2]  # neither order
    np.testing.assert_array_equal(gpuops.jacobi_step(A, f, apart, **how), expected)
    apart[...] = x
    gpuops.jacobi_step(A, f, apart, out=apart, **how)  # over itself
    np.testing.assert_array_equal(apart, expected)


@pytest.mark.parametrize("form", ["even", "long", "dirichlet", "stencil"])
def test_the_solver_of_columns_has_the_bits_of_each_alone(form):
    A, rng = system(form, "float64"), np.random.default_rng(7)
    for k in (2, 9, 35):  # of the last, the solver takes 24 and then 11
        f, x0 = (numbers(rng, (N, k), "float64") for _ in range(2))
        f[:, 1] *= 1e-3  # ends elsewhere
        alone = [gpuops.jacobi(A, f[:, c], x0[:, c], rtol=1e-8, maxiter=40) for c in range(k)]
        for order, start in itertools.product("CF", repeat=2):
            given, begin = np.array(f, order=order), np.array(x0, order=start)
            result = gpuops.jacobi(A, given, begin, rtol=1e-8, maxiter=40)
            seen = gpuops.jacobi(A, given, begin, rtol=1e-8, maxiter=40, callback=id)
            for c, one in enumerate(alone):
                np.testing.assert_array_equal(result.x[:, c], one.x)
                np.testing.assert_array_equal(seen.x[:, c], one.x)
                made = len(one.residuals)
                np.testing.assert_array_equal(result.residuals[:made, c], one.residuals)
                np.testing.assert_array_equal(result.residuals[made:, c], one.residuals[-1])
                assert result.ended[c] == one.ended
            np.testing.assert_array_equal(given, f)
