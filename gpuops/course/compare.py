"""compare - what a reader predicted beside what was counted."""

from __future__ import annotations

from collections.abc import Mapping

from .._show.counts_text import columns


class Compared:
    """A table that prints: a row for each question, the guess, the count."""

    def __init__(self, guess: Mapping[str, float | None], counted: Mapping[str, float]) -> None:
        self.rows = [(name, guess.get(name), value) for name, value in counted.items()]

    def __repr__(self) -> str:
        cells = [("", "predicted", "counted", "")]
        for name, guess, value in self.rows:
            said = "" if guess is None else "right" if guess == value else "no"
            cells.append((name, "-" if guess is None else f"{guess:g}", f"{value:g}", said))
        return "\n".join(columns(cells))


def compare(guess: Mapping[str, float | None], counted: Mapping[str, float]) -> Compared:
    """What was predicted (None: nothing) beside what was counted, by name."""
    return Compared(guess, counted)
