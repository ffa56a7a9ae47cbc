"""rdf by cells, and by comparing in place of dividing: the counts of all pairs, bit for bit."""

from __future__ import annotations

import itertools
from timeit import Timer

import numpy as np
import pytest
from engine import rows, same_bits

import gpuops
from gpuops import _core

CELLS = [p for p in rows("rdf") if p.values[1] == "cells"]
GUESSES = [p for p in rows("rdf", auto=False)
           if p.values[0] != "cpu" and p.values[1] in ("guessed", "cells")]  # fmt: skip
CASES, SAMPLE = 1000, 150
LATTICE = 12  # of the points that meet edges, faces of cells and faces of the box exactly


def height(box) -> float:
    """The smallest distance between opposite faces."""
    return (1 / np.linalg.norm(np.linalg.inv(box), axis=0)).min()


def boxes(rng, kind: str):
    lengths = rng.random(3) * 3 + 0.5
    if rng.random() < 0.3:
        lengths[rng.integers(3)] *= rng.choice([0.1, 10])
    box = np.diag(np.round(lengths, 1) if rng.random() < 0.5 else lengths)
    if kind == "triclinic":
        box[1, 0], box[2, 0], box[2, 1] = rng.uniform(-0.6, 0.6, 3) * box[[0, 0, 1], [0, 0, 1]]
    return box


def places(rng, n: int) -> np.ndarray:
    """Points in units of the box, in one of the ways that make cells hard."""
    s = rng.random((n, 3))
    match rng.integers(7):
        case 0:  # one cell holds half of them
            s[: n // 2] = rng.random(3) + rng.normal(0, 1e-3, (n // 2, 3))
        case 1 | 2:  # all on faces of cells, at distances that are edges
            s = rng.integers(0, LATTICE + 1, (n, 3)) / LATTICE
        case 3:  # in and around the box
            s = s * rng.choice([1.2, 2, 5]) - rng.random(3)
        case 4:  # a plane, a line
            s[:, rng.integers(3)] = 0.5
            s[:, rng.integers(3)] = 0.25
        case 5:  # most cells are empty, and some points are far
            s = s**6
            s[: n // 50] *= 40
    return s


def case_of(number: int):
    """Points and options of a call."""
    rng = np.random.default_rng(number)
    dtype = ("float32", "float64")[number % 2]
    kind = ("none", "orthorhombic", "triclinic")[number % 3]
    n = int(rng.choice([2, 17, 100, 400, 1500, 3000]))
    box = boxes(rng, kind)
    points = (places(rng, n) @ box).astype(dtype)
    options = {"bins": int(rng.choice([1, 12, 100, 333]))}
    most = height(box) / 2
    if kind == "none":
        most = box.max() * rng.choice([0.2, 1, 4])
    else:
        options["box"] = box
    r_max = most * rng.choice([0.02, 0.1, 0.2, 1 / 3, 0.5, 0.8, 0.97, 1])
    if rng.random() < 0.3:  # a step of the lattice, as it is computed
        step = float(np.diag(box).astype(dtype).min() / np.dtype(dtype).type(LATTICE))
        r_max = min(most, step * rng.integers(1, 6))
    options["r_max"] = r_max
    if rng.random() < 0.3:
        second = (places(rng, int(rng.choice([1, 60, 900]))) @ box).astype(dtype)
        options["points2"] = second
        if rng.random() < 0.5:
            options["types"] = (rng.integers(0, 3, n), rng.integers(0, 2, len(second)))
    elif rng.random() < 0.3:
        options["types"] = rng.integers(0, 4, n)
    elif kind == "orthorhombic" and rng.random() < 0.3:  # axes without images
        options["box"] = np.where(rng.random(3) < 0.5, np.inf, np.diag(box))
        options["norm"] = "density"
    return points, options


def counts(points, options, kernel, device="cpu"):
    return gpuops.rdf(points, **options, device=device, kernel=kernel).counts


@pytest.mark.sampled
def test_cells_count_all_pairs(everything):
    met = 0
    for number in range(CASES if everything else SAMPLE):
        points, options = case_of(number)
        want = counts(points, options, "naive")
        met += want.sum() > 0
        for kernel in ("threaded", "cells"):
            assert (counts(points, options, kernel) == want).all(), (number, kernel)
    assert met > 0.6 * (number + 1)


@pytest.mark.parametrize("level", _core.cpu_levels())
def test_levels_and_threads(level):
    try:
        _core.set_cpu_level(level)
        for threads in (1, 2, 5):
            _core.set_threads(threads)
            for number in range(90, 102):
                points, options = case_of(number)
                same_bits(counts(points, options, "cells"), counts(points, options, "naive"))
    finally:
        _core.set_cpu_level(None)
        _core.set_threads(None)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("device", "kernel"), rows("rdf"))
def test_where_images_begin(device, kernel, dtype):
    """Differences of 1/2, 3/2 and 5/2 lengths, and one and two numbers to either side."""
    for lengths in ((1.0, 1.1, 0.7), (3.0, 5.0, 7.0), (0.1, 0.3, 0.9)):
        for times, slant in ((0.5, 0), (1.5, 0), (2.5, 0), (0.5, 0.4), (1.5, 0.4)):
            box = np.diag(lengths)
            box[1, 0], box[2, 0], box[2, 1] = slant * box[0, 0], -slant * box[0, 0], 0.3 * slant
            length = np.array(lengths, dtype)
            points = [np.zeros(3, dtype)]
            for axis in range(3):
                far = dtype(times) * length[axis]
                steps = [far]
                for _ in range(2):
                    steps.insert(0, np.nextafter(steps[0], dtype(0)))
                    steps.append(np.nextafter(steps[-1], dtype(99)))
                for sign in (1, -1):
                    points += [sign * step * np.eye(3, dtype=dtype)[axis] for step in steps]
            points = np.array(points)
            r_max = height(box) / 2
            uneven = np.unique([0, 1e-3, r_max * 0.9, np.nextafter(r_max, 0), r_max])
            for edges in (uneven, np.linspace(0, r_max, 33)):
                if kernel == "guessed" and edges is uneven:
                    continue
                got = gpuops.rdf(points, bins=edges, box=box, device=device, kernel=kernel)
                want = gpuops.rdf(points, bins=edges, box=box, device="cpu", kernel="naive")
                same_bits(got.counts, want.counts)


@pytest.mark.sampled
@pytest.mark.parametrize(("device", "kernel"), GUESSES)
def test_guesses_are_put_right(device, kernel, everything):
    """What was guessed in float32 is what the definition says: edges met exactly, two sets,
    types, points outside of boxes of all kinds, edges even in log r."""
    ran = 0
    for number in range(CASES if everything and device == "cuda" else 24):
        points, options = case_of(number)
        if device == "sim":
            points, cut = points[:150], lambda labels: labels[:150]
            if isinstance(options.get("types"), tuple):
                options["types"] = (cut(options["types"][0]), options["types"][1])
            elif "types" in options:
                options["types"] = cut(options["types"])
        for bins in (options["bins"], np.geomspace(1e-3, 1, 40) * options["r_max"]):
            call = {**options, "bins": bins}
            if np.ndim(bins):
                call.pop("r_max")
            try:
                got = counts(points, call, kernel, device)
            except gpuops.KernelRefusedError:
                continue
            same_bits(got, counts(points, call, "naive"))
            ran += 1
    assert ran > 30


@pytest.mark.parametrize(("device", "kernel"), GUESSES)
def test_an_edge_and_its_neighbours(device, kernel):
    """Pairs one number before, on and after each edge, in float32 and float64."""
    edges = np.linspace(0, 1, 11)
    for dtype in (np.float32, np.float64):
        on = edges.astype(dtype)
        x = np.unique([on, np.nextafter(on, dtype(0)), np.nextafter(on, dtype(2))])
        points = np.zeros((len(x), 3), dtype)
        points[:, 1] = x
        call = {"bins": edges, "points2": np.zeros((1, 3), dtype)}
        want = np.histogram(x[x < 1].astype(np.float64), edges)[0]
        same_bits(counts(points, call, kernel, device), want)


@pytest.mark.parametrize(("device", "kernel"), CELLS)
def test_what_cells_cannot_sort(device, kernel):
    """Points so far out that a wrapped place means nothing, and a dtype's ends."""
    rng = np.random.default_rng(3)
    for dtype, far in ((np.float32, 1e9), (np.float64, 1e18), (np.float32, 1e37)):
        points = (rng.normal(0, far, (300, 3))).astype(dtype)
        for options in ({"r_max": 0.3, "bins": 4, "box": (1, 1, 1)}, {"r_max": far, "bins": 9}):
            want = counts(points, options, "naive")
            same_bits(counts(points, options, kernel, device), want)
    # Products of images and lengths are rounded by more than cells leave.
    points = rng.normal(0, 1e5, (2000, 3)).astype(np.float32)
    options = {"r_max": 0.1, "bins": 4, "box": (0.7, 1.1, 0.9)}
    same_bits(counts(points, options, kernel, device), counts(points, options, "naive"))
    same = np.ones((400, 3), np.float32)  # no extent at all
    for box in (None, (2, 2, 2), (2, np.inf, np.inf)):
        options = {"r_max": 0.01, "bins": 3, "box": box, "norm": "none"}
        same_bits(counts(same, options, kernel, device), np.array([400 * 399 // 2, 0, 0]))
    tiny = (rng.random((300, 3)) * 1e-44).astype(np.float32)  # squares underflow
    options = {"r_max": 3e-45, "bins": 2}
    same_bits(counts(tiny, options, kernel, device), counts(tiny, options, "naive"))


@pytest.mark.parametrize(("device", "kernel"), CELLS)
def test_one_point_far_away(device, kernel):
    """Bounds of 10^12 cells along each axis: memory stays that of the points."""
    points = np.random.default_rng(4).random((3000, 3))
    points[7] = 1e10
    options = {"r_max": 0.01, "bins": 5}
    same_bits(counts(points, options, kernel, device), counts(points, options, "naive"))


def far_from_the_rest(kind: str, n: int, dtype, axes=slice(None)):
    """A cube of side 1 full of points, of which some are elsewhere along these axes."""
    rng = np.random.default_rng(8)
    points = rng.random((n, 3))
    match kind:
        case "one":
            points[7, axes] = 9999.999
        case "one below":
            points[7, 2] = -1e4
        case "never set":
            points[7, axes] = 1e20
        case "evaporated":
            points[: n // 100, axes] = (rng.random((n // 100, 3)) * 200 - 100)[:, axes]
        case "two droplets":
            points[n // 2 :, axes] += np.array((9, 20, 50))[axes]
    return points.astype(dtype)


FAR = ["one", "one below", "never set", "evaporated", "two droplets"]
SPACES = [(None, slice(None)), ((1, 1, np.inf), 2), ((1, np.inf, np.inf), [1, 2])]


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", FAR)
@pytest.mark.parametrize(("device", "kernel"), CELLS)
def test_points_far_from_the_rest(device, kernel, kind, dtype):
    for (box, axes), away in itertools.product(SPACES, (0, 1)):
        if away:  # along closed axes too
            axes = slice(None)
        points = far_from_the_rest(kind, 900, dtype, axes)
        options = {"r_max": 0.15, "bins": 9, "box": box}
        same_bits(counts(points, options, kernel, device), counts(points, options, "naive"))
        second = {**options, "points2": points[::7] + np.array(0.01, dtype)}
        same_bits(counts(points, second, kernel, device), counts(points, second, "naive"))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("box", "axes"), SPACES, ids=["open", "slab", "wire"])
@pytest.mark.parametrize("kind", FAR)
def test_few_pairs_are_looked_at_wherever_points_are(kind, box, axes, dtype):
    """By time: at most 3 times that of the cube alone is what is asked for, and 8 leaves room
    for whatever else runs. All pairs take 40 times as long."""
    times = []
    for one in ("none", kind):
        points = far_from_the_rest(one, 30_000, dtype, axes)
        options = {"r_max": 0.03, "bins": 9, "box": box}
        call = Timer(lambda given=points, options=options: counts(given, options, "cells"))
        times.append(min(call.repeat(5, 1)))
    assert times[1] < 8 * times[0]


def test_chosen_where_it_looks_at_fewer_pairs():
    points = np.random.default_rng(5).random((5000, 3), np.float32)

    def chosen(r_max, box, n=5000, scale=1):
        some, options = points[:n] * np.float32(scale), {"box": box, "norm": "none"}
        return gpuops.explain("rdf", some, r_max, 50, **options, device="cpu").kernel

    for box in (None, (1, 1, 1), ((1, 0, 0), (0.2, 1, 0), (0.1, -0.2, 1))):
        assert chosen(0.05, box) == "cells"
        assert chosen(0.05, box, 40) == "threaded"
        assert chosen(0.45 if box else 2, box) == "threaded"
    assert chosen(0.45, (1, 1, 30), scale=(1, 1, 30)) == "cells"
    assert chosen(0.2, (1, 1, np.inf)) == "cells"
