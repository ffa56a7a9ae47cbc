"""matmul: how far it is from the exact product, element by element, on hard and easy data."""

from __future__ import annotations

import functools

import engine
import numpy as np
import pytest
from engine import attempt, dtype_of, layout, of_turn, rows, same_bits
from matmul_bound import HOSTILE, KINDS, errors, exact_and_size, keeps_bound, operands
from test_matmul import EVERY_DEVICE, EVERY_ROW, exact, product, sequential

import gpuops

pytestmark = pytest.mark.sampled(every=2)

EVERY_CONFORMING_ROW = pytest.mark.parametrize(
    ("device", "kernel"), rows("matmul", teaching=False)
)


@functools.cache
def allowed(kind: str, shape, dtype: np.dtype) -> np.ndarray:
    """What is usual, and not promised: at most the largest of a sequential loop's, or 4 u, and
    what underflows in k terms."""
    info = np.finfo(dtype)
    off = errors(sequential(*operands(kind, *shape, dtype)), kind, shape)
    unit = float(info.eps) / 2 * exact_and_size(kind, shape, dtype)[1]
    bound = 4.0
    if (unit > 0).any():
        bound = max(bound, (1 + 1e-9) * float((off[unit > 0] / unit[unit > 0]).max()))
    return bound * unit + shape[1] * np.longdouble(info.smallest_subnormal)


def each_shape(kind: str, shapes, dtype: str, device: str, kernel: str | None):
    """The results of those that the row takes; skipped only if it refused all of them."""
    d, ran, refusal = np.dtype(dtype), False, ""
    for shape in shapes:
        a, b = operands(kind, *shape, d)
        try:
            got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
        except pytest.skip.Exception as skipped:
            refusal = str(skipped)
            continue
        ran = True
        yield shape, got
    if not ran:
        pytest.skip(refusal)


def check(kind: str, shapes, dtype: str, device: str, kernel: str | None) -> None:
    for shape, got in each_shape(kind, shapes, dtype, device, kernel):
        keeps_bound(got, kind, shape, device, kernel)
        if kind not in HOSTILE:
            excess = errors(got, kind, shape) - allowed(kind, shape, got.dtype)
            assert (excess <= 0).all(), f"{kind} {shape}: by {excess.max()}"


@pytest.mark.sampled(every=19)
@pytest.mark.parametrize("kind", KINDS + HOSTILE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@EVERY_CONFORMING_ROW
def test_the_bound_is_kept(device, kernel, dtype, kind):
    """And on data that is not made against it no more is lost than is usual. On sim a shape of
    each kind, another for each kernel and dtype."""
    long = 4 if device == "sim" else 1
    shapes = (
        (24, 1500 // long, 40), (1, 2000 // long, 7), (9, 700, 1), (9, 200, 33), (12, 1100, 12),
    )  # fmt: skip
    turn = KINDS.index(kind) if kind in KINDS else HOSTILE.index(kind)
    turn += ("float32", "float64").index(dtype)
    shapes = of_turn(shapes, 5, False, "matmul", device, kernel, turn)
    check(kind, shapes, dtype, device, kernel)


@pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cpu"])
def test_factors_of_11_bits_show(device):
    """Teaching row tensor: two factors of 2^-11 and what sums lose, and more than float32's."""
    shape, d = (24, 300, 40), np.dtype("f4")
    a, b = operands("normal", *shape, d)
    got = attempt(gpuops.matmul, a, b, device=device, kernel="tensor")
    unit = 2.0**-24 * exact_and_size("normal", shape, d)[1]
    assert 100 < (errors(got, "normal", shape) / unit).max() < 2.0**14


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("kind", KINDS)
def test_long_sums_keep_the_bound(kind, everything):
    """K to 16384, on sim 4096 and a shape of each kind; else the kernels that are chosen, one
    length, and one shape of each kind."""
    found = [("cpu", None)]
    if everything:
        found = [case.values for case in rows("matmul", teaching=False)]
    for k in (4096, 8192, 16384) if everything else (16384,):
        shapes = ((20, k, 34), (1, k, 9), (2, k, 70))
        if not everything:
            shapes = shapes[KINDS.index(kind) % 3 :][:1]
        for device, kernel in found:
            if device == "sim" and k > 4096:
                continue
            turn = of_turn(shapes, 3, False, "matmul", device, kernel, KINDS.index(kind))
            try:
                check(kind, turn, "float32", device, kernel)
            except pytest.skip.Exception:
                continue


@EVERY_ROW
def test_no_further_off_for_complex_numbers(device, kernel):
    rng = np.random.default_rng(3)
    a, b = (
        (rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype("c8")
        for s in ((24, 1500), (1500, 40))
    )
    got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
    want = a.astype("c16") @ b.astype("c16")
    unit = 2.0**-24 * (np.abs(a.astype("c16")) @ np.abs(b.astype("c16")))

    def worst(x):
        off = x.astype("c16") - want
        return (np.maximum(np.abs(off.real), np.abs(off.imag)) / unit).max()

    assert worst(got) <= max(worst(sequential(a, b)), 4)


# ---- whole numbers: every bit, around the edges of panels and tiles ----

EDGES = (
    (13, 255, 31), (14, 256, 32), (15, 257, 33), (28, 8, 64), (29, 9, 65), (6, 7, 16),
    (7, 1, 17),
    (16, 31, 16), (17, 33, 15), (63, 15, 127), (64, 16, 128), (65, 17, 129),
    (127, 5, 63), (129, 3, 1), (1, 300, 129), (2, 65, 257), (257, 2, 2),
)  # fmt: skip


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@EVERY_ROW
def test_whole_numbers_are_exact_and_nothing_else_is_written(device, kernel, dtype, everything):
    """Into the middle of an array of NaN, whose border stays as it is."""
    d = dtype_of(dtype)
    turn = ("float16", "bfloat16", "float32", "float64").index(dtype)
    cases = of_turn(enumerate(EDGES), 5, everything, "matmul", device, kernel, turn)
    refusal, ran = "", 0
    for at, (m, k, n) in cases:
        name = engine.LAYOUTS[at % (len(engine.LAYOUTS) - 1)]  # none that repeats values
        other = engine.LAYOUTS[(at + 3) % (len(engine.LAYOUTS) - 1)]
        a, b = exact((m, k), d), exact((k, n), d, 1)
        around = np.full((m + 4, n + 6), np.nan, d)
        out = around[2 : m + 2, 3 : n + 3]
        try:
            attempt(
                gpuops.matmul, layout(a, name), layout(b, other), out=out, device=device,
                kernel=kernel,
            )  # fmt: skip
        except pytest.skip.Exception as skipped:
            refusal = str(skipped)
            continue
        ran += 1
        same_bits(np.ascontiguousarray(out), product(a, b))
        out[...] = np.nan
        assert np.isnan(around.astype("f4")).all()
    if not ran:
        pytest.skip(refusal)


class Columns:
    """The first columns of an array on a device, which gives no views of its own."""

    def __init__(self, whole, columns: int):
        self.whole, self.columns = whole, columns

    @property
    def __cuda_array_interface__(self):
        whole = self.whole
        own = {"shape": (whole.shape[0], self.columns), "strides": whole.strides}
        return whole.__cuda_array_interface__ | own


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex64"])
@EVERY_ROW
def test_the_rest_of_a_row_stays_as_it_is(device, kernel, dtype):
    """Rows that end within 16 bytes of an array whose rows begin at multiples of 16."""
    d = np.dtype(dtype)
    a, b = exact((64, 64), d), exact((64, 74), d, 1)
    for columns in (73, 74):
        whole = np.full((64, 80), 7, d)
        out = whole[:, :columns]
        if device == "cuda":
            whole = gpuops.to_device(whole, device)
            out = Columns(whole, columns)
        attempt(gpuops.matmul, a, b[:, :columns], out=out, device=device, kernel=kernel)
        got = whole.get() if device == "cuda" else whole
        same_bits(np.ascontiguousarray(got[:, :columns]), product(a, b[:, :columns]))
        assert (got[:, columns:] == 7).all()


# ---- a matrix times its own transpose ----


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@EVERY_ROW
def test_a_matrix_times_its_transpose_is_symmetric(device, kernel, dtype, everything):
    """Exactly, since an element's bits depend on its row and column in the same way."""
    ran, refusal = 0, ""
    rng = np.random.default_rng(5)
    long = 700 if device == "sim" else 3000
    shapes = ((70, 300), (33, 5), (2, long), (5, 40, 90), (17, 530))
    turn = ("float16", "float32", "float64").index(dtype)
    for shape in of_turn(shapes, 12, everything, "matmul", device, kernel, turn):
        a = rng.standard_normal(shape).astype(dtype)
        for x in (a, a[..., ::-1], a.swapaxes(-1, -2)):
            try:
                got = attempt(
                    gpuops.matmul, x, x.swapaxes(-1, -2), device=device, kernel=kernel
                )
            except pytest.skip.Exception as skipped:
                refusal = str(skipped)
                continue
            ran += 1
            same_bits(got, np.ascontiguousarray(got.swapaxes(-1, -2)))
    if not ran:
        pytest.skip(refusal)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_on_the_cpu_it_is_of_complex_numbers_too(dtype):
    rng = np.random.default_rng(6)
    for shape in ((150, 700), (33, 5), (1, 9), (5, 90, 40), (3, 2, 2)):
        a = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
        for x in (a, a[..., ::-1], a.swapaxes(-1, -2)):
            got = gpuops.matmul(x, x.swapaxes(-1, -2), device="cpu")
            same_bits(got, np.ascontiguousarray(got.swapaxes(-1, -2)))
            wide = x.astype("c16")
            want = wide @ wide.swapaxes(-1, -2)
            assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


# ---- tensor cores: tiles of 128 and 256, blocks of 32 and 64 terms, pieces of numbers ----

TILE_EDGES = (
    (127, 31, 129), (128, 32, 128), (129, 33, 127), (255, 63, 257), (256, 64, 256),
    (257, 65, 255), (385, 17, 70), (70, 16, 385), (513, 129, 131), (1, 64, 300), (300, 65, 1),
    (100, 4100, 90), (1030, 33, 16), (129, 2100, 17), (20, 4000, 9), (9, 40, 1100),
    (700, 100, 128), (600, 130, 129),
)  # fmt: skip


def are_exact_around_tiles(device, kernel, dtype, layouts, **words):
    """Of whole numbers, in layouts(at), pairs of names, the case with number `at`."""
    refusal, ran = "", 0
    for at, (m, k, n) in enumerate(TILE_EDGES):
        if not engine.small_enough(device, m * k * n):
            continue
        a, b = exact((m, k), dtype), exact((k, n), dtype, 1)
        for names in layouts(at):
            try:
                got = attempt(
                    gpuops.matmul, layout(a, names[0]), layout(b, names[1]), device=device,
                    kernel=kernel, **words,
                )  # fmt: skip
            except pytest.skip.Exception as skipped:
                refusal = str(skipped)
                continue
            ran += 1
            same_bits(got, product(a, b))
    if not ran:
        pytest.skip(refusal or "too much work for sim")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@EVERY_ROW
def test_whole_numbers_are_exact_around_tiles_of_tensor_cores(device, kernel, dtype):
    if device != "cuda":
        pytest.skip("tensor cores are a GPU's")

    def layouts(at):
        other = engine.LAYOUTS[at % (len(engine.LAYOUTS) - 1)]
        return [(name, name) for name in ("plain", "transposed", other)]

    are_exact_around_tiles(device, kernel, dtype_of(dtype), layouts)


@pytest.mark.parametrize("k", [320, 640, 1500, 3000])
@EVERY_DEVICE
def test_whole_numbers_are_exact_in_factors_of_8_bits(device, k):
    """Sums that are cut in pieces of an odd number of blocks, too."""
    if not engine.small_enough(device, 1e8):
        pytest.skip("too much work for sim")
    for m, n in ((256, 256), (256, 1024), (256, 3000)):
        a, b = exact((m, k), np.dtype("f4")), exact((k, n), np.dtype("f4"), 1)
        got = attempt(gpuops.matmul, a, b, precision="bf16", device=device)
        same_bits(got, product(a, b))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 2.0**-130, 2.0**-149, 3.39e38])
@EVERY_CONFORMING_ROW
def test_numbers_that_no_pieces_hold(device, kernel, value):
    """One in each operand, among whole numbers and among zeros."""
    value = np.float32(value)
    for scale in (1, 0):
        a, b = (exact(s, np.dtype("f4"), i) * scale for i, s in enumerate(((30, 40), (40, 20))))
        a[7, 9] = b[5, 3] = value
        a[7, 5] = 0  # no sum has both
        b[9, 4] = 0.5
        with np.errstate(all="ignore"):
            want = (a.astype("f8") @ b.astype("f8")).astype("f4")
        got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
        assert (np.isnan(got) == np.isnan(want)).all()
        fine = np.isfinite(want)
        assert (np.isposinf(got) == np.isposinf(want)).all()
        assert (np.isneginf(got) == np.isneginf(want)).all()
        with np.errstate(all="ignore"):
            off = np.abs(got.astype("f8") - want)[fine]
        assert (off <= 2.0**-22 * np.abs(want[fine]) + 40 * 2.0**-149 + 1e-4 * scale).all()


@pytest.mark.parametrize("kind", KINDS)
@EVERY_DEVICE
def test_fast_keeps_its_bound(device, kind):
    """That of the default with 8 u in place of 4, by the row chosen and by halves on a GPU."""
    shape, d = (70, 1500, 90), np.dtype("f4")
    a, b = operands(kind, *shape, d)
    for kernel in (None, "fp16x2") if device == "cuda" else (None,):
        got = attempt(gpuops.matmul, a, b, precision="fast", device=device, kernel=kernel)
        excess = errors(got, kind, shape) - 2 * allowed(kind, shape, d)
        assert (excess <= 0).all(), f"{kernel} {kind}: by {excess.max()}"
