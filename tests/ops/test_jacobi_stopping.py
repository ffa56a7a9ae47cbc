"""jacobi ends honestly: norms that keep their squares, column by column, and says why."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from engine import backends, host, note, random, remembered, rows, same_bits, tree

import gpuops
from gpuops import _core

sparse = pytest.importorskip("scipy.sparse")

pytestmark = pytest.mark.sampled(every=2)
SOLVERS = pytest.mark.parametrize(("device", "kernel"), rows("jacobi", teaching=False))
EVERY_DEVICE = pytest.mark.parametrize("device", backends())


def laplacian(m, dtype="f8"):
    """Another one for each test, since some spoil theirs."""
    return laplacian_of(m, dtype).copy()


@functools.cache
def laplacian_of(m, dtype):
    line = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(m, m))
    return sparse.kronsum(line, line).tocsr().astype(dtype)


def solve(*args, **words):
    """By a kernel that may not take it."""
    note("jacobi", args, words)
    try:
        return gpuops.jacobi(*args, **words)
    except gpuops.KernelRefusedError as refusal:
        pytest.skip(str(refusal))


def said(result) -> str:
    """Its text in one line."""
    return " ".join(repr(result).split())


def norm(v) -> float:
    """docs/numerics.md, written plainly."""
    v = np.asarray(v)
    single = v.dtype.itemsize == (8 if v.dtype.kind == "c" else 4)
    parts = np.stack([v.real, v.imag]) if v.dtype.kind == "c" else v[None]
    parts = parts.astype("f8")

    def squares(p):
        with np.errstate(all="ignore"):
            return float(tree((p * p)[0] + (p * p)[1] if len(p) == 2 else (p * p)[0]))

    if v.size == 0:
        return 0.0
    total = squares(parts)
    if single or 2.0**-900 <= total <= 2.0**1000 or np.isnan(total):
        return np.sqrt(total)
    largest = np.max(np.abs(parts))
    if largest == 0.0 or np.isinf(largest):
        return largest
    e = np.clip(np.frexp(largest)[1] - 1, -1022, 1022)
    with np.errstate(over="ignore"):
        return float(np.sqrt(squares(parts * 2.0**-e)) * np.float64(2.0) ** e)


@remembered
def reference(
    A, f, x0=None, *, rtol=1e-5, atol=0.0, dtol=1e5, maxiter=1000, check_every=1, **by
):
    """The solver in Python: (x, residuals, ended), of columns (n, k)."""
    x = np.zeros_like(f) if x0 is None else x0.copy()
    of_f = np.array([norm(c) for c in f.T])
    first, rows_, ended, kept = None, [], np.full(f.shape[1], -1), np.zeros_like(f)
    for m in range(maxiter + 1):
        if m % check_every == 0 or m == maxiter:
            meaning = {
                "csr": True,
                "n": len(f),
                "columns": len(f),
                "residual": np.empty_like(x),
            }
            meaning |= by or {"omega": 1.0}
            _core.run("jacobi_step", (A.data, A.indices, A.indptr, f, x), meaning, None,
                      ("cpu", 0), None, None)  # fmt: skip
            fresh = np.array([norm(c) for c in meaning["residual"].T])
            fresh[of_f == 0] = 0
            r = fresh if m == 0 else np.where(ended >= 0, rows_[-1], fresh)
            first = r if m == 0 else first
            rows_.append(r)
            for c in np.flatnonzero(ended < 0):
                bad = not (np.isfinite(r[c]) and np.isfinite(of_f[c]))
                met = r[c] <= max(rtol * of_f[c], atol)
                if of_f[c] == 0 or bad or met or r[c] > dtol * max(first[c], of_f[c]):
                    ended[c] = m
                    kept[:, c] = 0 if of_f[c] == 0 else x[:, c]
            if (ended >= 0).all():
                break
        if m < maxiter:
            x = gpuops.jacobi_step(A, f, x, **by, device="cpu")
    return np.where(ended >= 0, kept, x), np.array(rows_), ended


@pytest.mark.sampled(every=11)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("check_every", [1, 7])
@SOLVERS
def test_columns_end_by_themselves(device, kernel, check_every, k, dtype):
    m = 4 if device == "sim" else 6
    A, f = laplacian_of(m, dtype), random((m * m, k), dtype, 5)
    f[:, -1] *= 1e-3
    x0 = random((m * m, k), dtype, 6)
    x0[:, 0] *= 1e-6
    for more in ({}, {"alpha": -0.26}, {"maxiter": 9, "rtol": 0.0}, {"atol": 0.05}):
        result = solve(A, f, x0, check_every=check_every, **more, device=device,
                               kernel=kernel)  # fmt: skip
        x, residuals, ended = reference(A, f, x0, check_every=check_every, **more)
        same_bits(result.x, x)
        same_bits(result.residuals, residuals)
        assert result.ended.tolist() == ended.tolist()
        steps = max(ended) if min(ended) >= 0 else more.get("maxiter", 1000)
        assert result.iterations == steps
        assert result.steps[-1] == result.iterations
        assert len(result.steps) == len(residuals)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("scale", [1e-320, 1e-250, 1e-160, 1.0, 1e160, 1e250, 1e307])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
@SOLVERS
def test_float64_neither_underflows_nor_overflows(device, kernel, dtype, scale):
    A, f = laplacian(6, dtype) / 8, random((36, 2), dtype, 7)
    f = f / np.abs(f).max() * scale
    result = solve(A, f, device=device, kernel=kernel, maxiter=400)
    assert result.iterations > 20
    if scale > 1e-300:  # there float64 has not the digits any more
        assert result.reason == "converged"
        true = np.linalg.norm((f / scale - A @ (result.x / scale)), axis=0)
        np.testing.assert_allclose(true, result.residuals[-1] / scale, rtol=1e-3)
    same_bits(result.residuals[0], np.array([norm(c) for c in f.T]))


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1.6e-19, 1.0, 1e20, 1e37])
@pytest.mark.parametrize("dtype", ["f4", "c8"])
@SOLVERS
def test_float32_neither_underflows_nor_overflows(device, kernel, dtype, scale):
    A, f = laplacian(6, dtype), np.full(36, scale, dtype)
    result = solve(A, f, device=device, kernel=kernel, rtol=1e-3)
    same_bits(np.float64(result.residuals[0]), np.float64(norm(f)))
    assert result.iterations > 20
    if scale > 1e-37:
        assert result.converged
        x = np.asarray(result.x, "f8" if dtype == "f4" else "c16")
        assert np.linalg.norm(f - A @ x) <= 1.01e-3 * np.linalg.norm(f.astype(x.dtype))


def test_norms_are_the_plain_ones():
    for dtype in ("f4", "f8", "c8", "c16"):
        for n in (0, 1, 127, 128, 2047, 2049, 10000):
            v = random((n, 19), dtype, n)
            v[:, 4] *= 1e-200 if dtype in ("f8", "c16") else 1e-30  # whose squares are lost
            few = v[:, 3:6].copy()
            for view in (v, v[::-1], v[:, 1:18], v[:, ::-1], few, few.copy("F"), v[:, 1]):
                want = [norm(c) for c in np.atleast_2d(view.T)]
                same_bits(_core.norms(view), np.array(want))


@SOLVERS
def test_two_scales_at_once(device, kernel):
    """The small column is not taken for solved because the large one is."""
    A, f = laplacian(6), random((36, 2), "f8", 8)
    f[:, 0] *= 1e-6
    f[:, 1] *= 1e3
    x0 = np.zeros_like(f)
    x0[:, 1] = np.linalg.solve(A.toarray(), f[:, 1])
    result = solve(A, f, x0, device=device, kernel=kernel)
    assert result.converged.tolist() == [True, True]
    assert result.ended[1] == 0 < result.ended[0]
    same_bits(result.x[:, 1], x0[:, 1])
    assert result.residuals.shape == (result.iterations + 1, 2)


@SOLVERS
def test_zero_has_zero_for_its_answer(device, kernel):
    A = laplacian(4)
    x0 = np.ones((16, 2))
    f = np.zeros((16, 2))
    result = solve(A, f, x0, device=device, kernel=kernel, rtol=0.0)
    assert (result.iterations, result.reason) == (0, "converged")
    same_bits(result.x, f)
    same_bits(result.residuals, np.zeros((1, 2)))
    f[:, 1] = 1
    result = solve(A, f, x0, device=device, kernel=kernel)
    assert result.converged.all()
    assert result.ended[0] == 0 < result.ended[1]
    same_bits(result.x[:, 0], np.zeros(16))
    alone = solve(A, np.zeros(16), np.ones(16), device=device, kernel=kernel)
    same_bits(alone.x, np.zeros(16))
    assert (alone.converged, alone.info) == (True, 0)


@SOLVERS
def test_infinite_tolerances_are_met_by_what_is_finite(device, kernel):
    A, f = laplacian(4), np.ones((16, 2))
    for more in ({"rtol": np.inf}, {"atol": np.inf}, {"rtol": np.inf, "atol": np.inf}):
        result = solve(A, f, **more, device=device, kernel=kernel)
        assert (result.iterations, result.reason) == (0, "converged")
    f[3, 0] = np.nan
    result = solve(A, f, rtol=np.inf, device=device, kernel=kernel)
    assert (result.reason, result.converged.tolist()) == ("diverged", [False, True])


@pytest.mark.sampled(every=2)
@SOLVERS
def test_growth_is_told_before_it_overflows(device, kernel):
    m, alpha, most = (5, -0.28, 300) if device == "sim" else (9, -0.26, 900)
    A, f = laplacian(m), np.ones(m * m)
    good = solve(A, f, alpha=-0.24, device=device, kernel=kernel)
    assert good.reason == "converged"
    bad = solve(A, f, alpha=alpha, device=device, kernel=kernel)
    assert (bad.reason, bad.info, bad.ended) == ("diverged", -1, bad.iterations)
    assert np.isfinite(bad.x).all()
    assert 1e5 < bad.residuals[-1] / bad.residuals[0] < 1.1e5
    further = solve(A, f, alpha=alpha, dtol=1e7, device=device, kernel=kernel)
    assert further.iterations > bad.iterations
    last = solve(A, f, alpha=alpha, dtol=np.inf, maxiter=most, device=device,
                         kernel=kernel)  # fmt: skip
    assert last.reason == "maxiter"
    far = solve(A, f, x0=1e9 * f, maxiter=40, device=device, kernel=kernel)
    assert far.reason == "maxiter"  # a bad start is no growth


@SOLVERS
def test_a_result_says_why(device, kernel):
    m, few, alpha = (7, 100, 0.3) if device == "sim" else (15, 400, 0.26)
    A, f = laplacian(m), np.ones(m * m)
    most = 8 * np.cos(np.pi / (2 * m + 2)) ** 2
    bad = solve(A, f, alpha=-alpha, device=device, kernel=kernel)
    assert bad.spectral_radius == pytest.approx(alpha * most - 1, rel=1e-3)
    assert bad.needed == np.inf
    assert "no number of steps" in repr(bad)
    slow = solve(A, f, maxiter=few, device=device, kernel=kernel)
    assert (slow.reason, slow.info, slow.converged) == ("maxiter", few, False)
    assert slow.spectral_radius == pytest.approx(np.cos(np.pi / (m + 1)), rel=1e-4)
    enough = solve(A, f, maxiter=2000, device=device, kernel=kernel)
    assert enough.converged
    assert slow.needed == pytest.approx(enough.iterations, abs=2)
    about = float(f"{slow.needed:.2g}")
    assert f"then about {about:.0f} steps in all reach" in said(slow)
    assert "more if the radius still rises" in said(slow)
    assert np.isnan(solve(A, f, maxiter=0, device=device, kernel=kernel).needed)


@pytest.mark.sampled(every=2)
@SOLVERS
@pytest.mark.parametrize("dtype", ["f4", "c8", "f8"])
def test_a_result_says_that_rounding_keeps_the_residual(device, kernel, dtype):
    """Not that no number of steps would do, nor that the radius is 1."""
    A, f = laplacian(4).astype(dtype), np.ones(16, dtype)
    most = 130 if dtype != "f8" else 260
    stuck = solve(A, f, rtol=1e-9 if dtype != "f8" else 1e-18, maxiter=most, device=device,
                  kernel=kernel)  # fmt: skip
    assert (stuck.reason, stuck.stagnant, stuck.needed) == ("maxiter", True, np.inf)
    name = {"f4": "float32", "c8": "complex64", "f8": "float64"}[dtype]
    cure = "a larger rtol" if dtype == "f8" else "float64 or a larger rtol"
    mantissa, power = f"{stuck.residuals[-1]:.1e}".split("e")
    assert (
        f"stopped falling at {mantissa}e{int(power)}: the rounding of {name}; use {cure}"
        in said(stuck)
    )
    slow = solve(A, f, rtol=1e-9, maxiter=20, device=device, kernel=kernel)
    assert not slow.stagnant
    both = np.stack([f, f / 2], 1)
    both = solve(A, both, rtol=1e-9, atol=1e-3, maxiter=most, device=device, kernel=kernel)
    assert both.converged.all()
    assert not both.stagnant.any()


@EVERY_DEVICE
def test_sentences_name_jacobi_and_its_arguments(device):
    A, f = laplacian(4), np.ones(16)
    with pytest.raises(ValueError, match=r"^jacobi: expected x0 of shape \(n,\) or \(n, k\)"):
        gpuops.jacobi(A, f, np.ones(3), device=device)
    with pytest.raises(ValueError, match=r"^jacobi: expected f and x0 of one shape"):
        gpuops.jacobi(A, f, np.ones((16, 2)), device=device)
    with pytest.raises(ValueError, match=r"^jacobi: expected a square matrix A"):
        gpuops.jacobi(np.ones((3, 4)), np.ones(3), device=device)
    with pytest.raises(np.linalg.LinAlgError, match=r"^jacobi: the diagonal of A is zero"):
        gpuops.jacobi(np.diag([1.0, 0.0]), np.ones(2), device=device)
    A.indices[7] = 16
    with pytest.raises(ValueError, match=r"^jacobi: indices\[7\] is 16"):
        gpuops.jacobi(A, f, device=device)
    with pytest.raises(ValueError, match=r"^jacobi: there is no kernel 'nonsense' on"):
        gpuops.jacobi(laplacian(4), f, device=device, kernel="nonsense")
    for words in ({"alpha": 1.0, "omega": 1.0}, {"alpha": 1.0, "omega": 1}):
        with pytest.raises(ValueError, match=r"^jacobi: alpha and omega are both given"):
            gpuops.jacobi(laplacian(4), f, **words, device=device)
        with pytest.raises(ValueError, match=r"^jacobi_step: alpha and omega are both given"):
            gpuops.jacobi_step(laplacian(4), f, f, **words, device=device)


def test_what_only_multiplies_is_refused():
    operator = sparse.linalg.aslinearoperator(laplacian(4))
    with pytest.raises(TypeError, match=r"^jacobi: A is a .*, which only multiplies"):
        gpuops.jacobi(operator, np.ones(16))
    with pytest.raises(TypeError, match=r"^jacobi_step: A is a .*, which only multiplies"):
        gpuops.jacobi_step(operator, np.ones(16), np.ones(16))


@pytest.mark.sampled(every=4)
@SOLVERS
def test_many_short_calls_are_one_long_one(device, kernel, monkeypatch):
    """The core's calls end anywhere; the history goes on as if they had not."""
    from gpuops import solver as jacobi_solver

    A, f = laplacian(4), random((16, 3), "f8", 5)
    f[:, 1] = 0
    for more in ({}, {"alpha": -0.26}, {"check_every": 4, "maxiter": 70, "rtol": 1e-30}):
        want = gpuops.jacobi(A, f, **more, device="cpu")
        with monkeypatch.context() as m:
            m.setattr(jacobi_solver, "_ROWS", 10)
            m.setattr(jacobi_solver, "_SECONDS", 0.0)
            got = solve(A, f, **more, device=device, kernel=kernel)
        same_bits(got.x, want.x)
        same_bits(got.residuals, want.residuals)
        assert (got.iterations, got.reason) == (want.iterations, want.reason)
        assert got.ended.tolist() == want.ended.tolist()


@SOLVERS
def test_device_arrays_in_columns(device, kernel):
    A, f = laplacian(6).toarray(), random((36, 3), "f4", 5).astype("f8")
    f[:, 1] *= 0
    x0 = np.ones_like(f)
    want = gpuops.jacobi(A, f, x0, device="cpu")
    there = [gpuops.to_device(v, device) for v in (A, f, x0)]
    got = solve(*there, kernel=kernel)
    assert type(got.x) is gpuops.DeviceArray
    same_bits(got.x, want.x)
    same_bits(got.residuals, want.residuals)
    same_bits(host(there[2]), x0)


@pytest.mark.sampled(every=7)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("n", [1, 7, 16, 130, 2048])
@SOLVERS
def test_one_right_hand_side_and_a_dense_matrix(device, kernel, n, dtype):
    if n > 1000 and device == "sim":
        pytest.skip("takes long on sim")
    A, f, x0 = random((n, n), dtype, 1), random(n, dtype, 2), random(n, dtype, 3)
    A[np.arange(n), np.arange(n)] = 2 * np.abs(A).sum(axis=1)
    for more in ({}, {"alpha": -1e-3, "maxiter": 6, "rtol": 0.0, "check_every": 4}):
        if n > 1000:
            more = {**more, "maxiter": 3}
        for of in (A, np.asfortranarray(A)):
            want = gpuops.jacobi(of, f, x0, **more, device="cpu")
            got = solve(of, f, x0, **more, device=device, kernel=kernel)
            same_bits(got.x, want.x)
            same_bits(got.residuals, want.residuals)
            assert (got.iterations, got.reason) == (want.iterations, want.reason)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("m", [1, 4, 46])
@SOLVERS
def test_one_right_hand_side_and_short_rows(device, kernel, m, dtype):
    A, f, x0 = laplacian(m, dtype), random(m * m, dtype, 2), random(m * m, dtype, 3)
    for more in ({"maxiter": 9}, {"alpha": -0.1, "maxiter": 6, "check_every": 4, "rtol": 0.1}):
        want = gpuops.jacobi(A, f, x0, **more, device="cpu")
        got = solve(A, f, x0, **more, device=device, kernel=kernel)
        same_bits(got.x, want.x)
        same_bits(got.residuals, want.residuals)
        assert (got.iterations, got.reason) == (want.iterations, want.reason)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("is_sparse", [False, True])
@SOLVERS
def test_the_norm_of_zeros_has_no_sign(device, kernel, is_sparse, dtype):
    A = (sparse.identity(40, format="csr") if is_sparse else np.eye(40)).astype(dtype)
    f = np.where(np.arange(40) % 2, -0.0, 2.0).astype(dtype)
    r = solve(A, f, maxiter=3, device=device, kernel=kernel)
    assert r.converged
    assert r.residuals[-1] == 0
    assert not np.signbit(r.residuals).any()


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e170, 1e300])
@pytest.mark.parametrize("is_sparse", [False, True])
@SOLVERS
def test_squares_that_one_kernel_would_lose(device, kernel, is_sparse, scale):
    A = laplacian(50 if is_sparse else 3)
    A, f = A if is_sparse else A.toarray(), random(A.shape[0], "f8", 4) * scale
    want = gpuops.jacobi(A, f, device="cpu", maxiter=5)
    got = solve(A, f, device=device, kernel=kernel, maxiter=5)
    same_bits(got.x, want.x)
    same_bits(got.residuals, want.residuals)
