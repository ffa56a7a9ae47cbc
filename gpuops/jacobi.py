"""jacobi - one step of a stationary iteration for A x = f, and the solver made of steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _core
from ._call import road as _road
from ._show.jacobi_result import JacobiResult
from .arrays import DeviceArray, give_back
from .sparse import SparseMatrix, csr_arrays, is_sparse

__all__ = ["JacobiResult", "jacobi", "jacobi_step"]

_SUMSQ = {"op": "sumsq", "axes": None, "keepdims": False, "where": False, "initial": None}


@_road.public
def jacobi_step(
    A, f, x, *, alpha=None, omega=1.0, out=None, device=None, kernel=None, params=None
):
    """Makes one step of a stationary iteration for ``A x = f``.

    With `alpha`, the simple iteration::

        out = x + alpha*(A x - f)

    It is Richardson's with the opposite sign: PETSc, Ginkgo and pyamg write
    ``x + c*(f - A x)``, so their c is -alpha. It converges if every eigenvalue l of A has
    abs(1 + alpha*l) < 1; for a symmetric positive definite A that needs a negative alpha.

    Without `alpha`, the damped Jacobi iteration, where d is the diagonal of A::

        out = x + omega*(f - A x)/d

    Parameters
    ----------
    A : array_like (n, n), a sparse matrix, or what `sparse` makes of one
        Sparse matrices are those of scipy.sparse, cupyx.scipy.sparse and PyTorch. Formats other
        than CSR are converted, and the structure is checked, on every call: `sparse` does both
        once. Stored duplicates add up.
    f, x : array_like (n,) or (n, k)
        Right-hand sides and current iterates, of one shape; k columns are k systems.
    alpha : number, optional
    omega : number, optional
        Damping; cannot be given together with `alpha`.
    out : array, optional
        Takes the result; it may be `x` or overlap any input.
    device, kernel, params : optional
        Where and by which kernel; see ``gpuops.kernels("jacobi_step")``.

    Returns
    -------
    array
        Of the shape of `x` and of the kind the inputs are. The dtype is the common one of A, f
        and x: float32, float64, complex64 or complex128. Integers and booleans become
        float64, float16 and bfloat16 become float32. `alpha` and `omega` take that dtype,
        except that a complex one makes the result complex.

    Raises
    ------
    ValueError
        A is not square, f or x does not fit, the CSR structure is broken (the first bad
        position is named), or alpha and omega are both given.
    numpy.linalg.LinAlgError
        Without alpha: the diagonal of A has a zero or lacks an element.
    TypeError
        A dtype that is not listed above.

    Notes
    -----
    The terms of a row are added in the order of the tree/v1 of docs/numerics.md, each by a
    fused multiply-add in the arrays' dtype, so the bits are the same on every device.

    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, chapter 4.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> A = np.array([[4.0, 1.0], [1.0, 2.0]])
    >>> f = np.array([1.0, 2.0])
    >>> gpuops.jacobi_step(A, f, np.zeros(2))
    array([0.25, 1.  ])
    >>> gpuops.jacobi_step(A, f, np.zeros(2), alpha=-0.25)
    array([0.25, 0.5 ])
    """
    operands, meaning = _system("jacobi_step", A, f, x, alpha, omega)
    from_host = not any(isinstance(a, DeviceArray) for a in operands[-2:])
    return _road.Call(
        "jacobi_step", operands, meaning, out=out, device=device, kernel=kernel,
        tunables=params, finish=_on_host if from_host else _road.as_it_is,
    )  # fmt: skip


def jacobi(
    A,
    f,
    x0=None,
    *,
    alpha=None,
    omega=1.0,
    rtol=1e-5,
    atol=0.0,
    maxiter=1000,
    callback: Callable[[Any], Any] | None = None,
    progress: bool = False,
    device=None,
    kernel=None,
    params=None,
) -> JacobiResult:
    """Solves ``A x = f`` by repeating `jacobi_step` until the residual is small.

    Stops as soon as ``norm(f - A x) <= max(rtol*norm(f), atol)``, with the 2-norm over all
    items of all columns. The iterates stay on the device. Iterate k has the bits of k calls of
    `jacobi_step`, and iterates and residuals are the same on every device.

    Parameters
    ----------
    A, f, alpha, omega
        As in `jacobi_step`.
    x0 : array_like, optional
        Where to start, of the shape of `f`; zeros by default. It is not changed.
    rtol, atol : float, optional
        Relative and absolute tolerance, not negative.
    maxiter : int, optional
        The most steps made.
    callback : callable, optional
        Called as ``callback(x)`` after each step with the new iterate, read-only and valid
        until the callback returns: copy it to keep it. If it raises StopIteration the solver
        stops and returns that iterate; other exceptions pass through.
    progress : bool, optional
        Shows a progress bar; needs the package tqdm.
    device, kernel, params : optional
        Of the steps; see ``gpuops.kernels("jacobi_step")``.

    Returns
    -------
    JacobiResult
        With ``x``, ``iterations``, ``residuals``, ``converged`` and ``reason``. That it did
        not converge is no error: look at `converged`.

    Raises
    ------
    ValueError, TypeError, numpy.linalg.LinAlgError
        As `jacobi_step`; also for a negative or NaN tolerance and a negative `maxiter`.
    ImportError
        `progress` is asked for and tqdm is not installed.

    Notes
    -----
    Norms are computed in the arrays' dtype; a norm that is not finite stops the solver with
    reason "diverged".

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> A = np.array([[4.0, 1.0], [1.0, 2.0]])
    >>> result = gpuops.jacobi(A, np.array([6.0, 5.0]), rtol=1e-10)
    >>> result.converged, result.iterations
    (True, 23)
    >>> np.round(result.x, 6)
    array([1., 2.])
    """
    rtol, atol = _tolerance("rtol", rtol), _tolerance("atol", atol)
    maxiter = _road.index("jacobi", "maxiter", maxiter)
    if maxiter < 0:
        raise ValueError(f"jacobi: maxiter is {maxiter}, expected 0 or more")
    if callback is not None and not callable(callback):
        raise TypeError(f"jacobi: callback is a function of x, not {callback!r:.60}")
    solver = _Solver(*_system("jacobi", A, f, x0, alpha, omega), device, kernel, params)
    bar = _progress_bar(maxiter) if progress else None
    try:
        return _iterate(solver, rtol, atol, maxiter, callback, bar)
    finally:
        if bar is not None:
            bar.close()


# ---- the operands ----


def _on_host(result):
    """The result where f and x are NumPy's, wherever a SparseMatrix is kept."""
    return result.get() if isinstance(result, DeviceArray) else result


def _system(op: str, A, f, x, alpha, omega) -> tuple[tuple, dict[str, Any]]:
    """The core's operands and params; x None means zeros like f."""
    if alpha is not None and not (type(omega) is float and omega == 1.0):
        raise ValueError(f"{op}: alpha and omega are both given; expected one of them")
    factor = _factor(op, "omega", omega) if alpha is None else _factor(op, "alpha", alpha)
    matrix, meaning = _matrix(op, A)
    if x is None:
        f = _road.operand(op, "f", f)
        x = np.zeros(f.shape, np.bool_)  # any dtype goes with it
        if isinstance(f, DeviceArray):
            x = DeviceArray(_core.upload(x.astype(f.dtype), f._buffer.device))
    values = _road.promote(op, ("A", "f", "x"), (matrix[0], f, x), "biufc", "f8")
    dtype = values[0].dtype
    if dtype.kind not in "fc" or dtype.itemsize < 4:
        dtype = np.dtype(np.float32)  # from float16 and bfloat16
    if isinstance(factor, complex):
        dtype = np.result_type(dtype, np.complex64)
    data, f, x = (_road.cast(op, n, v, dtype) for n, v in zip("Afx", values, strict=True))
    meaning["alpha" if alpha is not None else "omega"] = factor
    if isinstance(A, SparseMatrix):
        A.complete(meaning, dtype, alpha is None)
    return (data, *matrix[1:], f, x), meaning


def _matrix(op: str, A) -> tuple[tuple, dict[str, Any]]:
    """(A,), or CSR's (data, indices, indptr); and what the core is told of it."""
    if isinstance(A, SparseMatrix):
        return A.operands()
    if not is_sparse(A):
        return (_road.operand(op, "A", A),), {"csr": False}
    data, indices, indptr, shape = csr_arrays(op, A)
    return (data, indices, indptr), {"csr": True, "n": shape[0], "columns": shape[1]}


def _factor(op: str, name: str, value) -> float | complex:
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "iufc":
        raise TypeError(f"{op}: {name} is a number, not {value!r:.60}")
    return complex(number[()]) if number.dtype.kind == "c" else float(number[()])


def _tolerance(name: str, value) -> float:
    value = _factor("jacobi", name, value)
    if isinstance(value, complex) or not value >= 0.0:
        raise ValueError(f"jacobi: {name} is {value}, expected a number that is not negative")
    return value


def _progress_bar(maxiter: int):
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            "jacobi: progress=True needs the package tqdm; install it with 'pip install tqdm'"
        ) from None
    return tqdm(total=maxiter, desc="jacobi", unit="step")


# ---- the iteration ----


class _Solver:
    """A system whose arrays are where the steps run, and the memory of two iterates."""

    def __init__(self, operands, meaning, device, kernel, params) -> None:
        self.where = _road.choose_device("jacobi_step", operands, device, kernel, meaning)
        self.place = (self.where.backend, self.where.ordinal)
        given = [a for a in operands if isinstance(a, DeviceArray)]
        self.kind = next((a._kind for a in given if a._kind), None)
        self.returns_host = not any(isinstance(a, DeviceArray) for a in operands[-2:])
        self.on_device = bool(given) or self.where.backend == "cuda"
        self.options = {"device": self.where, "kernel": kernel, "tunables": params}
        self.meaning = dict(meaning)
        if not given:
            # Planned on the host first: A is checked where it lies, bad input uploads nothing.
            _core.plan("jacobi_step", operands, meaning, None, ("cpu", 0), None, None)
            self.meaning["checked"] = True
        if self.on_device:
            operands = [self._upload(a) for a in operands]
            if "diagonal" in meaning:
                self.meaning["diagonal"] = self._upload(meaning["diagonal"])
        *self.system, self.x = operands
        self.buffers = (self._empty(), self._empty())  # take turns; x0 is only read
        self.residual = self._empty()
        self.iterations = 0

    def _upload(self, a) -> DeviceArray:
        return a if isinstance(a, DeviceArray) else DeviceArray(_core.upload(a, self.place))

    def _empty(self):
        if not self.on_device:
            return np.empty(self.x.shape, self.x.dtype)
        return DeviceArray(_core.empty(self.x.shape, self.x.dtype, self.place))

    def step(self) -> float:
        """Computes the next iterate and returns the norm of the residual of this one."""
        residual = self.residual
        self.meaning["residual"] = residual._buffer if self.on_device else residual
        following = self.buffers[self.iterations % 2]
        operands = (*self.system, self.x)
        _road.run("jacobi_step", operands, self.meaning, out=following, **self.options)
        self.meaning["checked"] = True
        return self.norm(residual)

    def advance(self) -> None:
        self.x = self.buffers[self.iterations % 2]
        self.iterations += 1

    def norm(self, vector) -> float:
        total = _road.run("reduce", (vector,), _SUMSQ, device=self.where)
        return math.sqrt(float(total.get() if isinstance(total, DeviceArray) else total))

    def view(self):
        """The iterate for a callback, without a copy where it is of the caller's kind."""
        if self.returns_host:
            view = self.x.get() if self.on_device else self.x.view()
            view.flags.writeable = False
            return view
        return give_back(self.x._buffer, self.kind)

    def result(self):
        if self.returns_host:
            return self.x.get() if self.on_device else np.array(self.x, order="C")
        order = {"axes": tuple(range(self.x.ndim))}
        copy = _core.run(
            "transpose", (self.x._buffer,), order, None, self.x._buffer.device, None, None
        )
        return give_back(copy, self.kind)


def _iterate(solver: _Solver, rtol, atol, maxiter, callback, bar) -> JacobiResult:
    residuals = [solver.step()]
    target = max(rtol * solver.norm(solver.system[-1]), atol)
    while not (reason := _verdict(residuals[-1], target, solver.iterations, maxiter)):
        solver.advance()
        if bar is not None:
            bar.update(1)
            bar.set_postfix(residual=f"{residuals[-1]:.3g}", refresh=False)
        try:
            if callback is not None:
                callback(solver.view())
        except StopIteration:
            reason = "callback"
        residuals.append(solver.step())
        if reason:
            break
    converged = math.isfinite(residuals[-1]) and residuals[-1] <= target < math.inf
    return JacobiResult(
        solver.result(), solver.iterations, np.array(residuals), converged, reason
    )


def _verdict(residual: float, target: float, iterations: int, maxiter: int) -> str:
    if not (math.isfinite(residual) and math.isfinite(target)):
        return "diverged"
    if residual <= target:
        return "converged"
    return "maxiter" if iterations == maxiter else ""
