"""player - runs a learner's kernel in a process of its own, and writes down what came of it.

`python -m gpuops.course.player FOLDER`: the folder holds kernel.cu, job.json and arrays. It
knows no expected results: checking.py, in the process that started it, compares and scores.
What is written after each step is whole, so that a crash or the time limit leaves the rest.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import warnings
from pathlib import Path

import numpy as np

import gpuops

from .._compile import watch
from . import opencl

_FILE_BYTES = 256 << 20
_REFUSALS = (gpuops.Error, gpuops.SimWarning, TypeError, ValueError, OverflowError)
# Said by sim where all that is missing are stores: the kernel can run on, its places checked.
_NOBODY_STORES = "though all have passed a barrier"
_IN_A_LOOP = "waits in a loop for a value that no thread will store"  # also said by sim


def _write(folder: Path, report: dict) -> None:
    made = folder / "report.new"
    made.write_text(json.dumps(report))
    os.replace(made, folder / "report.json")


def _arguments(folder: Path, case: dict) -> list:
    return [np.load(folder / a) if isinstance(a, str) else a for a in case["args"]]


def _launch(kernel, case: dict, args: list) -> None:
    place = tuple(case["grid"]), tuple(case["block"])
    kernel[(*place, case["shared"]) if case["shared"] else place](*args)


def _kernel(folder: Path, job: dict, device: str):
    source = next(p for p in (folder / "kernel.cl", folder / "kernel.cu") if p.exists())
    program = gpuops.compile(source.read_text(encoding="utf-8"), device=device)
    names = list(program.kernels)
    return program.kernels[job["kernel"] if job["kernel"] in names else names[-1]]


def _run(folder: Path, kernel, case: dict, run: dict) -> dict:
    args = _arguments(folder, case)
    turns, _, seed = run.get("schedule", "forward").partition(":")
    try:
        with gpuops.schedule(turns, seed=int(seed or 0), checks=True):
            _launch(kernel, case, args)
    except gpuops.SimWarning as error:  # an error here: main says so
        return {"error": _endless(str(error)), "mistake": True, "endless": True}
    except _REFUSALS as error:
        if _NOBODY_STORES in str(error):
            _go_on(folder, kernel, case, run)
        waits = _IN_A_LOOP in str(error)  # for seconds, and in every other order too
        mistake = isinstance(error, gpuops.DeviceError)
        return {"error": str(error), "mistake": mistake, "endless": waits}
    _leave(folder, case, run, args)
    return {"error": None}


def _endless(said: str) -> str:
    """sim's warning as a mistake."""
    said = said.replace(" s and goes on;", " s and was stopped;")
    return said.replace("; Ctrl-C stops it", "")


def _go_on(folder: Path, kernel, case: dict, run: dict) -> None:
    """For a hint: what the result would be. A profile checks places, and no order."""
    args = _arguments(folder, case)
    try:
        gpuops.profile(lambda: _launch(kernel, case, args), device="sim")
    except _REFUSALS:
        return
    _leave(folder, case, run, args)


def _leave(folder: Path, case: dict, run: dict, args: list) -> None:
    for k in case["out"]:
        np.save(folder / f"out_{run['id']}_{k}.npy", args[k])


def _elsewhere(folder: Path, job: dict, case: dict, run: dict) -> dict:
    """On a GPU, or by OpenCL."""
    try:
        return _run(folder, _kernel(folder, job, run["device"]), case, run)
    except _REFUSALS as error:
        return {"error": f"on {run['device']}: {error}", "mistake": True}


def _count(folder: Path, kernel, case: dict, rules: str) -> dict:
    args = _arguments(folder, case)
    try:
        found = gpuops.profile(lambda: _launch(kernel, case, args), device=rules)
    except _REFUSALS as error:
        return {"error": str(error)}
    return {"error": None, "kernels": list(found.as_dict().values())}


def _limit(seconds: int) -> None:
    """Before anything of the kernel's: limits of the time of all cores, and of a file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    cpu = seconds * (os.cpu_count() or 1) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    _limit(int(job["seconds"]))
    watch.PATIENCE = float(job["loop"])
    warnings.simplefilter("error", gpuops.SimWarning)
    report: dict = {
        "runs": {}, "counts": {}, "now": "compiling", "skipped": [], "stopped": False
    }  # fmt: skip
    why = opencl.missing() if (folder / "kernel.cl").exists() else ""
    report["note"] = f"only on sim: {why}" if why else ""
    _write(folder, report)
    try:
        kernel = _kernel(folder, job, "sim")
    except gpuops.CompileError as error:
        report["compile"] = str(error)
        _write(folder, report)
        return
    for run in job["runs"]:
        report["now"] = run["said"]
        _write(folder, report)
        case = job["cases"][run["case"]]
        if report["stopped"]:
            break  # it would be stopped again
        if run.get("device") == "opencl" and report["note"]:
            report["skipped"].append(run["id"])
        elif "device" not in run:
            report["runs"][run["id"]] = _run(folder, kernel, case, run)
            report["stopped"] = report["runs"][run["id"]].get("endless", False)
        elif not any(found["error"] for found in report["runs"].values()):
            report["runs"][run["id"]] = _elsewhere(folder, job, case, run)
    whole = not any(found["error"] for found in report["runs"].values())
    for rules in job["rules"] if whole else ():
        report["now"] = f"counting by the rules of {rules}"
        _write(folder, report)
        case = job["cases"][job["counted"]]
        report["counts"][rules] = _count(folder, kernel, case, rules)
    report["now"] = None
    _write(folder, report)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
