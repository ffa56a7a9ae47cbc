"""progress - what a learner has done: best points and attempts, in a file of their own.

Only checks from Python are kept, not those of a shell, which grade somebody's. The file is
`course.json` in `$XDG_DATA_HOME/gpuops`, or `~/.local/share/gpuops`; where nothing can be
written, nothing is kept.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import os
import tomllib
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._show.counts_text import columns
from .._show.text import wrapped
from .score import Score
from .task import Task
from .tasks import TASKS

_LAST = "last"  # in the file, beside the exercises: the one that was passed last
OFFER = 3  # failed checks after which a hint is offered
HINTS = tomllib.loads(Path(__file__).with_name("hints.toml").read_text(encoding="utf-8"))
SOLUTIONS = Path(__file__).with_name("solutions.json")


def _file() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "gpuops" / "course.json"


def _known() -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _entry(known: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    return {
        "best": 0.0,
        "most": 100.0,
        "attempts": 0,
        "failed": 0,
        "hints": 0,
        **known.get(name, {}),
    }


def _keep(name: str, entry: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        path = _file()
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        made.write_text(json.dumps({**_known(), name: entry}, indent=1), encoding="utf-8")
        made.replace(path)


def noted(score: Score) -> str:
    """Keeps a check; what to say of it: where a hint, a solution or the next exercise is."""
    entry = _entry(_known(), score.task)
    entry["attempts"] += 1
    entry["failed"] = 0 if score.passed else entry["failed"] + 1
    entry["best"], entry["most"] = max(entry["best"], score.points), score.most
    _keep(score.task, entry)
    if score.passed:
        _keep(_LAST, {"task": score.task})
        after = _next_of(_known())
        then = (
            f"; next is {after}, {TASKS[after].title}" if after else "; all exercises are done"
        )
        # With its module: few notebooks import more of the course than check.
        return f'gpuops.course.solution("{score.task}") shows how another one does it{then}'
    if entry["failed"] >= OFFER and entry["hints"] < len(HINTS[score.task]):
        steps = len(HINTS[score.task])
        return f'stuck? gpuops.course.hint("{score.task}") helps in {steps} steps'
    return ""


def _next_of(known: dict[str, dict[str, Any]]) -> str:
    """The first exercise that is not done: of those behind the one passed last, else of all."""
    last = known.get(_LAST, {}).get("task", "")
    left = [n for n in TASKS if _entry(known, n)["best"] < _entry(known, n)["most"]]
    return next((n for n in left if n > last), left[0] if left else "")


class Text:
    """Words that print as they are, in a notebook too."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__


def hint(task: Task, step: int | None) -> Text:
    steps = HINTS[task.name]
    if step is not None and not 1 <= step <= len(steps):
        raise ValueError(
            f"hint: step is {step}, expected 1 to {len(steps)}, or none for the next"
        )
    entry = _entry(_known(), task.name)
    at = step or min(entry["hints"] + 1, len(steps))
    if step is None:
        entry["hints"] = at
        _keep(task.name, entry)
    said = f"{task.name}, hint {at} of {len(steps)}: {steps[at - 1]}"
    return Text("\n".join(wrapped(said, 4, 94, first=0)))


def solution(task: Task) -> Text:
    entry = _entry(_known(), task.name)
    if entry["best"] < entry["most"]:
        raise PermissionError(
            f"solution: {task.name} is shown once you have all points, and you have "
            f"{entry['best']:g} of {entry['most']:g}; "
            f'gpuops.course.hint("{task.name}") helps in three steps'
        )
    try:
        text = json.loads(SOLUTIONS.read_text())[task.name]
    except (OSError, KeyError):
        raise FileNotFoundError(
            f"solution: there is none of {task.name} here: who gives the course took it out"
        ) from None
    return Text(zlib.decompress(base64.b64decode(text)).decode())


class Progress:
    """A table of all exercises: best points, attempts, hints taken, and what is next."""

    def __init__(self, known: dict[str, dict[str, Any]]) -> None:
        self.rows = [(task, _entry(known, name)) for name, task in TASKS.items()]
        self.next = _next_of(known)

    def __repr__(self) -> str:
        cells = [("", "exercise", "points", "checks", "hints", "")]
        for task, e in self.rows:
            points = f"{e['best']:g} of {e['most']:g}" if e["attempts"] else "-"
            mark = "done" if e["attempts"] and e["best"] >= e["most"] else ""
            mark = "next" if task.name == self.next else mark
            cells.append(
                (task.name, task.title, points, f"{e['attempts']}", f"{e['hints']}", mark)
            )
        done = sum(1 for _, e in self.rows if e["attempts"] and e["best"] >= e["most"])
        return "\n".join([*columns(cells), f"{done} of {len(self.rows)} done"])

    def as_dict(self) -> dict[str, dict[str, Any]]:
        return {task.name: dict(entry) for task, entry in self.rows}


def progress() -> Progress:
    """What you have done in the course, on this machine: prints as a table."""
    return Progress(_known())


def class_csv(files: Iterable[str | os.PathLike[str]]) -> str:
    """The scores of a class as CSV: a row for each file that `check --json` wrote."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(
        ["submission", "exercise", "points", "most", "passed", "bits", "errors", "counters"]
    )
    for file in sorted(map(Path, files)):
        try:
            score = json.loads(file.read_text(encoding="utf-8"))
            parts = [f"{t['score']:g}" for t in score["tests"]]
            points = f"{score['score']:g}", f"{score['max_score']:g}"
            row = [score["task"], *points, "yes" if score["passed"] else "no"]
        except (ValueError, KeyError, TypeError):
            table.writerow([file.stem, "", 0, "", "not graded"])
            continue
        table.writerow([file.stem, *row, *parts, *[""] * (3 - len(parts))])
    return out.getvalue()
