"""add, multiply_add and fma: what `out` may be, and the sentences for bad input."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import random, same_bits
from numpy.lib.stride_tricks import as_strided
from test_add import CALLS, INPUTS, OPS

import gpuops

DEVICES = engine.backends()

# ---- out ----


@pytest.mark.parametrize(("op", "device", "kernel"), CALLS)
def test_out(op, device, kernel):
    arrays = [random((6, 8), "float32", seed) for seed in range(INPUTS[op])]
    want = OPS[op](*arrays, device="cpu", kernel="naive")
    ran = 0
    for name in ("plain", "strided", "negative", "transposed", "unaligned", "packed"):
        out = engine.layout(np.full((6, 8), np.nan, "float32"), name)
        pointer, strides = out.ctypes.data, out.strides
        try:
            got = OPS[op](*arrays, out=out, device=device, kernel=kernel)
        except gpuops.KernelRefusedError as refusal:
            skipped = str(refusal)
            continue
        assert got is out
        assert (out.ctypes.data, out.strides) == (pointer, strides)
        same_bits(np.ascontiguousarray(out), want)
        ran += 1
    if not ran:
        pytest.skip(skipped)


def test_out_leaves_the_gaps_alone():
    wide = np.full((5, 12), 7, "int32")
    gpuops.add(np.ones((5, 4), "int32"), 1, out=wide[:, ::3])
    assert (wide[:, ::3] == 2).all()
    assert (wide.reshape(5, 4, 3)[:, :, 1:] == 7).all()


@pytest.mark.parametrize("device", engine.backends())
def test_out_may_be_an_input_or_overlap_one(device):
    a = random((1000,), "int64")
    for out, x, y in [
        (slice(None), slice(None), slice(None)),
        (slice(1, None), slice(None, -1), slice(1, None)),
        (slice(None, -1), slice(1, None), slice(None, -1)),
        (slice(None), slice(None, None, -1), slice(None)),
        (slice(None, 500), slice(None, None, 2), slice(1, None, 2)),
    ]:
        b = a.copy()
        gpuops.add(b[x], b[y], out=b[out], device=device)
        want = a.copy()
        want[out] = a[x] + a[y]
        same_bits(b, want)


def test_out_of_another_dtype():
    out = np.zeros(3, "float64")
    assert gpuops.add(np.ones(3, "float32"), 1, out=out) is out
    assert (out == 2).all()
    swapped = np.zeros(3, ">i4")
    gpuops.add(np.ones(3, "int32"), 1, out=swapped)
    assert (swapped == 2).all()


# ---- bad input ----


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", INPUTS)
def test_shapes_that_do_not_broadcast(op, device):
    a, b = np.ones((2, 3)), np.ones(4)
    arrays = (a, b, 1.0)[: INPUTS[op]]
    shapes = r"\(2, 3\) \(4,\)" + (r" \(\)" if INPUTS[op] == 3 else "")
    message = f"^{op}: operands could not be broadcast together with shapes {shapes}$"
    with pytest.raises(ValueError, match=message):
        OPS[op](*arrays, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", INPUTS)
@pytest.mark.parametrize("bad", [
    np.array([object()]), np.array(["a"]), np.zeros(1, "M8[s]"), np.zeros(1, "i4,f4"),
    np.zeros(1, np.longdouble), np.ma.masked_array([1.0], [True]), None, "text", {},
], ids=lambda x: type(x).__name__ + str(getattr(x, "dtype", "")))  # fmt: skip
def test_bad_dtypes(op, device, bad):
    for place in range(INPUTS[op]):
        arrays = [np.ones(1)] * INPUTS[op]
        arrays[place] = bad
        out = np.full(1, 7.0)
        with pytest.raises(TypeError, match=f"^{op}: {'abc'[place]} "):
            OPS[op](*arrays, out=out, device=device)
        assert out[0] == 7.0


@pytest.mark.parametrize("device", DEVICES)
def test_fma_refuses_complex(device):
    with pytest.raises(TypeError, match=r"^fma: c has dtype complex64; accepted are "):
        gpuops.fma(1.0, 2.0, np.ones(3, "complex64"), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", INPUTS)
def test_bad_out(op, device):
    arrays = [np.ones((3, 4), "float32")] * INPUTS[op]

    def refused(out, error, match):
        before = np.array(out, copy=True) if isinstance(out, np.ndarray) else None
        with pytest.raises(error, match=f"^{op}: {match}"):
            OPS[op](*arrays, out=out, device=device)
        if before is not None:
            assert np.array_equal(out, before)

    readonly = np.zeros((3, 4), "float32")
    readonly.flags.writeable = False
    refused(np.zeros((4, 3), "float32"), ValueError, ".*shape")
    refused(np.zeros((2, 3, 1), "float32"), ValueError, ".*shape")
    refused(np.zeros((3, 4), "int32"), TypeError, "the result of dtype float32 cannot be cast")
    refused(readonly, ValueError, "output array is read-only")
    refused(as_strided(np.zeros(4, "float32"), (3, 4), (0, 4)), ValueError, ".*overlap")
    refused([1, 2], TypeError, "return arrays must be of ArrayType")
    refused(np.ma.zeros((3, 4), "float32"), TypeError, "out is a masked array")


@pytest.mark.parametrize("device", DEVICES)
def test_too_many_elements(device):
    long = np.broadcast_to(np.zeros(1, "int8"), (1 << 40,))
    with pytest.raises(ValueError, match=r"^add: an array of shape .* has too many elements"):
        gpuops.add(long, long[:, None], device=device)


@pytest.mark.parametrize("op", INPUTS)
def test_unknown_kernels_and_tunables(op):
    arrays = [np.ones(3, "float32")] * INPUTS[op]
    with pytest.raises(
        ValueError, match=f"^{op}: there is no kernel 'fastest' on cpu, expected"
    ):
        OPS[op](*arrays, device="cpu", kernel="fastest")
    with pytest.raises(ValueError, match=f"^{op}: kernel 'simd' has no tunable 'uf'"):
        OPS[op](*arrays, device="cpu", kernel="simd", params={"uf": 4})
    with pytest.raises(TypeError, match=f"^{op}: params"):
        OPS[op](*arrays, device="cpu", params=[4])
