"""reductions - reduce, and its nine functions by NumPy's names.

Sums, means and float products go through one tree of additions, tree/v1 of docs/numerics.md,
so that their bits are the same on every device, axis and memory layout.
"""

from __future__ import annotations

import builtins
import functools
import warnings

import numpy as np

from . import _road
from .arrays import DeviceArray

__all__ = [
    "all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "reduce", "sum",
]  # fmt: skip

WORDS = ("sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax")


# The parameters of a reduction over all axes.
_WHOLE = {
    word: {"op": word, "axes": None, "keepdims": False, "where": False, "initial": None}
    for word in WORDS
}


class _NoValue:
    """The default of arguments for which None would mean something."""

    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE = _NoValue()


def reduce(a, op="sum", axis=None, dtype=None, out=None, keepdims=False, initial=NO_VALUE,
           where=NO_VALUE, *, device=None, kernel=None, params=None):  # fmt: skip
    """Combines the elements along axes by one operation, with NumPy's meaning and dtypes.

    Parameters
    ----------
    a : array_like
        bool, any integer, float16, bfloat16, float32, float64, complex64 or complex128.
    op : str
        "sum", "prod", "min", "max", "mean", "any", "all", "argmin" or "argmax". It is the
        second argument; the axis comes third.
    axis : None, int or tuple of int
        None: all axes. argmin and argmax take one axis or None.
    dtype : dtype, optional
        `a` is cast to it first. Without it, sums and products of booleans and small integers
        are int64 or uint64, means of integers float64, and floats keep their dtype.
    out : array, optional
        Takes the result.
    keepdims : bool
        Keeps reduced axes with extent 1.
    initial : scalar, optional
        Takes part as one more element, last; min and max of nothing need it.
    where : array_like of bool, optional
        Broadcast against `a`; elements where it is False do not take part.
    device, kernel, params : optional
        As in `add`; see ``gpuops.kernels("reduce")``.

    Returns
    -------
    array or scalar
        A NumPy scalar for a full reduction of host arrays.

    Raises
    ------
    numpy.exceptions.AxisError, ValueError, TypeError
        As NumPy: an axis out of range or repeated, min of nothing, `where` that is not bool.

    Notes
    -----
    A float sum of n elements has an error of at most (22 + log2(leaves))*u*sum(abs(a)) to first
    order, with leaves = n/2048 rounded up to a power of two.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> a = np.arange(6).reshape(2, 3)
    >>> gpuops.reduce(a, "max", axis=0)
    array([3, 4, 5])
    >>> float(gpuops.reduce(np.full(70000, 0.1, np.float16)))
    7000.0
    """
    options = (device, kernel, params)
    return _reduce(_word(op), a, axis, dtype, out, keepdims, initial, where, options, "reduce")


def _word(op) -> str:
    word = getattr(op, "__name__", None) if callable(op) else op
    if isinstance(word, str) and word in WORDS:
        return word
    if isinstance(op, (int, tuple)) and not isinstance(op, bool):
        raise TypeError(
            f"reduce: the operation comes second and the axis third: "
            f"reduce(a, 'sum', {op}), or gpuops.sum(a, {op})"
        )
    kind = ValueError if isinstance(op, str) else TypeError
    raise kind(f"reduce: there is no operation {op!r}, only {', '.join(WORDS)}")


def _reduce(word, a, axis, dtype, out, keepdims, initial, where, options, name=None):
    if axis is None and dtype is None and initial is NO_VALUE and where is NO_VALUE:
        result = NotImplemented
        if keepdims is False and word != "mean":
            result = _road.quick("reduce", _WHOLE[word], out, *options, a)
        if result is not NotImplemented:
            return result
    name = name or word  # what the caller called, for the sentences
    a = _road.operand(name, "a", a)
    axes = None if axis is None else _road.axes(name, "axis", axis, a.ndim)
    if dtype is None:
        result_dtype = final = _result(word, a.dtype)
    else:
        first, result_dtype, final = _dtypes(name, word, a.dtype, dtype)
        a = _road.cast(name, "a", a, first)
    operands = [a]
    mask = where is not NO_VALUE and where is not np._NoValue and where is not True
    if mask:
        operands.append(_mask(name, where, a))
    call = {"op": word, "axes": axes, "keepdims": bool(keepdims), "where": mask,
            "initial": None if initial is NO_VALUE
            else _initial(name, word, initial, result_dtype)}  # fmt: skip
    if word == "mean":
        _warn_empty(a, axes, operands[1] if mask else None)
    device, kernel, params = options
    keywords = {"device": device, "kernel": kernel, "tunables": params}
    if final is result_dtype or final == result_dtype:
        result = _road.run("reduce", operands, call, out=out, **keywords)
        return _road.scalar(result) if out is None else result
    if isinstance(a, DeviceArray):
        raise TypeError(f"{name}: a device array's {word} is {result_dtype}, not {final}")
    result = np.asarray(_road.run("reduce", operands, call, **keywords)).astype(final)
    if out is None:
        return _road.scalar(result)
    out, target = _road.output(name, out)
    _road.store_check(name, final, target)
    return _road.store(name, out, target, result)


def _dtypes(name: str, word: str, have: np.dtype, asked):
    """(of the input, of the core's result, of what the caller gets)."""
    if word in ("any", "all", "argmin", "argmax"):
        raise TypeError(
            f"{name}: dtype is not an argument of it, its result is {_result(word, have)}"
        )
    try:
        asked = np.dtype(asked)
    except TypeError as error:
        raise TypeError(f"{name}: dtype: {error}") from None
    asked = _road.operand(name, "dtype", np.empty(0, asked)).dtype
    if word == "mean" and asked.kind in "biu":
        raise TypeError(
            f"mean: dtype {asked} cannot hold a mean; cast the result with .astype()"
        )
    if word in ("sum", "prod") and asked.kind in "iu" and have.kind in "biu":
        return have, _result(word, have), asked  # wrapping at the end is wrapping on the way
    return asked, _result(word, asked), asked


@functools.cache
def _result(word: str, dtype: np.dtype) -> np.dtype:
    if word in ("any", "all"):
        return np.dtype(bool)
    if word in ("argmin", "argmax"):
        return np.dtype(np.int64)
    if word == "mean" and dtype.kind in "biu":
        return np.dtype(np.float64)
    if word in ("sum", "prod") and dtype.kind in "biu":
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return dtype


def _mask(name: str, where, a):
    if not isinstance(where, DeviceArray):
        where = _road.operand(name, "where", where)
    if where.dtype != bool:
        raise TypeError(f"{name}: where has dtype {where.dtype}; bool is needed")
    if isinstance(where, DeviceArray):
        return where
    try:
        return np.broadcast_to(where, a.shape)
    except ValueError:
        raise ValueError(
            f"{name}: where of shape {where.shape} does not broadcast to a's {a.shape}"
        ) from None


def _initial(name: str, word: str, initial, dtype: np.dtype):
    if initial is NO_VALUE or initial is np._NoValue:
        return None
    if word in ("mean", "any", "all", "argmin", "argmax"):
        raise TypeError(f"{name}: initial is not an argument of it")
    value = _road.operand(name, "initial", initial)
    if isinstance(value, DeviceArray) or value.ndim:
        raise ValueError(f"{name}: initial is one number, not an array of shape {value.shape}")
    common = _road.promote(name, ("a", "initial"), (np.empty(0, dtype), initial))[1]
    fits = dtype.kind in ("b", common.dtype.kind) or np.can_cast(
        common.dtype, dtype, "same_kind"
    )
    if not fits:
        raise TypeError(f"{name}: initial {initial!r} does not fit the result's dtype {dtype}")
    return common.astype(dtype)[()].item() if dtype.kind != "V" else float(common)


def _warn_empty(a, axes, mask) -> None:
    try:
        axes = range(a.ndim) if axes is None else [range(a.ndim)[i] for i in axes]
    except IndexError:
        return  # the core has the sentence
    empty = builtins.any(a.shape[i] == 0 for i in axes)
    if not empty and isinstance(mask, np.ndarray):
        empty = not np.logical_or.reduce(mask, tuple(set(axes))).all()
    if empty:
        warnings.warn("mean of an empty slice is NaN", RuntimeWarning, stacklevel=4)


def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE, *,
        device=None, kernel=None, params=None):  # fmt: skip
    """Sums over axes, as ``np.sum``, with the same bits on every device; see `reduce`.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.sum(np.ones((2, 3), np.float32), axis=1)
    array([3., 3.], dtype=float32)
    """
    options = (device, kernel, params)
    return _reduce("sum", a, axis, dtype, out, keepdims, initial, where, options)


def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE,
         *, device=None, kernel=None, params=None):  # fmt: skip
    """Multiplies over axes, as ``np.prod``; see `reduce`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.prod([1, 2, 3, 4])
    np.int64(24)
    """
    options = (device, kernel, params)
    return _reduce("prod", a, axis, dtype, out, keepdims, initial, where, options)


def min(a, axis=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE, *,
        device=None, kernel=None, params=None):  # fmt: skip
    """Minimum over axes, as ``np.min``: a NaN wins, and -0.0 is below 0.0; see `reduce`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.min([[3, 1], [2, 5]], axis=0)
    array([2, 1])
    """
    options = (device, kernel, params)
    return _reduce("min", a, axis, None, out, keepdims, initial, where, options)


def max(a, axis=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE, *,
        device=None, kernel=None, params=None):  # fmt: skip
    """Maximum over axes, as ``np.max``: a NaN wins, and 0.0 is above -0.0; see `reduce`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.max([1.0, float("nan"), 2.0])
    np.float64(nan)
    """
    options = (device, kernel, params)
    return _reduce("max", a, axis, None, out, keepdims, initial, where, options)


def mean(a, axis=None, dtype=None, out=None, keepdims=False, where=NO_VALUE, *, device=None,
         kernel=None, params=None):  # fmt: skip
    """Arithmetic mean over axes, as ``np.mean``; integers in float64; see `reduce`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.mean([1, 2, 4])
    np.float64(2.3333333333333335)
    """
    options = (device, kernel, params)
    return _reduce("mean", a, axis, dtype, out, keepdims, NO_VALUE, where, options)


def any(a, axis=None, out=None, keepdims=False, where=NO_VALUE, *, device=None, kernel=None,
        params=None):  # fmt: skip
    """True where any element along the axes is not zero, as ``np.any``; see `reduce`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.any([0, 0, 3])
    np.True_
    """
    options = (device, kernel, params)
    return _reduce("any", a, axis, None, out, keepdims, NO_VALUE, where, options)


def all(a, axis=None, out=None, keepdims=False, where=NO_VALUE, *, device=None, kernel=None,
        params=None):  # fmt: skip
    """True where every element along the axes is not zero, as ``np.all``; see `reduce`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.all([[1, 0], [1, 1]], axis=1)
    array([False,  True])
    """
    options = (device, kernel, params)
    return _reduce("all", a, axis, None, out, keepdims, NO_VALUE, where, options)


def argmin(a, axis=None, out=None, keepdims=False, *, device=None, kernel=None, params=None):
    """Index of the first minimum, as ``np.argmin``; a NaN is the least; see `reduce`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.argmin([3, 1, 2, 1])
    np.int64(1)
    """
    options = (device, kernel, params)
    return _reduce("argmin", a, axis, None, out, keepdims, NO_VALUE, NO_VALUE, options)


def argmax(a, axis=None, out=None, keepdims=False, *, device=None, kernel=None, params=None):
    """Index of the first maximum, as ``np.argmax``; a NaN is the greatest; see `reduce`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.argmax([[1, 9], [7, 2]], axis=1)
    array([1, 0])
    """
    options = (device, kernel, params)
    return _reduce("argmax", a, axis, None, out, keepdims, NO_VALUE, NO_VALUE, options)
