"""certify - compares what sim counts with what Nsight Compute counts on a GPU.

    python benchmarks/certify.py --collect   on a GPU: writes results/certificate/<device>.json
    python benchmarks/certify.py --check     without one: sim against those files, row by row

Every row of the CUDA ladders is called once, on small arrays. A row's counters are summed by
kernel. What `EXACT` lists has to be equal, or `CAUSES` states why it is not; what `TREND` lists
is shown and never compared.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np

import gpuops
from gpuops import _core
from gpuops.devices import open_backend, why_not

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = ROOT / "csrc" / "cuda"
RESULTS = ROOT / "benchmarks" / "results" / "certificate"

# sim's name of a counter -> Nsight Compute's, which are added up.
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
EXACT = {
    "global load requests": [GLOBAL.format("requests", "ld")],
    "global load sectors": [GLOBAL.format("sectors", "ld")],
    "global store requests": [GLOBAL.format("requests", "st")],
    "global store sectors": [GLOBAL.format("sectors", "st")],
    "shared wavefronts": ["memory_l1_wavefronts_shared"],
    "shared wavefronts, ideal": ["memory_l1_wavefronts_shared_ideal"],
}
TREND = {
    "global atomic requests": [GLOBAL.format("requests", op) for op in ("atom", "red")],
    "threads active": ["smsp__thread_inst_executed_per_inst_executed.ratio"],
    "divergent branches": ["smsp__sass_branch_targets_threads_divergent.sum"],
}

# ---- the calls ----


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)


def laplacian(n: int):
    """The 5-point stencil on an n x n grid, in CSR."""
    import scipy.sparse

    line = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    return scipy.sparse.csr_array(scipy.sparse.kronsum(line, line), dtype=np.float32)


# op -> kernel -> (arguments, options); "" stands for the kernels that are not listed. Sizes are
# no multiples of a tile where the kernel allows it, and small enough for any number of
# multiprocessors to get the same grid.
CALLS = {
    "add": {"": lambda: ((random(40_000), random(40_000)), {})},
    "multiply_add": {"": lambda: ((random(40_000), random(40_000), random(40_000)), {})},
    "fma": {"": lambda: ((random(40_000), random(40_000), random(40_000)), {})},
    "transpose": {
        "": lambda: ((random(200, 136),), {}),
        "vectorized": lambda: ((random(10, 20, 64),), {"axes": (1, 0, 2)}),
        "boxed": lambda: ((random(20, 7, 90),), {"axes": (2, 0, 1)}),
        "shifted": lambda: ((random(201, 135),), {}),
    },
    "reduce": {
        "": lambda: ((random(20_000),), {}),
        "columns": lambda: ((random(2_100, 100),), {"axis": 0}),
    },
    "matmul": {
        "": lambda: ((random(70, 50), random(50, 90)), {}),
        "blocktiled": lambda: ((random(150, 50), random(50, 140)), {}),
        "splitk": lambda: ((random(20, 6_000), random(6_000, 24)), {}),
    },
    "jacobi_step": {
        "": lambda: ((random(100, 100), random(100), random(100)), {}),
        "block": lambda: ((random(2_200, 2_200), random(2_200), random(2_200)), {}),
        "column": lambda: ((np.asfortranarray(random(100, 100)), random(100), random(100)), {}),
        "staged": lambda: ((laplacian(20), random(400), random(400)), {}),
    },
    "rdf": {"": lambda: ((random(700, 3), 0.5, 64), {})},
}


def rows(backend: str) -> list[tuple[str, str]]:
    """(op, kernel) of every row of the CUDA ladders; `backend` is cuda or sim."""
    open_backend(backend)
    return [(op, row["name"]) for op in CALLS for row in _core.ladder(op, backend)]


def call(op: str, kernel: str, device: str) -> None:
    """One launch, or several, of the row's kernels."""
    args, options = CALLS[op].get(kernel, CALLS[op][""])()
    options = {"kernel": kernel, "device": device, **options}
    if next(r for r in _core.ladder(op, device) if r["name"] == kernel)["role"] == "yardstick":
        gpuops.benchmark(op, args, options, n_repeat=1, n_warmup=0, cold=False)
    else:
        getattr(gpuops, op)(*args, **options)


# ---- collecting, on a GPU ----

MARK = 1024  # threads of a block of the call that comes before each row's


def call_all() -> None:
    """Every row's call, behind an addition of as many blocks as its number tells."""
    for number, (op, kernel) in enumerate(rows("cuda"), 1):
        ones = np.ones(MARK * number, np.int8)
        gpuops.add(ones, ones, kernel="naive", params={"threads": MARK}, device="cuda")
        try:
            call(op, kernel, "cuda")
        except gpuops.KernelRefusedError as refusal:
            print(f"certify: {op} {kernel}: {refusal}", file=sys.stderr)


def launches(report: str) -> list[tuple[int, str, dict[str, float]]]:
    """(number of the row, kernel, metrics) of each launch in ncu's page of raw values."""
    found, number = [], 0
    lines = report[report.index('"ID"') :]
    for line in csv.DictReader(io.StringIO(lines)):
        if not line["ID"]:  # the line of units
            continue
        blocks, threads = (
            int(re.findall(r"\d+", line[key])[0]) for key in ("Grid Size", "Block Size")
        )
        name = re.findall(r"\w+", line["Kernel Name"])[0]
        if name == "add_naive_kernel" and threads == MARK:
            number = blocks
            continue
        values = {}
        for key, value in line.items():
            if re.match(r"l1tex__|smsp__|memory_", key) and value:
                values[key] = float(value.replace(",", ""))
        found.append((number, name, values))
    return found


def by_kernel(found, names) -> dict:
    """Rows -> kernels -> launches and counters."""
    made: dict = {f"{op} {kernel}": {} for op, kernel in names}
    for number, name, values in found:
        if number == 0:
            continue
        kernel = made[" ".join(names[number - 1])].setdefault(name, {"launches": 0})
        kernel["launches"] += 1
        for counter, metrics in {**EXACT, **TREND}.items():
            some = [values[m] for m in metrics if m in values]
            if some:
                kernel.setdefault(counter, []).append(sum(some))
    for kernels in made.values():
        for kernel in kernels.values():
            for counter in {**EXACT, **TREND}:
                each = kernel.get(counter)
                if each is None:
                    continue
                ratio = counter == "threads active"
                kernel[counter] = round(sum(each) / len(each), 2) if ratio else int(sum(each))
    return made


def profiler(metrics: list[str]) -> str:
    """What ncu says of all calls, as CSV."""
    ncu = shutil.which("ncu")
    if not ncu:
        sys.exit("certify: Nsight Compute (ncu) is not on the PATH")
    command = [
        ncu, "--csv", "--page", "raw", "--print-kernel-base", "function",
        "--print-units", "base", "--clock-control", "none", "--metrics", ",".join(metrics),
        sys.executable, __file__, "--call",
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if "ERR_NVGPUCTRPERM" in done.stdout:
        sys.exit("certify: this machine keeps the GPU's counters from its users")
    if done.returncode != 0 or '"ID"' not in done.stdout:
        sys.exit(f"certify: ncu failed: {done.stdout[-2000:]}")
    return done.stdout


def commit() -> str:
    git = ["git", "rev-parse", "--short", "HEAD"]
    known = os.environ.get("GPUOPS_COMMIT")  # where the sources came without their history
    known = known or subprocess.run(git, capture_output=True, text=True, check=False).stdout
    return known.strip() or "unknown"


def collect() -> None:
    if not gpuops.is_available("cuda"):
        sys.exit(f"certify: no GPU to count on: {why_not('cuda')}")
    device = _core.devices("cuda")[0]
    report = profiler([m for ms in {**EXACT, **TREND}.values() for m in ms])
    made = by_kernel(launches(report), rows("cuda"))
    said = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False)
    info = json.loads((ROOT / "gpuops" / "_build_info.json").read_text())["cuda"]
    golden = {
        "device": device["name"],
        "detail": device["detail"],
        "ncu": re.findall(r"Version (\S+)", said.stdout)[0],
        "nvcc": info["version"],
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rows": made,
    }
    for row in made.values():
        for name, kernel in row.items():
            kernel["source"] = source_hash(name)
    path = RESULTS / f"{re.sub(r'[^a-z0-9]+', '-', device['name'].lower())}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"certify: {len(made)} rows counted, written to {path.relative_to(ROOT)}")


# ---- sources ----


def code(path: pathlib.Path) -> str:
    """A file without its comments and line breaks: what a compiler reads."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", path.read_text(), flags=re.S)
    return " ".join(text.split())


def source_hash(kernel: str) -> str:
    """SHA-256 of the file that defines a kernel and of all of csrc/cuda that it includes."""
    files = [p for p in sorted(CUDA.glob("*.[ch]*")) if re.search(rf"{kernel}\(", code(p))]
    for path in files:  # grows
        for name in re.findall(r'#include "cuda/(\w+\.h)"', path.read_text()):
            if CUDA / name not in files:
                files.append(CUDA / name)
    return hashlib.sha256("\n".join(code(p) for p in sorted(files)).encode()).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--collect", action="store_true", help="count on a GPU")
    what.add_argument("--check", action="store_true", help="compare sim with what was counted")
    what.add_argument("--call", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.call:
        call_all()
    elif asked.collect:
        collect()
    return 0


if __name__ == "__main__":
    sys.exit(main())
