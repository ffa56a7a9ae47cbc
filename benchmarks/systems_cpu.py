"""systems_cpu - jacobi_step on the CPU beside SciPy, pyamg and NumPy.

    python benchmarks/systems_cpu.py [--threads 1 2] [--runs 15] [--only dense]

A step with omega, and one with alpha, of the 5-point matrix of a 2048² grid as it is, of
`gpuops.sparse` and as `gpuops.poisson`, over SciPy's A @ x; pyamg's jacobi beside them. Of a
dense A in C and in Fortran order over NumPy's A @ x. Contenders take turns, and the fastest of
the runs stands: the processor's time of one thread, the clock's of more, for which nothing else
should run. NumPy's product and pyamg's relaxation have as many threads as the environment gives
them (OPENBLAS_NUM_THREADS, OMP_NUM_THREADS); SciPy's product has one.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

import gpuops

GRID = 2048
SIZES = (2048, 4096, 8192)
Calls = dict[str, Callable[[], Any]]


def turns(calls: Calls, threads: int, runs: int) -> dict[str, float]:
    """The fastest run of each, in milliseconds."""
    clock = time.process_time if threads == 1 else time.perf_counter
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(runs + 1):  # the first is a warm-up like any other
        for name, call in calls.items():
            begun = clock()
            call()
            best[name] = min(best[name], clock() - begun)
    return {name: 1e3 * seconds for name, seconds in best.items()}


def show(case: str, over: str, found: dict[str, float]) -> None:
    peer = found.pop(over)
    rows = (f"{name} {ms:.2f} ({ms / peer:.2f})" for name, ms in found.items())
    print(f"{case:22} {over} {peer:.2f} ms;", ", ".join(rows), flush=True)


def laplacian(dtype: str) -> scipy.sparse.csr_matrix:
    line = scipy.sparse.diags([-1, 2, -1], [-1, 0, 1], (GRID, GRID))
    eye = scipy.sparse.identity(GRID)
    A = scipy.sparse.csr_matrix(scipy.sparse.kron(line, eye) + scipy.sparse.kron(eye, line))
    return A.astype(dtype)


def sparse_case(dtype: str, threads: int, runs: int) -> None:
    A = laplacian(dtype)
    rng = np.random.default_rng(1)
    f, x = (rng.standard_normal(A.shape[0]).astype(dtype) for _ in range(2))
    out, relaxed = np.empty_like(x), x.copy()
    forms = {"plain": A, "sparse": gpuops.sparse(A),
             "poisson": gpuops.poisson((GRID, GRID), dtype=dtype)}  # fmt: skip
    calls: Calls = {"A @ x": lambda: A @ x}
    for name, form in forms.items():
        for word, value in (("omega", 0.8), ("alpha", -0.2)):
            how: dict[str, Any] = {word: value, "out": out, "device": "cpu"}
            calls[f"{name} {word}"] = lambda form=form, how=how: gpuops.jacobi_step(
                form, f, x, **how
            )
    if importlib.util.find_spec("pyamg"):
        from pyamg.relaxation.relaxation import jacobi

        calls["pyamg"] = lambda: jacobi(A, relaxed, f, iterations=1, omega=0.8)
    else:
        print("pyamg is not installed")
    show(f"5 points {GRID}² {dtype}", "A @ x", turns(calls, threads, runs))


def dense_case(n: int, dtype: str, order: str, threads: int, runs: int) -> None:
    rng = np.random.default_rng(1)
    A = np.asarray(rng.standard_normal((n, n), dtype), order=order)
    f, x = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    out, product = np.empty_like(x), np.empty_like(x)
    calls: Calls = {
        "A @ x": lambda: np.matmul(A, x, out=product),
        "alpha": lambda: gpuops.jacobi_step(A, f, x, alpha=-1e-6, out=out, device="cpu"),
    }
    show(f"dense {n}² {dtype} {order}", "A @ x", turns(calls, threads, runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--only", choices=("sparse", "dense"))
    args = parser.parse_args()
    for threads in args.threads:
        gpuops.set_num_threads(threads)
        print(gpuops.devices("cpu"), f"\n{threads} threads")
        for dtype in ("f4", "f8"):
            if args.only != "dense":
                sparse_case(dtype, threads, args.runs)
            for n in SIZES if args.only != "sparse" else ():
                for order in "CF":
                    dense_case(n, dtype, order, threads, args.runs)


if __name__ == "__main__":
    main()
