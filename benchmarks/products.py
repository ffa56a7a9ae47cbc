"""products - matmul beside PyTorch and CuPy on a GPU, beside NumPy on the CPU, of any shape.

    python benchmarks/products.py [--seed 1 2 3] [--calls 400] [--seconds 120] [--device cuda]

Half of the calls have shapes that networks and simulations have (linear layers, heads of
attention, vocabularies, patches, a few tokens, least squares, small matrices in large batches),
half are regret_draw.py's, of any shape, order, gap and offset. All go through the public
functions, without out, and every result is held against its bound. Contenders take turns.
NumPy runs in a process of its own: OpenBLAS's threads keep a core for a while after a product.

"roofline" is the larger of two times over ours: the call's bytes at the rate of a copy, and its
operations at the best rate of its dtype in this run, whoever reached it.
"""

from __future__ import annotations

import argparse
import atexit
import collections
import dataclasses
import math
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time

import numpy as np
from regret import Arrays
from regret_draw import SLOW, Operand, Product, draw_product
from results import markdown, quantile
from zoo_draw import MI, SIZES

import gpuops

DTYPES = ("float16", "bfloat16", "float32", "float32", "float64", "complex64")
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "complex64": 24, "float64": 53}
TOKENS = (1, 7, 16, 49, 64, 77, 128, 196, 197, 257, 384, 512, 577, 1000, 1024, 1500, 2048, 4096)
WIDTHS = (64, 96, 128, 147, 192, 256, 320, 384, 512, 576, 640, 768, 1024, 1280, 1536, 2048,
          2560, 3072, 4096, 5120, 8192, 11008, 14336)  # fmt: skip
HEADS = (32, 40, 64, 72, 80, 96, 128)
VOCABULARIES = (10000, 21841, 30522, 32000, 50257, 128256)
LEAST_WORK = 1e5
TURNS = 5
LONG_CALL = 30e-6  # seconds from which the roofline is asked for
LEAST_RATIO = 0.99


def matrix(draw: random.Random, batch, rows: int, columns: int, turned: bool) -> Operand:
    """A matrix without gaps, or the transposed view of one."""
    strides = (1, rows) if turned else (columns, 1)
    return Operand((*batch, rows, columns), (*(rows * columns for _ in batch), *strides), 0)


def model_shape(draw: random.Random):
    """batch, m, k, n, and whether a and b are views of their transposes."""
    kind = draw.choice(("linear", "linear", "decode", "scores", "values", "vocabulary",
                        "patches", "squares", "rank", "small"))  # fmt: skip
    turned = draw.random() < 0.5
    tokens, wide, narrow = (draw.choice(x) for x in (TOKENS, WIDTHS, WIDTHS))
    if kind == "linear":
        return (
            (),
            tokens * draw.choice((1, 1, 2, 4, 8, 16, 32, 64)),
            wide,
            narrow,
            False,
            turned,
        )
    if kind == "decode":
        return (), draw.randint(1, 128), wide, narrow, False, turned
    if kind == "vocabulary":
        return (), draw.choice((1, 8, tokens)), wide, draw.choice(VOCABULARIES), False, turned
    if kind in ("scores", "values"):
        batch = (draw.choice((1, 2, 8, 16, 32)) * draw.choice((1, 6, 8, 12, 16, 32)),)
        head = draw.choice(HEADS)
        if kind == "scores":
            return batch, tokens, head, tokens, False, draw.random() < 0.8
        return batch, tokens, tokens, head, False, False
    if kind == "patches":
        taps = draw.choice((3, 16, 32, 64, 128, 256)) * draw.choice((9, 16, 25, 49))
        sites = draw.choice((1, 4, 16, 32)) * draw.choice((7, 14, 28, 56, 112)) ** 2
        return (), sites, taps, wide, False, turned
    if kind == "squares":
        rows, columns = round(10 ** draw.uniform(3, 6)), draw.randint(2, 64)
        return (), columns, rows, draw.choice((1, columns)), True, False
    if kind == "rank":
        size = draw.choice((1000, 2048, 3000, 4096, 10000))
        return (), size, draw.randint(4, 64), size, turned, draw.random() < 0.5
    side = draw.choice((3, 3, 4, 4, 6, 8, 9, 12, 16, 24, 32, 48))
    return (
        (round(10 ** draw.uniform(2, 5.5)),),
        side,
        side,
        draw.choice((1, side)),
        turned,
        False,
    )


def draw_model(draw: random.Random, most: float, work: float) -> Product:
    while True:
        dtype = draw.choice(DTYPES)
        batch, m, k, n, a_turned, b_turned = model_shape(draw)
        a, b = matrix(draw, batch, m, k, a_turned), matrix(draw, batch, k, n, b_turned)
        case = Product(dtype, a, b)
        if (LEAST_WORK <= operations(case) * SLOW.get(dtype, 1) <= work
                and max(a.items, b.items, outputs(case)) * SIZES[dtype] <= most):  # fmt: skip
            if a_turned and m == n < k:  # a.T @ a of least squares; the others have two arrays
                return case
            return Product(dtype, a, dataclasses.replace(b, offset=-(-a.items // 64) * 64))


def draw_call(draw: random.Random, most: float, work: float) -> tuple[str, Product]:
    if draw.random() < 0.5:
        return "models", draw_model(draw, most, work)
    while True:
        case = draw_product(draw, most)
        if case.dtype in DTYPES and operations(case) * SLOW.get(case.dtype, 1) <= work:
            return "any", case


def outputs(case: Product) -> int:
    return math.prod(case.a.shape[:-1]) * case.b.shape[-1]


def operations(case: Product) -> float:
    return 2.0 * outputs(case) * case.a.shape[-1] * (4 if case.dtype == "complex64" else 1)


def class_of(case: Product) -> str:
    return "float16, bfloat16" if case.dtype in ("float16", "bfloat16") else case.dtype


def is_right(case: Product, a, b, got, xp) -> bool:
    """Some elements of some matrices against a sum of float64, by the bound of docs/numerics.md
    that holds on every device. `xp` is NumPy or PyTorch."""
    draw = random.Random(case.label)
    k = case.a.shape[-1]
    if a.ndim == 3:
        some = sorted(draw.sample(range(len(a)), min(4, len(a))))
        a, b, got = (xp.stack([x[i] for i in some]) for x in (a, b, got))
    rows = sorted(draw.sample(range(a.shape[-2]), min(4, a.shape[-2])))
    columns = sorted(draw.sample(range(b.shape[-1]), min(64, b.shape[-1])))
    a, b, got = a[..., rows, :], b[..., columns], got[..., rows, :][..., columns]
    wide = xp.complex128 if case.dtype == "complex64" else xp.float64
    a, b, got = ((x.astype(wide) if xp is np else x.to(wide)) for x in (a, b, got))
    # NumPy's einsum leaves OpenBLAS asleep, whose threads would disturb what is timed next.
    want = xp.einsum("...ik,...kj->...ij", a, b)
    sizes = xp.einsum("...ik,...kj->...ij", abs(a), abs(b))
    inner = min(max(DIGITS[case.dtype], 24), 52)  # the reference is a sum of float64, too
    terms = 2 * k if case.dtype == "complex64" else k
    most = (2 * terms + 4) * 2.0**-inner * sizes + 2.0 ** -DIGITS[case.dtype] * abs(want)
    tiny, largest = (2.0**-24, 65504) if case.dtype == "float16" else (2.0**-126, math.inf)
    is_near = abs(got - want) <= most * (1 + 2**-20) + tiny
    return bool((is_near | ((abs(want) + most >= largest) & (abs(got) == math.inf))).all())


# ---- contenders ----


def numpy_process(pipe, most: float) -> None:
    """Seconds of NumPy's product of each case that comes."""
    arrays = Arrays("cpu", most)
    while case := pipe.recv():
        a, b = arrays.view(case.dtype, case.a), arrays.view(case.dtype, case.b)
        a @ b
        times = max(1, min(20, round(2e-3 / clocked(lambda a=a, b=b: a @ b, 1))))
        pipe.send(min(clocked(lambda a=a, b=b: a @ b, times) for _ in range(TURNS)))


def clocked(call, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


class OnCpu:
    """NumPy in another process, which is stopped while we are timed."""

    def __init__(self, most: float, work: float) -> None:
        self.arrays = Arrays("cpu", most)
        context = multiprocessing.get_context("spawn")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=numpy_process, args=(end, most), daemon=True)
        self.process.start()
        # A stopped process does not see that it is to end, and whoever exits waits for it.
        atexit.register(self.process.kill)
        self.halves = np.zeros((2, 4 * int(most)), np.uint8)

    def seconds(self, case: Product, a, b, nbytes: float) -> dict[str, float]:
        found = {}
        if case.dtype not in ("float16", "bfloat16"):  # NumPy has no products of these
            os.kill(self.process.pid, signal.SIGCONT)
            self.pipe.send(case)
            found["numpy"] = self.pipe.recv()
            os.kill(self.process.pid, signal.SIGSTOP)  # its threads would wait for work awake
        to, source = self.halves[:, : max(1, int(nbytes) // 2)]
        for name, call in (("copy", lambda: np.copyto(to, source)),
                           ("gpuops", lambda: gpuops.matmul(a, b, device="cpu"))):  # fmt: skip
            once = min(clocked(call, 1) for _ in range(2))
            times = max(1, min(20, round(2e-3 / once)))
            found[name] = min(clocked(call, times) for _ in range(TURNS))
        return found

    xp = np


class OnGpu:
    """PyTorch's arrays; CuPy over the same memory. Events tell the time of a turn."""

    def __init__(self, most: float, work: float) -> None:
        self.arrays = Arrays("cuda", most)
        self.xp = self.torch = self.arrays.side.torch
        self.cupy = self.arrays.side.cupy
        self.halves = self.torch.zeros(
            (2, 4 * int(most)), dtype=self.torch.uint8, device="cuda"
        )

    def seconds(self, case: Product, a, b, nbytes: float) -> dict[str, float]:
        to, source = self.halves[:, : max(1, int(nbytes) // 2)]
        calls = {"copy": lambda: to.copy_(source), "gpuops": lambda: gpuops.matmul(a, b),
                 "torch": lambda: self.torch.matmul(a, b)}  # fmt: skip
        if self.cupy is not None and case.dtype != "bfloat16":
            x, y = self.cupy.from_dlpack(a), self.cupy.from_dlpack(b)
            calls["cupy"] = lambda: self.cupy.matmul(x, y)
        once = {}
        for name in list(calls):
            try:
                calls[name]()
                once[name] = self.turn(calls[name], 1)
            except (RuntimeError, ValueError, NotImplementedError, MemoryError):
                del calls[name]  # no such product there
        for name in [n for n, s in once.items() if n != "gpuops" and s > 8 * once["gpuops"]]:
            calls.pop(name)
        times = max(1, min(10, int(120e-6 / once["gpuops"]) + 1))
        found = {name: [] for name in calls}
        for _ in range(TURNS):
            for name, call in calls.items():
                found[name].append(self.turn(call, times))
        return once | {name: statistics.median(s) for name, s in found.items()}

    def turn(self, call, times: int) -> float:
        start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        call()
        start.record()
        for _ in range(times):
            call()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e-3 / times


# ---- what is said ----


def measure(case: Product, side) -> dict:
    a, b = side.arrays.view(case.dtype, case.a), side.arrays.view(case.dtype, case.b)
    device = {"device": "cpu"} if side.xp is np else {}
    plan = gpuops.explain(gpuops.matmul, a, b, **device)
    if not is_right(case, a, b, gpuops.matmul(a, b, **device), side.xp):
        raise AssertionError(f"{case.label}: the {plan.kernel} kernel's result is wrong")
    seconds = side.seconds(case, a, b, plan.bytes)
    peers = [s for name, s in seconds.items() if name not in ("gpuops", "copy")]
    return {"case": case, "kernel": plan.kernel, "seconds": seconds,
            "ratio": min(peers) / seconds["gpuops"] if peers else None}  # fmt: skip


def add_rooflines(rows: list[dict]) -> None:
    best: dict[str, float] = collections.defaultdict(float)
    for row in rows:
        for name, seconds in row["seconds"].items():
            if name != "copy":
                rate = operations(row["case"]) / seconds
                best[row["case"].dtype] = max(best[row["case"].dtype], rate)
    for row in rows:
        compute = operations(row["case"]) / best[row["case"].dtype]
        row["roofline"] = max(row["seconds"]["copy"], compute) / row["seconds"]["gpuops"]


def summary(rows: list[dict]) -> str:
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["whose"]].append(row)
        groups[class_of(row["case"])].append(row)
        if len(row["case"].a.shape) > 2:
            groups["batches"].append(row)
    lines = []
    for name, group in groups.items():
        ratios = [row["ratio"] for row in group if row["ratio"]]
        long = [r["roofline"] for r in group if r["seconds"]["gpuops"] >= LONG_CALL] or [
            math.nan
        ]
        if ratios:
            fine = sum(r >= LEAST_RATIO for r in ratios) / len(ratios)
            shown = (min(ratios), quantile(ratios, 0.05), statistics.median(ratios),
                     statistics.median(long), quantile(long, 0.05))  # fmt: skip
            lines.append([name, str(len(ratios)), f"{fine:.1%}", *(f"{v:.2f}" for v in shown)])
    head = ["class", "calls", f"at least {LEAST_RATIO}", "worst", "5 %", "median",
            "roofline, median", "roofline, 5 %"]  # fmt: skip
    return markdown(head, lines)


def line(row: dict) -> str:
    times = ", ".join(f"{name} {s * 1e6:.1f}" for name, s in row["seconds"].items())
    return f"{row['ratio']:.2f} {row['kernel']:14} {row['case'].label}; µs: {times}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", nargs="*", type=int, default=[1])
    parser.add_argument("--calls", type=int, default=400, help="of a seed")
    parser.add_argument("--seconds", type=float, default=120, help="of all, about")
    parser.add_argument("--device", default="cuda" if gpuops.is_available("cuda") else "cpu")
    parser.add_argument("--worst", type=int, default=25)
    arguments = parser.parse_args()
    on_cpu = arguments.device == "cpu"
    most, work = (48 * MI, 4e9) if on_cpu else (1024 * MI, 1e12)
    side = (OnCpu if on_cpu else OnGpu)(most, work)
    rows, wrong, begun = [], [], time.perf_counter()
    for k, seed in enumerate(arguments.seed):
        draw = random.Random(f"products {seed}")
        until = begun + (k + 1) * arguments.seconds / len(arguments.seed)
        for _ in range(arguments.calls):
            if time.perf_counter() > until:
                break
            whose, case = draw_call(draw, most, work)
            try:
                rows.append(measure(case, side) | {"whose": whose})
            except AssertionError as error:
                wrong.append(str(error))
    add_rooflines(rows)
    print(summary(rows))
    compared = sorted((r for r in rows if r["ratio"]), key=lambda r: r["ratio"])
    print("\n" + "\n".join(map(line, compared[: arguments.worst])))
    print(f"\n{len(rows)} calls, {len(wrong)} wrong", *wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
