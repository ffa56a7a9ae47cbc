"""sim_cost - what counting costs: nanoseconds for each access of each thread, on one core.

    python benchmarks/sim_cost.py

It is time of this machine's CPU, and says nothing about a GPU.
"""

from __future__ import annotations

import time

import numpy as np

import gpuops


def calls(side: int):
    """(name, a call that profiles it) of kernels with few barriers, many, and atomics."""
    square = np.ones((side, side), np.float32)
    line = square.reshape(-1)
    points = np.random.default_rng(0).random((side, 3)).astype(np.float32)
    for kernel in ("naive", "tiled", "padded"):
        yield f"transpose {kernel}", ("transpose", square), {"kernel": kernel}
    yield "add vectorized", ("add", line, line), {"kernel": "vectorized"}
    for kernel in ("interleaved", "sequential"):
        yield f"reduce {kernel}", ("reduce", line), {"kernel": kernel}
    small = square[: side // 4, : side // 4]
    yield "matmul naive", ("matmul", small, small), {"kernel": "naive"}
    yield "rdf naive", ("rdf", points, 1.0, 64), {"kernel": "naive"}


def measure(side: int, device: str = "sim") -> dict[str, float]:
    """Nanoseconds a lane access, the best of three runs."""
    found = {}
    threads = gpuops.get_num_threads()
    gpuops.set_num_threads(1)
    try:
        for name, args, options in calls(side):
            best = float("inf")
            for _ in range(3):
                began = time.process_time()  # of this core only
                p = gpuops.profile(*args, **options, device=device)
                best = min(best, time.process_time() - began)
            lanes = sum(a.counts.lanes for k in p.kernels for a in k.accesses)
            found[name] = best / lanes * 1e9
    finally:
        gpuops.set_num_threads(threads)
    return found


if __name__ == "__main__":
    for rules in ("sim", "sim:cc13"):
        print(f"{rules}: ns a lane access, one core")
        for name, nanoseconds in measure(1024, rules).items():
            print(f"  {name:22} {nanoseconds:6.0f}")
    gpuops.set_num_threads(None)
    start = time.perf_counter()
    gpuops.profile("transpose", np.ones((1024, 1024), np.float32), kernel="tiled")
    print(f"a transpose of 1024 x 1024, all cores: {time.perf_counter() - start:.2f} s")
