"""operands - from what a caller passed to plain arrays of one dtype, or one sentence.

Nothing here knows an operation. The core sees base-class arrays of one compute dtype, or pairs
of an array and that dtype, where it casts the elements on their way.
"""

from __future__ import annotations

import functools
import operator
import sys

import numpy as np

from .. import _core
from ..arrays import DeviceArray, borrow, is_foreign
from ..errors import brief
from .dtypes import ACCEPTED, as_bfloat16, bad_dtype, bfloat, cast_host, is_bfloat16, known
from .meaning import no_array, read, refuse_meaning

WEAK = (int, float, complex)  # Python's own numbers: they take the arrays' dtype (NEP 50)
_WEAK = ((complex, "c"), (float, "f"), (int, "i"))  # the strongest first

# NumPy's own native dtypes are single objects: their identity tells more quickly what they are.
_KINDS = {id(np.dtype(c)): np.dtype(c).kind for c in "?bhilBHILefdFD"}


def rounded(function):
    """`function` within the core's floating-point environment, whatever the caller's is: NumPy
    and Python round to nearest, and no subnormal number is flushed.
    """

    @functools.wraps(function)
    def inside(*args, **words):
        before = _core.float_environment(None)
        try:
            return function(*args, **words)
        finally:
            _core.float_environment(before)

    return inside


def is_weak(x) -> bool:
    return type(x) in WEAK


def operand(op: str, name: str, x, kinds: str = "biufc", native: bool = True):
    """`x` as a base-class np.ndarray or a DeviceArray whose dtype `op` takes.

    `kinds` are NumPy's kind letters, or "any" for plain bytes. Without `native` its bytes may
    be swapped, an integer may be a long long, and no view is made: whoever resizes the array
    meanwhile finds it read anew. TypeError and ValueError name the op and the operand.
    """
    if type(x) is not np.ndarray and type(x) is not DeviceArray:
        x = _convert(op, name, x)
    dtype = x.dtype
    if _KINDS.get(id(dtype), "none") in kinds:
        return x
    if kinds == "any":
        if dtype.hasobject or dtype.itemsize == 0:
            raise TypeError(f"{op}: {name} has dtype {dtype}; accepted is {ACCEPTED['any']}")
        return x
    wanted = known(op, name, dtype, kinds)
    if not native:
        return x
    if not dtype.isnative:
        return cast(op, name, x, wanted)
    return x.view(wanted) if dtype.char in "qQ" else x


def _convert(op: str, name: str, x):
    """An array of an object that is neither a plain ndarray nor a DeviceArray."""
    taken = _core.foreign(x)  # the common case, which is quicker than the questions below
    if taken is not None:
        return taken
    refuse_meaning(op, name, x)
    if isinstance(x, np.ndarray):
        return np.asarray(x)
    if not isinstance(x, (list, tuple, *WEAK, np.generic)) and is_foreign(x):
        return borrow(op, name, x)
    a = read(op, name, x)
    if a.dtype.kind not in "OSUT" or isinstance(x, np.generic):
        return a
    if a.dtype.kind != "O" and not isinstance(x, (str, bytes)):
        return a  # an array of strings: its dtype is the complaint, or is moved as bytes
    raise no_array(op, name, x)


def promote(op: str, names, values, kinds: str, least: str) -> list:
    """The operands as arrays of their common dtype, by NumPy's rules with weak Python numbers.

    If all operands are integers, it is `least`.
    """
    arrays = [None if type(v) in WEAK else operand(op, n, v, kinds, native=False)
              for n, v in zip(names, values, strict=True)]  # fmt: skip
    dtype = _common(arrays, values)
    if dtype.kind in "biu":
        dtype = np.dtype(least)
    if dtype.kind not in kinds and not is_bfloat16(dtype):
        raise bad_dtype(op, names[-1], dtype, kinds)
    return [
        number(op, n, v, dtype) if a is None else cast(op, n, a, dtype)
        for n, v, a in zip(names, values, arrays, strict=True)
    ]


def _common(arrays, values) -> np.dtype:
    dtypes = {a.dtype for a in arrays if a is not None}
    weak = [v for v, a in zip(values, arrays, strict=True) if a is None]
    if not dtypes:
        return np.result_type(*weak)
    kinds = {type(v) for v in weak}
    return _core.promote(tuple(dtypes), next((k for t, k in _WEAK if t in kinds), ""))


def common(*dtypes: np.dtype) -> np.dtype:
    """The common dtype of arrays: NumPy's, or that of docs/numerics.md for bfloat16."""
    return _core.promote(dtypes, "")


def number(op: str, name: str, value, dtype: np.dtype) -> np.ndarray:
    """A Python number in an array's dtype; OverflowError if an integer does not fit."""
    if dtype.type is bfloat:
        return as_bfloat16(number(op, name, value, np.dtype(np.float32)), dtype)
    if type(value) is not complex and -60000 < value < 60000 and dtype.kind == "f":
        return np.array(value, dtype)  # no float dtype overflows there
    try:
        if dtype.kind == "V":
            value = float(value)  # bfloat16 itself takes no large int
        with np.errstate(over="ignore"):
            return np.array(value, dtype)
    except OverflowError:
        short = value.bit_length() < 200  # Python refuses to print very long integers
        shown = f"{name} = {value}" if short else f"{name} of {value.bit_length()} bits"
        raise OverflowError(f"{op}: {shown} is out of bounds for {dtype}") from None


def plain_number(op: str, name: str, value, kinds: str = "iuf"):
    """A number of Python's or NumPy's as Python's float, or complex where `kinds` has "c"."""
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            bits = value.bit_length()
            raise OverflowError(
                f"{op}: {name} of {bits} bits is too large for a float"
            ) from None
    refuse_meaning(op, name, value)
    try:
        array = None if isinstance(value, DeviceArray) else read(op, name, value)
    except (TypeError, ValueError):  # lists of several lengths, say
        array = None
    if array is None or array.ndim or array.dtype.kind not in kinds:
        raise TypeError(f"{op}: {name} is a number, not {brief(value)}")
    return complex(array[()]) if array.dtype.kind == "c" else float(array[()])


def cast(op: str, name: str, a, dtype: np.dtype):
    """`a` in another dtype. A device array is never cast behind the caller's back."""
    if a.dtype == dtype:
        return a
    if isinstance(a, DeviceArray):
        way = f".to(torch.{dtype})" if a._kind == "torch" else f".astype({str(dtype)!r})"
        raise TypeError(
            f"{op}: {name} is a device array of {a.dtype} where {dtype} is needed; device "
            f"arrays are never cast by themselves: bring them to one dtype, {name}{way}"
        )
    return cast_host(op, a, dtype)


def read_as(op: str, name: str, a, dtype: np.dtype):
    """What the core takes for `a` in another dtype: (a, dtype) if it casts as it reads."""
    if a.dtype == dtype or isinstance(a, DeviceArray) or not _core.casts(a.dtype, dtype):
        return cast(op, name, a, dtype)
    return a, dtype


def index(op: str, name: str, value) -> int:
    """A Python int from anything with __index__, but not from a bool."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{op}: {name} is an integer, not {brief(value)}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{op}: {name} is an integer, not {brief(value)}") from None


def axes(op: str, name: str, value, ndim: int) -> tuple[int, ...] | None:
    """An axis argument as the core takes it: None or a tuple of ints, not yet normalised."""
    if value is None:
        return None
    given = value if isinstance(value, tuple) else (value,)
    try:
        value = tuple(index(op, name, i) for i in given)
    except TypeError:
        raise TypeError(
            f"{op}: {name} is an integer or a tuple of integers, not {brief(value)}"
        ) from None
    for i in value:
        if abs(i) > sys.maxsize:
            raise np.exceptions.AxisError(f"{op}: {name} {i} is out of bounds for {ndim} axes")
    return value
