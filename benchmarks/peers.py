"""peers - the same computation by other libraries, each timed as its own users would time it.

A contender is (name, run) where run() does the computation once and returns its seconds. Caches
are emptied before each run, on every side by the same means. A peer that is not installed is
left out of the table; it is never replaced.
"""

from __future__ import annotations

import importlib.util
import time

import numpy as np

import gpuops


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


class NumPyPeer:
    """NumPy on the CPU, wall clock."""

    name = "numpy"

    def __init__(self) -> None:
        self.scratch = np.empty(96 << 20, np.uint8)

    def array(self, a: np.ndarray):
        return a

    def timed(self, f) -> float:
        self.scratch.fill(1)
        start = time.perf_counter()
        f()
        return time.perf_counter() - start

    def calls(self, op: str, arrays, options):
        if op == "add":
            return lambda: np.add(*arrays)
        if op == "multiply_add":
            return lambda: arrays[0] * arrays[1] + arrays[2]
        if op == "transpose":
            axes = options.get("axes")
            return lambda: np.ascontiguousarray(np.transpose(arrays[0], axes))
        if op == "reduce":
            return lambda: np.sum(arrays[0], axis=options.get("axis"))
        if op == "matmul":
            return lambda: np.matmul(*arrays)
        return None


class EventPeer:
    """A GPU library that times its stream by events: CuPy and PyTorch."""

    def __init__(self) -> None:
        self.scratch = self.array(np.zeros(160 << 20, np.uint8))

    def timed(self, f) -> float:
        self.empty_caches()
        start, stop = self.event(), self.event()
        start.record()
        f()
        stop.record()
        stop.synchronize()
        return self.elapsed(start, stop) * 1e-3


class CuPyPeer(EventPeer):
    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        super().__init__()

    def array(self, a: np.ndarray):
        return self.xp.asarray(a)

    def event(self):
        return self.xp.cuda.Event()

    def elapsed(self, start, stop) -> float:
        return self.xp.cuda.get_elapsed_time(start, stop)

    def empty_caches(self) -> None:
        self.scratch.fill(1)

    def calls(self, op: str, arrays, options):
        xp = self.xp
        if op == "add":
            return lambda: xp.add(*arrays)
        if op == "multiply_add":
            return lambda: arrays[0] * arrays[1] + arrays[2]
        if op == "transpose":
            axes = options.get("axes")
            return lambda: xp.ascontiguousarray(xp.transpose(arrays[0], axes))
        if op == "reduce":
            return lambda: xp.sum(arrays[0], axis=options.get("axis"))
        if op == "matmul":
            return lambda: xp.matmul(*arrays)
        if op == "jacobi_step":
            A, f, x = arrays
            return lambda: x + 1e-6 * (A @ x - f)
        return None


class TorchPeer(EventPeer):
    name = "torch"

    def __init__(self) -> None:
        import torch

        self.torch = torch
        super().__init__()

    def array(self, a: np.ndarray):
        return self.torch.from_numpy(a).cuda()

    def event(self):
        return self.torch.cuda.Event(enable_timing=True)

    def elapsed(self, start, stop) -> float:
        return start.elapsed_time(stop)

    def empty_caches(self) -> None:
        self.scratch.fill_(1)

    def calls(self, op: str, arrays, options):
        torch = self.torch
        if op == "add":
            return lambda: torch.add(*arrays)
        if op == "multiply_add":
            return lambda: torch.addcmul(arrays[2], arrays[0], arrays[1])
        if op == "transpose":
            axes = options.get("axes") or tuple(reversed(range(arrays[0].ndim)))
            return lambda: arrays[0].permute(axes).contiguous()
        if op == "reduce":
            axis = options.get("axis")
            if axis is None:
                return lambda: torch.sum(arrays[0])
            return lambda: torch.sum(arrays[0], dim=axis)
        if op == "matmul":
            return lambda: torch.matmul(*arrays)
        if op == "jacobi_step":
            A, f, x = arrays
            return lambda: torch.addmv(x - 1e-6 * f, A, x, alpha=1e-6)
        if op == "copy":
            made = torch.empty_like(arrays[0])
            return lambda: made.copy_(arrays[0])
        return None


class GpuopsPeer:
    """gpuops itself; `kernel` None is its own choice."""

    def __init__(self, device: str, kernel: str | None = None) -> None:
        self.device, self.kernel = device, kernel
        self.name = "gpuops" if kernel is None else f"gpuops {kernel}"

    def array(self, a: np.ndarray):
        return a if self.device == "cpu" else gpuops.to_device(a, self.device)

    def timed(self, f) -> float:
        return float(f().kernel)

    def calls(self, op: str, arrays, options):
        options = dict(options)
        function = getattr(gpuops, "sum" if op == "reduce" else op)
        options |= {"device": self.device, "kernel": self.kernel}
        return lambda: gpuops.benchmark(function, arrays, options, n_repeat=1, n_warmup=0)


def peers(device: str) -> list:
    """Who is timed on this device: ourselves first."""
    if device == "cpu":
        return [GpuopsPeer(device), NumPyPeer()]
    others = [("cupy", CuPyPeer), ("torch", TorchPeer)]
    return [GpuopsPeer(device), *(made() for module, made in others if has(module))]
