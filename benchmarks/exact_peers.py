"""exact_peers - sum(exact=True) beside the plain sum, math.fsum and xsum.

    python benchmarks/exact_peers.py [--device cpu] [--bytes 268435456] [--runs 7]

N(0,1), and floats of many exponents in turn; the whole array, its columns and its rows.
Contenders take turns, and the fastest run of each stands, by the clock: nothing else should
run. Printed are speeds over the plain sum of the same call. Peers add the whole in float64:
their sum is that of the exact real numbers, too, and float64's results are compared bit for
bit. fsum is timed on a part of the array, and its time is scaled. Neither peer has rows or
columns. xsum is on PyPI. On a GPU it is the kernels' time, caches emptied, and no peer runs.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpuops

FSUM_TERMS = 1_000_000
EXPONENTS = {"f4": 200, "f8": 1800}  # how many in turn, around 0


def terms(kind: str, dtype: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    a = rng.standard_normal(n, np.float32).astype(dtype)
    if kind == "exponents":
        most = EXPONENTS[dtype]
        np.ldexp(a, np.arange(n) % most - most // 2, out=a, dtype=dtype)
    return a


def fastest(calls: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    best = dict.fromkeys(calls, math.inf)
    for _ in range(runs + 1):  # the first is a warm-up like any other
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def fastest_kernels(calls: dict[str, dict[str, Any]], on: Any, runs: int) -> dict[str, float]:
    """As `fastest`, by a GPU's own clock: a call does not wait for its kernels."""
    return {
        name: min(gpuops.benchmark(gpuops.sum, (on,), how, n_repeat=runs).kernel.samples)
        for name, how in calls.items()
    }


def by_xsum(a: np.ndarray) -> float:
    import xsum

    total = xsum.xsum_large_accumulator()
    xsum.xsum_add(total, a.astype(np.float64, copy=False))
    return xsum.xsum_round(total)


def near(value) -> float:
    """What a peer's result may differ by: it was rounded to float64 first."""
    return float(np.spacing(abs(value))) if value.dtype == np.float32 else 0.0


def peers(a: np.ndarray, want) -> dict[str, float]:
    """Seconds of each, after its result has been compared with ours."""
    found = {}
    part = a[:FSUM_TERMS].tolist()
    begun = time.perf_counter()
    theirs = math.fsum(part)
    found["fsum"] = (time.perf_counter() - begun) * a.size / len(part)
    ours = gpuops.sum(a[:FSUM_TERMS], exact=True)
    assert abs(a.dtype.type(theirs) - ours) <= near(ours), "math.fsum differs"
    try:
        by_xsum(a[:1])
    except ImportError:
        print("xsum is not installed")
        return found
    begun = time.perf_counter()
    theirs = by_xsum(a)
    found["xsum"] = time.perf_counter() - begun
    assert abs(a.dtype.type(theirs) - want) <= near(want), "xsum differs"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bytes", type=int, default=1 << 28)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    for dtype in ("f4", "f8"):
        n = args.bytes // np.dtype(dtype).itemsize
        side = math.isqrt(n)
        for kind in ("normal", "exponents"):
            a = terms(kind, dtype, n)
            for name, x, axis in (
                ("whole", a, None),
                ("columns", a[: side * side].reshape(side, side), 0),
                ("rows", a[: side * side].reshape(side, side), 1),
                ("rows of 64", a[: n // 64 * 64].reshape(-1, 64), 1),
            ):
                on = x if args.device == "cpu" else gpuops.to_device(x, args.device)
                how: dict[str, Any] = {"axis": axis}
                if args.device != "cpu":
                    both = {"plain": how, "exact": {**how, "exact": True}}
                    found = fastest_kernels(both, on, args.runs)
                else:
                    how["out"] = None if axis is None else gpuops.sum(on, axis=axis)
                    found = fastest(
                        {
                            "plain": lambda on=on, how=how: gpuops.sum(on, **how),
                            "exact": lambda on=on, how=how: gpuops.sum(on, exact=True, **how),
                        },
                        args.runs,
                    )
                if axis is None and args.device == "cpu":
                    found |= peers(a, gpuops.sum(on, exact=True))
                plain = found.pop("plain")
                said = (f"{peer} {plain / seconds:.3f}" for peer, seconds in found.items())
                case = f"{dtype} {kind:9} {name:10} plain {1e3 * plain:.2f} ms;"
                print(case, *said, flush=True)


if __name__ == "__main__":
    main()
