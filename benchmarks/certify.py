"""certify - compares what sim counts with what Nsight Compute counts on a GPU.

    python benchmarks/certify.py --collect   on a GPU: writes results/certificate/<device>.json
    python benchmarks/certify.py --check     on any machine: sim against those files

Every row of the CUDA ladders is called once, on small arrays, and its counters are summed by
kernel. `python benchmarks/tables.py` then writes the table of docs/certificate.md.
"""

from __future__ import annotations

import argparse
import csv
import datetime
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
from gpuops.devices import why_not

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from certificate import ENOUGH, EXACT, RESULTS, ROOT, TREND, certificates, source_hash
from certify_rows import call, rows

METRICS = [m for some in {**EXACT, **TREND}.values() for m in some]
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


def counted() -> str:
    """What ncu says of all calls: a line of raw values for each launch, as CSV."""
    ncu = shutil.which("ncu")
    if not ncu:
        sys.exit("certify: Nsight Compute (ncu) is not on the PATH")
    command = [
        ncu, "--csv", "--page", "raw", "--print-kernel-base", "function",
        "--print-units", "base", "--clock-control", "none", "--metrics", ",".join(METRICS),
        sys.executable, __file__, "--call",
    ]  # fmt: skip
    alone = {**os.environ, "GPUOPS_CUDA_GRAPHS": "0"}  # ncu counts launches, not graphs
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=alone)
    if "ERR_NVGPUCTRPERM" in done.stdout:
        sys.exit("certify: this machine keeps the GPU's counters from its users")
    if done.returncode != 0 or '"ID"' not in done.stdout:
        sys.exit(f"certify: ncu failed: {done.stdout[-2000:]}")
    return done.stdout[done.stdout.index('"ID"') :]


def launches(report: str) -> list[tuple[int, str, dict[str, float]]]:
    """(number of the row, kernel, metrics) of each launch."""
    found, number = [], 0
    for line in csv.DictReader(io.StringIO(report)):
        if not line["ID"]:  # the line of units
            continue
        name = re.findall(r"\w+", line["Kernel Name"])[0]
        blocks, threads = (
            int(re.findall(r"\d+", line[key])[0]) for key in ("Grid Size", "Block Size")
        )
        if name == "add_naive_kernel" and threads == MARK:
            number = blocks
        elif number:
            said = {m: float(line[m].replace(",", "")) for m in METRICS}
            found.append((number - 1, name, said))
    return found


def by_row(found, names) -> dict[str, dict]:
    """Row -> kernel -> launches and counters, summed; `active threads` is a mean."""
    made: dict[str, dict] = {f"{op} {kernel}": {} for op, kernel in names}
    for number, name, values in found:
        kernel = made[" ".join(names[number])].setdefault(name, {"launches": 0})
        kernel["launches"] += 1
        for counter, metrics in {**EXACT, **TREND}.items():
            kernel[counter] = kernel.get(counter, 0) + sum(values[m] for m in metrics)
    for kernels in made.values():
        for name, kernel in kernels.items():
            for counter in (*EXACT, "divergent branches"):
                kernel[counter] = int(kernel[counter])
            kernel["active threads"] = round(kernel["active threads"] / kernel["launches"], 2)
            kernel["source"] = source_hash(name)
    return made


def commit() -> str:
    git = ["git", "rev-parse", "--short", "HEAD"]
    known = os.environ.get("GPUOPS_COMMIT")  # where the sources came without their history
    known = known or subprocess.run(git, capture_output=True, text=True, check=False).stdout
    return known.strip() or "unknown"


def collect() -> None:
    if not gpuops.is_available("cuda"):
        sys.exit(f"certify: no GPU to count on: {why_not('cuda')}")
    device = _core.devices("cuda")[0]
    made = by_row(launches(counted()), rows("cuda"))
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False)
    golden = {
        "device": device["name"],
        "detail": device["detail"],
        "ncu": re.findall(r"Version (\S+)", version.stdout)[0],
        "nvcc": json.loads((ROOT / "gpuops" / "_build_info.json").read_text())["cuda"][
            "version"
        ],
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rows": made,
    }
    path = RESULTS / f"{re.sub(r'[^a-z0-9]+', '-', device['name'].lower())}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"certify: {len(made)} rows counted, written to {path.relative_to(ROOT)}")
    for row in (row for row, kernels in made.items() if not kernels):
        print(f"certify: {row} launched nothing")


def check() -> int:
    if not gpuops.is_available("sim"):
        sys.exit(f"certify: no sim to compare with: {why_not('sim')}")
    bad = 0
    for certificate in certificates():
        print(f"{certificate.golden['device']}: {certificate}")
        bad += certificate.share < ENOUGH
        for row in certificate.rows:
            said = [f"{n}: {d}" for n, some in row.differences.items() for d in some]
            if row.stale:
                print(f"  {row.op} {row.kernel}: stale, count again")
            elif said:
                print(f"  {row.op} {row.kernel}: {'; '.join(said)}")
                print(f"    {row.cause or 'no cause is stated'}")
            if not row.stale and bool(said) != bool(row.cause):
                bad += 1
    return int(bad > 0)


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
    return check() if asked.check else 0


if __name__ == "__main__":
    sys.exit(main())
