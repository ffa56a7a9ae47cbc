"""reduce columns of a few elements, where outputs are so many that a thread has several groups.

By name too that takes two blocks of them a processor, more than other tests' arrays have.
"""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import same_bits

import gpuops

DEVICES = [d for d in engine.backends() if d != "cpu"]
MOST = 4096  # outputs of a block
DTYPES = ("bool", "i2", "i4", "f2", "f4", "f8", "c16")


def columns(device: str, count: int, dtype: str, *, odd: bool) -> np.ndarray:
    """As many as all blocks have, side by side, or in lines that no two of them divide."""
    n = 2 * gpuops.devices(device)[0].processors * MOST + (1 if odd else 8)
    rng = np.random.default_rng(count)
    return np.resize(rng.integers(-2, 3, 4099).astype(dtype), (count, n))


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "odd"), [(1, False), (2, False), (2, True), (3, True),
                                            (7, True)])  # fmt: skip
def test_groups_of_columns_have_the_bits_of_the_cpu(count, odd, dtype, device):
    a = columns(device, count, dtype, odd=odd)
    words = ("sum", "mean", "max", "all") + (("argmin",) if count > 1 else ())
    for word in words[count % 2 :: 2]:
        want = getattr(gpuops, word)(a, axis=0, device="cpu")
        same_bits(getattr(gpuops, word)(a, axis=0, device=device, kernel="columns"), want)


@pytest.mark.skipif("sim" not in DEVICES, reason="sim is not built")
def test_such_calls_run_the_kernel_of_groups():
    for count, outputs, kernel in ((2, 1.0, "reduce_pairs"), (2, 0.4, "reduce_columns"),
                                   (9, 1.0, "reduce_columns")):  # fmt: skip
        a = columns("sim", count, "f4", odd=False)
        a = np.ascontiguousarray(a[:, : int(outputs * a.shape[1] / 2) // 8 * 8])
        p = gpuops.profile("sum", a, axis=0, kernel="columns", blocks=1)
        assert p[kernel]
