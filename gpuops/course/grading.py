"""grading - from what a kernel left behind to points and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .picture import Picture, picture_of
from .score import Part, Score
from .task import Case, Tally, Task, is_unwritten, unwritten

_SHOWN = 3  # sentences of a kind
# Of threads, elements and bytes, not of a line: kernel.cu:5.
_NUMBERS = re.compile(r"(?<![\w:.])-?\d+")
# sim's mistake of which a result may be looked at: all that is missing are stores.
_NOBODY_STORES = "though all have passed a barrier"


@dataclass(frozen=True)
class Left:
    """What a kernel's process left behind: report.json, arrays, and what it printed."""

    runs: list[dict]
    report: dict[str, Any]
    folder: Path
    ended: str
    printed: str
    source: str  # without its comments


def _load(path: Path, like: np.ndarray) -> np.ndarray | None:
    """An array that the kernel's process wrote; None if it is no such array."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.dtype == like.dtype and found.shape == like.shape else None


def _wrong(case: Case, k: int, got: np.ndarray) -> np.ndarray:
    """Which elements are not what is expected."""
    expected = case.expected[k]
    if k in case.within:
        return ~(np.abs(got.astype("f8") - expected) <= case.within[k])
    bits = f"u{got.dtype.itemsize}"
    return got.view(bits) != expected.view(bits)


def _difference(case: Case, k: int, got: np.ndarray, names: list[str]) -> str:
    """The first element that is not what is expected, in a sentence; "" if all are."""
    expected, name = case.expected[k], names[k]
    if case.total:
        parts = got[got != unwritten((), got.dtype.str)[()]]
        total, right = int(parts.sum(dtype="i8")), int(expected.sum(dtype="i8"))
        missing = np.flatnonzero(got == unwritten((), got.dtype.str)[()])
        if total == right and not len(missing):
            idle = np.flatnonzero(got == 0) if case.busy else ()
            return f"{name}[{idle[0]}] is 0: that block adds nothing" if len(idle) else ""
        if not len(missing):
            return f"the elements of {name} add up to {total}, expected {right}"
        return (
            f"{name}[{missing[0]}] is as before the kernel, as {len(missing)} of its "
            f"{got.size} elements are; the others add up to {total}, expected {right} in all"
        )
    wrong = _wrong(case, k, got)
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = ", ".join(map(str, first))
    still = is_unwritten(got)
    how = f"are further off than {case.allowed}" if k in case.within else "differ"
    count = f"; {int(wrong.sum())} of {wrong.size} elements {how}" if wrong.size > 1 else ""
    wanted = expected[first].astype(got.dtype)
    right = f"{wanted!s}{_origin(case, expected[first], names)}"
    if still[first]:
        return f"{name}[{at}] is never written, expected {right}{count}"
    value = f"{got[first]!s}{_origin(case, got[first], names)}"
    return f"{name}[{at}] is {value}, expected {right}{count}"


def _origin(case: Case, value: Any, names: list[str]) -> str:
    """ ", that of in[0, 32]": which element of the only input holds a value."""
    arrays = [k for k, a in enumerate(case.args) if isinstance(a, np.ndarray)]
    inputs = [k for k in arrays if k not in case.expected]
    if not case.in_order or len(inputs) != 1:
        return ""
    moved = all(np.isin(right, case.args[inputs[0]]).all() for right in case.expected.values())
    at = np.argwhere(case.args[inputs[0]] == value)
    if not moved or len(at) != 1:
        return ""
    return f", that of {names[inputs[0]]}[{', '.join(map(str, at[0]))}]"


def _names(task: Task) -> list[str]:
    """Of the kernel's parameters."""
    inside = task.signature.partition("(")[2].rpartition(")")[0]
    return [p.split()[-1].lstrip("*") for p in inside.split(",")]


def _got(case: Case, run: dict, left: Left) -> dict[int, np.ndarray] | None:
    got: dict[int, np.ndarray] = {}
    for k, expected in case.expected.items():
        found = _load(left.folder / f"out_{run['id']}_{k}.npy", case.args[k])
        if found is None:
            return None
        got[k] = found.reshape(expected.shape) if found.size == expected.size else found
    return got


def _hint(task: Task, case: Case, got: dict[int, np.ndarray], left: Left) -> str:
    names = _names(task)
    for k, found in got.items():
        added = rf"\b{names[k]}\s*\[[^;=]*\]\s*[-+*/]="
        if is_unwritten(found).any() and re.search(added, left.source):
            return f"\n{names[k]} holds no number at the start: store to it by =, add nothing."
    for test, hint, *only in task.hints:
        if only and not re.search(only[0], left.source):
            continue
        if found := test(case, got):
            return f"\n{hint.format(found)}"
    return ""


def _bits_of(task: Task, case: Case, run: dict, left: Left) -> str:
    """What is wrong with the result of one run; "" if nothing is."""
    got = _got(case, run, left)
    if got is None:
        return "no result was left"
    for k in case.expected:
        if said := _difference(case, k, got[k], _names(task)):
            return f"{run['said']}: {said}{_hint(task, case, got, left)}"
    return ""


def _hint_of_stopped(task: Task, case: Case, run: dict, said: str, left: Left) -> str:
    """The exercise's own word on a kernel that sim stopped, where it left a result all the
    same: player.py lets it run on where all that is missing are stores."""
    got = _got(case, run, left) if _NOBODY_STORES in said else None
    if not got or not any(_difference(case, k, got[k], _names(task)) for k in got):
        return ""
    return _hint(task, case, got, left)


def _picture(task: Task, cases: list[Case], left: Left) -> Picture | None:
    """Of the first result that is wrong, else of the first."""
    first = None
    for run in left.runs:
        case = cases[run["case"]]
        got = None if case.total else _got(case, run, left)
        if not got:
            continue
        k, found = next(iter(got.items()))
        wrong = _wrong(case, k, found)
        title = f"{_names(task)[k]}, {run['said']}"
        made = picture_of(case, title, wrong, is_unwritten(found))
        if wrong.any():
            return made
        first = first or made
    return first


def _bits(task, cases, left: Left) -> tuple[float, list[str], list[str]]:
    """The share of cases that are right in every order; sentences on bits, and on mistakes."""
    wrong: dict[int, str] = {}  # results, and what ended without one
    stopped: dict[int, tuple[str, str]] = {}
    mistakes: dict[str, str] = {}  # the first of each line, and of each kind
    report = left.report
    for run in left.runs:
        c = run["case"]
        found = report["runs"].get(run["id"])
        if "device" in run and (mistakes or run["id"] in report["skipped"]):
            continue  # not tried there
        if not isinstance(found, dict):
            why = "not tried after that" if report["stopped"] else "did not run to its end"
            wrong.setdefault(c, f"{run['said']}: {why}")
        elif found.get("error"):
            said = str(found["error"])
            hint = _hint_of_stopped(task, cases[c], run, said, left)
            stopped.setdefault(c, (f"{run['said']}: stopped by what is said below", hint))
            if not found.get("mistake"):
                said += f"; the exercise asks for {task.signature}"
            mistakes.setdefault(_NUMBERS.sub("", said), said)
        elif said := _bits_of(task, cases[c], run, left):
            wrong.setdefault(c, said)
    if left.ended:
        mistakes[left.ended] = left.ended
    # A result tells more than a kernel that was stopped, whose hint is for want of one.
    alone = not any(c not in stopped for c in wrong)
    said = [text for c, text in wrong.items() if c not in stopped]
    said += [text + hint * alone for text, hint in stopped.values()]
    share = 1 - len(wrong.keys() | stopped.keys()) / len(cases)
    # Who mends a barrier first often mends the others with it.
    first = sorted(mistakes.values(), key=lambda said: "barrier in divergent code" not in said)
    return share, _told_once(said), first


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
    """The share of rule sets by which all limits are kept, and sentences on the others."""
    kept, said = 0, []
    for rules in settings["rules"]:
        left = report["counts"].get(rules)
        if not isinstance(left, dict) or left.get("error"):
            why = left.get("error") if isinstance(left, dict) else "nothing was counted"
            said.append(f"{rules}: {why}")
            continue
        tally = Tally(left["kernels"])
        over = [limit for limit in task.limits if limit.value(tally) > limit.most(case)]
        kept += not over
        for limit in over:
            value, most = limit.value(tally), limit.most(case)
            where = limit.where(tally)
            by = "" if rules == "sim" else f" by the rules of {rules}"
            size = case.said.partition(", seed")[0]
            found = f"{limit.what} {value:.6g}{by}, expected at most {most:.6g}"
            said.append(f"{size}: {found}{f' ({where})' if where else ''}\n{limit.hint}")
    return kept / len(settings["rules"]), _told_once(said)


def _cut(said: list[str]) -> tuple[str, ...]:
    rest = len(said) - _SHOWN
    return (*said[:_SHOWN], *([f"and {rest} more"] if rest > 0 else []))


def graded(
    task: Task, cases: list[Case], settings: dict[str, Any], left: Left, shipped: bool
) -> Score:
    """`shipped`: the kernel is the one that the exercise begins with, which earns nothing."""
    points, report = settings["points"], left.report
    unwanted = [said for word, said in task.without if re.search(word, left.source)]
    if report.get("compile"):
        parts = [Part(kind, 0.0, float(most)) for kind, most in points.items()]
        first = parts[0]
        parts[0] = Part(first.kind, 0.0, first.most, (str(report["compile"]),))
        return Score(task.name, task.title, tuple(parts), left.printed)
    share, wrong, mistakes = _bits(task, cases, left)
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
    if shipped:
        made = [_unearned(part) for part in made]
    picture = _picture(task, cases, left)
    return Score(task.name, task.title, tuple(made), left.printed, str(report["note"]), picture)


def _unearned(part: Part) -> Part:
    given = f"{part.points:g} points' worth is in the kernel that the exercise begins with"
    return replace(part, points=0.0, said=(*part.said, *([given] if part.points else [])))
