"""road - the one way from a Python function to the core: device, out, kernel, result.

A function of ops.py, rdf.py or jacobi.py turns its arguments into operands and params and calls
`run`; before that most ask `quick`, which does the common calls at once. `benchmark`, `ladder`
and `explain` call the same functions under a probe, which makes `run` time or plan the call
instead.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .. import _core
from .._core import Buffer, quick
from .._core import run as _run
from ..arrays import DeviceArray, borrow, give_back, is_foreign, let_go
from ..devices import (
    CPU,
    GPU_WORK,
    Device,
    at,
    automatic,
    check,
    defaults,
    get_default_device,
    parse,
    places,
)
from .operands import (  # the names that op files use
    axes,
    cast,
    common,
    index,
    is_bfloat16,
    is_weak,
    item,
    number,
    operand,
    promote,
    refuse_meaning,
)

__all__ = [
    "axes", "cast", "choose_device", "common", "index", "is_bfloat16", "is_weak", "item",
    "number", "operand", "probe", "front", "output", "promote", "quick", "run", "scalar",
    "store", "store_check",
]  # fmt: skip

_core.quick_setup(DeviceArray, get_default_device, defaults, give_back, places, Device)


_Function = TypeVar("_Function", bound=Callable[..., Any])


# Words of NumPy's functions that these have not, and what to write in their place.
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


def front(function: _Function) -> _Function:
    """What the core does at once where it can, and otherwise leaves to the function.

    It is called without a frame of Python's, which would take as long as all checks together.
    """
    taken = inspect.signature(function).parameters

    @functools.wraps(function)
    def behind(*args, **words):
        for word in words:
            if word in _NOT_TAKEN and word not in taken:
                hint = _NOT_TAKEN[word]
                raise TypeError(f"{function.__name__}: {word}= is not taken; {hint}")
        return function(*args, **words)

    text = f"{function.__name__}{inspect.signature(function)}\n--\n\n{function.__doc__}"
    return _core.front(sys.modules[function.__module__], behind, text)


class _Local(threading.local):
    probe: tuple[str, dict[str, Any]] | None = None


_local = _Local()


class Probed(BaseException):
    """Carries what the core said out of the function under a probe; no op's code catches it."""

    def __init__(self, op: str, device: Device, facts: dict[str, Any]) -> None:
        super().__init__(op)
        self.op, self.device, self.facts = op, device, facts


class probe:
    """`with probe("time", n_warmup=1, n_repeat=5, cold=True)` or `with probe("plan")`."""

    def __init__(self, mode: str, **options: Any) -> None:
        self._value = (mode, options)

    def __enter__(self) -> None:
        self._before = _local.probe
        _local.probe = self._value
        _core.probing(1)

    def __exit__(self, *exception) -> None:
        _core.probing(-1)
        _local.probe = self._before


def work_of(op: str, operands, params) -> int:
    """The size by which auto weighs a call: multiply-adds, pairs, or items of A."""
    if op == "matmul":
        a, b = operands
        return a.size * (b.shape[-1] if b.ndim > 1 else 1)
    if op == "rdf":
        n = operands[0].shape[0] if operands[0].ndim else 0
        second = params and params.get("points2")
        return n * (operands[2].shape[0] if second and operands[2].ndim else n)
    return operands[0].size if op == "jacobi_step" else 0


def choose_device(op: str, operands=(), device=None, kernel: str | None = None,
                  params: dict | None = None) -> Device:  # fmt: skip
    """The device of a call, by the order that the head of devices.py states."""
    named = None if device is None else parse(device)
    if named is not None:
        return check(named)
    lives = None
    for a in operands:
        if type(a) is DeviceArray:
            place = a._buffer.device
            if lives is not None and place != lives:
                raise TypeError(
                    f"{op}: its arrays live on {at(lives)} and on {at(place)}; "
                    "bring them together with to_device, or say device="
                )
            lives = place
    if lives is not None:
        return at(lives)
    if device is None:
        chosen = get_default_device()
        if chosen is not None:
            return check(chosen)
    if kernel is None and op not in GPU_WORK:
        return CPU
    return automatic(op, work_of(op, operands, params), kernel)


def run(op: str, operands, params: dict | None = None, *, out=None, device=None, kernel=None,
        tunables: dict | None = None, name: str | None = None):  # fmt: skip
    """Runs one operation of the core and returns its result, of the kind its operands are.

    `name`: of the function that was called, for the sentences about `out`.
    """
    kernel = None if kernel is None else _kernel_name(op, kernel)
    tunables = None if tunables is None else _tunables(op, tunables)
    where = choose_device(op, operands, device, kernel, params)
    inputs = tuple([a._buffer if type(a) is DeviceArray else a for a in operands])
    place = (where.backend, where.ordinal)
    if _local.probe is not None:
        _probe(op, where, _local.probe, (op, inputs, params, None, place, kernel, tunables))
    if out is None or out is ...:
        result = _run(op, inputs, params, None, place, kernel, tunables)
        if type(result) is not Buffer:
            return result
        _let_go(operands)
        return give_back(result, _kind_of(operands))
    name = name or op
    out, target = output(name, out)
    native, shape = _core.infer(op, inputs, params)
    spreads = type(target) is np.ndarray and _spreads(op, operands, shape, target.shape)
    if target.dtype == native and target.dtype.isnative and not spreads:
        buffer = target._buffer if type(target) is DeviceArray else target
        _run(op, inputs, params, buffer, place, kernel, tunables)
        _let_go((*operands, target))
        return out
    store_check(name, native, target, target.shape if spreads else shape)
    result = _run(op, inputs, params, None, place, kernel, tunables)
    result = result.get() if type(result) is Buffer else result
    if spreads:
        result = np.broadcast_to(result, target.shape)
    return store(name, out, target, result)


def _spreads(op: str, operands, shape, onto) -> bool:
    """Whether a result of that shape is to be repeated over an `out`, as NumPy's ufuncs do."""
    if shape == onto or op not in ("add", "multiply_add", "fma", "matmul"):
        return False
    core = (
        sum(a.ndim > 1 for a in operands) if op == "matmul" else 0
    )  # these are never repeated
    try:
        fits = np.broadcast_shapes(shape, onto) == onto
    except ValueError:
        return False
    return fits and shape[len(shape) - core :] == onto[len(onto) - core :]


def store_check(op: str, native: np.dtype, target, shape=None) -> None:
    """Refuses an `out` that a result of this dtype and shape does not fit, before it is run."""
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
    with np.errstate(all="ignore"):
        np.copyto(target, result, casting="same_kind")
    return out


def scalar(result):
    """A full result of host arrays is a NumPy scalar, as in NumPy."""
    return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result


def _probe(op: str, where: Device, probed, call: tuple[Any, ...]) -> None:
    mode, options = probed
    if mode == "plan":
        raise Probed(op, where, _core.plan(*call))
    runs = (options["n_warmup"], options["n_repeat"], options["cold"])
    raise Probed(op, where, _core.time(*(call + runs)))


def _let_go(operands) -> None:
    borrowed = [a for a in operands if type(a) is DeviceArray and a._kind]
    for kind, place in {(a._kind, a._buffer.device) for a in borrowed}:
        if place[0] == "cuda":
            let_go(kind, place)


def _kind_of(operands) -> str | None:
    return next((a._kind for a in operands if type(a) is DeviceArray and a._kind), None)


def _kernel_name(op: str, kernel) -> str:
    name = getattr(kernel, "name", kernel)
    if not isinstance(name, str):
        raise TypeError(f"{op}: kernel is a name such as 'naive', not {kernel!r}")
    return name


def _tunables(op: str, tunables) -> dict[str, int]:
    if not isinstance(tunables, dict):
        raise TypeError(f"{op}: params is a dict such as {{'uf': 4}}, not {tunables!r}")
    for name in tunables:
        if not isinstance(name, str):
            raise TypeError(f"{op}: params has names as keys, not {name!r}")
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
        return output(op, out[0])
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{op}: out is a masked array and its mask would be ignored")
    if isinstance(out, np.ndarray):
        refuse_meaning(op, "out", out)
        if not out.flags.writeable:
            raise ValueError(f"{op}: output array is read-only")
        return out, np.asarray(out)
    if isinstance(out, DeviceArray):
        target = out
    elif is_foreign(out):
        target = borrow(op, "out", out)
    else:
        raise TypeError(
            f"{op}: return arrays must be of ArrayType, out is of type {type(out).__name__}"
        )
    if target._buffer.readonly:
        raise ValueError(f"{op}: output array is read-only")
    return out, target
