"""dtypes - which dtypes the core knows; casts elements from one to another on the host."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from .. import _core

# What NumPy's kinds of dtypes are called in messages; kind "f" is with float16 and bfloat16.
_KINDS = {
    "b": "bool",
    "iu": "int8 to int64, uint8 to uint64",
    "f": "float16, bfloat16, float32, float64",
    "c": "complex64, complex128",
}
_OF_POINTS = "float32, float64, and integers, which become float64"  # rdf's, of kinds "fiu"

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


def refuse_dtype(op: str, name: str, dtype: np.dtype, kinds: str) -> NoReturn:
    accepted = ", ".join(text for key, text in _KINDS.items() if key[0] in kinds)
    accepted = _OF_POINTS if kinds == "fiu" else accepted
    hint = "; import ml_dtypes" if dtype.name == "bfloat16" and "f" in kinds else ""
    what = "dtype is" if name == "dtype" else f"{name} has dtype"
    raise TypeError(f"{op}: {what} {dtype}; accepted are {accepted}{hint}")


def known(op: str, name: str, dtype: np.dtype, kinds: str = "biufc") -> np.dtype:
    """The dtype that kernels have an operand's elements in; TypeError if `op` takes none such.

    It is native, and int64 under its first name: long long is the second one.
    """
    if dtype.char in _CHARS and dtype.kind in kinds:
        if dtype.char in "qQ":
            return np.dtype("i8" if dtype.char == "q" else "u8")
        return dtype if dtype.isnative else dtype.newbyteorder("=")
    if "f" not in kinds or not is_bfloat16(dtype):
        refuse_dtype(op, name, dtype, kinds)
    return dtype


def dtype_of(op: str, asked) -> np.dtype:
    """The dtype that a caller named, one that the core computes with."""
    try:
        asked = np.dtype(asked)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{op}: dtype: {error}") from None
    return known(op, "dtype", np.empty(0, asked).dtype)


def item(a: np.ndarray):
    """The one number of an array as Python's own."""
    return (_widened(a) if a.dtype.type is bfloat else a).item()


def _widened(a: np.ndarray) -> np.ndarray:
    """The stand-in for bfloat16 as float32."""
    return (a.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def as_bfloat16(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float32 rounded to the nearest bfloat16, ties to even, as ml_dtypes does."""
    bits = a.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(a), 0x7FC0, rounded).astype(np.uint16).view(dtype)


def copy(op: str, to: np.ndarray, source: np.ndarray) -> None:
    """Copies by the core, which casts. Its sentences name the operation."""
    try:
        _core.copy(to, source)
    except MemoryError as error:
        raise MemoryError(f"{op}:{str(error).partition(':')[2]}") from None


def cast_host(op: str, a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Casts to NumPy's values, without its warnings of overflows."""
    if _core.casts(a.dtype, dtype):
        made = np.empty_like(a, dtype)
        copy(op, made, a)
        return made
    if a.dtype.type is bfloat:
        a = _widened(a)
    if dtype.type is bfloat:
        return as_bfloat16(cast_host(op, a, np.dtype(np.float32)), dtype)
    with np.errstate(all="ignore"):
        return a.astype(dtype)
