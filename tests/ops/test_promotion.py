"""The common dtype of operands that have several: the core's table against NumPy's rules."""

import itertools

import numpy as np
import pytest
from engine import bfloat16, same_bits

import gpuops
from gpuops import _core
from gpuops._call.dtypes import is_bfloat16
from gpuops._call.road import calls

DTYPES = [np.dtype(c) for c in "?bhilBHILefdFD"]
NUMBERS = (3, 2.5, 1 + 2j)
WEAK = dict(zip(NUMBERS, "ifc", strict=True))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_of_arrays(count):
    for dtypes in itertools.product(DTYPES, repeat=count):
        assert _core.promote(dtypes, "") == np.result_type(*dtypes), dtypes


@pytest.mark.parametrize("number", NUMBERS)
def test_beside_a_number(number):
    for dtypes in itertools.product(DTYPES, repeat=2):
        assert _core.promote(dtypes, WEAK[number]) == np.result_type(*dtypes, number), dtypes


def test_of_bfloat16():
    """Where NumPy knows no common dtype of it, it counts as float32; numbers are weak."""
    b = bfloat16()
    assert is_bfloat16(b)  # which tells the core of it
    for d in (b, *DTYPES):
        try:
            expected = np.result_type(b, d)
        except TypeError:
            expected = np.result_type(np.float32, d)
        assert _core.promote((b, d), "") == _core.promote((d, b), "") == expected, d
    assert [_core.promote((b,), k) for k in "ifc"] == [b, b, np.complex64]


def test_calls_promote_alike():
    """A call and the Call of its arguments, both as NumPy does."""
    rng = np.random.default_rng(0)
    arrays = [(rng.random((3, 4)) * 9).astype(d) for d in DTYPES]
    for a, b in itertools.product(arrays, [*arrays, *NUMBERS]):
        for x, y in ((a, b), (b, a), (a.T, b.T if isinstance(b, np.ndarray) else b)):
            got, wanted = gpuops.add(x, y), np.add(x, y)
            same_bits(got, wanted)
            assert got.strides == wanted.strides
            same_bits(calls["add"](x, y).run(), wanted)


@pytest.mark.parametrize("number", [300, -1, 2**70, 1e300, -1e5, 1e300j, True, np.float32(2)])
def test_numbers_that_do_not_fit_are_as_in_numpy(number):
    for d in DTYPES:
        a = np.ones(3, d)
        try:
            with np.errstate(all="ignore"):
                wanted = np.add(a, number)
        except OverflowError:
            with pytest.raises(OverflowError, match="out of bounds"):
                gpuops.add(a, number)
            continue
        same_bits(gpuops.add(a, number), wanted)


@pytest.mark.parametrize(("second", "first"), [("q", "l"), ("Q", "L")])
def test_long_long_is_a_name_that_results_do_not_bear(second, first):
    """docs/numerics.md: NumPy knows int64 twice, the core once."""
    a = np.arange(4, dtype=second)
    for made in (gpuops.add(a, a), gpuops.max(a), gpuops.sum(a), gpuops.matmul(a, a)):
        assert made.dtype.char == first
    assert gpuops.transpose(a).dtype.char == second
