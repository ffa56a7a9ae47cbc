"""matmul on the CPU where b has few columns: the bits are those of more."""

from __future__ import annotations

import numpy as np
import pytest
from engine import random, same_bits

import gpuops
from gpuops import _core


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_few_columns_add_like_many(dtype, order):
    for m, k in ((7, 40), (8, 16), (33, 15), (50, 300), (129, 700)):
        a, b = random((m, k), dtype, 1), random((k, 40), dtype, 2)
        a = np.asarray(a, order=order)
        want = gpuops.matmul(a, b, device="cpu", kernel="simd")
        for level in _core.cpu_levels():
            _core.set_cpu_level(level)
            try:
                for n in (1, 2, 3, 4, 5, 8, 9):
                    got = gpuops.matmul(a, b[:, :n], device="cpu", kernel="direct")
                    same_bits(got, want[:, :n])
            finally:
                _core.set_cpu_level(None)
