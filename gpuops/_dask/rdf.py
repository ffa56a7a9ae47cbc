"""rdf - `rdf` by tasks of some frames each: exact counts, and one order of the averages.

A float average depends on the order of its additions, so frames are added as the leaves of a
binary tree are, by their numbers: a task keeps the roots of the largest subtrees of its range.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import pickle
import re
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize

from .._rdf import atoms as rdf_atoms
from .._rdf import run as rdf_run
from .._show.rdf_result import RdfResult
from ..errors import brief
from ..runs import Nodes
from . import arrays as _dask
from . import reduce as dask_reduce

FRAMES = 64  # tasks of a trajectory, unless the caller says otherwise


@dataclass(frozen=True, eq=False)
class Range:
    """Frames from `first` on, None where it is not known yet: (how many, their sums)."""

    first: int | None
    nodes: tuple
    norm: str | None = None
    names: Any = None
    edges: Any = None

    @property
    def count(self) -> int:
        return sum(size for size, _ in self.nodes)


def merged(*ranges: Range) -> Range:
    """Of neighbours in their order."""
    first = ranges[0].first
    nodes = Nodes(operator.add, first)
    for r in ranges:
        for size, sums in r.nodes:
            nodes.add(size, sums)
    one = functools.reduce(_alike, ranges)
    return Range(first, tuple(nodes.found), one.norm, one.names, one.edges)


def _alike(r: Range, other: Range) -> Range:
    """One that has frames; the others have to be of its kind."""
    if not (r.nodes and other.nodes):
        return r if r.nodes else other
    if r.norm != other.norm:
        raise ValueError(
            f"rdf: some frames have a box and norm {r.norm!r}, others norm {other.norm!r}: "
            "give norm= or box="
        )
    same = all(map(np.array_equal, _names(r), _names(other)))
    if not same or len(_names(r)) != len(_names(other)):
        raise ValueError(
            "rdf: the tasks have found different types: give types that are all in each frame"
        )
    return r


def _names(r: Range) -> list:
    return [] if r.names is None else [*r.names] if isinstance(r.names, tuple) else [r.names]


def finished(r: Range) -> RdfResult:
    if not r.nodes:
        raise ValueError("rdf: there is no frame")
    placed = merged(Range(0, r.nodes, r.norm, r.names, r.edges))
    *rest, (_, sums) = placed.nodes
    for _, left in reversed(rest):
        sums = left + sums
    return RdfResult._of(sums, r.edges, r.norm, r.names)


# ---- tasks ----


def rdf_frames(points, first: int | None, device=None, **words) -> Range:
    """What one task counts."""
    given = {"points2": None, "types": None, "exclude": None, "box": None, "norm": None,
             "frames": None, **words}  # fmt: skip
    options = {"device": device, "kernel": None, "tunables": None}
    nodes = Nodes(operator.add, first)
    kind: list = []  # the norm, the names of the types and the edges
    try:
        each = rdf_run.each_frame(points, options=options, **given)
        with contextlib.closing(each):
            for sums, *said in each:
                kind = said
                nodes.add(1, sums)
    except ValueError as error:
        if not first:
            raise
        told = re.sub(r"(?<=\bframe )\d+", lambda n: str(first + int(n[0])), str(error))
        raise ValueError(told) from None
    return Range(first, tuple(nodes.found), *kind)


def _of_chunk(points, first, points2=None, *, device=None, box=None, boxes=None, fixed=None,
              **words):  # fmt: skip
    first = int(first.ravel()[0])
    if boxes is not None:
        box = boxes[first : first + len(points)]
    points2 = fixed if points2 is None else points2
    found = rdf_frames(points, first, device, points2=points2, box=box, **words)
    return _dask.boxed(found, 3)


def _of_atoms(pickled: bytes, first: int, frames, device=None, **words) -> Range:
    points, points2 = pickle.loads(pickled)  # its own: threads would share the reader
    return rdf_frames(points, first, device, points2=points2, frames=frames, **words)


def _of_partition(frames, device=None, **words) -> Range:
    return rdf_frames(iter(frames), None, device, **words)


def _merge(ranges):
    return _dask.boxed(merged(*_dask.unboxed(ranges)), 3)


def _result(ranges) -> RdfResult:
    return finished(
        merged(*(_dask.unboxed(ranges) if isinstance(ranges, np.ndarray) else ranges))
    )


# ---- graphs ----


def rdf(points, points2, box, frames, frames_per_task, device, words):
    """A Delayed of the result."""
    words = words | _dask.on(device)
    if isinstance(points, da.Array):
        ranges = _chunks(points, points2, box, words)
    elif hasattr(points, "to_delayed") and hasattr(points, "map_partitions"):
        words |= {"points2": points2, "box": box}
        ranges = _tree([_task(_of_partition, part, **words) for part in points.to_delayed()])
    elif rdf_atoms.group_of(points) is not None:
        ranges = _tree(_atoms(points, points2, box, frames, frames_per_task, words))
    else:
        raise TypeError(
            "gpuops.dask.rdf: points is a Dask array (frames, n, 3), a bag of frames or "
            f"MDAnalysis' atoms, not {brief(points)}: gpuops.rdf takes what lies in memory"
        )
    return _task(_result, ranges, named="rdf")


def _task(function, *args, named="rdf-frames", **words):
    """A call as a task whose name says the operation."""
    key = f"gpuops-{named}-{tokenize(function, args, words)}"
    return dask.delayed(function)(*args, dask_key_name=key, **words)


def _tree(tasks: list) -> list:
    each = dask_reduce.EACH
    while len(tasks) > each:
        groups = [tasks[i : i + each] for i in range(0, len(tasks), each)]
        tasks = [_task(_merged_list, group, named="rdf-merge") for group in groups]
    return tasks


def _merged_list(ranges: list) -> Range:
    return merged(*ranges)


def _chunks(points, points2, box, words):
    """An array of ranges, one for each chunk of frames."""
    points = _dask.array("rdf", "points", points)
    if points.ndim != 3:
        raise ValueError(
            f"gpuops.dask.rdf: points must have shape (frames, n, 3), not {points.shape}"
        )
    points = points.rechunk({1: -1, 2: -1})
    every, counts = (0, 1, 2), points.chunks[0]
    operands = [points, every, _dask.starts([counts, (1,), (1,)]), every]
    if isinstance(points2, da.Array) and points2.ndim == 3:
        if points2.shape[0] != points.shape[0]:
            raise ValueError(
                f"rdf: points have {points.shape[0]} frames, points2 {points2.shape[0]}"
            )
        operands += [points2.rechunk((counts, -1, -1)), every]
    elif points2 is not None:
        words |= {"fixed": points2}
    fixed, boxes = _boxes(box, points.shape[0])
    states = _dask.objects(
        "rdf-frames", _of_chunk, every, *operands, box=fixed, boxes=boxes,
        chunks=[(1,) * n for n in points.numblocks], **words,
    )  # fmt: skip
    return dask_reduce.merged("rdf", states, (0,), _merge)


def _boxes(box, frames: int) -> tuple[Any, np.ndarray | None]:
    """(the box of all frames as it came, those of each frame): one of them."""
    if box is None:
        return None, None
    if isinstance(box, da.Array):
        raise TypeError("gpuops.dask.rdf: box is a Dask array, and small: pass box.compute()")
    found = np.asarray(box)
    if found.ndim == 1 or found.shape == (3, 3) or len(found) != frames:
        return box, None
    if found.ndim == 2 and found.shape[1] == 3:  # three of them would look like rows
        right = np.full((frames, 3), 90.0, found.dtype if found.dtype.kind == "f" else float)
        found = np.concatenate([found, right], axis=1)
    return None, found


def _atoms(points, points2, box, frames, frames_per_task, words):
    """Tasks of ranges of a trajectory, which each worker opens by its file's name."""
    trajectory = rdf_atoms.trajectory_of(points, points2, None, None, None).universe.trajectory
    chosen = range(len(trajectory))
    if isinstance(frames, slice):
        chosen = chosen[frames]
    elif frames is not None:
        numbers = rdf_atoms.chosen_frames(frames, len(trajectory))
        chosen = [n % len(trajectory) for n in numbers]
    count = len(chosen)
    each = frames_per_task or max(1, -(-count // FRAMES))
    pickled = dask.delayed(pickle.dumps((points, points2)))
    fixed, boxes = _boxes(box, count)
    tasks = []
    for i in range(0, count, each):
        here = fixed if boxes is None else boxes[i : i + each]
        some = [int(k) for k in chosen[i : i + each]]
        tasks.append(_task(_of_atoms, pickled, i, some, box=here, **words))
    return tasks
