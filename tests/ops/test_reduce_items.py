"""reduce of every value of one and two bytes, and of edges of longer ones: kernels read whole
numbers of a size by flags that tell signs and truth values."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import of_turn, rows, same_bits

import gpuops

ROWS = [p for p in rows("reduce", teaching=False) if p.values[0] != "cpu"]
WORDS = ("sum", "mean", "prod", "min", "max", "any", "all", "argmin", "argmax")
# Shapes but for the last axis, and the one that is reduced: rows, columns, pairs, matrices.
CASES = (((64,), 1), ((64,), 0), ((2,), 0), ((16, 32), 1))
EDGES = {
    "i4": (0, 1, -1, 2**31 - 1, -(2**31), 2**30 + 1),
    "u4": (0, 1, 2**31, 2**31 - 1, 2**32 - 1, 2**32 - 2),
    "i8": (0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 2**31, -(2**32)),
    "u8": (0, 1, 2**63, 2**63 - 1, 2**64 - 1, 2**53 + 1, 2**32, 2**64 - 2**10 - 1),
    "f4": (0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45),
    "f8": (0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 5e-324, -5e-324),
}


def by_words(a, axis: int, device: str, kernel, words=WORDS) -> None:
    """All words have on this device the bits that they have on the CPU."""
    for word in words:
        function = getattr(gpuops, word)
        with np.errstate(all="ignore"):
            want = function(a, axis, device="cpu")
            try:
                got = function(a, axis, device=device, kernel=kernel)
            except gpuops.KernelRefusedError:
                if kernel is None:
                    raise
                continue
        same_bits(got, want)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2", "f2", "bfloat16"])
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_every_value_of_one_and_two_bytes(device, kernel, dtype, everything):
    dtype = engine.bfloat16() if dtype == "bfloat16" else np.dtype(dtype)
    raw = np.random.default_rng(dtype.num).permutation(np.arange(65536, dtype="u2"))
    if dtype.itemsize == 1:
        raw = raw[:4096].astype("u1")
    if dtype.kind == "b":
        raw[2000:] = 0  # true are all bytes but 0
    parts = 2 * dtype.itemsize
    cases = of_turn(CASES, parts, everything, "reduce", device, kernel, dtype.num)
    for parts, axis in cases:
        by_words(raw.view(dtype).reshape(*parts, -1), axis, device, kernel)


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2"])
@pytest.mark.parametrize(
    ("device", "kernel"), [p for p in ROWS if p.values[1] in ("columns", "thin")]
)
def test_words_of_items_keep_signs(device, kernel, dtype):
    """Outputs side by side, so many that a thread has a word of them: its items are added to
    outputs of their own."""
    raw = np.random.default_rng(7).integers(0, 256, 2**18, "u1")
    columns = 8 if kernel == "thin" else 2**15
    a = raw[: 2**15 * 4 * np.dtype(dtype).itemsize].view(dtype).reshape(-1, columns)
    by_words(a, 0, device, kernel, ("sum", "mean", "max", "argmin"))


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_edges_of_four_and_eight_bytes(device, kernel, dtype):
    rng = np.random.default_rng(11)
    values = np.array(EDGES[dtype], dtype)
    for shape, axis in (((70, 2), 1), ((3, 2100), 1), ((40, 70), 0), ((5, 33, 9), 1)):
        by_words(rng.choice(values, shape), axis, device, kernel)
    by_words(values[:, None], 1, device, kernel)  # each by itself
    for value in values:  # one value alone, which may be the worst of all
        by_words(np.full((3, 70), value), 1, device, kernel)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["i4", "u4"])
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_means_of_four_bytes_on_both_sides_of_2_21(device, kernel, dtype):
    """Up to so many elements any sum is a float64, and a mean is that of a sum."""
    info, rng = np.iinfo(dtype), np.random.default_rng(3)
    a = rng.integers(info.max - 99, info.max, 2**21 + 2, dtype, endpoint=True)
    for n in (2**21, 2**21 + 2):
        want = gpuops.mean(a[:n], device="cpu")
        try:
            same_bits(gpuops.mean(a[:n], device=device, kernel=kernel), want)
        except gpuops.KernelRefusedError as refusal:
            pytest.skip(str(refusal))
