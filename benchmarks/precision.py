"""precision - float32 matmul of each class beside cuBLAS: speed, error, power, NumPy's arrays.

    python benchmarks/precision.py [--only tf32 errors sustained numpy]

`tf32`: TFLOP/s behind a wait, and the kernel that ran. `errors`: the largest |C - C64| of an
output in units of u |A| |B|, of data of each kind, as tests/ops/test_matmul_accuracy.py bounds
it.
`sustained`: TFLOP/s over a second, warm, and cuBLAS's halves divided by the products that a
class forms of them. `numpy`: milliseconds from host arrays to a host array.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
import torch

import gpuops

U = 2.0**-24
SIZES = (4096, 8192)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def enqueued(call: Callable[[], Any], calls: int = 10, rounds: int = 5) -> float:
    """Median seconds of a call among some that wait only for each other, on the device."""
    call()
    seconds = []
    for _ in range(rounds):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(3_000_000)
        begun.record()
        for _ in range(calls):
            call()
        ended.record()
        torch.cuda.synchronize()
        seconds.append(begun.elapsed_time(ended) / 1e3 / calls)
    return statistics.median(seconds)


def ours(a: torch.Tensor, b: torch.Tensor, precision: str | None, out=None) -> torch.Tensor:
    return gpuops.matmul(a, b, out=out, precision=precision)


def cublas(a: torch.Tensor, b: torch.Tensor, tf32: bool, out=None) -> torch.Tensor:
    torch.backends.cuda.matmul.allow_tf32 = tf32
    return torch.matmul(a, b, out=out)


CONTENDERS: dict[str, Callable[..., torch.Tensor]] = {
    "highest": lambda a, b, out=None: ours(a, b, None, out),
    "fast": lambda a, b, out=None: ours(a, b, "fast", out),
    "tf32": lambda a, b, out=None: ours(a, b, "tf32", out),
    "cuBLAS": lambda a, b, out=None: cublas(a, b, False, out),
    "cuBLAS TF32": lambda a, b, out=None: cublas(a, b, True, out),
}


def time_tf32() -> None:
    for n in SIZES:
        a, b, out = normal(n, n), normal(n, n), normal(n, n)
        ran = gpuops.explain(gpuops.matmul, a, b, precision="tf32").kernel
        rate = {
            name: 2e-12 * n**3 / enqueued(functools.partial(CONTENDERS[name], a, b, out))
            for name in ("tf32", "cuBLAS TF32")
        }
        ratio = rate["tf32"] / rate["cuBLAS TF32"]
        print(n, ran, *(f"{name} {r:.0f}" for name, r in rate.items()), f"{ratio:.2f}")


def data(kind: str, m: int, k: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    if kind == "uniform":
        return torch.rand(m, k, device="cuda"), torch.rand(k, n, device="cuda")
    a, b = normal(m, k), normal(k, n)

    def steps(count: int) -> torch.Tensor:
        return torch.exp2(torch.randint(-20, 21, (count,), device="cuda").float())

    if kind == "lognormal":
        a, b = torch.exp(3 * a), torch.exp(3 * b)
    if kind == "graded rows":
        a *= steps(m)[:, None]
    if kind == "graded k":
        scale = steps(k)
        a, b = a * scale, b / scale[:, None]
    if kind == "cancelling":
        half = k // 2
        a[:, half:] = a[:, :half]
        b[half:] = -b[:half] * (1 + 2.0**-12)
    if kind == "sparse":
        a *= torch.rand(m, k, device="cuda") < 0.01
    if kind == "identity":
        b = torch.eye(k, n, device="cuda")
    return a, b


def show_errors(m: int = 2048, k: int = 8192) -> None:
    print(f"{m} x {k} x {m}", *CONTENDERS, sep=" | ")
    for kind in ("normal", "uniform", "lognormal", "graded rows", "graded k", "cancelling",
                 "sparse", "identity"):  # fmt: skip
        a, b = data(kind, m, k, m)
        exact = a.double() @ b.double()
        size = (a.double().abs() @ b.double().abs()).clamp_min(1e-300) * U
        worst = [
            ((of(a, b).double() - exact).abs() / size).max().item()
            for of in CONTENDERS.values()
        ]
        print(kind, *(f"{w:.3g}" for w in worst), sep=" | ")


def show_sustained(n: int = 8192, seconds: float = 1.0) -> None:
    a, b, out = normal(n, n), normal(n, n), normal(n, n)
    halves = [normal(n, n, dtype=d) for d in (torch.bfloat16,) * 3 + (torch.float16,) * 3]
    contenders = {
        "highest": (1, lambda: ours(a, b, None, out)),
        "cuBLAS bf16 / 6": (6, lambda: torch.matmul(halves[0], halves[1], out=halves[2])),
        "fast": (1, lambda: ours(a, b, "fast", out)),
        "cuBLAS fp16 / 3": (3, lambda: torch.matmul(halves[3], halves[4], out=halves[5])),
    }
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(2):
        for name, (products, call) in contenders.items():
            calls = 1 + int(seconds / enqueued(call, 5, 1))
            rates[name].append(2e-12 * n**3 / products / enqueued(call, calls, 1))
    print(n, *(f"{name} {statistics.mean(r):.0f}" for name, r in rates.items()), sep=" | ")


def show_numpy(n: int = 8192) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    calls = {
        "gpuops": lambda: gpuops.matmul(a, b, device="cuda"),
        "CuPy": lambda: cupy.asnumpy(cupy.matmul(cupy.asarray(a), cupy.asarray(b))),
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(4):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            taken[name].append(1e3 * (time.perf_counter() - begun))
    best = {name: statistics.median(times[1:]) for name, times in taken.items()}
    print(n, *(f"{name} {ms:.1f} ms" for name, ms in best.items()),
          f"{best['CuPy'] / best['gpuops']:.2f}")  # fmt: skip


PARTS = {
    "tf32": time_tf32, "errors": show_errors, "sustained": show_sustained, "numpy": show_numpy
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    for part in parser.parse_args().only:
        print(f"# {part}", flush=True)
        PARTS[part]()


if __name__ == "__main__":
    main()
