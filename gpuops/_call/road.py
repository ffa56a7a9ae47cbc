"""road - how the functions of this package read operands and call the core.

An operand is whatever a caller passed. It becomes a plain array of a dtype that the core takes,
or a pair of an array and that dtype, where the core casts the elements on their way; or one
sentence says why not.

The core itself reads the calls of ops.py and reductions.py, whose functions `front` makes. The
functions of jacobi.py and rdf.py turn their arguments into a `Call`: operands, params and what
is made of the result. They run it; `benchmark`, `ladder` and `explain` time or plan it instead.
The core decides on device, kernel, dtype, shape and library of the result.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Sequence

import numpy as np

from .. import _core
from .._core import Call
from ..arrays import DeviceArray, borrow, is_foreign
from ..devices import Device, at
from ..errors import brief
from .docstring import arguments
from .dtypes import as_bfloat16, bfloat, cast_host, copy, known
from .meaning import no_array, read, refuse_meaning

# ---- operands ----

WEAK = (int, float, complex)  # Python's own numbers: they take the arrays' dtype (NEP 50)


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


def operand(op: str, name: str, x, kinds: str = "biufc", native: bool = True):
    """`x` as a base-class np.ndarray or a DeviceArray whose dtype `op` takes.

    `kinds` are NumPy's kind letters, or "any" for plain bytes. Without `native` its bytes may
    be swapped, an integer may be a long long, and no view is made: whoever resizes the array
    meanwhile finds it read anew. TypeError and ValueError name the op and the operand.
    """
    if type(x) is not np.ndarray and type(x) is not DeviceArray:
        x = _convert(op, name, x)
    dtype = x.dtype
    if kinds == "any":
        if dtype.hasobject or dtype.itemsize == 0:
            raise TypeError(
                f"{op}: {name} has dtype {dtype}; accepted is every dtype of at least a byte "
                "that holds no references"
            )
        return x
    wanted = known(op, name, dtype, kinds)
    if not native or wanted is dtype:
        return x
    return x.view(wanted) if dtype.isnative else cast(op, name, x, wanted)


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


# Their modules: gpuops.devices is a function.
_core.setup(sys.modules[Device.__module__], sys.modules[DeviceArray.__module__])


# ---- the words of a call ----

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
    "b": "f", "tol": "rtol", "tolerance": "rtol", "max_iter": "maxiter", "maxits": "maxiter",
    "maxit": "maxiter", "max_iters": "maxiter", "max_iterations": "maxiter",
    "nbins": "bins", "n_bins": "bins", "n_bin": "bins", "rmax": "r_max", "rmin": "r_min",
    "r_cut": "r_max", "rcut": "r_max", "cutoff": "r_max",
}  # fmt: skip


def refuse_word(name: str, word: str, taken=()) -> None:
    """Raises a TypeError for a keyword known from elsewhere, which says what to write here."""
    way = f"here it is {_ALSO[word]}=" if _ALSO.get(word) in taken else None
    way = way or _NOT_TAKEN_BY.get((name, word)) or _NOT_TAKEN.get(word)
    if way:
        raise TypeError(f"{name}: {word}= is not taken; {way}")


def refuse_words(name: str, args: tuple, words: dict, taken) -> None:
    """Raises a TypeError for arguments that are known from elsewhere and not taken here."""
    for word in words:
        if word not in taken:
            refuse_word(name, word, taken)
    if "out" in taken and any(value is ... for value in args):  # as in NumPy
        raise TypeError(f"{name}: out=... is only allowed as a keyword argument")


def refusing(function):
    """`function`, which refuses such arguments."""
    name, taken = function.__name__, arguments(inspect.unwrap(function))

    @functools.wraps(function)
    def inside(*args, **words):
        refuse_words(name, args, words, taken)
        return function(*args, **words)

    return inside


# ---- functions and calls ----

# By the name of each public function, what makes its Call, or the first of several.
calls: dict[str, Callable[..., Call]] = {}

_PLAIN = (type(None), bool, int, str)


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


def bound(function, args, words) -> dict:
    """What each parameter gets; an error names the function, as a call's does."""
    try:
        given = inspect.signature(function).bind(*args, **words)
    except TypeError as error:
        raise TypeError(f"{function.__name__}() {error}") from None
    given.apply_defaults()
    return given.arguments


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


def store(op: str, out, target: np.ndarray, result: np.ndarray, spreads: int = 0):
    """Copies a finished result into an `out` of another dtype, byte order or shape."""
    if spreads:
        result = np.broadcast_to(result, target.shape)
    if result.shape != target.shape:
        raise _wrong_shape(op, target.shape, result.shape)
    if _core.casts(result.dtype, target.dtype):
        copy(op, target, result)
        return out
    with np.errstate(all="ignore"):
        np.copyto(target, result, casting="same_kind")
    return out


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
