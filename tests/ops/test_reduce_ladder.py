"""The lectures' kernels of reduce: right for every number of elements, within their bounds."""

from __future__ import annotations

import math

import engine
import numpy as np
import pytest
from engine import random

import gpuops
from gpuops import _core

STEPS = ["naive", "interleaved", "strided", "sequential", "loaded", "unrolled", "complete",
         "cascaded"]  # fmt: skip
ROWS = [p for p in engine.rows("reduce", auto=False)
        if not engine.is_conforming("reduce", *p.values)]  # fmt: skip
LENGTHS = (
    *(1, 2, 3, 31, 32, 33, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1021),
    *(4095, 4096, 4097, 8193, 65537),
)
LONG = 2**20 + 7
BLOCK = 256
THREADS = 16 * 2048  # of the smallest grid of a device, sim's: what a long array is dealt to


def total(a, device, kernel, **more):
    if device == "cuda":
        engine.ran.add(("reduce", kernel, str(a.dtype)))
    return gpuops.sum(a, device=device, kernel=kernel, **more)


def assert_near(got, a, kernel):
    """Each element takes part in so many additions at most, each rounded once."""
    depth = math.ceil(len(a) / THREADS) + 2 * math.ceil(math.log2(len(a) + 1)) + 16
    if kernel == "atomic":
        depth += math.ceil(len(a) / (16 * BLOCK))
    exact, size = (
        math.fsum(a),
        math.fsum(np.abs(a)),
    )  # rounded once: less than the bound's slack
    assert abs(float(got) - exact) <= depth * np.finfo(a.dtype).eps / 2 * size, len(a)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
@pytest.mark.parametrize("word", ["int32", "float32", "float64"])
def test_every_length(device, kernel, word):
    for n in LENGTHS:
        a = random((n,), word, n)
        got = total(a, device, kernel)
        if word == "int32":
            assert got.dtype == np.int64
            assert got == a.sum(dtype=np.int64), n
        else:
            assert got.dtype == a.dtype
            assert_near(got, a, kernel)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_long(device, kernel, everything):
    words = engine.of_turn(("int32", "float32"), 2, everything, "reduce", device, kernel)
    for seed, word in enumerate(words, 1):
        a = random((LONG,), word, seed)
        got = total(a, device, kernel)
        if word == "int32":
            assert got == a.sum(dtype=np.int64)
        else:
            assert_near(got, a, kernel)


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_whole_arrays_of_any_rank_and_address(device, kernel):
    a = np.arange(3 * 5 * 77, dtype=np.int32).reshape(3, 5, 77)
    assert total(a, device, kernel) == a.sum()
    flat = a.reshape(-1)
    whole = gpuops.to_device(flat, device)._buffer
    for first in range(5):  # 4 bytes apart: two of these are multiples of 16
        for n in (1, 2, 3, 4, 5, 6, 7, 8, 1000):
            at = (whole.ptr + 4 * first, (n,), None, flat.dtype, (device, 0), whole, True)
            part = gpuops.DeviceArray(_core.borrow(*at))
            got = total(part, device, kernel).get()
            assert got == flat[first : first + n].sum(), (first, n)


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_tunables(device, kernel):
    """Every value of every tunable, at its own edges."""
    tunables = engine.row("reduce", device, kernel)["tunables"]
    assert set(tunables) == {"multipass": {"uf"}, "complete": {"threads"}}.get(kernel, set())
    for name, values in tunables.items():
        assert name != "uf" or sorted(values) == list(range(2, 17))
        for value in values:
            turn = value * BLOCK if name == "uf" else 2 * value
            for n in (1, turn - 1, turn, turn + 1, 3 * turn + 5):
                a = random((n,), "int32", n)
                got = total(a, device, kernel, params={name: value})
                assert got == a.sum(dtype=np.int64), (value, n)


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_refusals(device, kernel):
    a = np.ones((6, 8), np.float32)
    sentence = "whole contiguous array"
    for x, more in [(a, {"axis": 0}), (a, {"axis": 1}), (a.T[1:], {}), (a[:0], {})]:
        with pytest.raises(gpuops.KernelRefusedError, match=sentence):
            total(x, device, kernel, **more)
    with pytest.raises(gpuops.KernelRefusedError, match="only sums"):
        gpuops.max(a, device=device, kernel=kernel)
    with pytest.raises(gpuops.KernelRefusedError, match="does not take int16"):
        total(a.astype(np.int16), device, kernel)


@pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cpu"])
def test_the_ladder_is_the_lecture(device):
    rows = engine.ladder("reduce", device)
    assert [r["name"] for r in rows[:8]] == STEPS
    assert {r["lecture"] for r in rows[:8]} == {"parallel reduction"}
    tagged = [r["name"] for r in rows if r["lecture"] == "reduction in passes, 2012"]
    assert tagged == ["multipass"]
    teaching = [r for r in rows if r["role"] == "teaching"]
    assert [r["name"] for r in teaching] == [p.values[1] for p in ROWS if p.values[0] == device]
    for r in teaching:
        assert "float sum" in r["caveat"]
        assert ("run to run" in r["caveat"]) == (r["name"] == "atomic")
        assert r["dtypes"] == ("int32", "float32", "float64")


@pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cpu"])
def test_one_order_in_every_run(device):
    """Of all these only atomic may give other bits when it runs again."""
    a = random((100_003,), "float32", 3)
    for kernel in (p.values[1] for p in ROWS if p.values[0] == device):
        if kernel != "atomic":
            first = total(a, device, kernel)
            assert all(total(a, device, kernel) == first for _ in range(3)), kernel
