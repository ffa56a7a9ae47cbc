"""results - what benchmarks/results holds, and how its figures are said.

Every script that writes or reads results has this from here, not from another script.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
import subprocess
import sys

import numpy as np

import gpuops

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TOLERANCE = 0.01  # of a target


# ---- a file of results ----


def commit() -> str:
    git = ["git", "rev-parse", "--short", "HEAD"]
    known = os.environ.get("GPUOPS_COMMIT")  # where the sources came without their history
    return known or subprocess.run(git, capture_output=True, text=True).stdout.strip()


def about(device: str) -> dict:
    """What a reader needs to judge the figures by."""
    info = next(d for d in gpuops.devices() if d.device == gpuops.Device(device))
    return {"device": info.name, "detail": info.detail}


def versions() -> dict:
    found = {"python": platform.python_version(), "numpy": np.__version__}
    for module in ("cupy", "torch", "numexpr"):
        if module in sys.modules:
            found[module] = str(sys.modules[module].__version__)
    return found


def results_path(facts: dict, suffix: str = "") -> pathlib.Path:
    name = re.sub(r"[^a-z0-9]+", "-", facts["device"].lower()).strip("-")
    return RESULTS / f"{name}{suffix}.json"


def all_results() -> list[dict]:
    paths = sorted(RESULTS.glob("*.json"))
    return [json.loads(p.read_text()) for p in paths if not p.stem.endswith("-ladders")]


def all_ladders() -> dict[str, dict]:
    """Device -> its timed ladders."""
    paths = sorted(RESULTS.glob("*-ladders.json"))
    return {p.stem.removesuffix("-ladders"): json.loads(p.read_text()) for p in paths}


def rows_of(results: dict) -> list[dict]:
    return [row for run in results["ops"].values() for row in run["rows"]]


# ---- a row ----


def rate(row: dict) -> str:
    seconds = row["seconds"]["gpuops"]
    if row["op"] == "rdf":
        return f"{pairs_per_second(row) / 1e9:.0f} Gpairs/s"
    if row["op"] == "matmul":
        return f"{row['flops'] / seconds / 1e12:.3g} TFLOP/s"
    return f"{row['bytes'] / seconds / 1e9:.4g} GB/s"


def pairs_per_second(row: dict) -> float:
    n = row["shapes"][0][0]
    return n * (n - 1) / 2 / row["seconds"]["gpuops"]


def peers_of(row: dict) -> dict[str, float]:
    """name -> how many times as long as gpuops."""
    ours = row["seconds"]["gpuops"]
    return {name: s / ours for name, s in row["seconds"].items() if name != "gpuops"}


def copy_ratio(row: dict) -> float | None:
    return row["copy_seconds"] / row["seconds"]["gpuops"] if "copy_seconds" in row else None


def reached(row: dict, beside: str) -> float | None:
    """What a target is compared with; None where there was nothing to compare with."""
    if beside == "copy":
        return copy_ratio(row)
    if beside == "Gpairs/s":
        return pairs_per_second(row) / 1e9
    if beside == "k calls/s":
        return 1e-3 / row["seconds"]["gpuops"]
    found = peers_of(row)
    return min(found.values(), default=None) if beside == "peers" else found.get(beside)


def is_met(row: dict, beside: str, least: float) -> bool | None:
    value = reached(row, beside)
    return None if value is None else value >= least * (1 - TOLERANCE)


# ---- words and tables ----


def number(x: float) -> str:
    return f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def time_text(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} µs"


def target_cell(row: dict) -> str:
    """Each target beside what was reached: `copy 0.95: met`."""
    words = {True: "met", False: "**not met**", None: "not measured"}
    return "; ".join(
        f"{beside} {number(least)}: {words[is_met(row, beside, least)]}"
        for beside, least in row.get("targets", ())
    )


def line(row: dict) -> str:
    """A row as `run.py` prints it."""
    copy = copy_ratio(row)
    text = f"{row['op']:12} {row['case']:36} {row['kernel']:12}"
    text += f"{time_text(row['seconds']['gpuops']):>9} {rate(row):>14}"
    text += f"  copy {copy:.3f} ({row['copy_by']})" if copy else ""
    text += "".join(f"  {name} {ratio:.2f}" for name, ratio in peers_of(row).items())
    goal = target_cell(row).replace("*", "")
    return text + (f"  [{goal}]" if goal else "")


def markdown(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
