"""atoms - MDAnalysis' atoms and trajectories, and ASE's atoms, as frames of `rdf`.

Neither package is imported: atoms of one exist only where somebody else has imported it.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import brief

# What the words of `exclude` are called among the attributes of MDAnalysis' atoms.
_WORDS = {
    "atom": "indices", "residue": "resindices", "segment": "segindices", "chain": "chainIDs",
    "fragment": "fragindices", "molecule": "molnums",
}  # fmt: skip
# And among the arrays of ASE's.
_ASE_WORDS = {"element": "symbols", "residue": "residuenumbers", "molecule": "mol-id"}


@dataclass(frozen=True)
class Atoms:
    """A frame of atoms, with labels instead of words; `box` as `rdf` takes it."""

    points: Any
    points2: Any
    box: Any
    types: Any
    exclude: Any


def _is_a(value, package: str, *names: str) -> bool:
    module = sys.modules.get(package)
    kinds = tuple(getattr(module, name) for name in names if hasattr(module, name))
    return isinstance(value, kinds)


def is_ase(value) -> bool:
    return _is_a(value, "ase", "Atoms")


def group_of(value):
    """The AtomGroup of what MDAnalysis has atoms of; None for anything else."""
    if _is_a(value, "MDAnalysis", "AtomGroup"):
        return value
    groups = ("Universe", "ResidueGroup", "SegmentGroup")
    return value.atoms if _is_a(value, "MDAnalysis", *groups) else None


# ---- MDAnalysis ----


def restored(frames) -> Iterator:
    """The frames of whatever has frames. MDAnalysis' trajectory, or a part of one, afterwards
    stands where it stood, whatever ends the loop; the generator is to be closed.

    No `yield from`: closing that generator would close the reader, and with it the file.
    """
    part = _is_a(frames, "MDAnalysis.coordinates.base", "FrameIteratorBase")
    reader = frames.trajectory if part else frames
    if not _is_a(reader, "MDAnalysis.coordinates.base", "ProtoReader"):
        for frame in frames:
            yield frame
        return
    before = reader.ts.frame
    try:
        for frame in frames:
            yield frame
    except BaseException:  # which is not to be hidden by a reader that cannot go back
        with contextlib.suppress(Exception):
            reader[before]
        raise
    reader[before]


class Trajectory:
    """The frames of a group's trajectory, which afterwards stands where it stood before."""

    def __init__(self, groups, types, exclude, chosen) -> None:
        self.groups = groups
        self.universe = groups[0].universe
        if any(group.universe is not self.universe for group in groups):
            raise ValueError("rdf: points and points2 are atoms of different universes")
        whole = getattr(self.universe, "trajectory", None)
        if whole is None:
            raise ValueError(
                "rdf: the universe of points has no trajectory, and so no positions: load one "
                "by universe.load_new(...), or pass positions"
            )
        self.frames = whole if chosen is None else whole[chosen_frames(chosen, len(whole))]
        self._words = types, exclude
        self._last: tuple[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Atoms]:
        with contextlib.closing(restored(self.frames)) as steps:
            for step in steps:
                points = [group.positions for group in self.groups]
                points2 = points[1] if len(points) == 2 else None
                yield Atoms(points[0], points2, _box_of(step), *self._labels())

    def boxes(self) -> Iterator:
        with contextlib.closing(restored(self.frames)) as steps:
            for step in steps:
                yield _box_of(step)

    def _labels(self) -> tuple[Any, Any]:
        """The same objects as long as the groups have the same atoms."""
        indices = [group.ix for group in self.groups]
        if self._last is None or not all(map(np.array_equal, self._last[0], indices)):
            types, exclude = self._words
            if isinstance(types, str):
                types = self._each(_attribute, "types", types)
            if isinstance(exclude, str):
                exclude = self._each(_numbers, "exclude", exclude)
            self._last = indices, (types, exclude)
        return self._last[1]

    def _each(self, labels, name: str, word: str):
        found = tuple(labels(group, name, word) for group in self.groups)
        return found if len(found) == 2 else found[0]


def chosen_frames(frames, count: int):
    """`frames` as MDAnalysis' readers take it: a slice, or a list of integers."""
    if isinstance(frames, slice):
        return frames
    try:
        with contextlib.suppress(TypeError):
            if not isinstance(frames, bool):
                frames = [operator.index(frames)]
        found = np.asarray(frames if isinstance(frames, np.ndarray) else list(frames))
    except TypeError:
        found = None
    if found is None or found.ndim != 1 or (found.size and found.dtype.kind not in "iub"):
        raise TypeError(
            "rdf: frames must be a slice, an integer or a sequence of integers, not "
            f"{brief(frames)}"
        )
    if found.dtype == bool and found.size != count:
        raise IndexError(
            f"rdf: frames has {found.size} booleans, and the trajectory has {count} frames"
        )
    if found.dtype == bool:
        found = np.flatnonzero(found)
    for number in found.tolist():
        if not -count <= number < count:
            raise IndexError(
                f"rdf: frames has {number}, and the trajectory has {count} frames: they count "
                "from 0, negative ones from the end"
            )
    return found.tolist()


def _box_of(step):
    """MDAnalysis writes the next frame's into the same array."""
    return None if step.dimensions is None else np.array(step.dimensions)


def _attribute(group, name: str, word: str, called: str | None = None) -> np.ndarray:
    """The attribute of that name, which is a plural: "element" and "elements" both do."""
    names = [called] if called else [word + "s", word, word + "es"]
    for attribute in names:
        found = None
        with contextlib.suppress(Exception):  # `bond` asks for a group of two
            found = getattr(group, attribute, None)
        if isinstance(found, np.ndarray) and found.shape == (len(group),):
            return found
    hint = ""
    if word in ("element", "elements"):
        guess = 'guess_TopologyAttrs(to_guess=["elements"])'
        hint = f': take {name}="type", or call universe.{guess} before'
    raise ValueError(
        f"rdf: {name}={word!r}: the atoms of this topology have no {called or repr(word)}{hint}"
    )


def _numbers(group, name: str, word: str) -> np.ndarray:
    """Integers instead of labels, the same in all groups of a universe."""
    found = _attribute(group, name, word, _WORDS.get(word))
    if found.dtype.kind in "iu":
        return found
    whole = _attribute(group.universe.atoms, name, word, _WORDS.get(word))
    return np.unique(whole, return_inverse=True)[1][group.ix]


def trajectory_of(points, points2, types, exclude, chosen) -> Trajectory | None:
    """What `points` says if it is MDAnalysis' atoms."""
    for name, value in (("points", points), ("points2", points2)):
        if _is_a(value, "MDAnalysis.core.groups", "ComponentBase"):
            kind = type(value).__name__
            of = "universe.atoms[[atom.index]]" if kind == "Atom" else f"{kind.lower()}.atoms"
            raise TypeError(f"rdf: {name} is a single {kind}, expected a group: pass {of}")
    group = group_of(points)
    if group is None:
        return None
    groups = [group]
    if points2 is not None:
        groups.append(group_of(points2))
        if groups[1] is None:
            raise TypeError(
                "rdf: points are MDAnalysis' atoms, and points2 a "
                f"{type(points2).__name__}: give atoms of one universe, or positions of both"
            )
    return Trajectory(groups, types, exclude, chosen)


# ---- ASE, and single frames of MDAnalysis ----


def frame_of(item, item2, types, exclude) -> Atoms | None:
    """A frame of an iterable, if it is ASE's Atoms or a frame of MDAnalysis' trajectory."""
    if group_of(item) is not None:
        raise TypeError(
            "rdf: points is a sequence of MDAnalysis' groups, each of which stands for all "
            "frames: pass one group, and another one as points2"
        )
    if is_ase(item):
        if item2 is not None and not is_ase(item2):
            raise TypeError(
                f"rdf: points are ASE's Atoms, and points2 a {type(item2).__name__}: "
                "give Atoms, or positions of both"
            )
        each = [item] if item2 is None else [item, item2]
        labels = [_ase_words(each, "types", types), _ase_words(each, "exclude", exclude)]
        points2 = None if item2 is None else item2.positions
        return Atoms(item.positions, points2, box_of(item), *labels)
    if is_frame(item):
        return Atoms(item.positions, item2, _box_of(item), types, exclude)
    return None


def _ase_words(each, name: str, value):
    if not isinstance(value, str):
        return value
    found = tuple(_ase_labels(atoms, name, value) for atoms in each)
    return found if len(found) == 2 else found[0]


def _ase_labels(atoms, name: str, word: str):
    word = _ASE_WORDS.get(word, word)
    if word == "symbols":
        return np.array(atoms.get_chemical_symbols())
    if word not in atoms.arrays:
        raise ValueError(
            f"rdf: {name}={word!r}: these Atoms have only {', '.join(atoms.arrays)}; pass an "
            "array of labels, one for each atom"
        )
    return atoms.arrays[word]


def is_frame(item) -> bool:
    return is_ase(item) or (hasattr(item, "positions") and hasattr(item, "dimensions"))


def box_of(item):
    """The box of such a frame; None without.

    Of ASE's the rows of the cell, infinite along the axes that are not periodic.
    """
    if not is_ase(item):
        return _box_of(item) if is_frame(item) else None
    if not item.pbc.any():
        return None
    return np.where(item.pbc[:, None], np.asarray(item.cell.array), np.inf)
