"""The error of a sum is within the bound of docs/numerics.md, against exact rational sums.

The data are made to hurt: cancellation, magnitudes far apart, orders that lose every addition,
subnormal numbers, and numbers near the largest.
"""

from __future__ import annotations

import math
from fractions import Fraction

import engine
import numpy as np
import pytest
from engine import dtype_of

import gpuops

# dtype -> unit roundoff of its accumulator, and of itself
UNITS = {
    "float16": (Fraction(1, 2**24), Fraction(1, 2**11)),
    "bfloat16": (Fraction(1, 2**24), Fraction(1, 2**8)),
    "float32": (Fraction(1, 2**24), Fraction(0)),
    "float64": (Fraction(1, 2**53), Fraction(0)),
}
SIZES = (5, 2049, 100_003)


def limits(dtype: np.dtype):
    if dtype.name != "bfloat16":
        return np.finfo(dtype)
    return pytest.importorskip("ml_dtypes").finfo(dtype)


def exact(x: np.ndarray) -> Fraction:
    """The sum as a rational number: whole multiples of the smallest power of two there is."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    whole = np.ldexp(fraction, 53).astype(np.int64).tolist()
    least = int(exponent.min()) if exponent.size else 0
    shifts = (exponent - least).tolist()
    total = sum(w << s for w, s in zip(whole, shifts, strict=True))
    return Fraction(total) * Fraction(2) ** (least - 53)


def bound(x: np.ndarray) -> Fraction:
    """The first order of the bound, and the rounding to the output's dtype."""
    leaves = 1
    while leaves * 2048 < x.size:
        leaves *= 2
    wide, own = UNITS[x.dtype.name]
    error = (22 + leaves.bit_length() - 1) * wide * exact(np.abs(x))
    if own:
        smallest = Fraction(float(limits(x.dtype).smallest_subnormal))
        error += own * (abs(exact(x)) + error) + smallest / 2
    return error


# ---- data that hurt ----


def cancelling(n: int, dtype, rng) -> np.ndarray:
    """Everything cancels but one small number."""
    half = (rng.standard_normal(n // 2) * 100).astype(dtype)
    x = np.concatenate([half, -half, np.full(n - 2 * (n // 2), 1e-3)]).astype(dtype)
    return rng.permutation(x)


def alternating(n: int, dtype, rng) -> np.ndarray:
    """Large and small take turns, and so do the signs of the large."""
    x = rng.random(n) + 1.0
    x[::2] *= 2.0 ** (10 if dtype.itemsize == 2 else 30)
    x[::4] *= -1
    return (x / n).astype(dtype)


def ascending(n: int, dtype, rng) -> np.ndarray:
    return np.sort(np.exp(3 * rng.standard_normal(n)) / n).astype(dtype)


def descending(n: int, dtype, rng) -> np.ndarray:
    return np.ascontiguousarray(ascending(n, dtype, rng)[::-1])


def subnormal(n: int, dtype, rng) -> np.ndarray:
    smallest = np.float64(limits(dtype).smallest_subnormal)
    return (rng.integers(-1000, 1000, n) * smallest).astype(dtype)


def huge(n: int, dtype, rng) -> np.ndarray:
    """The sum is just below the largest number."""
    largest = float(limits(dtype).max)
    return (largest / n * (0.9 + 0.05 * rng.random(n))).astype(dtype)


def lost(n: int, dtype, rng) -> np.ndarray:
    """Each lane begins with 1, and each further element is half a unit, which 1 swallows."""
    unit = float(UNITS[dtype.name][0])
    smallest = float(limits(dtype).smallest_subnormal)
    x = np.full(n, max(unit, smallest))
    x[np.arange(n) % 2048 < 128] = 1.0
    return x.astype(dtype)


DATA = (cancelling, alternating, ascending, descending, subnormal, huge, lost)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("word", UNITS)
@pytest.mark.parametrize("data", DATA, ids=lambda f: f.__name__)
@pytest.mark.parametrize("device", engine.backends())
def test_the_error_is_within_the_bound(device, data, word, n):
    if not engine.small_enough(device, n):
        pytest.skip("too much work for sim")
    x = data(n, dtype_of(word), np.random.default_rng(n))
    want, most = exact(x), bound(x)
    column = np.stack([x, x[::-1]], axis=1)
    answers = [gpuops.sum(x, device=device), *gpuops.sum(column, axis=0, device=device)]
    for got, order in zip(answers, ("in a line", "in a column", "backwards"), strict=True):
        assert math.isfinite(got), order
        error = abs(Fraction(float(got)) - want)
        assert error <= most, f"{order}: {float(error):.3g} > {float(most):.3g}"


def test_the_data_reach_most_of_the_bound():
    """15 of the 22 units of a leaf are really lost: the bound is not a loose one."""
    x = lost(2048, np.dtype(np.float32), None)
    error = abs(Fraction(float(gpuops.sum(x))) - exact(x))
    assert error > Fraction(6, 10) * bound(x)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("rest", [2.0**-24, 0.1])
def test_adding_one_after_the_other_breaks_the_bound(rest):
    """What the bound forbids: a loop over many float32 numbers."""
    x = np.full(1_000_003, rest, np.float32)
    x[0] = 1.0
    loop = np.add.accumulate(x)[-1]
    assert abs(Fraction(float(loop)) - exact(x)) > bound(x)
    assert abs(Fraction(float(gpuops.sum(x))) - exact(x)) <= bound(x)


def test_exact_is_exact():
    x = np.array([1e300, 1.0, -1e300, 5e-324, 2.5])
    assert exact(x) == Fraction(3.5) + Fraction(5e-324)
    assert exact(x) == sum(map(Fraction, x.tolist()))
