"""score - what check returns: points, and a sentence for each thing that is not right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .._show.text import wrapped
from .picture import Picture

KINDS = {
    "bits": "results, bit for bit, in every order of turns",
    "errors": "no mistake that sim finds",
    "counters": "what the warps do, counted, within the limits",
}


@dataclass(frozen=True)
class Part:
    """One kind of points: those given, those there are, and why some are missing."""

    kind: str
    points: float
    most: float
    said: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.points == self.most


@dataclass(frozen=True, repr=False)
class Score:
    """The score of one kernel in one exercise; `passed`, `points` of `most`, `parts`."""

    task: str
    title: str
    parts: tuple[Part, ...]
    printed: str = ""  # by the kernel's own printf
    note: str = ""
    picture: Picture | None = None

    def draw(self, ax: Any = None) -> Any:
        """Draws a result as a map, with Matplotlib: right, wrong and never written elements,
        beside the borders of blocks; of the first case that is wrong. Returns the axes."""
        if self.picture is None:
            raise ValueError(
                f"draw: exercise {self.task} left no result to draw: first correct the "
                "mistakes that it names"
            )
        return self.picture.draw(ax)

    @property
    def points(self) -> float:
        return sum(p.points for p in self.parts)

    @property
    def most(self) -> float:
        return sum(p.most for p in self.parts)

    @property
    def passed(self) -> bool:
        return all(p.passed for p in self.parts)

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{self.task} {self.title}: {self.points:g} of {self.most:g} points"

    def __str__(self) -> str:
        lines = [repr(self) + (", passed" if self.passed else "")]
        for p in self.parts:
            lines.append(f"  {'ok ' if p.passed else '-- '} {KINDS[p.kind]}: "
                         f"{p.points:g} of {p.most:g}")  # fmt: skip
            for line in (line for said in p.said for line in said.splitlines()):
                lines += wrapped(line, 8, 94, first=6)
        if self.note:
            lines += wrapped(self.note, 8, 94, first=6)
        if self.printed:
            lines += [
                "  the kernel printed:",
                *(f"      {x}" for x in self.printed.splitlines()),
            ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, in the words of Gradescope's results.json."""
        return {
            "score": self.points,
            "max_score": self.most,
            "passed": self.passed,
            "task": self.task,
            "output": str(self),
            "tests": [
                {
                    "name": f"{self.task} {self.title}: {KINDS[p.kind]}",
                    "score": p.points,
                    "max_score": p.most,
                    "status": "passed" if p.passed else "failed",
                    "output": "\n".join(p.said),
                }
                for p in self.parts
            ],
        }

    def json(self) -> str:
        return json.dumps(self.as_dict(), indent=1)
