"""Exact sums and means: exact/v1 is the real one, of fractions, rounded once."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from fractions import Fraction

import engine
import numpy as np
import pytest
from engine import dtype_of

import gpuops
from gpuops import _core

FORMATS = {  # digits, the smallest number's exponent, the bits of infinity
    "float16": (11, -24, 0x7C00),
    "bfloat16": (8, -133, 0x7F80),
    "float32": (24, -149, 0x7F800000),
    "float64": (53, -1074, 0x7FF << 52),
}
WORD = {2: np.uint16, 4: np.uint32, 8: np.uint64}
KINDS = ("normal", "any", "cancel", "subnormal", "largest", "ties", "special")
DEVICES = engine.backends()


def bits_of(value) -> int:
    value = np.asarray(value)
    return int(value.view(WORD[value.itemsize]))


def rounded(value: Fraction, name: str) -> int:
    """The bits of the number nearest to it, ties to even."""
    digits, least, infinity = FORMATS[name]
    if value == 0:
        return 0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = max(exponent - digits + 1, least)
    units = size / Fraction(2) ** unit
    whole = round(units)  # Python's rounds ties to even
    found = min(((unit - least) << (digits - 1)) + whole, infinity)
    sign = (infinity | infinity - 1).bit_length()  # the next bit
    return found | (1 << sign if value < 0 else 0)


def expected(terms, name, mean=False, initial=None) -> int:
    digits, _, infinity = FORMATS[name]
    nan = infinity | 1 << (digits - 2)
    every = [*terms, *([] if initial is None else [initial])]
    odd = {x for x in every if isinstance(x, float) and not math.isfinite(x)}
    if (mean and not terms) or len(odd) > 1 or any(x != x for x in odd):
        return nan
    if odd:
        return infinity | (1 << infinity.bit_length() if -math.inf in odd else 0)
    total = sum(map(Fraction, every), Fraction(0))
    return rounded(total / len(terms) if mean else total, name)


def draw(rng, name, n, kind):
    dtype = np.dtype(dtype_of(name))
    if kind == "normal":
        return rng.standard_normal(n).astype(dtype)
    bits = rng.integers(0, 2 ** (8 * dtype.itemsize), n, dtype=WORD[dtype.itemsize])
    sign = WORD[dtype.itemsize](1 << (8 * dtype.itemsize - 1))
    largest = WORD[dtype.itemsize](FORMATS[name][2] - 1)
    if kind == "subnormal":
        bits &= sign | WORD[dtype.itemsize](7)
    elif kind == "largest":
        bits = bits & sign | largest
    with np.errstate(all="ignore"):
        x = np.where((bits & ~sign) <= largest, bits, largest >> 1).view(dtype)
        if kind == "cancel":
            x[n // 2 : n // 2 * 2] = -x[: n // 2]
        if kind == "ties":  # 1, halves of its last place and what decides
            half = 2.0 ** -FORMATS[name][0]
            x = rng.choice([0.0, half, -half, half / 2, half / 16], n).astype(dtype)
            x[:1] = rng.integers(1, 3)
        if kind == "special" and n:
            for _ in range(int(rng.integers(1, 3))):
                x[rng.integers(n)] = rng.choice([np.nan, np.inf, -np.inf])
    rng.shuffle(x)
    return x


def run(f, a, **words):
    engine.note("reduce", [a], {"kernel": "exact", **words})  # no other kernel takes it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return f(a, exact=True, **words)


def check_random_call(name, device, seed):
    rng = np.random.default_rng(seed)
    longest = 2600 if device == "cpu" else 300
    shape = [(int(rng.integers(0, longest)),), (9, int(rng.integers(1, longest // 4))),
             (int(rng.integers(1, longest // 4)), 11), (3, 5, 24)][seed % 4]  # fmt: skip
    x = draw(rng, name, math.prod(shape), KINDS[int(rng.integers(len(KINDS)))]).reshape(shape)
    a = [x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2],
         np.ascontiguousarray(x[::-1])[::-1]][int(rng.integers(4))]  # fmt: skip
    axis = [None, 0, -1, (0, x.ndim - 1) if x.ndim > 1 else None][int(rng.integers(4))]
    mean, keepdims = bool(rng.integers(2)), bool(rng.integers(2))
    words = {"axis": axis, "keepdims": keepdims, "device": device}
    mask = rng.random(shape) < rng.random() if rng.integers(3) == 0 else None
    initial = None if mean or rng.integers(2) else draw(rng, name, 1, "any")[0]
    if mask is not None:
        words["where"] = mask
    if initial is not None:
        words["initial"] = initial
    got = np.asarray(run(gpuops.mean if mean else gpuops.sum, a, **words))
    assert got.dtype == x.dtype
    assert got.shape == np.sum(np.zeros(shape), axis=axis, keepdims=keepdims).shape
    axes = range(x.ndim) if axis is None else {i % x.ndim for i in np.atleast_1d(axis)}
    kept = [i for i in range(x.ndim) if i not in axes]

    def by_output(values):
        moved = np.moveaxis(values, kept, range(len(kept)))
        return moved.reshape(got.size, math.prod(shape) // got.size)

    masks = by_output(np.ones(shape, bool) if mask is None else mask)
    for value, terms, takes in zip(got.ravel(), by_output(x), masks, strict=True):
        want = expected(terms[takes].astype(float).tolist(), name, mean,
                        None if initial is None else float(initial))  # fmt: skip
        assert bits_of(value) == want, (seed, shape, axis, mean)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FORMATS)
def test_is_the_real_sum_rounded_once(name, device):
    for seed in range(60 if device == "cpu" else 16):
        check_random_call(name, device, seed)


@pytest.mark.sampled(later=True)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FORMATS)
def test_is_the_real_sum_rounded_once_often(name, device):
    for seed in range(100, 3000 if device == "cpu" else 500):
        check_random_call(name, device, seed)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_devices_give_the_same_bytes_of_any_order(name):
    rng = np.random.default_rng(3)
    n = 40_007
    spread = 10 if name == "float16" else 100
    x = (rng.standard_normal(n) * 2.0 ** rng.integers(-spread, spread // 8, n)).astype(name)
    for f in (gpuops.sum, gpuops.mean):
        bits = bits_of(run(f, x))
        assert bits == expected(x.astype(float).tolist(), name, mean=f is gpuops.mean)
        for order in (rng.permutation(x), np.sort(x), x[::-1]):
            assert bits_of(run(f, order)) == bits
        for device in DEVICES:
            assert bits_of(run(f, x, device=device)) == bits
    rows = x[:40_000].reshape(200, 200)
    for axis in (0, 1):
        found = {run(gpuops.sum, rows, axis=axis, device=d).tobytes() for d in DEVICES}
        assert len(found) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_terms_far_apart_in_one_block(device):
    """What doubles do not hold is added term by term, in lanes beside others that they hold."""
    rng = np.random.default_rng(4)
    for name, far in (("float32", 2.0**-120), ("float64", 2.0**-1000)):
        x = rng.random(4096).astype(name)
        for step in (1, 2, 3, 7, 16, 100):
            y = x.copy()
            y[::step] *= np.asarray(far, name)
            assert bits_of(run(gpuops.sum, y, device=device)) == expected(y.tolist(), name)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("middle", [-1060, -980, -3, 0, 940, 975, 1010])
def test_terms_around_the_ends_of_a_window(middle, device):
    """Kernels keep sums of near orders of magnitude apart from the others: of doubles from 11
    orders above the largest term that a thread reads first to 118 below it."""
    rng = np.random.default_rng(middle + 2000)
    for spread in (1, 12, 40, 70, 130):
        orders = np.clip(middle + rng.integers(-spread, spread + 1, (3, 700)), -1074, 1020)
        a = np.ldexp(rng.uniform(-2, 2, orders.shape), orders)
        for f in (gpuops.sum, gpuops.mean):
            got = run(f, a, axis=1, device=device)
            for row, value in zip(a, got, strict=True):
                assert bits_of(value) == expected(row.tolist(), "float64", f is gpuops.mean)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kind", ["any", "subnormal", "largest", "special"])
@pytest.mark.parametrize("name", FORMATS)
def test_long_sums_of_all_exponents(name, kind):
    """Long enough for bins, by every thread and in several pieces."""
    rng = np.random.default_rng(7)
    unit = 2 ** -FORMATS[name][1]
    x = draw(rng, name, 70_001, "any" if kind == "special" else kind)
    if kind == "special":
        x[rng.integers(x.size)] = -np.inf
        assert run(gpuops.sum, x, device="cpu") == -np.inf
        x[rng.integers(x.size)] = np.inf
        assert np.isnan(run(gpuops.sum, x, device="cpu"))
        return
    whole = [int(unit * Fraction(v)) for v in x.astype(float).tolist()]
    want = rounded(Fraction(sum(whole), unit), name)
    assert bits_of(run(gpuops.sum, x, device="cpu")) == want
    rows = x[:70_000].reshape(7, 10_000)
    takes = rng.random(rows.shape) < 0.7
    got = run(gpuops.sum, rows, axis=1, where=takes, device="cpu")
    for k, value in enumerate(got):
        terms = [w for w, t in zip(whole[10_000 * k :], takes[k], strict=False) if t]
        assert bits_of(value) == rounded(Fraction(sum(terms), unit), name)
    if name in ("float32", "float64"):
        z = run(gpuops.sum, x[:70_000].view(np.result_type(x, 1j)), device="cpu")
        for k, part in enumerate((z.real, z.imag)):
            assert bits_of(part) == rounded(Fraction(sum(whole[k:70_000:2]), unit), name)


@pytest.mark.parametrize("name", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(700, 269), (40, 16), (3, 300, 33), (50, 1025), (9, 2048)])
def test_exponents_that_drift(name, shape):
    """What a block has shown of exponents does not hold for the next, nor for its neighbour."""
    rng = np.random.default_rng(7)
    n = math.prod(shape) * (1 + name.startswith("c"))
    part = "float64" if name == "float64" else "float32"
    x = rng.standard_normal(n).astype(part)
    steps = np.cumsum(rng.choice([-3, 0, 0, 0, 3], n)) + 40 * (rng.random(n) < 1e-3)
    x = np.ldexp(x, np.clip(steps, -140, 120) * (8 if part == "float64" else 1)).astype(part)
    x[rng.random(n) < 1e-4] = rng.choice([np.inf, -np.inf, np.nan, np.finfo(part).max])
    x = x.view(name).reshape(shape)
    for axis in range(x.ndim):
        got = run(gpuops.sum, x, axis=axis)
        lines = np.moveaxis(x, axis, -1).reshape(got.size, -1)
        for i in {0, got.size - 1, *rng.integers(got.size, size=12).tolist()}:
            for of in ("real", "imag") if name.startswith("c") else ("real",):
                want = expected(getattr(lines[i], of).astype(float).tolist(), part)
                assert bits_of(getattr(got.ravel()[i], of)) == want, (axis, i, of)


ZEROS_ON_A_USED_STACK = """
import warnings
import numpy as np
import gpuops
warnings.simplefilter("ignore")
shape = (300, 700)
infinite = np.full(shape, -np.inf)
odd = np.full(shape, 0x7FFFFFFF, np.uint32).view("f4")
z = np.zeros(shape)
c = z.astype(complex)
cases = ((z, 0), (z, 1), (z, None), (c, 0), (c, 1), (z[:, :16], 0), (z[:9, :60], 1))
for before in (lambda: gpuops.sum(infinite, axis=0, exact=True),
               lambda: gpuops.sum(odd, axis=0, exact=True)):
    for x, axis in cases:
        before()
        got = np.asarray(gpuops.sum(x, axis=axis, exact=True))
        if got.any():
            print("wrong", x.dtype, axis)
"""


def test_zeros_whatever_was_on_the_stack():
    """A lane of zeros fits any unit: one that was never set made them infinite. In a process of
    its own, since it depends on what lies on the stack."""
    words = [sys.executable, "-c", ZEROS_ON_A_USED_STACK]
    env = os.environ | {"GPUOPS_DEVICE": "cpu"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    assert done.stdout == ""


@pytest.mark.parametrize("device", DEVICES)
def test_overflow_is_of_the_result_alone(device):
    for dtype in (np.float16, np.float32, np.float64):
        most = np.finfo(dtype).max
        last = most - np.nextafter(most, dtype(0))  # a unit of the last place
        x = np.array([most, most, -most], dtype)
        assert run(gpuops.sum, x, device=device) == most
        assert run(gpuops.mean, np.full(7, most, dtype), device=device) == most
        assert run(gpuops.sum, x[:2], device=device) == np.inf
        below = np.array([most, last / 4, last / 8], dtype)  # less than half a unit beyond
        assert run(gpuops.sum, below, device=device) == most
        assert run(gpuops.sum, np.array([most, last / 2], dtype), device=device) == np.inf
        assert run(gpuops.sum, -x[:2], device=device, initial=most) == -most


@pytest.mark.parametrize("device", DEVICES)
def test_zeros_nan_and_nothing(device):
    minus = np.full(5, -0.0)
    assert bits_of(run(gpuops.sum, minus, device=device)) == 0
    assert bits_of(run(gpuops.sum, minus, device=device, initial=-0.0)) == 0
    assert bits_of(run(gpuops.sum, minus, device=device, initial=None)) == 0
    assert bits_of(run(gpuops.sum, np.array([1.5, -1.5]), device=device)) == 0
    assert bits_of(run(gpuops.sum, np.empty(0, np.float32), device=device)) == 0
    assert run(gpuops.sum, np.empty((0, 2)), axis=0, initial=2.5, device=device).tolist() == [
        2.5,
        2.5,
    ]
    assert bits_of(run(gpuops.sum, np.ones(4), where=np.zeros(4, bool), device=device)) == 0
    tiny = np.array([-5e-324, 0.0, 0.0])
    assert bits_of(run(gpuops.mean, tiny, device=device)) == 1 << 63  # rounds to -0.0
    assert bits_of(run(gpuops.mean, tiny[:2], device=device)) == 1 << 63  # a tie, to even
    nan = np.array([np.nan]).view(np.uint64) | np.uint64(1 << 63 | 5)
    for x in (nan.view(float), np.array([np.inf, -np.inf])):
        assert bits_of(run(gpuops.sum, x, device=device)) == 0x7FF8 << 48
    with pytest.warns(RuntimeWarning, match="mean of an empty slice"):
        empty = gpuops.mean(np.empty(0), exact=True, device=device)
    assert bits_of(empty) == 0x7FF8 << 48


@pytest.mark.parametrize("device", DEVICES)
def test_complex_sums_are_two(device):
    rng = np.random.default_rng(6)
    for dtype, name in ((np.complex64, "float32"), (np.complex128, "float64")):
        x = (rng.standard_normal((30, 7)) * 10.0 ** rng.integers(-20, 20, (30, 7))).astype(
            dtype
        )
        x.imag = rng.permutation(x.real.ravel()).reshape(x.shape) * 3
        for axis in (None, 0, 1):
            got = np.atleast_1d(run(gpuops.sum, x, axis=axis, initial=1 - 2j, device=device))
            outputs = {None: x.reshape(1, -1), 0: x.T, 1: x}[axis]
            for value, terms in zip(got, outputs, strict=True):
                assert bits_of(value.real) == expected(terms.real.tolist(), name, False, 1.0)
                assert bits_of(value.imag) == expected(terms.imag.tolist(), name, False, -2.0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("code", "?bhilqBHILQ")
def test_whole_numbers(code, device):
    """Their sums are exact anyway; their means are quotients rounded once."""
    rng = np.random.default_rng(7)
    size = np.dtype(code).itemsize
    x = rng.integers(0, 256, 300 * size, dtype=np.uint8).view("u1" if code == "?" else code)
    x = x > 100 if code == "?" else x
    mask = rng.random(300) < 0.5
    assert gpuops.sum(x, exact=True, device=device) == gpuops.sum(x)
    total = sum(map(int, x))
    assert bits_of(run(gpuops.mean, x, device=device)) == rounded(
        Fraction(total, 300), "float64"
    )
    taken = Fraction(sum(map(int, x[mask])), int(mask.sum()))
    got = run(gpuops.mean, x, where=mask, device=device)
    assert bits_of(got) == rounded(taken, "float64")
    rows = run(gpuops.mean, x.reshape(20, 15), axis=0, device=device)
    for value, terms in zip(rows, x.reshape(20, 15).T, strict=True):
        assert bits_of(value) == rounded(Fraction(sum(map(int, terms)), 20), "float64")


def test_dtype_and_out_decide_as_without_exact():
    x = np.array([2048, 1, 0.5, 0.25, 0.125], np.float16)
    assert gpuops.sum(x, exact=True).dtype == np.float16
    assert gpuops.sum(x, exact=True) == np.float16(2050)
    wide = gpuops.sum(x, dtype=np.float32, exact=True)
    assert (wide.dtype, float(wide)) == (np.float32, 2049.875)
    out = np.empty((), np.float32)
    assert gpuops.sum(x, exact=True, out=out) is out
    assert out == 2049.875
    y = np.array([0.1, 0.2, 0.3])
    narrow = gpuops.sum(y, dtype=np.float32, exact=True)  # of terms that are cast first
    assert bits_of(narrow) == expected(y.astype(np.float32).tolist(), "float32")
    swapped = y.astype(">f8")
    assert gpuops.sum(swapped, exact=True) == gpuops.sum(y, exact=True)
    into = np.empty(3, ">f4")
    gpuops.mean(np.ones((2, 3), np.float32), axis=0, exact=True, out=into)
    assert into.tolist() == [1, 1, 1]
    assert gpuops.sum(y, exact=True, out=...).shape == ()
    z = np.arange(6, dtype=">c8").reshape(2, 3)
    assert gpuops.sum(z, axis=0, exact=True).tolist() == [3, 5, 7]


def test_every_spelling_and_what_is_refused():
    x = [1e100, 1.0, -1e100]
    assert gpuops.reduce(x, exact=True) == gpuops.reduce(x, "sum", exact=True) == 1.0
    assert gpuops.reduce(x, np.add, exact=np.True_) == 1.0
    assert gpuops.sum(x, exact=False) == gpuops.sum(x)
    assert gpuops.sum(x, kernel="exact", exact=True) == 1.0
    for word in ("prod", "min", "max", "any", "all", "argmin", "argmax"):
        with pytest.raises(TypeError, match=rf"{word}: exact=.* sum and mean"):
            getattr(gpuops, word)(x, exact=True)
        with pytest.raises(TypeError, match=rf"{word}: exact=.* sum and mean"):
            gpuops.reduce(x, word, exact=True)
    for wrong in (1, None, "yes", np.ones(1)):
        with pytest.raises(TypeError, match=r"sum: exact is .*, expected True or False"):
            gpuops.sum(x, exact=wrong)
    for device in DEVICES:
        with pytest.raises(gpuops.KernelRefusedError, match="is for exact=True only"):
            gpuops.sum(x, kernel="exact", device=device)
        with pytest.raises(gpuops.KernelRefusedError, match="does not take exact=True"):
            gpuops.sum(x, kernel="naive", device=device, exact=True)


def test_a_device_without_a_kernel_says_so():
    if not gpuops.is_available("opencl"):
        pytest.skip("there is no OpenCL device")
    with pytest.raises(
        gpuops.UnsupportedDeviceError, match="sum: opencl has no kernel for exact"
    ):
        gpuops.sum(np.ones(3), exact=True, device="opencl")


@pytest.mark.parametrize("device", DEVICES)
def test_integers_of_a_sum_add_up(device):
    """The words of pieces are those of the whole, added and carried."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((6, 500)) * 10.0 ** rng.integers(-300, 300, (6, 500))
    params = {"op": "sum", "axes": (1,), "keepdims": False, "where": False, "exact": 2}
    pieces = _core.run("reduce", (x,), params, None, device, None, None)
    whole = _core.run(
        "reduce", (x.ravel(),), {**params, "axes": None}, None, device, None, None
    )
    assert pieces.shape == (6, 70)
    assert whole.shape == (70,)
    assert (pieces[:, 1] == 500).all()
    assert whole[1] == 3000

    def value(sums):
        return sum(
            Fraction(int(w)) * Fraction(2) ** (32 * i - 1088) for i, w in enumerate(sums[2:])
        )

    assert sum(map(value, pieces)) == value(whole) == sum(map(Fraction, x.ravel().tolist()))
    assert ((whole[2:-1] >= 0) & (whole[2:-1] < 2**32)).all()
