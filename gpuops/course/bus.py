"""bus - a GPU's driver by ctypes: pinned memory, streams and moments of the course's own.

What the lessons on transfers, occupancy and instructions measure, they measure with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._compile.cuda import image, symbols
from .._compile.kernel_source import kernel_names, read
from ..devices import Device
from ..errors import DeviceError


class Gpu:
    """One GPU's primary context; what it hands out is given back by `close`."""

    def __init__(self, device: Device) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._capability = device.info.compute_capability
        self._back: list[Callable[[], None]] = []
        self._call("cuInit", 0)
        handle = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(handle), device.ordinal)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self._back.append(lambda: self._call("cuDevicePrimaryCtxRelease_v2", handle))
        self._call("cuCtxPushCurrent_v2", context)
        self._back.append(
            lambda: self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        )

    def close(self) -> None:
        while self._back:
            self._back.pop()()

    def _call(self, name: str, *args: Any) -> None:
        code = self._driver[name](*args)
        if code:
            raise DeviceError(f"course: {name} failed with CUDA error {code}")

    # ---- memory ----

    def pinned(self, count: int) -> np.ndarray:
        """Floats in host memory that stays where it is."""
        at = ctypes.c_void_p()
        self._call("cuMemAllocHost_v2", ctypes.byref(at), ctypes.c_size_t(4 * count))
        self._back.append(lambda: self._call("cuMemFreeHost", at))
        found = np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)), (count,))
        found[:] = 1
        return found

    def memory(self, count: int) -> int:
        """The address of that many floats on the GPU."""
        at = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(4 * count))
        self._back.append(lambda: self._call("cuMemFree_v2", at))
        return at.value

    def upload(self, to: int, host: np.ndarray, stream: ctypes.c_void_p | None = None) -> None:
        self._copy(
            "cuMemcpyHtoD",
            ctypes.c_uint64(to),
            host.ctypes.data_as(ctypes.c_void_p),
            host,
            stream,
        )

    def download(
        self, host: np.ndarray, at: int, stream: ctypes.c_void_p | None = None
    ) -> None:
        self._copy(
            "cuMemcpyDtoH",
            host.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint64(at),
            host,
            stream,
        )

    def _copy(self, name: str, to: Any, at: Any, host: np.ndarray, stream: Any) -> None:
        size = ctypes.c_size_t(host.nbytes)
        if stream is None:
            self._call(f"{name}_v2", to, at, size)
        else:
            self._call(f"{name}Async_v2", to, at, size, stream)

    # ---- order and time ----

    def stream(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(made), 1)  # apart from the default stream
        self._back.append(lambda: self._call("cuStreamDestroy_v2", made))
        return made

    def mark(self, stream: ctypes.c_void_p) -> ctypes.c_void_p:
        """A moment of a stream."""
        made = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(made), 0)
        self._back.append(lambda: self._call("cuEventDestroy_v2", made))
        self._call("cuEventRecord", made, stream)
        return made

    def after(self, stream: ctypes.c_void_p, moment: ctypes.c_void_p) -> None:
        """What comes on the stream waits for that moment."""
        self._call("cuStreamWaitEvent", stream, moment, 0)

    def wait(self) -> None:
        self._call("cuCtxSynchronize")

    def between(self, first: ctypes.c_void_p, last: ctypes.c_void_p) -> float:
        """Seconds from one moment to another, both past."""
        found = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(found), first, last)
        return found.value / 1e3

    # ---- kernels ----

    def kernel(self, source: str) -> Callable[..., None]:
        """`launch(stream, grid, block, *args)` of the source's only kernel: ints are
        addresses, NumPy scalars numbers."""
        text = read(source)
        names = kernel_names(text.text)
        made = image(text, names, self._capability)
        symbol = symbols(made, next(iter(names)))[0]
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), made)
        self._back.append(lambda: self._call("cuModuleUnload", module))
        self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())

        def launch(stream: ctypes.c_void_p, grid: int, block: int, *args: Any) -> None:
            kept = [np.array(a, "u8" if isinstance(a, int) else None) for a in args]
            places = (ctypes.c_void_p * len(kept))(*(a.ctypes.data for a in kept))
            self._call(
                "cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, stream, places, None
            )

        return launch

    def seconds(self, launch: Callable[[ctypes.c_void_p], None], times: int = 5) -> float:
        """The median of what a launch takes by the GPU's clock, after a first one."""
        stream = self.stream()
        launch(stream)
        marks = [self.mark(stream)]
        for _ in range(times):
            launch(stream)
            marks.append(self.mark(stream))
        self.wait()
        return float(np.median([self.between(*pair) for pair in itertools.pairwise(marks)]))


@contextlib.contextmanager
def opened(device: Device) -> Iterator[Gpu]:
    gpu = Gpu(device)
    try:
        yield gpu
    finally:
        gpu.wait()
        gpu.close()


def by_the_host(call: Callable[[], object], budget: float = 0.02) -> float:
    """The median of seconds by the host's clock, after a first call; at least seven."""
    call()
    found: list[float] = []
    while len(found) < 7 or (sum(found) < budget and len(found) < 200):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return float(np.median(found))
