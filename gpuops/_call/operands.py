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
from .meaning import no_array, read, refuse_meaning

# What each set of kinds is called in messages. Kind "f" is with float16 and bfloat16.
ACCEPTED = {
    "biufc": "bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, "
    "complex64, complex128",
    "biuf": "bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64",
    "fiu": "float32, float64, and integers, which become float64",  # rdf's points
    "any": "every dtype of at least a byte that holds no references",
}
WEAK = (int, float, complex)  # Python's own numbers: they take the arrays' dtype (NEP 50)
_WEAK = ((complex, "c"), (float, "f"), (int, "i"))  # the strongest first

# NumPy's own native dtypes are single objects: their identity tells more quickly what they are.
_KINDS = {id(np.dtype(c)): np.dtype(c).kind for c in "?bhilBHILefdFD"}

_CHARS = frozenset("?bhilqBHILQefdFD")
_bfloat16: np.dtype | None = None  # the one that the core was told about


class bfloat(np.void):
    """Names what stands for bfloat16, "bfloat16", where ml_dtypes is not installed."""


def meet_bfloat16() -> None:
    """Tells the core of ml_dtypes' bfloat16, or of two bytes in its place.

    Other libraries' arrays need no more: their elements are never looked at by NumPy.
    """
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        bfloat16 = (bfloat, 2)
    is_bfloat16(np.dtype(bfloat16))


def is_bfloat16(dtype: np.dtype) -> bool:
    """True for ml_dtypes' bfloat16, or its stand-in; the core is then told about it."""
    global _bfloat16
    if dtype.kind != "V" or dtype.name != "bfloat16":
        return False
    if _bfloat16 is None or dtype.type is not _bfloat16.type:
        _core.register_bfloat16(dtype)
        _bfloat16 = dtype
    return True


def rounded(function):
    """`function`, with the core's floating-point environment around it: what it has NumPy and
    Python round goes to nearest, and no subnormal number is flushed, whatever the caller's is.
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
    be swapped. TypeError and ValueError name the op and the operand.
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
    if dtype.char in _CHARS:
        if dtype.kind not in kinds:
            raise _bad_dtype(op, name, dtype, kinds)
        if not dtype.isnative:
            return cast(op, name, x, _native(dtype)) if native else x
        # long long is int64 under a second name: the core knows one.
        return x.view("i8" if dtype.char == "q" else "u8") if dtype.char in "qQ" else x
    if "f" not in kinds or not is_bfloat16(dtype):
        raise _bad_dtype(op, name, dtype, kinds)
    return x


def refuse_dtype(op: str, name: str, dtype: np.dtype, kinds: str) -> None:
    raise _bad_dtype(op, name, dtype, kinds)


def _bad_dtype(op: str, name: str, dtype: np.dtype, kinds: str) -> TypeError:
    accepted = ACCEPTED.get(kinds)
    if accepted is None:
        words = {
            "b": "bool",
            "iu": "int8 to int64, uint8 to uint64",
            "f": "float16, bfloat16, float32, float64",
            "c": "complex64, complex128",
        }
        accepted = ", ".join(text for key, text in words.items() if key[0] in kinds)
    hint = "; import ml_dtypes" if dtype.name == "bfloat16" and "f" in kinds else ""
    return TypeError(f"{op}: {name} has dtype {dtype}; accepted are {accepted}{hint}")


def _convert(op: str, name: str, x):
    """What is neither a plain ndarray nor a DeviceArray."""
    taken = _core.foreign(x)  # the common case: it asks less than the questions below
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

    `least` is the dtype where all operands are integers.
    """
    arrays = [None if type(v) in WEAK else operand(op, n, v, kinds, native=False)
              for n, v in zip(names, values, strict=True)]  # fmt: skip
    dtype = _common(arrays, values)
    if dtype.kind in "biu":
        dtype = np.dtype(least)
    if dtype.kind not in kinds and not is_bfloat16(dtype):
        raise _bad_dtype(op, names[-1], dtype, kinds)
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


def _native(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def common(*dtypes: np.dtype) -> np.dtype:
    """The common dtype of arrays: NumPy's, and docs/numerics.md's of bfloat16."""
    return _core.promote(dtypes, "")


def number(op: str, name: str, value, dtype: np.dtype) -> np.ndarray:
    """A Python number in an array's dtype; OverflowError where no integer of it is so large."""
    if dtype.type is bfloat:
        return _as_bfloat16(number(op, name, value, np.dtype(np.float32)), dtype)
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


def item(a: np.ndarray):
    """The one number of an array as Python's own."""
    return (_widened(a) if a.dtype.type is bfloat else a).item()


def _widened(a: np.ndarray) -> np.ndarray:
    """The stand-in for bfloat16 as float32."""
    return (a.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _as_bfloat16(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float32 rounded to the nearest bfloat16, ties to even, as ml_dtypes does."""
    bits = a.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(a), 0x7FC0, rounded).astype(np.uint16).view(dtype)


def cast(op: str, name: str, a, dtype: np.dtype):
    """`a` in another dtype; a device array is never cast behind the caller's back."""
    if a.dtype == dtype:
        return a
    if isinstance(a, DeviceArray):
        way = f".to(torch.{dtype})" if a._kind == "torch" else f".astype({str(dtype)!r})"
        raise TypeError(
            f"{op}: {name} is a device array of {a.dtype} where {dtype} is needed; device "
            f"arrays are cast by their own method alone: make them of one dtype, {name}{way}"
        )
    return cast_host(op, a, dtype)


def copy(op: str, to: np.ndarray, source: np.ndarray) -> None:
    """A copy by the core, which casts; in its sentences it is the operation's."""
    try:
        _core.copy(to, source)
    except MemoryError as error:
        raise MemoryError(f"{op}:{str(error).partition(':')[2]}") from None


def cast_host(op: str, a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """NumPy's values, without its warnings of what overflows."""
    if _core.casts(a.dtype, dtype):
        made = np.empty_like(a, dtype)
        copy(op, made, a)
        return made
    if a.dtype.type is bfloat:
        a = _widened(a)
    if dtype.type is bfloat:
        return _as_bfloat16(cast_host(op, a, np.dtype(np.float32)), dtype)
    with np.errstate(all="ignore"):
        return a.astype(dtype)


def dtype_of(op: str, asked) -> np.dtype:
    """The dtype that a caller named, one that the core computes with."""
    try:
        asked = np.dtype(asked)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{op}: dtype: {error}") from None
    return operand(op, "dtype", np.empty(0, asked)).dtype


def read_as(op: str, name: str, a, dtype: np.dtype):
    """What the core takes for `a` in another dtype: (a, dtype) where it casts as it reads."""
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
