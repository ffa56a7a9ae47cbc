"""peers - the same computation by other libraries, each timed as its own users would time it.

A peer makes a call of a case, or None where it has nothing like it; `timed` does the call once
and gives its seconds. Caches are emptied before each run, on every side by the same means.
Arrays are made once, on the device, and lent to the peers by DLPack. A peer that is not
installed is left out of the table; it is never replaced.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import time

import numpy as np

import gpuops
from gpuops import _core

REDUCTIONS = ("sum", "min", "argmin", "mean")
BASE = 1 << 24  # random elements that are made; longer arrays repeat them


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def place(device: str) -> tuple[str, int]:
    where = gpuops.Device(device)
    return where.backend, where.ordinal


def random_array(shape, dtype: str, device: str, *, uniform: bool = False):
    """N(0, 1), of points in a box uniform: a DeviceArray where the device is not the CPU."""
    if dtype == "bfloat16":
        import ml_dtypes

        kind = np.dtype(ml_dtypes.bfloat16)
    else:
        kind = np.dtype(dtype)
    rng = np.random.default_rng(0)
    size = math.prod(shape)
    base = min(size, BASE)
    if kind.kind == "u":
        some = rng.integers(0, 256, base, np.uint8).astype(kind)
    else:
        draw = rng.random if uniform else rng.standard_normal
        some = draw(base, np.float32).astype(kind)
    if device == "cpu":
        return np.resize(some, shape)
    if size == base:
        return gpuops.to_device(some.reshape(shape), device)
    # The base again and again: an array of stride 0, copied by the device.
    where, rows = place(device), -(-size // base)
    once = gpuops.to_device(some, device)._buffer
    repeated = _core.borrow(once.ptr, (rows, base), (0, kind.itemsize), kind, where, once, True)
    many = _core.empty((rows, base), kind, where)
    out = gpuops.DeviceArray(many)
    _core.run("transpose", (repeated,), {"axes": (0, 1)}, out, where, None, None)
    seen = _core.borrow(many.ptr, tuple(shape), None, kind, where, many, False)
    return gpuops.DeviceArray(seen)


def enqueuing(op, arrays, into):
    """A call that writes to what is in `into`, or makes its result."""
    arrays, words = list(arrays), dict(zip(["out"], into, strict=False))
    return lambda: op(*arrays, **words)


class GpuopsPeer:
    """gpuops itself, into memory that was touched before, as a peer's allocator gives it.

    `kernel` None is its own choice; `copy` is what its kernels for moving bytes reach.
    """

    name = "gpuops"

    def __init__(self, device: str) -> None:
        self.device = device

    def timed(self, call) -> float:
        return call()

    def core_call(self, function: str, options) -> tuple[str, dict | None]:
        if function == "transpose":
            return "transpose", {"axes": options.get("axes")}
        if function in REDUCTIONS:
            axis = options.get("axis")
            axes = None if axis is None else tuple(np.atleast_1d(axis).tolist())
            return "reduce", {"op": function, "axes": axes, "keepdims": False, "where": False,
                              "initial": None}  # fmt: skip
        return function, None

    def core_time(self, function: str, arrays, options, kernel=None):
        """A call that runs once on the same memory each time, for kernels that take it."""
        op, params = self.core_call(function, options)
        inputs = tuple(getattr(a, "_buffer", a) for a in arrays)
        dtype, shape = _core.Call(op, inputs, params).infer()
        where = place(self.device)
        made = np.zeros(shape, dtype)
        if self.device != "cpu":
            made = _core.empty(shape, dtype, where)
        call = _core.Call(op, inputs, params, device=self.device, kernel=kernel)
        return lambda: call.time(0, 1, True, made)["kernel"][0]

    def call(self, function: str, arrays, options):
        if function not in ("add", "multiply_add", "fma", "transpose", *REDUCTIONS):
            options = {**options, "device": self.device}
            op = getattr(gpuops, function)
            once = {"n_repeat": 1, "n_warmup": 0}
            return lambda: float(gpuops.benchmark(op, arrays, options, **once).kernel)
        return self.core_time(function, arrays, options)

    def round_trip(self, function: str, arrays):
        op = getattr(gpuops, function)
        return lambda: op(*arrays, device=self.device)

    def enqueued(self, function: str, arrays, into, whose: str):
        if whose == self.name:
            return enqueuing(getattr(gpuops, function), arrays, into)
        if not has(whose):
            return None
        theirs = importlib.import_module(whose).from_dlpack
        return enqueuing(getattr(gpuops, function), map(theirs, arrays), map(theirs, into))

    def wait(self) -> None:
        _core.wait(place(self.device))

    def copies(self, array):
        """name -> call: the chosen kernel and every yardstick that takes a plain line."""
        found = {self.name: self.core_time("transpose", [array], {})}
        for row in _core.ladder("transpose", place(self.device)[0]):
            call = self.core_time("transpose", [array], {}, row["name"])
            try:
                if row["role"] == "yardstick" and call():
                    found[f"{self.name} {row['name']}"] = call
            except gpuops.KernelRefusedError:
                continue
        return found


class HostPeer:
    """A library on the CPU, wall clock."""

    def __init__(self) -> None:
        self.scratch = np.empty(128 << 20, np.uint8)

    def timed(self, call) -> float:
        self.scratch.fill(1)
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def copies(self, array):
        return {}


class NumPyPeer(HostPeer):
    """Results go into memory that was touched before: fresh pages cost more than the work."""

    name = "numpy"

    def call(self, function: str, arrays, options):
        a = arrays[0]
        if function == "add":
            out = np.zeros_like(a)
            return lambda: np.add(*arrays, out=out)
        if function == "multiply_add":
            out = np.zeros_like(a)
            return lambda: np.add(np.multiply(*arrays[:2], out=out), arrays[2], out=out)
        if function == "transpose":
            turned = np.transpose(a, options.get("axes"))
            out = np.zeros(turned.shape, a.dtype)
            return lambda: np.copyto(out, turned)
        if function in REDUCTIONS:
            return lambda: self.reduce(function, a, options.get("axis"))
        return (lambda: np.matmul(*arrays)) if function == "matmul" else None

    @staticmethod
    def reduce(function: str, a, axis) -> None:
        with np.errstate(over="ignore"):  # sums of float16
            getattr(np, function)(a, axis=axis)

    def copies(self, array):
        out = np.zeros_like(array)
        return {self.name: lambda: np.copyto(out, array)}


class NumExprPeer(HostPeer):
    name = "numexpr"

    def __init__(self) -> None:
        import numexpr

        super().__init__()
        self.evaluate = numexpr.evaluate

    def call(self, function: str, arrays, options):
        names = dict(zip("abc", arrays, strict=False))
        text = {"add": "a + b", "multiply_add": "a * b + c"}.get(function)
        if text:
            out = np.zeros_like(arrays[0])
            return lambda: self.evaluate(text, names, out=out)
        axis = options.get("axis")
        if function in ("sum", "min") and arrays[0].dtype.itemsize >= 4:
            text = f"{function}(a)" if axis is None else f"{function}(a, {axis})"
            return lambda: self.evaluate(text, names)
        return None


class EventPeer:
    """A GPU library that times its stream by events: CuPy and PyTorch.

    Emptying the caches takes longer than a library needs to launch a kernel, so that the time
    between the events is the device's.
    """

    CACHES = 512 << 20

    def timed(self, call) -> float:
        self.empty_caches()
        start, stop = self.event(), self.event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        return self.elapsed(start, stop) * 1e-3

    def copies(self, array):
        return {}


class CuPyPeer(EventPeer):
    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        self.scratch = cupy.zeros(self.CACHES, cupy.uint8)

    def event(self):
        return self.xp.cuda.Event()

    def elapsed(self, start, stop) -> float:
        return self.xp.cuda.get_elapsed_time(start, stop)

    def empty_caches(self) -> None:
        self.scratch.fill(1)

    def call(self, function: str, arrays, options):
        xp = self.xp
        if arrays[0].dtype.name == "bfloat16":
            return None
        arrays = [xp.from_dlpack(a) for a in arrays]
        if function == "add":
            return lambda: xp.add(*arrays)
        if function == "multiply_add":
            return lambda: arrays[0] * arrays[1] + arrays[2]
        if function == "transpose":
            turned = xp.transpose(arrays[0], options.get("axes"))
            if turned.flags.c_contiguous:
                return lambda: turned.copy()
            return lambda: xp.ascontiguousarray(turned)
        if function in REDUCTIONS:
            return lambda: getattr(xp, function)(arrays[0], axis=options.get("axis"))
        if function == "matmul":
            return lambda: xp.matmul(*arrays)
        if function == "jacobi_step":
            A, f, x = arrays
            return lambda: x + 1e-6 * (A @ x - f)
        return None

    def round_trip(self, function: str, arrays):
        xp = self.xp
        if function == "add":
            return lambda: xp.asnumpy(xp.add(*map(xp.asarray, arrays)))
        return lambda: xp.asnumpy(xp.ascontiguousarray(xp.asarray(arrays[0]).T))

    def enqueued(self, function: str, arrays, into, whose: str):
        if whose not in ("gpuops", self.name):
            return None
        ours = self.xp.from_dlpack
        return enqueuing(getattr(self.xp, function), map(ours, arrays), map(ours, into))

    def wait(self) -> None:
        self.xp.cuda.Device().synchronize()

    def free(self) -> None:
        self.xp.get_default_memory_pool().free_all_blocks()


class TorchPeer(EventPeer):
    """PyTorch; its addcmul stands beside multiply_add and fma, and promises no rounding."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.scratch = torch.zeros(self.CACHES, dtype=torch.uint8, device="cuda")

    def event(self):
        return self.torch.cuda.Event(enable_timing=True)

    def elapsed(self, start, stop) -> float:
        return start.elapsed_time(stop)

    def empty_caches(self) -> None:
        self.scratch.fill_(1)

    def call(self, function: str, arrays, options):
        torch = self.torch
        arrays = [torch.from_dlpack(a) for a in arrays]
        a = arrays[0]
        if function == "add":
            return lambda: torch.add(*arrays)
        if function in ("multiply_add", "fma"):
            return lambda: torch.addcmul(arrays[2], a, arrays[1])
        if function == "transpose":
            turned = a.permute(options.get("axes") or tuple(reversed(range(a.ndim))))
            return turned.clone if turned.is_contiguous() else turned.contiguous
        if function in REDUCTIONS:
            axis = options.get("axis")
            along = getattr(
                torch, "amin" if function == "min" and axis is not None else function
            )
            return lambda: along(a) if axis is None else along(a, dim=axis)
        if function == "matmul":
            return lambda: torch.matmul(*arrays)
        if function == "jacobi_step":
            A, f, x = arrays
            return lambda: torch.addmv(x - 1e-6 * f, A, x, alpha=1e-6)
        return None

    def copies(self, array):
        source = self.torch.from_dlpack(array)
        made = self.torch.empty_like(source)
        return {self.name: lambda: made.copy_(source)}

    def round_trip(self, function: str, arrays):
        arrays = [self.torch.from_numpy(a) for a in arrays]
        if function == "add":
            return lambda: self.torch.add(*(a.cuda() for a in arrays)).cpu().numpy()
        return lambda: arrays[0].cuda().T.contiguous().cpu().numpy()

    def enqueued(self, function: str, arrays, into, whose: str):
        if whose not in ("gpuops", self.name):
            return None
        ours = self.torch.from_dlpack
        return enqueuing(getattr(self.torch, function), map(ours, arrays), map(ours, into))

    def wait(self) -> None:
        self.torch.cuda.synchronize()

    def free(self) -> None:
        self.torch.cuda.empty_cache()


def peers(device: str) -> list:
    """Who is timed on this device: ourselves first."""
    others = [("cupy", CuPyPeer), ("torch", TorchPeer)]
    if device == "cpu":
        others = [("numpy", NumPyPeer), ("numexpr", NumExprPeer)]
    return [GpuopsPeer(device), *(made() for module, made in others if has(module))]
