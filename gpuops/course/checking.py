"""checking - check: a learner's kernel, run in another process and graded in this one.

The kernel is C++ that could do anything, so it never runs in the process that asks: player.py
runs it, under limits of time and size, and knows no expected result. What it left is read as
only numbers, compared here, and the score is written here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._compile.built import build_info
from .._compile.sim import compiler
from .._compile.simt import without_comments
from ..devices import Device, get_default_device, parse
from ..devices import check as check_device
from ..errors import flag
from .extract import is_same, source_of, starter_of
from .grading import Left, graded
from .progress import Text, noted
from .progress import hint as help_of
from .progress import solution as solution_of
from .score import Score
from .settings import settings_of
from .task import Case, InOrder, Task
from .tasks import TASKS

_GENERATED = re.compile(r"^\d+ (?:error|warning)s?.* generated\.$", re.M)
_PRINTED = 2000  # characters of its output that are shown


def check(
    task: str,
    kernel: Any,
    *,
    settings: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    device: str | Device | None = None,
) -> Score:
    """Runs a kernel on an exercise's cases, prints what is not right, and returns the score.

    Parameters
    ----------
    task : str
        The exercise, "03".
    kernel : str, path or Program
        CUDA C++, the file that holds it (a notebook: the exercise's string in it), or what
        `gpuops.compile` or `%%kernel` made of it. It runs on sim, in a process of its own,
        compiled anew.
    settings : path, optional
        A lecturer's file of shapes, seeds, points and limits of time instead of the course's,
        or the environment's ``GPUOPS_COURSE``.
    quiet : bool
        Print nothing, and keep nothing for `progress`.
    device : str or Device, optional
        A GPU, such as "cuda". It runs each case in which sim found no mistake, too, and then
        its results are checked. By default the one that a `with` block, the default or
        ``GPUOPS_DEVICE`` names.

    Returns
    -------
    Score
        True if everything is right; `points`, `parts`, `as_dict()`, `json()`.

    Raises
    ------
    KeyError
        There is no such exercise.
    DeviceUnavailableError
        sim is not built, or that GPU is not there.
    CompileError
        There is no C++ compiler. That a kernel does not compile is in the score.
    """
    asked, quiet = task_of(task), flag("check", "quiet", quiet)
    known = settings_of(asked.name, settings)
    check_device(parse("sim") or parse("cpu"))
    compiler()  # where there is none, that is nobody's mistake in a kernel
    where = get_default_device() if device is None else check_device(parse(device))
    gpu = str(where) if where is not None and where.backend == "cuda" else None
    source = source_of(kernel, asked.variable)
    found = _play(asked, source, known, gpu)
    if not quiet:
        print(found)
        if then := noted(found):
            print(f"  {then}")
    return found


def hint(task: str, step: int | None = None) -> Text:
    """A step of help for an exercise: of three the next one, or the one that is asked for.

    >>> gpuops.course.hint("03")    # doctest: +SKIP
    03, hint 1 of 3: Loads go along rows already. ...
    """
    return help_of(task_of(task), step)


def solution(task: str) -> Text:
    """A solution of an exercise, once `check` has given you all points for yours.

    Raises
    ------
    PermissionError
        You do not have all points yet.
    """
    return solution_of(task_of(task))


def task_of(name: object) -> Task:
    """The exercise: "03", also said as "3" or 3."""
    found = re.fullmatch(r"\s*(\d+)([a-z]?)\s*", str(name))
    known = TASKS.get(f"{int(found[1]):02}{found[2]}" if found else "")
    if known is None:
        raise KeyError(f"check: there is no exercise {name!r}, only {', '.join(TASKS)}")
    return known


def _cases(task: Task, settings: dict[str, Any]) -> list[Case]:
    """One of inputs 0, 1, 2, ..., then each shape with each seed; the last one is counted."""
    shapes = [tuple(s) for s in settings["shapes"]]
    cases = [(shape, seed) for shape in shapes for seed in settings["seeds"]]
    cases.append((tuple(settings["counted"]), settings["seeds"][0]))
    made = []
    if task.in_order:
        shape = next((s for s in shapes if max(s) > 1), shapes[0])
        case = task.make(shape, InOrder())
        made.append(replace(case, said=f"{case.said}, inputs 0, 1, 2, ...", in_order=True))
    for shape, seed in cases:
        case = task.make(shape, np.random.default_rng(seed))
        made.append(replace(case, said=f"{case.said}, seed {seed}"))
    return made


def _job(folder: Path, task: Task, cases: list[Case], settings: dict, gpu: str | None):
    """Writes what player.py reads; returns the runs."""
    written = []
    for c, case in enumerate(cases):
        args: list[Any] = []
        for k, x in enumerate(case.args):
            if isinstance(x, np.ndarray):
                np.save(folder / f"in_{c}_{k}.npy", x)
                args.append(f"in_{c}_{k}.npy")
            else:
                args.append(x)
        written.append({
            "args": args, "grid": case.grid, "block": case.block, "shared": case.shared,
            "out": list(case.expected),
        })  # fmt: skip
    runs = []
    for c, case in enumerate(cases):
        # The counted one is large, and the one in order only tells more of a mistake.
        few = case.in_order or c + 1 == len(cases)
        orders = settings["schedules"][:1] if few else settings["schedules"]
        for schedule in orders:
            said = f"{case.said}, schedule {schedule}"
            runs.append({"id": f"{len(runs)}", "case": c, "schedule": schedule, "said": said})
    # On others last: sim's word on a mistake comes before whatever it does there.
    others = [name for name in (gpu, "opencl" if task.opencl else None) if name]
    for device in others:
        for c, case in enumerate(cases):
            said = f"{case.said}, on {device}"
            runs.append({"id": f"{len(runs)}", "case": c, "device": device, "said": said})
    job = {
        "kernel": task.kernel, "cases": written, "runs": runs, "counted": len(cases) - 1,
        "rules": settings["rules"] if task.limits else [], "seconds": settings["seconds"],
        "loop": settings["loop"],
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job))
    return runs


def _environment(folder: Path) -> dict[str, str]:
    """Without the wishes of this process for sim, and with a cache of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GPUOPS_")}
    home = str(Path(__file__).parents[2])
    path = os.pathsep.join(p for p in (home, kept.get("PYTHONPATH")) if p)
    cache = str(folder / "cache")
    return {**kept, "PYTHONPATH": path, "XDG_CACHE_HOME": cache, "POCL_CACHE_DIR": cache}


def _play(task: Task, source: str, settings: dict[str, Any], gpu: str | None) -> Score:
    with tempfile.TemporaryDirectory(prefix="gpuops-check-") as scratch:
        folder = Path(scratch)
        cases = _cases(task, settings)
        written = folder / ("kernel.cl" if task.opencl else "kernel.cu")
        written.write_text(source, encoding="utf-8")
        shipped = is_same(source, starter_of(task.name[:2], task.variable))
        runs = _job(folder, task, cases, settings, gpu)
        seconds = int(settings["seconds"])
        with open(folder / "printed", "wb") as printed:
            started = subprocess.Popen(
                [sys.executable, "-m", "gpuops.course.player", scratch],
                cwd=folder,
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = started.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(started)
        report = _report(folder)
        with open(folder / "printed", errors="replace") as file:
            said = file.read(_PRINTED).strip()
            said += "\n... and more, which is not shown" if file.read(1) else ""
        ended = _ended(code, seconds, report)
        # A compiler's own words are in the score.
        said = "" if "compile" in report else _GENERATED.sub("", said).strip()
        left = Left(runs, report, folder, ended, said, without_comments(source))
        return graded(task, cases, settings, left, shipped)


def _end(started: subprocess.Popen) -> None:
    """The process and whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def _report(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "report.json").read_text())
    except (OSError, ValueError):
        found = None
    empty: dict[str, Any] = {
        "runs": {},
        "counts": {},
        "now": "starting",
        "skipped": [],
        "stopped": False,
        "note": "",
    }
    return {**empty, **found} if isinstance(found, dict) else empty


def _ended(code: int | None, seconds: int, report: dict[str, Any]) -> str:
    """Why the kernel's process ended before it was done; "" if it was done."""
    at = f" (at: {report['now']})" if report["now"] else ""
    if code is None:
        long = f"the kernel ran longer than {seconds} s and was stopped{at}"
        return f"{long}: a loop without an end?"
    if code < 0:
        name = signal.Signals(-code).name
        why = (
            "more memory than it may have?"
            if -code == signal.SIGKILL
            else ("an address outside all memory?")
        )
        return f"the kernel's process was ended by {name}{at}: {why}"
    if code or (report["now"] and "compile" not in report):
        said = f"the kernel's process ended early{at}, with exit status {code}"
        known = build_info().get("sim", {}).get("compiler", "")
        return f"{said}; {known}" if report["now"] in ("starting", "compiling") else said
    return ""
