"""add, multiply_add and fma of operands in different orders, by tiles of shared memory."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import dtype_of, random, same_bits
from test_add import INPUTS, OPS, WORDS, reference

import gpuops
from gpuops import _core

GPUS = pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cpu"])
FLOATS = ("float16", "bfloat16", "float32", "float64")


def laid(shape, order, dtype, seed: int) -> np.ndarray:
    """An array whose axes lie in memory in that order, the farthest neighbours first."""
    stored = random([shape[d] for d in order], dtype, seed, special=True)
    return stored.transpose(np.argsort(order))


def tiled(op, arrays, device, **more):
    got = OPS[op](*arrays, device=device, kernel="tiled", **more)
    want = reference(op, *arrays)
    same_bits(np.asarray(got), want)
    return got


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("op", INPUTS)
@GPUS
def test_an_operand_that_lies_across(device, op, word):
    """At any place, in lines of any length, alone and with others."""
    if op == "fma" and word not in FLOATS:
        pytest.skip("fma takes floats")
    dtype = dtype_of(word)
    for turn, shape in enumerate(((70, 67), (33, 130), (16, 260), (9, 300))):
        for mask in range(1, 1 << INPUTS[op]):
            if (mask + turn) % 2 and INPUTS[op] == 3:
                continue
            out = np.zeros(shape, dtype)
            orders = [(1, 0) if mask >> k & 1 else (0, 1) for k in range(INPUTS[op])]
            arrays = [laid(shape, o, dtype, k) for k, o in enumerate(orders)]
            if op != "fma":
                assert tiled(op, arrays, device, out=out) is out
            else:
                got = gpuops.fma(*arrays, device=device, kernel="tiled", out=out)
                same_bits(got, gpuops.fma(*arrays, device="cpu"))


@pytest.mark.parametrize("word", ["uint8", "int16", "float32", "complex128"])
@GPUS
def test_axes_in_any_order(device, word):
    """Of 3 to 9 axes, three operands with an order each, and an `out` with a fourth; some
    broadcast, are stepped or go backwards."""
    rng = np.random.default_rng(len(word))
    dtype, ran = dtype_of(word), 0
    for rank in (3, 4, 5, 6, 8, 9):
        for _ in range(3):
            extents = rng.choice([1, 2, 3, 5, 8, 13], rank) if rank < 7 else rng.choice(3, rank)
            shape = [int(n) + (rank > 6) for n in extents]
            shape[int(rng.integers(rank))] = 17 if rank < 7 else 5
            arrays = []
            for k in range(3):
                own = [1 if rng.random() < 0.15 else n for n in shape]
                a = laid(own, rng.permutation(rank), dtype, k)
                axis = int(rng.integers(rank))
                if k == 1 and own[axis] > 1:
                    wide = [2 * n if d == axis else n for d, n in enumerate(own)]
                    a = laid(wide, rng.permutation(rank), dtype, k)
                    a = a[tuple(slice(None, None, -2 if d == axis else 1) for d in range(rank))]
                arrays.append(a)
            whole = reference("multiply_add", *arrays)
            out = laid(whole.shape, rng.permutation(rank), dtype, 9)
            try:
                gpuops.multiply_add(*arrays, device=device, kernel="tiled", out=out)
            except gpuops.KernelRefusedError:
                continue
            same_bits(out, whole)
            ran += 1
    assert ran >= 12


@pytest.mark.parametrize("word", ["uint8", "float16", "float32"])
@GPUS
def test_rows_that_begin_anywhere(device, word):
    """Off a word, and out in the midst of an array of which the rest stays as it is."""
    dtype = dtype_of(word)
    for at in range(4):
        whole = random((60, 75), dtype, 1)
        a, b = (
            whole[at : at + 50, : 70 - at],
            random((75, 60), dtype, 2).T[5:55, at : at + 70 - at],
        )
        out = np.zeros((53, 79), dtype)
        part = out[at % 3 : at % 3 + 50, at + 1 : at + 71 - at]
        gpuops.add(a, b, out=part, device=device, kernel="tiled")
        want = np.zeros_like(out)
        want[at % 3 : at % 3 + 50, at + 1 : at + 71 - at] = a + b
        same_bits(out, want)


@GPUS
def test_the_output_is_an_input_too(device):
    a, b = random((70, 67), "float32", 0), random((67, 70), "float32", 1)
    there, other = (device_array(x, device) for x in (a, b.T))
    assert gpuops.add(there, other, out=there, kernel="tiled") is there
    same_bits(there.get(), a + b.T)


def device_array(a: np.ndarray, device: str) -> gpuops.DeviceArray:
    """One that lies as `a`, a dense array with its axes in any order, does."""
    order = np.argsort([-s for s in a.strides], kind="stable")
    b = gpuops.to_device(np.ascontiguousarray(a.transpose(order)), device)._buffer
    strides = [0] * a.ndim
    for d, stride in zip(order, b.strides, strict=True):
        strides[d] = stride
    return gpuops.DeviceArray(
        _core.borrow(b.ptr, a.shape, tuple(strides), b.dtype, b.device, b, False)
    )


@pytest.mark.parametrize("device", engine.backends())
def test_results_on_a_device_lie_as_numpys_do(device):
    """Whatever the kernel, and explain() expects them there."""
    rng = np.random.default_rng(7)
    for _ in range(60):
        rank = int(rng.integers(2, 6))
        shape = [int(n) for n in rng.choice([1, 2, 3, 4], rank)]
        own = [[1 if rng.random() < 0.2 else n for n in shape] for _ in range(3)]
        arrays = [laid(o, rng.permutation(rank), "float32", k) for k, o in enumerate(own)]
        there = [device_array(a, device) for a in arrays]
        for op, count in (("add", 2), ("multiply_add", 3)):
            if op == "add":
                want = np.add(*arrays[:2])
            else:
                steps = [["readonly"]] * 3 + [["writeonly", "allocate"]]
                want = np.nditer([*arrays, None], [], steps).operands[3]
            got = OPS[op](*there[:count])
            at = [d for d, n in enumerate(want.shape) if n > 1]
            assert [got.strides[d] for d in at] == [want.strides[d] for d in at], arrays
            same_bits(got.get(), reference(op, *arrays[:count]))
    both = device_array(laid((8, 9, 10), (2, 0, 1), "float32", 1), device)
    assert gpuops.add(both, both).strides == both.strides


@GPUS
def test_operands_in_one_order_are_lines(device):
    """Whatever the order, where nothing is left out: one axis, so `vectorized` takes them."""
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)):
        a = laid((32, 64, 40), order, "float32", 1)
        there = device_array(a, device)
        assert gpuops.explain(gpuops.add, there, there).kernel == "vectorized"
        assert gpuops.explain(gpuops.multiply_add, there, there, there).kernel == "vectorized"


@GPUS
def test_what_tiles_refuse(device):
    a = random((40, 30), "float32", 0)
    with pytest.raises(gpuops.KernelRefusedError, match="the tiled kernel takes outputs whose"):
        gpuops.add(a, a, device=device, kernel="tiled")
