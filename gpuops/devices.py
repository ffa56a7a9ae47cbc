"""devices - what there is to compute on, and which device a call takes.

The first that applies: the call's `device=`; where a device array lives; `with device(...)`;
`set_default_device`; the environment's GPUOPS_DEVICE; else a fixed rule that never fails for
want of a GPU, save for a kernel that only GPUs have. A device asked for is used or refused,
never replaced.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from .errors import DeviceUnavailableError, Error, KernelRefusedError, brief

if TYPE_CHECKING:
    from .device_facts import DeviceInfo, Devices

# Multiply-adds, pairs of points or items of A above which auto prefers a GPU for host arrays:
# benchmarks/thresholds.py measures them. One step never pays for bringing A there.
GPU_WORK = {"matmul": 1 << 24, "rdf": 1 << 20, "jacobi": 1 << 14}
# sim's devices by ordinal, each the rules of one compute capability: "sim" has the newest.
SIM_RULES = ("", "cc10", "cc13", "cc20")
_FOLDER = os.path.dirname(__file__)


def _backends(named: tuple[str, ...]) -> tuple[str, ...]:
    """The backends that this package names, then whatever others lie beside them."""
    files = (file.removesuffix(".so") for file in os.listdir(_FOLDER) if file.endswith(".so"))
    found = {file[1:] for file in files if file.startswith("_") and "." not in file}
    return named + tuple(sorted(found - {*named, "core"}))


BACKENDS = _backends(("cuda", "sim", "opencl", "cpu"))


class _Local(threading.local):
    stack: tuple[tuple[Device | None, object], ...] = ()  # of `with device(...)`, with a key


_local = _Local()
_lock = threading.Lock()


def _renew() -> None:
    global _lock
    _lock = threading.Lock()  # the parent's may be held by a thread that the child has not


os.register_at_fork(after_in_child=_renew)
# What a call without `device=` may find, so that the core asks only if there is anything: what
# "set_default_device" set, the "environment", an entry for each `with device(...)` block.
defaults: dict[object, Any] = {}
if os.environ.get("GPUOPS_DEVICE"):  # read once, like every setting of a process
    defaults["environment"] = os.environ["GPUOPS_DEVICE"]
_opened: set[str] = {"cpu"}
_why_not: dict[str, str] = {}  # of backends that cannot be used at all


@dataclass(frozen=True, slots=True)
class Device:
    """A backend and the number of one of its devices; equal devices hash equal.

    Attributes
    ----------
    backend : str
        "cpu", "cuda", "sim" or "opencl".
    ordinal : int
        Its number, from 0 on. For sim it stands for the rules by which sim counts.

    Examples
    --------
    >>> import gpuops
    >>> str(gpuops.Device("cuda", 1)), gpuops.Device("cpu") == gpuops.Device("cpu")
    ('cuda:1', True)
    """

    backend: str
    ordinal: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.backend, str) or ":" in self.backend:
            raise (ValueError if isinstance(self.backend, str) else TypeError)(
                f"Device: backend is {brief(self.backend)}, expected a name, and the number "
                "apart, as in Device('cuda', 1); device= also takes the string 'cuda:1'"
            )
        if isinstance(self.ordinal, bool) or not hasattr(self.ordinal, "__index__"):
            raise TypeError(f"Device: ordinal is an integer, not {brief(self.ordinal)}")

    def __str__(self) -> str:
        if self.ordinal == 0:
            return self.backend
        if self.backend == "sim" and 0 < self.ordinal < len(SIM_RULES):
            return f"sim:{SIM_RULES[self.ordinal]}"
        return f"{self.backend}:{self.ordinal}"

    @property
    def info(self) -> DeviceInfo:
        """The facts of this device."""
        check(self)
        return devices(self.backend)[self.ordinal]


CPU = Device("cpu")
_parsed: dict[str, Device] = {"cpu": CPU}
_usable: set[Device] = {CPU}
_at: dict[tuple[str, int], Device] = {("cpu", 0): CPU}
# What a call may say of a usable device, for the core: it has no other words for one.
places: dict[object, tuple[str, int]] = {CPU: ("cpu", 0), "cpu": ("cpu", 0)}


def at(place: tuple[str, int]) -> Device:
    """The Device of the core's (backend, ordinal)."""
    found = _at.get(place)
    if found is None:
        found = _at[place] = Device(*place)
    return found


def open_backend(name: str) -> None:
    """Loads a backend's library on first use, or raises DeviceUnavailableError with why not."""
    if name in _opened:
        return
    with _lock:
        if name in _opened:
            return
        from ._compile.built import library

        _core.load_backend(name, library(name))
        if name == "opencl":
            from .tuned import load

            load(name)
        _opened.add(name)


def why_not(backend: str = "cuda") -> str | None:
    """Why a backend cannot be used, in one sentence; None if it can."""
    if not isinstance(backend, str) or backend not in BACKENDS:
        return f"there is no backend {brief(backend)}, only {', '.join(BACKENDS)}"
    if backend == "cpu":
        return None
    if backend not in _why_not:
        try:
            open_backend(backend)
            found = _core.devices(backend)
            _why_not[backend] = "" if found else f"no {backend} device was found"
        except (Error, OSError) as error:
            _why_not[backend] = str(error)
    return _why_not[backend] or None


def is_available(backend: str = "cuda") -> bool:
    """True if the backend has a usable device; it raises nothing.

    Parameters
    ----------
    backend : str
        "cuda", "sim", "opencl" or "cpu"; of another word it is False.

    Returns
    -------
    bool

    Examples
    --------
    >>> import gpuops
    >>> gpuops.is_available("cpu")
    True
    """
    return why_not(backend) is None


def devices(backend: str | None = None) -> Devices:
    """Every usable device, or those of one backend, with its name, limits and memory.

    Parameters
    ----------
    backend : str, optional
        "cpu", "cuda", "sim" or "opencl"; by default all.

    Returns
    -------
    tuple of DeviceInfo, which prints as a table

    Raises
    ------
    ValueError
        There is no such backend. If the backend has no device, the tuple is empty.

    Examples
    --------
    >>> import gpuops
    >>> [str(d.device) for d in gpuops.devices("cpu")]
    ['cpu']
    """
    from .device_facts import Devices, facts_of  # when first asked for

    wanted = [backend] if backend is not None else ["cpu", *(b for b in BACKENDS if b != "cpu")]
    found: list[DeviceInfo] = []
    for name in wanted:
        if not isinstance(name, str) or name not in BACKENDS:
            raise ValueError(
                f"devices: there is no backend {brief(name)}, only {', '.join(BACKENDS)}"
            )
        if is_available(name):
            found += [facts_of(Device(name, i), f) for i, f in enumerate(_core.devices(name))]
    return Devices(found)


def parse(name: object) -> Device | None:
    """A Device from a string, Device or DeviceInfo; None for "auto". Touches no driver, unless
    to find what "opencl:word" means."""
    if isinstance(name, Device):
        return name
    if isinstance(name, str) and name in _parsed:
        return _parsed[name]
    if not isinstance(name, str):
        from .device_facts import DeviceInfo

        if isinstance(name, DeviceInfo):
            return name.device
        raise TypeError(
            f"device is a string such as 'cpu' or 'cuda:1', or a Device, not {brief(name)}"
        )
    if name == "auto":
        return None
    backend, colon, number = name.partition(":")
    if backend == "sim" and (not colon or (number and number in SIM_RULES)):
        return Device("sim", SIM_RULES.index(number))
    if backend == "sim" and number[:2] == "cc":
        others = ", ".join(f"'sim:{rules}'" for rules in SIM_RULES[1:])
        raise ValueError(
            f"there is no device {name!r}; sim counts by the rules of {others}, and as 'sim' "
            "by those of compute capability 7.0 and later"
        )
    digits = number.isascii() and number.isdigit()
    if backend == "opencl" and number and not digits:
        from .opencl_words import number as meant

        open_backend(backend)
        return Device(backend, meant(number))
    known = backend in BACKENDS and backend != "sim" and (not colon or digits)
    if not known or (backend == "cpu" and int(number or 0) != 0) or len(number) > 4:
        raise ValueError(
            f"there is no device {name!r}; this machine has {_names()}, and 'auto'; those of "
            "OpenCL are 'opencl', 'opencl:1' and so on"
        )
    return _parsed.setdefault(name, Device(backend, int(number or 0)))


def _names() -> str:
    """Those of this machine; OpenCL's drivers are not loaded for a sentence."""
    asked = {*_why_not, *(d.backend for d in _usable)}
    known = [b for b in dict.fromkeys(("cpu", *BACKENDS)) if b != "opencl" or b in asked]
    return ", ".join(repr(str(d.device)) for b in known for d in devices(b))


def check(device: Device) -> Device:
    """The device, once its backend is open; else DeviceUnavailableError with the reason."""
    if device in _usable:
        return device
    open_backend(device.backend)
    count = len(_core.devices(device.backend))
    if device.ordinal not in range(count):
        raise DeviceUnavailableError(
            f"device {str(device)!r} is not available: this machine has {_names()}"
        )
    _usable.add(device)
    places[device] = places[str(device)] = (device.backend, device.ordinal)
    return device


def locate(word: object) -> tuple[str, int] | None:
    """The core's (backend, ordinal) of what names a usable device; None for "auto"."""
    found = parse(word)
    return None if found is None else (check(found).backend, found.ordinal)


def used() -> tuple[Device, ...]:
    """The GPUs that calls of this process may have gone to."""
    return tuple(d for d in {*_usable, *_at.values()} if d.backend == "cuda")


class device(contextlib.ContextDecorator):  # a function to its callers
    """Computes on one device inside a `with` block, in this thread; it can be entered again.

    Parameters
    ----------
    name : str, Device or DeviceInfo
        "cpu", "cuda", "cuda:1", "sim", "opencl", "opencl:gpu"; "auto" goes back to choosing.

    Returns
    -------
    context manager
        For a `with` block; ``as`` gives the Device, or None for "auto".

    Raises
    ------
    ValueError, TypeError, DeviceUnavailableError
        It names no device, or one that is not there: the sentence says why.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> with gpuops.device("cpu"):
    ...     gpuops.sum(np.arange(4))
    np.int64(6)
    """

    def __init__(self, name: str | Device) -> None:
        chosen = parse(name)
        self._chosen = chosen and check(chosen)
        self._entered: list[object] = []  # in generators blocks end in any order, in any thread

    def __enter__(self) -> Device | None:
        self._entered.append(key := object())
        defaults[key] = self._chosen
        _local.stack = (*_local.stack, (self._chosen, key))
        return self._chosen

    def __exit__(self, *_error: object) -> None:
        own = [key for _, key in _local.stack if key in self._entered] or self._entered
        self._entered.remove(key := own[-1])
        defaults.pop(key, None)
        _local.stack = tuple(entry for entry in _local.stack if entry[1] is not key)


def set_default_device(name: str | Device | DeviceInfo | None) -> None:
    """Sets the device of calls that name none; None or "auto" goes back to choosing.

    Parameters
    ----------
    name : str, Device, DeviceInfo or None
        As in `device`.

    Returns
    -------
    None

    Raises
    ------
    ValueError, TypeError, DeviceUnavailableError
        As `device`.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.set_default_device("cpu")
    >>> gpuops.set_default_device(None)
    """
    chosen = None if name is None else parse(name)
    if chosen is None:
        defaults.pop("set_default_device", None)
    else:
        defaults["set_default_device"] = check(chosen)


def get_default_device() -> Device | None:
    """The device that calls without `device=` use now in this thread; None: the rule "auto".

    Returns
    -------
    Device or None

    Raises
    ------
    ValueError
        GPUOPS_DEVICE names no device.

    Examples
    --------
    >>> import gpuops
    >>> with gpuops.device("cpu"):
    ...     print(gpuops.get_default_device())
    cpu
    """
    open_ = [chosen for chosen, key in _local.stack if key in defaults]  # or ended elsewhere
    if open_:
        return open_[-1]
    if "set_default_device" in defaults or "environment" not in defaults:
        return defaults.get("set_default_device")
    try:
        return parse(defaults["environment"])
    except ValueError as error:
        raise ValueError(f"GPUOPS_DEVICE: {error}") from None


def with_kernel(op: str, kernel: str) -> Device:
    """A GPU if there is one and it has the kernel, else the CPU; sim must be asked for.

    It computes the same, but so slowly that a kernel's name should not be enough to meet it.
    """

    def has_it(backend: str) -> bool:
        return is_available(backend) and any(
            row["name"] == kernel for row in _core.ladder(op, backend)
        )

    if has_it("cuda"):
        return Device("cuda")
    if not has_it("cpu") and has_it("sim"):
        raise KernelRefusedError(
            f"{op}: kernel {kernel!r} is written only for a GPU; device='sim' simulates one "
            f"({why_not('cuda')})"
        )
    return CPU


def automatic(op: str, work: float, kernel: str | None, has_default: bool) -> Device:
    """Where a call on host arrays runs that names no device; `work` as the core weighs it."""
    default = get_default_device() if has_default else None
    if default is not None:
        return default
    if kernel is not None:
        return with_kernel(op, kernel)
    if work >= GPU_WORK.get(op, math.inf) and is_available("cuda"):
        return Device("cuda")
    return CPU
