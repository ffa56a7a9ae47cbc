"""systems - jacobi and jacobi_step on a GPU beside CuPy and PyTorch: sparse, dense, solvers.

    python benchmarks/systems.py

Prints a line a case: microseconds that the caller waits for (public functions on device
arrays), and the kernel's own with cold caches where there is one. Figures go to
docs/speed-log.md by hand, with their device and commit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import cupy
import cupyx.scipy.sparse as of_cupy
import numpy as np
import torch

import gpuops

POWER_LAW = 100_000_000  # terms, all in all


def waited(function: Callable[[], Any], repeats: int = 15) -> float:
    """Median microseconds from the call to the end of the device's work."""
    times = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return 1e6 * statistics.median(times[2:])


def kernel(*args, **words) -> float:
    """Microseconds of the kernel alone, with cold caches."""
    return 1e6 * gpuops.benchmark(gpuops.jacobi_step, args, words).kernel


def say(case: str, **figures: float) -> None:
    print(f"{case:34}", *(f"{name} {value:.1f}" for name, value in figures.items()), flush=True)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda")


def poisson(m: int) -> Any:
    """The 5-point matrix of an m by m grid, CuPy's."""
    i = np.arange(m * m)
    row, column = i // m, i % m
    columns = np.stack([i - m, i - 1, i, i + 1, i + m], 1)
    inside = np.stack([row > 0, column > 0, i >= 0, column < m - 1, row < m - 1], 1)
    values = np.broadcast_to(np.array([-1, -1, 4, -1, -1], "f4"), columns.shape)
    starts = np.concatenate([[0], np.cumsum(inside.sum(1))])
    parts = values[inside], columns[inside].astype("i4"), starts.astype("i4")
    return of_cupy.csr_matrix(tuple(map(cupy.asarray, parts)), shape=(m * m, m * m))


def power_law(n: int = 2_000_000) -> Any:
    """Rows of 1 to about a million terms, their columns ascending, none twice."""
    chance = np.random.default_rng(3)
    length = np.minimum((chance.pareto(1.1, n) * 8 + 1).astype("i8"), 1_000_000)
    length[5] = 1_000_000
    length = (length * min(1.0, POWER_LAW / length.sum())).astype("i8") + 1
    starts = np.concatenate([[0], np.cumsum(length)])
    first = torch.from_numpy(starts[:-1]).cuda()
    columns = torch.randint(0, n, (int(starts[-1]),), device="cuda", dtype=torch.int32)
    columns[first] = torch.arange(n, device="cuda", dtype=torch.int32)
    values = normal(len(columns))
    values[first] = 100.0
    parts = cupy.asarray(values), cupy.asarray(columns), cupy.asarray(starts.astype("i4"))
    A = of_cupy.csr_matrix(parts, shape=(n, n))
    A.sum_duplicates()  # as CuPy's first product would, in place: all are to have this matrix
    return A


def steps_of_sparse(case: str, A) -> None:
    f, x = (cupy.asarray(normal(A.shape[0])) for _ in range(2))
    out, checked = cupy.empty_like(x), gpuops.sparse(A)
    say(
        f"step, {case}",
        cupy_product=waited(lambda: A @ x),
        plain=waited(lambda: gpuops.jacobi_step(A, f, x, out=out)),
        sparse=waited(lambda: gpuops.jacobi_step(checked, f, x, out=out)),
        kernel=kernel(checked, f, x),
    )


def steps_of_dense(n: int) -> None:
    A, f, x = normal(n, n), normal(n), normal(n)
    A.diagonal().fill_(9.0 * n)
    for order, of in (("rows", A), ("columns", A.T)):
        say(
            f"step, dense {n} by {order}",
            addmv=waited(lambda of=of: torch.addmv(f, of, x)),
            ours=waited(lambda of=of: gpuops.jacobi_step(of, f, x, alpha=-0.1)),
            kernel=kernel(of, f, x, alpha=-0.1),
        )


def solver(case: str, A, n: int, iterations: int) -> None:
    f = cupy.asarray(normal(n))
    solve = {"omega": 1e-3, "rtol": 0, "maxiter": iterations}
    say(
        f"{iterations} iterations, {case}", ours=waited(lambda: gpuops.jacobi(A, f, **solve), 5)
    )


def main() -> None:
    print(gpuops.devices("cuda"))
    for m in (512, 2048):
        steps_of_sparse(f"5 points {m}²", poisson(m))
        solver(f"5 points {m}²", gpuops.sparse(poisson(m)), m * m, 200)
    for n in (1024, 2048, 4096, 8192, 16384):
        steps_of_dense(n)
    A = cupy.asarray(normal(2048, 2048))
    A[cupy.arange(2048), cupy.arange(2048)] = 4096.0
    solver("dense 2048", A, 2048, 1000)
    steps_of_sparse("power law", power_law())


if __name__ == "__main__":
    main()
