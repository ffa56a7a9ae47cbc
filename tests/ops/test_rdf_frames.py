"""rdf over frames, in boxes open along an axis, and the largest r_max."""

from __future__ import annotations

import itertools
import signal

import engine
import numpy as np
import pytest
from engine import attempt, rows, same_bits, taken
from test_rdf import ROWS, cloud, reference

import gpuops
from gpuops._rdf import run as rdf_run
from gpuops._rdf import sums as rdf_sums
from gpuops._rdf.labels import Labels

CALLS = rows("rdf")
DEVICES = engine.backends()
BOXES = [np.array([2.0, 2.5, 3.0]), np.diag((2.0, 2.1, 2.2)), np.array([2, 3, 3, 90, 90, 60.0])]


def separate(results):
    return sum(r.counts for r in results), np.mean([r.g for r in results], axis=0)


# ---- any iterable of frames ----


@pytest.mark.parametrize("device", DEVICES)
def test_frames_of_different_sizes(device):
    frames = [cloud(n, dtype, n) for n, dtype in ((60, "f4"), (0, "f4"), (41, "f8"), (1, "f4"))]
    each = [gpuops.rdf(p, 0.8, 9, box=(2, 2, 2)) for p in frames]
    for given in (frames, tuple(frames), iter(frames), (p for p in frames),
                  [gpuops.to_device(p, device) for p in frames]):  # fmt: skip
        got = gpuops.rdf(given, 0.8, 9, box=(2, 2, 2), device=device)
        assert got.frames == 4
        same_bits(got.counts, sum(e.counts for e in each))
        # Frames without a pair have no g.
        np.testing.assert_allclose(got.g, (each[0].g + each[2].g) / 2)


def test_frames_with_boxes():
    frames = [cloud(n, np.float64, n) for n in (60, 50, 40)]
    each = [gpuops.rdf(p, 0.8, 9, box=b) for p, b in zip(frames, BOXES, strict=True)]
    counts, g = separate(each)
    pairs = list(zip(frames, BOXES, strict=True))
    lists = [(p.tolist(), b.tolist()) for p, b in pairs]
    for given in (pairs, iter(pairs), lists):
        got = gpuops.rdf(given, 0.8, 9)
        assert got.norm == "rdf"
        same_bits(got.counts, counts)
        np.testing.assert_allclose(got.g, g)
    some = [(frames[0], None), frames[1]]
    with pytest.warns(UserWarning, match="frame 0 has no box, so that g is the density"):
        got = gpuops.rdf(some, 0.8, 9)
    assert got.norm == "density"
    same_bits(got.counts, sum(gpuops.rdf(p, 0.8, 9).counts for p in frames[:2]))
    lengths = np.array([(2.0, 2, 2), (3, 3, 3), (4, 4, 4)])
    with pytest.raises(ValueError, match=r"singular: .*; lengths of three frames .* \(3, 6\)"):
        gpuops.rdf(frames, 0.8, 9, box=lengths)
    got = gpuops.rdf(frames, 0.8, 9, box=np.hstack((lengths, np.full((3, 3), 90.0))))
    want = gpuops.rdf(list(zip(frames, lengths, strict=True)), 0.8, 9)
    same_bits(got.counts, want.counts)
    # A tuple of two points is no pair.
    same_bits(gpuops.rdf(((0, 0, 0), (1, 0, 0)), 2, 2).counts, np.array([0, 1]))


def test_two_sets_in_step():
    frames = [cloud(n, np.float32, n) for n in (30, 20)]
    others = [cloud(n, np.float32, n) for n in (7, 9)]
    edges = np.linspace(0, 2, 9)
    want = sum(reference(p, edges, q) for p, q in zip(frames, others, strict=True))
    for second in (others, iter(others)):
        got = gpuops.rdf(iter(frames), 2, 8, points2=second)
        same_bits(got.counts, want)
    fixed = gpuops.rdf(frames, 2, 8, points2=others[0]).counts
    same_bits(fixed, sum(reference(p, edges, others[0]) for p in frames))
    moving = np.stack([others[0], others[0] + 1])
    same_bits(
        gpuops.rdf(frames, 2, 8, points2=moving).counts,
        sum(reference(p, edges, q) for p, q in zip(frames, moving, strict=True)),
    )
    with pytest.raises(ValueError, match="points2 ends before frame 1"):
        gpuops.rdf(frames, 2, 8, points2=others[:1])


def test_types_and_exclusions_of_frames():
    frames = np.stack([cloud(30, np.float64, s) for s in range(3)])
    types, labels = np.arange(30) % 2, np.arange(30) // 3
    whole = gpuops.rdf(frames, 1, 9, types=types, exclude=labels, box=(2, 2, 2))
    got = gpuops.rdf(iter(frames), 1, 9, types=types, exclude=labels, box=(2, 2, 2))
    same_bits(got.counts, whole.counts)
    same_bits(got.g, whole.g)
    with pytest.raises(ValueError, match=r"types must hold 20 labels, .* in frame 1"):
        gpuops.rdf([frames[0], frames[1][:20]], 1, 9, types=types)


def test_a_type_that_is_left_out():
    points, edges = cloud(60, np.float32, 1), np.linspace(0, 1, 9)
    names = np.array(["O", "H", "M"] * 20)
    there = names != "M"
    for labels in ([None if t == "M" else t for t in names], np.where(there, names, None)):
        got = gpuops.rdf(points, 1, 8, types=labels, exclude=np.arange(60) // 3, box=(2, 2, 2))
        assert got.types.tolist() == ["H", "O"]
        want = gpuops.rdf(points[there], 1, 8, types=names[there], box=(2, 2, 2),
                          exclude=np.arange(60)[there] // 3)  # fmt: skip
        same_bits(got.counts, want.counts)
        same_bits(got.g, want.g)
    two = gpuops.rdf(points, 1, 8, points2=points, types=(labels, np.arange(60) % 2))
    for i, name in enumerate("HO"):
        want = reference(points[names == name], edges, points[::2])
        same_bits(two.counts[i, 0], want)
    number = gpuops.rdf(points[:3], 2, 3, types=[1, None, 2])
    assert number.types.dtype.kind == "i"
    assert gpuops.rdf(points, 1, 8, types=[None] * 60).counts.shape == (0, 0, 8)
    for device in DEVICES:
        got = gpuops.rdf(
            gpuops.to_device(points, device), 1, 8, types=np.where(there, names, None)
        )
        same_bits(got.counts, gpuops.rdf(points[there], 1, 8, types=names[there]).counts)


# ---- what is wrong is said early, with the frame ----


@pytest.mark.parametrize("device", DEVICES)
def test_the_frame_is_named(device):
    frames = np.stack([cloud(20, np.float64, s) for s in range(4)])
    frames[2, 7, 1] = np.nan
    for given in (frames, gpuops.to_device(frames, device), list(frames), iter(frames)):
        with pytest.raises(ValueError, match=r"points\[7, 1\].* frame 2.* nan|nan.* frame 2"):
            gpuops.rdf(given, 1, 5, device=device)
    with pytest.raises(ValueError, match=r"points2\[7, 1\] of frame 2"):
        gpuops.rdf(frames[0], 1, 5, points2=frames)
    boxes = [(2, 2, 2), (2, 2, 2), (1, 2, 2), (2, 2, 2)]
    frames[2, 7, 1] = 0
    for given, box in (
        (frames, np.array(boxes)),
        (list(zip(frames, boxes, strict=True)), None),
    ):
        with pytest.raises(
            ValueError, match=r"more than 0\.5, half .* faces of the box of frame 2,"
        ):
            gpuops.rdf(given, 0.9, 5, box=box)
    with pytest.raises(ValueError, match=r"points of frame 1 must have shape \(n, 3\), not"):
        gpuops.rdf([frames[0], frames], 1, 5)
    with pytest.raises(ValueError, match=r"not \(20, 2\), in frame 1"):
        gpuops.rdf([frames[0], frames[0][:, :2]], 1, 5)
    with pytest.raises(ValueError, match=r"singular: .*, in frame 1"):
        gpuops.rdf(iter([(frames[0], (2, 2, 2)), (frames[0], (2, 0, 2))]), 0.9, 5)
    with pytest.raises(ValueError, match="there is none of frame 1"):
        gpuops.rdf([(frames[0], (2, 2, 2)), frames[0]], 0.9, 5)
    with pytest.raises(
        ValueError, match=r"more than 0\.5, half .* faces of the box of frame 1,"
    ):
        gpuops.rdf(iter([(frames[0], (2, 2, 2)), (frames[0], (1, 2, 2))]), 0.9, 5)
    with pytest.raises(ValueError, match=r"no kernel 'nix' on cpu, expected one of [a-z, ]*$"):
        gpuops.rdf(frames, 0.9, 5, kernel="nix", device="cpu")
    with pytest.raises(ValueError, match="points has no frames"):
        gpuops.rdf(iter([]), 1, 5)
    with pytest.raises(TypeError, match=r"frames chooses among .* MDAnalysis"):
        gpuops.rdf(frames, 1, 5, frames=slice(2))


def test_arrays_are_checked_before_anything_is_counted(monkeypatch):
    frames = np.zeros((3, 4, 3))
    frames[2, 3, 0] = np.inf
    monkeypatch.setattr(rdf_run, "_call", None)
    with pytest.raises(ValueError, match=r"points\[3, 0\] of frame 2 is inf"):
        gpuops.rdf(frames, 1, 5)
    with pytest.raises(ValueError, match=r"types must hold 4 labels"):
        gpuops.rdf(frames[:2], 1, 5, types=[1, 2])


# ---- what was counted before the end ----


@pytest.mark.parametrize("reason", [KeyboardInterrupt, OSError])
def test_an_error_keeps_the_frames_before(reason):
    frames = [cloud(40, np.float32, s) for s in range(6)]

    def reader():
        yield from frames[:4]
        raise reason("the disk is gone")

    with pytest.raises(reason) as caught:
        gpuops.rdf(reader(), 0.9, 7, box=(2, 2, 2), types=[1, 2] * 20)
    want = gpuops.rdf(frames[:4], 0.9, 7, box=(2, 2, 2), types=[1, 2] * 20)
    partial = caught.value.partial
    assert partial.frames == 4
    same_bits(partial.counts, want.counts)
    same_bits(partial.g, want.g)
    rest = gpuops.rdf(frames[4:], 0.9, 7, box=(2, 2, 2), types=[1, 2] * 20)
    whole = gpuops.rdf(frames, 0.9, 7, box=(2, 2, 2), types=[1, 2] * 20)
    same_bits((partial + rest).counts, whole.counts)
    with pytest.raises(ValueError, match="nan") as caught:
        gpuops.rdf([frames[0] * np.nan], 1, 5)
    assert caught.value.partial is None


def test_ctrl_c_amid_a_frame():
    frames = [cloud(300, np.float64, 1)] * 2 + [cloud(120_000, np.float64, 2)] * 50
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def reader():
        for i, frame in enumerate(frames):
            if i == 2:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
            yield frame

    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            gpuops.rdf(reader(), 3, 10, device="cpu")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught.value.partial.frames == 2
    same_bits(caught.value.partial.counts, 2 * gpuops.rdf(frames[0], 3, 10).counts)


def test_progress_of_an_iterable(capsys):
    pytest.importorskip("tqdm")
    frames = [cloud(9, np.float64, 1)] * 3
    gpuops.rdf(frames, 6, 2, progress=True)
    gpuops.rdf(iter(frames), 6, 2, progress=True)
    said = capsys.readouterr().err
    assert "3/3" in said
    assert "3frame" in said


# ---- the largest r_max ----


@pytest.mark.parametrize("box", [(3.1, 3.2, 3.3), ROWS["triclinic"], (3, 2, 2, 80, 75, 120)])
def test_the_largest_r_max(box):
    points = cloud(40, np.float64, 1)
    got = gpuops.rdf(points, box=box)
    limit = got.edges[-1]
    with pytest.raises(ValueError, match=r"more than .* half the smallest distance"):
        gpuops.rdf(points, limit * (1 + 1e-14), box=box)
    for ulps in (-8, -1, 1, 4, 7):  # as far as somebody else's rounding takes it
        near = gpuops.rdf(points, limit * (1 + ulps * 2.0**-52), box=box)
        assert abs(near.counts - got.counts).sum() <= 2
    if len(box) == 3 and np.ndim(box) == 1:
        assert limit == 1.55


def test_the_largest_r_max_of_all_frames():
    frames = cloud(40, np.float64, 1)[None].repeat(3, 0)
    boxes = np.stack([np.eye(3) * size for size in (3.0, 2.5, 4.0)])
    assert gpuops.rdf(frames, box=boxes).edges[-1] == 1.25
    pairs = list(zip(frames, boxes, strict=True))
    assert gpuops.rdf(pairs, bins=7).edges[-1] == 1.25
    assert gpuops.rdf(iter(frames), box=(3, 3, 3)).edges[-1] == 1.5
    with pytest.raises(TypeError, match="r_max is needed for frames whose boxes"):
        gpuops.rdf(iter(pairs))
    with pytest.raises(TypeError, match="r_max is needed where"):
        gpuops.rdf([*pairs, frames[0]])


# ---- open axes ----

OPEN = [
    ((2.0, 2.5, np.inf), 2),
    ((np.inf, 2.5, 3.0), 0),
    ((2.0, np.inf, np.inf), (1, 2)),
    (((2.0, 0, 0), (0.5, 2.2, 0), (0, 0, np.inf)), 2),
    (((np.inf, 0, 0), (0, 2.2, 0), (0, 0.7, 2.1)), 0),
    ((2.0, 2.2, np.inf, 90, 90, 75), 2),
]


def periodic_only(box, axis):
    """The same box with a length so great that no image along it is ever nearer."""
    box = np.array(box)
    far = np.ravel(axis)
    if box.ndim == 2:
        box[far] = 0.0
        box[far, far] = 2.0**40
    else:
        box[far] = 2.0**40
    return box


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize(("box", "axis"), OPEN, ids=str)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_an_open_axis_is_never_shifted(device, kernel, box, axis):
    clouds = []
    for dtype, reach in itertools.product((np.float32, np.float64), (4.0, 1e5)):
        points = cloud(150, np.float64, 3)
        points[:, axis] *= reach
        clouds.append(points.astype(dtype))

    def call(points):
        return attempt(gpuops.rdf, points, 0.9, 20, box=box, device=device, kernel=kernel)

    for points, got in taken(clouds, call):
        want = gpuops.rdf(points, 0.9, 20, box=periodic_only(box, axis), kernel="naive",
                          device="cpu")  # fmt: skip
        same_bits(got.counts, want.counts)
        assert got.norm == "density"


def test_open_boxes():
    points = cloud(80, np.float64, 5)
    slab = gpuops.rdf(points, box=(2, 2.5, np.inf))
    assert slab.edges[-1] == 1.0
    with pytest.raises(ValueError, match=r"norm 'rdf' .* infinite along an open axis: take"):
        gpuops.rdf(points, 1, box=(2, 2.5, np.inf), norm="rdf")
    with pytest.raises(ValueError, match=r"more than .* half the smallest distance"):
        gpuops.rdf(points, 1.3, box=(np.inf, 2.5, np.inf))
    # Open along all three, a distance may be any.
    far = gpuops.rdf(points, 5, 9, box=(np.inf,) * 3)
    assert far.norm == "density"
    same_bits(far.counts, gpuops.rdf(points, 5, 9).counts)
    # A row with an infinite number is perpendicular to the others, wherever these point.
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    whole = np.array(((2.0, 0, 0), (0.4, 2.2, 0), (0, 0, 2.0**40)))
    some = np.array(((2.0, 0, 0), (0.4, 2.2, 0))) @ turned
    for k in range(3):
        rows_ = np.insert(some, k, np.inf, axis=0)
        got = gpuops.rdf(points @ turned, 0.9, 20, box=rows_)
        same_bits(got.counts, gpuops.rdf(points, 0.9, 20, box=whole).counts)
    wire = np.array([[np.inf] * 3, some[0], [0, 0, np.inf]])
    got = gpuops.rdf(points @ turned, 0.9, 20, box=wire)
    same_bits(got.counts, gpuops.rdf(points, 0.9, 20, box=(2, np.inf, np.inf)).counts)
    for box, sentence in (
        ((2, 2, np.inf, 90, 80, 90), "perpendicular to it: give angles of 90"),
        ((2, np.nan, np.inf), "box must be finite, or open"),
        ((2, 2, -np.inf), "box must be finite, or open"),
        (((2, 0, 0), (4, 0, 0), (0, 0, np.inf)), "singular"),
        ((0, 2, np.inf), "singular"),
    ):
        with pytest.raises(ValueError, match=sentence):
            gpuops.rdf(points, 0.5, box=box)


@pytest.mark.parametrize("device", [d for d in DEVICES if d != "cpu"])
@pytest.mark.parametrize("where", ["host", "device"])
def test_frames_in_one_call(device, where):
    """What the core counts of several frames at once is what it counts of one after another."""
    rng = np.random.default_rng(9)
    frames, types = rng.random((7, 40, 3)), rng.integers(0, 3, 40)
    skew = np.tile(np.eye(3), (7, 1, 1)) + np.tril(rng.uniform(-0.1, 0.1, (7, 3, 3)))
    for dtype, box, options in (
        (np.float32, None, {}),
        (np.float64, 1 + rng.random((7, 3)), {"types": types}),
        (np.float32, skew, {"points2": rng.random((7, 9, 3), np.float32)}),
        (np.float64, (1, 1, np.inf), {"points2": rng.random((9, 3))}),
        (np.float32, (1, 1, 1), {"exclude": np.arange(40) // 3}),
    ):
        points = frames.astype(dtype)
        options |= {"r_max": 0.4, "bins": 9, "box": box}
        want = gpuops.rdf(points, **options, device="cpu")
        given = points if where == "host" else gpuops.to_device(points, device)
        for kernel in (None, "guessed", "naive", "cells"):
            got = gpuops.rdf(given, **options, device=device, kernel=kernel)
            same_bits(got.counts, want.counts)
            assert got.frames == 7
            np.testing.assert_allclose(got.g, want.g, 1e-12)
            np.testing.assert_allclose(got.error, want.error, 1e-9)
            np.testing.assert_allclose(got.coordination(), want.coordination(), 1e-12)


@pytest.mark.parametrize("device", [d for d in DEVICES if d != "cpu"])
def test_what_is_wrong_with_points_on_a_device(device):
    points = np.random.default_rng(1).random((5, 30, 3), np.float32)
    points[3, 7, 1] = np.nan
    with pytest.raises(ValueError, match=r"but points\[7, 1\] (of frame 3 is nan|is nan, in)"):
        gpuops.rdf(gpuops.to_device(points, device), 0.4)
    with pytest.raises(ValueError, match=r"but points\[7, 1\] is nan"):
        gpuops.rdf(gpuops.to_device(points[3], device), 0.4)
    good = gpuops.to_device(points[:2], device)
    with pytest.raises(ValueError, match=r"but points2\[7, 1\] is nan"):
        gpuops.rdf(good, 0.4, points2=gpuops.to_device(points[3], device))
    with pytest.raises(
        ValueError, match=r"more than 0\.3, half .* faces of the box of frame 1,"
    ):
        gpuops.rdf(good, 0.4, box=[[1, 1, 1], [0.6, 1, 1]])


def test_sums_of_frames_at_once():
    """Blocks of frames are the same whether frames come alone or in stacks."""
    labels = Labels(None, None, 5, None)
    counts = np.random.default_rng(2).integers(0, 9, (75, 1, 1, 4))
    volumes = np.linspace(1, 2, 75)
    for norm in ("rdf", "density", "none"):
        alone = [rdf_sums.of_frame(c, labels, v, norm)
                 for c, v in zip(counts, volumes, strict=True)]  # fmt: skip
        want = alone[0]
        for one in alone[1:]:
            want = want + one
        got = rdf_sums.of_frames(counts, labels, volumes, norm)
        same_bits(got.counts, want.counts)
        assert len(got.blocks.full) == len(want.blocks.full)
        assert (got.curve is got.near) == (want.curve is want.near) == (norm == "density")
        np.testing.assert_allclose(got.curve.mean(), want.curve.mean())
        np.testing.assert_allclose(got.blocks.error(), want.blocks.error())
