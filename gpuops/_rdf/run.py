"""run - what `rdf` does with its arguments: counts frames and adds up what they gave."""

from __future__ import annotations

import contextlib
import math
import re
import threading
import warnings
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from .._call import road as _road
from .._show.rdf_result import RdfResult
from ..arrays import DeviceArray
from ..errors import KernelRefusedError, brief, flag
from . import sums as rdf_sums
from .box import NARROW, Box
from .frames import Frame, Frames, Stack, finite, frames_of
from .labels import Labels, check_room


class _Ran(threading.local):
    kernel = ""  # that counted the last frame of this thread


_ran = _Ran()
NORMS = ("rdf", "density", "none")
STACKING = "guessed"  # the kernel that takes several frames


def run(points, r_max, bins, r_min, points2, types, exclude, box, norm, frames, progress,
        options) -> RdfResult:  # fmt: skip
    """The result of `rdf`; `options`: device, kernel and tunables."""
    progress = flag("rdf", "progress", progress)
    found, edges = _begun(
        points, r_max, bins, r_min, points2, types, exclude, box, norm, frames
    )

    sums = labels = None
    _ran.kernel = ""
    try:
        with contextlib.closing(_counted(found, edges, norm, options, progress)) as each:
            for part in each:
                one, norm, labels = part
                sums = one if sums is None else sums + one
    except BaseException as error:
        if found.numbered:
            with contextlib.suppress(AttributeError):  # an exception without a __dict__
                error.partial = (  # type: ignore[attr-defined]
                    None if sums is None else RdfResult._of(sums, edges, norm, labels.names)
                )
        raise
    if sums is None:  # (0, n, 3)
        labels = found.labels()
        norm = norm or ("density" if box is None else "rdf")
        shape = (*labels.shape, len(edges) - 1)
        sums = rdf_sums.nothing(shape, norm)
    return replace(RdfResult._of(sums, edges, norm, labels.names), kernel=_ran.kernel)


def _begun(points, r_max, bins, r_min, points2, types, exclude, box, norm, frames):
    """The frames and the edges, once all is checked that can be before a frame is counted."""
    found = frames_of(points, points2, types, exclude, box, frames)
    edges = _edges(r_max, bins, r_min, found)
    if _is_narrow(r_max) or _is_narrow(bins):
        found.tolerance = NARROW
    if r_max is not None and found.knows_boxes:
        found.advice = ", or leave r_max out to take the largest"
    if norm is not None and not (isinstance(norm, str) and norm in NORMS):
        raise ValueError(f"rdf: norm must be one of {', '.join(NORMS)}, not {brief(norm)}")
    if np.isfinite(edges).all():  # else the core says so at once
        found.check(float(edges[-1]))
    return found, edges


def each_frame(points, r_max, bins, r_min, points2, types, exclude, box, norm, frames, options):
    """(the sums of a frame, the norm, the names of the types, the edges) of each frame."""
    found, edges = _begun(
        points, r_max, bins, r_min, points2, types, exclude, box, norm, frames
    )
    with contextlib.closing(_counted(found, edges, norm, options, False, True)) as each:
        for sums, used, labels in each:
            yield sums, used, labels.names, edges


def _counted(found: Frames, edges, norm, options, progress: bool, apart: bool = False):
    """The sums of each frame, or unless `apart` of several at a time; with them the norm and
    the labels."""
    bins, labels = len(edges) - 1, None
    if found.stacks(bins) is not None and options["kernel"] in (None, STACKING):
        labels, begun = found.labels(), False
        check_room(bins, math.prod(labels.shape))
        stacks = _stacks(found, labels, bins, options)
        try:
            for part in _counted_stacks(
                found, stacks, labels, edges, norm, options, progress, apart
            ):
                yield part
                begun = True
        except KernelRefusedError:
            if begun:
                raise
        if begun:
            return
    with contextlib.closing(iter(found)) as each:
        for i, frame in enumerate(_watched(each, found.count, progress)):
            if norm is None and frame.box is None and found.say_box:
                warnings.warn(
                    f"rdf: frame {i} has no box, so that g is the density of neighbours and no "
                    "g(r) beside an ideal gas: give box=, or norm='density' if that is meant",
                    stacklevel=4,
                )
            norm = _norm(norm, frame.box, found.at(i))
            found.check_limit(float(edges[-1]), frame.box, found.at(i))
            labels = _labels(labels, frame, found, i)
            check_room(bins, math.prod(labels.shape))
            if found.numbered:  # of one array the core says so
                of = i if frame.points.ndim == 2 else None
                for name, p, keep in zip(("points", "points2"), frame.sets, labels.keep,
                                         strict=False):  # fmt: skip
                    finite(name, p, of, keep)
            counts = _counts(frame, labels, edges, options, found.at(i))
            volume = 1.0 if frame.box is None else frame.box.volume
            yield rdf_sums.of_frame(labels.shaped(counts), labels, volume, norm), norm, labels


def _stacks(found: Frames, labels: Labels, bins: int, options) -> list[Stack]:
    """Frames for one call each, where the kernel knows all there is to know; [] elsewhere."""
    if labels.excluding is not None or labels.leaves_out:
        return []
    stacks = list(found.stacks(labels.rows * bins) or ())
    place = _road.choose_device("rdf", stacks[0].sets, options["device"], options["kernel"])
    return [] if place.backend == "cpu" else stacks


def _counted_stacks(found: Frames, stacks, labels, edges, norm, options, progress, apart):
    for stack in _watched(stacks, len(stacks), progress):
        for k, box in enumerate(stack.boxes):
            norm = _norm(norm, box, found.at(stack.first + k))
        volumes = np.array([1.0 if box is None else box.volume for box in stack.boxes])
        counts = _counts_of_stack(stack, labels, edges, options)
        counts = labels.shaped(counts.reshape(len(volumes), labels.rows, -1))
        if not apart:
            yield rdf_sums.of_frames(counts, labels, volumes, norm), norm, labels
            continue
        for one, volume in zip(counts, volumes, strict=True):
            yield rdf_sums.of_frame(one, labels, float(volume), norm), norm, labels


def _counts_of_stack(stack: Stack, labels: Labels, edges, options) -> np.ndarray:
    """The core's rows of all frames, one after another."""
    meaning: dict = {"points2": len(stack.sets) == 2, "ntypes": labels.count}
    boxes: tuple[np.ndarray, ...] = ()
    there = [box for box in stack.boxes if box is not None]
    if there:
        rows = [box.rows_for(stack.sets, float(edges[-1])) for box in there]
        meaning |= {"box": rows[0], "boxes": True}
        boxes = (np.array(rows),)
    operands = (stack.sets[0], edges, *stack.sets[1:], *labels.arrays, *boxes)
    try:
        counts = _road.Call("rdf", operands, meaning, **{**options, "kernel": STACKING}).run()
    except KernelRefusedError:
        raise
    except ValueError as error:
        numbered = re.sub(
            "(?<= of frame )[0-9]+", lambda k: str(stack.first + int(k[0])), str(error)
        )
        raise ValueError(numbered) from None
    _ran.kernel = STACKING
    return counts.get() if isinstance(counts, DeviceArray) else counts


def _call(sets, types, ntypes: int, edges, cell: Box | None, options) -> _road.Call:
    rows = None if cell is None else cell.rows_for(sets, float(edges[-1]))
    meaning = {"points2": len(sets) == 2, "ntypes": ntypes, "box": rows}
    return _road.Call("rdf", (sets[0], edges, *sets[1:], *types), meaning, **options)


def first_call(points, r_max, bins, r_min, points2, types, exclude, box, norm, frames, progress,
               device, kernel, params) -> _road.Call:  # fmt: skip
    """All pairs of the first frame."""
    flag("rdf", "progress", progress)
    found, edges = _begun(
        points, r_max, bins, r_min, points2, types, exclude, box, norm, frames
    )
    options = {"device": device, "kernel": kernel, "tunables": params}
    with contextlib.closing(iter(found)) as each:
        frame = next(each, None)
    if frame is None:
        raise ValueError("rdf: there is no frame, so nothing to time or explain")
    labels = _labels(None, frame, found, 0)
    sets = frame.sets
    if labels.leaves_out:
        sets = _kept([p.get() if isinstance(p, DeviceArray) else p for p in sets], labels)
    sets = [p if frame.box is None else frame.box.turn(p) for p in sets]
    return _call(sets, labels.arrays, labels.count, edges, frame.box, options)


def _counts(frame: Frame, labels: Labels, edges, options, of_frame: str) -> np.ndarray:
    """The core's rows of one frame."""
    cell, sets = frame.box, frame.sets

    def run(sets, types):
        call = _call(sets, types, labels.count, edges, cell, options)
        counts = call.run()
        _ran.kernel = _ran.kernel or call.plan()["kernel"]
        return counts.get() if isinstance(counts, DeviceArray) else counts

    def turned(sets):
        return sets if cell is None else [cell.turn(p) for p in sets]

    try:
        if labels.excluding is None and not labels.leaves_out:
            return run(turned(sets), labels.arrays)
        if any(isinstance(p, DeviceArray) for p in sets):  # parts of them come from the host
            place = _road.choose_device("rdf", sets, options["device"])
            options = {**options, "device": place}
        host = [p.get() if isinstance(p, DeviceArray) else p for p in sets]
        for name, p, keep in zip(("points", "points2"), host, labels.keep, strict=False):
            finite(name, p, None, keep)
        if labels.leaves_out:
            sets = host = _kept(host, labels)
        sets, host = turned(sets), turned(host)
        if labels.excluding is None:
            return run(sets, labels.arrays)
        return labels.excluding.count(run, sets, host, labels.arrays, labels.count, edges, cell)
    except ValueError as error:
        said = str(error)
        of_points = said.startswith(("rdf: coordinates", "rdf: r_max"))
        if not of_frame or not of_points or of_frame in said:
            raise
        raise ValueError(f"{said}, in{of_frame[3:]}") from None


def _kept(host, labels: Labels) -> list:
    """The points that have a label."""
    return [p if k is None else p[k] for p, k in zip(host, labels.keep, strict=True)]


def _labels(before: Labels | None, frame: Frame, found: Frames, i: int) -> Labels:
    """Those of the frame before, if they have not changed."""
    n, n2 = (None if p is None else p.shape[0] for p in (frame.points, frame.points2))
    if before is not None and before.serves(frame.types, frame.exclude, n, n2):
        return before
    names = found.names if before is None else before.names
    try:
        return Labels(frame.types, frame.exclude, n, n2, names)
    except (TypeError, ValueError) as error:
        if i == 0:
            raise
        raise type(error)(f"{error}, in frame {i}") from None


# ---- the operands ----


def _number(name: str, value) -> float:
    number = _road.plain_number("rdf", name, value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"rdf: {name} must be finite and not negative, not {number}")
    return number


def _is_narrow(value) -> bool:
    """Rounded to float32, or shorter still."""
    dtype = getattr(value, "dtype", None)
    return getattr(dtype, "kind", "") == "f" and dtype.itemsize < 8


def _is_number(bins) -> bool:
    try:
        return not isinstance(bins, DeviceArray) and np.ndim(bins) == 0
    except ValueError:  # ragged: `operand` says so
        return False


def _edges(r_max, bins, r_min, found: Frames) -> np.ndarray:
    if _is_number(bins):
        bins = _road.index("rdf", "bins", bins)
        if bins < 1:
            raise ValueError(f"rdf: bins must be 1 or more, not {bins}")
        if bins >= 2**31:
            raise OverflowError(f"rdf: {bins} bins are more than 2^31 counters")
        r_max = found.limit() if r_max is None else r_max
        if r_max is None:
            raise TypeError("rdf: r_max is needed where bins is a count and there is no box")
        r_max, r_min = _number("r_max", r_max), _number("r_min", r_min)
        if not r_min < r_max:
            raise ValueError(f"rdf: r_max must be more than r_min = {r_min}, not {r_max}")
        check_room(bins)
        return np.linspace(r_min, r_max, bins + 1)
    if r_max is not None or _number("r_min", r_min) != 0.0:
        raise ValueError(
            "rdf: bins are edges, which give r_min and r_max already: leave these out"
        )
    edges = _road.operand("rdf", "bins", bins, "iuf")
    edges = edges.get() if isinstance(edges, DeviceArray) else edges
    if edges.ndim != 1 or len(edges) < 2:
        raise ValueError(f"rdf: bins must be a count or 2 or more edges, not {edges.shape}")
    return np.array(edges, np.float64)


def _norm(norm, box: Box | None, of_frame: str) -> str:
    """The default is that of the first frame."""
    if norm is None:
        return "density" if box is None or box.is_open else "rdf"
    if norm == "rdf" and box is None:
        raise ValueError(
            "rdf: norm 'rdf' compares with an ideal gas in a box: "
            + (f"there is none{of_frame}" if of_frame else "give box=")
        )
    if norm == "rdf" and box.is_open:
        raise ValueError(
            "rdf: norm 'rdf' compares with an ideal gas of the box's volume, which is infinite "
            f"along an open axis{of_frame}: take 'density' or 'none'"
        )
    return norm


def _watched(each: Iterable[Frame], count: int | None, progress: bool) -> Iterable[Frame]:
    if not progress:
        return each
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            "rdf: progress=True needs the package tqdm; install it with 'pip install tqdm'"
        ) from None
    return tqdm(each, desc="rdf", unit="frame", total=count)
