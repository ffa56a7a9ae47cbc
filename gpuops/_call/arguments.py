"""arguments - answers what the core asks about a single argument that is not plain.

The core reads the calls of array operations and reductions itself (csrc/python/front.c,
reduction.c). It hands some arguments, one at a time, to a function here: an operand that is a
list, a column of a table or another library's array, a dtype, or an axis that is no int.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import numpy as np

from .. import _core
from ..devices import parse
from . import reduction as _reduction
from .docstring import arguments
from .dtypes import refuse_dtype
from .reduction import exactness, initial, mask, read_dtypes
from .reduction import word as reduction_word
from .road import (
    axes,
    cast,
    index,
    kernel_name,
    number,
    operand,
    output,
    read_tunables,
    refuse_words,
    store,
    store_check,
)

__all__ = [
    "as_words", "cast", "convert", "dtype_of_numbers", "exactness", "initial", "kernel_name",
    "mask", "number", "output", "parse", "read_axes", "read_dtypes", "read_keepdims",
    "read_tunables", "reduction_word", "refuse", "refuse_dtype", "store", "store_check",
    "warn_of_empty",
]  # fmt: skip


def refuse(function, args: tuple, words: dict) -> None:
    """Raises what is wrong with a call that does not fit the `def` of its function."""
    refuse_words(function.__name__, args, words, arguments(function))
    function(*args, **words)  # Python has the sentence
    raise TypeError(f"{function.__name__}: its arguments cannot be read")


# ---- operands ----


def convert(op: str, name: str, x, kinds: str = "biufc"):
    """An operand as an array of NumPy, in any byte order, or a DeviceArray."""
    return operand(op, name, x, kinds, native=False)


def dtype_of_numbers(op: str, name: str, kinds: str, values) -> np.dtype:
    """The dtype of Python's numbers that have no array beside them."""
    dtype = np.result_type(*values)
    if dtype.kind not in kinds:
        refuse_dtype(op, name, dtype, kinds)
    return dtype


def read_axes(op: str, value, ndim: int, several: bool):
    """None or a tuple of ints; of a transpose `several` may stand in any sequence."""
    if not several:
        found = axes(op, "axis", value, ndim)
        if ndim == 0 and isinstance(value, tuple) and value:  # only 0 and -1 mean the scalar
            raise np.exceptions.AxisError(found[0], 0, op)
        return found
    listed = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim > 0)
    if listed and not isinstance(value, (str, bytes)):
        value = tuple(value)
    return axes(op, "axes", value, ndim)


# ---- items of any dtype, which transpose moves as words ----


class _Words:
    """An array as words that the core knows; what the bytes mean is known only here.

    If an item is several words, they are one more axis, which stays last.
    """

    def __init__(self, a: np.ndarray, order: tuple[int, ...] | None, out) -> None:
        self.dtype, self.order, shape = a.dtype, order, None
        self.word, self.count = _word(a.dtype)
        if self.count > 1:
            self.order = _checked(a, order)
            shape = tuple(a.shape[i] for i in self.order)
            self.order = (*self.order, a.ndim)
        self.given = self.target = self.out = None
        if out is not None:
            self.given, self.target = output("transpose", out)
            store_check("transpose", self.dtype, self.target, shape)
            if self.target.dtype == self.dtype:
                self.out = self.of(self.target)

    def of(self, a: np.ndarray) -> np.ndarray:
        if self.count == 1:
            return a.view(self.word)
        return a.view([("words", self.word, (self.count,))])["words"]

    def finish(self, result):
        """What the caller gets."""
        if self.out is not None:
            return self.given
        result = result.view(self.dtype)
        result = result[..., 0] if self.count > 1 else result
        if self.target is None:
            return result
        return store("transpose", self.given, self.target, result)


def as_words(a, order, out):
    """(the words, their axes, the `out` that they are written to or None: a new one, what makes
    the caller's result), or None: the core moves it."""
    dtype = a.dtype
    word = _word(dtype)[0]
    if word == dtype and word.char == dtype.char:  # unsigned long long keeps its name
        return None
    words = _Words(a, order, out)
    return words.of(a), words.order, words.out, words.finish


def _word(dtype: np.dtype) -> tuple[np.dtype, int]:
    """The dtype that moves in the core, the array's own if known, and how many make an item."""
    numpys_own = dtype.isbuiltin != 2  # ml_dtypes' float8_e5m2 has NumPy's kind "f", too
    if dtype.kind in "biufc" and dtype.isnative and numpys_own and dtype.char not in "gGqQ":
        return dtype, 1
    size = min(dtype.itemsize & -dtype.itemsize, 16)
    return np.dtype("c16" if size == 16 else f"u{size}"), dtype.itemsize // size


def _checked(a: np.ndarray, order: tuple[int, ...] | None) -> tuple[int, ...]:
    """The axes counted from the front, after the core has checked them."""
    _core.Call("transpose", (np.broadcast_to(np.uint8(0), a.shape),), {"axes": order}).infer()
    return tuple(range(a.ndim)[::-1] if order is None else [i % a.ndim for i in order])


# ---- reductions ----


def read_keepdims(word: str, keepdims) -> bool:
    if isinstance(keepdims, (bool, np.bool_)):
        return bool(keepdims)
    return bool(index(word, "keepdims", keepdims))


def warn_of_empty(a, axes, mask) -> None:
    """Warns of a mean of nothing, as NumPy does."""
    if not _reduction.is_empty(a, axes, mask):
        return
    level, frame = 1, sys._getframe()
    while frame and frame.f_globals.get("__name__", "").startswith("gpuops."):
        level, frame = level + 1, frame.f_back  # to the caller of the function or of explain
    warnings.warn("mean of an empty slice is NaN", RuntimeWarning, stacklevel=level)
