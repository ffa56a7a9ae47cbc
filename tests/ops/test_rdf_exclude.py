"""rdf without the pairs of equal label: the counts of a plain double loop, bit for bit."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import engine
import numpy as np
import pytest
from engine import attempt, rows, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rdf import ROWS, cloud, reference

import gpuops
from gpuops._rdf import exclude as rdf_exclude
from gpuops._rdf import run as rdf_run

CALLS = rows("rdf")
DEVICES = engine.backends()


def molecules(n, each, seed=0):
    """Labels of so many points each, in no order, with gaps and of either sign."""
    labels = np.arange(n) // each * 7 - 30
    return np.random.default_rng(seed).permutation(labels)


# ---- every kernel and device ----


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("box", ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_counts(device, kernel, dtype, box):
    call = {"device": device, "kernel": kernel, "box": ROWS[box]}
    for n, each, lattice in itertools.product((0, 1, 2, 230), (1, 3, 60), (0, 1)):
        points, labels = cloud(n, dtype, n, lattice), molecules(n, each, n)
        got = attempt(gpuops.rdf, points, 0.9, 50, exclude=labels, **call)
        want = reference(points, got.edges, box=ROWS[box], exclude=labels)
        same_bits(got.counts, want)


@pytest.mark.parametrize("box", ROWS)
@pytest.mark.parametrize("device", DEVICES)
def test_two_sets_types_and_frames(device, box):
    points, points2 = (np.stack([cloud(n, np.float32, s) for s in (k, k + 9)])
                       for n, k in ((150, 1), (90, 2)))  # fmt: skip
    labels = molecules(150, 4, 1), molecules(90, 3, 2)
    types = np.arange(150) % 3, np.arange(90) % 2
    got = gpuops.rdf(points, 0.9, 20, points2=points2, exclude=labels, box=ROWS[box],
                     device=device)  # fmt: skip
    sets = list(zip(points, points2, strict=True))
    want = [reference(p, got.edges, q, ROWS[box], exclude=labels) for p, q in sets]
    same_bits(got.counts, sum(want))
    got = gpuops.rdf(points, 0.9, 20, points2=points2, exclude=labels, types=types,
                     box=ROWS[box], device=device)  # fmt: skip
    for s, t in itertools.product(range(3), range(2)):
        of, of2 = types[0] == s, types[1] == t
        apart = labels[0][of], labels[1][of2]
        want = [reference(p[of], got.edges, q[of2], ROWS[box], exclude=apart) for p, q in sets]
        same_bits(got.counts[s, t], sum(want))
    got = gpuops.rdf(points, 0.9, 20, types=types[0], exclude=labels[0], box=ROWS[box],
                     device=device)  # fmt: skip
    want = sum(reference(p, got.edges, None, ROWS[box], types[0], labels[0]) for p in points)
    same_bits(got.counts[np.triu_indices(3)], want)


@pytest.mark.parametrize("device", DEVICES)
def test_points_on_a_device(device):
    points, labels = cloud(200, np.float64, 3), molecules(200, 5)
    there = gpuops.to_device(points, device)
    got = gpuops.rdf(there, 0.9, 20, exclude=gpuops.to_device(labels, device), box=(2, 2, 2))
    same_bits(got.counts, reference(points, got.edges, box=(2, 2, 2), exclude=labels))


def test_any_labels():
    """Of any integer dtype, of two in one call, and of one of few or many points."""
    points, points2 = cloud(60, np.float32, 1), cloud(50, np.float32, 2)
    edges = np.linspace(0, 2, 9)
    labels = np.random.default_rng(0).integers(0, 9, 60), np.arange(50) // 7
    want = reference(points, edges, points2, exclude=labels)
    for kind, kind2 in (("u1", "i8"), ("u8", "i8"), ("i2", "u8"), (">i4", "u4")):
        apart = labels[0].astype(kind), labels[1].astype(kind2)
        got = gpuops.rdf(points, bins=edges, points2=points2, exclude=apart)
        same_bits(got.counts, want)
    great = np.array([2**64 - 1] * 30 + [1] * 30, np.uint64)
    small = np.full(50, -1)
    got = gpuops.rdf(points, bins=edges, points2=points2, exclude=(great, small))
    same_bits(got.counts, reference(points, edges, points2))
    assert gpuops.rdf(points, bins=edges, exclude=[3] * 60).counts.sum() == 0
    same_bits(
        gpuops.rdf(points, bins=edges, exclude=range(60)).counts, reference(points, edges)
    )


# ---- few large groups, many small ones ----


@pytest.fixture
def small_sizes(monkeypatch):
    """All ways of counting at sizes that a double loop can follow."""
    for name, value in (("SMALL", 20), ("WORTH", 100), ("CHUNK", 64), ("KEPT", 200)):
        monkeypatch.setattr(rdf_exclude, name, value)


SIZES = [
    [1] * 40, [3] * 30, [60], [60, 1, 1, 1], [30, 30], [20, 20, 20, 20], [5] * 20, [8, 7] * 9,
    [50, 3, 3, 3, 2, 2, 1, 6, 6, 9], [12] * 10, [40] + [1] * 60, [1] * 60 + [7] * 8,
]  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.usefixtures("small_sizes")
def test_sizes_of_groups(sizes):
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
    points, types = cloud(len(labels), np.float64, 4), np.arange(len(labels)) % 2
    got = gpuops.rdf(points, 0.9, 20, types=types, exclude=labels, box=ROWS["triclinic"])
    want = reference(points, got.edges, None, ROWS["triclinic"], types, labels)
    same_bits(got.counts[np.triu_indices(2)], want)
    for labels2 in (labels[::-1], labels[:40], np.full(30, labels[0])):
        points2 = cloud(len(labels2), np.float64, 5)
        got = gpuops.rdf(points, 0.9, 20, points2=points2, exclude=(labels, labels2))
        same_bits(got.counts, reference(points, got.edges, points2, exclude=(labels, labels2)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_call(data):
    draw = data.draw
    n, n2 = draw(st.integers(0, 40)), draw(st.none() | st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from((np.float32, np.float64)))
    box = ROWS[draw(st.sampled_from([*ROWS]))]
    apart = [rng.integers(-3, draw(st.integers(-2, 20)), k) for k in (n, n2 or 0)]
    types = [rng.integers(0, draw(st.integers(1, 3)), k) for k in (n, n2 or 0)]
    points, points2 = cloud(n, dtype, 1), None if n2 is None else cloud(n2, dtype, 2)
    both = n2 is not None
    edges = np.sort(rng.random(draw(st.integers(2, 9)))) * 0.9
    before = rdf_exclude.SMALL, rdf_exclude.WORTH, rdf_exclude.CHUNK, rdf_exclude.KEPT
    rdf_exclude.SMALL, rdf_exclude.WORTH = draw(st.sampled_from(((2, 4), (9, 30), before[:2])))
    rdf_exclude.CHUNK, rdf_exclude.KEPT = draw(st.sampled_from(((1, 0), (7, 99), before[2:])))
    try:
        got = gpuops.rdf(
            points, bins=edges, points2=points2, box=box,
            exclude=apart if both else apart[0], types=types if both else types[0],
        )  # fmt: skip
    finally:
        names = ("SMALL", "WORTH", "CHUNK", "KEPT")
        for name, value in zip(names, before, strict=True):
            setattr(rdf_exclude, name, value)
    each = (np.unique(types[0]), np.unique(types[1 if both else 0]))
    for (i, s), (k, t) in itertools.product(*map(enumerate, each)):
        one, other = types[0] == s, types[1 if both else 0] == t
        if both or s != t:
            second, theirs = (points2, apart[1]) if both else (points, apart[0])
            want = reference(points[one], edges, second[other], box,
                             exclude=(apart[0][one], theirs[other]))  # fmt: skip
        else:
            want = reference(points[one], edges, None, box, exclude=apart[0][one])
        same_bits(got.counts[i, k], want)


def counted_pairs(monkeypatch, labels, labels2=None):
    """Pairs that the kernels look at, by the sizes of what they are given."""
    looked = []

    def call(sets, types, ntypes, edges, cell, options):
        n = len(sets[0])
        looked.append(n * len(sets[1]) if len(sets) == 2 else n * (n - 1) // 2)
        return SimpleNamespace(
            run=lambda: np.zeros((1, len(edges) - 1), np.int64), plan=lambda: {"kernel": "none"}
        )

    monkeypatch.setattr(rdf_run, "_call", call)
    sets = [np.zeros((len(of), 3)) for of in (labels, labels2) if of is not None]
    second = {} if labels2 is None else {"points2": sets[1]}
    apart = labels if labels2 is None else (labels, labels2)
    gpuops.rdf(sets[0], bins=[1, 2], exclude=apart, **second)
    assert looked or not len(labels)
    return sum(looked)


@pytest.mark.parametrize("sizes", [[5000], [4000, 1000], [2500, 2500], [4000] + [3] * 300,
                                   [600] * 8, [900] * 3 + [1] * 2000, [300] * 16])  # fmt: skip
def test_it_is_not_more_work_than_all_pairs(monkeypatch, sizes):
    """Where labels hold much of the points, their pairs are not counted to be taken away."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    n = len(labels)
    looked = counted_pairs(monkeypatch, labels)
    share = sum(s * (s - 1) // 2 for s in sizes) / (n * (n - 1) // 2)
    assert looked <= n * (n - 1) // 2 * 1.13
    if share > 0.5:
        assert looked <= n * (n - 1) // 2 * 0.5
    assert counted_pairs(monkeypatch, labels, labels[::-1]) <= n * n * 1.26


# ---- what it means ----


def test_normalisation():
    """Without the excluded pairs: an ideal gas of molecules is 1 where they do not reach."""
    rng = np.random.default_rng(2)
    n, size = 900, 4.0
    centres = rng.random((n, 3)) * size
    points = (centres[:, None] + rng.normal(size=(n, 3, 3)) * 0.05).reshape(-1, 3)
    labels, box = np.repeat(np.arange(n), 3), (size,) * 3
    got = gpuops.rdf(points, 2.0, 10, exclude=labels, box=box)
    assert abs(got.g - 1).max() < 0.12
    assert gpuops.rdf(points, 2.0, 10, box=box).g[0] > 2
    shell = 4 / 3 * np.pi * np.diff(got.edges**3)
    pairs = 3 * n * (3 * n - 1) / 2 - 3 * n
    np.testing.assert_allclose(got.g, got.counts * size**3 / (pairs * shell))
    types = np.tile([0, 1, 1], n)
    got = gpuops.rdf(points, 2.0, 10, exclude=labels, types=types, box=box)
    pairs = np.array([[n * (n - 1) / 2, 2 * n * n - 2 * n], [0, n * (2 * n - 1) - n]])
    pairs[1, 0] = pairs[0, 1]
    np.testing.assert_allclose(got.g, got.counts * size**3 / (pairs[..., None] * shell))
    both = {"points2": points, "exclude": (labels, labels), "types": (types, types)}
    two = gpuops.rdf(points, 2.0, 10, box=box, **both)
    np.testing.assert_allclose(two.g, got.g)  # every pair twice, among twice as many
    dense = gpuops.rdf(points, 2.0, 10, exclude=labels)
    np.testing.assert_allclose(dense.g, 2 * dense.counts / (3 * n * shell))
    assert (gpuops.rdf(points, 2.0, 10, exclude=labels * 0, box=box).g == 0).all()


@pytest.mark.parametrize(
    ("kwargs", "error", "sentence"),
    [
        ({"exclude": [1, 2]}, ValueError, "exclude must hold 4 labels, not shape"),
        ({"exclude": [0.5] * 4}, TypeError, "exclude must be integers, .* not float64"),
        ({"exclude": ["a"] * 4}, TypeError, "exclude must be integers"),
        ({"exclude": [True] * 4}, TypeError, "exclude must be integers, .* not bool"),
        ({"exclude": "residue"}, TypeError, "exclude='residue' is a property of MDAnalysis'"),
        ({"types": "element"}, TypeError, "types='element' is a property of MDAnalysis'"),
        ({"exclude": [1] * 4, "points2": np.ones((4, 3))}, TypeError, "exclude is a pair"),
        ({"exclude": ([1] * 4, [1]), "points2": np.ones((4, 3))}, ValueError,
         r"exclude\[1\] must hold 4"),
    ],
)  # fmt: skip
def test_bad_labels(kwargs, error, sentence):
    with pytest.raises(error, match=sentence):
        gpuops.rdf(np.arange(12.0).reshape(4, 3), 1, **kwargs)


@pytest.mark.parametrize("device", DEVICES)
def test_a_bad_coordinate_keeps_its_index(device):
    points = np.arange(300.0).reshape(100, 3)
    points[70, 1] = np.nan
    for there in (points, gpuops.to_device(points, device)):
        for labels in (np.arange(100) // 99, np.arange(100) // 3):
            with pytest.raises(ValueError, match=r"points\[70, 1\] is nan"):
                gpuops.rdf(there, 1, exclude=labels)


def test_a_benchmark_of_several_calls_times_them_all():
    points = cloud(300, np.float32, 1)
    timing = gpuops.benchmark("rdf", (points, 1), {"exclude": molecules(300, 3)}, n_repeat=2)
    assert not timing.kernel
    assert timing.total > 0
