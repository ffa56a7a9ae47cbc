"""run - times every operation beside its peers and writes benchmarks/results/<device>.json.

    python benchmarks/run.py [op ...] [--device cuda] [--repeat 7] [--small]

Random data, cold caches, contenders interleaved, medians. `copy` is the best device copy of the
same total bytes in the same run: the ceiling of the operations that memory bounds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

import numpy as np

import gpuops

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from peers import peers

RESULTS = pathlib.Path(__file__).parent / "results"
GI = 1 << 30

# op -> (label, shapes, dtype, options); a GPU's sizes. --small divides the long axes by 8.
CASES = {
    "add": [("4 GiB", [(GI // 3,)] * 2, "f4", {})],
    "multiply_add": [("4 GiB", [(GI // 4,)] * 3, "f4", {})],
    "transpose": [
        ("16384² u1", [(16384, 16384)], "u1", {}),
        ("16384² f2", [(16384, 16384)], "f2", {}),
        ("16384² f4", [(16384, 16384)], "f4", {}),
        ("16384² f8", [(16384, 16384)], "f8", {}),
        ("4000² f4", [(4000, 4000)], "f4", {}),
        ("(256, 512, 1024) reversed f4", [(256, 512, 1024)], "f4", {"axes": (2, 1, 0)}),
    ],
    "reduce": [
        ("sum of 4 GiB f4", [(GI,)], "f4", {}),
        ("sum 32768² f4, axis 0", [(32768, 32768)], "f4", {"axis": 0}),
        ("sum 32768² f4, axis 1", [(32768, 32768)], "f4", {"axis": 1}),
        ("sum of 10000 f4", [(10000,)], "f4", {}),
    ],
    "matmul": [
        ("4096 f4", [(4096, 4096)] * 2, "f4", {}),
        ("8192 f4", [(8192, 8192)] * 2, "f4", {}),
        ("4096 f8", [(4096, 4096)] * 2, "f8", {}),
        ("8192 f2", [(8192, 8192)] * 2, "f2", {}),
    ],
    "jacobi_step": [
        ("dense 16384² f4", [(16384, 16384), (16384,), (16384,)], "f4", {"alpha": 1e-6})
    ],
    "rdf": [
        ("44028 points f4", [(44028, 3)], "f4", {"r_max": 1.8, "bins": 512}),
        ("500000 points f4", [(500000, 3)], "f4", {"r_max": 1.8, "bins": 512}),
    ],
}
MEMORY_BOUND = ("add", "multiply_add", "transpose", "reduce", "jacobi_step")


def random_array(rng: np.random.Generator, shape, dtype: str) -> np.ndarray:
    if dtype == "u1":
        return rng.integers(0, 256, shape, np.uint8)
    return rng.random(shape, np.float32).astype(dtype, copy=False)


def measure(op: str, arrays, options, device: str, repeat: int) -> dict[str, float]:
    """name -> median seconds; contenders take turns, so that a drift meets all alike."""
    runs = {}
    for peer in peers(device):
        call = peer.calls(op, [peer.array(a) for a in arrays], options)
        if call is not None:
            peer.timed(call)
            runs[peer.name] = (peer, call, [])
    for _ in range(repeat):
        for peer, call, seconds in runs.values():
            seconds.append(peer.timed(call))
    return {name: statistics.median(seconds) for name, (_, _, seconds) in runs.items()}


def copy_seconds(nbytes: int, device: str, repeat: int) -> float:
    """The best copy, reading and writing `nbytes` together."""
    half = np.random.default_rng(1).integers(0, 256, max(nbytes // 2, 64), np.uint8)
    timings = {}
    for peer in peers(device):
        call = peer.calls("copy", [peer.array(half)], {}) if peer.name == "torch" else None
        if call is not None:
            timings[peer.name] = statistics.median(peer.timed(call) for _ in range(repeat))
    source = half if device == "cpu" else gpuops.to_device(half, device)
    ours = gpuops.benchmark(
        gpuops.transpose, (source,), {"device": device}, n_repeat=repeat, n_warmup=1
    )
    return min([float(ours.kernel), *timings.values()])


def shrink(shapes, by: int) -> list[tuple[int, ...]]:
    return [tuple(max(n // by, 1) if n > 64 else n for n in shape) for shape in shapes]


def run_op(op: str, device: str, repeat: int, by: int) -> list[dict]:
    rows = []
    for label, shapes, dtype, options in CASES[op]:
        rng = np.random.default_rng(0)
        label += f", axes / {by}" if by > 1 else ""
        arrays = [
            random_array(rng, s, dtype) for s in (shrink(shapes, by) if by > 1 else shapes)
        ]
        function = getattr(gpuops, "sum" if op == "reduce" else op)
        plan = gpuops.explain(function, *arrays, device=device, **options)
        row = {
            "op": op,
            "case": label,
            "kernel": plan.kernel,
            "shapes": [a.shape for a in arrays],
        }
        row["seconds"] = measure(op, arrays, options, device, repeat)
        row["bytes"], row["flops"] = plan.bytes, plan.flops
        if op in MEMORY_BOUND:
            row["copy_seconds"] = copy_seconds(int(plan.bytes), device, repeat)
        rows.append(row)
        print(line(row), flush=True)
    return rows


def line(row: dict) -> str:
    ours = row["seconds"]["gpuops"]
    text = f"{row['op']:12} {row['case']:30} {row['kernel']:14} {ours * 1e3:9.3f} ms"
    if "copy_seconds" in row:
        text += (
            f"  {row['bytes'] / ours / 1e9:7.0f} GB/s  {row['copy_seconds'] / ours:5.2f} x copy"
        )
    elif row["op"] == "rdf":
        n = row["shapes"][0][0]
        text += f"  {n * (n - 1) / 2 / ours / 1e9:7.0f} Gpairs/s"
    else:
        text += f"  {row['flops'] / ours / 1e12:7.2f} TFLOP/s"
    for name, seconds in row["seconds"].items():
        if name != "gpuops":
            text += f"  {seconds / ours:6.2f} x {name}"
    return text


def about(device: str) -> dict:
    """What a reader needs to judge the figures by."""
    info = next(d for d in gpuops.devices() if d.device == gpuops.Device(device))
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = os.environ.get("GPUOPS_COMMIT")  # where the sources came without their history
    commit = commit or subprocess.run(git, capture_output=True, text=True).stdout.strip()
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    for module in ("cupy", "torch"):
        if module in sys.modules:
            versions[module] = sys.modules[module].__version__
    return {
        "device": info.name,
        "detail": info.detail,
        "commit": commit,
        "date": datetime.date.today().isoformat(),
        "versions": versions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*", metavar="op", help=", ".join(CASES))
    parser.add_argument("--device", default="cuda" if gpuops.is_available("cuda") else "cpu")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="an eighth of every long axis")
    arguments = parser.parse_args()
    for op in arguments.ops:
        if op not in CASES:
            parser.error(f"there is no operation {op!r}, expected one of {', '.join(CASES)}")
    by = 8 if arguments.small or arguments.device == "cpu" else 1
    facts = about(arguments.device)
    name = re.sub(r"[^a-z0-9]+", "-", facts["device"].lower()).strip("-")
    path = RESULTS / f"{name}.json"
    known = json.loads(path.read_text())["rows"] if path.exists() else {}
    for op in arguments.ops or CASES:
        known[op] = run_op(op, arguments.device, arguments.repeat, by)
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps({**facts, "rows": known}, indent=1) + "\n")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
