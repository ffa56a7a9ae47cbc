"""matmul: the bound on its error, on data made to break it and by rows that meet it."""

from __future__ import annotations

import itertools

import engine
import numpy as np
import pytest
from engine import attempt, dtype_of, rows, same_bits
from matmul_bound import (
    HOSTILE,
    KINDS,
    LOOPS,
    bound,
    keeps_bound,
    operands,
    rows_of_lower_precision,
)  # fmt: skip
from test_matmul import sequential
from test_matmul_accuracy import EVERY_CONFORMING_ROW

import gpuops

pytestmark = pytest.mark.sampled(every=2)

EVERY_LOOP = pytest.mark.parametrize(
    ("device", "kernel"),
    [
        case
        for case in rows("matmul", teaching=False)
        if case.values[1] in LOOPS[case.values[0]]
    ],
)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("kernel", ["naive", "blocked", "simd", "threaded", "direct", "vector"])
def test_the_bound_is_kept_by_long_sums_on_the_cpu(kernel, kind, dtype):
    """Of few lines by few, whose blocks threads share, and of one by many."""
    d = np.dtype(dtype)
    for m, k, n in ((3, 9000, 5), (12, 5000, 12), (2, 70_000, 2), (1, 40_000, 3)):
        a, b = operands(kind, m, k, n, d)
        for y in (b, np.asfortranarray(b)):
            try:
                got = gpuops.matmul(a, y, device="cpu", kernel=kernel)
            except gpuops.KernelRefusedError:
                continue
            keeps_bound(got, kind, (m, k, n), "cpu", kernel)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@EVERY_LOOP
def test_the_bound_is_met(device, kernel, dtype):
    """By a loop that rounds up each time: a smaller k would be no bound."""
    shape, d = (1, 300, 2), np.dtype(dtype)
    a, b = operands("rounds up each time", *shape, d)
    a = np.where(a == 1, a, a.min())  # one large, and then small ones alone
    got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
    off = np.abs(got.astype(np.longdouble) - a.astype(np.longdouble) @ b)
    unit = np.finfo(d).eps / 2 * (np.abs(a).astype(np.longdouble) @ b)
    most = bound(device, kernel, 300, d)[0] / (np.finfo(d).eps / 2)
    assert 0.98 * most < (off / unit).max() <= most


# Sums that a loop has right: -big + big, and then what a chunk that begins with big loses.
CANCELLING = {
    "float32": (1, 0.75 * 2.0**-23), "float64": (1, 0.75 * 2.0**-52),
    "complex64": (1, 0.75 * 2.0**-23), "bfloat16": (1024, 0.75 * 2.0**-13),
    "float16": (1024, 0.75 * 2.0**-13),
}  # fmt: skip


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", CANCELLING)
@EVERY_CONFORMING_ROW
def test_sums_that_cancel_between_chunks(device, kernel, dtype):
    """256 apart, as the CPU's are: a loop's e is near 0, 63 of float32 there."""
    d, (big, small) = dtype_of(dtype), CANCELLING[dtype]
    a = np.zeros((2, 512))
    a[:, 0], a[:, 256], a[:, 257:] = -big, big, small
    got = attempt(
        gpuops.matmul, a.astype(d), np.ones((512, 2), d), device=device, kernel=kernel
    )
    want, size = 255 * small, 2 * big + 255 * small
    part, tiny = bound(device, kernel, 512, d)
    half = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 0) * want
    assert (np.abs(got.astype("c16") - want) <= part * size + half + tiny).all()
    if kernel in LOOPS[device]:
        assert (np.abs(got.astype("c16") - want) <= 2.0**-23 * want + half).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@EVERY_LOOP
def test_rows_that_are_a_loop_have_its_bits(device, kernel, dtype):
    """What they lose is so what the loop loses, on any data."""
    for kind, shape in (("graded k", (9, 500, 13)), ("cancelling", (40, 300, 7))):
        a, b = operands(kind, *shape, np.dtype(dtype))
        got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel)
        same_bits(got, sequential(a, b))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("precision", ["highest", "fast", "bf16"])
@pytest.mark.parametrize(("device", "kernel"), rows_of_lower_precision())
def test_every_class_of_precision_keeps_its_bound(device, kernel, precision):
    for kind in KINDS + HOSTILE:
        if precision == "bf16" and kind in ("subnormal", "underflowing", "far apart"):
            continue  # below 2^-110 factors of 8 bits are those of a loop, or are not held
        for shape in ((150, 1500, 140), (24, 300, 40)):
            if not engine.small_enough(device, np.prod(shape)):
                continue
            a, b = operands(kind, *shape, np.dtype("f4"))
            try:
                got = gpuops.matmul(a, b, device=device, kernel=kernel, precision=precision)
            except gpuops.KernelRefusedError:
                continue
            keeps_bound(got, kind, shape, device, kernel, precision)


@pytest.mark.sampled(every=1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_few_lines_of_any_length(dtype):
    """Tiles of every size, both orders, lines that end within a vector, one segment and two."""
    rng = np.random.default_rng(12)
    for m, n, k in itertools.product((1, 2, 3, 5), (2, 3, 4, 9), (15, 16, 39, 1030, 8200)):
        x, y = (rng.integers(-3, 4, (lines, k)).astype(dtype) for lines in (m, n))
        same_bits(gpuops.matmul(x, y.T), x @ y.T)
        same_bits(gpuops.matmul(y, y.T), y @ y.T)
    apart = np.zeros((3, 2, 64), dtype)  # rows that map to one set of the cache
    apart[:, 1] = y[:3, :64]
    same_bits(gpuops.matmul(apart[:, 1], y[:, :64].T), apart[:, 1] @ y[:, :64].T)


@pytest.mark.parametrize("shape", [(8, 5000), (64, 300), (300, 300)])
def test_one_memory_read_in_two_ways_is_no_product_with_itself(shape):
    """An array and its transpose as another dtype, or with its bytes the other way round."""
    rng = np.random.default_rng(1)
    x = rng.random(shape).astype("f4")
    for a in (x.view("i4"), rng.integers(1, 9, shape).astype("i4").view(">i4")):
        b = (x if a.dtype.isnative else a.view("<i4")).T
        got = gpuops.matmul(a, b, device="cpu")
        want = gpuops.matmul(a, b, device="cpu", kernel="naive")
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=1e-6)
