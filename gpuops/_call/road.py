"""road - how the functions of this package call the core.

The core itself reads the calls of ops.py and reductions.py, whose functions `front` makes. The
functions of jacobi.py and rdf.py turn their arguments into a `Call`: operands, params and what
is made of the result. `public` runs it; `benchmark`, `ladder` and `explain` time or plan it
instead. The core decides on device, kernel, dtype, shape and library of the result.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence

import numpy as np

from .. import _core
from .._core import Call
from ..arrays import DeviceArray, borrow, is_foreign
from ..devices import Device, at
from ..errors import brief
from .docstring import arguments
from .dtypes import cast_host, copy, dtype_of, is_bfloat16, item
from .operands import (  # the names that op files use
    axes,
    cast,
    common,
    index,
    is_weak,
    number,
    operand,
    plain_number,
    promote,
    read,
    read_as,
    refuse_meaning,
    rounded,
)

__all__ = [
    "Call", "axes", "calls", "cast", "cast_host", "choose_device", "common",
    "dtype_of", "front", "index", "is_bfloat16", "is_weak", "item", "kernel_name", "number",
    "operand", "output", "plain_number", "promote", "public", "read", "read_as",
    "refuse_word", "refusing", "rounded", "run", "scalar", "store", "store_check",
]  # fmt: skip

# Their modules: gpuops.devices is a function.
_core.setup(sys.modules[Device.__module__], sys.modules[DeviceArray.__module__])


# Keywords of NumPy's functions that ours lack, and what to write instead.
_NOT_TAKEN = {
    "where": "np.copyto(out, result, where=mask) writes a part",
    "dtype": "cast the operands with .astype()",
    "casting": "out takes what the rule 'same_kind' allows",
    "order": "the memory order follows from the operands, or is that of out",
    "subok": "results are plain arrays",
    "signature": "cast the operands with .astype()",
    "axes": "move the axes with np.moveaxis",
    "axis": "move the axis with np.moveaxis",
    "keepdims": "shape the result with np.expand_dims",
}
# The same of single functions.
_NOT_TAKEN_BY = {
    ("argmax", "where"): "np.where(mask, a, -np.inf) leaves the others out",
    ("argmin", "where"): "np.where(mask, a, np.inf) leaves the others out",
    ("argmax", "dtype"): "cast the result with .astype()",
    ("argmin", "dtype"): "cast the result with .astype()",
    ("any", "dtype"): "cast the result with .astype()",
    ("all", "dtype"): "cast the result with .astype()",
    **{
        (word, "exact"): "sum and mean take it"
        for word in ("prod", "min", "max", "any", "all", "argmin", "argmax")
    },
    ("mean", "initial"): "gpuops.sum(a, initial=value) has it, divide that",
    **{("rdf", word): "give r_min= and r_max=" for word in ("range", "r_range")},
}
# Other libraries' keywords, and those of other functions here.
_ALSO = {
    "axes": "axis", "axis": "axes", "dim": "axis", "dims": "axes", "input": "a",
    "keepdim": "keepdims", "other": "b", "x": "a", "x1": "a", "x2": "b",
    "b": "f", "tol": "rtol", "max_iter": "maxiter", "maxits": "maxiter",
    "nbins": "bins", "n_bins": "bins", "n_bin": "bins", "rmax": "r_max", "rmin": "r_min",
}  # fmt: skip


def refuse_word(name: str, word: str, taken=()) -> None:
    """Raises a TypeError for a keyword known from elsewhere, which says what to write here."""
    way = f"here it is {_ALSO[word]}=" if _ALSO.get(word) in taken else None
    way = way or _NOT_TAKEN_BY.get((name, word)) or _NOT_TAKEN.get(word)
    if way:
        raise TypeError(f"{name}: {word}= is not taken; {way}")


def refusing(function):
    """`function`, which refuses other libraries' keywords by `refuse_word`."""
    taken = inspect.signature(function).parameters

    @functools.wraps(function)
    def inside(*args, **words):
        for word in words:
            if word not in taken:
                refuse_word(function.__name__, word, taken)
        return function(*args, **words)

    return inside


# By the name of each public function, what makes its Call, or the first of several.
calls: dict[str, Callable[..., Call]] = {}


_PLAIN = (type(None), bool, int, str)


def public(maker, at_once=None):
    """The function that users call: it runs the Call that `maker` makes.

    `at_once` comes first: it returns the result of a common call, or None.
    """
    name, taken = maker.__name__, arguments(maker)
    calls[name] = maker

    @functools.wraps(maker)
    @rounded
    def function(*args, **words):
        for word in words:
            if word not in taken:
                refuse_word(name, word, taken)
        for value in args:
            if value is ... and "out" in taken:  # as in NumPy
                raise TypeError(f"{name}: out=... is only allowed as a keyword argument")
        result = at_once(*args, **words) if at_once else None
        return maker(*args, **words).run() if result is None else result

    return function


def front(function):
    """The C function that reads and runs the calls of this one, which has no body.

    Its arguments, their order and its documentation come from the `def`.
    """
    signature = inspect.signature(function)
    shown = [  # a builtin's signature shows only plain defaults
        p if p.default is p.empty or isinstance(p.default, _PLAIN) else p.replace(default=...)
        for p in signature.parameters.values()
        if p.kind is not p.VAR_POSITIONAL  # it only takes what a sentence refuses
    ]
    words = str(signature.replace(parameters=shown)).replace("=Ellipsis", "=...")
    name = function.__name__
    calls[name] = functools.partial(_core.call_of, name)
    text = f"{name}{words}\n--\n\n{function.__doc__}"
    positional = function.__code__.co_argcount
    return _core.front(
        sys.modules[function.__module__], function, text, arguments(function), positional,
        positional - len(function.__defaults__ or ()),
    )  # fmt: skip


def run(op: str, operands: Sequence, params: dict | None = None, **how):
    """Makes a Call and runs it."""
    return Call(op, operands, params, **how).run()


def choose_device(op: str, operands: Sequence, device=None, kernel: str | None = None,
                  params: dict | None = None) -> Device:  # fmt: skip
    """The device of a call, by the order that the head of devices.py states."""
    return at(Call(op, operands, params, device=device, kernel=kernel).choose())


def store_check(op: str, native: np.dtype, target, shape=None) -> None:
    """Refuses, before the call runs, an `out` that the result does not fit."""
    if not np.can_cast(native, target.dtype, "same_kind"):
        raise TypeError(
            f"{op}: the result of dtype {native} cannot be cast to out's {target.dtype} "
            "by the rule 'same_kind'"
        )
    if type(target) is DeviceArray:
        raise TypeError(f"{op}: out is a device array of {target.dtype}; {native} is needed")
    if shape is not None and target.shape != shape:
        raise _wrong_shape(op, target.shape, shape)


def _wrong_shape(op: str, given, wanted) -> ValueError:
    """The core's own sentence."""
    return ValueError(f"{op}: the output has shape {given}, expected {wanted}")


def store(op: str, out, target: np.ndarray, result: np.ndarray):
    """Copies a finished result into an `out` of another dtype or byte order."""
    if result.shape != target.shape:
        raise _wrong_shape(op, target.shape, result.shape)
    if _core.casts(result.dtype, target.dtype):
        copy(op, target, result)
        return out
    with np.errstate(all="ignore"):
        np.copyto(target, result, casting="same_kind")
    return out


def scalar(result):
    """A full result of host arrays is a NumPy scalar, as in NumPy."""
    return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result


def kernel_name(op: str, kernel) -> str:
    name = getattr(kernel, "name", kernel)
    if not isinstance(name, str):
        raise TypeError(f"{op}: kernel is a name such as 'naive', not {brief(kernel)}")
    if not _is_word(name):
        raise ValueError(f"{op}: there is no kernel {brief(name)}")
    return name


def _is_word(name: str) -> bool:
    """Whether C reads it as it is."""
    return name.isascii() and name.isprintable()


def read_tunables(op: str, tunables) -> dict[str, int]:
    if not isinstance(tunables, dict):
        raise TypeError(f"{op}: params is a dict such as {{'uf': 4}}, not {brief(tunables)}")
    for name in tunables:
        if not isinstance(name, str):
            raise TypeError(f"{op}: params has names as keys, not {brief(name)}")
        if not _is_word(name):
            raise ValueError(f"{op}: no kernel has a tunable {brief(name)}")
    found = {name: index(op, f"params[{name!r}]", value) for name, value in tunables.items()}
    for name, value in found.items():
        if abs(value) >= 1 << 63:
            raise OverflowError(f"{op}: params[{name!r}] is too large for 64 bits")
    return found


def output(op: str, out):
    """(what to return, an ndarray or DeviceArray over the same memory)."""
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError(f"{op}: the 'out' tuple must have one entry, not {len(out)}")
        if out[0] is ...:
            raise TypeError(f"{op}: out=... stands by itself, not in a tuple")
        return output(op, out[0])
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{op}: out is a masked array and its mask would be ignored")
    if isinstance(out, np.ndarray):
        refuse_meaning(op, "out", out)
        if not out.flags.writeable:
            raise ValueError(f"{op}: output array is read-only")
        return out, np.asarray(out)
    target = out if isinstance(out, DeviceArray) else _core.foreign(out)
    if target is None and is_foreign(out):
        target = borrow(op, "out", out)
    if target is None:
        raise TypeError(
            f"{op}: return arrays must be of ArrayType, out is of type {type(out).__name__}"
        )
    if target._buffer.readonly:
        raise ValueError(f"{op}: output array is read-only")
    return out, target
