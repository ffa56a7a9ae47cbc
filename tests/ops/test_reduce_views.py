"""reduce of device arrays that are views: any start, any steps, masks that lie otherwise.

Host arrays travel to a device without their gaps, so that views are made there.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine import dtype_of, of_turn, random, same_bits
from test_reduce import POSITIONS, ROWS, WORDS, is_float, reference

import gpuops
from gpuops import _core

KERNELS = ("indexed", "tree", "vectorized", "columns", "rows", "short", "thin", None)
ON_DEVICES = [r for r in ROWS if r.values[0] != "cpu" and r.values[1] in KERNELS]
pytestmark = pytest.mark.parametrize(("device", "kernel"), ON_DEVICES)


def lying(base: np.ndarray, view: np.ndarray, device: str) -> gpuops.DeviceArray:
    """`view` of `base` as it lies, on the device."""
    memory = gpuops.to_device(base, device)._buffer
    first = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    layout = view.shape, view.strides, view.dtype, (device, 0)
    return gpuops.DeviceArray(_core.borrow(memory.ptr + first, *layout, memory, True))


def check(op, base, view, axis, device, kernel, where=None, mask=None) -> bool:
    """False where the kernel refuses the call."""
    more = {} if where is None else {"where": lying(mask, where, device)}
    try:
        got = getattr(gpuops, op)(lying(base, view, device), axis, kernel=kernel, **more)
    except gpuops.KernelRefusedError:
        return False
    same_bits(got.get(), np.asarray(reference(op, view, axis, where=where)))
    return True


# A shape, what is cut of it, and the axes.
VIEWS = (
    ((5, 700, 9), np.s_[:, :, 1:], (0, 1, 2)),  # a period of 5600, of which a leaf is a part
    ((3, 5, 7, 70, 2), np.s_[..., ::2, :], (0, 1, 2, 3, 4)),
    ((9, 3, 130, 7), np.s_[:, :, 2:, ::3], (0, 2, 3)),  # leaves go on beyond an axis' end
    ((2, 2100, 3), np.s_[:, ::-1, :2], (0, 1)),
    ((6000,), np.s_[3::2], (0,)),
    ((2500, 4), np.s_[::-1, 1:3], (0, 1)),
    ((40, 3, 33), np.s_[:, :, 1:31], (0, 2)),
    ((9, 3, 70, 37), np.s_[..., 3:36], (0, 2, 3)),  # lines of any length that begin anywhere
    ((130, 5, 21), np.s_[..., 1:18], (0, 2)),
    ((6, 700, 3), np.s_[:, 1:], (0, 1, 2)),
    ((7, 260, 9), np.s_[:, ::2, 1:8], (1,)),  # outputs side by side
    ((300, 6, 5), np.s_[:, 1:, ::2], (1,)),
    ((3, 2, 3, 2, 3, 2, 3, 3), np.s_[::2, :, ::2, :, ::2, :, ::2, ::2], (1, 3, 5, 7)),
    ((5, 6, 7), np.s_[::2, ::3, ::4], ()),  # nothing is reduced
)


def run_some(cases, device, kernel, word, everything):
    """Some of the cases, each word another; skipped if all of them are refused."""
    cases = of_turn(cases, 10, everything, "reduce", device, kernel, WORDS.index(word))
    taken = [check(*case, device, kernel, *more) for case, more in cases]
    if not any(taken):
        pytest.skip("this kernel does not take it")


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("word", WORDS)
def test_views(device, kernel, word, everything):
    dtype = dtype_of(word)
    cases = []
    for made, cut, axes in VIEWS:
        a = random(made, dtype, len(made), special=is_float(dtype) and len(axes) % 2 == 1)
        ops = ("sum", "max", "mean", "any")
        cases += [((op, a, a[cut], axes), ()) for op in ops]
        if len(axes) == 1:
            cases += [((op, a, a[cut], axes[0]), ()) for op in POSITIONS]
    run_some(cases, device, kernel, word, everything)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", WORDS)
def test_masks(device, kernel, word, everything):
    """Of the array's own layout, of another, and of fewer axes."""
    cases = []
    for made, cut, axes in VIEWS:
        a = random(made, dtype_of(word), 3)
        mask = np.random.default_rng(len(made)).random(made) < 0.6
        dense = mask[cut].copy()
        masks = [(mask, mask[cut]), (dense, dense),
                 (dense, np.broadcast_to(dense[..., :1], dense.shape))]  # fmt: skip
        for op, (base, where) in zip(("sum", "prod", "any"), masks, strict=True):
            cases.append(((op, a, a[cut], axes), (where, base)))
    run_some(cases, device, kernel, word, everything)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("word", WORDS)
def test_rows_that_begin_anywhere(device, kernel, word, everything):
    """At every distance from a multiple of 16 bytes, whole leaves and parts, many rows and few,
    with NaNs at the end."""
    dtype = dtype_of(word)
    cases = []
    for n in (1, 3, 20, 130, 149, 517, 1000, 2047, 2048, 4100):
        for rows in (1, 40) if n < 1100 else (2,):
            for first in range(16 // dtype.itemsize):
                a = random((rows, n + 21), dtype, first)
                if is_float(dtype) and first % 2:
                    a[rows // 2, first + n - 1] = np.nan
                view = a[:, first : first + n]
                ops = ("sum", "argmin") if first % 2 else ("max", "mean", "prod", "argmax")
                cases += [((op, a, view, 1), ()) for op in ops]
    run_some(cases, device, kernel, word, everything)


# By row of the ladder: a shape, what is cut of it, and the axis.
LINES = {
    "columns": (
        ((2, 4099), np.s_[:], 0), ((3, 2, 2048), np.s_[:, :1, 1025:], 1),
        ((3, 1030), np.s_[:], 0), ((2, 8, 515), np.s_[..., 3:], 1), ((700, 2), np.s_[:], 1),
        ((5, 2, 2, 130), np.s_[::2], 2),
    ),
    "rows": (
        ((150, 50), np.s_[:, 3:40], 1), ((300, 16), np.s_[5:], 1),
        ((131, 17), np.s_[1:, :16], 1), ((3, 2, 70, 24), np.s_[:, :1, 2:, 1:20], 3),
        ((2, 130, 31), np.s_[:, 1:], 2),
    ),
    "short": (
        ((6, 700, 7), np.s_[::2], 2), ((2, 2, 300, 33), np.s_[:, :1], 3),
        ((3, 400, 70), np.s_[:, 1:, ::2], 2), ((5, 3, 40), np.s_[:, :1, 1:], 1),
    ),
    "thin": (
        ((3, 300, 8), np.s_[:], 1), ((2, 2, 2100, 4), np.s_[:, :1], 2),
        ((2, 3, 129, 16), np.s_[:, 1:], 2),
    ),
}  # fmt: skip


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", WORDS)
def test_lines_of_outputs(device, kernel, word, everything):
    """Of one element, two and a few; rows and columns of several matrices with gaps."""
    cases = []
    for i, (made, cut, axis) in enumerate(LINES.get(kernel, ())):
        a = random(made, dtype_of(word), i, special=is_float(dtype_of(word)) and i % 2 == 1)
        cases += [((op, a, a[cut], axis), ()) for op in ("sum", "max", "mean", "any", "argmin")]
    if not cases:
        pytest.skip("this kernel has no lines of its own")
    run_some(cases, device, kernel, word, everything)
