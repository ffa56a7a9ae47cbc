"""matmul with precision="tf32": factors of 11 bits, sums that the tensor cores cut short."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import attempt, layout, same_bits
from matmul_bound import HOSTILE, KINDS, bound, errors, operands
from test_matmul import exact
from test_matmul_accuracy import are_exact_around_tiles

import gpuops

EVERY_ROUNDED = pytest.mark.parametrize(
    ("device", "kernel"),
    [(d, None) for d in engine.backends()] + [("cuda", "tf32")] * ("cuda" in engine.backends()),
)

STRAIGHT = [(x, y) for x in ("plain", "transposed") for y in ("plain", "transposed")]


@pytest.mark.sampled(every=13)
@pytest.mark.parametrize("kind", KINDS + HOSTILE)
@EVERY_ROUNDED
def test_factors_of_11_bits_keep_their_bound(device, kernel, kind):
    """And what lies below 2^-136 of factors below 2^-126."""
    d = np.dtype("f4")
    for shape in ((70, 1500, 90), (9, 16384, 33)):
        if not engine.small_enough(device, 2e8):
            shape = (24, 300, 40)
        a, b = operands(kind, *shape, d)
        got = attempt(gpuops.matmul, a, b, precision="tf32", device=device, kernel=kernel)
        assert np.isfinite(got).all()
        wide = [np.abs(x).astype("f8") for x in (a, b)]
        size = wide[0] @ wide[1]
        part, tiny = bound(device, kernel, shape[1], d, "tf32")
        tiny = tiny + 2.0**-136 * (wide[0].sum(1)[:, None] + wide[1].sum(0))
        excess = errors(got, kind, shape) - part * size - tiny
        assert (excess <= 0).all(), f"{kind} {shape}: by {excess.max()}"


@EVERY_ROUNDED
def test_whole_numbers_are_exact_in_factors_of_11_bits(device, kernel):
    """Around tiles, in all layouts: no lane has another's line or term."""

    def layouts(at):
        others = [engine.LAYOUTS[x % (len(engine.LAYOUTS) - 1)] for x in (at, at + 3)]
        return [*STRAIGHT, others]

    are_exact_around_tiles(device, kernel, np.dtype("f4"), layouts, precision="tf32")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -np.nan])
@EVERY_ROUNDED
def test_infinities_and_nans_among_factors_of_11_bits(device, kernel, value):
    """The NaNs of a GPU have all bits set: none of them may become a number when rounded."""
    for names in STRAIGHT:
        a, b = (exact(s, np.dtype("f4"), i) for i, s in enumerate(((40, 50), (50, 34))))
        for x, at in ((a, (7, 9)), (b, (5, 3))):
            x[at] = value
            if np.isnan(value):
                x.view("u4")[at] |= 0x7FFFFF
        a[7, 5] = 0
        b[9, 4] = 0.5
        with np.errstate(all="ignore"):
            want = (a.astype("f8") @ b.astype("f8")).astype("f4")
        a, b = (layout(x, name) for x, name in zip((a, b), names, strict=True))
        got = attempt(gpuops.matmul, a, b, device=device, kernel=kernel, precision="tf32")
        assert (np.isnan(got) == np.isnan(want)).all()
        keep = ~np.isnan(want)
        same_bits(got[keep], want[keep])


@EVERY_ROUNDED
def test_a_matrix_times_its_transpose_is_symmetric_with_11_bits(device, kernel):
    """Both factors are rounded alike, and all sums are cut in the same places."""
    rng = np.random.default_rng(8)
    for shape in ((70, 300), (300, 2100), (3, 260, 90)):
        if not engine.small_enough(device, np.prod(shape) * shape[-2]):
            continue
        a = rng.standard_normal(shape).astype("f4")
        for x in (a, a.swapaxes(-1, -2)):
            y = x.swapaxes(-1, -2)
            got = attempt(gpuops.matmul, x, y, device=device, kernel=kernel, precision="tf32")
            same_bits(got, np.ascontiguousarray(got.swapaxes(-1, -2)))
