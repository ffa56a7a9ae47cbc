"""matmul: exact on integers, no less accurate than a loop of fma, the same bits every time."""

from __future__ import annotations

import contextlib

import engine
import numpy as np
import pytest
from engine import attempt, dtype_of, layout, of_turn, random, remembered, rows, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuops
from gpuops import _core

pytestmark = pytest.mark.sampled(every=2)

EVERY_ROW = pytest.mark.parametrize(("device", "kernel"), rows("matmul"))
EVERY_DEVICE = pytest.mark.parametrize("device", engine.backends())
DTYPES = (*(d.name for d in engine.DTYPES), "bfloat16")
EVERY_DTYPE = pytest.mark.parametrize("dtype", DTYPES)
KINDS = (
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
)


def exact(shape, dtype, seed=0) -> np.ndarray:
    """Integers over the whole range, which wrap; in floats small ones, whose sums are exact."""
    if dtype.kind in "iu":
        return random(shape, dtype, seed)
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(shape) < 0.1
    a = rng.integers(-3, 4, shape)
    return (a + 1j * rng.integers(-3, 4, shape) if dtype.kind == "c" else a).astype(dtype)


@remembered
def product(a, b) -> np.ndarray:
    """np.matmul, in the widest type of the kind, rounded once."""
    if a.dtype.kind in "biu":
        return np.matmul(a, b)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        out = np.matmul(a.astype(wide), b.astype(wide)) + 0  # BLAS may give -0 for 0
    return np.asarray(out).astype(a.dtype.newbyteorder("="))


def tiled_work(a, b) -> float:
    """Multiply-adds of whole tiles of 128 x 128 outputs, which is what a block computes."""
    batches = max(np.prod(x.shape[:-2]) for x in (a, b))
    m, n = a.shape[-2] if a.ndim > 1 else 1, b.shape[-1] if b.ndim > 1 else 1
    return batches * -(-m // 128) * -(-n // 128) * 128 * 128 * a.shape[-1]


def check_all(cases, device, kernel):
    """Each (a, b) against the exact product; skipped only if the kernel refused all of them."""
    refusal, ran = "", False
    for a, b in cases:
        if not engine.small_enough(device, tiled_work(a, b) / 5):
            refusal = refusal or "too much work for sim"
            continue
        try:
            got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
        except pytest.skip.Exception as skipped:
            refusal = str(skipped)
            continue
        ran = True
        same_bits(got, product(a, b))
        assert np.ndim(got) == 0 or got.flags.c_contiguous
    if not ran:
        pytest.skip(refusal)


# ---- exact products ----

# (m, k, n): around the edges of panels, tiles and blocks of l; thin, wide, and empty.
SHAPES = (
    (1, 1, 1), (2, 3, 4), (13, 7, 15), (14, 8, 16), (15, 9, 17), (28, 31, 32), (29, 33, 31),
    (33, 32, 33), (63, 16, 65), (64, 64, 64), (65, 17, 63), (127, 9, 129), (129, 8, 127),
    (128, 24, 128), (5, 255, 6), (6, 256, 5), (7, 257, 7), (3, 513, 2), (1, 100, 70),
    (70, 100, 1), (1, 700, 1), (4, 50, 130), (130, 50, 3), (197, 5, 211), (400, 3, 9),
    (9, 3, 800), (1, 1, 300), (2, 1200, 3), (40, 1100, 30),
    (0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 0, 1),
)  # fmt: skip


@pytest.mark.sampled(every=4)
@EVERY_DTYPE
@EVERY_ROW
def test_shapes(device, kernel, dtype, everything):
    d, turn = dtype_of(dtype), DTYPES.index(dtype)
    shapes = of_turn(SHAPES, 25, everything, "matmul", device, kernel, turn)
    check_all(((exact((m, k), d), exact((k, n), d, 1)) for m, k, n in shapes), device, kernel)


BATCHES = (
    ((3,), (3,)), ((3,), (3, 5)), ((5, 3), (3,)), ((0,), (0,)), ((3,), (2, 3, 5)),
    ((2, 5, 3), (3,)), ((2, 5, 3), (3, 4)), ((5, 3), (2, 3, 4)), ((2, 5, 3), (2, 3, 4)),
    ((2, 1, 5, 3), (6, 3, 4)), ((2, 3, 1, 4), (4, 5)), ((4, 1, 1, 3), (6, 3, 2)),
    ((0, 5, 3), (3, 4)), ((2, 0, 3), (2, 3, 4)), ((1, 1, 5, 3), (1, 3, 4)),
    ((7, 1, 1), (7, 1, 1)),
    ((2, 3, 2, 2, 2), (3, 1, 2, 3)), ((3, 40, 30), (30,)), ((30,), (3, 30, 40)),
    ((300, 2, 3), (300, 3, 2)), ((70, 1, 9), (9, 11)), ((9, 1), (70, 1, 1)),
    ((2, 3, 9, 600), (2, 1, 600, 10)), ((1,) * 40 + (2, 3), (3, 2)), ((2,) * 8, (2,) * 7),
    ((2, 1, 2, 1, 3, 5, 9), (1, 3, 1, 2, 3, 9, 7)), ((2, 1, 3, 1, 70, 80), (2, 1, 2, 80, 66)),
)  # fmt: skip


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", KINDS)
@EVERY_ROW
def test_batches_and_vectors(device, kernel, dtype, everything):
    d, turn = dtype_of(dtype), KINDS.index(dtype)
    shapes = of_turn(BATCHES, 15, everything, "matmul", device, kernel, turn)
    check_all(((exact(a, d), exact(b, d, 1)) for a, b in shapes), device, kernel)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", KINDS)
@EVERY_ROW
def test_layouts(device, kernel, dtype, everything):
    d, terms = dtype_of(dtype), 100 if device == "sim" else 300
    a, b = exact((2, 37, terms), d), exact((2, terms, 21), d, 1)
    cases = [(layout(a, x), layout(b, x)) for x in engine.LAYOUTS]
    cases += [(layout(a, x), b) for x in ("strided", "transposed", "negative")]
    cases += [(a, layout(b, x)) for x in ("strided", "transposed", "negative")]
    cases += [
        (a[::-1, :, ::2], b[:, ::-2]),
        (a[:, 5], b),
        (a, b[0, :, 7]),
        (a[0, :, 3:4], b[0, 3:4]),
    ]
    part = a[..., :90]
    cases += [(part.swapaxes(-1, -2), part), (a, a.swapaxes(-1, -2)), (part[0].T, part[0])]
    turn = KINDS.index(dtype)
    cases = of_turn(cases, 20, everything, "matmul", device, kernel, turn)
    check_all(cases, device, kernel)


@EVERY_DEVICE
def test_strides_of_nothing(device):
    """Stride 0 along every axis, and windows that overlap themselves."""
    one = np.ones((1, 1), "int32")
    a, b = np.broadcast_to(one, (40, 600)), np.broadcast_to(one * 3, (600, 50))
    same_bits(gpuops.matmul(a, b, device=device), product(a, b))
    line = random((700,), "int32")
    windows = np.lib.stride_tricks.sliding_window_view(line, 300)
    same_bits(gpuops.matmul(windows, windows.T, device=device), product(windows, windows.T))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@EVERY_ROW
def test_repeated_rows_and_columns(device, kernel, dtype, everything):
    """Stride 0 along one axis of an operand, or both, and results in either order."""

    def lines(x):
        corners = x[:1], x[:, :1], x[:1, :1]
        return x, *(np.broadcast_to(corner, x.shape) for corner in corners)

    cases = [
        (x, y, order)
        for m, k, n in ((5, 3, 6), (2, 40, 9), (33, 17, 3))
        for x in lines(exact((m, k), dtype_of(dtype)))
        for y in lines(exact((k, n), dtype_of(dtype), 1))
        for order in "CF"
    ]
    for x, y, order in of_turn(cases, 7, everything, "matmul", device, kernel):
        want = product(x, y)
        out = np.empty(want.shape, want.dtype, order)
        with contextlib.suppress(gpuops.KernelRefusedError):
            same_bits(gpuops.matmul(x, y, out, device=device, kernel=kernel), want)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
@EVERY_ROW
def test_sums_of_no_terms(device, kernel, dtype):
    """Of parts without items, whose strides are those of the whole."""
    a = exact((3, 70, 90), dtype_of(dtype))
    columns, rows, line = a[..., :0], a[0, :0], a[0, 0, :0]
    cases = [(columns, rows), (line, rows), (columns, line), (rows.T, rows)]
    for x, y in [*cases, (a.swapaxes(-1, -2)[..., :0], line)]:
        out = np.full_like(product(x, y), 5)
        attempt(gpuops.matmul, x, y, out, device=device, kernel=kernel)
        same_bits(out, product(x, y))


@EVERY_DEVICE
def test_far_apart(device):
    """Rows 2^31 bytes apart: offsets need 64 bits. The memory between them is never touched."""
    try:
        far = np.zeros(3 * 2**31 + 8, "int8")
    except MemoryError:
        pytest.skip("no address space for 6 GiB")
    a = np.lib.stride_tricks.as_strided(far, (4, 5), (2**31, 1))
    a[...] = exact((4, 5), np.dtype("int8"))
    b = exact((5, 3), np.dtype("int8"), 1)
    same_bits(gpuops.matmul(a, b, device=device), product(a.copy(), b))
    same_bits(gpuops.matmul(b.T, a.T, device=device), product(b.T, a.T.copy()))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_shape(data):
    """Random shapes with broadcast batches, on every row that takes them."""
    m, k, n = (data.draw(st.integers(0, 40), label=x) for x in "mkn")
    batch = data.draw(st.lists(st.integers(1, 3), max_size=3), label="batch")
    d = dtype_of(data.draw(st.sampled_from(DTYPES[:-1]), label="dtype"))
    drop = data.draw(st.integers(0, len(batch)), label="dropped")
    thin = [1 if data.draw(st.booleans()) else x for x in batch]
    a, b = exact((*thin, m, k), d), exact((*batch[drop:], k, n), d, 1)
    want = product(a, b)
    for case in rows("matmul"):
        device, kernel = case.values
        try:
            same_bits(gpuops.matmul(a, b, device=device, kernel=kernel), want)
        except gpuops.KernelRefusedError:
            continue


# ---- accuracy ----


def sequential(a, b) -> np.ndarray:
    """One chain of fused multiply-adds an output, in the type that sums are kept in."""
    wide = a.dtype if a.dtype.itemsize >= 4 else np.dtype("float32")
    a, b = a.astype(wide), b.astype(wide)
    total = np.zeros((a.shape[0], b.shape[1]), wide)
    for column, y in zip(a.T, b, strict=True):
        x = column[:, None]
        if wide.kind == "c":
            re = gpuops.fma(x.real, y.real, total.real, device="cpu")
            im = gpuops.fma(x.real, y.imag, total.imag, device="cpu")
            total = gpuops.fma(-x.imag, y.imag, re, device="cpu") + 1j * gpuops.fma(
                x.imag, y.real, im, device="cpu"
            )
        else:
            total = gpuops.fma(x, y, total, device="cpu")
    return total


def errors(got, a, b) -> np.ndarray:
    """|got - a b| / (|a| |b|), component by component, against at least 64-bit mantissas."""
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    want = np.matmul(a.astype(wide), b.astype(wide))
    size = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    off = got.astype(wide) - want
    off = np.maximum(np.abs(off.real), np.abs(off.imag)) if a.dtype.kind == "c" else np.abs(off)
    return (off / np.where(size > 0, size, 1)).astype(np.float64)


def data(kind, m, k, n, dtype):
    rng = np.random.default_rng(k)
    draw = rng.random if kind == "uniform" else rng.standard_normal
    a, b = draw((m, k)), draw((k, n))
    if dtype.kind == "c":
        a, b = a + 1j * draw((m, k)), b + 1j * draw((k, n))
    if kind == "graded":  # large and small terms along l, which cancel in size
        scale = np.exp2(rng.integers(-10, 11, k))
        a, b = a * scale, b / scale[:, None]
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@EVERY_ROW
def test_halves_are_rounded_once(device, kernel, dtype):
    d = dtype_of(dtype)
    a, b = data("normal", 24, 1500, 40, d)
    got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
    assert got.dtype == d
    wide = product(a.astype("float64"), b.astype("float64"))
    half = 2.0 ** (-11 if dtype == "float16" else -8)
    size = np.matmul(np.abs(a).astype("float64"), np.abs(b).astype("float64"))
    single = errors(sequential(a, b), a, b).max() * size
    assert (np.abs(got.astype("float64") - wide) <= half * np.abs(wide) + 1.01 * single).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "float16"])
@EVERY_ROW
def test_the_same_bits_every_time(device, kernel, dtype):
    d = np.dtype(dtype)
    a, b = data("normal", 150, 700, 140, d)
    first = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
    for _ in range(3):
        same_bits(gpuops.matmul(a, b, device=device, kernel=kernel), first)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "complex64", "bfloat16", "int64", "bool"]
)
def test_threads_and_levels_change_no_bit(dtype):
    d = dtype_of(dtype)
    shapes = (
        (90, 700, 33), (200, 700, 4), (3, 700, 500), (300, 700, 1), (1, 700, 600),
        (1, 100_000, 1), (2, 33_001, 70), (40, 9, 40), (90, 300, 140),
        (5, 4500, 7), (50, 4200, 60), (12, 7000, 1), (3, 6001, 2),
    )  # fmt: skip
    for m, k, n in shapes:
        if d.kind in "biu":
            a, b = exact((m, k), d), exact((k, n), d, 1)
        else:
            a, b = data("normal", m, k, n, d)
        for x, y in ((a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b))):
            gpuops.set_num_threads(1)
            want = gpuops.matmul(x, y, device="cpu")
            for threads in (1, 2, 5):
                for level in (None, *_core.cpu_levels()):
                    gpuops.set_num_threads(threads)
                    _core.set_cpu_level(level)
                    same_bits(gpuops.matmul(x, y, device="cpu"), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("columns", [5, 17, 50])
def test_tall_matrices_times_their_transposes_have_the_bits_of_other_products(dtype, columns):
    """Half of the results are copied, and threads share their sums."""
    a = data("normal", 3000, columns, 1, np.dtype(dtype))[0]
    for x in (a, np.stack((a, -a, a + 1))):
        gpuops.set_num_threads(1)
        want = gpuops.matmul(x.mT, x.copy(), device="cpu", kernel="direct")
        for threads in (1, 2, 5):
            for level in _core.cpu_levels():
                gpuops.set_num_threads(threads)
                _core.set_cpu_level(level)
                got = gpuops.matmul(x.mT, x, device="cpu", kernel="direct")
                same_bits(got, want)
                same_bits(got, got.mT.copy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_packed_and_the_direct_kernel_add_alike(dtype):
    for shape in ((90, 700, 33), (6, 2000, 300), (5, 3, 1000), (64, 64, 64), (300, 9, 4)):
        a, b = data("normal", *shape, np.dtype(dtype))
        want = gpuops.matmul(a, b, device="cpu", kernel="simd")
        same_bits(gpuops.matmul(a, b, device="cpu", kernel="direct"), want)


# ---- special values ----


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@EVERY_ROW
def test_infinities_and_nan(device, kernel, dtype):
    """Every term counts: 0 * inf is NaN, a NaN stays in its row and column."""
    a, b = random((37, 50), dtype, 1), random((50, 41), dtype, 2)
    a[3, 7], a[11, 20], b[20, 5], b[30, 9], b[31, 9] = np.inf, 0, np.inf, np.nan, -np.inf
    a[15] = 0
    got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
    with np.errstate(all="ignore"):
        want = (a[:, :, None].astype("f8") * b.astype("f8")).sum(1)
    assert (np.isnan(got) == np.isnan(want)).all()
    assert (np.isposinf(got) == np.isposinf(want)).all()
    assert (np.isneginf(got) == np.isneginf(want)).all()


@pytest.mark.parametrize(("m", "k", "n"), [(1, 64, 1), (64, 17, 1), (1, 100, 5)])
@EVERY_ROW
def test_nans_of_both_signs(device, kernel, m, k, n):
    """Which of two NaNs a sum is depends on their order; it is a NaN wherever they meet."""
    a, b = np.ones((m, k), "f4"), np.ones((k, n), "f4")
    a[-1, 0], a[-1, 1], a[-1, k // 2], b[k // 2] = np.nan, -np.nan, np.inf, 0
    got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
    assert np.isnan(got[-1]).all()
    assert (got[:-1] == k - 1).all()


@EVERY_ROW
def test_nothing_leaks_in_from_outside(device, kernel):
    """NaN all around the operands: the padding of tiles reads none of it."""
    a, b = (np.full((60, 400), np.nan, "float32") for _ in range(2))
    inner_a, inner_b = a[3:40, 5:306], b.T[7:308, 2:35]
    inner_a[...], inner_b[...] = exact((37, 301), a.dtype), exact((301, 33), a.dtype, 1)
    got = attempt(gpuops.matmul, inner_a, inner_b, device=device, kernel=kernel)
    same_bits(got, product(inner_a, inner_b))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("word", ["complex64", "complex128"])
def test_thin_complex_products(word):
    """Numbers so small that every sum is exact; for `direct` and `vector`, and transposes."""
    rng = np.random.default_rng(2)
    shapes = [(1, 5000, 1), (2, 3000, 2), (4, 1100, 4), (8, 1030, 8), (1, 70, 300), (40, 3, 3),
              (300, 70, 1), (2, 40_000, 70), (5, 300, 700), (7, 1, 9), (3, 0, 4)]  # fmt: skip
    for m, k, n in shapes:
        parts = rng.integers(-9, 10, (4, max(m, n), max(k, 1)))
        a = (parts[0] + 1j * parts[1])[:m, :k].astype(word)
        b = (parts[2] + 1j * parts[3])[:n, :k].T.astype(word)
        for x in (a, np.asfortranarray(a)):
            for y in (b, np.ascontiguousarray(b)):
                want = (x.astype("D") @ y.astype("D")).astype(word)
                same_bits(gpuops.matmul(x, y, device="cpu") + 0, want + 0)
        twice = gpuops.matmul(x, x.T, device="cpu")
        same_bits(twice, np.ascontiguousarray(twice.T))


@pytest.mark.parametrize("word", ["float32", "float64", "complex64"])
def test_direct_of_a_small_b_that_lies_askew(word):
    """Its columns are apart, so that it is laid out in rows; another one for each product."""
    rng, wide = np.random.default_rng(1), "c16" if word == "complex64" else "f8"
    shapes = [(2, 3, 3), (3, 3, 3), (70, 3, 3), (5, 300, 17), (100, 64, 33), (4, 1, 5)]
    for m, k, n in [*shapes, (31, 7, 1)]:
        a = rng.integers(-9, 10, (6, m, k)).astype(word)
        b = rng.integers(-9, 10, (6, 2 * n, 2 * k)).astype(word).swapaxes(1, 2)
        askew = (b[:, :k, :n], b[:, ::2, ::2], b[:, ::-2, ::-2], b[:1, ::2, ::2], b[0, :k, :n],
                 b[::-1, :k, :n], b[:, :k, n:])  # fmt: skip
        for x in askew:
            got = gpuops.matmul(a, x, device="cpu", kernel="direct")
            same_bits(got + 0, (a.astype(wide) @ x.astype(wide)).astype(word) + 0)
            same_bits(gpuops.matmul(a, x, device="cpu"), got)
