"""zoo_peers - the libraries beside which zoo.py times a drawn call, and what checks its result.

Two sides: NumPy on the CPU; PyTorch and, for a share of the cases, CuPy on a GPU. Each makes
the arrays, gives the call as a user would write it, without out, and tells the time.
"""

from __future__ import annotations

import math
import time

import numpy as np
from zoo_draw import Drawn, Laid

import gpuops

# Bits of a significand, by which sums may differ from a reference that rounds less.
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "complex64": 24}
SPENT = 120e-6  # seconds of calls between two looks at the clock, where calls are short


def bound(dtype: str, count: int) -> float:
    """Of a sum's error, times the sum of magnitudes: a rounding for every level of the tree."""
    digits = DIGITS.get(dtype, 53)
    inner = max(digits, 24)  # float16 and bfloat16 are added as float32
    return (16 + math.log2(max(count, 2))) * 2.0**-inner + 2.0 ** (1 - digits)


def count_of(case: Drawn) -> int:
    shape = case.arrays[0].shape
    return math.prod(shape if case.axes is None else (shape[d] for d in case.axes))


def calls_for(nbytes: float, rate: float) -> int:
    return max(1, min(10, int(SPENT / (nbytes / rate + 4e-6))))


def ours(case: Drawn, arrays, mask, device):
    """The call of gpuops: its function and arguments."""
    options = {} if device is None else {"device": device}
    if case.op == "transpose":
        return gpuops.transpose, (arrays[0], case.axes), options
    if case.op == "reduce":
        if mask is not None:
            options["where"] = mask
        return getattr(gpuops, case.word), (arrays[0], _axis(case)), options
    return getattr(gpuops, case.word), tuple(arrays), options


def _axis(case: Drawn):
    return case.axes[0] if case.axes and len(case.axes) == 1 else case.axes


class Host:
    """NumPy on the CPU."""

    names = ("numpy",)

    def __init__(self, most: float) -> None:
        self.rng = np.random.default_rng(0)
        self.halves = np.zeros((2, int(most)), np.uint8)

    def made(self, laid: Laid, dtype: str, word: str):
        size = math.prod(laid.made)
        if word in ("any", "all"):
            a = np.full(size, word == "all", dtype)
        elif dtype == "bool":
            a = self.rng.integers(0, 2, size, np.uint8).astype(bool)
        elif np.dtype(dtype).kind in "iu":
            info = np.iinfo(dtype)
            a = self.rng.integers(info.min, info.max, size, dtype, endpoint=True)
        else:
            a = self.rng.standard_normal(size, np.float32).astype(dtype)
        return a.reshape(laid.stored).transpose(laid.back)[laid.slices]

    def mask(self, shape):
        return self.rng.integers(0, 2, shape, np.uint8).astype(bool)

    def calls(self, case: Drawn, arrays, mask) -> dict:
        function, args, options = ours(case, arrays, mask, "cpu")
        found = {"gpuops": lambda: function(*args, **options)}
        found["numpy"] = lambda: self.peer(case, arrays, mask)
        return found

    @staticmethod
    def peer(case: Drawn, arrays, mask):
        if case.op == "add":
            return arrays[0] + arrays[1]
        if case.op == "multiply_add":
            return arrays[0] * arrays[1] + arrays[2]
        if case.op == "transpose":
            return np.transpose(arrays[0], case.axes).copy()
        options = {} if mask is None else {"where": mask}
        with np.errstate(over="ignore", invalid="ignore"):
            return getattr(np, case.word)(arrays[0], axis=_axis(case), **options)

    def copy(self, nbytes: float):
        to, source = self.halves[:, : max(1, int(nbytes) // 2)]
        return lambda: np.copyto(to, source)

    def is_right(self, case: Drawn, arrays, mask, got) -> bool:
        got = np.asarray(got)
        if case.word in ("sum", "mean"):
            wide = np.result_type(arrays[0].dtype, np.float64)
            wide = arrays[0].astype(wide)
            options = {} if mask is None else {"where": mask}
            if arrays[0].dtype.kind in "biu" and case.word == "sum":
                return np.array_equal(got, np.sum(arrays[0], _axis(case), **options))
            want = getattr(np, case.word)(wide, axis=_axis(case), **options)
            most = getattr(np, case.word)(np.abs(wide), axis=_axis(case), **options)
            return bool(np.all(np.abs(got - want) <= bound(case.dtype, count_of(case)) * most))
        want = self.peer(case, arrays, mask)
        if case.word == "multiply_add" and got.dtype.kind == "c":
            return np.allclose(got, want, rtol=1e-5, atol=1e-5)
        return got.dtype == np.asarray(want).dtype and np.array_equal(got, want)

    def rounds(self, calls: dict, nbytes: float, repeat: int) -> dict:
        """name -> seconds of a call, of each round; contenders take turns. Each makes a call
        that is not timed first: caches are as it leaves them, not as the one before it did."""
        times = calls_for(nbytes, 8e9)
        seconds = {name: [] for name in calls}
        for _ in range(repeat):
            for name, call in calls.items():
                call()
                start = time.perf_counter()
                for _ in range(times):
                    call()
                seconds[name].append((time.perf_counter() - start) / times)
        return seconds

    def free(self) -> None:
        pass


class Gpu:
    """PyTorch, and CuPy for the cases that are its own. All work is on the default stream."""

    names = ("torch", "cupy")
    KEPT = 32 << 30  # bytes that the allocators may keep

    def __init__(self, most: float, device: str) -> None:
        import torch

        self.torch, self.device = torch, device
        try:
            import cupy
        except ImportError:
            cupy = None
        self.cupy = cupy
        torch.manual_seed(0)
        self.halves = torch.zeros((2, int(most)), dtype=torch.uint8, device=device)

    def made(self, laid: Laid, dtype: str, word: str):
        torch = self.torch
        kind, where = getattr(torch, dtype), self.device
        if word in ("any", "all"):
            a = torch.full(laid.stored, word == "all", dtype=kind, device=where)
        elif dtype == "bool":
            a = torch.randint(0, 2, laid.stored, dtype=torch.uint8, device=where).bool()
        elif kind.is_floating_point or kind.is_complex:
            a = torch.randn(laid.stored, dtype=kind, device=where)
        else:
            info = torch.iinfo(kind)
            ends = max(info.min, -(1 << 62)), min(info.max, 1 << 62)
            a = torch.randint(*ends, laid.stored, dtype=kind, device=where)
        return a.permute(laid.back)[laid.slices]

    def mask(self, shape):
        torch = self.torch
        return torch.randint(0, 2, shape, dtype=torch.uint8, device=self.device).bool()

    def calls(self, case: Drawn, arrays, mask) -> dict:
        torch, theirs = self.torch, None
        if case.whose == "cupy" and self.cupy is not None:
            lent = [a.view(torch.uint8) if a.dtype == torch.bool else a for a in arrays]
            theirs = [self.cupy.from_dlpack(a) for a in lent]
            theirs = [b.view("?") if a.dtype == torch.bool else b
                      for a, b in zip(arrays, theirs, strict=True)]  # fmt: skip
        is_theirs = theirs is not None and mask is None
        function, args, options = ours(case, theirs if is_theirs else arrays, mask, None)
        found = {"gpuops": lambda: function(*args, **options)}
        found["torch"] = self.torch_call(case, arrays, mask)
        if is_theirs:
            found["cupy"] = self.cupy_call(case, theirs)
        return found

    def torch_call(self, case: Drawn, arrays, mask):
        torch, a, axis = self.torch, arrays[0], case.axes
        if case.op == "add":
            return lambda: torch.add(*arrays)
        if case.op == "multiply_add":
            if case.dtype == "bool":
                return lambda: torch.logical_or(torch.logical_and(a, arrays[1]), arrays[2])
            return lambda: torch.addcmul(arrays[2], a, arrays[1])
        if case.op == "transpose":
            plain = torch.contiguous_format
            return lambda: a.permute(axis).clone(memory_format=plain)
        if mask is not None:
            none = torch.zeros((), dtype=a.dtype, device=a.device)
            return lambda: torch.sum(torch.where(mask, a, none), axis)
        along = {"min": torch.amin, "max": torch.amax}.get(case.word)
        if along is not None:
            return lambda: along(a, axis if axis is not None else ())
        along = getattr(torch, case.word)
        if axis is None:
            return lambda: along(a)
        return lambda: along(a, dim=_axis(case))

    def cupy_call(self, case: Drawn, arrays):
        xp, a = self.cupy, arrays[0]
        if case.op == "add":
            return lambda: a + arrays[1]
        if case.op == "multiply_add":
            return lambda: a * arrays[1] + arrays[2]
        if case.op == "transpose":
            return lambda: a.transpose(case.axes).copy()
        along = getattr(xp, case.word)
        return lambda: along(a, axis=_axis(case))

    def copy(self, nbytes: float):
        to, source = self.halves[:, : max(1, int(nbytes) // 2)]
        return lambda: to.copy_(source)

    def is_right(self, case: Drawn, arrays, mask, got) -> bool:
        torch = self.torch
        if isinstance(got, (np.generic, np.ndarray)):
            got = torch.as_tensor(got, device=self.device)
        if not isinstance(got, torch.Tensor):
            is_bool = str(got.dtype) == "bool"
            got = torch.from_dlpack(got.view("u1") if is_bool else got)
            got = got.view(torch.bool) if is_bool else got
        a = arrays[0]
        if case.op == "transpose":
            return torch.equal(got, a.permute(case.axes))
        if case.op == "add":
            return torch.equal(got, torch.add(*arrays))
        if case.op == "multiply_add":
            want = self.torch_call(case, arrays, mask)() if case.dtype == "bool" else (
                a * arrays[1] + arrays[2])  # fmt: skip
            if got.is_complex():
                return torch.allclose(got, want, 1e-5, 1e-5)
            return torch.equal(got, want)
        axes = tuple(range(a.ndim)) if case.axes is None else case.axes
        if case.word in ("sum", "mean"):
            whole = not (a.is_floating_point() or a.is_complex())
            wide = a if mask is None else torch.where(mask, a, torch.zeros_like(a))
            if whole and case.word == "sum":
                return torch.equal(got.to(torch.int64), torch.sum(wide, axes).to(torch.int64))
            wide = wide.to(torch.complex128 if a.is_complex() else torch.float64)
            along = getattr(torch, case.word)
            error = (got.to(wide.dtype) - along(wide, axes)).abs()
            return bool((error <= bound(case.dtype, count_of(case)) * along(wide.abs(), axes))
                        .all())  # fmt: skip
        if case.word in ("min", "max", "argmin", "argmax") and a.dtype == torch.bool:
            a = a.to(torch.uint8)
        if case.word in ("min", "max"):
            want = getattr(torch, "a" + case.word)(a, axes)
        elif case.word in ("any", "all"):
            want = getattr(torch, case.word)(a != 0, axes)
        else:
            along = getattr(torch, case.word)
            want = along(a) if case.axes is None else along(a, dim=case.axes[0])
        return torch.equal(got.to(want.dtype), want)

    def rounds(self, calls: dict, nbytes: float, repeat: int) -> dict:
        """As Host's; nothing waits for the GPU but the end. Who takes ten times as long as we
        do is asked once."""
        torch = self.torch
        times = calls_for(nbytes, 3e12)

        def turn(name, times):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            calls[name]()
            start.record()
            for _ in range(times):
                calls[name]()
            stop.record()
            return start, stop, times

        first = {name: turn(name, 1) for name in calls}
        torch.cuda.synchronize()
        once = {name: a.elapsed_time(b) * 1e-3 for name, (a, b, _) in first.items()}
        slow = {n for n, s in once.items() if s > 1e-3 and s > 10 * once["gpuops"]}
        turns = [(n, turn(n, times)) for _ in range(repeat) for n in calls if n not in slow]
        torch.cuda.synchronize()
        seconds = {name: [once[name]] if name in slow else [] for name in calls}
        for name, (a, b, n) in turns:
            seconds[name].append(a.elapsed_time(b) * 1e-3 / n)
        return seconds

    def free(self) -> None:
        if self.torch.cuda.memory_reserved() > self.KEPT:
            self.torch.cuda.empty_cache()
            if self.cupy is not None:
                self.cupy.get_default_memory_pool().free_all_blocks()
