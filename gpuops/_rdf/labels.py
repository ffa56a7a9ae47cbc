"""labels - types and exclusions of `rdf`: labels as the core takes them, pairs counted."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._call.meaning import refuse_lazy, refuse_meaning
from ..arrays import DeviceArray
from ..errors import brief
from .exclude import Excluding
from .sums import shares

_OBJECTS = ("O", "T")  # kinds of arrays whose items are asked one by one


_BYTES = 80  # of a counter, an edge and all that a result has for them


def check_room(bins: int, pairs: int = 1) -> None:
    """Refuses more counters than the machine has memory for: the system would end Python."""
    need, have = bins * pairs * _BYTES, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need <= have:
        return
    each = f" for each of {pairs} pairs of types" if pairs > 1 else ""
    asked = f"{bins} bin{'s' * (bins > 1)}{each}"
    less = f"give at most {have // _BYTES} bins" if pairs == 1 else "give fewer bins or types"
    raise ValueError(
        f"rdf: {asked} would take {need / 1e9:.3g} GB, and this machine has "
        f"{have / 1e9:.3g} GB of memory; {less}"
    )


class Labels:
    """What holds for the points of a frame, and for all frames with the same labels.

    With two sets, the types of the second get numbers after those of the first, so that the
    core's unordered pairs tell which point was of which set.

    `names`: None without types, else the labels in order, a pair of such arrays for two sets.
    What a pair counts for: `per_point`, neighbours of the first point of its types; `per_pair`,
    of all pairs that there are of its types, less the excluded ones.
    """

    def __init__(self, types, exclude, n: int, n2: int | None, names: Any = None) -> None:
        self.two = n2 is not None
        self._made_of = types, exclude, n, n2
        sizes = (n,) if n2 is None else (n, n2)
        given = _each_set("types", types, self.two)
        if names is None:
            names = [None] * len(sizes)
        elif not self.two:
            names = [names]
        labelled = types is not None or exclude is not None  # else numbers do not matter
        found = [
            (None, np.zeros(size * labelled, np.int32), None) if label is None
            else _numbers(name, label, size, known)
            for (name, label), size, known in zip(given, sizes, names, strict=True)
        ]  # fmt: skip
        self.keep = tuple(f[2] for f in found)
        self.leaves_out = any(keep is not None for keep in self.keep)
        self.typed = types is not None
        self.names = None
        self.arrays: tuple[np.ndarray, ...] = ()
        counts = [1, 1]
        if self.typed:
            self.names = (found[0][0], found[1][0]) if self.two else found[0][0]
            counts = [len(found[0][0]), len(found[-1][0])]
            check_room(1, counts[0] * counts[1])
            shift = np.int32(counts[0])
            self.arrays = tuple(f[1] + k * shift for k, f in enumerate(found))
        self.count = (sum(counts) if self.two else counts[0]) if self.typed else 0
        self.arrays = self.arrays if self.count else ()  # no points, no types
        self.rows = self.count * (self.count + 1) // 2 or 1

        numbers = [f[1] for f in found]
        labels = _excluded(exclude, sizes, self.keep)
        self.excluding = None if labels is None else Excluding(*labels)
        a = np.bincount(numbers[0], minlength=counts[0]).astype(np.float64)
        b = np.bincount(numbers[-1], minlength=counts[1]).astype(np.float64)
        if not labelled:
            a, b = np.array([sizes[0], sizes[-1]], np.float64)[:, None]
        pairs = a[:, None] * b
        around, times = np.repeat(a[:, None], len(b), axis=1), np.ones(pairs.shape)
        if not self.two:
            np.fill_diagonal(pairs, a * (a - 1) / 2)
            np.fill_diagonal(times, 2.0)
        if self.excluding is not None:
            pairs -= self.excluding.pairs(numbers[0], numbers[-1], pairs.shape)
        self.shape = pairs.shape
        self.per_point, self.per_pair = shares(times, around), shares(1.0, pairs)

    def serves(self, types, exclude, n: int, n2: int | None) -> bool:
        """Whether these are the labels; arrays that were written to since are not looked at."""
        made_of = self._made_of
        return made_of[0] is types and made_of[1] is exclude and made_of[2:] == (n, n2)

    def shaped(self, rows: np.ndarray) -> np.ndarray:
        """The core's rows, one per unordered pair of numbers, as (types, types2, bins); frames
        may be a leading axis."""
        if not self.typed:
            return rows[..., None, :, :]
        k, (*frames, _, bins) = self.shape[0], rows.shape
        if self.count == 0:
            return np.zeros((*frames, 0, 0, bins), rows.dtype)
        s, t = np.triu_indices(self.count)
        full = np.empty((*frames, self.count, self.count, bins), rows.dtype)
        full[..., s, t, :] = full[..., t, s, :] = rows
        return np.ascontiguousarray(full[..., :k, k:, :]) if self.two else full


def _each_set(name: str, labels, two: bool) -> list[tuple[str, Any]]:
    """(name, labels) of each set."""
    if not two:
        return [(name, labels)]
    if labels is None:
        return [(name, None)] * 2
    if not isinstance(labels, (tuple, list)) or len(labels) != 2:
        raise TypeError(f"rdf: with points2, {name} is a pair: labels of each set")
    return [(f"{name}[{k}]", label) for k, label in enumerate(labels)]


def _array(name: str, labels, n: int) -> np.ndarray:
    if isinstance(labels, str):
        raise TypeError(
            f"rdf: {name}={labels!r} is a property of MDAnalysis' or ASE's atoms; "
            "other points need a label each"
        )
    refuse_lazy("rdf", name, labels)
    labels = labels.get() if isinstance(labels, DeviceArray) else labels
    if not isinstance(labels, np.ndarray):
        try:
            labels = np.asanyarray(labels)  # which may have a mask
        except ValueError as error:
            raise ValueError(f"rdf: {name}: {error}") from None
    if labels.shape != (n,):
        raise ValueError(f"rdf: {name} must hold {n} labels, not shape {labels.shape}")
    return labels


def _is_missing(label) -> bool:
    """None, or a number, string or time that is none: NaN and NaT are not themselves, and
    pandas' NA does not say."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):
        return type(label).__name__ == "NAType"


def _present(labels) -> np.ndarray | None:
    """Where there is a label; None where there is one everywhere."""
    if isinstance(labels, np.ma.MaskedArray):
        named, there = _present(labels.data), ~np.ma.getmaskarray(labels)
        there = there if named is None else there & named
    elif not isinstance(labels, np.ndarray) or labels.dtype.kind in _OBJECTS:
        there = np.fromiter((not _is_missing(label) for label in labels), bool, len(labels))
    elif labels.dtype.kind in "fcmM":
        there = labels == labels
    else:
        return None
    return None if there.all() else there


def _labelled(name: str, labels, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """(the labels that are there, the points that have one or None for all)."""
    found = _array(name, labels, n)
    # NumPy makes a string of a NaN among strings: of a list the items themselves are asked.
    is_list = isinstance(labels, (list, tuple, np.ma.MaskedArray))
    there = _present(labels if is_list else found)
    keep = None if there is None else np.flatnonzero(there)
    found = np.asarray(found if keep is None else found[keep])
    if found.dtype.kind in _OBJECTS:
        kinds = set(map(type, found))
        if len(kinds) == 1 and issubclass(*kinds, (str, int, float)):
            found = np.array(found.tolist())  # sorted many times as fast
    return found, keep


def _unique(name: str, labels, **more):
    try:
        return np.unique(labels, **more)
    except TypeError:
        raise TypeError(f"rdf: {name} must be labels that can be sorted") from None


def names_of(name: str, each) -> np.ndarray:
    """The labels of several frames in order."""
    found = [_unique(name, _labelled(name, labels, len(labels))[0]) for labels in each]
    return _unique(name, np.concatenate(found)) if found else np.array([])


def _numbers(name: str, labels, n: int, known):
    """(labels in order, each point's number among them, the points that count or None)."""
    labels, keep = _labelled(name, labels, n)
    names, numbers = _unique(name, labels, return_inverse=True)
    if known is not None:
        place = np.searchsorted(known, names)
        strange = names[known[np.minimum(place, len(known) - 1)] != names] if len(
            known) else names  # fmt: skip
        if len(strange):
            raise ValueError(
                f"rdf: {name} has {strange.tolist()[0]!r}, which the first frame lacks; "
                f"its types are {brief(known.tolist())}"
            )
        names, numbers = known, place[numbers]
    return names, numbers.astype(np.int32), keep


def _excluded(exclude, sizes, keep) -> list[np.ndarray] | None:
    if exclude is None:
        return None
    each = _each_set("exclude", exclude, len(sizes) == 2)
    labels = [_array(name, label, n) for (name, label), n in zip(each, sizes, strict=True)]
    for (name, given), label in zip(each, labels, strict=True):
        if isinstance(label, np.ma.MaskedArray):
            refuse_meaning("rdf", name, label, behind=label is not given)
        if label.dtype.kind not in "iu" and label.size:
            raise TypeError(
                f"rdf: {name} must be integers, one for each point, not {label.dtype}"
            )
    return [label if k is None else label[k] for label, k in zip(labels, keep, strict=True)]
