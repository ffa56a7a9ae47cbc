"""add and multiply_add of operands that broadcast, are sliced or begin anywhere, on GPUs."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import dtype_of, random, same_bits
from test_add import INPUTS, OPS, check_all, reference

import gpuops
from gpuops import _core

GPUS = pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cpu"])


@GPUS
def test_more_axes_than_fit_into_brief_arguments(device):
    """Operands that broadcast along every other axis, so that none merge."""
    for axes in (8, 9):
        a = random((*(2 - k % 2 for k in range(axes - 1)), 8), "float32", 0)
        b = random((*(1 + k % 2 for k in range(axes - 1)), 8), "float32", 1)
        same_bits(gpuops.add(a, b, device=device), a + b)
        if axes == 8:
            same_bits(gpuops.add(a, b, device=device, kernel="indexed"), a + b)
    with pytest.raises(gpuops.KernelRefusedError, match=r"at most 8 axes that do not merge"):
        gpuops.add(a, b, device=device, kernel="indexed")


def parts_of_a_line(n: int, dtype) -> list[np.ndarray]:
    """Lines of n elements that begin off 16 bytes, off a word, backwards, apart and repeated;
    each the begin and the end of what may be read."""
    forms = []
    for at in (0, 1, 2, 3, 5):
        forms.append(random((7, n + at), dtype, at)[:, at:])
        forms.append(random((7 * n + at,), dtype, at)[at:].reshape(7, n))
    wide = random((7, 2 * n), dtype, 6)
    return [*forms, wide[:, ::2], wide[::-1, n - 1 :: -1], wide[:, :1], wide[:1, 1 : n + 1]]


@pytest.mark.parametrize("word", ["bool", "uint8", "float16", "int16", "float32", "complex64"])
@pytest.mark.parametrize("op", ["add", "multiply_add"])
@GPUS
def test_lines_that_begin_anywhere(device, op, word):
    """A thread's 16 bytes end a line, or several, at each of their elements."""
    cases = []
    for n in (2, 3, 5, 7, 8, 15, 16, 17, 31, 48, 101):
        forms = parts_of_a_line(n, dtype_of(word))
        for k, form in enumerate(forms):
            cases.append([forms[0], form, forms[(5 * k + n) % len(forms)]][: INPUTS[op]])
            cases.append([form, forms[1], forms[(3 * k + n) % len(forms)]][: INPUTS[op]])
    check_all(op, cases, device, "indexed")


@GPUS
def test_axes_that_end_together(device):
    """A step that ends two, three, four and five axes at once."""
    shape = (3, 2, 3, 2, 3, 2, 5)
    whole = random((2, *shape), "uint8", 0)
    for mask in range(1, 1 << len(shape)):
        own = tuple(n if mask >> k & 1 else 1 for k, n in enumerate(shape))
        part = random(own, "uint8", mask)
        same_bits(gpuops.add(whole, part, device=device, kernel="indexed"), whole + part)


def begun(whole: gpuops.DeviceArray, first: int, size: int) -> gpuops.DeviceArray:
    """Some of its elements, where they lie."""
    b = whole._buffer
    at = b.ptr + first * b.dtype.itemsize
    return gpuops.DeviceArray(_core.borrow(at, (size,), None, b.dtype, b.device, b, True))


@pytest.mark.parametrize("word", ["bool", "uint8", "int16", "float16", "float32", "complex64"])
@pytest.mark.parametrize("op", ["add", "multiply_add"])
@GPUS
def test_vectors_that_begin_anywhere(device, op, word):
    """Inputs off 16 bytes by different numbers of elements, from the first of what may be read
    to its last, and one element for all: short ones, and more than a block's threads have."""
    dtype = dtype_of(word)
    n = 16 // dtype.itemsize
    for size in (1, n - 1, n, n + 1, 2 * n, 3 * n - 1, 3 * n, 4 * n + 1, 70 * n + 3, 600 * n):
        seeds = range(INPUTS[op])
        host = [random((size + n - 1,), dtype, seed, special=True) for seed in seeds]
        whole = [gpuops.to_device(a, device) for a in host]
        for turn in range(n):
            firsts = [(turn * (k + 1) + k) % n for k in range(len(host))]
            one = turn % (len(host) + 1)  # which of them is one element, if any is
            sizes = [1 if k == one else size for k in range(len(host))]
            parts = list(zip(firsts, sizes, strict=True))
            want = reference(op, *(a[f : f + m] for a, (f, m) in zip(host, parts, strict=True)))
            given = [begun(a, *part) for a, part in zip(whole, parts, strict=True)]
            same_bits(OPS[op](*given, kernel="vectorized").get(), want)


@pytest.mark.parametrize("word", ["float32", "int64", "complex128"])
@pytest.mark.parametrize("op", ["add", "multiply_add"])
@GPUS
def test_elements_apart(device, op, word):
    """A thread's elements end before, at and behind what blocks of 128 and 256 threads have."""
    dtype = dtype_of(word)
    block = 128 * 16 // dtype.itemsize
    for rows in (1, 2, block // 3, block // 3 + 1, 2 * block // 3, block + 1):
        shapes = ((rows, 3), (rows, 1), (3,))[: INPUTS[op]]
        arrays = [random(shape, dtype, seed) for seed, shape in enumerate(shapes)]
        for threads in (128, 256):
            got = OPS[op](*arrays, device=device, kernel="indexed", params={"threads": threads})
            same_bits(got, reference(op, *arrays))


@pytest.mark.parametrize("word", ["float16", "bfloat16"])
@GPUS
def test_halves_are_rounded_twice(device, word):
    """Any bits: the product is rounded to the half, and then the sum."""
    rng = np.random.default_rng(3)
    a, b, c = np.frombuffer(rng.bytes(6 * 60_000), dtype_of(word)).reshape(3, -1)
    same_bits(gpuops.add(a, b, device=device), reference("add", a, b))
    got = gpuops.multiply_add(a, b, c, device=device)
    same_bits(got, reference("multiply_add", a, b, c))


@pytest.mark.parametrize("word", ["uint8", "float32", "complex128"])
@pytest.mark.parametrize("op", ["add", "multiply_add"])
@GPUS
def test_calls_in_turn_from_either_end(device, op, word):
    """Every other call begins with the last blocks, if its arrays are longer than the cache; on
    sim, which has none, they all are."""
    items = (24 << 20) // dtype_of(word).itemsize + 3 if device == "cuda" else 20_011
    long = random((3, items), word, 0)
    cases = {
        "vectorized": [long[0], long[1], long[2]],
        "indexed": [long[:, 1:], long[:1, 1:], long[:, :1]],
    }
    for kernel, arrays in cases.items():
        arrays = [gpuops.to_device(a, device) for a in arrays[: INPUTS[op]]]
        want = reference(op, *[a.get() for a in arrays])
        for _ in range(3):
            got = getattr(gpuops, op)(*arrays, device=device, kernel=kernel)
            same_bits(got.get(), want)
