"""The steps of the CUDA ladder of transpose, their tunables, what each does to memory.

Counts come from sim, which runs the same files, so they need no GPU.
"""

from __future__ import annotations

import itertools

import engine
import numpy as np
import pytest

import gpuops
from gpuops import _core

GPUS = [device for device in engine.backends() if device != "cpu"]
needs_sim = pytest.mark.skipif("sim" not in GPUS, reason="the sim backend is not built")
YARDSTICKS = ("strided", "copy", "staged", "streamed")
STEPS = ("reads", "naive", "tiled", "padded", "diagonal")


def square(dtype="float32", n=256) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 100, (n, n)).astype(dtype)


def ladder() -> list[dict]:
    return _core.ladder("transpose", GPUS[0])


@pytest.mark.skipif(not GPUS, reason="neither cuda nor sim is built")
def test_the_ladder_has_the_lecture_s_steps_in_its_order():
    names = [r["name"] for r in ladder() if r["lecture"] == "matrix transpose"]
    lessons = tuple(step for step in STEPS if step != "naive")  # it takes what no other does
    assert tuple(names) == (*lessons, "naive", *YARDSTICKS[:3])  # streamed is in no lecture
    assert {r["name"] for r in ladder() if r["role"] == "yardstick"} == set(YARDSTICKS)
    assert all(r["role"] != "teaching" for r in ladder())


@pytest.mark.skipif(not GPUS, reason="neither cuda nor sim is built")
@pytest.mark.parametrize("kernel", ["tiled", "padded"])
def test_the_lecture_s_experiment_has_every_tile_and_block(kernel):
    a = square("float64", 130)[:, :67]
    tunables = engine.row("transpose", GPUS[0], kernel)["tunables"]
    assert {name: sorted(values) for name, values in tunables.items()} == {
        "side": [16, 32, 64],
        "rows": [2, 4, 8, 16],
    }
    for device in GPUS:
        for side, rows in itertools.product(tunables["side"], tunables["rows"]):
            got = gpuops.transpose(
                a, device=device, kernel=kernel, params={"side": side, "rows": rows}
            )
            assert np.array_equal(got, a.T), (device, side, rows)


@pytest.mark.skipif(not GPUS, reason="neither cuda nor sim is built")
@pytest.mark.parametrize("kernel", ["tiled", "padded"])
def test_a_tile_beyond_shared_memory_is_refused(kernel):
    with pytest.raises(
        gpuops.KernelRefusedError, match="64 by 64 takes items of up to 8 bytes"
    ):
        gpuops.transpose(
            square("complex128", 64), device=GPUS[0], kernel=kernel, params={"side": 64}
        )


@pytest.mark.skipif(not GPUS, reason="neither cuda nor sim is built")
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64", "complex128"])
def test_every_side_of_vectorized_tiles(dtype):
    kernel = "vectorized"
    tunables = engine.row("transpose", GPUS[0], kernel)["tunables"]
    a = square(dtype, 272)[:, :256]
    ran = 0
    for values in itertools.product(*tunables.values()):
        params = dict(zip(tunables, values, strict=True))
        try:
            got = gpuops.transpose(a, device=GPUS[0], kernel=kernel, params=params)
        except gpuops.KernelRefusedError:
            continue
        ran += 1
        assert np.array_equal(got, a.T), params
    assert ran > 0


@needs_sim
def test_a_kernel_that_is_gone_names_what_took_its_place():
    said = "transpose: kernel 'bulk' of sim is now called 'vectorized'"
    with pytest.raises(ValueError, match=said):
        gpuops.transpose(square(), device="sim", kernel="bulk")


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("device", GPUS)
def test_rows_that_start_anywhere(device, dtype):
    """Outputs whose rows start at any item: their sectors are written whole, and no more."""
    a = square(dtype, 400)
    for first, width in itertools.product((0, 1, 5), (281, 288, 299)):
        view = a[first:, first : first + width]
        kernel = "shifted" if a.itemsize <= 2 else "sectored"
        assert np.array_equal(gpuops.transpose(view, device=device, kernel=kernel), view.T)
    frame = np.full((400, 440), 7, dtype)
    for first in range(0, 33, 3):
        frame[:] = 7
        out = frame[:, first : first + 400]
        gpuops.transpose(a, out=out, device=device)
        assert np.array_equal(out, a.T)
        assert (frame[:, :first] == 7).all()
        assert (frame[:, first + 400 :] == 7).all()


@pytest.mark.parametrize("device", GPUS)
def test_shifted_leaves_tiles_that_are_mostly_empty_to_boxes(device):
    a = np.arange(277 * 114, dtype=np.uint32).astype(np.uint8).reshape(114, 277)
    many = np.zeros((60, 135, 201), "u1")
    by = gpuops.explain(gpuops.transpose, many, (0, 2, 1), device=device).kernel
    assert by in ("boxed", "gathered")
    for kernel in ("shifted", "boxed"):  # by name it takes them
        assert np.array_equal(gpuops.transpose(a, device=device, kernel=kernel), a.T)


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize(
    ("dtype", "shape", "axes"),
    [
        ("float32", (3, 3931, 2), (0, 2, 1)),
        ("uint16", (2, 3, 2003, 2, 11), (0, 1, 3, 2, 4)),
        ("uint8", (2, 32, 149, 8, 5), (1, 0, 2, 4, 3)),
        ("uint8", (137, 5, 3, 10, 3, 2), (5, 1, 2, 4, 0, 3)),
    ],
)
def test_boxes_of_long_runs_and_many_squares(device, dtype, shape, axes):
    """Runs whose length is a prime, and squares of more lines than a block has threads."""
    size = int(np.prod(shape))
    a = np.random.default_rng(5).integers(0, 1 << 16, size).astype(dtype).reshape(shape)
    got = gpuops.transpose(a, axes, device=device, kernel="boxed")
    assert np.array_equal(got, a.transpose(axes))


@needs_sim
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_at_odd_places_are_written_in_whole_sectors(dtype):
    """Only the first and last sector of a row of the output may be written in part."""
    a = square(dtype, 509)
    p = gpuops.profile("transpose", a, kernel="sectored")["transpose_sectored"]
    store = p.counts("global", "store")
    sector = 32 // a.itemsize
    least = sum((509 * x % sector + 509 + sector - 1) // sector for x in range(509))
    assert least <= store.parts < 1.05 * least


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("device", GPUS)
def test_rows_and_neighbours(device, dtype):
    """Points and pixels, both ways, with a batch around them; the last block is not full."""
    rng = np.random.default_rng(4)
    most = 16 if np.dtype(dtype).itemsize <= 8 else 8
    for rows, n in itertools.product(range(2, most + 1), (16, 4096 + 48)):
        a = rng.integers(0, 200, (rows, n)).astype(dtype)
        for view in (a, np.ascontiguousarray(a.T)):
            got = gpuops.transpose(view, device=device, kernel="planar")
            assert np.array_equal(got, view.T), (rows, n)
    images = rng.integers(0, 200, (3, 2, 3, 5, 32)).astype(dtype)
    for axes in ((0, 1, 3, 4, 2), (1, 0, 3, 4, 2)):
        pixels = gpuops.transpose(images, axes, device=device, kernel="planar")
        assert np.array_equal(pixels, images.transpose(axes))
    back = gpuops.transpose(pixels, (0, 1, 4, 2, 3), device=device, kernel="planar")
    assert np.array_equal(back, images.swapaxes(0, 1))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "word", [*(d.name for d in engine.DTYPES if d.itemsize <= 8), "bfloat16"]
)
@pytest.mark.parametrize("device", GPUS)
def test_pixels_of_three(device, word):
    """Whole tiles and the least parts of them; pixels in a batch, and of joined axes."""
    dtype = engine.bfloat16() if word == "bfloat16" else np.dtype(word)
    if device == "cuda":
        engine.ran.add(("transpose", "pixels", word))
    rng = np.random.default_rng(5)
    for shape, axes in (
        ((128, 64, 3), (1, 0, 2)), ((132, 200, 3), (1, 0, 2)), ((300, 36, 3), (1, 0, 2)),
        ((2, 72, 40, 3), (0, 2, 1, 3)), ((2, 136, 5, 64, 3), (3, 2, 0, 1, 4)),
        ((8, 16, 4, 12, 3), (3, 2, 1, 0, 4)),
    ):  # fmt: skip
        a = rng.integers(0, 200, shape).astype(dtype)
        got = gpuops.transpose(a, axes, device=device, kernel="pixels")
        assert got.tobytes() == a.transpose(axes).tobytes(), shape
        assert gpuops.explain(gpuops.transpose, a, axes, device=device).kernel == "pixels"
    for shape in ((0, 64, 3), (64, 0, 3), (2, 0, 64, 3)):  # a plan that nobody filled
        axes = (1, 0, *range(2, len(shape)))
        empty = gpuops.transpose(np.zeros(shape, dtype), axes, device=device, kernel="pixels")
        assert empty.shape == (shape[1], shape[0], *shape[2:])


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex64"])
@pytest.mark.parametrize("device", GPUS)
def test_lines_that_start_anywhere(device, dtype):
    """At each of 16 bytes, next to each other or with gaps, backwards, up to the last byte of
    what may be read; an output that ends in a part of 16 bytes."""
    item = np.dtype(dtype).itemsize
    for line in ({1: 33, 2: 17, 4: 17, 8: 49}[item], 101, 531):
        for gap in (0, 1, 3):
            shape, size = (3, 2, line), 6 * (line + gap) - gap
            for first in range(16 // item):
                bits = np.random.default_rng(first).integers(0, 2, (first + size) * item, "u1")
                whole = gpuops.to_device(bits.view(dtype), device)._buffer
                outer = (2 * (line + gap) * item, (line + gap) * item)
                at = whole.ptr + first * item + (outer[1] if gap else 0)
                strides = (outer[0], -outer[1] if gap else outer[1], item)
                lent = (at, shape, strides, whole.dtype, whole.device, whole, True)
                a = gpuops.DeviceArray(_core.borrow(*lent))
                want = np.ascontiguousarray(a.get().swapaxes(0, 1))
                got = gpuops.transpose(a, (1, 0, 2), kernel="lines").get()
                assert got.tobytes() == want.tobytes(), (line, gap, first)


@pytest.mark.parametrize(
    ("shape", "axes", "kernel", "says"),
    [
        ((99, 64, 4), (1, 0, 2), "pixels", "3 items of 1 to 8 bytes"),
        ((99, 64, 3), (2, 1, 0), "pixels", "3 items of 1 to 8 bytes"),
        ((17, 64), None, "planar", "2 to 16 rows"),
        ((3, 67), None, "planar", "multiples of 16 bytes"),
        ((800, 700), None, "small", "fewer than 524288 items"),
        ((8, 9, 8), (1, 0, 2), "lines", "at least 48 bytes"),
        ((8, 9, 13), (1, 0, 2), "lines", "unaligned ones of at least"),
        ((16, 64), None, "lines", "the fastest stays"),
    ],
)
@pytest.mark.parametrize("device", GPUS)
def test_what_is_faster_otherwise_is_refused(device, shape, axes, kernel, says):
    a = np.zeros(shape, np.float32)
    with pytest.raises(gpuops.KernelRefusedError, match=says):
        gpuops.transpose(a, axes, device=device, kernel=kernel)
    assert gpuops.transpose(a, axes, device=device).shape == a.transpose(axes).shape


# ---- what each step does to memory ----


@needs_sim
@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        *[("padded", d) for d in ("float32", "float64")],
        *[("diagonal", d) for d in ("float32", "float64")],
        *[("swizzled", d) for d in ("float32", "float64")],
        *[("packed", d) for d in ("uint8", "int16")],
        *[("vectorized", d) for d in ("uint8", "int16", "float32", "float64", "complex128")],
        *[("sectored", d) for d in ("float32", "float64")],
    ],
)
def test_no_sector_and_no_turn_of_shared_memory_is_wasted(kernel, dtype):
    profile = gpuops.profile("transpose", square(dtype), kernel=kernel)[f"transpose_{kernel}"]
    for space, kind in itertools.product(("global", "shared"), ("load", "store")):
        count = profile.counts(space, kind)
        assert count.requests > 0
        assert count.parts == count.ideal, (space, kind)


def asked(profile, space, kind):
    counts = profile.counts(space, kind)
    return counts.requests, counts.parts


@needs_sim
@pytest.mark.parametrize("rows", range(2, 17))
@pytest.mark.parametrize("to_rows", [False, True])
def test_interleaved_moves_16_bytes_and_meets_no_bank_twice(rows, to_rows):
    n = 4 * 256
    a = square(n=n)[:rows].copy()
    p = gpuops.profile("transpose", a.T.copy() if to_rows else a, kernel="planar")
    p = p["transpose_planar"]
    pieces = rows * n // 4 // 32
    for kind in ("load", "store"):
        assert asked(p, "global", kind) == (pieces, 16 * pieces)
        assert asked(p, "shared", kind) == (pieces, 4 * pieces)


@needs_sim
def test_lines_are_a_copy():
    a = np.zeros((8, 16, 64), np.float32)
    p = gpuops.profile("transpose", a, (1, 0, 2), kernel="lines")["transpose_lines"]
    pieces = 8 * 16 * 64 // 4 // 32
    for kind in ("load", "store"):
        assert asked(p, "global", kind) == (pieces, 16 * pieces)
        assert p.counts("shared", kind).requests == 0


@needs_sim
def test_few_writes_16_bytes_of_every_thread():
    p = gpuops.profile("transpose", square(n=128)[:64], kernel="small")["transpose_small"]
    stores = 64 * 128 // 4 // 32
    assert asked(p, "global", "store") == (stores, 16 * stores)
    assert p.counts("global", "load").requests == 4 * stores
