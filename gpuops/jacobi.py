"""jacobi - one step of a stationary iteration for A x = f, and the solver made of steps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._call import road as _road
from ._call.docstring import arguments
from .arrays import DeviceArray
from .errors import brief, flag
from .sparse import SparseMatrix, csr_arrays, diagonal_to_find, is_sparse
from .stencils import Stencil

if TYPE_CHECKING:
    from ._show.jacobi_result import JacobiResult
    from .solver import Solver

__all__ = ["jacobi", "jacobi_step"]

_WEAK = ((complex, "c"), (float, "f"), (int, "i"))  # Python's numbers, the strongest first


def _at_once(A=None, f=None, x=None, *more, alpha=None, omega=None, out=None, device=None,
             **others):  # fmt: skip
    """A step with a dense A whose operands are arrays of one kind and dtype."""
    if more or others:
        return None
    word, factor = ("omega", omega) if alpha is None else ("alpha", alpha)
    if factor is None:
        factor = 1.0
    elif type(factor) is not float or (alpha is not None and omega is not None):
        return None
    kind = type(A)
    if kind is not type(f) or kind is not type(x):
        return None
    if kind is not np.ndarray and kind is not DeviceArray:
        operands = tuple(map(_core.foreign, (A, f, x)))
        if any(a is None for a in operands):
            return None
        A, f, x = operands
    dtype = A.dtype
    if f.dtype is not dtype or x.dtype is not dtype:
        return None
    if dtype.char not in "fdFD" or not dtype.isnative:
        return None
    meaning = {"csr": False, word: factor}
    if out is None and type(device) is not tuple:
        return _core.run("jacobi_step", (A, f, x), meaning, None, device, None, None)
    return _road.run("jacobi_step", (A, f, x), meaning, out=out, device=device)


def _public(maker):
    """The function that users call: it runs the Call that `maker` makes, if not `_at_once`."""
    name, taken = maker.__name__, arguments(maker)
    _road.calls[name] = maker

    @functools.wraps(maker)
    @_road.rounded
    def function(*args, **words):
        _road.refuse_words(name, args, words, taken)
        result = _at_once(*args, **words)
        return maker(*args, **words).run() if result is None else result

    return function


@_public
def jacobi_step(
    A, f, x, *, alpha=None, omega=None, out=None, device=None, kernel=None, params=None
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
    A : array_like (n, n), a sparse matrix, or what `sparse`, `stencil` and `poisson` make
        Sparse matrices are those of scipy.sparse, cupyx.scipy.sparse and PyTorch. Formats other
        than CSR are converted, and the structure is checked, on every call: `sparse` does both
        once. Stored duplicates add up.
    f, x : array_like (n,) or (n, k)
        Right-hand sides and current iterates, of one shape; k columns are k systems.
    alpha : number, optional
    omega : number, optional
        The damping, by default 1.0. To give both `alpha` and `omega` is an error.
    out : array, optional
        Takes the result; it may be `x` or overlap any input.
    device, kernel, params : optional
        Where and by which kernel; see ``gpuops.kernels("jacobi_step")``.

    Returns
    -------
    array
        With the shape of `x`, of the library that the inputs are of. The dtype is the common
        one of A, f and x: float32, float64, complex64 or complex128. Integers and booleans
        become float64, float16 and bfloat16 become float32. `alpha` and `omega` take that
        dtype, except that a complex one makes the result complex.

    Raises
    ------
    ValueError
        A is not square, f or x does not fit, the CSR structure is broken (the first bad
        position is named), or alpha and omega are both given, whatever their values.
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
    operands, meaning = _system("jacobi_step", A, f, x, alpha, omega, device, kernel)
    found = diagonal_to_find(operands, meaning)
    if found and _road.choose_device(
        "jacobi_step", operands, device, kernel, meaning
    ).backend == "cpu":  # fmt: skip
        meaning |= found
    f, x = operands[-2:]
    from_host = not isinstance(f, DeviceArray) and not isinstance(x, DeviceArray)
    return _road.Call(
        "jacobi_step", operands, meaning, out=out, device=device, kernel=kernel,
        tunables=params, finish=_on_host if from_host else None,
    )  # fmt: skip


@_road.refusing
def jacobi(
    A,
    f,
    x0=None,
    *,
    alpha=None,
    omega=None,
    rtol=1e-5,
    atol=0.0,
    maxiter=1000,
    dtol=1e5,
    check_every=1,
    callback: Callable[[Any], Any] | None = None,
    progress: bool = False,
    device=None,
    kernel=None,
    params=None,
) -> JacobiResult:
    """Solves ``A x = f`` by repeating `jacobi_step` until the residual is small.

    A column of f ends as soon as ``norm(f - A x) <= max(rtol*norm(f), atol)``, with the 2-norm.
    It does not change any more while the others go on. Iterate m has the bits of m calls of
    `jacobi_step`. Iterates, residuals and the number of steps are the same on every device.

    Parameters
    ----------
    A, f, alpha, omega
        As in `jacobi_step`.
    x0 : array_like, optional
        Where to start, of the shape of `f`; zeros by default. It is not changed.
    rtol, atol : float, optional
        Relative and absolute tolerance, not negative; they mean what they mean in
        ``scipy.sparse.linalg.cg``. An infinite one is met by every finite residual.
    maxiter : int, optional
        The largest number of steps.
    dtol : float, optional
        A column has diverged once its residual exceeds dtol times the larger of norm(f) and its
        first residual. It is at least 1. With ``inf`` a column diverges only if its residual is
        not finite.
    check_every : int, optional
        The number of steps from one check of the residual to the next. There is one more check
        after the last step.
    callback : callable, optional
        Called as ``callback(x)`` at each check but the first. x is the iterate, read-only and
        valid until the callback returns: copy it to keep it. If the callback raises
        StopIteration, the solver stops and returns that iterate; other exceptions pass through.
    progress : bool, optional
        Shows a progress bar; needs the package tqdm.
    device, kernel, params : optional
        Where to compute and by which kernel: one of the solver (``gpuops.kernels("jacobi")``),
        or one of its steps (``gpuops.kernels("jacobi_step")``). Steps are then repeated by
        Python, as they are for a callback.

    Returns
    -------
    JacobiResult
        With ``x``, ``iterations``, ``residuals``, ``converged`` and ``reason``. It unpacks as
        ``x, info``, where info is scipy's: 0 if it converged. No error is raised if it did not:
        ``reason`` says why, ``spectral_radius`` how fast it went, and ``needed`` how many steps
        it would take.

    Raises
    ------
    ValueError, TypeError, numpy.linalg.LinAlgError
        As `jacobi_step`; also for a negative or NaN tolerance, a negative `maxiter`, a `dtol`
        or a `check_every` below 1.
    ImportError
        `progress` is asked for and tqdm is not installed.

    Notes
    -----
    Norms are computed in float64, without underflow or overflow. A column of f that is zero has
    the solution 0 at once. A residual that is not finite ends its column as diverged.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> A = np.array([[4.0, 1.0], [1.0, 2.0]])
    >>> result = gpuops.jacobi(A, np.array([6.0, 5.0]), rtol=1e-10)
    >>> result.converged, result.iterations
    (True, 23)
    >>> x, info = result
    >>> np.round(x, 6), info
    (array([1., 2.]), 0)

    The eigenvalues of the Laplacian of a grid lie between 0 and 8, so the simple iteration
    converges for an alpha between -0.25 and 0:

    >>> def laplacian(m):
    ...     line = 2*np.eye(m) - np.eye(m, k=1) - np.eye(m, k=-1)
    ...     return np.kron(line, np.eye(m)) + np.kron(np.eye(m), line)
    >>> A, f = laplacian(15), np.ones(225)
    >>> gpuops.jacobi(A, f, alpha=-0.24).reason
    'converged'
    >>> gpuops.jacobi(A, f, alpha=-0.26).reason
    'diverged'
    """
    given = {"rtol": rtol, "atol": atol, "dtol": dtol, "maxiter": maxiter,
             "check_every": check_every}  # fmt: skip
    progress = _shown(callback, progress)
    solver = _solver_of(A, f, x0, alpha, omega, given, device, kernel, params)
    bar = _progress_bar(solver.rules.maxiter) if progress else None
    try:
        found = solver.run(callback, bar)
        if 0 not in solver.system.x.shape:
            call = solver.first_call(in_steps=callback is not None)
            found.kernel = call.plan()["kernel"]
        return found
    finally:
        if bar is not None:
            bar.close()


def _shown(callback, progress) -> bool:
    """Whether there is a bar; an exception if who watches the iteration cannot."""
    if callback is not None and not callable(callback):
        raise TypeError(f"jacobi: callback is a function of x, not {brief(callback)}")
    return flag("jacobi", "progress", progress)


def _solver_of(A, f, x0, alpha, omega, given, device, kernel, params) -> Solver:
    from . import solver as jacobi_solver  # here: who imports gpuops need not wait for it

    rules = jacobi_solver.Rules(
        _tolerance("rtol", given["rtol"]),
        _tolerance("atol", given["atol"]),
        _tolerance("dtol", given["dtol"], 1),
        _count("maxiter", given["maxiter"], 0),
        _count("check_every", given["check_every"], 1),
    )
    operands, meaning = _system("jacobi", A, f, x0, alpha, omega, device)
    system = jacobi_solver.System(operands, meaning, device, kernel)
    return jacobi_solver.Solver(system, rules, kernel, params)


def _first_call(*args, **words) -> _road.Call:
    """What `benchmark`, `ladder` and `explain` look at."""
    given = _road.bound(jacobi, args, words)
    _shown(given["callback"], given["progress"])
    system = [given[name] for name in ("A", "f", "x0", "alpha", "omega")]
    how = [given[name] for name in ("device", "kernel", "params")]
    return _solver_of(*system, given, *how).first_call()


_road.calls["jacobi"] = _first_call


# ---- the operands ----


def _on_host(result):
    """The result where f and x are NumPy's, wherever a SparseMatrix is kept."""
    return result.get() if isinstance(result, DeviceArray) else result


def _system(
    op: str, A, f, x, alpha, omega, device=None, kernel=None
) -> tuple[tuple, dict[str, Any]]:
    """The core's operands and params; x None means zeros like f."""
    if alpha is not None and omega is not None:
        raise ValueError(f"{op}: alpha and omega are both given; expected one of them")
    omega = 1.0 if omega is None else omega
    factor = _factor(op, "omega", omega) if alpha is None else _factor(op, "alpha", alpha)
    if isinstance(A, Stencil):
        A = A.placed(_road.operand(op, "f", f), device, kernel)
    matrix, meaning = _matrix(op, A)
    if x is None:
        f = _road.operand(op, "f", f)
        # Booleans go with any dtype.
        x = _zeros_like(f) if isinstance(f, DeviceArray) else np.zeros(f.shape, np.bool_)
    names = ("A", "f", "x0" if op == "jacobi" else "x")
    values = _promote(op, names, (matrix[0], f, x))
    dtype = values[0].dtype
    if dtype.kind not in "fc" or dtype.itemsize < 4:
        dtype = np.dtype(np.float32)  # from float16 and bfloat16
    if isinstance(factor, complex):
        dtype = np.result_type(dtype, np.complex64)
    if dtype != values[0].dtype:
        values = [_road.cast(op, n, v, dtype) for n, v in zip(names, values, strict=True)]
    data, f, x = values
    meaning["alpha" if alpha is not None else "omega"] = factor
    if isinstance(A, SparseMatrix):
        A.complete(meaning, dtype, alpha is None)
    elif isinstance(A, Stencil):
        A.complete(op, alpha is None)
    return (data, *matrix[1:], f, x), meaning


def _promote(op: str, names, values) -> list:
    """The operands as arrays of their common dtype, by NumPy's rules with weak Python numbers.

    The first one is an array. If all are integers, it is float64.
    """
    arrays = [None if type(v) in _road.WEAK else _road.operand(op, n, v, native=False)
              for n, v in zip(names, values, strict=True)]  # fmt: skip
    dtypes, kinds = {a.dtype for a in arrays if a is not None}, set(map(type, values))
    weak = next((kind for number, kind in _WEAK if number in kinds), "")
    dtype = _core.promote(tuple(dtypes), weak)
    if dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    return [
        _road.number(op, n, v, dtype) if a is None else _road.cast(op, n, a, dtype)
        for n, v, a in zip(names, values, arrays, strict=True)
    ]


def _zeros_like(f: DeviceArray) -> DeviceArray:
    """One zero, which stands for all items: nothing as long as f goes over the bus."""
    device, strides = f._buffer.device, (0,) * len(f.shape)
    zero = _zero(f.dtype, device)
    return DeviceArray(_core.borrow(zero.ptr, f.shape, strides, f.dtype, device, zero, True))


@functools.cache
def _zero(dtype: np.dtype, device: tuple[str, int]) -> _core.Buffer:
    return _core.upload(np.zeros(1, dtype), device)


def _matrix(op: str, A) -> tuple[tuple, dict[str, Any]]:
    """(A,), or CSR's (data, indices, indptr); and what the core is told of it."""
    if isinstance(A, (SparseMatrix, Stencil)):
        return A.operands()
    if not is_sparse(A):
        if hasattr(A, "matvec"):
            raise TypeError(
                f"{op}: A is a {type(A).__name__}, which only multiplies; the elements of A "
                "are needed; expected an array or a sparse matrix"
            )
        return (_road.operand(op, "A", A),), {"csr": False}
    data, indices, indptr, shape = csr_arrays(op, A)
    return (data, indices, indptr), {"csr": True, "n": shape[0], "columns": shape[1]}


def _factor(op: str, name: str, value) -> float | complex:
    return _road.plain_number(op, name, value, "iufc")


def _tolerance(name: str, value, least: int = 0) -> float:
    value = _factor("jacobi", name, value)
    if isinstance(value, complex) or not value >= least:
        wanted = f"{least} or more" if least else "a number that is not negative"
        raise ValueError(f"jacobi: {name} is {value}, expected {wanted}")
    return value


def _count(name: str, value, least: int) -> int:
    value = _road.index("jacobi", name, value)
    if value < least:
        raise ValueError(f"jacobi: {name} is {value}, expected {least} or more")
    return min(value, (1 << 62) - 1)  # which no solver reaches


def _progress_bar(maxiter: int):
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            "jacobi: progress=True needs the package tqdm; install it with 'pip install tqdm'"
        ) from None
    return tqdm(total=maxiter, desc="jacobi", unit="step")
