"""thresholds - from which work on `auto` should send host arrays to a GPU.

    python benchmarks/thresholds.py [--only jacobi rdf] [--seconds 1]

Each case is one kind of call, ever larger, by the CPU with all threads and by the GPU with what
goes over the bus, in turn: medians, in milliseconds. Work is what the core weighs a call by and
`GPU_WORK` of gpuops/devices.py is compared with. The last line of a case is the least work from
which on the GPU was not slower again. GPU_WORK is changed by hand, by the case that decides.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

import gpuops
from gpuops.devices import GPU_WORK

Case = Iterator[tuple[float, Callable[[str], Any]]]  # (work, a call on that device)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, dtype="f4")


def dense(n: int) -> np.ndarray:
    A = normal(n, n)
    np.fill_diagonal(A, 2 * n)
    return A


def five_points(m: int) -> scipy.sparse.csr_matrix:
    line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (m, m))
    eye = scipy.sparse.identity(m)
    A = scipy.sparse.kron(line, eye) + scipy.sparse.kron(eye, line)
    return scipy.sparse.csr_matrix(A, dtype="f4")


def products() -> Case:
    for k in range(5, 11):
        a, b = normal(2**k, 2**k), normal(2**k, 2**k)
        yield 8.0**k, lambda device, a=a, b=b: gpuops.matmul(a, b, device=device)


def dense_steps() -> Case:
    for k in range(6, 14):
        A, f = dense(2**k), normal(2**k)
        yield 4.0**k, lambda device, A=A, f=f: gpuops.jacobi_step(A, f, f, device=device)


def sparse_steps() -> Case:
    for k in range(5, 12):
        A, f = five_points(2**k), normal(4**k)
        yield A.nnz, lambda device, A=A, f=f: gpuops.jacobi_step(A, f, f, device=device)


def solved(A, f, iterations: int) -> Callable[[str], Any]:
    how: dict[str, Any] = {"rtol": 0, "maxiter": iterations}
    return lambda device: gpuops.jacobi(A, f, **how, device=device)


def dense_solver(iterations: int) -> Case:
    for k in range(4, 13):
        yield 4.0**k, solved(dense(2**k), normal(2**k), iterations)


def sparse_solver(iterations: int) -> Case:
    for k in range(3, 11):
        A = five_points(2**k)
        yield A.nnz, solved(A, normal(4**k), iterations)


def stencil_solver(iterations: int) -> Case:
    for k in range(3, 11):
        A = gpuops.poisson((2**k, 2**k), dtype="f4")
        yield 7 * 4.0**k, solved(A, normal(4**k), iterations)


def pairs(share: float, box: float | None) -> Case:
    for k in range(8, 18):
        points = np.random.default_rng(1).random((2**k, 3), dtype="f4")
        sides = None if box is None else (box,) * 3
        yield (
            4.0**k,
            lambda device, points=points, sides=sides: gpuops.rdf(
                points, share, 100, box=sides, device=device
            ),
        )


CASES: dict[str, dict[str, Callable[[], Case]]] = {
    "matmul": {"squares, float32": products},
    "jacobi_step": {"dense": dense_steps, "CSR, 5 points": sparse_steps},
    "jacobi": {
        f"{name}, {count} steps": lambda make=make, count=count: make(count)
        for name, make in (
            ("dense", dense_solver),
            ("CSR, 5 points", sparse_solver),
            ("stencil, 5 points", stencil_solver),
        )
        for count in (10, 100)
    },
    "rdf": {
        "no box, half of it": lambda: pairs(0.5, None),
        "box, L/20": lambda: pairs(0.05, 1.0),
        "box, L/3": lambda: pairs(0.33, 1.0),
    },
}


def in_turn(call: Callable[[str], Any], seconds: float) -> tuple[float, float, float]:
    """Milliseconds on the CPU and on the GPU, and how long it took all in all."""
    begun = time.perf_counter()
    times: dict[str, list[float]] = {"cpu": [], "cuda": []}
    while len(times["cpu"]) < 4 or (
        time.perf_counter() - begun < seconds and len(times["cpu"]) < 30
    ):
        for device, taken in times.items():
            before = time.perf_counter()
            call(device)
            taken.append(time.perf_counter() - before)
        if time.perf_counter() - begun > 8 * seconds:
            break
    cpu, gpu = (1e3 * statistics.median(t[1:] or t) for t in times.values())
    return cpu, gpu, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seconds", type=float, default=1.0, help="of a size of a case")
    args = parser.parse_args()
    print(gpuops.devices())
    for op in args.only:
        print(f"{op}: GPU_WORK is {GPU_WORK[op]:.3g}")
        for name, make in CASES[op].items():
            least = None
            row = []
            for work, call in make():
                cpu, gpu, took = in_turn(call, args.seconds)
                row.append(f"{work:.2g}: {cpu:.3g} {gpu:.3g}")
                least = None if gpu > cpu else (work if least is None else least)
                if took > 6 * args.seconds:
                    break
            print(f"  {name}: cpu and gpu by work,", ", ".join(row))
            print(f"  {name}: GPU from {least:.3g}" if least else f"  {name}: CPU", flush=True)


if __name__ == "__main__":
    main()
