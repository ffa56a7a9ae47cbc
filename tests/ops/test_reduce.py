"""reduce and its nine functions: float sums, means and products by the plain tree of engine.py,
all else by NumPy, bit for bit."""

from __future__ import annotations

import itertools
import warnings

import engine
import numpy as np
import pytest
from engine import attempt, dtype_of, of_turn, random, remembered, rows, same_bits, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.exceptions import AxisError

import gpuops
from gpuops import _core

ROWS = rows("reduce", teaching=False)  # test_reduce_ladder.py has the others
OPS = engine.REDUCTIONS
POSITIONS = ("argmin", "argmax")
WORDS = (*(d.name for d in engine.DTYPES), "bfloat16")
# Counts around one lane, one row of lanes, one leaf and several; and outputs around a warp.
SHAPES = (
    (), (1,), (31,), (127,), (128,), (129,), (2047,), (2048,), (2049,), (4097,), (30011,),
    (3, 4), (40, 33), (33, 300), (2, 2049), (2100, 9), (70, 3, 5), (2, 3, 4, 5),
    (1, 7, 1, 130), (2,) * 9,
)  # fmt: skip


def is_float(dtype) -> bool:
    return dtype.kind in "fc" or dtype.name == "bfloat16"


def signed_zeros(a, op, axis, keepdims, where, initial):
    """min and max of floats, -0.0 below +0.0, by way of integers in the floats' order."""
    bits = a.view(f"i{a.dtype.itemsize}")
    key = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    nan = np.isnan(a)
    if where is not None:
        nan = nan & where
    info = np.iinfo(key.dtype)
    start = {"initial": info.max if op == "min" else info.min}
    mask = True if where is None else where
    best = getattr(np, op)(key, axis, keepdims=keepdims, where=mask, **start)
    if initial is not None:
        first = np.asarray(initial, a.dtype)
        first_bits = first.view(bits.dtype)
        first_key = first_bits ^ info.max if first_bits < 0 else first_bits
        best = (np.minimum if op == "min" else np.maximum)(best, first_key)
    best = np.asarray(best, bits.dtype)
    out = np.where(best < 0, best ^ info.max, best).view(a.dtype)
    return np.where(nan.any(axis, keepdims=keepdims), np.asarray(np.nan, a.dtype), out)


def first_extreme(op, a, axes, keepdims, where, initial):
    """Complex min and max: the first extreme or NaN in C order; initial comes before all."""
    axes = sorted(int(i) for i in np.atleast_1d(axes) % max(a.ndim, 1)) if a.ndim else []
    if where is not None:
        a = np.where(where, a, np.asarray(initial, a.dtype))
    kept = [i for i in range(a.ndim) if i not in axes]
    shape = [a.shape[i] for i in kept]
    count = int(np.prod([a.shape[i] for i in axes], dtype=int))
    x = np.ascontiguousarray(a.transpose(kept + axes)).reshape(*shape, count)
    if initial is not None:
        x = np.concatenate([np.full((*shape, 1), initial, a.dtype), x], axis=-1)
    at = (np.argmin if op == "min" else np.argmax)(x, axis=-1)
    out = np.take_along_axis(x, at[..., None], -1)[..., 0]
    return np.expand_dims(out, tuple(axes)) if keepdims else out


@remembered
def reference(op, a, axis=None, *, keepdims=False, where=None, initial=None):
    a = np.asarray(a)
    a = a.astype(a.dtype.newbyteorder("="))
    options = {} if where is None else {"where": where}
    axes = tuple(range(a.ndim)) if axis is None else axis
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if op in ("sum", "prod", "mean") and (is_float(a.dtype) or op == "mean"):
            x = a if is_float(a.dtype) else a.astype(np.float64)
            out = tree(x, axes, product=op == "prod", mean=op == "mean", where=where,
                       initial=initial)  # fmt: skip
            return np.expand_dims(out, axes) if keepdims else out
        if op in ("min", "max") and a.dtype.kind == "c":
            return first_extreme(op, a, axes, keepdims, where, initial)
        if op in ("min", "max") and is_float(a.dtype):
            return signed_zeros(a, op, axes, keepdims, where, initial)
        if a.dtype.name == "bfloat16":
            a = a.astype(np.float32)  # NumPy cannot compare them; the values are the same
        if op in POSITIONS:
            return getattr(np, op)(a, axis, keepdims=keepdims)
        if initial is not None:
            options["initial"] = initial
        return getattr(np, op)(a, axis, keepdims=keepdims, **options)


def check(op, a, axis=None, *, device, kernel, **more):
    """One call against the reference; True unless the kernel refused it."""
    given = {k: v for k, v in more.items() if v is not None}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            got = attempt(
                getattr(gpuops, op), a, axis=axis, device=device, kernel=kernel, **given
            )
    except pytest.skip.Exception as refusal:
        check.refusal = str(refusal)
        return False
    same_bits(np.asarray(got), np.asarray(reference(op, a, axis, **more)))
    return True


def check_all(cases, device, kernel):
    """Every case; skipped only if the kernel refused all of them."""
    ran = [check(op, a, axis, device=device, kernel=kernel, **more)
           for op, a, axis, more in cases]  # fmt: skip
    if not any(ran):
        pytest.skip(check.refusal)


def some_axes(ndim: int):
    """None, each axis, and choices of several: all of them up to rank 4."""
    several = [c for r in range(2, ndim) for c in itertools.combinations(range(ndim), r)]
    return [None, *range(ndim), *(several if ndim <= 4 else several[:: len(several) // 6])]


def axes_for(op, ndim):
    return [x for x in some_axes(ndim) if not (op in POSITIONS and isinstance(x, tuple))]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_every_op_and_axis(device, kernel, word, everything):
    dtype = dtype_of(word)
    cases = []
    for i, shape in enumerate(SHAPES):
        if kernel == "naive" and device == "cpu" and np.prod(shape) > 5000:
            continue
        a = random(shape, dtype, i, special=i % 2 == 1)
        if dtype.kind in "iu" and i % 3 == 0:
            a = a % 3  # ties
        for j, op in enumerate(OPS):
            axes = axes_for(op, len(shape))
            if len(axes) > 3:
                axes = [axes[0], axes[1 + (i + j) % (len(axes) - 1)], axes[-1]]
            cases += [(op, a, axis, {}) for axis in axes]
    turn = WORDS.index(word)
    cases = of_turn(cases, 60, everything, "reduce", device, kernel, turn)
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("layout", engine.LAYOUTS)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_layouts(device, kernel, layout, everything):
    cases = []
    for i, (word, shape) in enumerate(
        itertools.product(("float32", "complex64", "int16", "float16"), ((33, 70), (5, 4, 150)))
    ):
        a = engine.layout(random(shape, word, i, special=True), layout)
        for j, op in enumerate(OPS):
            axes = axes_for(op, a.ndim)
            cases += [(op, a, axes[(i + j) % len(axes)], {}), (op, a.T, axes[-1], {})]
    cases.append(("sum", engine.layout(random((5000,), "float32", 9), layout), None, {}))
    turn = engine.LAYOUTS.index(layout)
    cases = of_turn(cases, 12, everything, "reduce", device, kernel, turn)
    check_all(cases, device, kernel)


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_keepdims(device, kernel):
    a = random((3, 40, 5), "float32", 1)
    cases = [(op, a, axis, {"keepdims": True}) for op in OPS for axis in axes_for(op, a.ndim)]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_where_and_initial(device, kernel, word, everything):
    dtype = dtype_of(word)
    rng = np.random.default_rng(5)
    cases = []
    for i, (shape, axis) in enumerate(
        [((), None), ((4000,), None), ((30, 40), 0), ((30, 40), 1), ((6, 5, 70), (0, 2))]
    ):
        a = random(shape, dtype, i, special=i % 2 == 0)
        initial = a.reshape(-1)[-1].item() if a.dtype.kind in "biufc" else float(a.flat[-1])
        masks = [rng.random(shape) < 0.6, rng.random(shape[-1:]) < 0.5, np.zeros(shape, bool)]
        for op in ("sum", "prod", "min", "max"):
            cases.append((op, a, axis, {"initial": initial}))
            cases += [(op, a, axis, {"where": m, "initial": initial}) for m in masks]
        for op in ("sum", "prod", "mean", "any", "all"):
            cases += [(op, a, axis, {"where": m, "keepdims": True}) for m in masks]
    turn = WORDS.index(word)
    cases = of_turn(cases, 10, everything, "reduce", device, kernel, turn)
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_long(device, kernel, everything):
    """Beyond 2^20 elements, where subtrees go to other threads and blocks."""
    slow = device == "sim" or (device, kernel) == ("cpu", "naive")
    n = 40_000 if slow else 3 * 2**20 + 77
    cases = []
    words = ("float32", "float64", "float16", "int32", "complex64")
    for word in words if everything else words[::2]:
        a = random((n,), word, 2)
        cases += [(op, a, None, {}) for op in ("sum", "mean", "max", "argmin")]
    a = random((n // 3 // 11, 33), "float32", 3)
    cases += [(op, b, x, {}) for op in ("sum", "argmax") for b in (a, a.T) for x in (0, 1)]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_subtrees(device, kernel, everything):
    """Leaves by outputs that fill blocks, or fall short of it, in rows and in columns."""
    cases = []
    rows = (3, 2048), (9, 5 * 2048), (2, 65 * 2048 + 8), (300, 2052), (90, 6100), (1028,)
    for shape in rows:
        for word in ("float16", "float32", "float64"):
            cases += [(op, random(shape, word, 5), -1, {}) for op in ("sum", "mean")]
    for shape in ((8, 32), (100, 64), (2048, 33), (3 * 2048 + 5, 40), (2, 2100, 35)):
        for word in ("float16", "float32", "float64"):
            a = random(shape, word, 6)
            cases += [("sum", a, -2, {"initial": 3.0}), ("mean", a[..., ::-1, :], -2, {})]
    if device != "sim" and (device, kernel) != ("cpu", "naive"):
        cases += [("sum", random((131 * 2048, 32), "float32", 7), 0, {})]
        # Outputs of two and three leaves, several to a block.
        for n in (1700, 3000) if everything else (1700,):
            cases += [("sum", random((n, 2500), "float16", n), 1, {})]
            cases += [(op, random((n, 4100), "float64", n), 1, {}) for op in ("sum", "max")]
    check_all(of_turn(cases, 20, everything, "reduce", device, kernel), device, kernel)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_outputs_of_few_elements(device, kernel, everything):
    """So many that they share blocks, along either axis, up to an element a lane."""
    cases = []
    for i, (outputs, n) in enumerate(
        [(1 << 14, 1), (20000, 2), (20001, 3), (16384, 16), (16385, 33), (16400, 128)]
    ):
        word = ("float32", "int16", "float16", "complex64", "uint8", "float64")[i]
        a = random((outputs, n), word, i, special=True)
        for op in ("sum", "max", "argmin", "mean", "any") if n < 33 else ("sum", "min"):
            cases += [(op, a, 1, {}), (op, np.ascontiguousarray(a.T), 0, {})]
    if (device, kernel) == ("cpu", "naive"):
        cases = cases[:12]
    check_all(of_turn(cases, 12, everything, "reduce", device, kernel), device, kernel)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_columns_of_every_width(device, kernel, word):
    """Side by side in groups of whole words or not, whole leaves and a part of one."""
    a = random((2 * 2048 + 133, 76), dtype_of(word), 8)
    views = (a[:, :72], a[:2048, :37], a[3:60, 1:38], a[::2, :40])
    check_all([("sum", v, 0, {}) for v in views], device, kernel)


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_empty(device, kernel):
    cases = []
    for shape, axis in [
        ((0,), None),
        ((0, 3), 0),
        ((3, 0), 1),
        ((0, 3), 1),
        ((2, 0, 3), (0, 1)),
    ]:
        for word in ("float32", "int8", "complex128", "bool"):
            a = np.zeros(shape, word)
            cases += [(op, a, axis, {}) for op in ("sum", "prod", "mean", "any", "all")]
            one = {"initial": True if word == "bool" else 1}
            cases += [(op, a, axis, one) for op in ("sum", "prod", "min", "max")]
    cases += [(op, np.zeros((0, 3), "f4"), 1, {}) for op in ("min", "max", *POSITIONS)]
    many = np.zeros((20_000, 0), "f4")  # outputs
    cases += [(op, many, 1, {}) for op in ("sum", "mean", "all")]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_special_values(device, kernel):
    nan, inf = np.nan, np.inf
    cases = []
    for word in ("float32", "float64", "float16"):
        for values in ([-0.0], [-0.0, -0.0], [0.0, -0.0], [-0.0, 0.0], [inf, -inf], [1, nan, 0],
                       [nan, nan], [inf, inf], [-inf, 3], [5e-324, -5e-324]):  # fmt: skip
            for repeat in (1, 700):
                a = np.array(values * repeat).astype(word)
                cases += [(op, a, None, {}) for op in OPS]
    parts = (0.0, -0.0, 1.0, -1.0, nan, inf, -inf)
    numbers = np.array([complex(x, y) for x in parts for y in parts])
    for seed in range(20):
        a = np.random.default_rng(seed).choice(numbers, 6).astype("c8")
        cases += [(op, a, None, {}) for op in OPS]
    check_all(cases, device, kernel)


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_ties_take_the_first(device, kernel):
    cases = []
    for word in ("int8", "uint64", "float32", "complex64", "bool"):
        for n in (5, 2500, 20000):
            a = np.ones(n, word)
            a[n // 2] = 0
            a[n - 1] = 0
            cases += [(op, a, None, {}) for op in POSITIONS]
            cases += [
                (op, np.full((n, 3), np.iinfo("i1").max, word), 0, {}) for op in POSITIONS
            ]
    check_all(cases, device, kernel)


@pytest.mark.parametrize("device", engine.backends())
def test_an_axis_is_the_sum_of_each_part(device):
    a = random((7, 5000), "float32", 3)
    along = gpuops.sum(a, axis=1, device=device)
    across = gpuops.sum(np.ascontiguousarray(a.T), axis=0, device=device)
    for i in range(7):
        same_bits(along[i], gpuops.sum(a[i], device=device))
        same_bits(across[i], gpuops.sum(a[i], device=device))


@given(
    st.lists(st.integers(1, 12), max_size=5),
    st.sampled_from(OPS),
    st.sampled_from(("float32", "complex64", "int8", "uint32", "bool", "float64")),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_any_shape_and_axes(shape, op, word, data):
    a = random(shape, word, len(shape), special=True)
    if a.ndim and data.draw(st.booleans()):
        a = a[(slice(None, None, -1),) * a.ndim]
    axes = data.draw(st.sampled_from(axes_for(op, a.ndim)))
    for device in engine.backends():
        check(op, a.transpose(), axes, device=device, kernel=None)


# ---- bad input: the core's own sentences ----

A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("device", engine.backends())
@pytest.mark.parametrize(
    ("error", "sentence", "op", "a", "more"),
    [
        (AxisError, "axis 2 is out of bounds", "sum", A, {"axis": 2}),
        (AxisError, "axis -3 is out of bounds", "sum", A, {"axis": -3}),
        (ValueError, "given twice", "sum", A, {"axis": (0, -2)}),
        (TypeError, "one axis or none", "argmin", A, {"axis": (0, 1)}),
        (ValueError, "^min: there is nothing .*no identity", "min", A[:0], {"axis": 0}),
        (ValueError, "^max: there is nothing to reduce", "max", A[:, :0], {}),
        (ValueError, "^argmax: there is nothing to reduce", "argmax", A[:0], {}),
        (ValueError, "needs initial", "max", A, {"where": A > 3}),
        (TypeError, "where has dtype", "sum", A, {"where": A}),
        (ValueError, "does not broadcast", "sum", A, {"where": np.ones(5, bool)}),
    ],
)
def test_bad_input(device, error, sentence, op, a, more):
    with pytest.raises(error, match=sentence):
        getattr(gpuops, op)(a, device=device, **more)


@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_out(device, kernel):
    a = random((30, 40), "float32", 4)
    wide = np.full((40, 2), 7, np.float32)
    result = attempt(gpuops.sum, a, axis=0, out=wide[:, 0], device=device, kernel=kernel)
    same_bits(np.asarray(result), tree(a, 0))
    assert (wide[:, 1] == 7).all()


@pytest.mark.parametrize("word", ["float16", "float32", "float64", "complex64", "int16"])
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_squares(device, kernel, word):
    """The core's sum of squares, of which norms are the root: in float32 or float64."""
    a = random((3, 5000), word, 7) if word != "int16" else random((3, 5000), word, 7) // 9
    x = a.astype({"float16": "float32", "int16": "float64"}.get(word, word))
    squares = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
    params = {"op": "sumsq", "axes": (1,), "keepdims": False, "where": False, "initial": None}
    try:
        got = _core.run("reduce", (a,), params, None, (device, 0), kernel, None)
    except gpuops.KernelRefusedError as refusal:
        pytest.skip(str(refusal))
    same_bits(np.asarray(got), tree(squares, 1))
