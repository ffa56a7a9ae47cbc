"""Every OpenCL kernel against the bits of docs/numerics.md, on whatever device there is."""

from __future__ import annotations

import mmap
import re

import engine
import numpy as np
import pytest
from engine import attempt, dtype_of, random, same_bits
from opencl_machine import needs_build, needs_cpu, opencl, rows, said  # noqa: F401
from test_add import (
    INPUTS,
    LARGEST,
    LIMITS,
    OPS,
    WORDS,
    check_all,
    exact,
    fma_operands,
)
from test_transpose import check_all as check_transposes
from test_transpose import noise

import gpuops

pytestmark = [needs_build, pytest.mark.usefixtures("opencl"), pytest.mark.sampled(every=2)]

ELEMENTWISE = [
    pytest.param(op, *row.values, id=f"{op}-{row.id}")
    for op in ("add", "multiply_add")
    for row in rows(op)
    if row.id != "auto"  # one of the others
]
SHAPES = [(), (1,), (33,), (1021,), (7, 13), (257, 3), (2, 1, 3, 1, 5), (2,) * 9, (0, 5)]


@pytest.mark.sampled(every=16)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("op", "device", "kernel"), ELEMENTWISE)
def test_elementwise_bits(op, device, kernel, word):
    dtype = dtype_of(word)
    check_all(op, [
        [random(shape, dtype, seed, special=True) for seed in range(INPUTS[op])]
        for shape in SHAPES
    ], device, kernel)  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("layout", engine.LAYOUTS)
@pytest.mark.parametrize(("op", "device", "kernel"), ELEMENTWISE)
def test_elementwise_layouts(op, device, kernel, layout):
    plain = [random((6, 5, 8), "f4", seed) for seed in range(INPUTS[op])]
    odd = [engine.layout(a, layout) for a in plain]
    cases = [[*plain[:k], odd[k], *plain[k + 1 :]] for k in range(INPUTS[op])]
    check_all(op, [odd, *cases, [plain[0], plain[1][:, :1], *plain[2:]]], device, kernel)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("word", LIMITS)
@pytest.mark.parametrize(("device", "kernel"), rows("fma"))
def test_fma_rounds_once(device, kernel, word):
    a, b, c = fma_operands(word)
    got = attempt(gpuops.fma, a, b, c, device=device, kernel=kernel)
    mantissa, least = LIMITS[word]
    want = np.array(
        [
            exact(*map(float, x), mantissa, least, LARGEST[word])
            for x in zip(a, b, c, strict=True)
        ]
    )
    same_bits(got, want.astype(a.dtype))


@pytest.mark.parametrize("op", INPUTS)
def test_where_an_output_is_an_input(op):
    """One buffer serves for both; and what overlaps otherwise is written elsewhere first."""
    arrays = [random(5000, "f4", seed) for seed in range(INPUTS[op])]
    want = OPS[op](*arrays, device="cpu")
    mine = arrays[0].copy()
    OPS[op](mine, *arrays[1:], mine, device="opencl")
    same_bits(mine, want)
    shifted = np.concatenate([arrays[0], [0]]).astype("f4")
    OPS[op](shifted[:-1], *arrays[1:], shifted[1:], device="opencl")
    same_bits(shifted[1:], want)


@needs_cpu
@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("axes", [40, 17])
def test_many_axes_that_do_not_merge(axes):
    """(2, 2, ..) that do not merge: every second of a longer array in each axis."""
    rank = 18
    wide = np.arange(3**10 * 2**8, dtype="i4").reshape((3,) * 10 + (2,) * 8)
    a = wide[(slice(None, None, 2),) * 10][..., ::-1] if axes == 40 else wide[:2, ::2]
    assert a.ndim == rank
    for kernel, other in (("naive", "naive"), ("chunked", "blocked")):
        same_bits(gpuops.add(a, a, device="opencl", kernel=kernel), a + a)
        same_bits(gpuops.transpose(a, device="opencl", kernel=other), a.T)


@needs_cpu
def test_more_axes_than_a_kernel_is_told_of():
    a = np.zeros((2,) * 24, "i1")
    calls = [("add", (a, a.T), kernel) for kernel in ("naive", "chunked")]
    calls += [("transpose", (a,), kernel) for kernel in ("naive", "blocked")]
    for op, arrays, kernel in calls:
        with pytest.raises(gpuops.KernelRefusedError, match="23 axes that cannot be"):
            getattr(gpuops, op)(*arrays, device="opencl", kernel=kernel)


def test_more_axes_without_a_kernel_named():
    """The reason is that of the last row asked, which takes most."""
    a = np.zeros((2,) * 24, "i1")
    for op, arrays, how, kernel in (
        ("add", (a, a.T), {}, "naive"),
        ("transpose", (a,), {}, "naive"),
        ("sum", (a.T[::-1, ::-1],), {"axis": tuple(range(0, 24, 2))}, "tree"),
    ):
        with pytest.raises(gpuops.UnsupportedDeviceError) as caught:
            getattr(gpuops, op)(*arrays, device="opencl", **how)
        assert str(caught.value) == (
            f"{op}: no kernel on opencl takes this call of int8: kernel '{kernel}' takes 23 "
            "axes that cannot be merged, this call has 24; another device such as 'cpu' takes "
            "them"
        )


@pytest.mark.sampled(every=11)
@pytest.mark.parametrize("word", ["uint8", "int16", "float32", "float64", "complex128", "bool"])
@pytest.mark.parametrize(("device", "kernel"), rows("transpose"))
def test_transpose_bytes(device, kernel, word):
    """Shapes around tiles and blocks, permuted ranks, batches, strides."""
    dtype = np.dtype(word)
    shapes = [(3,), (1, 9), (65, 64), (64, 130), (300, 17), (4, 5, 6), (2, 3, 4, 5, 2)]
    cases = [(noise(shape, dtype, i), None) for i, shape in enumerate(shapes)]
    cases += [(noise((6, 14, 33), dtype), axes) for axes in ((1, 0, 2), (2, 0, 1), (0, 2, 1))]
    cases += [(noise((40, 90), dtype)[::2, ::-3], None), (noise((40, 90), dtype).T, None)]
    check_transposes(cases, device, kernel)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", ["float32", "uint8", "int16", "float64", "complex128"])
def test_vectors_of_every_side(word):
    """Whole tiles and what is left of them, by vectors of 4 to 16 bytes, also of ranks."""
    planes = [noise(shape, np.dtype(word)) for shape in ((272, 144), (132, 20), (8, 600))]
    ranks = noise((4, 6, 32, 48), np.dtype(word))
    cases = [(m, None) for m in planes] + [(ranks, (3, 2, 1, 0)), (ranks, (1, 3, 0, 2))]
    for params in ({}, {"side": 8, "group": 64}, {"side": 32, "group": 512}):
        for a, axes in cases:
            got = gpuops.transpose(a, axes, device="opencl", kernel="vectorized", params=params)
            same_bits(got, np.transpose(a, axes).copy())


def test_arrays_that_reach_further_than_a_buffer_may():
    """Of PoCL a part of the memory: a call is cut until its arrays fit."""
    memory = mmap.mmap(-1, 1 << 33)
    memory.madvise(mmap.MADV_NOHUGEPAGE)  # few of its pages are ever there
    wide = np.frombuffer(memory, "u1")[:: 1 << 20]
    wide[:] = np.arange(len(wide)) % 251
    same_bits(gpuops.add(wide, wide, device="opencl"), wide + wide)
    same_bits(gpuops.sum(wide, device="opencl"), wide.sum())
    rows = wide[:4096].reshape(64, 64)
    same_bits(gpuops.matmul(rows, rows.T, device="opencl"), rows @ rows.T)


def test_a_kernel_refuses_with_its_sentence():
    a = np.ones((4, 5), "f4")
    with pytest.raises(gpuops.KernelRefusedError, match="gaps that lie in memory alike"):
        gpuops.add(a, a[:, :1], kernel="vectorized", device="opencl")
    with pytest.raises(gpuops.KernelRefusedError, match="that move the fastest axis"):
        gpuops.transpose(np.ones((4, 5, 6)), (1, 0, 2), kernel="tiled", device="opencl")
    with pytest.raises(gpuops.KernelRefusedError, match="begin and end at multiples of 4"):
        gpuops.transpose(np.ones((4, 5), "u1"), kernel="vectorized", device="opencl")


@needs_cpu
def test_a_kernel_refuses_strided_lines_where_they_lie():
    with pytest.raises(gpuops.KernelRefusedError, match="begin and end at multiples of 4"):
        gpuops.transpose(np.ones((8, 16), "f4")[:, ::2], kernel="vectorized", device="opencl")


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("word", ["f4", "i1", "f2", "c8"])
def test_vectors_meet_a_number(word):
    """One that is an operand, or an array that is broadcast, in each place."""
    a, number = random((1021,), word, 1), dtype_of(word).type(3)
    shown = np.broadcast_to(random((1,), word, 2), a.shape)
    for op in ("add", "multiply_add"):
        for scalar in (number, shown):
            for at in range(INPUTS[op]):
                arrays = [scalar if i == at else a for i in range(INPUTS[op])]
                got = OPS[op](*arrays, device="opencl", kernel="vectorized")
                same_bits(got, OPS[op](*arrays, device="cpu"))


def test_items_that_stay_together_move_together():
    """As much as 16 bytes, wherever they lie, on a device with memory of its own."""
    text = said("""
import engine
for word, shape in ("f4", (6, 5, 8)), ("i1", (3, 4, 24)), ("i2", (5, 2, 7)), ("c16", (4, 3, 2)):
    a = engine.random(shape, word, 1)
    parts = np.concatenate([a, a], axis=2)[..., : shape[2]]
    for b in (a, a[::-1], parts, np.concatenate([a, a])[1:]):
        want = np.transpose(b, (1, 0, 2)).copy()
        for kernel in ("naive", None):
            got = gpuops.transpose(b, (1, 0, 2), device="opencl", kernel=kernel)
            engine.same_bits(got, want)
    d = gpuops.to_device(np.concatenate([a, a]), "opencl")
    got = gpuops.transpose(d, (1, 0, 2), kernel="naive").get()
    engine.same_bits(got, np.transpose(np.concatenate([a, a]), (1, 0, 2)).copy())
print("same")
""", GPUOPS_FAULT="opencl.sharing:1:forever")  # fmt: skip
    assert text == "same"


@pytest.mark.parametrize("params", [{"bytes": 64}, {"bytes": 8, "group": 64}], ids=str)
def test_tunables_are_options_of_the_build(params):
    a = random(1001, "f4")
    got = gpuops.add(a, a, kernel="vectorized", params=params, device="opencl")
    same_bits(got, a + a)


def test_what_it_lists_it_shows():
    for op in ("add", "transpose", "reduce", "matmul", "jacobi_step", "jacobi", "rdf"):
        for kernel in gpuops.kernels(op, "opencl"):
            text = gpuops.source(op, kernel)
            has_kernel = f"__kernel void {op}_{kernel.name}_kernel(" in text
            assert has_kernel == (op != "jacobi")  # its kernels are jacobi_step's
            row = re.search(rf"ROW\(op, stem, {kernel.name}, (\w+),", text)
            assert text.count("ROW(op") == 1
            assert f"gop_status {row[1]}(const gop_ctx *ctx" in text
            assert "(gop_ctx *ctx, const gop_task *task, int64_t step)" in text
    rungs = gpuops.ladder("add", np.ones(1000, "f4"), 1.0, device="opencl", n_repeat=2)
    assert [r.name for r in rungs] == ["naive", "vectorized", "chunked"]
    assert rungs["chunked"].timing.kernel > 0
    plan = gpuops.explain("add", np.ones(9), np.ones(9), device="opencl")
    assert plan.kernel in ("chunked", "vectorized")
