"""opencl - the OpenCL backend beside the cpu backend and CLBlast, and what a first call takes.

    python benchmarks/opencl.py [--device opencl:cpu] [--runs 9] [--only reductions]

Each call by both backends, by turns: the fastest of the runs stands, by the clock, for which
nothing else should run. Then SGEMM beside CLBlast's (Debian's libclblast1), in a process of its
own; and the first two calls of processes whose caches are empty and of ones whose are not.
Prints tables in Markdown.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np

import gpuops

Call = Callable[[str], object]
PRODUCT = 1024
FIRST = {
    "add of 1000 floats": "gpuops.add(a, a, device=d)",
    "sum of 1000 floats": "gpuops.sum(a, device=d)",
    "transpose of 32 x 32": "gpuops.transpose(m, device=d)",
    "matmul of 32 x 32": "gpuops.matmul(m, m, device=d)",
    "jacobi_step of 32 x 32": "gpuops.jacobi_step(m, m[0], m[0], alpha=0.1, device=d)",
    "rdf of 1000 points": "gpuops.rdf(p, r_max=0.5, bins=50, device=d)",
}


def uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).random(shape, np.float32)


# ---- calls by both backends ----


def elementwise() -> Iterator[tuple[str, Call]]:
    a, b, out = (uniform(1 << 24) for _ in range(3))
    thousand = uniform(1000)
    yield "add of 64 MiB", lambda d: gpuops.add(a, b, out=out, device=d)
    yield "add of 1000 floats", lambda d: gpuops.add(thousand, thousand, device=d)
    m, turned = a.reshape(4096, 4096), out.reshape(4096, 4096)
    yield "transpose of 4096²", lambda d: gpuops.transpose(m, out=turned, device=d)
    wide = m.view(np.uint8)[:, :4096].copy()
    yield "transpose of 4096² bytes", lambda d: gpuops.transpose(wide, device=d)


def reductions() -> Iterator[tuple[str, Call]]:
    a = uniform(1 << 24)
    square, long, thin = a.reshape(4096, 4096), a.reshape(-1, 8), a.reshape(8, -1)
    yield "sum of 64 MiB", lambda d: gpuops.sum(a, device=d)
    yield "sum of rows of 4096", lambda d: gpuops.sum(square, axis=1, device=d)
    yield "sum of columns of 4096", lambda d: gpuops.sum(square, axis=0, device=d)
    yield "sum of rows of 8", lambda d: gpuops.sum(long, axis=1, device=d)
    yield "sum of 8 columns", lambda d: gpuops.sum(long, axis=0, device=d)
    yield "sum of columns of 8", lambda d: gpuops.sum(thin, axis=0, device=d)
    yield "max of 64 MiB", lambda d: gpuops.max(a, device=d)
    yield "argmax of 64 MiB", lambda d: gpuops.argmax(a, device=d)
    yield "argmin of rows of 4096", lambda d: gpuops.argmin(square, axis=1, device=d)
    yield "argmin of columns of 4096", lambda d: gpuops.argmin(square, axis=0, device=d)


def products() -> Iterator[tuple[str, Call]]:
    a, b = uniform(PRODUCT, PRODUCT), uniform(PRODUCT, PRODUCT)
    m, x = uniform(4096, 4096), uniform(4096)
    turned = np.asfortranarray(m)
    yield f"matmul of {PRODUCT}²", lambda d: gpuops.matmul(a, b, device=d)
    yield "4096² times a vector", lambda d: gpuops.matmul(m, x, device=d)
    yield "4096² by columns times a vector", lambda d: gpuops.matmul(turned, x, device=d)
    yield "vector times 4096²", lambda d: gpuops.matmul(x, m, device=d)


def steps() -> Iterator[tuple[str, Call]]:
    m, x, out = uniform(4096, 4096), uniform(4096), uniform(4096)
    turned = np.asfortranarray(m)

    def dense(a: np.ndarray) -> Call:
        return lambda d: gpuops.jacobi_step(a, x, x, alpha=1e-4, out=out, device=d)

    yield "dense step of 4096²", dense(m)
    yield "dense step of 4096² by columns", dense(turned)
    for shape in ((1 << 20,), (1024, 1024), (128, 128, 128)):
        grid = gpuops.poisson(shape, dtype="f4")
        y = uniform(int(np.prod(shape)))
        made = np.empty_like(y)
        yield (
            f"step on a grid of {' x '.join(map(str, shape))}",
            lambda d, grid=grid, y=y, made=made: gpuops.jacobi_step(
                grid, y, y, omega=0.8, out=made, device=d
            ),
        )


def pairs() -> Iterator[tuple[str, Call]]:
    p = uniform(20000, 3)
    how = {"bins": 200, "r_max": 0.5}
    yield "rdf of 20,000 points", lambda d: gpuops.rdf(p, device=d, **how)
    yield "rdf in a box", lambda d: gpuops.rdf(p, box=[1, 1, 1], device=d, **how)
    yield (
        "rdf in a box to a twentieth",
        lambda d: gpuops.rdf(p, box=[1, 1, 1], bins=200, r_max=0.05, device=d),
    )


GROUPS = {
    "elementwise": elementwise,
    "reductions": reductions,
    "products": products,
    "steps": steps,
    "pairs": pairs,
}


def by_turns(call: Call, devices: tuple[str, ...], runs: int) -> list[float]:
    """The fastest run on each device, in seconds; short calls are many to a run."""
    for device in devices:
        call(device)
    begun = time.perf_counter()
    call(devices[0])
    many = max(1, int(1e-3 / (time.perf_counter() - begun)))
    best = [float("inf")] * len(devices)
    for _ in range(runs):
        for k, device in enumerate(devices):
            begun = time.perf_counter()
            for _ in range(many):
                call(device)
            best[k] = min(best[k], (time.perf_counter() - begun) / many)
    return best


def shown(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def compare(group: str, device: str, runs: int) -> None:
    for name, call in GROUPS[group]():
        cpu, opencl = by_turns(call, ("cpu", device), runs)
        print(f"| {name} | {shown(cpu)} | {shown(opencl)} | {cpu / opencl:.2f} |", flush=True)


# ---- CLBlast, which is called as a C program would ----


def check(code: int, function: str) -> None:
    if code:
        raise RuntimeError(f"{function} failed: {code}")


def clblast_seconds(runs: int, product: int) -> float:
    """The fastest SGEMM of CLBlast on the first device of the first platform."""
    cl, blast = ctypes.CDLL("libOpenCL.so.1"), ctypes.CDLL("libclblast.so.1")
    for function in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer"):
        getattr(cl, function).restype = ctypes.c_void_p
    platform, device, code = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    size, pointer, long = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_ulong
    check(cl.clGetPlatformIDs(1, ctypes.byref(platform), None), "clGetPlatformIDs")
    check(
        cl.clGetDeviceIDs(platform, long(0xFFFFFFFF), 1, ctypes.byref(device), None),
        "clGetDeviceIDs",
    )
    context = pointer(
        cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(code))
    )
    check(code.value, "clCreateContext")
    queue = pointer(cl.clCreateCommandQueue(context, device, long(0), ctypes.byref(code)))
    check(code.value, "clCreateCommandQueue")
    n = size(product)
    arrays = [uniform(product, product) for _ in range(3)]
    buffers = []
    for array in arrays:  # 1 << 5: a copy of the host's memory
        at = pointer(array.ctypes.data)
        made = cl.clCreateBuffer(
            context, long(1 | 1 << 5), size(array.nbytes), at, ctypes.byref(code)
        )
        check(code.value, "clCreateBuffer")
        buffers.append(pointer(made))
    one, none = ctypes.c_float(1), ctypes.c_float(0)
    best = float("inf")
    for _ in range(runs + 1):  # the first one compiles
        begun = time.perf_counter()
        check(
            blast.CLBlastSgemm(
                101, 111, 111, n, n, n, one, buffers[0], size(0), n, buffers[1], size(0), n,
                none, buffers[2], size(0), n, ctypes.byref(queue), None,
            ),
            "CLBlastSgemm",
        )  # fmt: skip
        check(cl.clFinish(queue), "clFinish")
        best = min(best, time.perf_counter() - begun)
    out = arrays[2]
    read = cl.clEnqueueReadBuffer(
        queue, buffers[2], 1, size(0), size(out.nbytes), pointer(out.ctypes.data), 0, None, None
    )
    check(read, "clEnqueueReadBuffer")
    if not np.allclose(out, arrays[0] @ arrays[1], rtol=1e-4):
        raise RuntimeError("CLBlastSgemm: another product than NumPy's")
    return best


def beside_clblast(device: str, runs: int) -> None:
    a, b = uniform(PRODUCT, PRODUCT), uniform(PRODUCT, PRODUCT)
    try:
        ctypes.CDLL("libclblast.so.1")
    except OSError:
        print("CLBlast is not installed (Debian's libclblast1): its row is left out.")
        return
    ran = subprocess.run(
        [sys.executable, __file__, "--clblast", "--runs", str(runs)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ran.returncode:
        print(f"CLBlast failed ({ran.returncode}): {ran.stderr[-400:]}")
        return
    theirs = float(ran.stdout)
    (ours,) = by_turns(lambda d: gpuops.matmul(a, b, device=d), (device,), runs)
    name = f"matmul of {PRODUCT}² beside CLBlast's SGEMM"
    print(f"| {name} | {shown(theirs)} | {shown(ours)} | {theirs / ours:.1f} |")


# ---- the first call ----


def timed_calls(device: str) -> dict[str, tuple[float, float]]:
    """The first and the second call of each, in a process that has opened the device."""
    names = {"gpuops": gpuops, "d": device, "a": uniform(1000), "m": uniform(32, 32)}
    names["p"] = uniform(1000, 3)
    gpuops.to_device(names["a"], device)
    found = {}
    for name, code in FIRST.items():
        call, times = compile(code, name, "eval"), []
        for _ in range(2):
            begun = time.perf_counter()
            eval(call, names)
            times.append(time.perf_counter() - begun)
        found[name] = (times[0], times[1])
    return found


def first_calls(device: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_CACHE_HOME": folder, "POCL_CACHE_DIR": f"{folder}/pocl"}
        os.makedirs(env["POCL_CACHE_DIR"])
        found = []
        for _ in range(2):
            ran = subprocess.run(
                [sys.executable, __file__, "--first", "--device", device],
                capture_output=True, text=True, check=True, env=env,
            )  # fmt: skip
            found.append(json.loads(ran.stdout))
    print("\n| call | first, caches empty | first of the next process | second |")
    print("|---|---|---|---|")
    for name in FIRST:
        cold, warm, again = found[0][name][0], found[1][name][0], found[1][name][1]
        print(f"| {name} | {shown(cold)} | {shown(warm)} | {shown(again)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", default="opencl:cpu")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--only", choices=(*GROUPS, "clblast", "first"), nargs="+")
    parser.add_argument(
        "--clblast",
        action="store_true",
        help="only the seconds of CLBlast's SGEMM, on the first device",
    )
    parser.add_argument("--product", type=int, default=PRODUCT, help="its rows")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.clblast:
        print(clblast_seconds(args.runs, args.product))
        return
    if args.first:
        print(json.dumps(timed_calls(args.device)))
        return
    wanted = args.only or [*GROUPS, "clblast", "first"]
    known = {str(d.device): d for d in gpuops.devices("opencl")}
    print(known.get(args.device, args.device), gpuops.devices("cpu")[0], "\n")
    print("| call | cpu, or CLBlast | OpenCL | times as fast |\n|---|---|---|---|")
    for group in GROUPS:
        if group in wanted:
            compare(group, args.device, args.runs)
    if "clblast" in wanted:
        beside_clblast(args.device, args.runs)
    if "first" in wanted:
        first_calls(args.device)


if __name__ == "__main__":
    main()
