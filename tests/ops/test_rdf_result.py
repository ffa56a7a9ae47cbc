"""RdfResult: sums of results, errors by blocks of frames, neighbours, the first shell."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from engine import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rdf import cloud

import gpuops
from gpuops._rdf import sums as rdf_sums

BOX = (2.0, 2.0, 2.0)


def frames(count, n=40, seed=0):
    return np.stack([cloud(n, np.float64, seed + s) for s in range(count)])


def lattice(n):
    return np.stack(np.meshgrid(*[np.arange(n)] * 3), axis=-1).reshape(-1, 3)


# ---- sums ----


@pytest.mark.parametrize("norm", ["rdf", "density", "none"])
@pytest.mark.parametrize("with_types", [False, True])
def test_results_add_up(norm, with_types):
    points = frames(7)
    kwargs = {"norm": norm, "types": ["a", "b"] * 20 if with_types else None}
    sizes = np.hstack((np.linspace(2, 2.4, 7)[:, None] * np.ones(3), np.full((7, 3), 90.0)))
    call = lambda s: gpuops.rdf(points[s], 0.9, 8, box=sizes[s], **kwargs)  # noqa: E731
    whole = call(slice(0, 7))
    for cuts in ((0, 7), (0, 3, 7), (0, 1, 2, 7)):
        parts = [call(slice(a, b)) for a, b in itertools.pairwise(cuts)]
        got = sum(parts)
        assert (got.frames, got.norm) == (7, norm)
        same_bits(got.counts, whole.counts)
        same_bits(got.edges, whole.edges)
        np.testing.assert_allclose(got.g, whole.g, rtol=1e-12)
        np.testing.assert_allclose(got.error, whole.error, rtol=1e-9)
        np.testing.assert_allclose(got.coordination(), whole.coordination(), rtol=1e-12)
    none = call(slice(0, 0))
    assert (none.frames, none.g.sum(), none.coordination().sum()) == (0, 0, 0)
    same_bits((none + whole).counts, whole.counts)
    np.testing.assert_allclose((whole + none).g, whole.g)


def test_what_does_not_add_up():
    points = cloud(30, np.float64, 1)
    a = gpuops.rdf(points, 0.9, 8, box=BOX)
    for other, sentence in (
        (gpuops.rdf(points, 0.8, 8, box=BOX), "same edges"),
        (gpuops.rdf(points, 0.9, 9, box=BOX), "same edges"),
        (gpuops.rdf(points, 0.9, 8), "one norm, not '"),
        (gpuops.rdf(points, 0.9, 8, box=BOX, types=[1, 2] * 15), "the same types, not "),
    ):
        for x, y in ((a, other), (other, a)):
            with pytest.raises(ValueError, match=sentence):
                x + y
    typed = [gpuops.rdf(points, 0.9, 8, types=t) for t in ([1, 2] * 15, [1, 3] * 15)]
    with pytest.raises(ValueError, match="the same types"):
        typed[0] + typed[1]
    for thing in (1, "a", None, np.ones(3)):
        with pytest.raises(TypeError):
            a + thing
    with pytest.raises(TypeError):
        3 + a
    made = gpuops.RdfResult(a.r, a.g, a.counts, a.edges, "rdf", 1)
    with pytest.raises(ValueError, match="not made by rdf"):
        made + a
    assert "RdfResult" in repr(made)


def test_results_of_other_processes_add_up():
    a, b = (gpuops.rdf(frames(3, seed=k), 0.9, 8, types=["a", "b"] * 20) for k in (0, 9))
    there = pickle.loads(pickle.dumps(b))
    same_bits((a + there).counts, a.counts + b.counts)
    same_bits((a + there).g, (a + b).g)
    same_bits((a + there).error, (a + b).error)


# ---- errors ----


@pytest.mark.parametrize("count", [2, 5, 31, 32, 40, 63, 64, 100, 131])
def test_the_error_is_that_of_blocks(count):
    points = frames(count, 25)
    got = gpuops.rdf(points, 0.9, 6, box=BOX)
    each = np.array([gpuops.rdf(p, 0.9, 6, box=BOX).g for p in points])
    size = 1
    while count // size >= 32:
        size *= 2
    blocks = each[: count // size * size].reshape(-1, size, 6).mean(axis=1)
    assert len(blocks) == count or 16 <= len(blocks) < 32
    want = blocks.std(axis=0, ddof=1) / np.sqrt(len(blocks))
    np.testing.assert_allclose(got.error, want, rtol=1e-9)
    counts = gpuops.rdf(points, 0.9, 6, box=BOX, norm="none")
    np.testing.assert_allclose(counts.error[3] / counts.g[3], want[3] / got.g[3], rtol=1e-9)


def test_the_error_says_how_far_results_are_apart():
    """Of independent frames: repeated, g scatters by the error, within its own precision."""
    runs = [gpuops.rdf(frames(48, 60, 1000 * k), 0.9, 4, box=BOX) for k in range(40)]
    spread = np.std([r.g for r in runs], axis=0, ddof=1)
    error = np.sqrt(np.mean([r.error**2 for r in runs], axis=0))
    assert (abs(spread / error - 1) < 0.4).all()


def test_frames_that_resemble_their_neighbours():
    """Each frame 8 times: the error is that of the frames that differ, not a third of it."""
    points = frames(64, 40)
    slow = gpuops.rdf(points.repeat(8, 0), 0.9, 6, box=BOX)
    same = gpuops.rdf(points, 0.9, 6, box=BOX)
    np.testing.assert_allclose(slow.g, same.g, rtol=1e-12)
    assert 0.6 < np.mean(slow.error / same.error) < 1.6


def test_no_error():
    one = gpuops.rdf(cloud(30, np.float64), 0.9, 6)
    assert one.error.shape == (6,)
    assert np.isnan(one.error).all()
    assert "±" not in repr(one)
    assert "±" in repr(gpuops.rdf(frames(3), 0.9, 6))
    # Types of which there is no pair have no error, and the others one each.
    types = ["a"] * 39 + ["b"]
    got = gpuops.rdf(frames(3), 0.9, 6, types=types)
    assert got.error.shape == (2, 2, 6)
    assert np.isfinite(got.error[0]).all()
    rdf = gpuops.rdf(frames(3), 0.9, 6, types=types, box=BOX)
    assert np.isnan(rdf.error[1, 1]).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 70), min_size=1, max_size=5))
def test_blocks_of_results_that_were_added(counts):
    """However frames are split over results, blocks have one length and keep the order."""

    def part(i):
        return rdf_sums.Part(1, np.full((1, 1, 1), float(i)), np.ones((1, 1), np.int64))

    whole, number = rdf_sums.Blocks(), 0
    for count in counts:
        one = rdf_sums.Blocks()
        for _ in range(count):
            one = one + rdf_sums.Blocks(1, (part(number),))
            number += 1
        whole = whole + one
    assert all(p.frames == whole.size for p in whole.full)
    assert len(whole.full) < rdf_sums.BLOCKS
    assert whole.rest is None or whole.rest.frames < whole.size
    ends = [round(p.value.item() * 2) for p in whole.full]
    assert ends == sorted(ends)
    if number >= 2 and len(counts) == 1:
        assert sum(p.frames for p in whole.full) > number - whole.size


# ---- neighbours ----


def test_coordination():
    n = 8
    got = gpuops.rdf(lattice(n), 3.5, 35, box=(n, n, n))
    far = np.sqrt(((lattice(n) - n / 2) ** 2).sum(axis=1))
    want = [((far > 0) & (far < r)).sum() for r in got.edges[1:]]
    same_bits(got.coordination(), np.array(want, float))
    for norm in ("density", "none"):
        same_bits(gpuops.rdf(lattice(n), 3.5, 35, box=(n, n, n), norm=norm).coordination(),
                  got.coordination())  # fmt: skip
    same_bits(gpuops.rdf(lattice(n), 3.5, 35, box=(n, n, n), norm="rdf").coordination(1.25),
              np.float64(6))  # fmt: skip
    np.testing.assert_allclose(got.coordination([0.0, 1.05, 1.1, 1.45]), [0, 3, 6, 12])
    assert got.coordination(3.5) == got.coordination()[-1]
    for r in (-0.1, 3.6, np.nan, [1, 4]):
        with pytest.raises(ValueError, match=r"r must be between 0 and 3\.5, the edges"):
            got.coordination(r)


def test_coordination_of_types():
    n = 6
    points = lattice(n)
    types = np.where(points.sum(axis=1) % 2, "Cl", "Na")
    got = gpuops.rdf(points, 2.9, 29, types=types, box=(n, n, n))
    np.testing.assert_allclose(got.coordination(1.2), [[0, 6], [6, 0]])
    np.testing.assert_allclose(got.coordination([1.2, 1.65])[..., 1], [[12, 6], [6, 12]])
    assert got.coordination().shape == (2, 2, 29)
    # One ion among many: how many are around it, and how many of it around the others.
    types = np.where(np.arange(n**3) == 40, "Na", "Cl")
    got = gpuops.rdf(points, 2.9, 29, types=types, box=(n, n, n))
    np.testing.assert_allclose(got.coordination(1.2)[1], [6, 0])
    np.testing.assert_allclose(got.coordination(1.2)[0, 1], 6 / 215)
    two = gpuops.rdf(points[40:41], 2.9, 29, points2=points, box=(n, n, n), exclude=([40],
                     np.arange(n**3)))  # fmt: skip
    np.testing.assert_allclose(two.coordination(1.2), 6)
    # Frames of different sizes count alike.
    far = gpuops.rdf([points, points[:1] * 0.0, points[:0]], 2.9, 29, box=(n, n, n))
    np.testing.assert_allclose(far.coordination(1.2), 3)


# ---- the first shell ----


def shaken(n=12, width=0.05, count=4):
    rng = np.random.default_rng(0)
    return lattice(n) + width * rng.normal(size=(count, n**3, 3))


def test_first_shell():
    got = gpuops.rdf(shaken(), 3, 60, box=(12, 12, 12))
    shell = got.first_shell()
    assert isinstance(shell, gpuops.FirstShell)
    assert abs(shell.r - 1) < 0.06
    assert shell.g == got.g.max()
    assert 1.1 < shell.end < 1.3
    assert abs(shell.coordination - 6) < 0.1
    for norm in ("density", "none"):
        again = gpuops.rdf(shaken(), 3, 60, box=(12, 12, 12), norm=norm).first_shell()
        assert (again.r, again.end, again.coordination) == (
            shell.r,
            shell.end,
            shell.coordination,
        )


def test_first_shell_of_types():
    points = shaken()
    types = np.where(lattice(12).sum(axis=1) % 2, "Cl", "Na")
    got = gpuops.rdf(points, 3, 60, box=(12, 12, 12), types=types)
    unlike, like = got.first_shell("Na", "Cl"), got.first_shell("Na", "Na")
    assert abs(unlike.r - 1) < 0.06
    assert abs(unlike.coordination - 6) < 0.1
    assert abs(like.r - np.sqrt(2)) < 0.06
    assert abs(like.coordination - 12) < 0.2
    for pair, said in (((), ""), (("Na",), ""), (("Na", "K"), ", 'K' is none of them")):
        sentence = (
            r"has types, \['Cl', 'Na'\]" + said + r": name two, as first_shell\('Cl', 'Cl'\)"
        )
        with pytest.raises(ValueError, match=sentence):
            got.first_shell(*pair)
    with pytest.raises(ValueError, match="has no types"):
        gpuops.rdf(points, 3, 60, box=(12, 12, 12)).first_shell("Na", "Cl")


def test_a_gas_has_no_shell():
    gas = np.random.default_rng(3).random((20, 500, 3)) * 5
    with pytest.raises(ValueError, match="no peak and minimum stand out"):
        gpuops.rdf(gas, box=(5, 5, 5), bins=80).first_shell()


def test_the_plot_shows_the_error():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    one, several = (gpuops.rdf(shaken(6, 0.05, k), 2, 20, box=(6, 6, 6)) for k in (1, 4))
    assert len(one.plot(Figure().add_subplot()).collections) == 0
    assert len(several.plot(Figure().add_subplot()).collections) == 1
