"""transpose in boxes, on GPUs: rows that start and end anywhere, gaps, many axes."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import dtype_of, random, same_bits

import gpuops

GPUS = pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cpu"])
WORDS = pytest.mark.parametrize("word", ["uint8", "float16", "int32", "float64", "complex128"])
SIM = pytest.mark.skipif(not gpuops.is_available("sim"), reason="built without the sim backend")
SHAPES = {
    (33, 5, 7): (2, 0, 1),
    (3, 1201): (1, 0),
    (31, 2, 3, 65): (3, 1, 0, 2),
    (257, 3, 4): (0, 2, 1),
    (16, 64, 32): (2, 1, 0),
    (7, 19, 5, 3, 2, 4): (1, 4, 0, 5, 3, 2),
}


def check(a: np.ndarray, axes, device: str, out=None) -> None:
    options = {} if out is None else {"out": out}
    got = gpuops.transpose(a, axes, device=device, kernel="boxed", **options)
    same_bits(got, np.ascontiguousarray(a.transpose(axes)))


@pytest.mark.sampled(every=2)
@WORDS
@GPUS
def test_rows_that_start_anywhere(device, word):
    """The first and the last byte of what may be read included."""
    for shape, axes in SHAPES.items():
        size = int(np.prod(shape))
        for at in (0, 1, 2, 3):
            whole = random((size + at,), dtype_of(word), at)
            check(whole[at:].reshape(shape), axes, device)
        check(random((*shape[:-1], shape[-1] + 1), dtype_of(word), 4)[..., 1:], axes, device)


@pytest.mark.parametrize("word", ["uint8", "float16"])
@GPUS
def test_squares_of_small_items(device, word):
    """Lines and columns at every place in a word, whole squares and what is left of them."""
    for across in (4, 5, 6, 7, 64, 67):
        for along in (4, 5, 6, 7, 32, 35, 66):
            check(random((along, across), dtype_of(word), 0), (1, 0), device)
            check(random((3, along, across), dtype_of(word), 1)[:, :, 1:], (2, 0, 1), device)
            check(random((along, 2, across), dtype_of(word), 2)[1:], (2, 1, 0), device)


@pytest.mark.sampled(every=2)
@WORDS
@GPUS
def test_gaps_on_either_side(device, word):
    """Steps and backward axes of the input, an output between others' items."""
    for shape, axes in SHAPES.items():
        dtype = dtype_of(word)
        check(random((*shape[:-1], 2 * shape[-1]), dtype, 0)[..., ::2], axes, device)
        check(random(shape, dtype, 1)[::-1, ..., ::-1], axes, device)
        a = random(shape, dtype, 2)
        turned = a.transpose(axes).shape
        for step in (1, 2):
            wide = np.zeros((*(n + 1 for n in turned[:-1]), step * turned[-1] + 3), dtype)
            places = (*(slice(1, None) for _ in turned[:-1]), slice(3, None, step))
            check(a, axes, device, wide[places])
            inside = wide[places].copy()
            wide[places] = 0
            assert inside.any()
            assert not wide.any()


def asked(kind: str, a: np.ndarray, axes):
    profile = gpuops.profile("transpose", a, axes, kernel="boxed")
    return profile["transpose_boxed"].counts("global", kind)


@SIM
def test_words_that_start_anywhere_are_read_as_words():
    """Two words for four items, and items at the ends of the input alone."""
    for shape in ((16, 16386), (3, 65537)):
        a = np.ones(shape, np.uint8)
        assert asked("load", a, (1, 0)).lanes <= 0.6 * a.nbytes


@SIM
def test_threads_beside_each_other_read_rows_that_follow_each_other():
    """16 squares of 4 rows of 6 bytes are 384 neighbouring bytes, 12 sectors and one more."""
    loads = asked("load", np.ones((8, 12, 8, 2, 64, 6), np.int8), (0, 3, 1, 2, 5, 4))
    assert loads.parts <= 13 * loads.requests


@SIM
def test_ends_of_lines_are_stored_together():
    """By threads beside each other, and what is whole without them: 32 pieces a store."""
    a = np.ones((212, 17, 33, 2, 11), np.uint8)
    assert asked("store", a, (1, 2, 0, 4, 3)).requests <= 1.25 * a.nbytes / 512


@GPUS
def test_many_axes(device):
    """More than a box spans, none of which merge."""
    for axes in (9, 16):
        check(random((2,) * axes, "uint8", 0), tuple(reversed(range(axes))), device)
