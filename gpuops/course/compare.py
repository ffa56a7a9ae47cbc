"""compare - what a reader predicted beside what was counted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .._show.counts_text import columns

_NEAR = 0.25  # of what was counted
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def _number(guess: object) -> float | None:
    """A guess as a number; of words, "about 4", the first one in them."""
    if guess is None or isinstance(guess, bool):
        return None
    try:
        return float(guess)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = _NUMBER.search(str(guess))
        return float(found[0]) if found else None


def _verdict(guess: object, value: float) -> str:
    number = _number(guess)
    if number is None:
        return "" if guess is None else "no number"
    if number == value:
        return "right"
    return "near" if abs(number - value) <= _NEAR * abs(value) else "no"


class Compared:
    """A table that prints: a row for each question, the guess, the count, and how near."""

    def __init__(self, guess: Mapping[str, object], counted: Mapping[str, float]) -> None:
        self.rows = [(name, guess.get(name), value) for name, value in counted.items()]
        self.unknown = [name for name in guess if name not in counted]

    def __repr__(self) -> str:
        cells = [("", "predicted", "counted", "")]
        said = []
        for name, guess, value in self.rows:
            said.append(_verdict(guess, value))
            shown = "-" if guess is None else str(guess)
            if isinstance(guess, int | float):
                shown = f"{guess:g}"
            cells.append((name, shown, f"{value:g}", said[-1]))
        lines = list(columns(cells))
        right = said.count("right")
        if right == len(said) > 1:
            lines.append(f"all {right} right: well predicted")
        elif any(said):
            lines.append(f"{right} of {len(said)} right, {said.count('near')} near")
        if self.unknown:
            lines.append(f"not asked: {', '.join(map(str, self.unknown))}")
        return "\n".join(lines)


def compare(guess: Mapping[str, object], counted: Mapping[str, float]) -> Compared:
    """What was predicted beside what was counted, by name.

    A guess is a number, words with one in them ("about 4"), or None: nothing was predicted.
    It is right, near (within a quarter), or not.
    """
    return Compared(guess, counted)
