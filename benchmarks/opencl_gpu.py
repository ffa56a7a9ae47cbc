"""opencl_gpu - the OpenCL backend beside the cuda backend on one GPU, and cuBLAS by PyTorch.

    python benchmarks/opencl_gpu.py [--device opencl:nvidia] [--against cuda] [--runs 9]

Kernel times of benchmark(), in microseconds, caches emptied before each run: the median of the
runs. Both backends take N(0,1) from the host's arrays. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

import gpuops

GIB = 1 << 30
Case = tuple[str, str, tuple, dict[str, Any]]


def normal(*shape: int, dtype: str = "f4") -> np.ndarray:
    """N(0,1); long arrays repeat their first 16 million numbers."""
    drawn = np.random.default_rng(1).standard_normal(min(int(np.prod(shape)), 1 << 24), "f4")
    return np.resize(drawn.astype(dtype), shape)


def elementwise() -> Iterator[Case]:
    a, b = normal(GIB // 4), normal(GIB // 4)[::-1].copy()
    yield "add of 1 GiB", "add", (a, b), {}
    yield "multiply_add of 1 GiB", "multiply_add", (a, 2.0, b), {}


def transposes() -> Iterator[Case]:
    yield "transpose 16384² of 4 bytes", "transpose", (normal(16384, 16384),), {}
    for dtype in ("i1", "i2", "f4", "f8", "c16"):
        m = normal(8192, 8192).astype(dtype)
        yield f"transpose 8192² of {m.itemsize} bytes", "transpose", (m,), {}
    ranks = normal(64, 256, 128, 128)
    for axes in ((3, 2, 1, 0), (0, 2, 1, 3), (1, 3, 0, 2)):
        yield f"transpose 64x256x128x128 {axes}", "transpose", (ranks, axes), {}


def reductions() -> Iterator[Case]:
    yield "sum of 4 GiB", "sum", (normal(GIB),), {}
    m = normal(16384, 16384)
    yield "sum of rows of 16384", "sum", (m,), {"axis": 1}
    yield "sum of columns of 16384", "sum", (m,), {"axis": 0}


def products() -> Iterator[Case]:
    for n in (1024, 4096):
        yield f"matmul float32 {n}²", "matmul", (normal(n, n), normal(n, n)), {}
    yield "matmul float64 2048²", "matmul", (normal(2048, 2048, dtype="f8"),) * 2, {}


@dataclasses.dataclass
class Csr:
    """What jacobi_step takes as a CSR matrix, where there is no SciPy."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]

    def tocsr(self) -> Csr:
        return self


def five_points(side: int) -> Csr:
    """poisson((side, side)) as a CSR matrix."""
    at = np.arange(side * side, dtype="i4")
    columns = at[:, None] + np.array([-side, -1, 0, 1, side], "i4")
    there = (columns >= 0) & (columns < side * side)
    there[at % side == 0, 1] = there[at % side == side - 1, 3] = False
    values = np.broadcast_to(np.array([-1, -1, 4, -1, -1], "f4"), columns.shape)
    indptr = np.concatenate([[0], np.cumsum(there.sum(1))]).astype("i4")
    return Csr(values[there], columns[there], indptr, (side * side,) * 2)


def steps() -> Iterator[Case]:
    m, x = normal(16384, 16384), normal(16384)
    yield "dense step of 16384²", "jacobi_step", (m, x, x), {"alpha": 1e-4}
    grid, y = gpuops.poisson((2048, 2048), dtype="f4"), normal(2048 * 2048)
    yield "step of a stencil of 2048²", "jacobi_step", (grid, y, y), {"omega": 0.8}
    yield "CSR step of 2048²", "jacobi_step", (five_points(2048), y, y), {"omega": 0.8}


def pairs() -> Iterator[Case]:
    p = np.random.default_rng(1).random((1_000_000, 3), np.float32)
    how = {"bins": 200, "r_max": 0.5}
    yield "rdf of 500,000 points", "rdf", (p[:500_000],), how
    box = {"bins": 200, "r_max": 0.05, "box": [1, 1, 1]}
    yield "rdf of 1,000,000 to a twentieth", "rdf", (p,), box


def microseconds(case: Case, device: str, runs: int) -> float:
    _, op, args, options = case
    timing = gpuops.benchmark(
        getattr(gpuops, op), args, {**options, "device": device}, n_repeat=runs, n_warmup=2
    )
    return 1e6 * statistics.median(timing.kernel.samples)


def sgemm_microseconds(n: int, runs: int) -> float:
    import torch

    a, b = (torch.randn(n, n, device="cuda") for _ in "ab")
    found = []
    for _ in range(runs + 2):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.matmul(a, b)
        stop.record()
        stop.synchronize()
        found.append(1e3 * start.elapsed_time(stop))
    return statistics.median(found[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", default="opencl:nvidia")
    parser.add_argument("--against", default="cuda")
    parser.add_argument("--runs", type=int, default=9)
    given = parser.parse_args()
    print(f"| call | {given.against}, µs | {given.device}, µs | ratio |\n|---|---|---|---|")
    for group in (elementwise, transposes, reductions, products, steps, pairs):
        for case in group():
            try:
                theirs, ours = (
                    microseconds(case, d, given.runs) for d in (given.against, given.device)
                )
            except (RuntimeError, TypeError, ValueError, MemoryError) as error:
                print(f"| {case[0]} | {error} |", flush=True)
                continue
            line = f"{theirs:.0f} | {ours:.0f} | {theirs / ours:.2f}"
            print(f"| {case[0]} | {line} |", flush=True)
    print(f"| cuBLAS SGEMM 4096² | {sgemm_microseconds(4096, given.runs):.0f} |")


if __name__ == "__main__":
    main()
