"""reduce and its functions: the forms of NumPy's arguments, and what sentences name."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import same_bits
from numpy.exceptions import AxisError

import gpuops
from gpuops._call import reduction as _reduction

A = np.arange(12, dtype=np.float32).reshape(3, 4)
DEVICES = engine.backends()


@pytest.mark.parametrize("word", _reduction.WORDS)
def test_out_in_a_tuple(word):
    wide = np.full(4, 7, gpuops.reduce(A, word, 0).dtype)
    for function, more in ((getattr(gpuops, word), {}), (gpuops.reduce, {"op": word})):
        assert function(A, axis=0, out=(wide,), **more) is wide
        same_bits(wide, gpuops.reduce(A, word, 0))
    with pytest.raises(ValueError, match=f"^{word}: the 'out' tuple must have one entry"):
        gpuops.reduce(A, word, 0, out=(wide, wide))
    with pytest.raises(
        TypeError, match=rf"^{word}: out=\.\.\. stands by itself, not in a tuple"
    ):
        gpuops.reduce(A, word, 0, out=(...,))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("word", _reduction.WORDS)
def test_out_as_an_ellipsis_keeps_the_array(word, device):
    """So that a result of no axes is an array too."""
    got = gpuops.reduce(A, word, out=..., device=device)
    assert type(got) is np.ndarray
    assert got.shape == ()
    same_bits(got, np.asarray(gpuops.reduce(A, word, device=device)))
    same_bits(gpuops.reduce(A, word, 0, out=...), gpuops.reduce(A, word, 0))
    small = gpuops.sum(np.ones(3, "i1"), dtype="i1", out=...)
    same_bits(small, np.full((), 3, "i1"))


def test_the_operation_as_a_ufunc():
    for ufunc in (np.add, np.multiply, np.minimum, np.maximum, np.logical_or, np.logical_and):
        same_bits(gpuops.reduce(A, ufunc, 1), ufunc.reduce(A, 1))
    for function in (np.sum, np.max, np.argmin, gpuops.mean):
        same_bits(gpuops.reduce(A, function, 1), function(A, 1))
    for other in (np.subtract, np.std, len):
        with pytest.raises(TypeError, match=r"^reduce: there is no operation"):
            gpuops.reduce(A, other)


@pytest.mark.parametrize("where", [[1, 0, 2, 0], (0.5, 0, 0, 0), 1, 0, 1.0, True, False,
                                   [[True], [False], [True]], np.True_])  # fmt: skip
def test_where_of_a_list_or_a_number(where):
    """Those become bool as in NumPy; an array has to be bool already."""
    same_bits(gpuops.sum(A, axis=1, where=where), np.sum(A, axis=1, where=where))
    if not isinstance(where, np.bool_):
        with pytest.raises(TypeError, match=r"^sum: where has dtype int64, expected bool"):
            gpuops.sum(A, axis=1, where=np.array(where, int))


def test_keepdims_is_a_flag():
    for keepdims in (True, 1, 2, np.True_, np.int64(1)):
        assert gpuops.sum(A, axis=1, keepdims=keepdims).shape == (3, 1)
    assert gpuops.sum(A, keepdims=False) == gpuops.sum(A, keepdims=0) == A.sum()
    for keepdims in ("x", None, 1.0, [True]):
        with pytest.raises(TypeError, match=r"^max: keepdims is an integer, not"):
            gpuops.max(A, keepdims=keepdims)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("word", _reduction.WORDS)
def test_axes_of_a_scalar(word, device):
    """0 and -1 mean it, as in NumPy, whose mean refuses them; in a tuple there are none."""
    function, scalar = getattr(gpuops, word), np.float32(3)
    zero = () if word == "mean" else (0, -1)
    for axis in (*zero, None):
        same_bits(np.asarray(function(scalar, axis, device=device)),
                  np.asarray(function(scalar, device=device)))  # fmt: skip
    for axis in {0, -1, 1, -2, (0,), (-1,)}.difference(zero):
        with pytest.raises(AxisError, match=f"^{word}: axis .* is out of bounds"):
            function(scalar, axis, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("word", _reduction.WORDS)
def test_sentences_name_the_function(word, device):
    function = getattr(gpuops, word)
    where = {"where": A} if word not in ("argmin", "argmax") else {}
    for a, more in [(A, {"axis": 2}), (A, {"axis": (0, 0)}), (A, {"out": np.zeros(3, "f8")}),
                    (A, {"out": 3}), (A, {"axis": "x"}), ("x", {}), (A, {"out": A[:2]}),
                    (A, where or {"axis": 7})]:  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=f"^{word}: "):
            function(a, device=device, **more)
    out = np.broadcast_to(np.zeros((), gpuops.reduce(A, word).dtype), (4,))
    with pytest.raises(ValueError, match=f"^{word}: output array is read-only"):
        function(A, axis=0, out=out, device=device)
    if word in ("min", "max", "argmin", "argmax"):
        sentence = rf"^{word}: there is nothing to reduce in the array of shape \(0, 4\), and "
        with pytest.raises(ValueError, match=sentence):
            function(A[:0], axis=0, device=device)


def test_the_number_that_is_no_number():
    with pytest.raises(OverflowError, match=r"^sum: initial of 201 bits is out of bounds"):
        gpuops.sum([1, 2], initial=2**200)


@pytest.mark.parametrize("device", DEVICES)
def test_arithmetic_does_not_warn(device):
    """NumPy warns of each, or raises with these settings."""
    large, half = np.full(3, 1e300), np.full(3, 6e4, "f2")
    with np.errstate(all="raise"):
        assert gpuops.prod(large, device=device) == np.inf
        assert gpuops.sum(half, device=device) == np.inf
        assert gpuops.sum(large[:2], out=np.empty((), "f4"), device=device) == np.inf
        assert gpuops.sum(half.astype("f4"), initial=1e300, device=device) == np.inf
        assert gpuops.multiply_add(large, large, large, device=device)[0] == np.inf
        assert np.isnan(gpuops.mean([np.inf, -np.inf], device=device))
