"""What C++ leaves undefined, and a GPU defines: as a GPU does it, or an error."""

import numpy as np
import pytest
from sim_kernels import caught, needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

NAN = float("nan")
CODES = {"f4": "float", "f8": "double", "i1": "signed char", "i4": "int", "i8": "long long"}
CODES |= {"u1": "unsigned char", "u2": "unsigned short", "u4": "unsigned"}


def source(expression, out, x):
    return (
        f"__global__ void k({CODES[out]} *out, {CODES[x]} x, {CODES[x]} y)\n{{\n"
        f"    out[0] = {expression}; // here\n}}\n"
    )


def value(expression, out, kind, x, y=0):
    found = np.zeros(1, out)
    gpuops.compile(source(expression, out, kind))[1, 1](found, x, y)
    return found[0]


@pytest.mark.sampled(later=True)
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_the_smaller_and_the_larger_number(kind):
    f = "f" if kind == "f4" else ""
    for least, most in (("min", "max"), (f"fmin{f}", f"fmax{f}")):
        for x, y in ((NAN, 2), (2, NAN)):
            assert value(f"{least}(x, y)", kind, kind, x, y) == 2
            assert value(f"{most}(x, y)", kind, kind, x, y) == 2
        for x, y in ((0.0, -0.0), (-0.0, 0.0)):
            assert np.signbit(value(f"{least}(x, y)", kind, kind, x, y))
            assert not np.signbit(value(f"{most}(x, y)", kind, kind, x, y))
        assert value(f"{least}(x, y) + {most}(x, y)", kind, kind, 3, 5) == 8
    assert not np.signbit(value(f"fmax{f}(0.{f}, -0.{f})", kind, kind, 0))


def test_a_long_double_is_a_double():
    assert value("sizeof(long double)", "i4", "i4", 0) == 8


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("cast", "out", "kind", "x", "said"),
    [
        ("(int)x", "i4", "f4", 3e9, r"makes int of 3e\+09"),
        ("(int)x", "i4", "f4", NAN, "makes int of nan"),
        ("int(x)", "i4", "f8", -3e9, r"makes int of -3e\+09"),
        ("static_cast<int>(x * 2)", "i4", "f4", 2e9, r"makes int of 4e\+09"),
        ("x", "i4", "f8", float("inf"), "makes int of inf"),
        ("(int)3e9f", "i4", "f4", 0, r"makes int of 3e\+09"),
        ("(unsigned)x", "u4", "f4", -1, "makes unsigned.* of -1"),
        ("(unsigned char)x", "u1", "f4", 256, "makes unsigned char of 256"),
        ("(short)x", "i4", "f8", -40000, "makes short.* of -40000"),
        ("(long long)x", "i8", "f8", 1e30, r"makes long long.* of 1e\+30"),
    ],
)
def test_a_cast_of_what_the_integer_has_not(cast, out, kind, x, said):
    launch = lambda k: k[1, 1](np.zeros(1, out), x, 0)  # noqa: E731
    caught(
        source(cast, out, kind), launch, said + ", which C\\+\\+ leaves undefined", "// here"
    )
    with gpuops.schedule(checks=False):
        launch(gpuops.compile(source(cast, out, kind)))


def test_casts_up_to_the_ends():
    assert value("(int)x", "i4", "f4", 2147483520.0) == 2147483520
    assert value("(int)x", "i4", "f8", -2147483648.9) == -(2**31)
    assert value("(unsigned)x", "u4", "f8", 4294967295.5) == 2**32 - 1
    assert value("(unsigned)x", "u4", "f4", -0.9) == 0
    assert value("(unsigned short)x", "u2", "f4", 65535.9) == 65535


@pytest.mark.parametrize(
    ("shift", "out", "by", "said"),
    [
        ("1u << x", "u4", 32, "shifts unsigned.* of 32 bits by 32"),
        ("1 << x", "i4", -1, "shifts int of 32 bits by -1"),
        ("-8 >> x", "i4", 40, "shifts int of 32 bits by 40"),
        ("1ull << x", "i8", 64, "shifts .*long.* of 64 bits by 64"),
        ("1u << 40", "u4", 0, "shifts unsigned.* of 32 bits by 40"),
    ],
)
def test_a_shift_by_the_width_or_more(shift, out, by, said):
    launch = lambda k: k[1, 1](np.zeros(1, out), by, 0)  # noqa: E731
    caught(
        source(shift, out, "i4"), launch, said + ", which C\\+\\+ leaves undefined", "// here"
    )


def test_shifts_below_the_width():
    assert value("1 << x", "i4", "i4", 31) == -(2**31)
    assert value("-8 >> x", "i4", "i4", 31) == -1
    assert value("1ull << x", "i8", "i4", 40) == 2**40


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("expression", "x"),
    [
        *((e, 0) for e in ("7 / x", "7 % x", "7u % (unsigned)x", "7ll / x", "7 / 0")),
        # Of these the compiler would make a comparison or a number.
        *((e, 0) for e in ("1 / x", "x / x", "0 / x", "x % x", "1u / (unsigned)x", "0ll % x")),
        *((f"(-2147483647 - 1) {symbol} x", -1) for symbol in "/%"),
    ],
)
def test_a_division_without_a_quotient(expression, x):
    launch = lambda k: k[1, 1](np.zeros(1, "i4"), x, 0)  # noqa: E731
    caught(source(expression, "i4", "i4"), launch, "divides .* by 0", "// here")
