"""tune_reduce - every row of reduce and its peers, as shares of a copy of the device.

    python benchmarks/tune_reduce.py [--device cuda] [--seconds 90] [--small] [--only text]

One line a case: the best copy of the same bytes in GB/s, then what each row and each peer
reaches of it in percent; where little is moved, microseconds instead. Cold caches, rows and
peers in turn, medians. `*` marks the row that is chosen, `.` one that refuses. Each row is
first compared with the CPU's kernels on a smaller array of the same kind: `!` marks another
answer.
With --json all seconds are written to a file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import time
from dataclasses import dataclass

import numpy as np

import gpuops
from gpuops import _core
from gpuops._call.dtypes import is_bfloat16

try:
    import ml_dtypes  # before the first bfloat16
except ImportError:
    ml_dtypes = None

M = 1 << 20
SMALL = 4 << 20  # bytes below which a time says more than a rate


@dataclass(frozen=True)
class Case:
    op: str
    dtype: str
    shape: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    where: bool = False

    def __str__(self) -> str:
        axes = "" if self.axes is None else f" {self.axes}".replace(",)", ")")
        shape = "x".join(str(n) for n in self.shape)
        return f"{self.op} {self.dtype} {shape}{axes}{' where' if self.where else ''}"

    @property
    def nbytes(self) -> int:
        item = 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize
        return (item + self.where) * math.prod(self.shape)


K = 32768
CASES = [
    *[Case("sum", "f4", (1024 * M,)), Case("sum", "f4", (K, K), (0,))],
    *[Case("sum", "f4", (K, K), (1,)), Case("sum", "f8", (512 * M,))],
    *[Case("sum", "f8", (K, K // 2), (0,)), Case("sum", "f8", (K, K // 2), (1,))],
    *[Case("sum", "i4", (1024 * M,)), Case("sum", "i4", (K, K), (0,))],
    *[Case("sum", "i4", (K, K), (1,)), Case("sum", "c8", (512 * M,))],
    *[Case("sum", "c8", (K, K // 2), (0,)), Case("sum", "i8", (512 * M,))],
    *[Case("sum", "f2", (1024 * M,)), Case("sum", "f2", (K, K), (0,))],
    *[Case("sum", "f2", (K, K), (1,)), Case("sum", "bfloat16", (1024 * M,))],
    *[Case("sum", "u1", (1024 * M,)), Case("any", "?", (1024 * M,))],
    *[Case("sum", "u1", (K, K), (0,)), Case("max", "f4", (1024 * M,))],
    *[Case("max", "f4", (K, K), (0,)), Case("max", "f4", (K, K), (1,))],
    *[Case("min", "f2", (1024 * M,)), Case("max", "u1", (1024 * M,))],
    *[Case("argmin", "f4", (1024 * M,)), Case("argmin", "f4", (K, K), (0,))],
    *[Case("argmax", "f8", (512 * M,)), Case("prod", "f4", (1024 * M,))],
    *[Case("mean", "f4", (K, K), (0,)), Case("mean", "i4", (1024 * M,))],
    *[
        Case("sum", "f4", (768 * M,), None, True),
        Case("sum", "f4", (K, K * 3 // 4), (0,), True),
    ],
    *[Case("sum", "f4", (1024, 1024, 1024), a) for a in ((1,), (0, 2), (0, 1), (0,))],
    *[Case("sum", "f4", (256, 4096, 1024), (1,)), Case("sum", "f4", (256 * M, 4), (1,))],
    *[Case("sum", "f4", (64 * M, 16), (1,)), Case("sum", "f4", (10 * M, 100), (1,))],
    *[Case("sum", "f4", (M, 1000), (1,)), Case("sum", "f4", (256 * M, 3), (0,))],
    *[Case("sum", "f4", (32 * M, 32), (0,)), Case("sum", "f4", (3, 256 * M), (0,))],
    *[Case("sum", "f4", (3, 256 * M), (1,)), Case("sum", "f4", (16, 64 * M), (0,))],
    *[Case("sum", "f4", (n,)) for n in (10, 1000, 10_000, 100_000, M, 4 * M, 16 * M, 64 * M)],
    *[Case("sum", "f4", (n, n), (a,)) for n in (100, 1000, 4000) for a in (0, 1)],
    *[Case(op, "f4", (n,)) for op in ("max", "argmax") for n in (1000, M)],
]


class Bench:
    """One buffer of bytes, seen as arrays of any shape and dtype, and a clock for each side."""

    def __init__(self, device: str, most: int, runs: int) -> None:
        place = gpuops.Device(device)
        self.device, self.runs = device, runs
        self.place = (place.backend, place.ordinal)
        some = np.random.default_rng(0).random(min(most, 1 << 26) // 4, np.float32)
        self.source = gpuops.to_device(np.resize(some, most // 4), device)._buffer
        self.copies: dict[int, float] = {}
        self.cupy = self.torch = None
        if self.place[0] != "cuda":
            return
        if importlib.util.find_spec("torch"):
            import torch

            self.torch = torch
            self.bytes = torch.from_dlpack(gpuops.DeviceArray(self.source)).view(torch.uint8)
            self.target = torch.empty(most // 2, dtype=torch.uint8, device="cuda")
            self.empties = torch.zeros(160 << 20, dtype=torch.uint8, device="cuda")
        if self.torch and importlib.util.find_spec("cupy"):
            import cupy

            self.cupy = cupy

    def operands(self, case: Case):
        dtype = engine_dtype(case.dtype)
        first = _core.borrow(self.source.ptr, case.shape, None, dtype, self.place, self.source,
                             True)  # fmt: skip
        if not case.where:
            return (first,)
        return first, _core.borrow(self.source.ptr, case.shape, None, np.dtype("?"), self.place,
                                   self.source, True)  # fmt: skip

    def ours(self, case: Case, kernel: str | None, runs: int):
        """(seconds of the runs, the row's name), or None where it refuses."""
        try:
            call = _core.Call("reduce", self.operands(case), params(case), device=self.device,
                              kernel=kernel)  # fmt: skip
            said = call.time(1, runs, True)
        except gpuops.KernelRefusedError:
            return None
        return said["kernel"], said["name"]

    def events(self, f, runs: int) -> list[float]:
        """Seconds on PyTorch's stream; the first run only warms up."""
        seconds = []
        for _ in range(runs + 1):
            self.empties.fill_(1)
            start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            f()
            stop.record()
            stop.synchronize()
            seconds.append(start.elapsed_time(stop) * 1e-3)
        return seconds[1:]

    def copy(self, nbytes: int) -> float:
        """Seconds of the best copy that reads and writes `nbytes` together."""
        if nbytes not in self.copies:
            shape = (max(nbytes // 32, 1),)
            source = _core.borrow(self.source.ptr, shape, None, np.dtype("c16"), self.place,
                                  self.source, True)  # fmt: skip
            found = []
            call = _core.Call("transpose", (source,), {"axes": None}, device=self.device)
            said = call.time(1, self.runs, True)
            found.append(statistics.median(said["kernel"]))
            if self.torch:
                half = nbytes // 2
                f = lambda: self.target[:half].copy_(self.bytes[:half])  # noqa: E731
                found.append(statistics.median(self.events(f, self.runs)))
            self.copies[nbytes] = min(found)
        return self.copies[nbytes]

    def peers(self, case: Case) -> dict:
        """name -> a call without arguments, for each peer that has this one."""
        if self.torch is None:
            return {}
        torch = self.torch
        kinds = {"f4": torch.float32, "f8": torch.float64, "f2": torch.float16, "?": torch.bool,
                 "bfloat16": torch.bfloat16, "i4": torch.int32, "i8": torch.int64,
                 "u1": torch.uint8, "c8": torch.complex64}  # fmt: skip
        item = case.nbytes // math.prod(case.shape) - case.where
        flat = self.bytes[: item * math.prod(case.shape)]
        x = flat.view(kinds[case.dtype]).reshape(case.shape)
        mask = flat[: math.prod(case.shape)].view(torch.bool).reshape(case.shape)
        axis = case.axes if case.axes is None or len(case.axes) > 1 else case.axes[0]
        name = {"min": "amin", "max": "amax"}.get(case.op, case.op)
        calls = {}
        if case.where:
            calls["torch"] = lambda: torch.where(mask, x, 0.0).sum(axis)
        elif case.op == "mean" and not x.is_floating_point():
            calls["torch"] = lambda: x.mean(axis, dtype=torch.float64)
        else:
            more = () if axis is None and name in ("prod", "any") else (axis,)
            calls["torch"] = lambda: getattr(torch, name)(x, *more)
        if self.cupy and case.dtype != "bfloat16":
            y = self.cupy.from_dlpack(x)
            options = {"where": self.cupy.from_dlpack(mask)} if case.where else {}
            calls["cupy"] = lambda: getattr(self.cupy, case.op)(y, axis, **options)
        return calls


def engine_dtype(word: str) -> np.dtype:
    dtype = np.dtype(ml_dtypes.bfloat16 if word == "bfloat16" else word)
    is_bfloat16(dtype)  # then the core knows it, which is asked without the package's road
    return dtype


def params(case: Case) -> dict:
    return {"op": case.op, "axes": case.axes, "keepdims": False, "where": case.where,
            "initial": None}  # fmt: skip


def smaller(case: Case) -> tuple[int, ...]:
    """A shape of the same kind with some 2^20 elements at most, no longer a round number."""
    shape = list(case.shape)
    while math.prod(shape) > 1 << 20:
        k = max(range(len(shape)), key=shape.__getitem__)
        shape[k] = shape[k] // 2 + 4
    return tuple(shape)


CONFORMING = ("lesson", "production")


def wrong_rows(bench: Bench, case: Case, rows: list[str]) -> set[str]:
    """The conforming rows whose bits are not those of the CPU."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal(smaller(case)) * 50
    a = (np.abs(a) if case.dtype == "u1" else a).astype(engine_dtype(case.dtype))
    options = {"axis": case.axes}
    if case.where:
        options["where"] = rng.random(a.shape) < 0.5
    if case.op.startswith("arg"):
        options["axis"] = case.axes[0] if case.axes else None
    f = getattr(gpuops, case.op)
    want = np.asarray(f(a, device="cpu", **options))
    wrong = set()
    for kernel in rows:
        try:
            got = f(a, device=bench.device, kernel=kernel, **options)
        except gpuops.KernelRefusedError:
            continue
        if not np.array_equal(np.asarray(got), want, equal_nan=True):
            wrong.add(kernel)
    return wrong


def measure(bench: Bench, case: Case, rows: list[dict]) -> dict[str, float]:
    """name -> median seconds; rows and peers take turns, so that a drift meets all alike."""
    seconds: dict[str, list[float]] = {}
    peers = bench.peers(case)
    for turn in range(3):
        share = max(bench.runs // 3 + (turn < bench.runs % 3), 1)
        for row in rows:
            if row["role"] == "teaching" and turn:
                continue
            found = bench.ours(case, row["name"], share)
            if found:
                seconds.setdefault(row["name"], []).extend(found[0])
        for name, call in list(peers.items()):
            try:
                seconds.setdefault(name, []).extend(bench.events(call, share))
            except (RuntimeError, MemoryError, TypeError) as error:
                print(f"{case}: {name} cannot: {error!s:.60}")
                del peers[name], seconds[name]
    return {name: statistics.median(s) for name, s in seconds.items() if s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=90.0, help="stop after about so many")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="only what fits into 4 MiB")
    parser.add_argument("--only", default="", help="cases whose line contains this")
    parser.add_argument("--rows", nargs="*", help="only these rows; else the conforming ones")
    parser.add_argument("--json", help="a file for all seconds")
    arguments = parser.parse_args()
    most = 4 << 20 if arguments.small else (4 << 30) + (1 << 20)
    start = time.perf_counter()
    bench = Bench(arguments.device, most, arguments.runs)
    ladder = _core.ladder("reduce", bench.place[0])
    asked = arguments.rows
    rows = [r for r in ladder if (r["name"] in asked if asked else r["role"] in CONFORMING)]
    conforming = [r["name"] for r in rows if r["role"] in CONFORMING]
    peers = ["cupy", "torch"] if bench.torch else []
    print(f"{'case':36}{'copy':>7}" + "".join(f"{r['name'][:7]:>8}" for r in rows)
          + "".join(f"{p:>8}" for p in peers))  # fmt: skip
    record = []
    for case in CASES:
        if arguments.only not in str(case) or case.nbytes > most:
            continue
        if time.perf_counter() - start > arguments.seconds:
            print("out of time")
            break
        chosen = bench.ours(case, None, 1)[1]
        wrong = wrong_rows(bench, case, conforming)
        seconds = measure(bench, case, rows)
        copy = bench.copy(case.nbytes) if case.nbytes > SMALL else None
        head = f"{case.nbytes / copy / 1e9:7.0f}" if copy else f"{'us':>7}"
        text = f"{case!s:36}{head}"
        for name in [r["name"] for r in rows] + peers:
            if name not in seconds:
                text += f"{'.':>8}"
                continue
            s = seconds[name]
            figure = f"{100 * copy / s:.1f}" if copy else f"{s * 1e6:.1f}"
            text += f"{figure + '*' * (name == chosen) + '!' * (name in wrong):>8}"
        print(text, flush=True)
        record.append({"case": str(case), "copy": copy, "chosen": chosen, **seconds})
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(record, file, indent=1)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
