"""scaling - what gpuops.dask costs: sums beside Dask's own, and frames of rdf on two workers.

    python benchmarks/scaling.py [--bytes 2000000000]

Two processes of one thread each. The array lies in their memory, 100 chunks of float64; the
least of five turns is taken, one after the other by turns.
"""

from __future__ import annotations

import argparse
import os
import time

import dask.array as da
import numpy as np
from distributed import Client, wait

import gpuops.dask

CHUNKS, FRAMES = 100, 1000


def turns(calls: dict, count: int = 5) -> dict[str, float]:
    """The least seconds of each call, which is given the number of its turn."""
    seconds = {name: [] for name in calls}
    for turn in range(count):
        for name, call in calls.items():
            time.sleep(0.5)  # until the scheduler has forgotten the result before
            began = time.perf_counter()
            call(turn)
            seconds[name].append(time.perf_counter() - began)
    return {name: min(each) for name, each in seconds.items()}


def sums(count: int) -> None:
    n = count // 8
    x = da.random.default_rng(0).random(n, chunks=n // CHUNKS).persist()
    wait(x)
    calls = {
        "da.sum": lambda _: x.sum().compute(),
        "gpuops.dask.sum": lambda _: gpuops.dask.sum(x).compute(),
        "gpuops.dask.sum, exact": lambda _: gpuops.dask.sum(x, exact=True).compute(),
    }
    found = turns(calls)
    for name, seconds in found.items():
        print(f"{name}: {seconds * 1e3:.0f} ms, {seconds / found['da.sum']:.2f} of da.sum")


def frames(processes: int) -> float:
    """Seconds for the frames of a gas, in tasks of 25."""
    gas = np.random.default_rng(0).random((FRAMES, 4000, 3)).astype(np.float32)
    with gpuops.dask.cluster(["cpu"] * processes) as cluster, Client(cluster) as client:
        client.wait_for_workers(processes)
        client.run(gpuops.set_num_threads, 1)
        points = da.from_array(gas, chunks=(25, 4000, 3)).persist()
        wait(points)

        def call(turn):
            r_max = 0.2 + turn * 1e-6  # each turn is new work
            gpuops.dask.rdf(points, r_max, bins=100, box=(1, 1, 1)).compute()

        return turns({"rdf": call}, 3)["rdf"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=2_000_000_000, help="of the array")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    with gpuops.dask.cluster(["cpu"] * 2) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        sums(arguments.bytes)
    one, two = frames(1), frames(2)
    print(f"rdf of {FRAMES} frames: one worker {one:.2f} s, two {two:.2f} s, {one / two:.2f}")


if __name__ == "__main__":
    main()
