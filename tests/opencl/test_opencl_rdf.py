"""rdf by every OpenCL kernel, against the counts of docs/numerics.md."""

from __future__ import annotations

import numpy as np
import pytest
import test_rdf as pairs
from opencl_machine import needs_build, opencl, rows  # noqa: F401

import gpuops

pytestmark = [needs_build, pytest.mark.usefixtures("opencl"), pytest.mark.sampled(every=2)]

CALLS = pytest.mark.parametrize(("device", "kernel"), rows("rdf"))
KINDS = pytest.mark.parametrize("dtype", pairs.DTYPES)


@pytest.mark.sampled(every=17)
@pytest.mark.parametrize("box", pairs.ROWS)
@KINDS
@CALLS
def test_counts(device, kernel, dtype, box):
    pairs.test_counts(device, kernel, dtype, box)
    pairs.test_two_sets(device, kernel, box)


@pytest.mark.sampled(every=12)
@KINDS
@CALLS
def test_types_and_edges(device, kernel, dtype):
    pairs.test_types(device, kernel, dtype)
    pairs.test_edges_hit_exactly(device, kernel, dtype)
    pairs.test_edges_one_step_to_either_side_of_a_distance(device, kernel, dtype)
    pairs.test_uneven_and_many_bins(device, kernel, dtype)
    pairs.test_extreme_scales(device, kernel, dtype)


@pytest.mark.sampled(every=6)
@CALLS
def test_layouts_and_points_outside(device, kernel):
    pairs.test_types_of_two_sets(device, kernel)
    pairs.test_layouts(device, kernel)
    pairs.test_far_outside_the_box(device, kernel)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("box", [(9, 9, 9, 80, 75, 95), (9, 9, 9), None, (9, np.inf, 9)])
def test_cells_leave_out_no_pair(box):
    """Short radii in grids of many cells, points outside, all that rdf takes besides."""
    rng = np.random.default_rng(3)
    p, q = (rng.random((n, 3), "f4") * 12 - 2 for n in (3000, 1500))
    types = rng.integers(0, 3, 3000)
    for more in ({"exclude": types}, {"points2": q}, {"types": types}):
        how = {"r_max": 0.9, "bins": 40, "box": box, "norm": "none", **more}
        want = gpuops.rdf(p, **how, device="cpu").counts
        for kernel in ("cells", "chunked"):
            got = gpuops.rdf(p, **how, device="opencl", kernel=kernel).counts
            np.testing.assert_array_equal(got, want)


def test_frames_follow_one_another():
    p = np.random.default_rng(4).random((3, 200, 3), "f4")
    how = {"r_max": 0.4, "bins": 20, "box": (1, 1, 1)}
    want = gpuops.rdf(p, **how, device="cpu").counts
    np.testing.assert_array_equal(gpuops.rdf(p, **how, device="opencl").counts, want)


@pytest.mark.parametrize("params", [{"cells": 0, "width": 4}, {"width": 8}], ids=str)
def test_tunables(params):
    p = np.random.default_rng(5).random((900, 3), "f4")
    how = {"r_max": 0.1, "bins": 10, "box": (1, 1, 1)}
    want = gpuops.rdf(p, **how, device="cpu").counts
    got = gpuops.rdf(p, **how, device="opencl", kernel="chunked", params=params).counts
    np.testing.assert_array_equal(got, want)


def test_counters_that_local_memory_has_no_room_for():
    p = np.random.default_rng(6).random((50, 3))
    how = {"r_max": 0.5, "bins": 1_000_000, "norm": "none", "device": "opencl"}
    want = gpuops.rdf(p, **{**how, "device": "cpu"}).counts
    np.testing.assert_array_equal(gpuops.rdf(p, **how).counts, want)
    for kernel in ("guessed", "cells", "chunked"):
        with pytest.raises(gpuops.KernelRefusedError, match="bytes of local memory here"):
            gpuops.rdf(p, **how, kernel=kernel)
