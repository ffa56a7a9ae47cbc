"""reduce on the CPU where lines are short: tables, joined rows; and where a search ends."""

from __future__ import annotations

import numpy as np
import pytest
from engine import same_bits

import gpuops

WORDS = ("sum", "mean", "prod", "min", "max", "any", "all")
# A shape, what is cut of it, and the axes: lines short across, along, both, and joined rows.
CASES = (
    ((40, 9, 6, 3), np.s_[:, :, 1:5], (0,)),
    ((40, 9, 6, 3), np.s_[:, :, 1:5], (1,)),
    ((7, 11, 5, 4, 3), np.s_[..., ::2], (0, 2, 4)),
    ((12, 20, 13, 5), np.s_[:, 2:, :], (0, 3)),
    ((12, 20, 13, 5), np.s_[:, ::-1, :], (1, 3)),
    ((500, 7, 4), np.s_[:, :, 1:], (0, 1, 2)),
    ((2, 70, 100, 3), np.s_[:, :, ::3], (1, 2, 3)),
    ((3000, 5), np.s_[:], (0,)),
    ((2, 3001, 7), np.s_[:], (1,)),
    ((90, 4, 40), np.s_[:, :, 3:], (0, 2)),
    ((33, 1, 6, 5), np.s_[:, :, 2:], (1,)),
    ((33, 700), np.s_[:], (0,)),
    ((97, 300), np.s_[:, 1:], (0,)),
    ((20, 8, 300), np.s_[:, :, 9:], (0, 2)),
)


@pytest.mark.parametrize("dtype", ["bool", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(("made", "cut", "axes"), CASES)
def test_short_lines_have_the_bits_of_naive(made, cut, axes, dtype):
    rng = np.random.default_rng(len(made) * made[0])
    a = rng.integers(-2, 3, made).astype(dtype)[cut]
    for word in (*WORDS, "argmin", "argmax"):
        function = getattr(gpuops, word)
        axis = axes if word in WORDS else axes[0]
        want = function(a, axis, kernel="naive", device="cpu")
        same_bits(function(a, axis, device="cpu"), want)
        if want.ndim:
            out = np.zeros((*want.shape, 2), want.dtype)[..., 1]
            same_bits(function(a, axis, out=out, device="cpu"), want)


@pytest.mark.parametrize("at", [0, 5, 2047, 2048, 300_000, 1_234_567])
def test_a_search_ends_with_the_first_that_decides(at):
    a = np.zeros(2_000_003, bool)
    a[at] = a[-1] = True
    assert gpuops.argmax(a, device="cpu") == at
    assert gpuops.argmin(~a, device="cpu") == at
    for dtype in ("bool", "f4", "c16"):
        assert gpuops.any(a.astype(dtype), device="cpu")
        assert not gpuops.all((~a).astype(dtype), device="cpu")
    assert gpuops.max(a, device="cpu")
    assert not gpuops.min(~a, device="cpu")
    a[[at, -1]] = False
    assert not gpuops.any(a, device="cpu")
    assert gpuops.argmax(a, device="cpu") == 0


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8"])
def test_means_of_whole_numbers_are_those_of_float64(dtype):
    """Sums of small ones are exact there, so that their order is free; not those of int64."""
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max, (70, 3, 900), dtype, endpoint=True)
    for axis in (None, 0, 2, (0, 2), (1, 2)):
        got = gpuops.mean(a, axis, device="cpu")
        same_bits(got, gpuops.mean(a.astype("f8"), axis, device="cpu"))
        mask = a % 3 == 0
        got = gpuops.mean(a, axis, where=mask, device="cpu")
        same_bits(got, gpuops.mean(a.astype("f8"), axis, where=mask, device="cpu"))


@pytest.mark.parametrize(("shape", "axis"), [
    ((3, 4099), 0), ((2, 7, 9001), 1), ((40, 6, 1031), (0, 1)), ((5, 70, 23, 19), 2),
    ((9, 31, 700), (0, 2)), ((30, 64, 5), 1),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", ["bool", "i1", "i4", "f2", "f8"])
def test_rows_as_they_lie(dtype, shape, axis):
    """Few long rows, short lines of outputs, outputs with lines apart."""
    a = np.random.default_rng(7).integers(0, 2, shape).astype(dtype)
    for word in ("min", "max", "any", "all"):
        same_bits(getattr(gpuops, word)(a, axis, device="cpu"), getattr(np, word)(a, axis))
    if a.dtype.kind in "bi":
        same_bits(gpuops.sum(a, axis, device="cpu"), a.sum(axis))
    if isinstance(axis, int):
        same_bits(gpuops.argmax(a, axis, device="cpu"), a.argmax(axis))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["bool", "u1", "i8", "u8", "f4", "f8"])
def test_rows_are_dealt_out_to_threads(dtype, threads):
    """Down columns too few for all threads, where the order of the fold is free: there are ties
    between pieces, a NaN in the last, and a column that one element decides."""
    rng = np.random.default_rng(threads)
    a = rng.integers(0, 3, (1501, 701)).astype(dtype)
    a[:, 7], a[1200, 7], a[:, 8], a[900, 8] = 0, 1, 1, 0
    where = rng.random(a.shape) < 0.01
    if dtype in ("f4", "f8"):
        a[-1, 5] = np.nan
    gpuops.set_num_threads(threads)
    words = ("min", "max", "any", "all", *(() if dtype in ("f4", "f8") else ("sum", "prod")))
    for word in words:
        want = getattr(np, word)(a, axis=0)
        same_bits(np.asarray(getattr(gpuops, word)(a, 0, device="cpu")), want)
    for word in ("argmin", "argmax"):
        same_bits(getattr(gpuops, word)(a, 0, device="cpu"), getattr(np, word)(a, axis=0))
    some = gpuops.max(a, 0, where=where, initial=0, device="cpu")
    same_bits(some, np.max(a, axis=0, where=where, initial=0))
