"""reduction - what the arguments of a reduction mean: op, dtype, out, initial, where."""

from __future__ import annotations

import functools

import numpy as np

from .. import _core
from ..arrays import DeviceArray
from ..errors import brief, flag
from . import road as _road
from .dtypes import dtype_of, item
from .meaning import read

WORDS = tuple(_core.reductions())

# The ufuncs of NumPy that are the same reductions.
_UFUNCS = {"add": "sum", "multiply": "prod", "minimum": "min", "maximum": "max",
           "logical_or": "any", "logical_and": "all"}  # fmt: skip


class _NoValue:
    """The default of arguments for which None would mean something."""

    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE = _NoValue()


def word(op, function: str = "reduce") -> str:
    name = getattr(op, "__name__", None) if callable(op) else op
    if isinstance(op, np.ufunc):
        name = _UFUNCS.get(name, name)
    if isinstance(name, str) and name in WORDS:
        return name
    if function == "reduce" and isinstance(op, (int, tuple)) and not isinstance(op, bool):
        raise TypeError(
            f"reduce: the operation comes second and the axis third: "
            f"reduce(a, 'sum', {op}), or gpuops.sum(a, {op})"
        )
    kind = ValueError if isinstance(op, str) else TypeError
    words = ", ".join(WORDS)
    raise kind(f"{function}: there is no operation {brief(op)}, only {words}")


def exactness(word: str, exact) -> bool:
    exact = flag(word, "exact", exact)
    if exact and word not in ("sum", "mean"):
        raise TypeError(f"{word}: exact=True is only for sum and mean")
    return exact


def is_left_out(value) -> bool:
    return value is NO_VALUE or value is np._NoValue


def read_dtypes(word: str, have: np.dtype, asked, out):
    """(of the input, of what the caller gets), or None: as it is."""
    if asked is None:
        asked = into(word, have, out.dtype)
    return None if asked is None else dtypes(word, have, asked)


def into(word: str, have: np.dtype, out: np.dtype):
    """The dtype in which NumPy reduces into an `out`; None if it is the same as without one."""
    if word in ("any", "all", "argmin", "argmax") or (have == out and have.kind not in "biu"):
        return None
    if word == "mean" and (have.kind in "biu" or have.char == "e"):  # never by out's
        return np.dtype(np.float32) if have.char == "e" != out.char else None
    if "V" not in (have.kind, out.kind) and not np.can_cast(have, out, "same_kind"):
        return None  # nor can what it becomes
    out_as = _road.operand(word, "out", np.empty(0, out)).dtype
    common = _core.promote((have, out_as), "")
    # NumPy goes to float64 from int64 and uint64: here whole numbers stay exact.
    return have if common.kind == "f" and have.kind in "iu" and out.kind in "iu" else common


def dtypes(word: str, have: np.dtype, asked):
    """The dtypes of the input and of the caller's result."""
    if word in ("any", "all", "argmin", "argmax"):
        raise TypeError(
            f"{word}: it has no argument dtype, since its result is {result(word, have)}"
        )
    asked = dtype_of(word, asked)
    if word == "mean" and asked.kind in "biu":
        raise TypeError(
            f"mean: dtype {asked} cannot hold a mean; cast the result with .astype()"
        )
    if word in ("sum", "prod") and asked.kind in "iu" and have.kind in "biu":
        return have, asked  # wrapping at the end is wrapping on the way
    if word == "mean" and asked == np.float64 and have.kind in "biu":
        return have, asked  # as without `dtype`
    return asked, asked


@functools.cache
def result(word: str, dtype: np.dtype) -> np.dtype:
    """The core's dtype of the result for an input's."""
    return _core.Call("reduce", (np.empty(1, dtype),), {"op": word}).infer()[0]


def mask(word: str, where):
    """`where` as an array, or None where everything takes part. The core looks at its dtype
    and shape."""
    if is_left_out(where) or where is True:
        return None
    if isinstance(where, (list, tuple, int, float)):
        values = read(word, "where", where)
        try:
            return values.astype(bool)  # as NumPy: an array has to be bool already
        except (TypeError, ValueError) as error:
            raise ValueError(f"{word}: where: {error}") from None
    return _road.operand(word, "where", where)


def initial(word: str, initial, final: np.dtype, core: np.dtype, a, axes, mask: int):
    """`initial` as the core takes it: a number of the caller's dtype, never wrapped or cut; or
    None."""
    if is_left_out(initial):
        return None
    if initial is None and word in ("sum", "prod", "min", "max"):
        return no_identity(word, a, axes, bool(mask), core)
    if word in ("mean", "any", "all", "argmin", "argmax"):
        raise TypeError(f"{word}: it has no argument initial")
    value = initial
    if type(initial) not in _road.WEAK:
        array = _road.operand(word, "initial", initial)
        if isinstance(array, DeviceArray) or array.ndim:
            shape = array.shape
            raise ValueError(f"{word}: initial is one number, not an array of shape {shape}")
        value = item(array)
    if final.kind == "b":
        return bool(value)
    if isinstance(value, complex) and final.kind != "c":
        raise TypeError(f"{word}: initial {value} is complex, the result is {final}")
    if isinstance(value, float) and final.kind in "iu":
        if not value.is_integer():
            kind = OverflowError if abs(value) == np.inf else TypeError
            raise kind(f"{word}: initial {value} is no whole number, the result is {final}")
        value = int(value)
    fitted = _road.number(word, "initial", value, final)
    # The core's whole numbers may have another sign.
    return item(fitted.astype(core) if final.kind in "iu" else fitted)


def no_identity(word: str, a, axes, mask: bool, dtype: np.dtype):
    """initial=None: nothing else takes part, so there must be elements; a sum may be -0.0."""
    if word in ("min", "max"):
        return None
    if mask or is_empty(a, axes):
        why = "where may leave none" if mask else "there are none"
        raise ValueError(f"{word}: with initial=None it needs elements, and {why}")
    if word == "prod" or dtype.kind in "iu":
        return None
    return complex(-0.0, -0.0) if dtype.kind == "c" else -0.0


def is_empty(a, axes, mask=None) -> bool:
    """Whether some output has no element."""
    try:
        axes = range(a.ndim) if axes is None else [range(a.ndim)[i] for i in axes]
    except IndexError:
        return False  # the core has the sentence
    if any(a.shape[i] == 0 for i in axes):
        return True
    if not isinstance(mask, np.ndarray):
        return False
    try:
        mask = np.broadcast_to(mask, a.shape)
    except ValueError:
        return False
    return not np.logical_or.reduce(mask, tuple(set(axes))).all()
