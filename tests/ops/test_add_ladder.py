"""multiply_add, fma and the compiler's own contraction: which rounds how often."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import random, same_bits

import gpuops

FLOATS = ("float32", "float64")
PLACES = [d for d in engine.backends() if d != "cpu"]
contracts = pytest.mark.parametrize("device", PLACES)


def operands(word: str, n: int = 20_000):
    """Random numbers, and in the second half such c that a*b + c nearly cancels."""
    a, b, c = (random((n,), word, seed) for seed in range(3))
    c[n // 2 :] = -(a * b)[n // 2 :]
    return a, b, c


def contracted(op: str, arrays, device: str) -> np.ndarray:
    """The row's answer; skipped where the processor has no such instruction."""
    if device == "cuda":
        engine.ran.add((op, "contracted", str(arrays[0].dtype)))
    try:
        return getattr(gpuops, op)(*arrays, device=device, kernel="contracted")
    except gpuops.KernelRefusedError as refusal:
        assert device == "sim"  # every GPU has one
        pytest.skip(str(refusal))


@pytest.mark.parametrize("word", FLOATS)
@contracts
def test_which_of_the_three_is_numpy_s(device, word):
    a, b, c = arrays = operands(word)
    numpy = a * b + c
    same_bits(gpuops.multiply_add(*arrays, device=device), numpy)
    fused = gpuops.fma(*arrays, device=device)
    assert 0.01 < (fused != numpy).mean() < 0.99
    for op in ("multiply_add", "fma"):
        same_bits(contracted(op, arrays, device), fused)


@contracts
def test_contracted_takes_any_shape_and_layout(device):
    for shape in engine.SHAPES:
        for view in (lambda x: x, lambda x: x.T, lambda x: x[..., ::-1] if x.ndim else x):
            a, b, c = (view(random(shape, "float32", seed)) for seed in range(3))
            got = contracted("multiply_add", (a, b, c), device)
            same_bits(got, gpuops.fma(a, b, c, device="cpu"))
    row, column = random((1, 33), "float64", 4), random((7, 1), "float64", 5)
    got = contracted("fma", (row, column, row), device)
    same_bits(got, gpuops.fma(row, column, row, device="cpu"))


@contracts
def test_contracted_is_taught_not_chosen(device):
    for op in ("multiply_add", "fma"):
        row = engine.row(op, device, "contracted")
        assert row["role"] == "teaching"
        assert row["dtypes"] == FLOATS
        with pytest.raises(gpuops.KernelRefusedError, match="does not take float16"):
            getattr(gpuops, op)(*[np.ones(3, "f2")] * 3, device=device, kernel="contracted")
    assert all(r["name"] != "contracted" for r in engine.ladder("add", device))
