"""matmul small: each tile, copied to by 16 bytes and by items; what it takes and leaves."""

from __future__ import annotations

import numpy as np
import pytest
from engine import backends, dtype_of, same_bits
from test_matmul import exact, product

import gpuops

SIM_PROCESSORS = 16
# The largest (m, n) of each tile, products a processor that make it the cheapest, products a
# block, and threads of a block: with copies of items, and of 16 bytes.
TILES = (
    ((8, 8), 8, 8, (64, 64)), ((16, 16), 1, 2, (64, 64)), ((32, 32), 1, 1, (64, 64)),
    ((48, 48), 1, 1, (96, 96)), ((56, 64), 1, 1, (128, 64)), ((64, 64), 1, 1, (128, 128)),
)  # fmt: skip
EVERY_GPU = pytest.mark.parametrize("device", [d for d in backends() if d != "cpu"])


def operands(count, m, k, n, word, across=False):
    d = dtype_of(word)
    both = exact((count, m, k), d), exact((count, k, n), d, 1)
    return [np.ascontiguousarray(x.mT).mT if across else x for x in both]


@pytest.mark.sampled(every=4)
@EVERY_GPU
@pytest.mark.parametrize("tile", TILES, ids=lambda t: "x".join(map(str, t[0])))
def test_tiles(device, tile):
    (m, n), each, teams, threads = tile
    processors = next(d for d in gpuops.devices() if d.device.backend == device).processors
    count = each * processors
    # (m, k, n), whether columns are neighbours, whether 16 bytes are copied at once
    cases = [((m, 20, n), False, 1), ((m - 1, 19, n - 1), False, 0), ((m, 36, n), True, 0)]
    cases += [((m - 1, 17, n), True, 0), ((m, 80, n), False, 1)]  # more terms than stages
    for shape, across, wide in cases:
        a, b = operands(count, *shape, "float32", across)
        got = gpuops.matmul(a, b, device=device, kernel="small")
        same_bits(got, product(a, b))
        if device == "sim":
            assert processors == SIM_PROCESSORS
            (ran,) = gpuops.profile("matmul", a, b, kernel="small").kernels
            assert ran.blocks == -(-count // teams)
            assert ran.threads == ran.blocks * threads[wide]


@EVERY_GPU
@pytest.mark.parametrize("word", ["uint8", "int32", "bfloat16", "float64", "complex128"])
def test_other_types_have_tiles_of_up_to_32_lines(device, word):
    for count, m, k, n in ((128, 8, 8, 8), (17, 16, 40, 13), (33, 32, 48, 32), (16, 31, 7, 70)):
        a, b = operands(count, m, k, n, word)
        same_bits(gpuops.matmul(a, b, device=device, kernel="small"), product(a, b))


@EVERY_GPU
@pytest.mark.parametrize("word", ["float16", "bfloat16"])
def test_halves_of_any_order(device, word):
    """Copied by 16 bytes, by two and one by one, as they stand in shared memory and across."""
    d = dtype_of(word)
    for m, k, n in ((16, 16, 16), (12, 12, 12), (9, 9, 9), (32, 70, 24), (6, 34, 10)):
        whole = [exact((21, rows, columns + 1), d, i) for i, (rows, columns) in
                 enumerate(((m, k), (k, n), (k, m), (n, k)))]  # fmt: skip
        for gap in (0, 1):  # with a gap, lines begin at odd items
            a, b, a_turned, b_turned = (x[..., : x.shape[-1] - 1] for x in whole)
            if not gap:
                a, b, a_turned, b_turned = map(np.ascontiguousarray, (a, b, a_turned, b_turned))
            for x in (a, a_turned.mT):
                for y in (b, b_turned.mT):
                    got = gpuops.matmul(x, y, device=device, kernel="small")
                    same_bits(got, product(x, y))


@EVERY_GPU
@pytest.mark.parametrize("word", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_few_lines_without_gaps_and_few_columns(device, word):
    """gemv_col reads the lines of each product of a batch as one line, wherever it begins.
    outer gives lanes without a column rows of their own."""
    d = dtype_of(word)
    columns = 2 if d.itemsize == 2 else 1
    for count, lines, k in ((3, 33, 300), (2, 16, 1030), (5, 9, 200), (2, 100, 513)):
        for at in (0, 1):
            whole = exact((count * k * lines + 1,), d)[at:]
            b = whole[: count * k * lines].reshape(count, k, lines)
            a = exact((count, columns, k), d, 1)
            got = gpuops.matmul(a, b, device=device, kernel="gemv_col")
            same_bits(got, product(a, b))
    for m, k, n in ((300, 15, 16), (129, 4, 3), (200, 33, 32), (65, 64, 9)):
        a, b = exact((2, m, k), d), exact((2, k, n), d, 1)
        for x in (a, np.ascontiguousarray(a.mT).mT):
            got = gpuops.matmul(x, b, device=device, kernel="outer")
            same_bits(got, product(x, b))


@EVERY_GPU
def test_batches_of_more_axes_than_a_kernel_is_told_take_steps(device):
    """Axes that do not merge: the outer ones, here of 2 and 3, are gone through by the host."""
    a, b = (
        exact((2, 1, 4, 1, 5, 6, 7), np.dtype("f4")),
        exact((1, 3, 1, 2, 5, 7, 8), np.dtype("f4"), 1),
    )
    for kernel in (None, "naive", "blocktiled", "small"):
        same_bits(gpuops.matmul(a, b, device=device, kernel=kernel), product(a, b))
    if device == "sim":
        (ran,) = gpuops.profile("matmul", a, b, kernel="small").kernels
        assert ran.launches == 6
    for kernel in ("splitk", "gemv_col"):
        with pytest.raises(ValueError, match="up to 3 axes that do not merge, got 5"):
            gpuops.matmul(a, b, device=device, kernel=kernel)
