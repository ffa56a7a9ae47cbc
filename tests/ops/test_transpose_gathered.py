"""transpose by words that are gathered, on GPUs: small items, lines that start anywhere."""

from __future__ import annotations

import itertools

import engine
import numpy as np
import pytest
from engine import dtype_of, random, same_bits

import gpuops

GPUS = pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cpu"])
WORDS = pytest.mark.parametrize("word", ["uint8", "float16"])
SHAPES = {
    (301, 23): (1, 0),
    (57, 40, 23): (2, 0, 1),
    (3, 5003): (1, 0),
    (5003, 3): (1, 0),
    (7, 9, 11, 13): (3, 1, 0, 2),
    (4, 31, 5, 3, 2, 11): (1, 4, 0, 5, 3, 2),
    (40, 217, 3): (1, 0, 2),
    (130, 64): (1, 0),
    (1033, 12): (1, 0),
}


def check(a: np.ndarray, axes, device: str, out=None) -> None:
    options = {} if out is None else {"out": out}
    got = gpuops.transpose(a, axes, device=device, kernel="gathered", **options)
    same_bits(got, np.ascontiguousarray(a.transpose(axes)))


@WORDS
@GPUS
def test_lines_that_start_anywhere(device, word):
    """The first and the last byte of what may be read included; boxes that reach back."""
    for shape, axes in SHAPES.items():
        size = int(np.prod(shape))
        for at in (0, 1, 2, 3):
            whole = random((size + at,), dtype_of(word), at)
            check(whole[at:].reshape(shape), axes, device)


@WORDS
@GPUS
def test_gaps_on_either_side(device, word):
    """Items and lines apart in the input, an output between others' items."""
    dtype = dtype_of(word)
    for shape, axes in SHAPES.items():
        if shape[-1] < 5:
            continue
        check(random((*shape[:-1], 2 * shape[-1]), dtype, 0)[..., ::2], axes, device)
        check(random((*shape[:-1], shape[-1] + 3), dtype, 1)[..., 2:-1], axes, device)
        a = random(shape, dtype, 2)
        turned = a.transpose(axes).shape
        wide = np.zeros((*(n + 1 for n in turned[:-1]), turned[-1] + 3), dtype)
        places = (*(slice(1, None) for _ in turned[:-1]), slice(3, None))
        check(a, axes, device, wide[places])
        inside = wide[places].copy()
        wide[places] = 0
        assert inside.any()
        assert not wide.any()


@GPUS
def test_pairs_that_are_items_of_4_bytes_are_left_to_boxed(device):
    with pytest.raises(gpuops.KernelRefusedError, match="items of 1 and 2 bytes"):
        check(random((301, 23, 2), dtype_of("float16"), 0), (1, 0, 2), device)


@WORDS
@GPUS
def test_reversed_operands(device, word):
    """Either operand, or both, along any axis: the box's ends are found from the first item."""
    shape, axes = (20, 35, 51), (0, 2, 1)
    flips = [(1, 1, 1), (-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, -1)]
    for of_a, of_out in itertools.product(flips, flips):
        a = random(shape, dtype_of(word), 5)[tuple(slice(None, None, f) for f in of_a)]
        out = np.empty((20, 51, 35), a.dtype)[tuple(slice(None, None, f) for f in of_out)]
        check(a, axes, device, out)
