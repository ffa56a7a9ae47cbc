"""Readers of trajectories survive whatever ends a call of rdf, and stand where they stood."""

from __future__ import annotations

import contextlib
import sys
import types
import warnings

import numpy as np
import pytest
from engine import same_bits
from test_rdf import cloud

import gpuops

pytestmark = pytest.mark.filterwarnings("default")  # those packages' own


# ---- a stand-in with the manners of MDAnalysis' readers ----


class ProtoReader:
    """An iterator whose `close` closes its file: then only to begin anew opens it again."""

    def __init__(self, frames, boxes):
        self.all, self.boxes, self.is_open = frames, boxes, True
        self[0]

    def __len__(self):
        return len(self.all)

    def __iter__(self):
        self.is_open, self.next = True, 0
        return self

    def __next__(self):
        if self.next == len(self.all):
            self[0]
            raise StopIteration
        self.next += 1
        return self[self.next - 1]

    def __getitem__(self, i):
        if isinstance(i, (slice, list)):
            chosen = range(len(self.all))[i] if isinstance(i, slice) else i
            return FrameIteratorBase(self, chosen)
        if not self.is_open:
            raise OSError("No file currently opened")
        self.next = i + 1
        positions, box = self.all[i], self.boxes[i]
        self.ts = types.SimpleNamespace(frame=i, positions=positions, dimensions=box)
        return self.ts

    def close(self):
        self.is_open = False


class FrameIteratorBase:
    def __init__(self, trajectory, chosen):
        self.trajectory, self.chosen = trajectory, chosen

    def __len__(self):
        return len(self.chosen)

    def __iter__(self):
        return (self.trajectory[i] for i in self.chosen)


class AtomGroup:
    def __init__(self, universe, n):
        self.universe, self.ix = universe, np.arange(n)
        self.names = np.array(["A", "B"] * (n // 2))

    def __len__(self):
        return len(self.ix)

    @property
    def atoms(self):
        return self

    @property
    def positions(self):
        return self.universe.trajectory.ts.positions[self.ix]


@pytest.fixture
def atoms(monkeypatch):
    """Thirty atoms of six frames, which stand at the fourth."""
    base = types.SimpleNamespace(ProtoReader=ProtoReader, FrameIteratorBase=FrameIteratorBase)
    package = types.SimpleNamespace(AtomGroup=AtomGroup)
    monkeypatch.setitem(sys.modules, "MDAnalysis", package)
    monkeypatch.setitem(sys.modules, "MDAnalysis.coordinates.base", base)
    frames = [cloud(30, np.float32, s) for s in range(6)]
    boxes = [np.array([2, 2, 2, 90, 90, 90], np.float32) for _ in frames]
    universe = types.SimpleNamespace(trajectory=ProtoReader(frames, boxes))
    universe.trajectory[4]
    return AtomGroup(universe, 30)


def too_large(reader):
    return {"r_max": 1000}


def unknown_word(reader):
    return {"types": "colour"}


def unknown_exclusion(reader):
    return {"exclude": "colour"}


def no_box(reader):
    reader.boxes[2] = None
    return {"norm": "rdf"}


def singular(reader):
    reader.boxes[2] = np.zeros(6, np.float32)
    return {}


def not_finite(reader):
    reader.all[2][7, 1] = np.nan
    return {}


def bad_labels(reader):
    return {"types": [1, 2, 3]}


ENDS = [too_large, unknown_word, unknown_exclusion, no_box, singular, not_finite, bad_labels]


def call(points, **options):
    return gpuops.rdf(points, **{"r_max": 0.9, "bins": 5, **options})


def is_whole(reader, frames=6):
    """At the fourth frame, and each can be read and gone through."""
    assert reader.ts.frame == 4
    for i in range(frames):
        reader[i]
    assert [step.frame for step in reader] == list(range(frames))
    reader[4]


@pytest.mark.parametrize("end", ENDS)
def test_a_reader_survives_every_error(atoms, end, capsys, recwarn):
    reader = atoms.universe.trajectory
    options = end(reader)
    with pytest.raises(ValueError, match="rdf: ") as caught:
        call(atoms, **options)
    assert reader.ts.frame == 4  # as soon as the call has ended, while its error is held
    is_whole(reader)
    assert caught.value.partial is None or caught.value.partial.frames == 2
    with contextlib.suppress(ValueError):
        gpuops.explain("rdf", atoms, **{"r_max": 0.9, **options})
    is_whole(reader)
    assert capsys.readouterr().err == ""
    assert not [w for w in recwarn if "unraisable" in str(w.category).lower()]


@pytest.mark.parametrize("what", [KeyboardInterrupt, MemoryError, SystemExit])
def test_a_reader_survives_what_the_core_raises(atoms, monkeypatch, what):
    reader, before = atoms.universe.trajectory, call(atoms)
    counted = []

    def fails(*args):
        counted.append(args)
        if len(counted) == 3:
            raise what("now")
        return np.zeros((1, 5), np.int64)

    with monkeypatch.context() as patch:
        patch.setattr("gpuops._rdf.run._counts", fails)
        with pytest.raises(what) as caught:
            call(atoms)
    assert caught.value.partial.frames == 2
    is_whole(reader)
    same_bits(call(atoms).counts, before.counts)
    is_whole(reader)


def test_what_comes_before_the_first_frame(atoms):
    """The boxes of all frames, of which the third is none or singular; a look at the first."""
    reader = atoms.universe.trajectory
    assert gpuops.rdf(atoms).frames == 6
    is_whole(reader)
    for end in (no_box, singular):
        end(reader)
        with pytest.raises((ValueError, TypeError), match=r"frame 2|singular"):
            gpuops.rdf(atoms)
        is_whole(reader)


def test_a_trajectory_given_as_frames(atoms):
    """The reader itself, a part of it, and as the second set of points."""
    reader = atoms.universe.trajectory
    want = call(atoms).counts
    same_bits(call(reader).counts, want)
    is_whole(reader)
    assert call(reader[::2]).frames == 3
    is_whole(reader)
    fixed = [(p, b) for p, b in zip(reader.all, reader.boxes, strict=True)]
    second = [step.positions for step in reader]
    reader[4]
    for points2 in (second, (step.positions for step in reader)):
        with pytest.raises(ValueError, match="half the smallest"):
            call(fixed, points2=points2, r_max=1000)
    reader[4]
    for points in (reader, reader[::2]):
        with pytest.raises(ValueError, match="half the smallest"):
            call(points, r_max=1000)
        is_whole(reader)
        not_finite(reader)
        with pytest.raises(ValueError, match="must be finite"):
            call(points)
        is_whole(reader)
        reader.all[2][7, 1] = 0


def test_a_reader_that_cannot_go_back_hides_no_error(atoms):
    reader = atoms.universe.trajectory

    class Broken(Exception):
        pass

    def breaks(self, i):
        raise Broken

    patched = type("Reader", (ProtoReader,), {})
    reader.__class__ = patched
    with pytest.raises(ValueError, match="must hold 30 labels"):
        call(atoms, types=Late(patched, breaks))


class Late:
    """Labels that end the reader's life while they are looked at."""

    def __init__(self, kind, breaks):
        self.kind, self.breaks = kind, breaks

    def __array__(self, dtype=None, copy=None):
        self.kind.__getitem__ = self.breaks
        return np.zeros(3, np.int64)


@pytest.mark.parametrize(
    ("chosen", "frames"),
    [(range(0, 6, 2), [0, 2, 4]), ((0, 1), [0, 1]), ([5, 3], [5, 3]), (3, [3]),
     (np.int64(1), [1]), (np.array([1, 2]), [1, 2]), (iter([4, 5]), [4, 5]),
     (slice(1, 3), [1, 2])],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_chosen_frames(atoms, chosen, frames):
    want = sum(call(p, box=(2, 2, 2)).counts for p in
               (atoms.universe.trajectory.all[i] for i in frames))  # fmt: skip
    got = call(atoms, frames=chosen)
    assert got.frames == len(frames)
    same_bits(got.counts, want)
    is_whole(atoms.universe.trajectory)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [(6, "has 6, and the trajectory has 6 frames"), (-7, "has -7, and"), ([0, 9], "has 9, and"),
     (10**15, "has 1000000"), ([True] * 5, "has 5 booleans, and the trajectory has 6 frames")],
)  # fmt: skip
def test_frames_that_the_trajectory_has_not(atoms, chosen, words):
    """MDAnalysis' own words named another frame, or NumPy's an axis."""
    with pytest.raises(IndexError, match=f"^rdf: frames {words}"):
        call(atoms, frames=chosen)
    is_whole(atoms.universe.trajectory)


@pytest.mark.parametrize("chosen", [1.5, True, "all", [0.5], [[1]], {"a": 1}.items])
def test_frames_that_are_none(atoms, chosen):
    with pytest.raises(TypeError, match="frames must be a slice, an integer or a sequence of"):
        call(atoms, frames=chosen)


def test_frames_without_a_box(atoms):
    reader = atoms.universe.trajectory
    reader.boxes[3] = None
    with pytest.raises(ValueError, match="there is none of frame 3"):
        call(atoms)
    with pytest.raises(TypeError, match=r"r_max is needed where .*: frame 3 has no box"):
        gpuops.rdf(atoms)
    reader.boxes[:] = [None] * 6
    with pytest.warns(UserWarning, match=r"frame 0 has no box, .* density .* norm='density'"):
        assert call(atoms).norm == "density"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(atoms, norm="density").norm == "density"
        assert call(atoms, box=(2, 2, 2)).norm == "rdf"
        assert call(reader.all).norm == "density"  # arrays, of which nobody says a box


def test_half_a_box_in_float32(atoms):
    """MDAnalysis has 20.3 as 20.299999: half of it is 10.15 all the same."""
    lengths = np.round(np.arange(2, 30, 0.3), 1)
    assert sum(float(np.float32(n)) < n for n in lengths) > 30
    for n in lengths:
        box = np.array([n, n, n, 90, 90, 90], np.float32)
        atoms.universe.trajectory.boxes[:] = [box] * 6
        assert call(atoms, r_max=n / 2).edges[-1] == n / 2
        for r_max, sides in ((np.float32(n / 2), (n, n, n)), (n / 2, box)):
            assert call(cloud(9, np.float64, 1), r_max=r_max, box=sides).frames == 1
    bins = np.linspace(0, 10.05, 9, dtype=np.float32)
    assert float(bins[-1]) > 20.1 / 2
    gpuops.rdf(cloud(9, np.float64, 1), bins=bins, box=(20.1, 20.1, 20.1))
    for r_max in (n / 2 * (1 + 1e-5), np.float32(n / 2 * (1 + 1e-5))):
        with pytest.raises(ValueError, match="half the smallest"):
            call(atoms, r_max=r_max)
