"""tune_transpose - every row of transpose and its tunables, as shares of a copy of the device.

    python benchmarks/tune_transpose.py [--device cuda] [--items 1 4] [--seconds 55] [--small]

One line a case and size of item: each row's rate over the best copy of the same bytes, in
percent, cold caches, medians. `*` marks the row that is chosen, `.` one that refuses. Below,
the best value of each tunable and what it reaches.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import statistics
import time

import numpy as np

import gpuops
from gpuops import _core

EIGHTS = (8,) * 9
CASES = [
    *[("16384²", (16384, 16384), None), ("4000²", (4000, 4000), None)],
    *[("4096²", (4096, 4096), None), ("701x703", (701, 703), None)],
    *[("32767x32769", (32767, 32769), None), ("4095x4097", (4095, 4097), None)],
    *[("(131072, 3)", (131072, 3), None), ("(3, 131072)", (3, 131072), None)],
    *[("(2^20, 3)", (1 << 20, 3), None), ("(3, 2^22)", (3, 1 << 22), None)],
    *[("(2^22, 16)", (1 << 22, 16), None), ("(5, 2^22)", (5, 1 << 22), None)],
    *[(f"({n}, 2^22)", (n, 1 << 22), None) for n in (9, 12)],
    *[("(2^25, 3)", (1 << 25, 3), None), ("(3, 2^25)", (3, 1 << 25), None)],
    *[(f"(256,512,1024) {p}", (256, 512, 1024), p) for p in itertools.permutations(range(3))],
    ("(64,64,64,512) (3,1,0,2)", (64, 64, 64, 512), (3, 1, 0, 2)),
    *[("8^9 reversed", EIGHTS, None), ("10^8 reversed", (10,) * 8, None)],
    *[(f"({n},{n},3) (1,0,2)", (n, n, 3), (1, 0, 2)) for n in (3000, 8192)],
    ("(2048,2048,8) (1,0,2)", (2048, 2048, 8), (1, 0, 2)),
    ("(64,3,512,512) (0,2,3,1)", (64, 3, 512, 512), (0, 2, 3, 1)),
]
DTYPES = {1: "u1", 2: "u2", 4: "f4", 8: "f8", 16: "c16"}


class Bench:
    """Two arrays of bytes on the device, seen as arrays of any shape, and a clock."""

    def __init__(self, device: str, most: int, runs: int) -> None:
        place = gpuops.Device(device)
        self.device, self.place = device, (place.backend, place.ordinal)
        self.runs = runs
        some = np.random.default_rng(0).integers(0, 256, min(most, 1 << 26), np.uint8)
        self.source = gpuops.to_device(np.resize(some, most), device)._buffer
        self.target = _core.empty((most,), np.dtype("u1"), self.place)
        self.copies: dict[int, float] = {}
        self.torch = None
        if device.startswith("cuda") and importlib.util.find_spec("torch"):
            import torch

            self.torch = torch
            self.views = [torch.from_dlpack(gpuops.DeviceArray(b))
                          for b in (self.source, self.target)]  # fmt: skip
            self.empties = torch.zeros(160 << 20, dtype=torch.uint8, device="cuda")

    def seen(self, buffer, shape, dtype: str, *, readonly: bool):
        return _core.borrow(
            buffer.ptr, shape, None, np.dtype(dtype), self.place, buffer, readonly
        )

    def seconds(self, shape, dtype, axes, kernel=None, tunables=None, runs=None):
        """(median seconds of the kernel, its name), or None where it refuses."""
        order = tuple(reversed(range(len(shape)))) if axes is None else axes
        source = self.seen(self.source, shape, dtype, readonly=True)
        made = self.seen(self.target, tuple(shape[k] for k in order), dtype, readonly=False)
        how = {"device": self.device, "kernel": kernel, "tunables": tunables}
        try:
            call = _core.Call("transpose", (source,), {"axes": axes}, **how)
            said = call.time(1, runs or self.runs, True, made)
        except gpuops.KernelRefusedError:
            return None
        return statistics.median(said["kernel"]), said["name"]

    def is_right(self, shape, dtype, axes) -> bool:
        """Whether the target holds NumPy's transpose of the source's first bytes."""
        bits = np.dtype(dtype).itemsize
        order = tuple(reversed(range(len(shape)))) if axes is None else axes
        made = [self.seen(b, (bits * math.prod(shape),), "u1", readonly=True)
                for b in (self.source, self.target)]  # fmt: skip
        a, b = (gpuops.DeviceArray(m).get() for m in made)
        want = a.view(f"V{bits}").reshape(shape).transpose(order)
        return np.ascontiguousarray(want).tobytes() == b.tobytes()

    def clone(self, nbytes: int) -> float:
        source, target = (view[:nbytes] for view in self.views)
        times = []
        for _ in range(self.runs + 1):
            self.empties.fill_(1)
            start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            target.copy_(source)
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop) * 1e-3)
        return statistics.median(times[1:])

    def copy(self, nbytes: int) -> float:
        """Seconds of the best copy of nbytes to nbytes."""
        if nbytes not in self.copies:
            shape = (max(nbytes // 16, 1),)
            found = [self.seconds(shape, "c16", None, k) for k in ("copy", "streamed")]
            self.copies[nbytes] = min(found[k][0] for k in range(2) if found[k])
            if self.torch:
                self.copies[nbytes] = min(self.copies[nbytes], self.clone(nbytes))
        return self.copies[nbytes]


def percent(copy: float, found) -> str:
    return f"{100 * copy / found[0]:.0f}" if found else "."


def best_tunables(bench: Bench, row, case, copy: float) -> str:
    """The fastest value of each of one row's tunables, the others at their defaults."""
    text = ""
    for name, values in row["tunables"].items():
        timed = [(bench.seconds(*case, row["name"], {name: v}, runs=3), v) for v in values]
        taken = [(found[0], v) for found, v in timed if found]
        if taken:
            seconds, value = min(taken)
            text += f" {row['name']} {name}={value}: {100 * copy / seconds:.0f}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--items", type=int, nargs="*", default=list(DTYPES))
    parser.add_argument("--seconds", type=float, default=55.0, help="stop after about so many")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="only what fits into 4 MiB")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--rows", nargs="*", default=[], help="these rows alone")
    parser.add_argument("--no-tunables", action="store_true")
    parser.add_argument("--json", help="also written to this file, a line a case and size")
    arguments = parser.parse_args()
    most = 1 << 22 if arguments.small else (1 << 32) + (1 << 20)
    start = time.perf_counter()
    bench = Bench(arguments.device, most, arguments.runs)
    rows = [r for r in _core.ladder("transpose", bench.place[0]) if r["role"] != "yardstick"]
    rows = [r for r in rows if r["name"] in arguments.rows or not arguments.rows]
    checked: list[str] = []
    record = open(arguments.json, "w") if arguments.json else None  # noqa: SIM115
    print(f"{'case':24}{'item':>5}{'copy':>6}" + "".join(f"{r['name'][:5]:>6}" for r in rows))
    print(f"{'':24}{'bytes':>5}{'GB/s':>6}")
    for label, shape, axes in CASES:
        if arguments.only not in label:
            continue
        for item in arguments.items:
            size = item * math.prod(shape)
            if size > most or time.perf_counter() - start > arguments.seconds:
                continue
            case = (shape, DTYPES[item], axes)
            copy = bench.copy(size)
            chosen = bench.seconds(*case, runs=1)[1]
            text = f"{label:24}{item:5}{2 * size / copy / 1e9:6.0f}"
            shares = {}
            for row in rows:
                # The slow steps of the ladder are known: one look is enough.
                runs = (
                    2
                    if row["name"] in ("reads", "naive", "tiled", "diagonal", "swizzled")
                    else None
                )
                is_small = size <= 1 << 27
                if is_small:  # the answer of the row before must not be taken for this one's
                    bench.seconds((max(size // 16, 1),), "c16", None, "copy", runs=1)
                found = bench.seconds(*case, row["name"], runs=runs)
                if found:
                    shares[row["name"]] = round(copy / found[0], 4)
                    if is_small and not bench.is_right(*case):
                        checked.append(f"WRONG: {label} of {item} bytes, {row['name']}")
                share = percent(copy, found)
                text += f"{share + '*' * (row['name'] == chosen):>6}"
            print(text, flush=True)
            if record:
                record.write(json.dumps([label, item, size, copy, chosen, shares]) + "\n")
            if arguments.no_tunables:
                continue
            tuned = [best_tunables(bench, r, case, copy) for r in rows if r["tunables"]]
            if any(tuned):
                print(f"{'':29}" + "".join(tuned), flush=True)
    print("\n".join(checked or ["all answers that were checked are NumPy's"]))
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
