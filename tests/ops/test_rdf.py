"""rdf: the counts of the plain double loop, bit for bit, and the sentences for bad input."""

from __future__ import annotations

import functools
import itertools
import signal
import time

import engine
import numpy as np
import pytest
from engine import attempt, rows, same_bits, taken
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuops
from gpuops import _core

CALLS = rows("rdf")
DEVICES = engine.backends()
DTYPES = (np.float32, np.float64)
ROWS = {
    None: None,
    "right": (2.0, 2.5, 3.0),
    "triclinic": ((2.3, 0, 0), (0.5, 2.2, 0), (-0.4, 0.9, 2.1)),
}


@engine.remembered
def reference(points, edges, points2=None, box=None, types=None, exclude=None):
    """docs/numerics.md, read aloud: a row of counts, or one per unordered pair of types."""
    one = points2 is None
    other = points if one else points2
    apart = None if exclude is None else (exclude, exclude) if one else exclude
    of = None if types is None else (types, types) if one else types
    number = 1 if of is None else 1 + max(max(t, default=0) for t in of)
    counts = np.zeros((number * (number + 1) // 2, len(edges) - 1), np.int64)
    if box is not None:
        box = np.asarray(box, np.float64).astype(points.dtype)
        a, b, c = np.diag(box) if box.ndim == 1 else box
    with np.errstate(all="ignore"):
        for i in range(len(points)):
            dx, dy, dz = (points[i] - other[i + 1 if one else 0 :]).T
            if box is not None:
                n = np.rint(dz / c[2])
                dx, dy, dz = dx - n * c[0], dy - n * c[1], dz - n * c[2]
                n = np.rint(dy / b[1])
                dx, dy = dx - n * b[0], dy - n * b[1]
                dx = dx - np.rint(dx / a[0]) * a[0]
            r = np.sqrt((dx * dx + dy * dy) + dz * dz)
            assert r.dtype == points.dtype
            k = np.searchsorted(edges, r.astype(np.float64), side="right") - 1
            inside = (r >= edges[0]) & (r < edges[-1])
            if apart is not None:
                inside &= apart[0][i] != apart[1][i + 1 if one else 0 :]
            row = np.zeros(len(r), np.int64)
            if of is not None:
                mine, theirs = of[0][i], of[1][i + 1 if one else 0 :]
                low, high = np.minimum(mine, theirs), np.maximum(mine, theirs)
                row = low * number - low * (low - 1) // 2 + high - low
            np.add.at(counts, (row[inside], k[inside]), 1)
    return counts if of is not None else counts[0]


def cloud(n, dtype, seed=0, lattice=False):
    """Points in and around the boxes; on a lattice, distances hit edges exactly."""
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 9, (n, 3)) * 0.25 if lattice else rng.random((n, 3)) * 4 - 1
    return points.astype(dtype)


@functools.cache
def wanted(n, dtype, lattice, bins, box):
    """The reference's counts of a cloud, shared by all kernels."""
    edges = np.linspace(0, 0.9, bins + 1)
    return reference(cloud(n, dtype, n, lattice), edges, box=ROWS[box])


def run(device, kernel, *args, **kwargs):
    return attempt(gpuops.rdf, *args, device=device, kernel=kernel, **kwargs)


# ---- the plain double loop ----


def test_the_reference_itself():
    points = cloud(20, np.float32, 3)
    edges = np.linspace(0, 2, 8)
    counts = np.zeros(7, np.int64)
    for i, j in itertools.combinations(range(20), 2):
        d = points[i] - points[j]
        r = float(np.sqrt((d[0] * d[0] + d[1] * d[1]) + d[2] * d[2]))
        for k in range(7):
            counts[k] += edges[k] <= r < edges[k + 1]
    same_bits(reference(points, edges), counts)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("box", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_counts(device, kernel, dtype, box):
    def call(case):
        n, bins, lattice = case
        points = cloud(n, dtype, n, lattice)
        return run(device, kernel, points, 0.9, bins, box=ROWS[box])

    cases = itertools.product((0, 1, 2, 130, 513, 1100), (1, 100), (0, 1))
    for (n, bins, lattice), got in taken(cases, call):
        assert got.counts.dtype == np.int64
        same_bits(got.edges, np.linspace(0, 0.9, bins + 1))
        same_bits(got.counts, wanted(n, dtype, lattice, bins, box))


@pytest.mark.parametrize("box", ROWS)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_two_sets(device, kernel, box):
    sizes = ((0, 7), (7, 0), (1, 1), (600, 33), (33, 600), (520, 1030))
    sets = [(cloud(n, np.float32, 1), cloud(n2, np.float32, 2)) for n, n2 in sizes]
    words = {"r_min": 0.25, "box": ROWS[box]}

    def call(case):
        return run(device, kernel, case[0], 1, 37, points2=case[1], **words)

    for (points, points2), got in taken(sets, call):
        same_bits(got.counts, reference(points, got.edges, points2, ROWS[box]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_types(device, kernel, dtype):
    rng, names = np.random.default_rng(5), np.array(["C", "H", "N", "O", "S"])
    cases = []
    for n, number in ((0, 1), (1, 1), (40, 1), (700, 2), (700, 5)):
        points, types = cloud(n, dtype, n), rng.integers(0, number, n)
        types[:number] = range(min(number, n))
        cases.append((number, points, types))

    def call(case):
        return run(device, kernel, case[1], 1, 25, types=names[case[2]], box=(2, 2, 2))

    for (number, points, types), got in taken(cases, call):
        assert list(got.types) == sorted(set(names[types]))
        if len(points) == 0:
            assert got.counts.shape == (0, 0, 25)
            continue
        same_bits(got.counts, np.ascontiguousarray(got.counts.transpose(1, 0, 2)))
        want = reference(points, got.edges, types=types, box=(2, 2, 2))
        same_bits(got.counts[np.triu_indices(number)], want)


@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_types_of_two_sets(device, kernel):
    rng = np.random.default_rng(6)
    points, points2 = cloud(300, np.float64, 1), cloud(150, np.float64, 2)
    types, types2 = rng.integers(0, 3, 300), rng.integers(0, 2, 150)
    got = run(device, kernel, points, 1.5, 20, points2=points2, types=(types, types2))
    assert got.counts.shape == (3, 2, 20)
    for s, t in itertools.product(range(3), range(2)):
        want = reference(points[types == s], got.edges, points2[types2 == t])
        same_bits(got.counts[s, t], want)
    # The core itself counts by unordered pairs of labels.
    operands = (points, got.edges, points2, types.astype("i4"), types2.astype("i4"))
    params = {"points2": True, "ntypes": 3, "box": None}
    try:
        counts = _core.run("rdf", operands, params, None, (device, 0), kernel, None)
    except gpuops.KernelRefusedError as refusal:
        pytest.skip(str(refusal))
    same_bits(counts, reference(points, got.edges, points2, types=(types, types2)))


@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_layouts(device, kernel):
    points, types = cloud(70, np.float32), np.arange(70) % 3
    for name, view in engine.layouts(points):
        got = run(device, kernel, view, 1.5, 12, types=engine.layout(types, "strided"))
        plain = np.ascontiguousarray(view, np.float32)
        want = reference(plain, got.edges, types=types)
        assert (got.counts[np.triu_indices(3)] == want).all(), name


# ---- bins ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_edges_hit_exactly(device, kernel, dtype):
    """A pair on an edge belongs to the bin above; on the last edge to none."""
    points = np.zeros((4, 3), dtype)
    points[:, 0] = (0, 1, 3, 7)  # distances 1 2 3 4 6 7
    got = run(device, kernel, points, 7, 7)
    same_bits(got.counts, np.array([0, 1, 1, 1, 1, 0, 1]))
    got = run(device, kernel, np.zeros((3, 3), dtype), bins=[0, 1])
    same_bits(got.counts, np.array([3]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_edges_one_step_to_either_side_of_a_distance(device, kernel, dtype):
    cases = []
    for far in (0.1, 1 / 3, 2.0, 1e5):
        points = np.array([[0, 0, 0], [far, 0, 0]], dtype)
        r = float(points[1, 0])
        above, below = np.nextafter(r, 9e9), np.nextafter(r, 0)
        cases += [(points, edges) for edges in ([0, r], [0, above], [below, r], [r, 2 * r])]

    def call(case):
        return run(device, kernel, case[0], bins=case[1])

    for (points, edges), got in taken(cases, call):
        same_bits(got.counts, reference(points, np.array(edges, float)))


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_uneven_and_many_bins(device, kernel, dtype):
    points, rng = cloud(400, dtype, 8), np.random.default_rng(8)
    for edges in (
        np.sort(rng.random(40)) * 3,
        np.geomspace(1e-6, 3, 50),
        np.sort(rng.choice(np.linspace(0, 3, 20000), 9000, replace=False)),
        np.linspace(0.5, 2, 3000) + rng.random(3000) * 1e-5,
        1 + np.arange(5) * 2.0**-50,  # closer than float32 can tell
    ):
        got = run(device, kernel, points, bins=edges)
        same_bits(got.counts, reference(points, edges))
    for bins in (20_000, 300_000):  # more counters than shared memory holds
        try:
            got = gpuops.rdf(points, 3, bins, device=device, kernel=kernel)
        except gpuops.KernelRefusedError:
            if kernel is None:
                raise
            continue
        same_bits(got.counts, reference(points, got.edges))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_extreme_scales(device, kernel, dtype):
    """Squares that underflow or overflow, and differences that overflow."""
    powers = (-44, -30, -19, -10, 12, 19, 30) if dtype == np.float32 else (-200, -160, 30, 155)
    for power in powers:
        points = cloud(60, np.float64, 9) * 10.0**power
        points = points.astype(dtype)
        got = run(device, kernel, points, 3 * 10.0**power, 30)
        same_bits(got.counts, reference(points, got.edges))
    huge = np.finfo(dtype).max
    points = np.array([[-huge] * 3, [huge] * 3, [0] * 3], dtype)
    assert run(device, kernel, points, 10, 3).counts.sum() == 0
    box = (2.0, 2.5, 3.0)
    got = run(device, kernel, points, 1, 3, box=box)
    same_bits(got.counts, reference(points, got.edges, box=box))


@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_far_outside_the_box(device, kernel):
    """Many boxes away, where a quotient is near a half or beyond a float's integers."""
    rng = np.random.default_rng(10)
    cases = []
    for dtype, reach in itertools.product(DTYPES, (3, 20, 1e4, 1e8, 1e12)):
        points = (rng.integers(-reach, reach, (200, 3)) * 0.5).astype(dtype)
        points += (rng.random((200, 3)) * 1e-3).astype(dtype)
        cases += [(points, box) for box in ((1.0, 1.1, 0.7), ROWS["triclinic"])]

    def call(case):
        return run(device, kernel, case[0], 0.35, 9, box=case[1])

    for (points, box), got in taken(cases, call):
        same_bits(got.counts, reference(points, got.edges, box=box))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_call(data):
    draw = data.draw
    dtype = draw(st.sampled_from(DTYPES))
    coordinate = st.floats(-4, 4, width=32) | st.integers(-8, 8).map(lambda i: i / 2)
    point = st.tuples(coordinate, coordinate, coordinate)
    points = np.array(draw(st.lists(point, max_size=30)), dtype).reshape(-1, 3)
    box = draw(st.sampled_from((None, (2.0, 2.0, 2.0), ROWS["triclinic"])))
    edges = sorted(draw(st.sets(st.floats(0, 0.9), min_size=2, max_size=9)))
    if not np.all(np.diff(edges) > 0):
        return
    want = reference(points, np.array(edges), box=box)
    for param in CALLS:
        device, kernel = param.values
        try:
            got = gpuops.rdf(points, bins=edges, box=box, device=device, kernel=kernel)
        except gpuops.KernelRefusedError:
            continue
        same_bits(got.counts, want)


def test_scipy_counts_the_same():
    spatial = pytest.importorskip("scipy.spatial")
    points, points2 = (np.random.default_rng(s).random((2000, 3)) for s in (1, 2))
    edges = np.linspace(0.01, 0.5, 40)
    for size in (None, 1.0):
        a, b = (spatial.cKDTree(p, boxsize=size) for p in (points, points2))
        box = None if size is None else (1, 1, 1)
        got = gpuops.rdf(points, bins=edges, box=box).counts
        same_bits(got, np.diff(a.count_neighbors(a, edges)) // 2)
        got = gpuops.rdf(points, bins=edges, points2=points2, box=box).counts
        same_bits(got, np.diff(a.count_neighbors(b, edges)))


# ---- the same bits however it is run ----


def test_threads_and_levels():
    points, types = cloud(1500, np.float32, 4), np.arange(1500) % 4
    want = gpuops.rdf(points, 1, 60, types=types, box=(2, 2, 2), kernel="naive").counts
    for level, threads in itertools.product(_core.cpu_levels(), (1, 2, 3)):
        try:
            _core.set_cpu_level(level)
            _core.set_threads(threads)
            for kernel in ("simd", "threaded", "cells"):
                got = gpuops.rdf(
                    points, 1, 60, types=types, box=(2, 2, 2), device="cpu", kernel=kernel
                )
                same_bits(got.counts, want)
        finally:
            _core.set_cpu_level(None)
            _core.set_threads(None)


@pytest.mark.sampled(every=3)
@pytest.mark.alone
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_a_signal_stops_it(device, kernel):
    if device == "sim":
        pytest.skip("sim runs a block at a time")
    points = cloud(3_000_000 if device == "cuda" else 300_000, np.float64)
    seen = []

    def ring(*_):
        seen.append(time.perf_counter())
        raise InterruptedError("enough")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(InterruptedError, match="enough"):
            run(device, kernel, points, 4, 50)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - seen[0] < 1.0
    same_bits(run(device, kernel, points[:9], 4, 5).counts,
              reference(points[:9], np.linspace(0, 4, 6)))  # fmt: skip
