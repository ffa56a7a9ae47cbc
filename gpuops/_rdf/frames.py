"""frames - the frames that `rdf` goes through, whatever holds them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..arrays import DeviceArray
from . import atoms as rdf_atoms
from .box import TOLERANCE, Box, box_of, boxes
from .forms import each, is_pair, is_sequence, operand, refuse, refuse_swapped, same_dtype
from .labels import Labels, names_of


@dataclass(frozen=True)
class Frame:
    """A frame: points of one dtype, in the coordinates of the box, and labels as they came."""

    points: Any
    points2: Any
    box: Box | None
    types: Any = None
    exclude: Any = None

    @property
    def sets(self) -> list:
        return [self.points] if self.points2 is None else [self.points, self.points2]


@dataclass(frozen=True)
class Stack:
    """Frames `first` and on: points (frames, n, 3), or those of all frames (n, 3)."""

    first: int
    sets: list
    boxes: list[Box | None]  # of each frame


STACKED = 1 << 28  # pairs of a frame that take no longer than a call does
STACK = 1 << 23  # counts of the frames of a stack; an eighth of their coordinates
STACK_PAIRS = 1 << 34  # a launch's


class Frames:
    """A sequence of frames.

    `count`: how many, None where that is not known; `numbered`: there is an axis of frames, so
    that errors name one; `names`: the labels of all frames in order, None where those of the
    first have to do. `say_box`: frames come with a box of their own, or with none.
    """

    count: int | None = 1
    numbered = True
    names: Any = None
    tolerance = TOLERANCE  # of r_max
    advice = ""  # where r_max is too large
    say_box = False
    knows_boxes = True  # before the frames come

    def __iter__(self) -> Iterator[Frame]:
        raise NotImplementedError

    def limit(self) -> float | None:
        """The largest r_max, None without boxes."""
        raise NotImplementedError

    def check(self, r_max: float) -> None:
        """All that can be told of later frames before the first is counted."""
        raise NotImplementedError

    def labels(self) -> Labels:
        """Where there is no frame to ask."""
        raise ValueError("rdf: points has no frames")

    def stacks(self, rows: int) -> Iterator[Stack] | None:
        """Several frames, of that many counts each, for one call of the core at a time; None
        where there is nothing to be gained."""
        return None

    def check_limit(self, r_max: float, box: Box | None, frame: str) -> None:
        if box is None or not np.isfinite(r_max):  # of such an edge the core has the words
            return
        if r_max > box.limit * max(self.tolerance, box.tolerance):
            near = r_max < box.limit * (1 + 1e-6)  # digits that tell the two apart
            shown = [f"{value:.{17 if near else 9}g}" for value in (r_max, box.limit)]
            raise ValueError(
                f"rdf: r_max = {shown[0]} is more than {shown[1]}, half the smallest distance "
                f"between opposite faces of the box{frame}, beyond which further images would "
                f"count: give at most that{self.advice}"
            )

    def at(self, i: int) -> str:
        return f" of frame {i}" if self.numbered else ""


def frames_of(points, points2, types, exclude, box, chosen) -> Frames:
    """What the arguments of `rdf` stand for."""
    trajectory = rdf_atoms.trajectory_of(points, points2, types, exclude, chosen)
    if trajectory is not None:
        return _Items(trajectory, None, types, exclude, box)
    if chosen is not None:
        raise TypeError(
            "rdf: frames chooses among the frames of an MDAnalysis trajectory; points are a "
            f"{type(points).__name__}: index them instead"
        )
    if rdf_atoms.is_frame(points):
        points, points2 = [points], None if points2 is None else [points2]
    refuse(points)
    if is_sequence(points):
        return _Items(points, points2, types, exclude, box)
    return _Arrays(points, points2, types, exclude, box)


# ---- arrays ----


def finite(name: str, points, i: int | None, keep=None) -> None:
    """ValueError naming the first coordinate that is none, of the points of `keep` or of all;
    the core looks at device arrays."""
    if isinstance(points, DeviceArray) or np.isfinite(points).all():
        return
    bad = ~np.isfinite(points)
    if keep is not None:
        bad[..., np.setdiff1d(np.arange(points.shape[-2]), keep), :] = False
    if not bad.any():
        return
    at = np.argwhere(bad)[0].tolist()
    value = points[tuple(at)]
    frame = "" if i is None else f" of frame {i}"
    if points.ndim == 3:
        frame = f" of frame {at.pop(0)}"
    raise ValueError(
        f"rdf: coordinates must be finite, but {name}[{at[0]}, {at[1]}]{frame} is {value:g}"
    )


class _Arrays(Frames):
    """Arrays (n, 3) or (frames, n, 3), one of which may serve all frames."""

    def __init__(self, points, points2, types, exclude, box) -> None:
        points = operand("points", points)
        points2 = None if points2 is None else operand("points2", points2)
        self._points, self._points2 = same_dtype(points, points2)
        self._labels = types, exclude
        counts = {p.shape[0] for p in (points, points2) if p is not None and p.ndim == 3}
        if len(counts) > 1:
            raise ValueError(
                f"rdf: points have {points.shape[0]} frames, points2 {points2.shape[0]}"
            )
        self.numbered = bool(counts)
        self.count = counts.pop() if counts else 1
        self.boxes = boxes(box, self.count if self.numbered else None)

    def limit(self) -> float | None:
        return _least(self.boxes)

    def check(self, r_max: float) -> None:
        for i, box in enumerate(self.boxes):
            self.check_limit(r_max, box, self.at(i) if len(self.boxes) > 1 else "")
        if self.numbered:  # of one frame the core says so before it counts
            keep = self.labels().keep
            finite("points", self._points, None, keep[0])
            if self._points2 is not None:
                finite("points2", self._points2, None, keep[1])

    def labels(self) -> Labels:
        n, n2 = (None if p is None else p.shape[-2] for p in (self._points, self._points2))
        return Labels(*self._labels, n, n2)

    def stacks(self, rows: int) -> Iterator[Stack] | None:
        sets = [p for p in (self._points, self._points2) if p is not None]
        sizes = [p.shape[-2] for p in sets]
        turned = any(box is not None and box.axes is not None for box in self.boxes)
        kinds = {box is None for box in self.boxes}
        if turned or len(kinds) > 1 or (self.count or 0) < 2:
            return None
        if not 0 < sizes[0] * sizes[-1] <= STACKED:
            return None
        pairs = sizes[0] * sizes[-1]
        most = max(
            1, min(STACK // rows, 8 * STACK // sum(sizes), STACK_PAIRS // pairs, 1 << 15)
        )
        return self._stacked(sets, 1 << (most.bit_length() - 1))

    def _stacked(self, sets, size: int) -> Iterator[Stack]:
        for i in range(0, self.count or 0, size):
            end = min(i + size, self.count or 0)
            each = [self.boxes[k % len(self.boxes)] for k in range(i, end)]
            yield Stack(i, [_slice(p, i, end) for p in sets], each)

    def __iter__(self) -> Iterator[Frame]:
        for i in range(self.count or 0):
            box = self.boxes[i % len(self.boxes)]
            sets = [_slice(p, i) for p in (self._points, self._points2)]
            yield Frame(*sets, box, *self._labels)


def _slice(points, i: int, end: int | None = None):
    """Frame i, or frames i to end."""
    if points is None or points.ndim == 2:
        return points
    if not isinstance(points, DeviceArray):
        return points[i] if end is None else points[i:end]
    b = points._buffer
    shape, strides = b.shape[1:], b.strides[1:]
    if end is not None:
        shape, strides = (end - i, *shape), b.strides
    at = b.ptr + i * b.strides[0]
    return DeviceArray(_core.borrow(at, shape, strides, b.dtype, b.device, b, True))


# ---- frames one by one ----


class _Items(Frames):
    """Frames of an iterable: points, (points, box), or atoms that the adapters know."""

    def __init__(self, items, points2, types, exclude, box) -> None:
        self._items, self._points2 = items, points2
        self._labels = types, exclude
        self.count = len(items) if hasattr(items, "__len__") else None
        self.boxes = None if box is None else boxes(box, self.count)
        self._listed = isinstance(items, (list, tuple))
        of_atoms = isinstance(items, rdf_atoms.Trajectory)
        self.knows_boxes = self.boxes is not None or self._listed or of_atoms
        if self._listed and isinstance(types, str) and points2 is None:
            found = [rdf_atoms.frame_of(item, None, types, None) for item in items]
            self.names = names_of("types", [atoms.types for atoms in found if atoms])

    def _boxes(self) -> Iterator[Box | None]:
        """Of all frames, without their points: of a list, or of a trajectory of MDAnalysis."""
        if self.boxes is not None:
            yield from self.boxes
        elif isinstance(self._items, rdf_atoms.Trajectory):
            yield from map(box_of, self._items.boxes())
        elif self._listed:
            for i, item in enumerate(self._items):
                refuse_swapped(item, f"frame {i} is")
                value = item[1] if is_pair(item) else rdf_atoms.box_of(item)
                yield self._box(i, value)
        else:
            raise TypeError(
                "rdf: r_max is needed for frames whose boxes are known only when they come"
            )

    def limit(self) -> float | None:
        found = list(self._boxes())
        missing = [i for i, box in enumerate(found) if box is None]
        if missing and len(missing) < len(found):
            raise TypeError(
                f"rdf: r_max is needed where bins is a count: frame {missing[0]} has no box"
            )
        return _least(found)

    def check(self, r_max: float) -> None:
        if self.boxes is not None or self._listed:
            for i, box in enumerate(self._boxes()):
                self.check_limit(r_max, box, self._at(i))

    def _at(self, i: int) -> str:
        """The box of frame i."""
        return "" if self.boxes is not None and len(self.boxes) == 1 else self.at(i)

    def __iter__(self) -> Iterator[Frame]:
        with self._each() as items, contextlib.closing(self._second()) as second:
            for i, item in enumerate(items):
                try:
                    other = next(second)
                except StopIteration:
                    raise ValueError(f"rdf: points2 ends before frame {i} of points") from None
                yield self._frame(i, item, other)

    def _each(self) -> contextlib.closing[Iterator]:
        if isinstance(self._items, rdf_atoms.Trajectory):
            return contextlib.closing(iter(self._items))
        return each(self._items)

    def _frame(self, i: int, item, other) -> Frame:
        self.say_box = self.boxes is None
        if not isinstance(item, rdf_atoms.Atoms):
            found = rdf_atoms.frame_of(item, other, *self._labels)
            if found is None:
                refuse_swapped(item, f"frame {i} is")
                self.say_box = self.say_box and is_pair(item)
                points, box = item if is_pair(item) else (item, None)
                found = rdf_atoms.Atoms(points, other, box, *self._labels)
            item = found
        points = _of_frame(i, "points", item.points)
        points2 = None if item.points2 is None else _of_frame(i, "points2", item.points2)
        box = self._box(i, item.box)
        return Frame(*same_dtype(points, points2), box, item.types, item.exclude)

    def _second(self) -> Iterator:
        """points2 of each frame."""
        value = self._points2
        if value is None or rdf_atoms.is_ase(value):
            yield from itertools.repeat(value)
        if is_sequence(value):
            with each(value) as items:
                for item in items:  # noqa: UP028 - rdf_atoms.restored says why
                    yield item
            return
        fixed = operand("points2", value)
        if fixed.ndim == 2:
            yield from itertools.repeat(fixed)
        yield from (_slice(fixed, i) for i in range(fixed.shape[0]))

    def _box(self, i: int, value) -> Box | None:
        """What the caller says holds for all frames; else each has its own."""
        if self.boxes is not None:
            return self.boxes[i % len(self.boxes)]
        try:
            return box_of(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}, in frame {i}") from None


def _least(found: list[Box | None]) -> float | None:
    limits = [box.limit for box in found if box is not None]
    return min(limits) if limits and len(limits) == len(found) else None


def _of_frame(i: int, name: str, value):
    try:
        a = operand(name, value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, in frame {i}") from None
    if a.ndim != 2:
        raise ValueError(f"rdf: {name} of frame {i} must have shape (n, 3), not {a.shape}")
    return a
