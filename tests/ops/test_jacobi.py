"""jacobi: the solver is its steps, stops when it should, and reports what happened."""

from __future__ import annotations

import builtins
import re
import warnings

import numpy as np
import pytest
from engine import backends, host, ladder, random, rows, same_bits, tree

import gpuops
from gpuops import _core

sparse = pytest.importorskip("scipy.sparse")

EVERY_DEVICE = pytest.mark.parametrize("device", backends())


def dominant(n=60, dtype="f8", seed=0):
    """A strictly dominant system: the damped Jacobi iteration converges."""
    A, f = random((n, n), dtype, seed), random(n, dtype, seed + 1)
    A[np.arange(n), np.arange(n)] = 2 * np.abs(A).sum(axis=1)
    return A, f


def laplace(m=8, dtype="f8"):
    """The 5-point matrix of an m by m grid."""
    line = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(m, m))
    A = sparse.kronsum(line, line).tocsr().astype(dtype)
    return A, random(m * m, dtype, 3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(("device", "kernel"), rows("jacobi_step", teaching=False))
def test_the_solver_is_its_steps(device, kernel, dtype):
    for factor in ({"omega": 0.8}, {"alpha": -0.01}):
        A, f = dominant(40, dtype)
        try:
            result = gpuops.jacobi(
                A, f, **factor, rtol=0.0, maxiter=5, device=device, kernel=kernel
            )
        except gpuops.KernelRefusedError as refusal:
            pytest.skip(str(refusal))
        x = np.zeros_like(f)
        for _ in range(5):
            x = gpuops.jacobi_step(A, f, x, **factor, device="cpu")
        same_bits(result.x, x)
        assert (result.iterations, result.reason) == (5, "maxiter")
        assert len(result.residuals) == 6
        assert not result.converged
        same_bits(result.residuals, gpuops.jacobi(A, f, **factor, rtol=0.0, maxiter=5,
                                                  device="cpu").residuals)  # fmt: skip


@EVERY_DEVICE
def test_residuals_are_tree_norms(device):
    A, f = laplace(60)
    r = []
    gpuops.jacobi(A, f, maxiter=3, rtol=0, device=device,
                  callback=lambda x: r.append(np.array(x)))  # fmt: skip
    result = gpuops.jacobi(A, f, maxiter=3, rtol=0, device=device)
    assert result.residuals[0] == np.sqrt(float(tree(f * f)))
    for x, norm in zip(r, result.residuals[1:], strict=True):
        np.testing.assert_allclose(norm, np.linalg.norm(f - A @ x), rtol=1e-12)


@pytest.mark.parametrize("k", [None, 3])
@EVERY_DEVICE
def test_converges(device, k):
    A, f = laplace()
    f = f if k is None else random((64, k), "f8", 4)
    result = gpuops.jacobi(A, f, rtol=1e-8, device=device)
    assert np.all(result.converged)
    assert result.reason == "converged"
    assert result.x.shape == f.shape
    assert result.residuals.shape == (result.iterations + 1, *f.shape[1:])
    target = 1e-8 * np.linalg.norm(f, axis=0)
    assert np.all(result.residuals[-1] <= target)
    assert np.any(target < result.residuals[-2])
    np.testing.assert_allclose(
        np.linalg.norm(f - A @ result.x, axis=0), result.residuals[-1], rtol=1e-6
    )
    again = gpuops.jacobi(A, f, x0=result.x, rtol=1e-8, device=device)
    assert again.iterations == 0
    same_bits(again.x, result.x)
    assert again.x is not result.x
    loose = gpuops.jacobi(A, f, rtol=0.0, atol=1e9, device=device)
    assert (loose.iterations, np.all(loose.converged)) == (0, True)


@EVERY_DEVICE
def test_x0_is_read_only(device):
    A, f = dominant()
    x0 = np.ones(60)
    x0.flags.writeable = False
    result = gpuops.jacobi(A, f, x0, maxiter=3, rtol=0, device=device)
    same_bits(x0, np.ones(60))
    assert not np.shares_memory(result.x, x0)
    start = gpuops.jacobi(A, f, x0, maxiter=0, device=device)
    same_bits(start.x, x0)
    assert (start.iterations, start.reason, len(start.residuals)) == (0, "maxiter", 1)
    start.x[:] = 0


@EVERY_DEVICE
def test_diverges(device):
    A, f = dominant()
    result = gpuops.jacobi(A, f, alpha=1e9, maxiter=1000, device=device)
    assert result.reason == "diverged"
    assert not result.converged
    assert result.iterations < 100
    for bad in (np.inf, np.nan):
        f[3] = bad
        result = gpuops.jacobi(A, f, device=device)
        assert (result.reason, result.converged, result.iterations) == ("diverged", False, 0)


@EVERY_DEVICE
def test_callback(device):
    A, f = dominant()
    seen = []

    def callback(x):
        assert not x.flags.writeable
        seen.append(x.copy())
        if len(seen) == 4:
            raise StopIteration

    result = gpuops.jacobi(A, f, rtol=0, callback=callback, device=device)
    assert (result.reason, result.iterations, len(result.residuals)) == ("callback", 4, 5)
    same_bits(result.x, seen[-1])
    same_bits(gpuops.jacobi_step(A, f, seen[1], device="cpu"), seen[2])


@EVERY_DEVICE
def test_an_interrupt_leaves_everything_usable(device):
    A, f = dominant()

    def interrupt(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpuops.jacobi(A, f, callback=interrupt, device=device)
    assert gpuops.jacobi(A, f, device=device).converged


@EVERY_DEVICE
def test_device_arrays(device):
    A, f = dominant()
    want = gpuops.jacobi(A, f, device="cpu")
    arrays = [gpuops.to_device(v, device) for v in (A, f, np.zeros(60))]
    seen = []
    result = gpuops.jacobi(*arrays, callback=lambda x: seen.append(type(x)))
    assert type(result.x) is gpuops.DeviceArray
    assert set(seen) == {gpuops.DeviceArray}
    assert str(result.x.device) == device
    same_bits(result.x, want.x)
    same_bits(result.residuals, want.residuals)
    same_bits(gpuops.jacobi(arrays[0], arrays[1], maxiter=0).x, np.zeros(60))
    same_bits(host(arrays[2]), np.zeros(60))


@EVERY_DEVICE
def test_nothing_to_do(device):
    result = gpuops.jacobi(np.empty((0, 0)), np.empty(0), device=device)
    assert (result.converged, result.iterations, result.x.shape) == (True, 0, (0,))


def test_integers_and_lists():
    result = gpuops.jacobi([[4, 1], [1, 2]], [1, 2], rtol=1e-12)
    assert result.x.dtype == np.float64
    np.testing.assert_allclose(result.x, [0, 1], atol=1e-10)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"rtol": -1.0}, ValueError, "rtol is -1.0, expected a number that is not negative"),
        ({"atol": float("nan")}, ValueError, "atol is nan"),
        ({"rtol": "small"}, TypeError, "rtol is a number"),
        ({"maxiter": -1}, ValueError, "maxiter is -1"),
        ({"maxiter": 2.0}, TypeError, "maxiter is an integer"),
        ({"maxiter": True}, TypeError, "maxiter is an integer"),
        ({"callback": 3}, TypeError, "callback is a function"),
        ({"alpha": 1.0, "omega": 2.0}, ValueError, "alpha and omega are both given"),
        ({"x0": np.ones(3)}, ValueError, r"expected x0 of shape"),
        ({"dtol": 0.5}, ValueError, "dtol is 0.5, expected 1 or more"),
        ({"check_every": 0}, ValueError, "check_every is 0, expected 1 or more"),
        ({"kernel": "nonsense"}, ValueError, "nonsense"),
    ],
)
@EVERY_DEVICE
def test_bad_input(device, options, error, sentence):
    A, f = dominant()
    with pytest.raises(error, match=sentence):
        gpuops.jacobi(A, f, **options, device=device)


@EVERY_DEVICE
def test_a_broken_matrix_is_refused(device):
    A, f = laplace()
    A.indices[7] = 64
    with pytest.raises(ValueError, match=r"indices\[7\] is 64, expected 0 <= index < 64"):
        gpuops.jacobi(A, f, device=device)
    with pytest.raises(np.linalg.LinAlgError, match="row 2"):
        gpuops.jacobi(np.diag([1.0, 2, 0]), np.ones(3), device=device)
    with pytest.raises(ValueError, match="square"):
        gpuops.jacobi(np.ones((3, 4)), np.ones(3), device=device)


@EVERY_DEVICE
def test_a_matrix_that_breaks_while_iterating_stays_in_bounds(device):
    A, f = laplace()

    def vandal(x):
        A.indices[:] = 2**31 - 1
        A.indptr[5:] = -9

    said = ""
    try:
        gpuops.jacobi(A, f, rtol=0, maxiter=5, callback=vandal, device=device)
    except gpuops.DeviceError as failure:
        said = str(failure)
    # sim may see that rows are missing, but no place outside an array.
    assert not said or (device == "sim" and "shared memory that no thread" in said)


def test_progress(monkeypatch):
    A, f = dominant()
    real = builtins.__import__

    def without_tqdm(name, *rest, **more):
        if name.startswith("tqdm"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_tqdm)
    with pytest.raises(ImportError, match="jacobi: progress=True needs the package tqdm"):
        gpuops.jacobi(A, f, progress=True)


def test_progress_bar(capsys):
    pytest.importorskip("tqdm")
    A, f = dominant()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm on notebooks it cannot find
        result = gpuops.jacobi(A, f, progress=True)
    assert f"{result.iterations}/1000" in capsys.readouterr().err


def test_result_is_readable():
    A, f = dominant()
    text = repr(gpuops.jacobi(A, f))
    assert text.startswith("JacobiResult\n  converged")
    assert "of shape (60,), float64" in text
    html = gpuops.jacobi(A, f)._repr_html_()
    assert html.startswith("<table>")
    assert "<polyline" in html
    assert "<polyline" not in gpuops.jacobi(A, f, maxiter=0)._repr_html_()


def test_a_result_unpacks_as_scipy_s():
    A, f = dominant()
    x, info = gpuops.jacobi(A, f)
    assert (info, x.shape) == (0, (60,))
    _, info = gpuops.jacobi(A, f, rtol=0, maxiter=3)
    assert info == 3
    _, info = gpuops.jacobi(A, f, alpha=1e9)
    assert info == -1


def test_plot():
    pytest.importorskip("matplotlib").use("Agg")
    A, f = laplace()
    result = gpuops.jacobi(A, f, rtol=1e-9, check_every=3)
    radius = np.cos(np.pi / 9)
    for lines, given in ((2, None), (2, radius)):
        ax = result.plot(spectral_radius=given)
        assert ax.get_yscale() == "log"
        curve, slope = ax.get_lines()[:lines]
        same_bits(curve.get_ydata(), result.residuals)
        x, y = slope.get_xdata(), slope.get_ydata()
        rate = (y[-1] / y[0]) ** (1 / (x[-1] - x[0]))
        assert rate == pytest.approx(radius, rel=1e-4 if given is None else 1e-12)
    assert len(gpuops.jacobi(A, np.stack([f, 2 * f], 1)).plot().get_lines()) == 5


def test_no_step_goes_through_python(monkeypatch):
    """On the CPU one call is the whole solve; a callback and a kernel of the step's are not."""
    from gpuops._call import road

    made, real = [], road.run
    monkeypatch.setattr(road, "run", lambda op, *a, **k: made.append(op) or real(op, *a, **k))
    A, f = laplace()
    steps = gpuops.jacobi(A, f, device="cpu").iterations
    assert made == ["jacobi"]
    made.clear()
    gpuops.jacobi(A, f, device="cpu", callback=lambda x: None)
    assert made == ["jacobi_step"] * (steps + 1)


@EVERY_DEVICE
def test_a_second_call_brings_nothing(device, monkeypatch):
    """Neither x0's zeros nor what the ladders are is asked for again."""
    A, f = (gpuops.to_device(v, device) for v in dominant(20))
    want = gpuops.jacobi(A, f)
    for name in ("upload", "ladder"):
        monkeypatch.delattr(_core, name)
    same_bits(gpuops.jacobi(A, f).x, want.x)


@EVERY_DEVICE
def test_a_kernel_of_the_solvers_own(device):
    """It has no single steps, which a callback needs; without results no kernel runs."""
    A, f = dominant(20)
    steps = {r["name"] for r in ladder("jacobi_step", device)}
    for name in {r["name"] for r in ladder("jacobi", device)} - steps:
        with pytest.raises(gpuops.KernelRefusedError, match=rf"^jacobi: kernel '{name}' makes"):
            gpuops.jacobi(A, f, kernel=name, device=device, callback=lambda x: None)
        for few in (np.zeros((20, 0)), f[:0]):
            result = gpuops.jacobi(A[: len(few), : len(few)], few, kernel=name, device=device)
            assert result.reason == "converged"


@EVERY_DEVICE
def test_no_right_hand_sides(device):
    result = gpuops.jacobi(dominant(20)[0], np.zeros((20, 0)), device=device)
    assert result.x.shape == (20, 0)
    assert result.residuals.shape == (1, 0)
    assert result.needed.shape == result.spectral_radius.shape == (0,)
    assert repr(result).startswith("JacobiResult")
    assert result._repr_html_()


def test_a_slow_start_and_a_singular_system_are_not_rounding():
    A = gpuops.poisson((16, 16), "neumann", dtype="f4")
    stuck = gpuops.jacobi(A, np.ones(256, "f4"), omega=0.5, maxiter=500)
    assert (stuck.reason, stuck.stagnant) == ("maxiter", False)
    told = " ".join(repr(stuck).split())
    assert "multiplies the residual by this; no number of steps" in told
    A = gpuops.poisson((300, 300), dtype="f4")
    slow = gpuops.jacobi(A, np.ones(90_000, "f4"), maxiter=40)
    assert not slow.stagnant
    assert re.search(r"about [1-9]e[2-5] steps in all reach", " ".join(repr(slow).split()))
