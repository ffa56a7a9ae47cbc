"""The forms in which rdf takes points and boxes: what else is taken, and what is refused."""

from __future__ import annotations

import types
import warnings

import numpy as np
import pytest
from engine import same_bits
from test_rdf import cloud

import gpuops


def one_of(module: str, **attributes):
    """An object of another program."""
    return type("Frame", (), {"__module__": module, **attributes})()


POINTS = cloud(20, np.float64, 1)
WANT = gpuops.rdf(POINTS, 0.9, 6, box=(2, 2, 2)).counts


class Indexed:
    """A sequence without __iter__, as a part of ASE's trajectory is one."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def test_sequences_without_iter():
    frames = [cloud(n, np.float64, n) for n in (20, 30, 25)]
    want = gpuops.rdf(frames, 0.9, 6, box=(2, 2, 2))
    for points in (frames, [(p, (2, 2, 2)) for p in frames]):
        got = gpuops.rdf(Indexed(points), 0.9, 6, box=(2, 2, 2))
        assert got.frames == 3
        same_bits(got.counts, want.counts)
    two = gpuops.rdf(Indexed(frames), 0.9, 6, points2=Indexed(frames))
    same_bits(two.counts, gpuops.rdf(frames, 0.9, 6, points2=frames).counts)


def test_a_part_of_ases_trajectory(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ase = pytest.importorskip("ase")
        from ase.io.trajectory import Trajectory
    frames = [ase.Atoms("H20", cloud(20, np.float64, k), cell=(2, 2, 2), pbc=True)
              for k in range(5)]  # fmt: skip
    with Trajectory(tmp_path / "run.traj", "w") as out:
        for frame in frames:
            out.write(frame)
    with Trajectory(tmp_path / "run.traj") as whole:
        got = gpuops.rdf(whole[::2], 0.9, 6, types="element")
        same_bits(got.counts, gpuops.rdf(frames[::2], 0.9, 6, types="element").counts)
        assert gpuops.rdf(whole[1:], 0.9, 6).frames == 4
        assert gpuops.rdf(whole, 0.9, 6).frames == 5


class Table:
    """A table of pandas' or the like."""

    __module__ = "pandas.core"

    def __array__(self, dtype=None, copy=None):
        return POINTS

    def to_numpy(self):
        return POINTS


def test_what_else_is_a_set_of_points():
    """A buffer, a table, a frame of a trajectory, a list as a pair."""
    step = types.SimpleNamespace(positions=POINTS, dimensions=np.array([2, 2, 2, 90, 90, 90.0]))
    same_bits(gpuops.rdf(step, 0.9, 6).counts, WANT)
    same_bits(gpuops.rdf([[POINTS, (2, 2, 2)]], 0.9, 6).counts, WANT)
    for points in (memoryview(POINTS), Table(), [Table()]):
        same_bits(gpuops.rdf(points, 0.9, 6, box=(2, 2, 2)).counts, WANT)
    both = gpuops.rdf(memoryview(POINTS), 0.9, 6, points2=Table())
    same_bits(both.counts, gpuops.rdf(POINTS, 0.9, 6, points2=POINTS).counts)


ROWS = np.array([[2.0, 0, 0], [0.1, 2, 0], [0, 0.3, 2]])
LENGTHS = [[10, 11, 12], [10.1, 11.2, 11.9], [9.8, 11.1, 12.3]]


@pytest.mark.parametrize(
    ("points", "options", "error", "sentence"),
    [
        (one_of("mdtraj.core"), {}, TypeError,
         "points are mdtraj's Frame: pass points.xyz, and box=points.unitcell_vectors"),
        (one_of("chemfiles.frame", __iter__=lambda s: iter([])), {}, TypeError,
         r"chemfiles's Frame: pass points.positions, and box=\[\*points.cell.lengths"),
        (one_of("pymatgen.core"), {}, TypeError, "pymatgen's Frame: pass points.cart_coords"),
        (one_of("freud.locality"), {}, TypeError, "freud's Frame: pass points.points, and"),
        ([one_of("mdtraj.core")], {}, TypeError,
         r"points\[0\] is mdtraj's Frame: pass points\[0\].xyz, and"),
        ([(one_of("mdtraj.core"), (2, 2, 2))], {}, TypeError,
         "points are mdtraj's Frame: pass points.xyz, .*, in frame 0"),
        (iter([one_of("chemfiles.frame")]), {}, TypeError,
         "points are chemfiles's Frame: pass points.positions, .*, in frame 0"),
        (POINTS, {"points2": one_of("freud.locality")}, TypeError,
         "points2 are freud's Frame: pass points2.points, and box=points2.box"),
        ((POINTS, (2, 2, 2)), {}, TypeError, r"a pair \(points, box\), .*: pass the poi"),
        ((POINTS, np.ones(6)), {}, TypeError, r"a pair \(points, box\)"),
        ((POINTS, ROWS), {}, TypeError, r"a pair \(points, box\)"),
        ([POINTS.tolist(), [2, 2, 2]], {}, TypeError, r"a pair \(points, box\)"),
        ((ROWS, POINTS), {}, TypeError, r"points are a pair \(box, points\): the points come"),
        (((2, 2, 2), POINTS), {}, TypeError, r"points are a pair \(box, points\)"),
        ((one_of("freud.box"), POINTS), {}, TypeError, r"points are a pair \(box, points\)"),
        ([((2, 2, 2), POINTS)], {}, TypeError, r"frame 0 is a pair \(box, points\)"),
        (iter([(POINTS, ROWS), (ROWS, POINTS)]), {}, TypeError, r"frame 1 is a pair \(box, po"),
        (POINTS.astype("c16"), {}, TypeError,
         "complex128; accepted are float32, float64, and integers, which become float64$"),
        (POINTS.astype(object), {}, TypeError, "dtype object; accepted are float32, float64"),
        (POINTS.astype("f2"), {}, TypeError, "dtype float16; accepted are float32, float64"),
        (POINTS.astype("g"), {}, TypeError, "accepted are float32, float64, and integers"),
        (POINTS, {"box": (1, 1, 1, 0, 0, 0)}, ValueError,
         r"no cell has the angles \[0.0, 0.0, 0.0\]$"),
        (np.stack([POINTS] * 3), {"box": LENGTHS}, ValueError,
         r"nearly parallel, opposite faces .* apart; lengths of three frames .* \(3, 6\), and"),
        (iter([POINTS] * 3), {"box": (2, 2)}, ValueError, "box must have shape"),
    ],
)  # fmt: skip
def test_what_is_refused(points, options, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        gpuops.rdf(points, 0.5, 6, **options)
    assert str(caught.value).startswith("rdf: ")
    if isinstance(points, np.ndarray):
        options["r_max"] = None if options else 0.5
        with pytest.raises(error, match=sentence):
            gpuops.rdf(points, **options)


def test_what_that_advice_gives():
    """Lengths as (3, 6), rows as (3, 3, 3), points with box=, and a list of pairs."""
    frames = np.stack([POINTS] * 3)
    six = np.hstack((LENGTHS, np.full((3, 3), 90.0)))
    assert gpuops.rdf(frames, box=six).edges[-1] == 9.8 / 2
    skew = np.array(LENGTHS)
    assert gpuops.rdf(frames, box=np.stack([skew] * 3)).edges[-1] < 0.1
    same_bits(gpuops.rdf([(POINTS, (2, 2, 2))], 0.9, 6).counts, WANT)
    # Rows of three frames in one box, which is no trap.
    assert gpuops.rdf(frames, box=ROWS).frames == 3
    # Two frames, of which one has three points.
    assert gpuops.rdf((POINTS, POINTS[:3]), 0.9, 6).frames == 2
