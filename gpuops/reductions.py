"""reductions - reduce, and its nine functions by NumPy's names.

Sums, means and float products go through one tree of additions, tree/v1 of docs/numerics.md,
so that their bits are the same on every device, axis and memory layout.
"""

from __future__ import annotations

import warnings

import numpy as np

from ._call import reduction as _reduction
from ._call import road as _road
from ._call.docstring import completed
from ._call.reduction import NO_VALUE
from .arrays import DeviceArray

__all__ = [
    "all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "reduce", "sum",
]  # fmt: skip


def _public(maker):
    maker.__doc__ = completed(maker, reduce)
    return _road.front(maker, reduces=True)


@_road.public
def reduce(a, op="sum", axis=None, dtype=None, out=None, keepdims=False, initial=NO_VALUE,
           where=NO_VALUE, *, exact=False, device=None, kernel=None, params=None):  # fmt: skip
    """Combines the elements along axes by one operation, with NumPy's meaning and dtypes.

    Parameters
    ----------
    a : array_like
        bool, any integer, float16, bfloat16, float32, float64, complex64 or complex128.
    op : str or function
        "sum", "prod", "min", "max", "mean", "any", "all", "argmin" or "argmax"; or a function
        such as `max` or ``np.add``. It is the second argument; the axis comes third.
    axis : None, int or tuple of int
        None: all axes. argmin and argmax take one axis or None.
    dtype : dtype, optional
        `a` is cast to it first. Without it, sums and products of booleans and small integers
        are int64 or uint64, means of integers float64, and floats keep their dtype.
    out : array, optional
        Takes the result. Without `dtype` the elements are cast to NumPy's common dtype of `a`
        and `out` first. With ``...`` a result of no axes is an array too.
    keepdims : bool
        Keeps reduced axes with extent 1.
    initial : scalar, optional
        Takes part as one more element, last; min and max of nothing need it. None: sum and
        prod need an element too.
    where : array_like of bool, optional
        Broadcast against `a`; elements where it is False do not take part.
    exact : bool
        Of "sum" and "mean": the real sum of the terms, or the real quotient, rounded once to
        the result's dtype. Then no order of the terms, no cut into chunks and no device
        changes a bit (exact/v1 of docs/numerics.md).
    device, kernel, params : optional
        As in `add`; see ``gpuops.kernels("reduce")``.

    Returns
    -------
    array or scalar
        A NumPy scalar for a full reduction of host arrays.

    Raises
    ------
    numpy.exceptions.AxisError
        An axis is out of range.
    ValueError
        An axis is given twice, an array does not fit the shape of `a` or of the result, or a
        minimum, a maximum or the place of one is asked for where there are no elements.
    TypeError
        A dtype that is not listed above, a mask that is not of bool, or a cast that NumPy
        would refuse.
    OverflowError
        `initial` does not fit the dtype of the result.

    Notes
    -----
    Without `exact` a float sum of n elements has an error of at most
    (22 + log2(leaves))*u*sum(abs(a)) to first order, with leaves = n/2048 rounded up to a power
    of two.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> a = np.arange(6).reshape(2, 3)
    >>> gpuops.reduce(a, "max", axis=0)
    array([3, 4, 5])
    >>> float(gpuops.reduce(np.full(70000, 0.1, np.float16)))
    7000.0
    >>> float(gpuops.reduce([1e100, -1e100, 1.0], exact=True))
    1.0
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce(_reduction.word(op), a, axis, dtype, out, keepdims, initial, where, options,
                   exact)  # fmt: skip


def _reduce(word, a, axis, dtype, out, keepdims, initial, where, options,
            exact=False) -> _road.Call:  # fmt: skip
    exact = _reduction.exactness(word, exact)
    a = _road.operand(word, "a", a, native=False)
    have = a.dtype if a.dtype.isnative else a.dtype.newbyteorder("=")
    axes = None if axis is None else _road.axes(word, "axis", axis, a.ndim)
    if a.ndim == 0 and isinstance(axis, tuple) and axis:  # 0 and -1 alone mean the scalar
        raise np.exceptions.AxisError(axes[0], 0, word)
    if not isinstance(keepdims, (bool, np.bool_)):
        keepdims = _road.index(word, "keepdims", keepdims)
    given, boxed = out, out is ...  # a result of no axes as an array
    if boxed:
        out = None
    if out is not None:
        given, out = _road.output(word, out)
        dtype = dtype if dtype is not None else _reduction.into(word, have, out.dtype)
    if dtype is None:
        first, result_dtype = have, _reduction.result(word, have)
        final = result_dtype
    else:
        first, result_dtype, final = _reduction.dtypes(word, have, dtype)
    operands = [_road.read_as(word, "a", a, first)]
    mask = where is not NO_VALUE and where is not np._NoValue and where is not True
    if mask:
        operands.append(_reduction.mask(word, where))
    if initial is NO_VALUE or initial is np._NoValue:
        first = None
    elif initial is None and word in ("sum", "prod", "min", "max"):
        first = _reduction.no_identity(word, a, axes, mask, result_dtype)
    else:
        first = _reduction.initial(word, initial, final, result_dtype)
    params = {"op": word, "axes": axes, "keepdims": bool(keepdims), "where": mask,
              "initial": first}  # fmt: skip
    if exact and not (word == "sum" and result_dtype.kind in "iu"):  # these are exact anyway
        params["exact"] = 1
    if word == "mean" and _reduction.is_empty(a, axes, operands[1] if mask else None):
        warnings.warn("mean of an empty slice is NaN", RuntimeWarning, stacklevel=5)
    if out is not None and out.dtype != final:
        _road.store_check(word, final, out)
    call = _road.Call("reduce", operands, params, name=word, **options)
    if final is result_dtype or final == result_dtype:
        call.out = out
        if out is not None:
            call.finish = lambda _: given
        elif not boxed:
            call.finish = _road.scalar
        return call
    if isinstance(a, DeviceArray):
        raise TypeError(
            f"{word}: a device array's {word} is {result_dtype}, not {final}: cast the result "
            "by its astype()"
        )

    def finish(result):
        result = np.asarray(result).astype(final)
        if out is not None:
            return _road.store(word, given, out, result)
        return result if boxed else _road.scalar(result)

    call.finish = finish
    return call


@_public
def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE, *,
        exact=False, device=None, kernel=None, params=None):  # fmt: skip
    """Sums over axes, as ``np.sum``, with the same bits on every device.

    It is ``reduce(a, "sum")``. With ``exact=True`` the real sum is rounded once, so that the
    order of the terms changes nothing either.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.sum(np.ones((2, 3), np.float32), axis=1)
    array([3., 3.], dtype=float32)
    >>> a = [1e100, -1e100, 1.0]
    >>> float(gpuops.sum(a)), float(gpuops.sum(a, exact=True))
    (0.0, 1.0)
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("sum", a, axis, dtype, out, keepdims, initial, where, options, exact)


@_public
def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE,
         *, device=None, kernel=None, params=None):  # fmt: skip
    """Multiplies over axes, as ``np.prod``.

    It is ``reduce(a, "prod")``.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.prod([1, 2, 3, 4])
    np.int64(24)
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("prod", a, axis, dtype, out, keepdims, initial, where, options)


@_public
def min(a, axis=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE, *,
        device=None, kernel=None, params=None):  # fmt: skip
    """Minimum over axes, as ``np.min``: a NaN wins, and -0.0 is below 0.0.

    It is ``reduce(a, "min")``.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.min([[3, 1], [2, 5]], axis=0)
    array([2, 1])
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("min", a, axis, None, out, keepdims, initial, where, options)


@_public
def max(a, axis=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE, *,
        device=None, kernel=None, params=None):  # fmt: skip
    """Maximum over axes, as ``np.max``: a NaN wins, and 0.0 is above -0.0.

    It is ``reduce(a, "max")``.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.max([1.0, float("nan"), 2.0])
    np.float64(nan)
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("max", a, axis, None, out, keepdims, initial, where, options)


@_public
def mean(a, axis=None, dtype=None, out=None, keepdims=False, where=NO_VALUE, *, exact=False,
         device=None, kernel=None, params=None):  # fmt: skip
    """Arithmetic mean over axes, as ``np.mean``; integers in float64.

    It is ``reduce(a, "mean")``. With ``exact=True`` the real sum over the number of terms is
    rounded once.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.mean([1, 2, 4])
    np.float64(2.3333333333333335)
    >>> gpuops.mean([1e308, 1e308, 1e308], exact=True)
    np.float64(1e+308)
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("mean", a, axis, dtype, out, keepdims, NO_VALUE, where, options, exact)


@_public
def any(a, axis=None, out=None, keepdims=False, where=NO_VALUE, *, device=None, kernel=None,
        params=None):  # fmt: skip
    """True where any element along the axes is not zero, as ``np.any``.

    It is ``reduce(a, "any")``; a NaN is not zero.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.any([0, 0, 3])
    np.True_
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("any", a, axis, None, out, keepdims, NO_VALUE, where, options)


@_public
def all(a, axis=None, out=None, keepdims=False, where=NO_VALUE, *, device=None, kernel=None,
        params=None):  # fmt: skip
    """True where every element along the axes is not zero, as ``np.all``.

    It is ``reduce(a, "all")``; a NaN is not zero.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.all([[1, 0], [1, 1]], axis=1)
    array([False,  True])
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("all", a, axis, None, out, keepdims, NO_VALUE, where, options)


@_public
def argmin(a, axis=None, out=None, keepdims=False, *, device=None, kernel=None, params=None):
    """Index of the first minimum, as ``np.argmin``; a NaN is the least.

    It is ``reduce(a, "argmin")``.

    Parameters
    ----------
    axis : int, optional
        One axis; without it the index is that in C order of the whole array.

    Returns
    -------
    int64 array or scalar
        A NumPy scalar for a full reduction of host arrays.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.argmin([3, 1, 2, 1])
    np.int64(1)
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("argmin", a, axis, None, out, keepdims, NO_VALUE, NO_VALUE, options)


@_public
def argmax(a, axis=None, out=None, keepdims=False, *, device=None, kernel=None, params=None):
    """Index of the first maximum, as ``np.argmax``; a NaN is the greatest.

    It is ``reduce(a, "argmax")``.

    Parameters
    ----------
    axis : int, optional
        One axis; without it the index is that in C order of the whole array.

    Returns
    -------
    int64 array or scalar
        A NumPy scalar for a full reduction of host arrays.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.argmax([[1, 9], [7, 2]], axis=1)
    array([1, 0])
    """
    options = {"device": device, "kernel": kernel, "tunables": params}
    return _reduce("argmax", a, axis, None, out, keepdims, NO_VALUE, NO_VALUE, options)
