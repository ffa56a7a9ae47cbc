"""timer - Timer: the wall time of a block, and whether it was the simulator's."""

from __future__ import annotations

import ctypes
import functools
import time
from pathlib import Path

from . import _core
from ._show.text import writable
from .devices import used

SIM = "time on sim is the CPU's that plays the GPU, and tells nothing of a GPU's"


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), (writable("µs", "us"), 1e6)):
        if seconds * scale >= 1.0:
            return f"{seconds * scale:.3g} {unit}" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds * 1e9:.0f} ns"


def wait() -> None:
    """Until what calls on device arrays left under way is done."""
    for device in used():
        _core.wait((device.backend, device.ordinal))


@functools.cache
def _sim_library():
    path = Path(__file__).with_name("_sim.so")
    library = ctypes.PyDLL(str(path)) if path.exists() else None
    if library:
        library.gop_sim_launches.restype = ctypes.c_int64
    return library


def sim_launches() -> int:
    """Kernels that sim has run in this process."""
    library = _sim_library()
    return library.gop_sim_launches() if library else 0


class Timer:
    """Measures the wall time of a block, up to the end of the work that its calls began.

    Attributes
    ----------
    label : str
        A text that is printed before the time. It is the only argument.

    Examples
    --------
    >>> import gpuops
    >>> with gpuops.Timer() as t:
    ...     _ = gpuops.sum([1, 2, 3])
    >>> t.seconds > 0
    True
    """

    def __init__(self, label: str = "") -> None:
        self.label = label
        self._start: float | None = None
        self._stop: float | None = None
        self._played = False

    def __enter__(self) -> Timer:
        wait()
        self._stop = None
        self._launches = sim_launches()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            wait()
        self._stop = time.perf_counter()
        self._played = sim_launches() != self._launches

    @property
    def seconds(self) -> float:
        """Seconds of the block, or so far while it runs."""
        if self._start is None:
            raise RuntimeError("Timer: it was not started; use it in a `with` statement")
        return (time.perf_counter() if self._stop is None else self._stop) - self._start

    def __repr__(self) -> str:
        label = f"{self.label}: " if self.label else ""
        note = f" ({SIM})" if self._played else ""
        return label + ("not started" if self._start is None else duration(self.seconds)) + note
