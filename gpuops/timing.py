"""timing - benchmark and Timing: how long a call takes, and against what.

The kernel, the way to the device and the way back are timed apart, caches emptied in between.
Rates stand beside the copy rate of the same device, measured once per process.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _core
from ._call import road as _road
from ._call.registry import OPS, Op, call_of, name_of
from ._rdf.frames import is_sequence
from ._show import text as _text
from ._show.seconds import Seconds
from .devices import CPU, Device, check, parse
from .errors import KernelRefusedError, brief, flag
from .timer import SIM, Timer, duration, sim_launches, wait

__all__ = ["Timer", "Timing", "benchmark", "copy_rate", "duration"]

COPY_BYTES = {"cpu": 1 << 27, "cuda": 1 << 29}  # read and written together
BUDGET = 0.5  # seconds of measuring, if nobody said how many runs
MOST_RUNS = 1_000_000  # the core takes no more
SCRATCH = 128 << 20  # bytes that are written to empty the CPU's caches


@dataclass(frozen=True)
class Timing:
    """How long a call took; times are medians in seconds, each with its `samples` and `spread`.

    Attributes
    ----------
    kernel : float
        The computation on the device.
    upload, download : float
        The transfers: 0 on the CPU and for device arrays.
    total : float
        All that the caller waits for. An operation writes into an existing result, as with
        ``out=``. Any other function is timed as a whole.
    new_result : float
        The time of the whole call if it makes a new result. The system has to provide the
        memory of a large one (32 MiB and more), which takes time; ``out=`` saves that. Only on
        the CPU, for an operation that was called without ``out=``.
    op, device, name : str, Device, str
        The operation, where it ran and by which kernel; None for another function.
    bytes, flops : float
        The fewest bytes that the operation must move through memory, and the number of its
        arithmetic operations.
    cold : bool
        Whether the caches were emptied before each run.
    label : str
        What was called.
    on_sim : bool
        Whether a function that is no operation ran kernels on sim.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> t = gpuops.benchmark("add", (np.ones(1000), 1.0), {"device": "cpu"}, n_repeat=3)
    >>> t.name in [k.name for k in gpuops.kernels("add", "cpu")], t.kernel <= t.total
    (True, True)
    """

    op: str | None
    device: Device | None
    name: str | None
    total: Seconds
    kernel: Seconds = field(default_factory=lambda: Seconds(()))
    upload: Seconds = field(default_factory=lambda: Seconds(()))
    download: Seconds = field(default_factory=lambda: Seconds(()))
    bytes: float = 0.0
    flops: float = 0.0
    cold: bool = True
    label: str = ""
    on_sim: bool = False
    new_result: Seconds = field(default_factory=lambda: Seconds(()))

    @property
    def gbps(self) -> float | None:
        """The fewest bytes that the operation must move, over the kernel's time, in GB/s.

        None on sim, whose time says nothing about a GPU's.
        """
        return self.bytes / self.kernel / 1e9 if self._tells_a_rate and self.bytes else None

    @property
    def gflops(self) -> float | None:
        """10^9 arithmetic operations a second; None on sim."""
        return self.flops / self.kernel / 1e9 if self._tells_a_rate and self.flops else None

    @property
    def _tells_a_rate(self) -> bool:
        return bool(self.kernel) and (self.device is None or self.device.backend != "sim")

    @property
    def share(self) -> float | None:
        """The rate as a share of the copy rate measured on this device."""
        peak = None if self.device is None else copy_rate(self.device)
        return self.gbps / peak if self.gbps and peak else None

    @property
    def is_bound_by_memory(self) -> bool:
        """True if the operation does little arithmetic for the bytes it moves."""
        return self.flops < 8 * self.bytes

    def facts(self) -> list[tuple[str, str]]:
        """Label and text of every line of the report."""
        made = " into an existing result (out=)" if self.device == CPU else ""
        lines = [("total", repr(self.total) + made)]
        if self.new_result:
            lines.append(
                ("new result", f"{self.new_result!r} without out=: new memory takes time, too")
            )
        if self.on_sim:
            lines.append(("note", SIM))
        if self.device is None:
            return lines
        lines.insert(0, ("kernel", repr(self.kernel)))
        if self.device.backend != "cpu":
            lines[1:1] = [("upload", repr(self.upload)), ("download", repr(self.download))]
        if self.gbps:
            share = f", {self.share:.0%} of this device's copy rate" if self.share else ""
            lines.append(("rate", f"{self.gbps:.3g} GB/s{share}"))
        if self.gflops and not self.is_bound_by_memory:
            lines.append(("arithmetic", f"{self.gflops:.4g} GFLOP/s"))
        if self.device.backend == "sim":
            lines.append(("note", SIM))
        return lines

    def title(self) -> str:
        """The first line of the report: what was called, by which kernel, how many runs."""
        runs = f"{len(self.total.samples)} runs"
        if self.device is None:
            return f"{self.label}: {runs}"
        caches = "cold" if self.cold else "warm"
        call = self.label or f"{self.op} on {self.device}"
        return f"{call}, kernel {self.name!r}: {runs}, {caches} caches"

    def __repr__(self) -> str:
        return _text.facts(self.title(), self.facts())

    def _repr_html_(self) -> str:
        return _text.facts_html(self.title(), self.facts())


def benchmark(
    func: Op,
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    n_repeat: int | None = None,
    n_warmup: int | None = None,
    cold: bool = True,
) -> Timing:
    """Times one call of an operation, kernel and transfers apart, or any function as a whole.

    Parameters
    ----------
    func : str or callable
        An operation (``gpuops.transpose`` or ``"transpose"``), or any function, which is timed
        from outside by the host's clock.
    args, kwargs : tuple, dict
        What it is called with.
    n_repeat, n_warmup : int, optional
        The runs that count, and the runs before them. By default half a second's worth, and at
        least 5.
    cold : bool
        Empties the caches before each run of an operation.

    Returns
    -------
    Timing
        An operation stores into an existing result; `new_result` is the time of the call that
        makes a new one.

    Raises
    ------
    TypeError
        `func` is not callable, `args` no tuple or `kwargs` no dict; and whatever the call
        itself would refuse.
    ValueError
        There is no such operation, or a number of runs is out of range.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> t = gpuops.benchmark(gpuops.add, (np.ones(1000), 1.0), n_repeat=5)
    >>> len(t.kernel.samples), t.total > 0
    (5, True)
    """
    n_repeat = count("benchmark", "n_repeat", n_repeat, 1)
    n_warmup = count("benchmark", "n_warmup", n_warmup, 0)
    cold = flag("benchmark", "cold", cold)
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"benchmark: args is a tuple of arguments, not {brief(args)}")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError(f"benchmark: kwargs is a dict, not {brief(kwargs)}")
    kwargs = kwargs or {}
    name = name_of(func)
    if name is None:
        if not callable(func):
            raise TypeError(f"benchmark: func is an operation or a function, not {brief(func)}")
        return _whole(func, args, kwargs, n_repeat, n_warmup)
    if not _is_one_call(name, args, kwargs):
        return _whole(OPS[name][1], args, kwargs, n_repeat, n_warmup)
    return time_call(name, args, kwargs, n_repeat, n_warmup, cold, makes_anew=True)


def count(op: str, name: str, value, least: int) -> int | None:
    """A number of runs; None where it is left to us."""
    if value is None:
        return None
    value = _road.index(op, name, value)
    if not least <= value <= MOST_RUNS:
        raise ValueError(
            f"{op}: {name} is at least {least} and at most {MOST_RUNS}, not {value}"
        )
    return value


def _is_one_call(name: str, args, kwargs) -> bool:
    """False where one call of the function is several of the core: frames of an rdf."""
    if name != "rdf" or not args:
        return True
    is_array = isinstance(args[0], (list, tuple)) or getattr(args[0], "ndim", 3) == 2
    return is_array and not is_sequence(args[0]) and kwargs.get("exclude") is None


_OURS = ("out", "device", "kernel", "params")  # keywords that are no part of the problem


def described(name: str, where: Device, args, kwargs) -> str:
    """As "add of (48, 48) float32, 1.0 on cpu, 2 threads"."""
    said = [_one(a) for a in args]
    said += [f"{k}={_one(v)}" for k, v in kwargs.items() if k not in _OURS]
    place = str(where)
    if where == CPU:
        count = _core.threads()
        place += f", {count} thread{'s' * (count != 1)}"
    elif where.backend == "cuda":
        place += f", {where.info.name}"
    return f"{name} of {', '.join(said)} on {place}"


def _one(value) -> str:
    """A shape and a dtype, or the value itself where that is short."""
    is_axes = isinstance(value, tuple) and value and all(type(v) is int for v in value)
    if isinstance(value, (list, tuple)) and not is_axes:
        try:
            value = np.asarray(value)
        except ValueError:  # two arrays, as the types of two sets
            return " and ".join(map(_one, value))
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, np.dtype):
        return value.name
    is_array = not isinstance(value, type)  # a scalar type, as dtype=np.float64, has both too
    if is_array and shape is not None and dtype is not None and shape != ():
        return f"{tuple(shape)} {str(dtype).removeprefix('torch.')}"
    is_plain = isinstance(value, (int, float, complex, str, tuple, np.generic)) or value is None
    return f"{value}"[:40] if is_plain else getattr(value, "__name__", type(value).__name__)


def time_call(
    name, args, kwargs, n_repeat=None, n_warmup=None, cold=True, budget=BUDGET, makes_anew=False
) -> Timing:
    """benchmark() of one operation; `makes_anew`: on the CPU also with a new result."""
    if n_repeat is None:
        start = time.perf_counter()
        call_of(name, args, kwargs).time(1, 1, cold)
        seconds = (time.perf_counter() - start) / 2  # with the time that emptying caches takes
        n_repeat = int(np.clip(budget / seconds, 5 if seconds < 0.5 else 3, 100))
        n_warmup = 0 if n_warmup is None else n_warmup
    n_warmup = 1 if n_warmup is None else n_warmup
    facts = call_of(name, args, kwargs).time(n_warmup, n_repeat, cold)
    new = Seconds(())
    if makes_anew and facts["device"] == CPU and kwargs.get("out") is None:
        new = _anew(name, args, kwargs, statistics.median(facts["total"]), cold)
    return Timing(
        op=name,
        label=described(name, facts["device"], args, kwargs),
        device=facts["device"],
        name=facts["name"],
        bytes=facts["bytes"],
        flops=facts["flops"],
        cold=bool(cold),
        total=Seconds(facts["total"]),
        kernel=Seconds(facts["kernel"]),
        upload=Seconds(facts["upload"]),
        download=Seconds(facts["download"]),
        new_result=new,
    )


def _anew(name, args, kwargs, seconds: float, cold) -> Seconds:
    """The call as users make it, which makes its result too: a few runs."""
    runs = int(np.clip(0.1 / max(seconds, 1e-6), 3, 20))
    scratch = np.zeros(SCRATCH if cold else 0, np.uint8)
    times = []
    for k in range(runs):
        scratch.fill(k)
        start = time.perf_counter()
        result = call_of(name, args, kwargs).run()
        times.append(time.perf_counter() - start)
        del result
    return Seconds(times)


def _whole(func, args, kwargs, n_repeat, n_warmup) -> Timing:
    def once() -> float:
        wait()
        start = time.perf_counter()
        func(*args, **kwargs)
        wait()
        return time.perf_counter() - start

    first = [once() for _ in range(1 if n_warmup is None else n_warmup)]
    if n_repeat is None:
        seconds = max(first[-1] if first else once(), 1e-6)
        n_repeat = int(np.clip(BUDGET / seconds, 5 if seconds < 1 else 3, 1000))
    label = getattr(func, "__qualname__", None) or type(func).__name__
    before = sim_launches()
    total = Seconds([once() for _ in range(n_repeat)])
    played = sim_launches() != before
    return Timing(None, None, None, total, label=label, on_sim=played)


def copy_rate(device: Device | str) -> float | None:
    """10^9 bytes a second, read plus written, that a plain copy reaches on a device.

    Measured on first use and remembered; None where it cannot be measured.
    """
    where = check(parse(device) or CPU)
    moved = COPY_BYTES.get(where.backend)
    seconds = moved and _measure_copy(where, moved, True)
    return seconds and moved / seconds / 1e9


def copy_seconds(device: Device, moved: float) -> float | None:
    """Seconds in which a copy moves that many bytes, read plus written, a few in the caches.

    Between two of the sizes that are measured, each on first use, the largest with emptied
    caches, as it stands for all that are larger; None where none can be.
    """
    largest = COPY_BYTES.get(device.backend)
    if largest is None:
        return None
    least = largest >> 15  # so that steps of eight end at the largest
    low = least
    while low * 8 <= min(moved, largest / 8):
        low *= 8
    first = _measure_copy(device, low, False)
    if first is None or moved <= least:
        return first
    last = _measure_copy(device, low * 8, low * 8 == largest)
    if last is None or moved >= largest:
        return last and last * moved / largest
    return first + (last - first) * (moved / low - 1) / 7


@functools.cache
def _measure_copy(device: Device, moved: int, cold: bool) -> float | None:
    size = moved // 8
    place = (device.backend, device.ordinal)
    rows = [r["name"] for r in _core.ladder("transpose", device.backend)]
    kernel = "copy" if "copy" in rows else None
    try:
        source = _core.empty((size,), np.dtype(np.float32), place)
        # Host memory that nobody has written to is one page of zeros, which a cache holds.
        if device.backend == "cpu":
            source = _core.upload(np.ones(size, np.float32), place)
        target = _core.empty((size,), np.dtype(np.float32), place)
    except MemoryError:
        return None
    call = _core.Call("transpose", (source,), {"axes": None}, device=device, kernel=kernel)
    return statistics.median(call.time(1, 5, cold, target)["kernel"])


# Sizes of a sample of what arithmetic bounds, large enough for the rate of large ones.
_SAMPLES = {
    ("matmul", "cpu"): 384,
    ("matmul", "cuda"): 4096,
    ("rdf", "cpu"): 4000,
    ("rdf", "cuda"): 1 << 16,
}


@functools.cache
def arithmetic_rate(op: str, device: Device, kernel: str, dtype: np.dtype) -> Timing | None:
    """A kernel's timing on a call of a fit size; None where there is no such sample."""
    most = _SAMPLES.get((op, device.backend))
    if most is None:
        return None
    rng = np.random.default_rng(0)
    call = {"device": device, "kernel": kernel}
    for n in (most, most // 4):  # the second for kernels of small products
        if op == "rdf":
            args: tuple = (rng.random((n, 3)).astype(dtype), 0.5, 100)
        else:
            args = (rng.random((n, n)).astype(dtype),) * 2
        try:
            return time_call(op, args, call, n_repeat=3, n_warmup=1, cold=False)
        except KernelRefusedError:
            continue
    return None  # a kernel for thin products
