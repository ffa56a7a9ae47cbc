"""CUDA's functions of words that hold two halfwords or four bytes, and of halves."""

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim")]

EDGES = (0, ~0, 0x80008000, 0x80808080, 0x7FFF7FFF, 0x7F7F7F7F, 0x00010001, 0x8000FFFF)
COMPARED = {"eq": np.equal, "ne": np.not_equal}
for _name, _function in (
    ("ge", np.greater_equal), ("gt", np.greater), ("le", np.less_equal), ("lt", np.less),
):  # fmt: skip
    COMPARED |= {f"{_name}s": _function, f"{_name}u": _function}
# The name's end says how to read a part: u (and nothing) without a sign, s with one.
BINARY = {
    "add": lambda a, b, end: a + b,
    "addss": lambda a, b, end: np.clip(a + b, -end, end - 1),
    "addus": lambda a, b, end: np.minimum(a + b, 2 * end - 1),
    "sub": lambda a, b, end: a - b,
    "subss": lambda a, b, end: np.clip(a - b, -end, end - 1),
    "subus": lambda a, b, end: np.maximum(a - b, 0),
    "absdiffs": lambda a, b, end: abs(a - b),
    "absdiffu": lambda a, b, end: abs(a - b),
    "avgs": lambda a, b, end: np.where(a + b < 0, (a + b) >> 1, (a + b + 1) >> 1),
    "avgu": lambda a, b, end: (a + b + 1) >> 1,
    "haddu": lambda a, b, end: (a + b) >> 1,
    "maxs": lambda a, b, end: np.maximum(a, b),
    "maxu": lambda a, b, end: np.maximum(a, b),
    "mins": lambda a, b, end: np.minimum(a, b),
    "minu": lambda a, b, end: np.minimum(a, b),
}
for _name, _function in COMPARED.items():
    BINARY[f"cmp{_name}"] = lambda a, b, end, f=_function: -f(a, b).astype("i8")
    BINARY[f"set{_name}"] = lambda a, b, end, f=_function: f(a, b).astype("i8")
UNARY = {
    "abs": lambda a, end: abs(a),
    "absss": lambda a, end: np.minimum(abs(a), end - 1),
    "neg": lambda a, end: -a,
    "negss": lambda a, end: np.minimum(-a, end - 1),
}


def parts(words, count, signed):
    kind = f"{'i' if signed else 'u'}{4 // count}"
    return words.view(kind).reshape(-1, count).astype("i8")


def words_of(numbers, count):
    kind = f"u{4 // count}"
    return numbers.astype("i8").astype(kind).view("u4").ravel()


@pytest.mark.parametrize("count", [2, 4])
def test_packed_words(count):
    rng = np.random.default_rng(count)
    x, y = rng.integers(0, 1 << 32, (2, 256), dtype="u4")
    x[:64] = np.repeat(np.array(EDGES, "i8").astype("u4"), 8)
    y[:64] = np.tile(np.array(EDGES, "i8").astype("u4"), 8)
    end = 1 << (32 // count - 1)
    want = {}
    for name, function in BINARY.items():
        signed = name[-1] == "s" and name[-2:] != "us"
        a, b = parts(x, count, signed), parts(y, count, signed)
        want[f"__v{name}{count}(a, b)"] = words_of(function(a, b, end), count)
    for name, function in UNARY.items():
        want[f"__v{name}{count}(a)"] = words_of(function(parts(x, count, True), end), count)
    for name, signed in (("sads", True), ("sadu", False)):
        apart = abs(parts(x, count, signed) - parts(y, count, signed))
        want[f"__v{name}{count}(a, b)"] = apart.sum(1).astype("u4")
    stores = "\n".join(f"    o[{j} * 256 + i] = {call};" for j, call in enumerate(want))
    out = np.zeros((len(want), 256), "u4")
    gpuops.compile(
        "__global__ void k(const unsigned *x, const unsigned *y, unsigned *o)\n"
        f"{{\n    unsigned i = threadIdx.x, a = x[i], b = y[i];\n{stores}\n}}"
    ).k[1, 256](x, y, out)
    for got, (call, words) in zip(out, want.items(), strict=True):
        assert got.tolist() == words.tolist(), call


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("__fns(0xf0, 0, 1)", 4),
        ("__fns(0xf0, 5, 2)", 6),
        ("__fns(0xf0, 7, -3)", 5),
        ("__fns(0xf0, 7, 0)", 7),
        ("__fns(0xf0, 3, 0)", -1),
        ("__fns(0xf0, 0, 5)", -1),
        ("__fns(1, 0, -1)", 0),
        ("__dp2a_lo(0x00020003, 0x01020304, 100)", 100 + 3 * 4 + 2 * 3),
        ("__dp2a_hi((int)0xffff0003, 0x01ff0304, 0)", 3 * -1 + -1 * 1),
        ("(int)__dp2a_hi(0xffff0003u, 0x01ff0304u, 0u)", 3 * 255 + 65535),
        ("(int)umin(3u, 2u) + (int)umax(3u, 2u)", 5),
        ("(int)llmin(-3, 2) + (int)ullmax(3, 2)", 0),
        ("__ldca(o) + __ldcv(o) + __ldlu(o)", 21),
        ("2.5", 2),  # what is stored becomes the array's type
    ],
)
def test_words_of_one(call, value):
    out = np.full(2, 7, "i4")
    gpuops.compile(
        "__global__ void __maxnreg__(64) k(int *o)\n"
        f"{{\n    __builtin_assume(o != nullptr);\n    __stwt(o, {call});\n"
        "    __stcs(o + 1, 1.0);\n}"
    ).k[1, 1](out)
    assert out.tolist() == [value, 1]


HALVES = """#include <cuda_fp16.h>
__global__ void k(const __half *x, const __half *y, __half *o, int *n)
{
    const int i = threadIdx.x % 32;
    const __half a = x[i], b = y[i];
    __half *p = o + 12 * i;
    *p++ = __hneg(a), *p++ = __habs(a), *p++ = __hmin(a, b), *p++ = __hmax(a, b);
    *p++ = hsqrt(__habs(a)), *p++ = hexp(a), *p++ = hfloor(a), *p++ = hrint(a);
    *p++ = __ushort_as_half(__half_as_ushort(a)), *p++ = __int2half_rn(3000 * i + 7);
    *p++ = __double2half(1.0 / 3), *p++ = __shfl_xor_sync(0xffffffff, a, 1);
    n += 5 * i;
    n[0] = __hisnan(a), n[1] = __hisinf(a), n[2] = __half2int_rn(a), n[3] = __half2int_rz(a);
    n[4] = half(7ll) == half(7u);
}
"""


def test_halves():
    edges = [0, -0.0, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 65504, 6e-8, -1, 0.1, 3.7, -3.7]
    x = np.resize(np.array(edges, "f2"), 32)
    y = np.roll(x, 3)
    out, n = np.zeros((32, 12), "f2"), np.zeros((32, 5), "i4")
    gpuops.compile(HALVES).k[1, 32](x, y, out, n)
    wide, i = x.astype("f8"), np.arange(32)
    with np.errstate(over="ignore"):
        want = np.stack(
            [-x, abs(x), np.fmin(x, y), np.fmax(x, y), np.sqrt(abs(wide)), np.exp(wide),
             np.floor(x), np.rint(x), x, 3000.0 * i + 7, np.full(32, 1 / 3), x[i ^ 1]], 1,
        ).astype("f2")  # fmt: skip
    np.testing.assert_array_equal(out, want)
    whole = np.nan_to_num(wide, nan=0, posinf=2**31 - 1, neginf=-(2**31))
    infinite = np.where(np.isinf(x), np.sign(x), 0)
    columns = [np.isnan(x), infinite, np.rint(whole), np.trunc(whole), np.ones(32)]
    assert n.tolist() == np.stack(columns, 1).astype(int).tolist()
