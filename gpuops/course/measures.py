"""measures - what needs a GPU's clock: each of `MEASURES` takes a device and gives numbers.

All of them together end within a minute on a GPU of today. What they give is plain enough
for a file: seconds, or 10^9 bytes a second, by what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import add, matmul
from .. import sum as sum_
from ..devices import Device
from ..ladders import ladder
from ..sweeps import sweep
from ..timer import wait
from ..transfers import to_device
from .bus import by_the_host, opened

# ---- 06: loads under way ----


def unroll_factors(where: Device, size: int = 1 << 26) -> dict[str, float]:
    """GB/s of a sum in passes, by how many loads a thread has under way."""
    rows = sweep("sum", to_device(np.ones(size, "f4"), where), kernel="multipass")
    found = {r.params["uf"]: r.timing.gbps for r in rows if r.timing and r.timing.gbps}
    return {f"{uf}": found[uf] for uf in sorted(found)}


# Each thread loads LOADS numbers at once, a grid apart, and keeps their sum.
_LOADS = """
__global__ void loads(const float *a, float *out, int n)
{
    int all = gridDim.x * blockDim.x;
    float s = 0;
    #pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += LOADS * all) {
        float x[LOADS];
        #pragma unroll
        for (int k = 0; k < LOADS; k++) x[k] = a[i + k * all];
        #pragma unroll
        for (int k = 0; k < LOADS; k++) s += x[k];
    }
    if (s == -1) out[0] = s; // never, but no compiler knows
}
"""


def occupancy(where: Device, size: int = 1 << 28) -> dict[str, dict[str, float]]:
    """GB/s of loads by loads of a thread under way, and by blocks of 256 threads that each
    multiprocessor works on: the grid has no more."""
    found: dict[str, dict[str, float]] = {}
    with opened(where) as gpu:
        a, out = gpu.memory(size), gpu.memory(1)
        for loads in (1, 4, 16):
            kernel = gpu.kernel(_LOADS.replace("LOADS", f"{loads}"))
            rates = found[f"{loads}"] = {}
            for blocks in range(1, 9):
                grid = where.info.processors * blocks
                # Of all numbers those that make whole steps.
                n = size // (grid * 256 * loads) * (grid * 256 * loads)
                seconds = gpu.seconds(
                    lambda s, k=kernel, g=grid, n=n: k(s, g, 256, a, out, np.int32(n))
                )
                rates[f"{blocks}"] = 4 * n / seconds / 1e9
    return found


# ---- 08: instructions ----

_REPEAT = """
__global__ void repeat(float *a, int times)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    int k = i + 3;
    for (int j = 0; j < times; j++) { STEP; STEP; STEP; STEP; }
    a[i] = x + k;
}
"""
# What is repeated: each step needs the one before.
STEPS = {
    "x + 1": "x = x + 1.5f",
    "x * c": "x = x * 1.0001f",
    "x / c": "x = x / 1.0001f",
    "sqrtf": "x = sqrtf(x + 1.0f)",
    "sinf": "x = sinf(x)",
    "__sinf": "x = __sinf(x)",
    "k * j": "k = k * (j | 3) + 1",
    "k / j": "k = k / (j + 7) + 1000",
    "k % j": "k = k % (j + 7) + 1000",
}


def instructions(where: Device, blocks: int = 4096, times: int = 512) -> dict[str, float]:
    """Seconds of that many steps of each kind, over those of an addition."""
    seconds = {}
    with opened(where) as gpu:
        a = gpu.memory(blocks * 256)
        gpu.upload(a, np.ones(blocks * 256, "f4"))
        for name, step in STEPS.items():
            kernel = gpu.kernel(_REPEAT.replace("STEP", step))
            seconds[name] = gpu.seconds(
                lambda stream, k=kernel: k(stream, blocks, 256, a, np.int32(times))
            )
    return {name: s / seconds["x + 1"] for name, s in seconds.items()}


# ---- 12: transfers ----


def transfers(where: Device, most: int = 1 << 28) -> dict[str, dict[str, float]]:
    """Seconds of a transfer by its bytes: of plain and of pinned host memory, up and down."""
    found: dict[str, dict[str, float]] = {}
    with opened(where) as gpu:
        at, plain, pinned = (
            gpu.memory(most // 4),
            np.ones(most // 4, "f4"),
            gpu.pinned(most // 4),
        )
        for name, host in {"pageable": plain, "pinned": pinned}.items():
            up, down = found.setdefault(f"{name} up", {}), found.setdefault(f"{name} down", {})
            size = 1 << 10
            while size <= most:
                part = host[: size // 4]
                up[f"{size}"] = by_the_host(
                    lambda part=part: (gpu.upload(at, part), gpu.wait())
                )
                down[f"{size}"] = by_the_host(lambda part=part: gpu.download(part, at))
                size *= 4
    return found


_BUSY = """
__global__ void busy(float *a, int times)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    for (int j = 0; j < times; j++) x = x * 0.5f + 1.0f;
    a[i] = x;
}
"""


def overlap(where: Device, count: int = 1 << 26) -> dict[str, Any]:
    """A kernel between an upload and a download, in chunks: each chunk on one of three streams.

    `seconds` by chunks; `alone` has each of the three by itself; `timeline` the moments of four
    chunks: [what, chunk, first second, last second].
    """
    with opened(where) as gpu:
        host, back, at = gpu.pinned(count), gpu.pinned(count), gpu.memory(count)
        streams = [gpu.stream() for _ in range(3)]
        kernel = gpu.kernel(_BUSY)

        def compute(stream, first=0, length=count, times=256):
            kernel(stream, length // 256, 256, at + 4 * first, np.int32(times))

        alone = {"upload": gpu.seconds(lambda s: gpu.upload(at, host, s), 3)}
        alone["download"] = gpu.seconds(lambda s: gpu.download(back, at, s), 3)
        # As much arithmetic as takes the time of the upload.
        times = max(1, round(256 * alone["upload"] / gpu.seconds(compute, 3)))
        alone["kernel"] = gpu.seconds(lambda s: compute(s, times=times), 3)

        def run(chunks: int):
            length = count // chunks
            begin = gpu.mark(streams[0])
            for stream in streams[1:]:
                gpu.after(stream, begin)
            moments = []
            for c in range(chunks):
                stream, part = streams[c % 3], slice(c * length, (c + 1) * length)
                marks = [gpu.mark(stream)]
                gpu.upload(at + 4 * part.start, host[part], stream)
                marks.append(gpu.mark(stream))
                compute(stream, part.start, length, times)
                marks.append(gpu.mark(stream))
                gpu.download(back[part], at + 4 * part.start, stream)
                marks.append(gpu.mark(stream))
                moments.append((marks, c))
            gpu.wait()
            # Who waits for the one before of its kind has not begun yet.
            free, found = {}, []
            for marks, c in moments:
                for k, what in enumerate(("upload", "kernel", "download")):
                    first = max(gpu.between(begin, marks[k]), free.get(what, 0.0))
                    free[what] = gpu.between(begin, marks[k + 1])
                    found.append([what, c, first, free[what]])
            return found

        run(4)
        seconds = {}
        for chunks in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            lasted = [max(m[3] for m in run(chunks)) for _ in range(3)]
            seconds[f"{chunks}"] = float(np.median(lasted))
        return {"seconds": seconds, "alone": alone, "timeline": run(4)}


# What a GPU is asked for with arrays of the host: operation, sizes, arguments of a size.
_ASKED: dict[
    str, tuple[Callable[..., Any], tuple[int, ...], Callable[[int], tuple[Any, ...]]]
] = {
    "add": (add, tuple(1 << k for k in range(10, 28, 2)), lambda n: (np.ones(n, "f4"),) * 2),
    "sum": (sum_, tuple(1 << k for k in range(10, 28, 2)), lambda n: (np.ones(n, "f4"),)),
    "matmul": (
        matmul,
        (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048),
        lambda n: (np.ones((n, n), "f4"),) * 2,
    ),
}


def crossover(where: Device) -> dict[str, dict[str, dict[str, float]]]:
    """Seconds by size: on the CPU, on the GPU with transfers, and with arrays of its own."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, (op, sizes, make) in _ASKED.items():
        rows = found[name] = {"cpu": {}, "gpu": {}, "gpu, its own arrays": {}}
        for n in sizes:
            args = make(n)
            there = tuple(to_device(a, where) for a in args)
            place = {
                "cpu": (args, "cpu"),
                "gpu": (args, where),
                "gpu, its own arrays": (there, where),
            }
            for row, (given, device) in place.items():
                rows[row][f"{n}"] = by_the_host(
                    lambda given=given, device=device, op=op: (
                        op(*given, device=device),
                        wait(),
                    )
                )
    return found


# ---- the lectures' ladders ----


def rungs(where: Device) -> dict[str, dict[str, float]]:
    """GB/s of each rung: the decks' 4000 x 4000 ints transposed, and 2^22 ints summed."""
    calls = {"transpose": np.ones((4000, 4000), "i4"), "sum": np.ones(1 << 22, "i4")}
    found = {}
    for op, a in calls.items():
        rows = ladder(op, to_device(a, where), only="lecture", n_repeat=7)
        found[op] = {r.name: r.timing.gbps for r in rows if r.timing and r.timing.gbps}
    return found


def pairs(where: Device, count: int = 44_028) -> dict[str, float]:
    """Million pairs a second of the deck's 44,028 particles, by the kernels of its steps."""
    points = np.random.default_rng(0).uniform(0, 1, (count, 3)).astype("f4")
    only = ["naive", "shared", "persistent", "cells"]
    rows = ladder(
        "rdf", to_device(points, where), 0.25, 64, box=[1.0] * 3, only=only, n_repeat=5
    )
    found = {r.name: count * (count - 1) / 2e6 / r.timing.kernel for r in rows if r.timing}
    return {name: float(rate) for name, rate in found.items()}


MEASURES: dict[str, Callable[[Device], dict[str, Any]]] = {
    "unroll factor": unroll_factors,
    "occupancy": occupancy,
    "instructions": instructions,
    "transfers": transfers,
    "overlap": overlap,
    "crossover": crossover,
    "rungs": rungs,
    "pairs": pairs,
}
