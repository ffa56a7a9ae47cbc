"""grading - from what a kernel left behind to points and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .._compile.simt import without_comments
from .score import Part, Score
from .task import Case, Tally, Task, unwritten

_SHOWN = 3  # sentences of a kind
_NUMBERS = re.compile(r"(?<![\w:.])\d+")  # of threads and bytes, not of a line: kernel.cu:5


def _load(path: Path, like: np.ndarray) -> np.ndarray | None:
    """An array that the kernel's process wrote; None if it is no such array."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.dtype == like.dtype and found.shape == like.shape else None


def _difference(case: Case, k: int, got: np.ndarray, name: str) -> str:
    """The first element that is not what is expected, in a sentence; "" if all are."""
    expected = case.expected[k]
    if case.total:
        parts = got[got != unwritten((), got.dtype.str)[()]]
        total, right = int(parts.sum(dtype="i8")), int(expected.sum(dtype="i8"))
        missing = got.size - parts.size
        if total == right and not missing:
            return ""
        some = f"; {missing} of its {got.size} elements are never written" if missing else ""
        return f"the elements of {name} add up to {total}, expected {right}{some}"
    bits = f"u{got.dtype.itemsize}"
    if k in case.within:
        wrong = ~(np.abs(got.astype("f8") - expected) <= case.within[k])
    else:
        wrong = got.view(bits) != expected.view(bits)
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = ", ".join(map(str, first))
    fill = unwritten((), got.dtype.str)
    still = got.view(bits) == fill.view(bits)
    count = f"{int(wrong.sum())} of {wrong.size} elements differ"
    if k in case.within:
        count = (
            f"{int(wrong.sum())} of {wrong.size} elements are further off than {case.allowed}"
        )
    if still[first]:
        return f"{name}[{at}] is never written, expected {expected[first]!s}; {count}"
    return f"{name}[{at}] is {got[first]!s}, expected {expected[first]!s}; {count}"


def _names(task: Task) -> list[str]:
    """Of the kernel's parameters."""
    inside = task.signature.partition("(")[2].rpartition(")")[0]
    return [p.split()[-1].lstrip("*") for p in inside.split(",")]


def _bits_of(task: Task, case: Case, run: dict, folder: Path) -> str:
    """What is wrong with the result of one run; "" if nothing is."""
    got: dict[int, np.ndarray] = {}
    for k, expected in case.expected.items():
        found = _load(folder / f"out_{run['id']}_{k}.npy", case.args[k])
        if found is None:
            return "no result was left"
        got[k] = found.reshape(expected.shape) if found.size == expected.size else found
    for k in case.expected:
        said = _difference(case, k, got[k], _names(task)[k])
        if said:
            hints = [hint for test, hint in task.hints if test(case, got)]
            return f"{run['said']}: {said}" + "".join(f"\n{hint}" for hint in hints[:1])
    return ""


def _bits(task, cases, runs, report, folder, ended) -> tuple[float, list[str], list[str]]:
    """The share of cases that are right in every order; sentences on bits, and on mistakes."""
    wrong: dict[int, str] = {}
    mistakes: dict[str, str] = {}  # the first of each line, and of each kind
    for run in runs:
        c = run["case"]
        left = report["runs"].get(run["id"])
        if "device" in run and (mistakes or run["id"] in report["skipped"]):
            continue  # not tried there
        if not isinstance(left, dict):
            wrong.setdefault(c, f"{run['said']}: did not run to its end")
        elif left.get("error"):
            said = str(left["error"])
            wrong.setdefault(c, f"{run['said']}: stopped by what is said below")
            if not left.get("mistake"):
                said += f"; the exercise asks for {task.signature}"
            mistakes.setdefault(_NUMBERS.sub("", said), said)
        elif said := _bits_of(task, cases[c], run, folder):
            wrong.setdefault(c, said)
    if ended:
        mistakes[ended] = ended
    return 1 - len(wrong) / len(cases), _told_once(wrong.values()), list(mistakes.values())


def _told_once(said: Iterable[str]) -> list[str]:
    """Without a second line, a hint, that was there before."""
    seen: set[str] = set()
    made = []
    for one in said:
        first, *hints = one.split("\n")
        made.append("\n".join([first, *(h for h in hints if h not in seen)]))
        seen |= set(hints)
    return made


def _counters(task: Task, case: Case, settings, report) -> tuple[float, list[str]]:
    """The share of limits that are kept, over all rule sets, and sentences on the others."""
    kept, said = 0, []
    for rules in settings["rules"]:
        left = report["counts"].get(rules)
        if not isinstance(left, dict) or left.get("error"):
            why = left.get("error") if isinstance(left, dict) else "nothing was counted"
            said.append(f"{rules}: {why}")
            continue
        tally = Tally(left["kernels"])
        for limit in task.limits:
            value, most = limit.value(tally), limit.most(case)
            if value <= most:
                kept += 1
                continue
            where = limit.where(tally)
            by = "" if rules == "sim" else f" by the rules of {rules}"
            size = case.said.partition(", seed")[0]
            found = f"{limit.what} {value:.6g}{by}, expected at most {most:.6g}"
            said.append(f"{size}: {found}{f' ({where})' if where else ''}\n{limit.hint}")
    return kept / (len(settings["rules"]) * len(task.limits)), _told_once(said)


def _cut(said: list[str]) -> tuple[str, ...]:
    rest = len(said) - _SHOWN
    return (*said[:_SHOWN], *([f"and {rest} more"] if rest > 0 else []))


def graded(
    task: Task,
    cases: list[Case],
    runs: list[dict],
    settings: dict[str, Any],
    report: dict[str, Any],
    folder: Path,
    ended: str,
    printed: str,
) -> Score:
    points = settings["points"]
    written = folder / ("kernel.cl" if task.opencl else "kernel.cu")
    plain = without_comments(written.read_text("utf-8"))
    unwanted = [said for word, said in task.without if re.search(word, plain)]
    if report.get("compile"):
        parts = [Part(kind, 0.0, float(most)) for kind, most in points.items()]
        first = parts[0]
        parts[0] = Part(first.kind, 0.0, first.most, (str(report["compile"]),))
        return Score(task.name, task.title, tuple(parts), printed)
    share, wrong, mistakes = _bits(task, cases, runs, report, folder, ended)
    made = [Part("bits", round(points["bits"] * share, 2), points["bits"], _cut(wrong))]
    # A kernel that does nothing makes no mistake and asks for nothing: no points for that.
    some = share > 0 and not mistakes
    said = mistakes or ([] if some else ["given once a result is right"])
    made.append(Part("errors", points["errors"] * some, points["errors"], _cut(said)))
    if task.limits or task.without:
        kept, over = 0.0, ["counted once all results are right"]
        if unwanted:
            over = unwanted
        elif share == 1 and not mistakes and not task.limits:
            kept, over = 1.0, []
        elif share == 1 and not mistakes:
            kept, over = _counters(task, cases[-1], settings, report)
        got = round(points["counters"] * kept, 2)
        made.append(Part("counters", got, points["counters"], _cut(over)))
    return Score(task.name, task.title, tuple(made), printed, str(report["note"]))
