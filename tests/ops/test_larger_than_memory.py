"""Calls on host arrays that the device cannot hold: cut in parts, with the same bits."""

from __future__ import annotations

import gc

import engine
import numpy as np
import pytest
from engine import same_bits

import gpuops

pytestmark = pytest.mark.skipif("sim" not in engine.backends(), reason="no sim here")

REDUCTIONS = ("sum", "prod", "mean", "min", "max", "any", "all", "argmin", "argmax")
WORDS = ("bool", "int8", "uint64", "float16", "bfloat16", "float32", "float64", "complex64")


@pytest.fixture
def held(monkeypatch) -> int:
    """Bytes that arrays of tests before still have."""
    gc.collect()
    with monkeypatch.context() as patch:
        patch.setenv("GPUOPS_SIM_MEMORY", str(1 << 20))
        with pytest.raises(gpuops.DeviceMemoryError) as refused:
            gpuops.to_device(np.empty(1 << 21, "u1"), device="sim")
    return refused.value.total - refused.value.free


@pytest.fixture
def in_parts(held, monkeypatch):
    """f in parts, on a device that refuses the whole: a kernel's call by name is never cut."""

    def run(f, *args, room: int = 10_000, **kwargs):
        kernel = gpuops.explain(f, *args, device="sim", **kwargs).kernel
        with monkeypatch.context() as patch:
            patch.setenv("GPUOPS_SIM_MEMORY", str(held + room))
            with pytest.raises(gpuops.DeviceMemoryError, match="sim is out of memory"):
                f(*args, device="sim", kernel=kernel, **kwargs)
            return f(*args, device="sim", **kwargs)

    return run


def reduced(in_parts, word, a, room=0, **kwargs):
    f = getattr(gpuops, word)
    wide = 8 if word == "mean" and a.dtype.kind in "biu" else max(4, a.dtype.itemsize)
    room = max(room, 2048 * (wide + 1) + 1000)  # a leaf, its mask and the result
    same_bits(in_parts(f, a, room=room, **kwargs), f(a, device="cpu", **kwargs))


def reduced_of_turn(in_parts, name, everything, turn, cases):
    """All cases, an array and keywords each, or the seventh whose turn it is."""
    for a, keywords in engine.of_turn(cases, 7, everything, "reduce", "sim", None, turn):
        reduced(in_parts, name, a, **keywords)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("word", ["float16", "float32", "float64", "complex64", "int64"])
def test_exact_sums(in_parts, word):
    """One result in halves of its terms, several by outputs."""
    a = engine.random((20_021,), word, 7)
    cube = np.asfortranarray(a[:20_000].reshape(20, 40, 25))
    name = "mean" if word == "int64" else "sum"
    cases = [
        (a, {}),
        (cube[::-1], {"where": cube[0].real > 0}),
        (cube, {"axis": 1, "keepdims": True}),
        (a.reshape(-1, 1)[::-1], {"initial": 2.5} if name == "sum" else {}),
    ]
    for terms, keywords in cases:
        reduced(in_parts, name, terms, exact=True, room=terms.nbytes // 2, **keywords)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(in_parts, name, word, everything):
    """Terms in C order, strided and not; several results; axes that merge and do not."""
    a = engine.random((50_021,), engine.bfloat16() if word == "bfloat16" else word, 7)
    cube = np.asfortranarray(a[:50_000].reshape(50, 40, 25))
    cases = [
        (a, {}),
        (a[::-1], {}),
        (a.reshape(-1)[:50_020].reshape(10, 5002)[:, 1::2].repeat(2, axis=0), {}),
        (cube, {}),
        (cube, {"axis": 1}),
        (cube, {"axis": 2, "keepdims": True}),
        (np.broadcast_to(cube[..., None], (*cube.shape, 2)), {"axis": -2}),
    ]
    if not name.startswith("arg"):
        cases.append((cube, {"axis": (0, 2)}))
        cases.append((a[:40_000].reshape(2, 4, 5000), {"axis": (0, 2)}))
    turn = REDUCTIONS.index(name) + WORDS.index(word)
    reduced_of_turn(in_parts, name, everything, turn, cases)


MASKED = ("sum", "prod", "mean", "min", "max", "any", "all")
MASKED_WORDS = ("int16", "float16", "float32", "complex128")


@pytest.mark.sampled(every=5)
@pytest.mark.filterwarnings("ignore:mean of an empty slice")
@pytest.mark.parametrize("word", MASKED_WORDS)
@pytest.mark.parametrize("name", MASKED)
def test_masks_and_first_values(in_parts, name, word, everything):
    a = engine.random((60_000,), word, 8)
    mask = np.random.default_rng(1).integers(0, 3, 60_000) > 0
    cube, grid = a.reshape(40, 50, 30), mask.reshape(40, 50, 30)
    first = {"initial": 1} if name in ("min", "max") else {}
    masks = (grid, grid[:1], grid[:, :1, :1], grid[0, 0], np.bool_(False), grid.T.copy().T)
    cases = [(cube, {"where": where, **first}) for where in masks]
    cases += [(cube, {"where": where, "axis": 1, **first}) for where in masks]
    cases.append((a, {"where": mask, **first}))
    if name in ("sum", "prod", "min", "max"):
        cases += [(a, {"initial": initial}) for initial in (0, 3, None)]
    turn = MASKED.index(name) + MASKED_WORDS.index(word)
    reduced_of_turn(in_parts, name, everything, turn, cases)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("room", [6_000, 20_000, 36_000, 70_000])
def test_the_tree_at_its_edges(in_parts, room):
    rng = np.random.default_rng(2)
    for leaves in (5, 8, 9, 31, 33, 64):
        for n in (2048 * leaves - 1, 2048 * leaves, 2048 * leaves + 1):
            for dtype in (np.float16, np.float32, np.float64):
                a = (rng.standard_normal(n) * 10.0 ** rng.integers(-3, 3, n)).astype(dtype)
                if a.nbytes > max(room, 20_000):
                    reduced(in_parts, "sum", a, room=room)


def test_zeros_and_nans(in_parts):
    zeros = np.full(20_000, -0.0, np.float32)
    for initial in ({}, {"initial": None}, {"initial": -0.0}, {"initial": 0.0}):
        reduced(in_parts, "sum", zeros, **initial)
    reduced(in_parts, "mean", zeros)
    for dtype in (np.float32, np.complex64):
        a = np.resize(np.array([3, 1, 2, 1, 3], dtype), 20_000)
        for place in ((), (19_999,), (7_000, 19_000), (4_100, 4_101)):
            a[list(place)] = np.nan
            for name in ("min", "max", "argmin", "argmax", "sum", "prod", "any"):
                reduced(in_parts, name, a)
    ties = np.zeros(20_000, np.complex64)
    ties[1::2] = complex(-0.0, -0.0)
    for name in ("min", "max", "argmin", "argmax"):
        reduced(in_parts, name, ties[1:])


def test_out_and_what_is_left(in_parts, held, monkeypatch):
    a = engine.random((40, 2500), "float64", 3)
    out = np.empty(40)
    assert in_parts(gpuops.sum, a, room=20_000, axis=1, out=out) is out
    same_bits(out, gpuops.sum(a, axis=1, device="cpu"))
    used = np.full((), 7.0)
    monkeypatch.setenv("GPUOPS_SIM_MEMORY", str(held + 9000))  # less than a leaf
    with pytest.raises(gpuops.DeviceMemoryError, match=r"^sum: sim is .* smallest part"):
        gpuops.sum(a, device="sim", out=used)
    assert used == 7.0
    monkeypatch.setenv("GPUOPS_SIM_MEMORY", str(held + 2048 * 8 + 8))  # so nothing was kept
    leaf = a.reshape(-1)[:2048]
    same_bits(gpuops.sum(leaf, device="sim"), gpuops.sum(leaf, device="cpu"))


SHAPES = (
    ((300, 40), (40, 9)),
    ((9, 40), (40, 300)),
    ((150, 7), (7, 150)),
    ((6, 1, 30, 20), (3, 20, 30)),
    ((400,), (400, 7)),
    ((7, 400), (400,)),
    ((3000, 1), (1,)),
)


MATMUL_WORDS = ("bool", "int8", "uint64", "float16", "float32", "complex64")


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", MATMUL_WORDS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul(in_parts, shapes, word, everything):
    """Small whole numbers, so that no order of additions could change a bit."""
    rng = np.random.default_rng(4)
    a, b = (rng.integers(0, 4, shape).astype(word) for shape in shapes)
    whole = gpuops.matmul(a, b, device="cpu")
    room = max(3 * a.nbytes, b.nbytes) if a.ndim == 1 else max(a.nbytes, b.nbytes, whole.nbytes)
    turn = SHAPES.index(shapes) + MATMUL_WORDS.index(word)
    layouts = ((a, b), (np.asfortranarray(a), b))
    for x, y in layouts if everything else layouts[turn % 2 :][:1]:
        same_bits(in_parts(gpuops.matmul, x, y, room=room), whole)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("word", ["float32", "float64"])
def test_matmul_keeps_its_bound(in_parts, word):
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(word) for shape in ((200, 60), (60, 200)))
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    bound = 60 * np.finfo(word).eps / 2 * (abs(a.astype(np.longdouble)) @ abs(b))
    for room in (40_000, 100_000):
        assert (abs(in_parts(gpuops.matmul, a, b, room=room) - exact) <= bound).all()


def test_a_sum_that_is_one_product_is_never_cut(in_parts, monkeypatch):
    a = np.ones(9000, np.float32)
    monkeypatch.setenv("GPUOPS_SIM_MEMORY", "40000")
    with pytest.raises(gpuops.DeviceMemoryError, match=r"^matmul: sim is out of memory: "):
        gpuops.matmul(a, a, device="sim")


def test_elementwise_and_transpose(in_parts):
    a = engine.random((130, 97), "float64", 6)
    same_bits(in_parts(gpuops.add, a, a[0]), a + a[0])
    same_bits(in_parts(gpuops.transpose, a), a.T)
    deep = engine.random((16, 5, 2, 4, 16), "int32", 6)
    same_bits(in_parts(gpuops.transpose, deep, (4, 2, 0, 1, 3)), deep.transpose(4, 2, 0, 1, 3))
