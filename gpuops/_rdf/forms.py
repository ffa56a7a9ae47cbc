"""forms - the forms in which `rdf` takes points: arrays, frames one by one, or neither."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Set

import numpy as np

from .._call import road as _road
from .._call.meaning import refuse_lazy
from ..arrays import DeviceArray, is_foreign
from . import atoms as rdf_atoms

# That one can go through, and which are no frames.
_NO_FRAMES = (np.ndarray, DeviceArray, str, bytes, bytearray, memoryview, Mapping, Set)

_PLAIN = (list, tuple, np.ndarray)
_TABLES = ("pandas", "polars", "xarray")  # whose labels nothing in a result could keep

# Other programs' frames, by the first part of a module's name: what to pass in their place.
_PASS = {
    "mdtraj": "{0}.xyz, and box={0}.unitcell_vectors",
    "chemfiles": "{0}.positions, and box=[*{0}.cell.lengths, *{0}.cell.angles]",
    "freud": "{0}.points, and box={0}.box.to_matrix().T",
    "pymatgen": "{0}.cart_coords, and box={0}.lattice.matrix",
}


def _library(value) -> str:
    return type(value).__module__.partition(".")[0]


def _numbers(name: str, value):
    """What has an array to give, but is no array to the other operations."""
    if isinstance(value, (bytearray, memoryview)):
        return np.asarray(value)
    library = _library(value)
    if library in _TABLES and hasattr(value, "to_numpy"):
        return value.to_numpy()
    if library in _PASS:  # the whole of another program's frame
        verb = "is" if name[-1] == "]" else "are"
        raise TypeError(
            f"rdf: {name} {verb} {library}'s {type(value).__name__}: pass "
            f"{_PASS[library].format(name)}"
        )
    return value


def operand(name: str, value):
    """Points as an array that the core takes."""
    if isinstance(value, (list, tuple)):
        value = [
            item if type(item) in _PLAIN else _numbers(f"{name}[{i}]", item)
            for i, item in enumerate(value)
        ]
    else:
        value = _numbers(name, value)
    a = _road.operand("rdf", name, value, "fiu")
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


def same_dtype(points, points2):
    if points2 is None or points.dtype == points2.dtype:
        return points, points2
    dtype = np.result_type(points.dtype, points2.dtype)
    return (
        _road.cast("rdf", "points", points, dtype),
        _road.cast("rdf", "points2", points2, dtype),
    )


# ---- frames one by one ----


def is_sequence(value) -> bool:
    """Frames one by one, rather than an array or what NumPy makes one of."""
    if isinstance(value, (list, tuple)):
        first = value[0] if value else None
        return (
            is_pair(first)
            or _is_swapped(first)
            or _has_rows(first)
            or rdf_atoms.is_frame(first)
        )
    if isinstance(value, _NO_FRAMES) or is_foreign(value):
        return False
    words = ("__array__", "__array_interface__", "__dlpack__", "tocsr")
    if any(hasattr(value, word) for word in words):
        return False
    return isinstance(value, Iterable) or _is_indexed(value)


def _is_indexed(value) -> bool:
    """A sequence without `__iter__`, such as a part of ASE's trajectory."""
    return hasattr(type(value), "__getitem__") and hasattr(type(value), "__len__")


def each(frames) -> contextlib.closing[Iterator]:
    """The frames of such a sequence; to be closed, so that a reader is put back at once."""
    if not isinstance(frames, Iterable):
        return contextlib.closing(frames[i] for i in range(len(frames)))
    return contextlib.closing(rdf_atoms.restored(frames))


def is_pair(item) -> bool:
    """(points, box), rather than two points."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        return False
    if isinstance(item[0], (list, tuple)):  # a list of lists is an array
        return isinstance(item, tuple) and np.ndim(item[0]) == 2
    return _has_rows(item[0]) or _library(item[0]) in _PASS


def _has_rows(value) -> bool:
    """An array of two axes or more, rather than nested lists."""
    return not isinstance(value, (list, tuple)) and len(getattr(value, "shape", ())) > 1


# ---- neither ----


def refuse(points) -> None:
    """A sentence for what looks like frames and is not: the whole of another program's frame,
    and a single frame with its box in whatever order."""
    refuse_lazy("rdf", "points", points)
    _numbers("points", points)
    if not isinstance(points, (tuple, list)) or len(points) != 2:
        return
    first, second = points
    if _is_set(first) and _is_box(second):
        raise TypeError(
            "rdf: points are a pair (points, box), which is one frame: pass the points, and "
            "box=, or a list of such pairs"
        )
    refuse_swapped(points, "points are")


def refuse_swapped(item, which: str) -> None:
    if _is_swapped(item):
        raise TypeError(f"rdf: {which} a pair (box, points): the points come first")


def _is_swapped(item) -> bool:
    """The order of freud, (box, points)."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        return False
    box, points = item
    return _is_set(points) and (_is_box(box) or type(box).__module__.startswith("freud"))


def _is_set(value) -> bool:
    shape = _shape(value)
    return len(shape) == 2 and shape[1] == 3


def _is_box(value) -> bool:
    """Lengths, with angles or without; or rows as most programs have them, which are no three
    points anybody has."""
    shape = _shape(value)
    if shape == (3, 3) and not isinstance(value, DeviceArray) and not is_foreign(value):
        return not np.triu(value, 1).any() and bool(np.diagonal(value).all())
    return shape in ((3,), (6,))


def _shape(value) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        return tuple(getattr(value, "shape", ()))
    try:
        return np.shape(value)
    except ValueError:  # ragged
        return ()
