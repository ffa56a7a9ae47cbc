"""Whatever rounding and subnormal modes the caller's thread is in, the bits are the same.

A library that was built with -ffast-math leaves FTZ and DAZ on. NumPy's own casts follow these
modes: what is cast on the way in or out must not.
"""

import ctypes
import ctypes.util
import platform
from contextlib import contextmanager

import engine
import numpy as np
import pytest

import gpuops

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="these modes are set by the layout of x86's fenv_t"
)

UPWARD, FLUSH = 0x4000, 0x8040  # MXCSR: rounding up; FTZ and DAZ
TINY = np.full(100, 2.0**-140, "f")  # subnormal
ODD = 2.0**24 + 1  # a tie of float32, which goes down to the even 2**24


@contextmanager
def mode(bits):
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    before = ctypes.create_string_buffer(32)
    assert libm.fegetenv(before) == 0
    changed = ctypes.create_string_buffer(before.raw, 32)
    word = ctypes.c_uint32.from_buffer(changed, 28)
    word.value |= bits
    assert libm.fesetenv(changed) == 0
    try:
        yield
    finally:
        libm.fesetenv(before)


TINY_NUMBER, TENTH = np.float32(2.0**-140), np.float32(0.1)
EDGES = np.float32([2.0**-140, 0.5, 2])


def test_mode_reaches_numpy():
    with mode(FLUSH):
        assert TINY.astype("f8")[0] == 0
    with mode(UPWARD):
        assert np.float64([ODD]).astype("f")[0] == 2**24 + 2
    assert TINY.astype("f8")[0] == 2.0**-140


ODDS = np.full(8, ODD)
CASES = {
    "sum dtype": (lambda **at: gpuops.sum(TINY, dtype="f8", **at), 100 * 2.0**-140),
    "sum dtype f4": (lambda **at: gpuops.sum(ODDS, dtype="f4", **at), 2**27),
    "sum of each": (lambda **at: gpuops.sum(ODDS[:, None], 1, dtype="f4", **at)[3], 2**24),
    "mean dtype": (lambda **at: gpuops.mean(TINY, dtype="f8", **at), 2.0**-140),
    "max dtype": (lambda **at: gpuops.reduce(TINY, "max", dtype="f8", **at), 2.0**-140),
    "prod dtype": (lambda **at: gpuops.prod(ODDS[:1], dtype="f4", **at), 2**24),
    "sum initial": (lambda **at: gpuops.sum(TINY[:0], initial=ODD, **at), 2**24),
    "sum initial f4": (
        lambda **at: gpuops.sum(np.zeros(3), initial=TINY_NUMBER, **at), 2.0**-140),
    "mean of integers": (lambda **at: gpuops.mean(np.int64([2**53 + 1]), **at), 2**53),
    "sum out": (
        lambda **at: gpuops.sum(ODDS[:1, None], 1, out=np.zeros(1, "f"), **at)[0], 2**24),
    "mixed": (lambda **at: gpuops.add(TINY, np.full(100, 2.0**-1060), **at)[0], 2.0**-140),
    "mixed long": (lambda **at: gpuops.add(np.int64(2**53 + 1), np.zeros(9), **at)[0], 2**53),
    "mixed lists": (lambda **at: gpuops.add([2**53 + 1], [0.5], **at)[0], 2**53),
    "weak": (lambda **at: gpuops.add(np.zeros(4, "f"), 0.1, **at)[0], np.float32(0.1)),
    "weak scalar": (lambda **at: gpuops.add(np.zeros(4, "f"), ODD, **at)[0], 2**24),
    "add out": (lambda **at: gpuops.add(ODDS, 0.0, out=np.zeros(8, "f"), **at)[0], 2**24),
    "add out wide": (
        lambda **at: gpuops.add(TINY, TINY, out=np.zeros(100), **at)[0], 2.0**-139),
    "add out spread": (
        lambda **at: gpuops.add(ODDS, 0.0, out=np.zeros((2, 8), "f"), **at)[1, 7], 2**24),
    "fma out": (lambda **at: gpuops.fma(ODDS, 1.0, 0.0, out=np.zeros(8, "f"), **at)[0], 2**24),
    "transpose out": (
        lambda **at: gpuops.transpose(ODDS, out=np.zeros(8, "f"), **at)[0], 2**24),
    "matmul mixed": (
        lambda **at: gpuops.matmul(TINY[:2], np.full(2, 2.0**-900), **at), 2.0**-1039),
    "matmul out": (
        lambda **at: gpuops.matmul(ODDS[:1, None], np.ones((1, 1)), out=np.zeros((1, 1), "f"),
                                   **at)[0, 0], 2**24),
    "jacobi_step mixed": (
        lambda **at: gpuops.jacobi_step(np.eye(2), TINY[:2], np.zeros(2), alpha=-1.0, **at)[0],
        2.0**-140),
    "jacobi_step alpha": (
        lambda **at: gpuops.jacobi_step(np.eye(1, dtype="f"), np.zeros(1, "f"), np.ones(1, "f"),
                                        alpha=TENTH, **at)[0],
        np.float32(1) + np.float32(0.1)),
    "rdf mixed": (
        lambda **at: gpuops.rdf(np.zeros((1, 3), "f") + TINY[0], points2=np.zeros((1, 3)),
                                bins=np.array([0, 2.0**-139, 1]), **at).counts[0], 1),
    "rdf edges": (
        lambda **at: gpuops.rdf(np.float32([[0, 0, 0], [1, 0, 0]]),
                                bins=EDGES, **at).edges[0],
        2.0**-140),
}  # fmt: skip


@pytest.mark.parametrize("bits", [UPWARD, FLUSH], ids=["upward", "flushed"])
@pytest.mark.parametrize("device", engine.backends())
@pytest.mark.parametrize("case", CASES)
def test_values(case, device, bits):
    call, expected = CASES[case]
    assert call(device=device) == expected
    with mode(bits):
        found = call(device=device)
        still = np.float64([ODD]).astype("f")[0] if bits == UPWARD else TINY.astype("f8")[0]
    assert found == expected
    assert still == (2**24 + 2 if bits == UPWARD else 0)  # the caller's mode is put back


def test_after_an_error():
    with mode(UPWARD):
        with pytest.raises(ValueError):
            gpuops.add(np.zeros(2), np.zeros(3))
        with pytest.raises(TypeError):
            gpuops.sum(ODDS, dtype="U3")
        assert np.float64([ODD]).astype("f")[0] == 2**24 + 2


def test_what_is_made_of_the_result_of_rdf():
    points = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), -1).reshape(-1, 3)
    frames = [points, points * 0.97, points * 1.01]
    found = gpuops.rdf(frames, 2.5, 37, box=(6.1, 6.1, 6.1), device="cpu")
    made = [
        lambda: found.coordination([0.3, 1.1, 2.4]),
        lambda: found.error,
        lambda: np.array(found.first_shell()),
        lambda: (found + found).g,
    ]
    expected = [make() for make in made]
    for bits in (UPWARD, FLUSH):
        with mode(bits):
            results = [make() for make in made]
        for one, want in zip(results, expected, strict=True):
            engine.same_bits(one, want)


def test_stencil_and_sparse():
    half = np.float16([2.0**-20, 1.0, 2.0**-20])
    with mode(FLUSH):
        made = gpuops.stencil(half, (8,))
        poisson = gpuops.poisson((4,), dtype="f4")
    assert made.coefficients.dtype == np.float32
    assert made.coefficients[0] == 2.0**-20
    assert poisson.coefficients.dtype == np.float32


@pytest.mark.skipif(not gpuops.is_available("sim"), reason="sim is not built")
def test_number_of_a_kernel():
    source = "__global__ void twice(float *x, float a) { x[0] = a; x[1] = a * 3.0f; }"
    twice = gpuops.compile(source, device="sim")
    x = np.zeros(2, "f")
    with mode(UPWARD):
        twice[1, 1](x, 0.1)
    assert x[0] == np.float32(0.1)
    assert x[1] == np.float32(0.1) * np.float32(3)
