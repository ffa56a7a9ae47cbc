"""seconds - a time that was measured several times."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from ..timer import duration


class Seconds(float):
    """A median of several runs: a float that also knows the runs and prints in a fit unit."""

    samples: tuple[float, ...]

    def __new__(cls, samples: Iterable[float]) -> Seconds:
        samples = tuple(float(s) for s in samples)
        self = super().__new__(cls, statistics.median(samples) if samples else 0.0)
        self.samples = samples
        return self

    @property
    def spread(self) -> tuple[float, float]:
        """The shortest and the longest run."""
        return (min(self.samples), max(self.samples)) if self.samples else (0.0, 0.0)

    def __str__(self) -> str:
        return duration(self)

    def __repr__(self) -> str:
        low, high = (duration(s) for s in self.spread)
        return f"{duration(self)} ({low} to {high})"

    def __reduce__(self) -> tuple[type[Seconds], tuple[tuple[float, ...]]]:
        return Seconds, (self.samples,)
