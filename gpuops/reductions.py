"""reductions - reduce, and its nine functions by NumPy's names.

Sums, means and float products go through one tree of additions, tree/v1 of docs/numerics.md,
so that their bits are the same on every device, axis and memory layout.
"""

from __future__ import annotations

from . import _core
from ._call import arguments as _arguments
from ._call import road as _road
from ._call.docstring import completed
from ._call.reduction import NO_VALUE

__all__ = [
    "all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "reduce", "sum",
]  # fmt: skip


_core.setup_arguments(_arguments)


def _public(maker):
    maker.__doc__ = completed(maker, _whole)
    return _road.front(maker)


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
        and `out` first. With ``out=...`` (Ellipsis) a 0-d result is an array, not a scalar.
    keepdims : bool
        Keeps reduced axes with extent 1.
    initial : scalar, optional
        Takes part as one more element, which comes last. min and max need it if there are no
        elements. With None sum and prod need an element, too.
    where : array_like of bool, optional
        Broadcast against `a`; elements where it is False do not take part.
    exact : bool
        For "sum" and "mean": computes the exact sum or quotient, and rounds it once to the
        result's dtype. Then no order of the terms, no cut into chunks and no device changes a
        bit (exact/v1 of docs/numerics.md).
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
        An axis is given twice, an array does not fit the shape of `a` or of the result, or
        there are no elements that could have a minimum or a maximum.
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


_whole, reduce = reduce, _road.front(reduce)  # its def has the arguments' names


@_public
def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE, *,
        exact=False, device=None, kernel=None, params=None):  # fmt: skip
    """Sums over axes, as ``np.sum``, with the same bits on every device.

    It is ``reduce(a, "sum")``. With ``exact=True`` the exact sum is rounded once, so that the
    order of the terms changes no bit, either.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.sum(np.ones((2, 3), np.float32), axis=1)
    array([3., 3.], dtype=float32)
    >>> a = [1e100, -1e100, 1.0]
    >>> float(gpuops.sum(a)), float(gpuops.sum(a, exact=True))
    (0.0, 1.0)
    """


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


@_public
def mean(a, axis=None, dtype=None, out=None, keepdims=False, where=NO_VALUE, *, exact=False,
         device=None, kernel=None, params=None):  # fmt: skip
    """Arithmetic mean over axes, as ``np.mean``; integers in float64.

    It is ``reduce(a, "mean")``. With ``exact=True`` the exact quotient is rounded once.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.mean([1, 2, 4])
    np.float64(2.3333333333333335)
    >>> gpuops.mean([1e308, 1e308, 1e308], exact=True)
    np.float64(1e+308)
    """


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
