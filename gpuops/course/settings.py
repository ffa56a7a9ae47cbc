"""settings - a lecturer's file: shapes, seeds, schedules, rules, points and limits of time.

What is wrong in it is said before any kernel runs, so that no learner pays for it.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .tasks import TASKS

RULES = ("sim", "sim:cc10", "sim:cc13", "sim:cc20")
OWN = Path(__file__).with_name("course.toml")
_SCHEDULE = re.compile(r"forward|reversed|lockstep|random:\d+")
_KINDS = ("bits", "errors", "counters")


def settings_of(name: str, file: str | os.PathLike[str] | None) -> dict[str, Any]:
    """An exercise's shapes, seeds, schedules, rules, points and seconds.

    Raises ValueError, in a sentence that names the file and what it has instead of what is
    expected; KeyError where it has no such exercise.
    """
    path = Path(file or os.environ.get("GPUOPS_COURSE") or OWN)
    try:
        known = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"check: {path} is no TOML: {error}") from None
    _only(path, "the file", known, ("all", "tasks"))
    shared = known.get("all", {})
    tasks = known.get("tasks", {})
    if name not in tasks:
        raise KeyError(f"check: {path} has no exercise {name!r}, only {sorted(tasks)}")
    _only(path, "[all]", shared, [k for k in _CHECKS if k not in ("shapes", "counted")])
    _only(path, f"[tasks.{name}]", tasks[name], _CHECKS)
    found = {**shared, **tasks[name]}
    for key, check in _CHECKS.items():
        if key not in found:
            raise ValueError(f"check: {path}: neither [tasks.{name}] nor [all] has `{key}`")
        if said := check(found[key], name):
            raise ValueError(f"check: {path}, exercise {name}: {key} is {found[key]!r}, {said}")
    return found


def validate(file: str | os.PathLike[str]) -> list[str]:
    """What is wrong in a lecturer's file, a sentence for each exercise; [] if nothing is."""
    said = []
    known = tomllib.loads(Path(file).read_text(encoding="utf-8-sig")).get("tasks", {})
    for name in sorted(known):
        if name not in TASKS:
            known_ones = ", ".join(TASKS)
            said.append(f"check: {file}: there is no exercise {name!r}, only {known_ones}")
            continue
        try:
            settings_of(name, file)
        except (ValueError, KeyError) as error:
            said.append(str(error.args[0]))
    return said or ([] if known else [f"check: {file} has no exercises, [tasks.03] and so on"])


def _only(path: Path, where: str, found: dict[str, Any], known: Iterable[str]) -> None:
    for word in found:
        if word not in known:
            near = difflib.get_close_matches(word, known, 1)
            meant = f"; did you mean `{near[0]}`?" if near else f", only {', '.join(known)}"
            raise ValueError(f"check: {path}: {where} has no `{word}`{meant}")


# ---- each word: a sentence on what is wrong with its value, "" if nothing is ----


def _is_whole(x: object, least: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= least


def _shape(x: Any, name: str) -> str:
    task = TASKS[name]
    sizes = task.sizes
    if not isinstance(x, list) or len(x) != len(sizes) or not all(_is_whole(n, 1) for n in x):
        return f"expected [{', '.join(sizes)}], whole numbers from 1 on"
    return task.unfit(tuple(x), False)


def _shapes(x: Any, name: str) -> str:
    if not isinstance(x, list) or not x:
        return "expected a list of shapes, as [[33], [64]]"
    return next((said for shape in x if (said := _shape(shape, name))), "")


def _counted(x: Any, name: str) -> str:
    return _shape(x, name) or TASKS[name].unfit(tuple(x), True)


def _seeds(x: Any, name: str) -> str:
    right = isinstance(x, list) and x and all(_is_whole(n, 0) for n in x)
    return "" if right else "expected a list of whole numbers, as [1, 2]"


def _schedules(x: Any, name: str) -> str:
    right = isinstance(x, list) and x and all(
        isinstance(s, str) and _SCHEDULE.fullmatch(s) for s in x
    )  # fmt: skip
    return "" if right else 'expected some of "forward", "reversed", "lockstep", "random:5"'


def _rules(x: Any, name: str) -> str:
    right = isinstance(x, list) and x and all(r in RULES for r in x)
    return "" if right else f"expected some of {', '.join(RULES)}"


def _seconds(x: Any, name: str) -> str:
    return "" if _is_whole(x, 1) else "expected whole seconds, 1 or more"


def _points(x: Any, name: str) -> str:
    task = TASKS[name]
    kinds = _KINDS if task.limits or task.without else _KINDS[:2]
    right = isinstance(x, dict) and all(
        isinstance(x.get(k), int | float) and x[k] >= 0 for k in kinds
    )
    if not right or set(x) - set(_KINDS):
        return f"expected {{ {', '.join(f'{k} = ...' for k in kinds)} }}, 0 or more each"
    return "" if sum(x[k] for k in kinds) > 0 else "expected some points"


_CHECKS: dict[str, Callable[[Any, str], str]] = {
    "shapes": _shapes,
    "counted": _counted,
    "seeds": _seeds,
    "schedules": _schedules,
    "rules": _rules,
    "seconds": _seconds,
    "loop": _seconds,
    "points": _points,
}
