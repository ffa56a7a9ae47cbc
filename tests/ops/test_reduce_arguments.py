"""reduce and its functions: the dtype that `out` asks for, `initial`, signs of zeros."""

from __future__ import annotations

import warnings

import engine
import numpy as np
import pytest
from engine import attempt, random, rows, same_bits

import gpuops

ROWS = rows("reduce", teaching=False)  # test_reduce_ladder.py has the others
NUMPYS = [d.name for d in engine.DTYPES]
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
          "mean": np.add}  # fmt: skip


# ---- out without dtype: the dtype of NumPy's own resolution ----


def resolved(word, have, out):
    """The dtype in which NumPy's ufunc reduces, save that whole numbers stay whole."""
    if word == "mean" and have.kind in "biu":
        return np.dtype("f8")
    if word == "mean" and have == "f2" != out:
        return np.dtype("f4")
    asked = (out, have, None)
    found = UFUNCS[word].resolve_dtypes(asked, casting="unsafe", reduction=True)[0]
    return have if found.kind == "f" and have.kind in "iu" and out.kind in "iu" else found


@pytest.mark.parametrize("word", UFUNCS)
@pytest.mark.parametrize("have", NUMPYS)
def test_out_is_reduced_in_numpys_dtype(have, word):
    function = getattr(gpuops, word)
    a = random((3, 5), have, 1)
    for name in NUMPYS:
        out = np.ones(3, name)
        dtype = resolved(word, a.dtype, out.dtype)
        if not np.can_cast(dtype, name, "same_kind"):
            with pytest.raises(TypeError, match=rf"^{word}: .*cannot be cast .*same_kind"):
                function(a, axis=1, out=out)
            assert (out == 1).all()
            continue
        want = function(a.astype(dtype), axis=1)
        if dtype.kind == "b" and word in ("sum", "prod"):  # or, and
            want = want != 0
        with np.errstate(all="ignore"):
            want = want.astype(dtype).astype(name)
        assert function(a, axis=1, out=out) is out
        same_bits(out, want)


@pytest.mark.parametrize("device", engine.backends())
def test_out_is_never_reduced_in_less_than_the_input(device):
    def into(word, values, have, out, **more):
        out = np.empty((), out)
        with np.errstate(over="ignore"):
            getattr(gpuops, word)(np.array(values, have), out=out, device=device, **more)
            got = out.copy()
            getattr(np, word)(np.array(values, have), out=out, **more)
        same_bits(got, out)
        return got

    assert into("sum", [2**62] * 4, "i8", "f8") == 2.0**64
    assert into("sum", [2**62] * 4, "i8", "f4") == 2.0**64
    assert into("sum", [2**62] * 4, "i8", "c8") == 2.0**64
    assert into("prod", [2**40] * 2, "i8", "f8") == 2.0**80
    assert into("prod", [1e30, 1e30, 1e-30, 1e-30], "f8", "f4") == 1
    assert into("sum", [60000] * 4, "f2", "f4") == 240000
    assert into("sum", [60000] * 4, "f2", "f8") == 240000
    assert into("mean", [60000] * 4, "f2", "f8") == 60000
    assert into("sum", [1, 2.0**-30], "f4", "f8") == 1 + 2.0**-30
    assert into("mean", [1, 2.0**-30], "f4", "f8") == 0.5 + 2.0**-31
    assert into("sum", [100] * 3, "i1", "i2") == 300
    assert into("sum", [100] * 3, "i1", "i1") == 44
    assert into("sum", [True] * 3, "?", "u1") == 3
    assert into("sum", [True] * 3, "?", "?")
    assert not into("prod", [True, False], "?", "?")
    assert into("max", [1, 2], "i8", "f4", initial=2.5) == 2.5


def test_whole_numbers_stay_whole():
    out = np.empty((), np.int64)
    a = np.array([2**62 + 1, 2**61], np.uint64)  # NumPy adds them as float64
    assert gpuops.sum(a, out=out) == 2**62 + 2**61 + 1


def test_out_with_bfloat16():
    bfloat16 = engine.bfloat16()
    ones = np.ones(300, bfloat16)
    for out in ("f2", "f4", "f8", "c8"):
        assert gpuops.sum(ones, out=np.empty((), out)) == 300
    for have in ("f2", "f4", "i4", "u1", "?"):
        out = np.empty((), bfloat16)
        gpuops.sum(ones.astype(have)[:100], out=out)
        assert out == 100
    with pytest.raises(TypeError, match=r"^sum: .*float64 cannot be cast to out's int32"):
        gpuops.sum(ones, out=np.empty((), "i4"))


@pytest.mark.parametrize("device", engine.backends())
def test_out_on_a_device(device):
    a, wide = gpuops.to_device(np.ones(4, "f4"), device), np.zeros(4, "f8")
    with pytest.raises(TypeError, match="device array of float32 where float64 is needed"):
        gpuops.sum(a, out=np.empty((), "f8"))
    out = gpuops.to_device(np.zeros(()), device)
    assert gpuops.sum(wide.astype("f4") + 1, out=out, device=device) is out
    assert out.get() == 4


def test_out_of_an_unknown_dtype():
    for word in ("sum", "max"):
        with pytest.raises(TypeError, match=rf"^{word}: out has dtype .*accepted are"):
            getattr(gpuops, word)([2**62] * 4, out=np.empty((), np.longdouble))
    assert gpuops.any([1, 0], out=np.empty((), object)) == np.True_


# ---- initial ----

I1, U1, I4, F4 = (np.array([1, 2], word) for word in ("i1", "u1", "i4", "f4"))


@pytest.mark.parametrize(
    ("word", "a", "more"),
    [
        ("min", I4, {"initial": np.int64(2**40)}),
        ("max", I1, {"initial": np.int64(300)}),
        ("max", I1, {"initial": 300}),
        ("min", U1, {"initial": -1}),
        ("sum", [1, 2], {"dtype": "i1", "initial": 300}),
        ("sum", [1, 2], {"dtype": "i1", "initial": np.int64(300)}),
        ("sum", [1, 2], {"dtype": "u1", "initial": 300.0}),
        ("prod", I1, {"dtype": "u2", "initial": -1}),
        ("sum", [1, 2], {"initial": np.uint64(2**63 + 5)}),
        ("sum", [1, 2], {"initial": 2**200}),
        ("sum", [1, 2], {"initial": 1e30}),
        ("max", [1, 2], {"initial": -np.inf}),
        ("sum", U1, {"initial": -5}),
        ("sum", F4, {"initial": 2**2000}),
        ("sum", F4, {"initial": 10**6000}),
        ("sum", I1, {"out": np.zeros((), "i1"), "initial": 300}),
    ],
)
def test_initial_never_wraps(word, a, more):
    with pytest.raises(OverflowError):
        getattr(np, word)(a, **more)
    with pytest.raises(OverflowError, match=rf"^{word}: initial"):
        getattr(gpuops, word)(a, **more)


@pytest.mark.parametrize(
    ("error", "initial"),
    [(OverflowError, np.int64(-5)), (OverflowError, np.float64(-1.0)),
     (TypeError, np.complex128(1)), (TypeError, 1j), (TypeError, "5"), (TypeError, object()),
     (TypeError, 1.5), (TypeError, np.nan), (ValueError, [5]), (ValueError, np.ones(1))],
)  # fmt: skip
def test_initial_is_not_cut(error, initial):
    """NumPy wraps, cuts or drops parts of some of these."""
    with pytest.raises(error, match=r"^sum: initial"):
        gpuops.sum(U1, initial=initial)


@pytest.mark.parametrize("device", engine.backends())
@pytest.mark.parametrize(
    ("word", "a", "more"),
    [
        ("sum", U1, {"initial": np.int64(5)}),
        ("sum", [1, 2], {"initial": np.uint64(5)}),
        ("sum", [1, 2], {"initial": 0.0}),
        ("sum", [1, 2], {"initial": np.float32(3)}),
        ("sum", [1, 2], {"initial": True}),
        ("sum", [1, 2], {"initial": np.array(5)}),
        ("sum", [1, 2], {"initial": None}),
        ("sum", [1, 2], {"initial": np._NoValue}),
        ("prod", [[1.5, 2]], {"initial": None, "axis": 0}),
        ("max", [1, 2], {"initial": None}),
        ("max", [1.5, 2], {"initial": -np.inf}),
        ("max", F4, {"initial": 1e300}),
        ("sum", F4, {"initial": np.float64(1e300)}),
        ("sum", F4, {"initial": 2**100}),
        ("sum", np.array([1, 2], "f2"), {"initial": 70000}),
        ("sum", np.array([1, 2], "c8"), {"initial": 2 + 1j}),
        ("min", [True], {"initial": 0}),
        ("max", [False], {"initial": 2.5}),
        ("sum", [True, True], {"dtype": bool, "initial": 5}),
        ("sum", U1, {"dtype": "i1", "initial": -5}),
        ("prod", I1, {"dtype": "u8", "initial": 2**63 + 5}),
        ("sum", [1, 2], {"out": np.zeros((), "f4"), "initial": 2.5}),
    ],
)
def test_initial_as_numpy_takes_it(device, word, a, more):
    with np.errstate(over="ignore"):
        want = getattr(np, word)(a, **more).copy()
    same_bits(np.asarray(getattr(gpuops, word)(a, **more, device=device)), np.asarray(want))


def test_initial_of_bfloat16():
    a = np.ones(3, engine.bfloat16())
    for initial in (1, 1.5, np.float32(1.5), np.float64(1.5), a[0]):
        got = gpuops.sum(a, initial=initial)
        assert got.dtype == a.dtype
        assert got == 3 + float(initial)
    assert gpuops.sum(a, initial=2**100) == 2.0**100
    with pytest.raises(OverflowError, match=r"^sum: initial of 2001 bits is out of bounds"):
        gpuops.sum(a, initial=2**2000)


@pytest.mark.parametrize("word", ["sum", "prod"])
def test_without_an_identity(word):
    function = getattr(gpuops, word)
    empty = np.ones((0, 3))
    for a, more in [(empty, {"axis": 0}), (empty, {}), ([1, 2], {"where": [True, False]})]:
        with pytest.raises(ValueError, match=rf"^{word}: with initial=None it needs elements"):
            function(a, initial=None, **more)
    assert function(empty, axis=1, initial=None).shape == (0,)


# ---- a root of -0.0 ----

ZEROS = ((1,), (700,), (2048 * 3 + 5,), (3, 4), (2, 2100), (2100, 9), (300, 40), (0, 3), (3, 0))


FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("word", FLOATS)
@pytest.mark.parametrize(("device", "kernel"), ROWS)
def test_no_sum_is_negative_zero(device, kernel, word, everything):
    """Nor a mean; a product may be, and a sum whose initial is -0.0 or None."""
    dtype = engine.bfloat16() if word == "bfloat16" else np.dtype(word)
    minus = np.array(complex(-0.0, -0.0) if dtype.kind == "c" else -0.0).astype(dtype)
    plus = np.zeros((), dtype)
    with np.errstate(invalid="ignore"):
        nan = plus / plus
    ran = 0
    for shape in ZEROS:
        a = np.full(shape, minus)
        for axis in (None, *range(a.ndim)):
            wants = []
            for mask in (None, np.zeros(shape, bool), np.arange(a.size).reshape(shape) % 2 > 0):
                more = {"axis": axis} | ({} if mask is None else {"where": mask})
                count = np.sum(np.ones(shape, int) if mask is None else mask, axis)
                wants += [
                    ("sum", more, plus),
                    ("sum", {**more, "initial": minus.item()}, minus),
                    ("mean", more, np.where(count > 0, plus, nan)),
                ]
            if np.all(np.sum(np.ones(shape, int), axis)):
                wants.append(("sum", {"axis": axis, "initial": None}, minus))
            if a.size and dtype.kind == "f":
                odd = a.size // np.size(np.sum(a, axis)) % 2
                wants.append(("prod", {"axis": axis}, minus if odd else plus))
            turn = FLOATS.index(word), ZEROS.index(shape)
            for name, more, want in engine.of_turn(
                wants, 6, everything, "reduce", device, kernel, *turn
            ):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing
                        got = attempt(getattr(gpuops, name), a, **more, device=device,
                                      kernel=kernel)  # fmt: skip
                except pytest.skip.Exception as refusal:
                    refused = str(refusal)
                    continue
                ran += 1
                got = np.asarray(got)
                same_bits(got, np.broadcast_to(np.asarray(want, dtype), got.shape))
    if not ran:
        pytest.skip(refused)


@pytest.mark.parametrize("device", engine.backends())
def test_zeros_as_numpys(device):
    def both(word, *arguments, **more):
        want = getattr(np, word)(*arguments, **more)
        same_bits(getattr(gpuops, word)(*arguments, **more, device=device), want)

    zeros = np.full((3, 4), -0.0)
    for word in ("sum", "mean", "prod"):
        both(word, [-0.0])
        both(word, zeros.astype("f2"), axis=1)
        both(word, zeros, axis=0, keepdims=True)
    both("sum", [-0.0], where=[False])
    both("sum", [], initial=-0.0)
    both("sum", [-0.0], initial=None)
    both("sum", zeros.astype("c8") * 1, axis=1)
    both("sum", np.full(4, complex(-0.0, -0.0)))
    both("mean", np.full(4, complex(-0.0, -0.0)))
    same_bits(gpuops.sum(zeros, axis=1, device=device), np.add.reduce(zeros, axis=1))
