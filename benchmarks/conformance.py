"""conformance - every operation, dtype and kernel of each device against the bits of the cpu.

    python benchmarks/conformance.py               on all devices of this machine, then the page
    python benchmarks/conformance.py --only opencl

Each device writes benchmarks/results/conformance/<column>.json, from which `tables.py` makes
docs/conformance.md. What is compared with is the cpu backend's simplest kernel that keeps every
promise. Operands of matmul are whole numbers, of which every order of sums gives one result.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "conformance"
# Column, its title, and what a machine needs for it.
COLUMNS = {
    "cpu": ("cpu", ""),
    "cuda": ("cuda", "an NVIDIA GPU and a build with CUDA"),
    "sim": ("sim", "a build with sim"),
    "opencl-pocl": ("OpenCL: PoCL, a CPU", "PoCL, as Debian's pocl-opencl-icd"),
    "opencl-nvidia": ("OpenCL: NVIDIA, a GPU", "an NVIDIA GPU whose driver brings OpenCL"),
}
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
REDUCTIONS = ("sum", "prod", "mean", "min", "max", "any", "all", "argmin", "argmax")
OPS = (
    *("add", "multiply_add", "fma", "transpose", *REDUCTIONS),
    *("matmul", "jacobi_step", "jacobi", "rdf"),
)


def dtype_of(word: str) -> np.dtype:
    if word != "bfloat16":
        return np.dtype(word)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


# ---- calls ----


def _whole(shape, dtype, seed=0):
    small = np.random.default_rng(seed).integers(0, 3, shape)
    return small.astype(dtype)


def calls(op: str, dtype: np.dtype):
    """(arguments, keywords), few and small: layouts, special values, leaves of a sum."""
    from engine import random

    def values(*shapes):
        return [random(s, dtype, k, special=True) for k, s in enumerate(shapes)]

    if op in ("add", "multiply_add", "fma"):
        n = 2 if op == "add" else 3
        x = values(*[(1021,)] * n)
        yield tuple(x), {}
        yield tuple(a[::-2] for a in x), {}
        yield tuple(values((33, 5), *[(5,)] * (n - 1))), {}
    elif op == "transpose":
        for shape, axes in (((65, 70), None), ((6, 14, 33), (0, 2, 1)), ((5, 6, 7), (1, 0, 2))):
            yield (*values(shape), axes), {}
        yield (values((40, 90))[0][::2, ::-3],), {}
    elif op in REDUCTIONS:
        wide = (2500,) if op in ("sum", "prod", "mean") else (300,)
        (a,) = values(wide)
        (m,) = values((34, 70))
        rows = {"axis": 1}
        for x, more in ((a, {}), (m, {"axis": 0}), (m, rows), (m[::2, ::-1], rows)):
            yield (x,), more
        if op in ("sum", "min"):
            initial = {} if op == "sum" else {"initial": m.flat[0]}
            yield (m,), {"axis": 1, "where": np.indices(m.shape).sum(0) % 3 > 0, **initial}
    elif op == "matmul":
        for m, k, n in ((33, 40, 20), (1, 70, 9), (17, 5, 1), (70, 70, 70)):
            yield (_whole((m, k), dtype), _whole((k, n), dtype, 1)), {}
    elif op in ("jacobi_step", "jacobi"):
        import gpuops

        rng = np.random.default_rng(1)
        A = (rng.random((40, 40)) + 40 * np.eye(40)).astype(dtype)
        f, x = (rng.random(40).astype(dtype) for _ in range(2))
        P = gpuops.poisson((6, 7), dtype=dtype if dtype.kind in "fc" else np.float64)
        g = rng.random(42).astype(dtype)
        if op == "jacobi":
            yield (A, f), {"maxiter": 3}
            yield (P, g), {"maxiter": 3}
            return
        for how in ({}, {"alpha": -0.01}):
            yield (A, f, x), how
            yield (P.tocsr(), g, g), how
            yield (P, g, g), how
    else:
        p = (np.random.default_rng(2).random((300, 3)) * 9).astype(dtype)
        for box in (None, (9, 9, 9), (9, 10, 11, 80, 95, 100)):
            yield (p, 2.5, 30), {"box": box, "norm": "none"}
        yield (p, 2.5, 30), {"box": (9, 9, 9), "types": np.arange(300) % 3, "norm": "none"}


def plain(result):
    for name in ("counts", "x"):
        result = getattr(result, name, result)
    return result


# ---- one operation on one device ----


def _answer(op: str, args, how, device: str, kernel: str | None):
    import gpuops

    return plain(getattr(gpuops, op)(*args, **how, device=device, kernel=kernel))


def _kept(op: str, backend: str) -> list[str]:
    """The kernels that keep every promise."""
    import gpuops

    return [k.name for k in gpuops.kernels(op, backend) if k.role in ("lesson", "production")]


def cell(op: str, word: str, device: str) -> dict:
    """The kernels with the same bits, or the sentence that refuses; what differs."""
    from engine import same_bits

    import gpuops

    same: dict[str, int] = {}
    different: list[str] = []
    backend = device.split(":")[0]
    for args, how in calls(op, dtype_of(word)):
        try:
            want = None
            for reference in (*_kept(op, "cpu"), None):
                try:
                    want = _answer(op, args, how, "cpu", reference)
                    break
                except gpuops.KernelRefusedError:
                    continue
        except (TypeError, ValueError) as error:
            return {"refused": str(error)}
        for kernel in (None, *_kept(op, backend)):
            try:
                same_bits(_answer(op, args, how, device, kernel), want)
                same[kernel or "auto"] = same.get(kernel or "auto", 0) + 1
            except gpuops.KernelRefusedError:
                continue
            except TypeError as error:
                return {"refused": str(error)}
            except AssertionError as error:
                different.append(f"{kernel or 'auto'}: {error}")
    found: dict = {"same": same}
    if different:
        found["different"] = different
    return found


def one(op: str, device: str) -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    print(json.dumps({word: cell(op, word, device) for word in DTYPES}))


# ---- all of them ----


def devices() -> dict[str, tuple[str, str, str]]:
    """Column -> the word for its device, its name and detail."""
    import gpuops

    found = {}
    for name in ("cpu", "cuda", "sim"):
        if name == "cpu" or gpuops.is_available(name):
            info = gpuops.Device(name).info
            found[name] = (name, info.name, info.detail)
    if gpuops.is_available("opencl"):
        for d in gpuops.devices("opencl"):
            said = d.detail.lower()
            kind = "pocl" if "portable computing" in said else "nvidia"
            if kind == "pocl" or "nvidia" in said:
                found.setdefault(f"opencl-{kind}", (str(d.device), d.name, d.detail))
    return found


def run(column: str, device: tuple[str, str, str], jobs: int) -> int:
    word, name, detail = device
    command = [sys.executable, __file__, "--device", word, "--op"]

    def ask(op):
        ran = subprocess.run([*command, op], capture_output=True, text=True, check=False)
        if ran.returncode:
            sys.exit(f"{op} on {word}: {ran.stderr[-2000:]}")
        return op, json.loads(ran.stdout.splitlines()[-1])

    with ThreadPoolExecutor(jobs) as pool:
        cells = dict(pool.map(ask, OPS))
    wrong = 0
    for op, row in cells.items():
        for dtype, found in row.items():
            for said in found.get("different", ()):
                print(f"DIFFERENT {column} {op} {dtype} {said}")
                wrong += 1
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    ).stdout.strip()  # fmt: skip
    about = {"device": name, "detail": detail, "commit": commit}
    about["date"] = str(datetime.datetime.now(datetime.UTC).date())
    written = RESULTS / f"{column}.json"
    written.write_text(json.dumps({**about, "cells": cells}, indent=1) + "\n")
    print(f"{column}: {name}, {wrong} differences, {written.relative_to(ROOT)}", flush=True)
    return wrong


# ---- the page ----


def _text(found: dict, word: str, notes: list[str]) -> str:
    if "different" in found:
        return "**different**"
    if "refused" in found:
        note = found["refused"].replace(f"has dtype {word}", "has this dtype")
        if note not in notes:
            notes.append(note)
        return f"[{notes.index(note) + 1}]"
    return str(len(found["same"]) - 1)  # without the call that names no kernel


def section(column: str) -> str:
    """A device's table; of one that was not there, the sentence."""
    title, needs = COLUMNS[column]
    path = RESULTS / f"{column}.json"
    if not path.exists():
        return f"## {title}\n\nNot run yet: it needs {needs}."
    found = json.loads(path.read_text())
    notes: list[str] = []
    lines = ["| | " + " | ".join(DTYPES) + " |", "| --- " * (len(DTYPES) + 1) + "|"]
    for op in OPS:
        cells = [_text(found["cells"][op][word], word, notes) for word in DTYPES]
        lines.append(f"| {op} | " + " | ".join(cells) + " |")
    said = [f"{k}. {note}" for k, note in enumerate(notes, 1)]
    detail = f" ({found['detail']})" if found["detail"] else ""
    about = f"{found['device']}{detail}, {found['date']}, commit {found['commit']}."
    return "\n".join([f"## {title}", "", about, "", *lines, "", *said])


def page() -> str:
    return "\n\n".join(map(section, COLUMNS))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", help="columns that begin with one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--op")
    parser.add_argument("--device")
    asked = parser.parse_args()
    if asked.op:
        one(asked.op, asked.device)
        return 0
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    found = devices()
    wrong = 0
    for column in COLUMNS:
        if asked.only and not column.startswith(tuple(asked.only)):
            continue
        if column in found:
            wrong += run(column, found[column], asked.jobs)
        else:
            print(f"{column}: not here; it needs {COLUMNS[column][1]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
