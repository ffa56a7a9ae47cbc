"""rdf_frames - the frames that `rdf` goes through, whatever holds them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..arrays import DeviceArray, is_foreign
from . import rdf_atoms
from . import road as _road
from .rdf_box import TOLERANCE, Box, box_of, boxes
from .rdf_labels import Labels


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
    first have to do.
    """

    count: int | None = 1
    numbered = True
    names: Any = None

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
        """Several frames, of so many counts each, for one call of the core at a time; None
        where there is nothing to be gained."""
        return None

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
    if rdf_atoms.is_ase(points):
        points, points2 = [points], None if points2 is None else [points2]
    if is_sequence(points):
        return _Items(points, points2, types, exclude, box)
    return _Arrays(points, points2, types, exclude, box)


_NO_FRAMES = (np.ndarray, DeviceArray, str, bytes, Mapping, Set)  # that one can go through


def is_sequence(value) -> bool:
    """Frames one by one, rather than an array or what NumPy makes one of."""
    if isinstance(value, (list, tuple)):
        first = value[0] if value else None
        return _is_pair(first) or _has_rows(first) or rdf_atoms.is_frame(first)
    if isinstance(value, _NO_FRAMES) or is_foreign(value):
        return False
    words = ("__array__", "__array_interface__", "__dlpack__", "tocsr")
    return isinstance(value, Iterable) and not any(hasattr(value, word) for word in words)


def _is_pair(item) -> bool:
    """(points, box), rather than two points."""
    if not isinstance(item, tuple) or len(item) != 2:
        return False
    nested = isinstance(item[0], (list, tuple))
    return np.ndim(item[0]) == 2 if nested else _has_rows(item[0])


def _has_rows(value) -> bool:
    """An array of two axes or more, rather than nested lists."""
    return not isinstance(value, (list, tuple)) and len(getattr(value, "shape", ())) > 1


# ---- arrays ----


def operand(name: str, value):
    """Points as an array that the core takes."""
    a = _road.operand("rdf", name, value, "iuf")
    if a.dtype.kind in "iu":
        a = _road.cast("rdf", name, a, np.dtype(np.float64))
    if a.dtype.char not in "fd":
        raise TypeError(
            f"rdf: {name} has dtype {a.dtype}; accepted are float32, float64, and integers, "
            "which become float64"
        )
    if a.ndim not in (2, 3) or a.shape[-1] != 3:
        raise ValueError(f"rdf: {name} must have shape (n, 3) or (frames, n, 3), not {a.shape}")
    # The counts come to the host whatever library the points are of.
    return DeviceArray(a._buffer) if isinstance(a, DeviceArray) else a


def _same_dtype(points, points2):
    if points2 is None or points.dtype == points2.dtype:
        return points, points2
    dtype = np.result_type(points.dtype, points2.dtype)
    return (
        _road.cast("rdf", "points", points, dtype),
        _road.cast("rdf", "points2", points2, dtype),
    )


def finite(name: str, points, i: int | None) -> None:
    """ValueError naming the first coordinate that is none; the core looks at device arrays."""
    if isinstance(points, DeviceArray) or np.isfinite(points).all():
        return
    at = np.argwhere(~np.isfinite(points))[0].tolist()
    value = points[tuple(at)]
    frame = "" if i is None else f" of frame {i}"
    if points.ndim == 3:
        frame = f" of frame {at.pop(0)}"
    raise ValueError(
        f"rdf: coordinates must be finite, but {name}[{at[0]}, {at[1]}]{frame} is {value:g}"
    )


def check_limit(r_max: float, box: Box | None, frame: str) -> None:
    """The core's own sentence, before anything is counted."""
    if box is not None and not r_max <= box.limit * TOLERANCE:
        raise ValueError(
            f"rdf: r_max = {r_max:.9g} is more than half the smallest height of the box"
            f"{frame}, {box.limit:.9g}; counting further images is not built"
        )


class _Arrays(Frames):
    """Arrays (n, 3) or (frames, n, 3), one of which may serve all frames."""

    def __init__(self, points, points2, types, exclude, box) -> None:
        points = operand("points", points)
        points2 = None if points2 is None else operand("points2", points2)
        self._points, self._points2 = _same_dtype(points, points2)
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
            check_limit(r_max, box, self.at(i) if len(self.boxes) > 1 else "")
        if self.numbered:  # of one frame the core says so before it counts
            finite("points", self._points, None)
            if self._points2 is not None:
                finite("points2", self._points2, None)

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
        if self._listed and isinstance(types, str) and points2 is None:
            found = [rdf_atoms.frame_of(item, None, types, None) for item in items]
            self.names = np.unique([label for atoms in found if atoms for label in atoms.types])

    def _boxes(self) -> Iterator[Box | None]:
        """Of all frames, without their points: of a list, or of a trajectory of MDAnalysis."""
        if self.boxes is not None:
            yield from self.boxes
        elif isinstance(self._items, rdf_atoms.Trajectory):
            yield from map(box_of, self._items.boxes())
        elif self._listed:
            for i, item in enumerate(self._items):
                value = item[1] if _is_pair(item) else rdf_atoms.box_of(item)
                yield self._box(i, value)
        else:
            raise TypeError(
                "rdf: r_max is needed for frames whose boxes are known only when they come"
            )

    def limit(self) -> float | None:
        return _least(list(self._boxes()))

    def check(self, r_max: float) -> None:
        if self.boxes is not None or self._listed:
            for i, box in enumerate(self._boxes()):
                check_limit(r_max, box, self.at(i) if self.boxes != [box] else "")

    def __iter__(self) -> Iterator[Frame]:
        second = self._second()
        for i, item in enumerate(self._items):
            try:
                other = next(second)
            except StopIteration:
                raise ValueError(f"rdf: points2 ends before frame {i} of points") from None
            if not isinstance(item, rdf_atoms.Atoms):
                found = rdf_atoms.frame_of(item, other, *self._labels)
                if found is None:
                    points, box = item if _is_pair(item) else (item, None)
                    found = rdf_atoms.Atoms(points, other, box, *self._labels)
                item = found
            points = _of_frame(i, "points", item.points)
            points2 = None if item.points2 is None else _of_frame(i, "points2", item.points2)
            box = self._box(i, item.box)
            yield Frame(*_same_dtype(points, points2), box, item.types, item.exclude)

    def _second(self) -> Iterator:
        """points2 of each frame."""
        value = self._points2
        if value is None or rdf_atoms.is_ase(value):
            yield from itertools.repeat(value)
        if is_sequence(value):
            yield from value
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
    finite(name, a, i)
    return a
