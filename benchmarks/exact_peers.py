"""exact_peers - sum(exact=True) beside the plain sum, math.fsum, xsum and CUB.

    python benchmarks/exact_peers.py [--device cpu] [--bytes 268435456] [--runs 7]

N(0,1), and floats of many exponents in turn; the whole array, its columns and its rows.
Contenders take turns, and the fastest run of each stands, by the clock: nothing else should
run. Printed are speeds over the plain sum of the same call. fsum and xsum add the whole in
float64: their sum is that of the exact real numbers, too, and float64's results are compared
bit for bit. fsum is timed on a part of the array, and its time is scaled. Neither has rows or
columns. xsum is on PyPI. On a GPU it is the kernels' time, caches emptied, and these two are
oracles only. CUB, of PyPI's cuda-cccl, has a sum with the same bits on every GPU, which is not
exact: what it is off by is printed in units of the last place. It needs nvcc and CuPy.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peers import CuPyPeer, has

import gpuops

FSUM_TERMS = 1_000_000
EXPONENTS = {"f4": 200, "f8": 1800}  # how many in turn, around 0
BASE = 1 << 26  # elements that are made; longer arrays repeat them


def terms(kind: str, dtype: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    a = rng.standard_normal(min(n, BASE), np.float32).astype(dtype)
    if kind == "exponents":
        most = EXPONENTS[dtype]
        np.ldexp(a, np.arange(a.size) % most - most // 2, out=a, dtype=dtype)
    return a if a.size == n else np.resize(a, n)


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
    for i in range(0, a.size, BASE):
        xsum.xsum_add(total, a[i : i + BASE].astype(np.float64, copy=False))
    return xsum.xsum_round(total)


def near(value) -> float:
    """What a peer's result may differ by: it was rounded to float64 first."""
    return float(np.spacing(abs(value))) if value.dtype == np.float32 else 0.0


def oracles(a: np.ndarray, want) -> dict[str, float]:
    """Seconds of each, after its result has been compared with ours."""
    found = {}
    part = a[:FSUM_TERMS].tolist()
    begun = time.perf_counter()
    theirs = math.fsum(part)
    found["fsum"] = (time.perf_counter() - begun) * a.size / len(part)
    ours = gpuops.sum(a[:FSUM_TERMS], exact=True)
    assert abs(a.dtype.type(theirs) - ours) <= near(ours), "math.fsum differs"
    if not has("xsum"):
        print("xsum is not installed")
        return found
    begun = time.perf_counter()
    theirs = by_xsum(a)
    found["xsum"] = time.perf_counter() - begun
    assert abs(a.dtype.type(theirs) - want) <= near(want), "xsum differs"
    return found


class Cub:
    """CUB's sums by a library that is compiled here."""

    def __init__(self) -> None:
        import cupy

        self.cupy, self.events = cupy, CuPyPeer()
        where = importlib.util.find_spec("cuda.cccl").submodule_search_locations[0]
        source = Path(__file__).with_name("cub_sum.cu")
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "cub_sum.so"
            include = f"-I{Path(where) / 'headers' / 'include'}"
            subprocess.run(["nvcc", "-std=c++17", "-O3", "-arch=native", include, "-shared",
                            "-Xcompiler", "-fPIC", source, "-o", made], check=True)  # fmt: skip
            self.library = ctypes.CDLL(str(made))

    def seconds(self, on, want, runs: int) -> dict[str, float]:
        """Of both guarantees, after saying how far each result is from ours."""
        a, out = self.cupy.from_dlpack(on), self.cupy.empty((), on.dtype)
        sums = getattr(self.library, f"cub_sum_{on.dtype.kind}{on.dtype.itemsize}")
        words = ctypes.c_void_p(a.data.ptr), ctypes.c_void_p(out.data.ptr)

        def call(every_gpu: bool) -> None:
            error = sums(*words, ctypes.c_longlong(a.size), int(every_gpu))
            assert error == 0, f"CUB: error {error}"

        found, off = {}, []
        for name, every_gpu in (("CUB, every GPU", True), ("CUB, each run", False)):
            call(every_gpu)
            off.append(f"{abs(float(out.get()) - float(want)) / np.spacing(abs(want)):.3g}")
            found[name] = min(
                self.events.timed(lambda g=every_gpu: call(g)) for _ in range(runs)
            )
        print(f"CUB is off by {' and '.join(off)} units of the last place")
        return found


def compared(x: np.ndarray, axis, device: str, runs: int, cub: Cub | None) -> dict[str, float]:
    """Seconds of the plain sum, of the exact one and of peers."""
    how: dict[str, Any] = {"axis": axis}
    if device == "cpu":
        on, how["out"] = x, None if axis is None else gpuops.sum(x, axis=axis)
        exact = {**how, "exact": True}
        calls = {"plain": lambda: gpuops.sum(x, **how), "exact": lambda: gpuops.sum(x, **exact)}
        found = fastest(calls, runs)
    else:
        on = gpuops.to_device(x, device)
        found = fastest_kernels({"plain": how, "exact": {**how, "exact": True}}, on, runs)
    if axis is None:
        want = gpuops.sum(on, exact=True)
        want = want if device == "cpu" else want.get()[()]
        asked = oracles(x, want)
        found |= asked if device == "cpu" else {}
        found |= cub.seconds(on, want, runs) if cub else {}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bytes", type=int, default=1 << 28)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    can = args.device.startswith("cuda") and has("cupy") and has("cuda") and has("cuda.cccl")
    cub = Cub() if can else None
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
                found = compared(x, axis, args.device, args.runs, cub)
                plain = found.pop("plain")
                said = (f"{peer} {plain / seconds:.3f}" for peer, seconds in found.items())
                case = f"{dtype} {kind:9} {name:10} plain {1e3 * plain:.2f} ms;"
                print(case, *said, flush=True)


if __name__ == "__main__":
    main()
