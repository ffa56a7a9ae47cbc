"""ops - the elementwise operations, transpose and matmul; the reductions are in reductions.py.

Each `def` has the words and the documentation of its function; the core reads and runs its
calls (csrc/python/front.c), with dtypes promoted as NumPy does. All end in the same three
keywords: `device` ("cpu", "cuda", "cuda:1", "auto"), `kernel` (the name of a row of
`gpuops.kernels(op)`) and `params` (that kernel's tunables, such as {"uf": 4}).
"""

from __future__ import annotations

from ._call.road import front as _front

__all__ = ["add", "fma", "matmul", "multiply_add", "transpose"]


@_front
def add(a, b, out=None, *, device=None, kernel=None, params=None):
    """Adds two arrays, as NumPy's ``a + b``.

    out[i] = a[i] + b[i] with broadcasting. Booleans are or-ed, integers wrap. The bits are
    NumPy's on every device. The result keeps the memory order of the inputs.

    Parameters
    ----------
    a, b : array_like
        bool, any integer, float16, bfloat16, float32, float64, complex64 or complex128.
    out : array, optional
        Takes the result; it may be an input or overlap one.
    device, kernel, params : optional
        Where to compute, such as "cuda"; by which kernel (``gpuops.kernels("add")`` lists
        them); and the kernel's tunables, such as ``{"side": 16}``.

    Returns
    -------
    array
        Of the same library as the inputs; a scalar if both are scalars.

    Raises
    ------
    ValueError
        The shapes do not broadcast, or `out` does not fit.
    TypeError
        A dtype that is not listed above.
    OverflowError
        A Python integer that is too large for the arrays' dtype.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.add(np.arange(3), np.array([[0], [10]]))
    array([[ 0,  1,  2],
           [10, 11, 12]])
    """


@_front
def multiply_add(a, b, c, out=None, *, device=None, kernel=None, params=None):
    """Computes ``a*b + c`` with a rounding after each of the two steps, as NumPy does.

    out[i] = a[i]*b[i] + c[i] with broadcasting. Complex products are
    (ar*br - ai*bi, ar*bi + ai*br), each operation rounded.

    Parameters
    ----------
    a, b, c : array_like
        The dtypes of `add`.
    out, device, kernel, params : optional
        As in `add`.

    Returns
    -------
    array
        Of the same library as the inputs.

    Raises
    ------
    ValueError
        The shapes do not broadcast, or `out` does not fit.
    TypeError
        A dtype that `add` does not take.
    OverflowError
        A Python integer that is too large for the arrays' dtype.

    See Also
    --------
    fma : one rounding.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.multiply_add(np.float32([1, 2, 3]), 10, 0.5)
    array([10.5, 20.5, 30.5], dtype=float32)
    """


@_front
def fma(a, b, c, out=None, *, device=None, kernel=None, params=None):
    """Computes ``a*b + c`` rounded once, as C's and Python's ``math.fma``.

    Parameters
    ----------
    a, b, c : array_like
        float16, bfloat16, float32 or float64; integers become float64. float16 and bfloat16
        are rounded once too, never by way of float32.
    out, device, kernel, params : optional
        As in `add`.

    Returns
    -------
    array
        Of the same library as the inputs.

    Raises
    ------
    TypeError
        Complex input: a fused complex product has no single meaning.

    Examples
    --------
    The rounding error of a product, exactly:

    >>> import numpy as np, gpuops
    >>> x = np.float64([1 + 2**-30])
    >>> gpuops.fma(x, x, -(x * x)) == 2.0**-60
    array([ True])
    """


@_front
def transpose(a, axes=None, *more, out=None, device=None, kernel=None, params=None):
    """Permutes the axes of an array into a new C-contiguous array.

    out[i, j] = a[j, i]; in general axis d of the result is axis ``axes[d]`` of `a`. Unlike
    ``np.transpose`` the result is a copy, never a view.

    Parameters
    ----------
    a : array_like
        Any rank, any dtype without Python objects.
    axes : sequence of int, optional
        A permutation of the axes, as one tuple. Negative axes count from the end. Without it
        all axes are reversed.
    out, device, kernel, params : optional
        As in `add`.

    Returns
    -------
    array
        C-contiguous, of the same library as `a`.

    Raises
    ------
    numpy.exceptions.AxisError
        An axis is out of range.
    ValueError
        `axes` repeats an axis or has the wrong length.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.transpose(np.arange(6).reshape(2, 3))
    array([[0, 3],
           [1, 4],
           [2, 5]])
    >>> gpuops.transpose(np.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    if more:
        given = ", ".join(map(str, (axes, *more)))
        raise TypeError(
            f"transpose: axes is one tuple: transpose(a, ({given})), not transpose(a, {given})"
        )


@_front
def matmul(a, b, out=None, *, precision=None, device=None, kernel=None, params=None):
    """Multiplies matrices, as ``np.matmul``.

    out[..., i, j] = sum over l of a[..., i, l] * b[..., l, j]. Leading axes broadcast as
    batches. A 1-D `a` counts as a row and a 1-D `b` as a column; the result then lacks that
    axis.

    Parameters
    ----------
    a, b : array_like
        The dtypes of `add`; any strides, so transposed views cost no copy. Integers wrap,
        booleans give whether any product is true, float16 and bfloat16 accumulate in float32.
    precision : {None, "highest", "fast", "tf32", "bf16"}, optional
        The least accuracy that will do for float32 and complex64. None and "highest": the
        dtype's own. "fast": c in the Notes is larger by 9; each number keeps 22 of its 24 bits,
        so that even its product by 1 need not be exact. "tf32" and "bf16": factors are rounded
        to 11 or to 8 bits, and summed in float32. The kernel that runs has that accuracy or a
        better one; `explain` says which. On the CPU, and for all other dtypes, it is always
        "highest".
    out, device, kernel, params : optional
        As in `add`.

    Returns
    -------
    array
        C-contiguous, of the same library as the inputs.

    Raises
    ------
    ValueError
        The inner extents differ, an operand is 0-d, the batches do not broadcast, or there is
        no such precision.

    Notes
    -----
    An element that sums k products is at most c u times ``sum(|a| * |b|)`` away from the exact
    sum. u is 2**-24 for float32 and 2**-53 for float64. c is at most 2 k + 4 on every device,
    and min(k, 256) + ceil(k / 256) - 1 for most kernels of the CPU; docs/numerics.md has that
    of each kernel. The same call gives the same bits on the same device.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> gpuops.matmul(a, a.T)
    array([[ 5., 14.],
           [14., 50.]])
    """
