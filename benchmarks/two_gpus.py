"""two_gpus - threads that use a GPU each: how long both take beside one alone, part by part.

    python benchmarks/two_gpus.py [--mib 1024 64] [--threads 0 16] [--runs 7] [--devices 0 1]

One line a way to divide the work, one block a size and a number of threads (0: all). Figures
are milliseconds from the common start to the end of the last, medians of the runs, with arrays
made before. `fresh` transposes into results that are new memory, `out=` into memory that was
written before: the difference is the first touch. `up` and `down` go one way alone, `cpu` is
the same transpose without a GPU. What two processes take is what the machine can do: their
pools, rings and address spaces are apart, so what two threads take beyond it is this library's
or the address space's. `system` is the share of processor time that the kernel had in `fresh`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np

import gpuops

PARTS = ("fresh", "out=", "up", "down", "cpu")


class Work:
    """One thread's arrays, and what it does with them."""

    def __init__(self, mib: int, device: str, seed: int) -> None:
        side = int((mib << 18) ** 0.5)
        self.device = device
        self.a = np.random.default_rng(seed).random((side, side), dtype=np.float32)
        self.out = np.zeros((side, side), np.float32)
        self.out.fill(1)  # zeros are not there before they are written
        self.on_device = gpuops.to_device(self.a, device)

    def do(self, part: str):
        if part == "fresh":
            return gpuops.transpose(self.a, device=self.device)
        if part == "out=":
            return gpuops.transpose(self.a, device=self.device, out=self.out)
        if part == "up":
            return gpuops.to_device(self.a, self.device)
        if part == "down":
            return self.on_device.get()
        return gpuops.transpose(self.a, device="cpu")

    def check(self) -> None:
        assert np.array_equal(self.do("fresh"), self.a.T), f"wrong on {self.device}"


def times(work: Work, part: str, runs: int, wait: Callable) -> list[tuple[float, float]]:
    """When each run began and ended, by the clock that all processes share."""
    found = []
    for _ in range(runs + 1):  # the first one makes what is made once
        wait()
        begin = time.monotonic()
        result = work.do(part)
        found.append((begin, time.monotonic()))
        wait()  # nobody unmaps memory while others are timed
        del result
    return found[1:]


def in_threads(works: list[Work], part: str, runs: int) -> list[list[tuple[float, float]]]:
    barrier = threading.Barrier(len(works))
    found: list = [None] * len(works)

    def go(i: int) -> None:
        found[i] = times(works[i], part, runs, barrier.wait)

    threads = [threading.Thread(target=go, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def process(mib, device, seed, threads, runs, barrier, results) -> None:
    gpuops.set_num_threads(threads)
    work = Work(mib, device, seed)
    for part in PARTS:
        results.put((part, seed, times(work, part, runs, barrier.wait)))


def in_processes(mib: int, devices: list[str], threads: int, runs: int) -> dict[str, list]:
    """Every part, each device by a process with its share of the threads."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(len(devices)), context.Queue()
    each = max(1, (threads or os.cpu_count() or 1) // len(devices))
    started = [
        context.Process(target=process, args=(mib, d, i, each, runs, barrier, results))
        for i, d in enumerate(devices)
    ]
    for p in started:
        p.start()
    found: dict[str, list] = {part: [] for part in PARTS}
    for _ in range(len(PARTS) * len(devices)):
        part, _, spans = results.get(timeout=600)
        found[part].append(spans)
    for p in started:
        p.join()
    return found


def together(spans: list[list[tuple[float, float]]]) -> float:
    """The median over the runs of last end minus first begin, in milliseconds."""
    return 1e3 * statistics.median(
        max(end for _, end in run) - min(begin for begin, _ in run)
        for run in zip(*spans, strict=True)
    )


def line(name: str, figures: list[float], system: float | None = None) -> None:
    cells = "".join(f"{f:9.1f}" for f in figures)
    print(f"{name:<26}{cells}" + ("" if system is None else f"{system:9.0%}"), flush=True)


def block(mib: int, threads: int, devices: list[str], runs: int) -> None:
    gpuops.set_num_threads(threads)
    print(f"\n{mib} MiB, {gpuops.get_num_threads()} threads")
    print(f"{'':<26}" + "".join(f"{part:>9}" for part in PARTS) + f"{'system':>9}")
    works = [Work(mib, device, seed) for seed, device in enumerate(devices)]
    beside = Work(mib, devices[0], len(devices))
    for work in (*works, beside):
        work.check()
    ways = {f"one thread on {w.device}": [w] for w in works}
    ways[f"two threads on {devices[0]}"] = [works[0], beside]
    ways["a thread on each"] = works
    for name, team in ways.items():
        before = os.times()
        figures = [together(in_threads(team, PARTS[0], runs))]
        after = os.times()
        user, system = after.user - before.user, after.system - before.system
        figures += [together(in_threads(team, part, runs)) for part in PARTS[1:]]
        line(name, figures, system / (user + system))
    del works, beside, ways, team
    found = in_processes(mib, devices, threads, runs)
    line("a process on each", [together(found[part]) for part in PARTS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, nargs="+", default=[1024, 128])
    parser.add_argument("--threads", type=int, nargs="+", default=[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    devices = [f"cuda:{ordinal}" for ordinal in arguments.devices]
    print(repr(gpuops.devices()))
    for mib in arguments.mib:
        for threads in arguments.threads:
            block(mib, threads, devices, arguments.runs)


if __name__ == "__main__":
    main()
