"""Outputs too large for the caches, which the CPU writes past them: edges, offsets, pitches."""

from __future__ import annotations

import subprocess
import sys

import engine
import numpy as np
import pytest
from engine import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuops
from gpuops import _core

LARGE = 1 << 24  # bytes from which outputs are streamed at the latest
WORDS = ("bool", "int16", "float32", "float64", "complex128")
ADDS, TRANSPOSES = (
    [None, *(r["name"] for r in engine.ladder(op, "cpu") if r["name"] != "naive")]
    for op in ("add", "transpose")
)
FILL = 0x55


def guarded(shape, dtype, offset: int, gap: int = 0):
    """(memory whose pages exist, an array in it some items from its start, rows apart)."""
    dtype = np.dtype(dtype)
    pitch = shape[-1] + gap
    rows = int(np.prod(shape[:-1]))
    memory = np.full((rows * pitch + offset + 64) * dtype.itemsize, FILL, np.uint8)
    array = np.frombuffer(memory, dtype, rows * pitch, offset * dtype.itemsize)
    return memory, array.reshape(*shape[:-1], pitch)[..., : shape[-1]]


def untouched(memory, out) -> bool:
    """Whether every byte outside `out` is as it was; writes over the rest."""
    out.view(np.uint8)[...] = FILL
    return bool((memory == FILL).all())


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kernel", ADDS)
@pytest.mark.parametrize("word", WORDS)
def test_add_at_every_offset(kernel, word):
    item = np.dtype(word).itemsize
    n = LARGE // item + 1021
    a = np.resize(engine.random((4099,), word, 1), n)
    b = np.resize(engine.random((5003,), word, 2), n)
    for offset in (0, 1, 64 // item - 1, 64 // item + 1):
        memory, out = guarded((n,), word, offset)
        gpuops.add(a, b, out, kernel=kernel)
        same_bits(out, np.add(a, b))
        assert untouched(memory, out)


@pytest.mark.parametrize("kernel", ADDS)
def test_add_of_rows_with_gaps_and_broadcasts(kernel):
    shape = (1 << 11, 2051)
    a = engine.random(shape, "float32", 1)
    row, column = a[0].copy(), a[:, :1].copy()
    wide = np.repeat(a, 2, axis=1)[:, ::2]
    for x, y in ((a, a), (a, row), (column, a), (wide, a), (row, column)):
        memory, out = guarded(shape, "float32", 3, gap=5)
        gpuops.add(x, y, out, kernel=kernel)
        same_bits(out, np.add(x, y))
        assert untouched(memory, out)


@pytest.mark.parametrize("word", WORDS)
def test_add_of_short_lines(word):
    """Blocks of the output, which begins and ends anywhere."""
    rows = LARGE // np.dtype(word).itemsize // 3 + 7
    a = np.resize(engine.random((4099,), word, 1), (rows, 3))
    memory, out = guarded((rows, 3), word, 1)
    gpuops.add(a, a[:, :1], out)
    same_bits(out, np.add(a, a[:, :1]))
    assert untouched(memory, out)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kernel", ADDS)
@pytest.mark.parametrize("word", ["uint8", "float16", "float32", "float64", "complex128"])
def test_add_of_a_transposed_operand(kernel, word):
    side = int((LARGE / np.dtype(word).itemsize) ** 0.5) + 7
    a = np.resize(engine.random((4099,), word, 1), (side, side))
    memory, out = guarded((side, side), word, 1)
    gpuops.add(a.T, a, out, kernel=kernel)
    same_bits(out, np.add(a.T, a))
    assert untouched(memory, out)


@pytest.mark.parametrize("kernel", ADDS)
def test_in_place(kernel):
    a = engine.random((LARGE // 4 + 77,), "float32", 3)
    b = engine.random((LARGE // 4 + 77,), "float32", 4)
    want = a + b
    gpuops.add(a, b, a, kernel=kernel)
    same_bits(a, want)
    want = want * b + want
    gpuops.multiply_add(a, b, a, out=a, kernel=kernel)
    same_bits(a, want)


@pytest.mark.parametrize("kernel", ADDS)
def test_fresh_memory(kernel):
    """Pages that are not there yet are cleared when they are written."""
    a = engine.random((LARGE // 4 + 77,), "float32", 3)
    out = np.empty(16 << 20, np.float32)[: a.size]
    gpuops.add(a, a, out, kernel=kernel)
    same_bits(out, a + a)


SHAPES = {1: (4099, 4111), 2: (2900, 2911), 4: (2049, 2063), 8: (1451, 1453), 16: (1031, 1033)}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("kernel", TRANSPOSES)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16"])
def test_transpose_at_every_offset(kernel, dtype):
    """Rows of the output that begin anywhere in a line, and gaps that are left alone."""
    item = np.dtype(dtype).itemsize
    shape = SHAPES[item]
    stored = np.random.default_rng(0).bytes((shape[0] * shape[1] + 1) * item)
    for offset, gap in ((0, 0), (1, 0), (64 // item - 1, 3), (0, 64 // item - shape[0] % 4)):
        a = np.frombuffer(stored, dtype, shape[0] * shape[1], offset % 2 * item).reshape(shape)
        memory, out = guarded(shape[::-1], dtype, offset, gap)
        gpuops.transpose(a, out=out, kernel=kernel)
        assert out.tobytes() == a.T.tobytes()
        assert untouched(memory, out)


# In a process of its own: what this looks for writes behind an array on the stack.
ONE_CHANNEL = """
import sys
import numpy as np
import gpuops
for word in ("u1", "u2", "f4", "f8", "c16"):
    item = np.dtype(word).itemsize
    for channels in (2, 3, 4, 5, 8, 16):
        shape = (1100, 2000 // channels, channels)
        memory = np.random.default_rng(1).integers(0, 256, np.prod(shape) * item + 64, "u1")
        for offset in range(0, 64, item):
            if (offset // item + channels) % int(sys.argv[2]):
                continue
            a = np.ndarray(shape, word, memory, offset)[:, :, offset // item % channels]
            for b in (a, a[:, ::-1], a.T) if offset < 2 * item else (a,):
                got = gpuops.transpose(b, kernel=sys.argv[1])
                assert got.tobytes() == b.T.tobytes(), (word, channels, offset)
print("all")
"""


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("kernel", TRANSPOSES[1:])
def test_transpose_of_one_channel(kernel, everything):
    """Planes of images, whose neighbours are some items apart, at every place in a line: for
    some numbers of channels each, or for all."""
    call = [sys.executable, "-c", ONE_CHANNEL, kernel, "1" if everything else "10"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "all\n"), done.stderr


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16"])
def test_transpose_of_every_kind(dtype):
    """Long and short sides, several axes to a side, lines, steps, backwards: all streamed."""
    n = LARGE // np.dtype(dtype).itemsize
    stored = np.frombuffer(np.random.default_rng(0).bytes(2 * LARGE + 4096), dtype)
    for shape, axes in (
        *[((n // k + 1, k), None) for k in (2, 3, 4, 5, 9, 17)],
        *[((k, n // k + 1), None) for k in (2, 3, 4, 5, 9, 17)],
        ((n // 63 + 1, 7, 9), (1, 2, 0)),
        ((n // 63 + 1, 7, 9), (2, 1, 0)),
        ((7, 9, n // 63 + 1), (2, 1, 0)),
        ((5, n // 35 + 1, 7), (0, 2, 1)),
        ((n // 1024 + 1, 1024), (0, 1)),
        ((9, n // 1024 + 1, 1024 // 9 + 1), (1, 0, 2)),
        ((4,) * 10 + (n // 4**10 + 1,), None),
    ):
        a = stored[: int(np.prod(shape))].reshape(shape)
        memory, out = guarded(np.transpose(a, axes).shape, dtype, 3)
        for view in (a, a[::-1, ..., ::-1]):
            gpuops.transpose(view, axes, out=out)
            assert out.tobytes() == np.transpose(view, axes).tobytes()
        assert untouched(memory, out)
    a = stored[: n // 1000 * 2000].reshape(-1, 2000)[:, ::2]
    assert gpuops.transpose(a).tobytes() == a.T.tobytes()
    assert gpuops.transpose(a, (0, 1)).tobytes() == a.tobytes()


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4096), st.integers(0, 40), st.integers(0, 40), st.sampled_from(WORDS))
def test_any_width(width, offset, gap, word):
    rows = LARGE // (width * np.dtype(word).itemsize) + 1
    a = np.resize(engine.random((4099,), word, 1), (rows, width))
    memory, out = guarded((rows, width), word, offset, gap)
    gpuops.add(a, a, out)
    same_bits(out, np.add(a, a))
    assert untouched(memory, out)


@pytest.mark.parametrize("level", _core.cpu_levels())
def test_levels(level):
    """Each level streams with stores of its own width."""
    a = engine.random((LARGE // 4 + 1029,), "float32", 5)
    memory, out = guarded(a.shape, "float32", 5)
    try:
        _core.set_cpu_level(level)
        gpuops.add(a, a, out)
        same_bits(out, a + a)
    finally:
        _core.set_cpu_level(None)
    assert untouched(memory, out)
