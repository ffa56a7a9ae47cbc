"""matmul on OpenCL: exact products, and of floats the bits of a loop of fused multiply-adds."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import dtype_of, random, same_bits
from opencl_machine import needs_build, needs_cpu, opencl, rows, said  # noqa: F401
from test_matmul import BATCHES, DTYPES, check_all, exact

import gpuops

pytestmark = [needs_build, pytest.mark.usefixtures("opencl"), pytest.mark.sampled(every=2)]

EVERY_ROW = pytest.mark.parametrize(("device", "kernel"), rows("matmul"))
SHAPES = (
    (1, 1, 1), (5, 0, 6), (13, 7, 15), (33, 32, 33), (97, 270, 17), (4, 600, 4), (1, 70, 9),
)  # fmt: skip


def same_as_a_loop(cases, device, kernel):
    """Which is what the cpu's naive is."""
    call = {"device": device, "kernel": kernel}
    for (a, b), got in engine.taken(
        cases, lambda ab: engine.attempt(gpuops.matmul, *ab, **call)
    ):
        same_bits(got, gpuops.matmul(a, b, device="cpu", kernel="naive"))


@pytest.mark.sampled(every=31)
@pytest.mark.parametrize("dtype", DTYPES)
@EVERY_ROW
def test_shapes(device, kernel, dtype):
    d = dtype_of(dtype)
    cases = [(exact((m, k), d), exact((k, n), d, 1)) for m, k, n in SHAPES]
    cases += [(a[::-1, ::2], b[::2].T.copy().T) for a, b in cases if a.shape[1] > 1]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=6)
@EVERY_ROW
def test_batches_and_vectors(device, kernel):
    cases = [(exact(a, np.dtype("f4")), exact(b, np.dtype("f4"), 1)) for a, b in BATCHES]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=14)
@pytest.mark.parametrize("word", ["float32", "float64", "float16", "bfloat16", "complex64"])
@EVERY_ROW
def test_every_kernel_is_a_loop(device, kernel, word):
    """Fused multiply-adds in the order of l: docs/numerics.md, c is k."""
    d = dtype_of(word)
    same_as_a_loop(
        [
            (random((m, k), d, 1), random((n, k), d, 2).T)
            for m, k, n in ((33, 700, 20), (5, 9, 130), (3, 300, 150), (600, 40, 2))
        ],
        device, kernel,
    )  # fmt: skip


@pytest.mark.sampled(every=3)
@EVERY_ROW
def test_nothing_leaks_in_from_outside(device, kernel):
    """Rows and columns beside the operands are infinite; so are some inside."""
    wide = np.full((60, 60), np.inf, "f4")
    wide[10:47, 10:47] = random((37, 37), "f4", 3)
    a = wide[10:47, 10:47]
    same_as_a_loop([(a, a), (a.T, a), (a, a[:, ::-1]), (a[3], a), (a, a[5])], device, kernel)
    a[3, 5], a[7, 9] = np.inf, np.nan
    same_as_a_loop([(a, a), (a[3], a), (a.T, a[7])], device, kernel)


@needs_cpu
def test_parts_of_a_long_product():
    """Cut along rows, columns and batches into steps, after each of which Ctrl-C is heard."""
    for m, k, n, kernel in ((1500, 300, 1400, "packed"), (900, 60, 700, "naive"),
                            (450, 300, 700, "tiled")):  # fmt: skip
        a, b = exact((m, k), np.dtype("f4")), exact((k, n), np.dtype("f4"), 1)
        plan = gpuops.explain("matmul", a, b, device="opencl", kernel=kernel)
        assert kernel == "packed" or plan.launches > 1
        same_bits(gpuops.matmul(a, b, device="opencl", kernel=kernel), a @ b)
    a, b = exact((900, 3, 90, 80), np.dtype("f4")), exact((900, 3, 80, 70), np.dtype("f4"), 1)
    assert gpuops.explain("matmul", a, b, device="opencl").launches > 1
    same_bits(gpuops.matmul(a, b, device="opencl"), a @ b)


@needs_cpu
def test_parts_of_a_thin_product():
    """Along its rows, or along its columns; all of a's rows are one in memory."""
    row, b = exact((3000,), np.dtype("f4")), exact((3000, 2), np.dtype("f4"), 1)
    a = np.broadcast_to(row, (21_000, 3000))
    assert gpuops.explain("matmul", a, b, device="opencl", kernel="thin").launches > 1
    got = gpuops.matmul(a, b, device="opencl", kernel="thin")
    same_bits(got, np.broadcast_to(row @ b, (21_000, 2)))
    got = gpuops.matmul(b.T, a.T, device="opencl", kernel="thin")
    same_bits(got, np.broadcast_to((row @ b)[:, None], (2, 21_000)))


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("word", ["float32", "float16", "int8", "float64", "uint16", "bool"])
def test_thin_products_in_every_layout(word):
    """The long operand along the outputs, along the terms and along neither: whole blocks,
    vectors and strips, and what is left of them."""
    dtype = np.dtype(word)
    for k, n in ((37, 1300), (64, 2048), (5, 3)):
        x, b = random((2, k), dtype, 1), random((k, n), dtype, 2)
        apart = np.repeat(np.repeat(b, 2, axis=0), 2, axis=1)[::2, ::2]
        layouts = (b, np.asfortranarray(b), apart)
        same_as_a_loop([(x[0], y) for y in layouts], "opencl", "thin")
        same_as_a_loop([(y.T, x.T) for y in layouts], "opencl", "thin")


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("kernel", "params"),
    [("naive", {"group": 64}), ("tiled", {"tile": 8}), ("blocktiled", {"side": 4, "rows": 16})],
)
def test_tunables(kernel, params):
    a, b = exact((70, 33), np.dtype("f4")), exact((33, 65), np.dtype("f4"), 1)
    same_bits(gpuops.matmul(a, b, device="opencl", kernel=kernel, params=params), a @ b)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("word", ["float32", "bfloat16", "float64", "complex64", "int8"])
def test_tiles_by_whole_vectors(word):
    """Operands whose neighbours are terms, and ones whose neighbours are lines."""
    d = dtype_of(word)
    a, b, f = random((136, 36), d, 1), random((36, 68), d, 2), np.asfortranarray
    pairs = [(a, b), (f(a), f(b)), (f(a), b), (a[:, :20], b[:20]), (a[1:, 1:], b[1:])]
    same_as_a_loop(pairs, "opencl", "blocktiled")


def test_refusals():
    a = np.ones((2, 3), "f4")
    with pytest.raises(gpuops.KernelRefusedError, match="products of 4 rows and columns"):
        gpuops.matmul(a, a.T, device="opencl", kernel="packed")
    text = said("""
a = np.ones((20, 20))
for x in (a, a.astype("c16")):
    try: gpuops.matmul(x, x, device="opencl")
    except TypeError as error: print("has no float64, which" in str(error))
print(gpuops.matmul(a.astype("f2"), a.astype("f2"), device="opencl").sum())
""", GPUOPS_FAULT="opencl.double:1:forever")  # fmt: skip
    assert text.split() == ["True", "True", "8e+03"]
