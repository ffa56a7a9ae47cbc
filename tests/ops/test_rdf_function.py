"""rdf, the function around the kernels: boxes, frames, types, norms, and bad input."""

from __future__ import annotations

import itertools

import engine
import numpy as np
import pytest
from engine import same_bits
from test_rdf import cloud, reference

import gpuops

DEVICES = engine.backends()


# ---- boxes ----

TURNED = ((0.3, 1.9, 0.2), (1.7, -0.2, 0.4), (-0.5, 0.3, 2.2))


@pytest.mark.parametrize("box", [TURNED, TURNED[::-1], ((2, 0, 0), (1, -2, 0), (0, 0.5, 3))])
def test_any_rows_against_all_images(box):
    points, rows_ = np.random.default_rng(3).random((60, 3)) * 5, np.array(box)
    heights = 1 / np.linalg.norm(np.linalg.inv(rows_), axis=0)
    got = gpuops.rdf(points, heights.min() * 0.499, 20, box=box)
    shifts = np.array(list(itertools.product(range(-9, 10), repeat=3))) @ rows_
    r = [np.linalg.norm(points[i] - points[j] + shifts, axis=1).min()
         for i, j in itertools.combinations(range(60), 2)]  # fmt: skip
    same_bits(got.counts, np.histogram(np.array(r)[r < got.edges[-1]], got.edges)[0])
    assert gpuops.rdf(points.astype("f4"), 0.4, 4, box=box).counts.sum() > 0


def test_lengths_and_angles():
    points = cloud(200, np.float64)
    for six, three in (
        ((2, 3, 4, 90, 90, 90), np.diag((2.0, 3.0, 4.0))),
        ((2, 2, 2, 60, 60, 90), ((2, 0, 0), (0, 2, 0), (1, 1, np.sqrt(2)))),
        ((3, 2, 2, 90, 90, 120), ((3, 0, 0), (-1, np.sqrt(3), 0), (0, 0, 2))),
    ):
        got, want = (gpuops.rdf(points, 0.6, 20, box=b) for b in (six, three))
        same_bits(got.counts, want.counts)
        np.testing.assert_allclose(got.g, want.g, rtol=1e-12)


def test_half_the_box_is_allowed():
    points = np.random.default_rng(0).random((50, 3)) * 3.1
    assert gpuops.rdf(points, 3.1 / 2, box=(3.1,) * 3).counts.sum() > 0
    with pytest.raises(ValueError, match=r"r_max = 1\.5500000000000[0-9]+ is more than 1\.55"):
        gpuops.rdf(points, 1.55 * (1 + 2**-48), box=(3.1,) * 3)
    with pytest.raises(ValueError, match="half the smallest distance"):
        gpuops.rdf(points, 1.5, box=((3.1, 0, 0), (3, 3.1, 0), (0, 0, 3.1)))


# ---- frames and norms ----


@pytest.mark.parametrize("device", DEVICES)
def test_frames(device):
    points = np.stack([cloud(120, np.float32, s) for s in range(4)])
    sizes = np.array([2.0, 2.5, 3.0, 2.2])[:, None] * np.ones(3)
    whole = gpuops.rdf(points, 1, 16, box=sizes, device=device)
    each = [gpuops.rdf(p, 1, 16, box=b) for p, b in zip(points, sizes, strict=True)]
    same_bits(whole.counts, sum(e.counts for e in each))
    np.testing.assert_allclose(whole.g, np.mean([e.g for e in each], axis=0), rtol=1e-12)
    assert whole.frames == 4
    on_device = gpuops.to_device(points, device)
    same_bits(gpuops.rdf(on_device, 1, 16, box=sizes).counts, whole.counts)
    turned = [gpuops.rdf(p, 0.8, 9, box=TURNED).counts for p in (on_device, points)]
    same_bits(*turned)
    fixed = gpuops.rdf(points, 1, 16, points2=points[0], device=device).counts
    same_bits(fixed, sum(reference(p, whole.edges, points[0]) for p in points))
    none = gpuops.rdf(points[:0], 1, 16, device=device)
    assert (none.frames, none.counts.sum(), none.g.sum()) == (0, 0, 0)


def test_norms():
    n, n2, size = 60, 40, 3.0
    points, points2 = cloud(n, np.float64, 1), cloud(n2, np.float64, 2)
    one = gpuops.rdf(points, 1.5, 10, box=(size,) * 3)
    shell = 4 / 3 * np.pi * np.diff(one.edges**3)
    np.testing.assert_allclose(one.r, np.arange(10) * 0.15 + 0.075)
    np.testing.assert_allclose(one.g, one.counts * size**3 / (n * (n - 1) / 2 * shell))
    two = gpuops.rdf(points, 1.5, 10, points2=points2, box=(size,) * 3)
    np.testing.assert_allclose(two.g, two.counts * size**3 / (n * n2 * shell))
    one, two = (gpuops.rdf(points, 1.5, 10, points2=p) for p in (None, points2))
    assert (one.norm, two.norm) == ("density", "density")
    np.testing.assert_allclose(one.g, 2 * one.counts / (n * shell))
    np.testing.assert_allclose(two.g, two.counts / (n * shell))
    same_bits(gpuops.rdf(points, 1.5, 10, norm="none").g, one.counts.astype(float))
    for empty in (points[:0], points[:1]):
        assert (gpuops.rdf(empty, 1, 5, box=(3, 3, 3)).g == 0).all()


def test_norms_with_types():
    points, types = cloud(90, np.float64, 1), np.repeat([7, -2], [30, 60])
    got = gpuops.rdf(points, 1.5, 10, types=types, box=(3, 3, 3))
    assert got.types.tolist() == [-2, 7]
    shell = 4 / 3 * np.pi * np.diff(got.edges**3)
    pairs = np.array([[60 * 59 / 2, 60 * 30], [60 * 30, 30 * 29 / 2]])[..., None]
    np.testing.assert_allclose(got.g, got.counts * 27 / (pairs * shell))
    whole = gpuops.rdf(points, 1.5, 10, box=(3, 3, 3)).counts
    same_bits(got.counts[0, 0] + got.counts[0, 1] + got.counts[1, 1], whole)
    got = gpuops.rdf(points, 1.5, 10, types=types)
    np.testing.assert_allclose(got.g[0, 0], 2 * got.counts[0, 0] / (60 * shell))
    np.testing.assert_allclose(got.g[0, 1], got.counts[0, 1] / (60 * shell))
    np.testing.assert_allclose(got.g[1, 0], got.counts[0, 1] / (30 * shell))


# ---- bad input ----

GOOD = np.arange(12.0).reshape(4, 3)
NAN = np.where(GOOD == 7, np.nan, GOOD)
BAD = [
    ((GOOD[:, :2], 1), {}, ValueError, r"shape \(n, 3\) or \(frames, n, 3\), not \(4, 2\)"),
    ((GOOD[0], 1), {}, ValueError, r"not \(3,\)"),
    ((GOOD,), {}, TypeError, "r_max is needed"),
    ((GOOD, -1), {}, ValueError, "r_max must be finite and not negative, not -1"),
    ((GOOD, np.nan), {}, ValueError, "r_max must be finite and not negative, not nan"),
    ((GOOD, np.inf), {}, ValueError, "r_max must be finite"),
    ((GOOD, 0), {}, ValueError, "r_max must be more than r_min = 0"),
    ((GOOD, 10**400), {}, OverflowError, "rdf: r_max of 1329 bits is too large"),
    ((GOOD, "1"), {}, TypeError, "r_max is a number, not '1'"),
    ((GOOD, 1, 0), {}, ValueError, "bins must be 1 or more, not 0"),
    ((GOOD, 1, 2.5), {}, TypeError, "bins is an integer, not 2.5"),
    ((GOOD, 1, 10**12), {}, OverflowError, "more than 2.31 counters"),
    ((GOOD, 1, 2**17), {"types": range(4), "norm": "none", "points2": None}, None, None),
    ((GOOD, None, [0, 1, 1]), {}, ValueError, r"edges\[2\] = 1 follows 1"),
    ((GOOD, None, [-1, 1]), {}, ValueError, r"edges\[0\] is -1"),
    ((GOOD, None, [0, np.nan]), {}, ValueError, r"edges\[1\] is nan"),
    ((GOOD, None, [0]), {}, ValueError, "2 or more edges"),
    ((GOOD, None, [0, [1]]), {}, ValueError, "rdf: bins: "),
    ((GOOD, 1, [0, 1]), {}, ValueError, "edges, which give r_min and r_max already"),
    ((NAN, 1), {}, ValueError, r"finite, but points\[2, 1\] is nan"),
    ((GOOD, 1), {"points2": -NAN}, ValueError, r"points2\[2, 1\]"),
    ((GOOD + np.inf, 1), {}, ValueError, r"points\[0, 0\] is inf"),
    ((GOOD.astype("c16"), 1), {}, TypeError, "points has dtype complex128"),
    ((GOOD.astype("f2"), 1), {}, TypeError, "points has dtype float16"),
    ((np.ma.array(GOOD), 1), {}, TypeError, "masked"),
    ((GOOD, 0.6), {"box": (1, 1, 1)}, ValueError, "more than .* half the smallest distance"),
    (
        (GOOD, None, [0, np.nan]),
        {"box": (1, 1, 1)},
        ValueError,
        r"finite, but edges\[1\] is nan",
    ),
    (
        (GOOD, None, [0, np.inf]),
        {"box": (1, 1, 1)},
        ValueError,
        r"finite, but edges\[1\] is inf",
    ),
    ((GOOD, 0.1), {"box": (1, 0, 1)}, ValueError, "singular"),
    ((GOOD, 0.1), {"box": np.ones((3, 3))}, ValueError, "singular"),
    ((GOOD, 0.1), {"box": np.zeros((3, 3))}, ValueError, "singular"),
    ((GOOD, 0.1), {"box": (1, 1, 1, 30, 30, 90)}, ValueError, "no cell has the angles"),
    ((GOOD, 0.1), {"box": (1, np.nan, 1)}, ValueError, "box must be finite"),
    *(
        ((GOOD, None), {"box": box}, ValueError, "expected 1e-90 to 1e[+]90, .* another unit")
        for box in (
            (1e-170, 1e-170, 1e-170),  # their product is 0
            (1e300, 1, 1),
            (1e170, 1e170, 1e170, 80, 70, 60),
            (np.inf, 1e-170, 1e-170),
            ((1e-170, 0, 0), (0, 1e-170, 0), (0, 0, 1)),
            ((np.inf, 0, 0), (0, 1e170, 0), (0, 0, 1)),
        )
    ),
    (
        (GOOD.astype("f4"), 1e-61),
        {"box": (1, 1, 1e-60)},
        ValueError,
        "singular: cz = 0 in float32",
    ),
    ((GOOD, 0.1), {"box": (1, 1)}, ValueError, r"box must have shape .* not \(2,\)"),
    ((GOOD, 0.1), {"norm": "rdf"}, ValueError, "give box="),
    ((GOOD, 0.1), {"norm": "fast"}, ValueError, "norm must be one of rdf, density, none"),
    ((GOOD, 0.1), {"types": [1, 2]}, ValueError, "types must hold 4 labels"),
    ((GOOD, 0.1), {"types": [1] * 4, "points2": GOOD}, TypeError, "a pair"),
    ((GOOD, 0.1), {"kernel": "none such"}, ValueError, "none such"),
]


@pytest.mark.parametrize(("args", "kwargs", "error", "sentence"), BAD)
def test_bad_input(args, kwargs, error, sentence):
    said = set()
    for device in DEVICES:
        if error is None:
            gpuops.rdf(*args, **kwargs, device=device)
            continue
        with pytest.raises(error, match=sentence) as caught:
            gpuops.rdf(*args, **kwargs, device=device)
        if "kernel" not in kwargs:
            said.add(str(caught.value))
    assert len(said) <= 1
    same_bits(gpuops.rdf(GOOD, 6, 2).counts, np.array([0, 3]))


def test_more_bins_than_memory_are_refused(monkeypatch):
    """The system would end Python, not raise a MemoryError."""
    gib = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 18}
    monkeypatch.setattr("os.sysconf", gib.__getitem__)
    least = "take 80 GB, and this machine has 1.07 GB of memory; give at most 13421772 bins$"
    with pytest.raises(ValueError, match=f"^rdf: {10**9} bins would {least}"):
        gpuops.rdf(GOOD, 1, 10**9)
    types = {"types": [*range(4)]}
    each = "^rdf: 10000000 bins for each of 16 pairs of types would take 12.8 GB"
    for points in (GOOD, [GOOD], np.array([GOOD, GOOD])):
        with pytest.raises(ValueError, match=each):
            gpuops.rdf(points, 1, 10**7, **types)
    many = np.zeros((5000, 3))
    with pytest.raises(ValueError, match=r"^rdf: 1 bin for each of 25000000 pairs of types"):
        gpuops.rdf(many, 1, types=range(5000))


def test_progress(capsys):
    pytest.importorskip("tqdm")
    gpuops.rdf(np.stack([GOOD] * 3), 6, 2, progress=True)
    assert "3/3" in capsys.readouterr().err
