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
