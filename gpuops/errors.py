"""errors - the exceptions that Python and NumPy have no word for.

Wrong arguments raise TypeError, ValueError, OverflowError, numpy.exceptions.AxisError or
numpy.linalg.LinAlgError, as in NumPy. What is here concerns devices and kernels. The C core
raises these classes with keyword arguments; all of them can be pickled.
"""

from __future__ import annotations

import numpy as np


def brief(value: object) -> str:
    """A wrong argument on one line of a sentence."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def flag(op: str, name: str, value: object) -> bool:
    """True or False, and nothing that is only truthy: `cold="no"` would mean yes."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{op}: {name} is {brief(value)}, expected True or False")
    return bool(value)


class Error(Exception):
    """The base of every exception below; raised itself only for a defect of gpuops."""

    _fields: tuple[str, ...] = ()

    def __init__(self, message: str = "", **facts: object) -> None:
        super().__init__(message)
        for name in self._fields:
            setattr(self, name, facts.pop(name, None))
        if facts:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(facts))!r}")

    def __reduce__(self):
        # Exception's own recipe passes only `args`, and would lose the fields.
        facts = {name: getattr(self, name) for name in self._fields}
        return _rebuild, (type(self), str(self), facts)


class DeviceError(Error, RuntimeError):
    """A device failed; `code` and `name` are those of its runtime, such as CUDA."""

    _fields = ("code", "name")
    code: int | None
    name: str | None

    def __init__(self, message: str = "", **facts: object) -> None:
        if message.startswith("sim: "):  # names an instruction: the source line says more
            from ._show.where import with_line

            message = with_line(message)
        super().__init__(message, **facts)


class DeviceLostError(DeviceError):
    """This process cannot use the device any more; NumPy arrays are not affected."""


class DeviceUnavailableError(DeviceError):
    """The backend is not built, has no driver or no such device; the message says which."""


class UnsupportedDeviceError(DeviceError):
    """The device is there, but this build holds no code for it."""


class DeviceMemoryError(Error, MemoryError):
    """The device has too little memory; `requested`, `free` and `total` are bytes."""

    _fields = ("requested", "free", "total")
    requested: int | None
    free: int | None
    total: int | None


class CompileError(Error, ValueError):
    """A kernel's source does not compile; the message quotes the compiler, line by line."""


class KernelRefusedError(Error, ValueError):
    """The kernel asked for by name does not take this call; another kernel may."""


class SimWarning(RuntimeWarning):
    """A call on sim will take long; the message says how long, and how to shorten it."""


def _rebuild(kind: type[Error], message: str, facts: dict[str, object]) -> Error:
    return kind(message, **facts)
