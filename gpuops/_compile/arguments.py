"""arguments - what Python passes to a kernel of one's own, as the kernel takes it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._call.road import operand
from ..arrays import DeviceArray, borrow, is_foreign
from ..devices import Device
from ..errors import brief
from ..transfers import to_device


@dataclass(frozen=True)
class Parameter:
    dtype: np.dtype | None  # None: of a type that Python cannot pass
    pointer: bool
    const: bool
    local: bool = False  # of OpenCL C: memory of a work-group, whose size the launch gives
    width: int = 1  # of vectors, as float4

    @classmethod
    def of(cls, code: int) -> Parameter:
        """From a code of csrc/cuda/parameters.h, or of csrc/sim/include/opencl/language.h."""
        letter = chr(code & 255) if code & 255 else ""
        width = max(1, code >> 16)
        return cls.made(letter, bool(code & 256), bool(code & 512), bool(code & 1024), width)

    @classmethod
    def made(cls, letter: str, pointer: bool, const: bool, local: bool, width: int):
        return cls(np.dtype(letter) if letter else None, pointer, const, local, width)


def pass_all(
    kernel: str, parameters: Iterable[Parameter], args: tuple[Any, ...], device: Device
) -> tuple[list[Any], list[tuple[np.ndarray, DeviceArray]]]:
    """What the launch takes; and the host arrays that it may change, with their copies."""
    passed: list[Any] = []
    hosts: dict[int, np.ndarray] = {}
    changed = set()
    for k, (parameter, x) in enumerate(zip(parameters, args, strict=True)):
        if parameter.local:
            passed.append(_local(kernel, k, parameter, x))
            continue
        if not parameter.pointer:
            passed.append(_scalar(kernel, k, parameter, x))
            continue
        x = _array(kernel, k, parameter, x, device)
        passed.append(x)
        if isinstance(x, np.ndarray):
            hosts[k] = x
            if not parameter.const:
                changed.add(k)
    for group in _overlapping(hosts) if changed else ([k] for k in hosts):
        passed_here = _shared(hosts, group, device) if len(group) > 1 else None
        for k in group:
            passed[k] = passed_here[k] if passed_here else to_device(hosts[k], device)
    back = [(hosts[k], passed[k]) for k in sorted(changed)]
    return [x._buffer if isinstance(x, DeviceArray) else x for x in passed], back


def _refuse_mask(kernel: str, k: int, x: object) -> None:
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{kernel}: argument {k} is a masked array, and its mask would be ignored; pass "
            "what its filled(value) gives"
        )


def _known(kernel: str, k: int, parameter: Parameter) -> np.dtype:
    if parameter.dtype is None:
        cast = "; of float4 or a structure, take its numbers, `const float *p`, and cast where "
        cast += "you use them, `((const float4 *)p)[i]`"
        raise TypeError(
            f"{kernel}: parameter {k} has a type that Python cannot pass, expected a number or "
            f"a pointer to numbers{cast if parameter.pointer else ''}"
        )
    return parameter.dtype


# ---- memory of a work-group ----


def _local(kernel: str, k: int, parameter: Parameter, x) -> np.ndarray:
    """Its bytes."""
    item = _known(kernel, k, parameter).itemsize * parameter.width
    if isinstance(x, bool) or not isinstance(x, int | np.integer):
        raise TypeError(
            f"{kernel}: argument {k} is {brief(x)}, and the parameter points to local memory; "
            "expected the number of its elements"
        )
    if not 0 < x < (1 << 32) // item:
        raise ValueError(
            f"{kernel}: argument {k} is {brief(x)}, expected a number of elements of local "
            f"memory, from 1 to {(1 << 32) // item - 1}"
        )
    return np.array(int(x) * item, np.int64)


# ---- numbers ----


def _said(x: object) -> str:
    try:
        return brief(x)
    except ValueError:  # Python writes no integer of that many digits
        return "an integer of thousands of digits"


def _scalar(kernel: str, k: int, parameter: Parameter, x) -> np.ndarray:
    dtype = _known(kernel, k, parameter)
    if isinstance(x, np.ndarray | DeviceArray) and (x.ndim or isinstance(x, DeviceArray)):
        raise TypeError(f"{kernel}: argument {k} is an array, the kernel takes one {dtype}")
    _refuse_mask(kernel, k, x)
    x = x.item() if isinstance(x, np.ndarray | np.generic) else x
    if not _fits(dtype, x):
        takes = {"f": "a real number", "b": "True or False"}.get(dtype.kind, "an integer")
        raise TypeError(f"{kernel}: argument {k} is {_said(x)}, the kernel takes {takes}")
    try:
        if dtype.kind != "f":
            return np.array(x, dtype)
        with np.errstate(over="raise"):
            return np.array(float(x)).astype(dtype)
    except (OverflowError, FloatingPointError):
        pass
    except (TypeError, ValueError) as error:
        raise TypeError(f"{kernel}: argument {k} is {_said(x)}: {error}") from None
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    raise OverflowError(
        f"{kernel}: argument {k} is {_said(x)}, expected a number of {dtype}, from "
        f"{limits.min} to {limits.max}"
    )


def _fits(dtype: np.dtype, x: object) -> bool:
    if dtype.kind == "b":
        return isinstance(x, int) and x in (0, 1)
    if dtype.kind in "iu":
        return isinstance(x, int)
    return hasattr(type(x), "__float__")


# ---- arrays ----


def _array(kernel: str, k: int, parameter: Parameter, x, device: Device):
    """A plain ndarray or a DeviceArray of the kernel's device."""
    dtype = _known(kernel, k, parameter)
    if is_foreign(x):
        x = borrow(kernel, f"argument {k}", x)
    if not isinstance(x, np.ndarray | DeviceArray):
        raise TypeError(f"{kernel}: argument {k} is {brief(x)}, the kernel takes an array")
    _refuse_mask(kernel, k, x)
    if isinstance(x, np.ndarray):
        x = operand(kernel, f"argument {k}", x, "any")
    if x.dtype != dtype:
        raise TypeError(f"{kernel}: argument {k} has dtype {x.dtype}, the kernel takes {dtype}")
    if isinstance(x, DeviceArray) and x.device != device:
        raise ValueError(f"{kernel}: argument {k} lives on another device than {device}")
    if not _is_contiguous(x):
        raise ValueError(f"{kernel}: argument {k} is not C-contiguous; pass a copy of it")
    if not parameter.const and not _is_writeable(x):
        raise ValueError(f"{kernel}: argument {k} is read-only, and the kernel may store to it")
    return x


def _is_contiguous(x: np.ndarray | DeviceArray) -> bool:
    if isinstance(x, np.ndarray):
        return x.flags.c_contiguous
    step = x.dtype.itemsize
    for n, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if n > 1 and stride != step:
            return x.size == 0
        step *= n
    return True


def _is_writeable(x: np.ndarray | DeviceArray) -> bool:
    return x.flags.writeable if isinstance(x, np.ndarray) else not x._buffer.readonly


# ---- arrays that share memory, which they share on the device ----


def _overlapping(hosts: dict[int, np.ndarray]) -> list[list[int]]:
    """The arrays' places among the arguments, those together that have bytes in common."""
    groups: list[list[int]] = []
    end = -1
    for k in sorted(hosts, key=lambda k: (hosts[k].nbytes > 0, hosts[k].ctypes.data)):
        begin = hosts[k].ctypes.data
        if hosts[k].nbytes and begin < end:
            groups[-1].append(k)
        else:
            groups.append([k])
        if hosts[k].nbytes:
            end = max(end, begin + hosts[k].nbytes)
    return groups


def _shared(
    hosts: dict[int, np.ndarray], group: list[int], device: Device
) -> dict[int, DeviceArray]:
    """One piece of the device's memory for all of them, each at its place in it: as far behind
    a multiple of an allocation's alignment as on the host."""
    begins = {k: hosts[k].ctypes.data for k in group}
    first = min(begins.values())
    size = max(begins[k] + hosts[k].nbytes for k in group) - first
    # OpenCL's buffers begin where memory does, or at multiples that are the device's.
    pad = 0 if device.backend == "opencl" else first % 256
    memory = np.zeros(pad + size, np.uint8)
    memory[pad:] = np.frombuffer((ctypes.c_char * size).from_address(first), np.uint8)
    whole = to_device(memory, device)
    place = (device.backend, device.ordinal)
    return {
        k: DeviceArray(
            _core.borrow(
                whole._buffer.ptr + pad + begins[k] - first,
                hosts[k].shape,
                None,
                hosts[k].dtype,
                place,
                whole,
                False,
            )
        )
        for k in group
    }
