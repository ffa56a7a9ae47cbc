"""reduce on OpenCL: bits of tree/v1 in every layout, masks, casts; the lecture's kernels."""

from __future__ import annotations

import engine
import golden_tree
import numpy as np
import pytest
from engine import dtype_of, random, same_bits
from opencl_machine import needs_build, needs_cpu, opencl, rows, said  # noqa: F401
from test_reduce import OPS, POSITIONS, WORDS, check, check_all

import gpuops
from gpuops._call import road

pytestmark = [needs_build, pytest.mark.usefixtures("opencl"), pytest.mark.sampled(every=2)]

KEEPS = [pytest.param("opencl", name, id=name) for name in ("tree", "chunked")]
LECTURE = ("cascaded", "atomic")


def cases_of(op, word):
    """Rows and columns of whole leaves, parts of one and few elements; masks; ties and NaNs."""
    dtype = dtype_of(word)
    for i, (shape, axis) in enumerate((
        ((70, 300), 0), ((70, 300), 1), ((4100, 34), 0), ((3, 6200), 1), ((5000,), None),
    )):  # fmt: skip
        a = random(shape, dtype, i, special=i % 2 == 0)
        if dtype.kind in "iu":
            a = a % 3 if i % 2 else a
        yield op, a, axis, {}
        if op in POSITIONS or i > 2:
            continue
        more = {"where": np.random.default_rng(i).random(shape) < 0.6}
        if op in ("min", "max", "sum", "prod"):
            more["initial"] = a.flat[-1].item() if dtype.kind in "biufc" else float(a.flat[-1])
        yield op, a, axis, more


@pytest.mark.sampled(every=137)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), KEEPS)
def test_every_dtype(device, kernel, word, op):
    check_all(cases_of(op, word), device, kernel)


@pytest.mark.parametrize(
    "op", ["sum", pytest.param("argmax", marks=pytest.mark.sampled(later=True))]
)
@pytest.mark.parametrize(("device", "kernel"), KEEPS)
def test_layouts(device, kernel, op):
    cases = []
    for name in engine.LAYOUTS:
        a = engine.layout(random((33, 70), "f4", 1, special=True), name)
        cases += [(op, a, 0, {}), (op, a, 1, {}), (op, a.T, None, {}), (op, a.T, 0, {})]
    a = random((6, 5, 150), "f4", 2)
    cases += [(op, a[:, ::-1, ::2], axis, {}) for axis in (0, 1, 2, None)]
    if op == "sum":
        more = {"keepdims": True}
        cases += [(op, a[::2, :, 3:], axis, more) for axis in ((0, 2), (1, 2), ())]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("device", "kernel"), KEEPS)
def test_outputs_of_few_elements(device, kernel):
    """Side by side, whichever way they lie; and of none at all."""
    cases = []
    for outputs, n in ((3000, 1), (3001, 3), (700, 33), (5, 0)):
        a = random((outputs, n), "f4", n, special=True)
        cases += [("sum", a, 1, {}), ("sum", np.ascontiguousarray(a.T), 0, {})]
    check_all(cases, device, kernel)


@needs_cpu
@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("word", ["float32", "complex64", "float16", "int16", "bool"])
def test_rows_that_are_turned_in_registers(word, everything):
    """Of 2 to 16 elements: whole vectors of outputs, and what is left of them."""
    ops = ("sum", "mean", "max", "all")
    for k, (outputs, n) in enumerate(((4096, 8), (1030, 2), (1024, 16), (33, 4))):
        a = random((outputs, n), dtype_of(word), n, special=True)
        for op in ops if everything else ops[k : k + 1]:
            assert check(op, a, 1, device="opencl", kernel="chunked"), (op, outputs, n)


@needs_cpu
@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("word", ["int16", "complex64", "float16", "float32", "float64"])
def test_narrow_arrays_of_whole_leaves(word, everything):
    """Up to 16 outputs side by side without gaps: a leaf has their lanes beside each other."""
    ops = ("max", "mean", "sum", "all")
    shapes = (((4500, 8), 0), ((2048, 16), 0), ((2, 70 * 2048 + 1, 3), 1))
    for k, (shape, axis) in enumerate(shapes):
        a = random(shape, dtype_of(word), shape[-1], special=True)
        for op in ops if everything else ops[k : k + 1]:
            assert check(op, a, axis, device="opencl", kernel="chunked"), (op, shape)
        assert check("sum", a[:, :-1], axis, device="opencl", kernel="chunked"), shape


@needs_cpu
@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("word", ["float32", "complex64", "float16", "int64", "bool"])
@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_positions_of_rows_and_columns(op, word):
    """The first of equal ones and of NaNs: later leaves have the same, and better ones."""
    a = random((5000, 7), dtype_of(word), 1, special=True)
    a[4321], a[77, 3] = a[10], a[4900, 3]
    wide = np.ascontiguousarray(a.T[:, :2100])
    better = np.arange(5000)[::-1] % 4097 // 3 % 120
    for case in (a, wide, a[::3, ::2], better.astype(dtype_of(word))[:, None]):
        for axis in (None, 0, 1):
            assert check(op, case, axis, device="opencl", kernel="chunked"), (axis, case.shape)


@pytest.mark.parametrize(("device", "kernel"), KEEPS)
def test_nodes_of_several_leaves(device, kernel):
    """Long outputs, which are folded in two launches: one, few and many of them."""
    n = 150 * 2048 + 77
    a = random((n,), "f4", 1)
    wide = random((70 * 2048 + 5, 36), "f4", 2)
    cases = [("sum", a, None, {}), ("mean", a[::-1], None, {}), ("sum", wide, 0, {}),
             ("sum", wide.T, 1, {}), ("mean", wide, 0, {"where": wide > 0})]  # fmt: skip
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("word", ["float32", "float16", "bfloat16", "float64",
                                  *golden_tree.PARTS])  # fmt: skip
@pytest.mark.parametrize("kernel", [None, "tree"])
def test_golden_bits(kernel, word):
    """The hashes on file, which the cpu's kernels give too."""
    for case in golden_tree.golden():
        if case["dtype"] != word:
            continue
        mask = golden_tree.mask(case)
        axis = tuple(case["axis"]) if isinstance(case["axis"], list) else case["axis"]
        got = getattr(gpuops, case["function"])(
            golden_tree.operand(case), axis=axis, device="opencl", kernel=kernel,
            **({} if mask is None else {"where": mask}),
        )  # fmt: skip
        assert golden_tree.digest(got) == case["sha256"], case


def test_elements_are_cast_before_they_are_summed():
    """dtype=, an out that is wider, other byte orders: on the host's memory too."""
    a = random((300, 7), "f4", 1)
    for x, more in ((a, {"dtype": "f8"}), (a.astype("i2"), {"dtype": "f4"}),
                    (a.astype(">f4"), {}), (engine.layout(a, "packed"), {}),
                    (a.astype("f2"), {"out": np.zeros(7, "f4")})):  # fmt: skip
        got = gpuops.sum(x, axis=0, device="opencl", **more)
        same_bits(got, gpuops.sum(x, axis=0, device="cpu", **more))


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("word", ["complex64", "float32", "int16", "float16"])
def test_sums_of_squares(word):
    how = {"op": "sumsq", "axes": (0,), "keepdims": False, "where": False, "initial": None}
    a = random((3000,), word, 4)
    got, want = (road.run("reduce", (a,), how, device=gpuops.Device(name, 0))
                 for name in ("opencl", "cpu"))  # fmt: skip
    same_bits(got, want)


def test_means_are_divided_right_without_float64():
    """Every kind of quotient of float32: subnormal, tied, infinite; by long division."""
    text = said("""
import engine
rng = np.random.default_rng(1)
bits = rng.integers(0, 1 << 32, 20_000, np.uint32)
a = np.concatenate([bits, np.arange(400, dtype=np.uint32), 0x7f800000 - np.arange(9)])
a = a.astype(np.uint32).view("f4")
for n in (1, 3, 10, 63):
    rows = np.zeros((a.size, n), "f4")
    rows[:, 0] = a
    got, want = (gpuops.mean(rows, axis=1, device=device) for device in ("opencl", "cpu"))
    engine.same_bits(got, want)
try: gpuops.mean(np.ones(3, "i4"), device="opencl")
except TypeError as error: print("has no float64, which int32 takes" in str(error))
print(gpuops.sum(np.ones(3, "i4"), device="opencl"))
""", GPUOPS_FAULT="opencl.double:1:forever")  # fmt: skip
    assert text.splitlines() == ["True", "3"]


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("word", ["float32", "int32", "float64"])
@pytest.mark.parametrize("kernel", LECTURE)
def test_the_lecture(kernel, word):
    """Whole numbers, of which every order gives the sum."""
    if kernel == "atomic":
        word = "float32"
    for n in (1, 2, 255, 257, 5000, 70_001):
        a = (np.arange(n) % 17 - 8).astype(word)
        got = gpuops.sum(a, device="opencl", kernel=kernel)
        same_bits(got, a.sum(dtype="i8" if word == "int32" else word))
    same_bits(gpuops.sum(a, device="opencl", kernel=kernel, params={"group": 64}), got)
    with pytest.raises(gpuops.KernelRefusedError, match="one whole contiguous array"):
        gpuops.sum(np.ones((3, 4), word), axis=0, device="opencl", kernel=kernel)
    with pytest.raises(gpuops.KernelRefusedError, match=f"^max: kernel '{kernel}' only sums"):
        gpuops.max(np.ones(3, word), device="opencl", kernel=kernel)


def test_many_axes_that_do_not_merge():
    wide = np.arange(3**9 * 2**9, dtype="i4").reshape((3,) * 9 + (2,) * 9)
    a = wide[(slice(None, None, 2),) * 9][..., ::-1]
    assert check("sum", a, (0, 3, 17), device="opencl", kernel=None)


def test_what_it_lists():
    names = [row.name for row in gpuops.kernels("reduce", "opencl")]
    assert names == [*LECTURE, "tree", "chunked"]
    plan = gpuops.explain("sum", np.ones(9, "f4"), device="opencl")
    assert plan.kernel in ("tree", "chunked")
    assert [row.values[1] for row in rows("reduce")][1:] == names
