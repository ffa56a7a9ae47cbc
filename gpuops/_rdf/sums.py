"""sums - what `rdf` keeps of the frames it has counted: sums that add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BLOCKS = 32  # that many blocks of frames become half as many of twice the length


@dataclass(frozen=True, eq=False)
class Part:
    """Of some frames and each pair of types: the sum of a curve, and how many frames gave one.

    A frame without a point or without a pair of these types has no curve.
    """

    frames: int
    value: np.ndarray  # (types, types, bins)
    used: np.ndarray  # (types, types)

    def __add__(self, other: Part) -> Part:
        return Part(
            self.frames + other.frames, self.value + other.value, self.used + other.used
        )

    def mean(self) -> np.ndarray:
        """NaN where no frame has a curve."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.value / self.used[..., None]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Frames in blocks of `size`, a power of two, as they come; `rest`: of the next block."""

    size: int = 1
    full: tuple[Part, ...] = ()
    rest: Part | None = None

    def __add__(self, other: Blocks) -> Blocks:
        found = self
        for part in (*other.full, other.rest):
            if part is not None:
                found = found._with(part)
        return found

    def _with(self, part: Part) -> Blocks:
        size, full, rest = self.size, self.full, self.rest
        while size < part.frames:  # whole blocks of the other's length, or more
            size, full, rest = 2 * size, _pairs(full), None
        # What is left over before a longer part is in no block.
        rest = rest + part if rest is not None and rest.frames % part.frames == 0 else part
        if rest.frames < size:
            return Blocks(size, full, rest)
        full = (*full, rest)
        if len(full) == BLOCKS:
            size, full = 2 * size, _pairs(full)
        return Blocks(size, full)

    def error(self) -> np.ndarray | None:
        """The standard error of the blocks' means; None of fewer than two blocks."""
        if len(self.full) < 2:
            return None
        means = np.stack([part.mean() for part in self.full])
        there = ~np.isnan(means)
        n = there.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(there, means, 0.0).sum(axis=0) / n
            square = np.where(there, means - mean, 0.0) ** 2
            return np.sqrt(square.sum(axis=0) / (n - 1) / n)


def _pairs(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(a + b for a, b in zip(parts[::2], parts[1::2], strict=False))


@dataclass(frozen=True, eq=False)
class Sums:
    """`counts`; `curve`: of g times the volume of a shell; `near`: of neighbours in a shell."""

    counts: np.ndarray
    curve: Part
    near: Part
    blocks: Blocks

    def __add__(self, other: Sums) -> Sums:
        near = self.near + other.near
        curve = near if self.curve is self.near else self.curve + other.curve
        return Sums(self.counts + other.counts, curve, near, self.blocks + other.blocks)


def _weights(labels, volume, norm: str):
    """What a pair adds to the curve of norm "rdf" or "none", and which types have one."""
    if norm == "none":
        return 1.0, np.ones_like(labels.per_point[1])
    share, used = labels.per_pair
    return share * volume, used


def of_frame(counts: np.ndarray, labels, volume: float, norm: str) -> Sums:
    """The sums of one frame from its counts (types, types, bins)."""
    share, used = labels.per_point
    near = curve = Part(1, counts * share, used)
    if norm != "density":
        share, used = _weights(labels, volume, norm)
        curve = Part(1, counts * share, used)
    return Sums(counts, curve, near, Blocks(1, (curve,)))


def of_frames(counts: np.ndarray, labels, volumes: np.ndarray, norm: str) -> Sums:
    """The same of several frames with the same labels, counts (frames, types, types, bins)."""
    share, used = labels.per_point
    near = curve = counts * share
    if norm != "density":
        share, used = _weights(labels, volumes[:, None, None, None], norm)
        curve = counts * share
    frames, size = len(counts), 1
    while frames // size >= BLOCKS:
        size *= 2
    starts = range(0, frames, size)
    sums = zip(starts, np.add.reduceat(curve, starts), strict=True)
    lengths = [(min(size, frames - at), value) for at, value in sums]
    parts = [Part(length, value, used * length) for length, value in lengths]
    whole = frames // size
    blocks = Blocks(size, tuple(parts[:whole]), parts[whole] if parts[whole:] else None)
    of_near = Part(frames, near.sum(axis=0), labels.per_point[1] * frames)
    of_curve = of_near if curve is near else Part(frames, curve.sum(axis=0), used * frames)
    return Sums(counts.sum(axis=0), of_curve, of_near, blocks)


def nothing(shape: tuple[int, int, int], norm: str) -> Sums:
    """The sums of no frames."""
    part = Part(0, np.zeros(shape), np.zeros(shape[:2], np.int64))
    curve = part if norm == "density" else Part(0, part.value, part.used)
    return Sums(np.zeros(shape, np.int64), curve, part, Blocks())


def shares(times, over: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """times/over, each the factor of a curve, and 1 where there is something to divide by."""
    used = over > 0
    share = np.divide(times, over, out=np.zeros(over.shape), where=used)
    return share[..., None], used.astype(np.int64)
