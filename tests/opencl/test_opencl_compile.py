"""compile of OpenCL C: on an OpenCL device, and on sim, which finds its mistakes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from engine import random, same_bits
from opencl_machine import needs_build
from sim_kernels import HAS_SIM, ORDERS, needs_sim

import gpuops
from gpuops.devices import why_not

pytestmark = pytest.mark.sampled(every=3)
COPY = """
__kernel void copy(__global const float *a, __global float *out, int n)
{
    int i = get_global_id(0);
    if (i < n) out[i] = a[i];
}
"""
TRANSPOSE = """
#define SIDE 16
typedef float real;
__kernel void transpose(__global const real *in, __global real *out, const uint n)
{
    __local real tile[SIDE][SIDE + 1];
    uint x = get_group_id(0) * SIDE + get_local_id(0);
    uint y = get_group_id(1) * SIDE + get_local_id(1);
    if (x < n && y < n) tile[get_local_id(1)][get_local_id(0)] = in[y * n + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    x = get_group_id(1) * SIDE + get_local_id(0);
    y = get_group_id(0) * SIDE + get_local_id(1);
    if (x < n && y < n) out[y * n + x] = tile[get_local_id(0)][get_local_id(1)];
}
"""
SUM = """
__kernel void sum(__global const int *a, __global int *out, __local int *part)
{
    int l = get_local_id(0);
    part[l] = a[get_global_id(0)];
    for (int d = get_local_size(0) / 2; d > 0; d /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < d) part[l] += part[l + d];
    }
    if (l == 0) atomic_add(out, part[0]);
}
"""

DTYPE = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "long": "i8", "ulong": "u8",
}  # fmt: skip


# ---- right ones ----


def test_copy(place):
    a, out = random(1000, "f4"), np.zeros(1000, "f4")
    program = gpuops.compile(COPY, place)
    assert repr(program) == f"<OpenCL program of copy, on {program.device}>"
    program[16, 64](a, out, 1000)
    same_bits(out, a)
    there = gpuops.to_device(np.zeros(1000, "f4"), place)
    program.copy[16, 64](gpuops.to_device(a, place), there, np.int32(900))
    same_bits(there.get()[:900], a[:900])
    assert not there.get()[900:].any()


def test_local_arrays_macros_and_two_axes(place):
    a, out = random((50, 50), "f4"), np.zeros((50, 50), "f4")
    gpuops.compile(TRANSPOSE, place)[(4, 4), (16, 16)](a, out, 50)
    same_bits(out, a.T)


def test_local_memory_of_the_launch(place):
    """Of two pointers each has its own; for vectors the number of vectors."""
    a, out = np.arange(256, dtype="i4"), np.zeros(1, "i4")
    k = gpuops.compile(SUM, place)
    k[4, 64](a, out, 64)
    assert out == a.sum()
    assert [p.local for p in k.sum.parameters] == [False, False, True]
    two = gpuops.compile("""
    __kernel void two(__global int *a, __local int *s, __local int4 *t)
    {
        int l = get_local_id(0), last = get_local_size(0) - 1;
        s[l] = l;
        t[l] = (int4)(10 * l);
        barrier(CLK_LOCAL_MEM_FENCE);
        a[l] = s[last - l] + t[last - l].w;
    }
    """, place)  # fmt: skip
    got = np.zeros(33, "i4")
    two[1, 33](got, 33, 33)
    assert (got == 11 * np.arange(33)[::-1]).all()


VECTORS = """
float twice(float x) { return 2 * x; }
__constant float add[4] = {1, 2, 3, 4};
__kernel void words(__global const float4 *a, __global float *out, __global int *whole)
{
    float4 v = a[get_global_id(0)], u = (float4)(v.xy, v.hi);
    float8 w = (float8)(u, v * 2.0f - u);
    float16 z = (float16)(w, w);
    u.zw = v.yx;
    int4 more = convert_int4_sat_rte(v * 1e9f), less = v < (float4)(0.5f);
    float4 c = clamp(mad(u, v, v), -1.0f, 1.0f) + select(u, v, less);
    vstore4(c, 0, out);
    vstore4(v, 1, out);
    out[8] = twice(dot(u, v)) + z.sF + z.s9 + w.even.x + add[3];
    out[9] = fma(v.x, v.y, v.z) + fmin(v.x, v.y) + fmax(v.z, v.w) + max(v.x, 2.0f);
    out[10] = vload3(1, out).z + length(v.xyz);
    out[11] = as_float(as_int(v.x) ^ 1) + rsqrt(4.0f) + native_sqrt(16.0f);
    whole[0] = more.x, whole[1] = less.y, whole[2] = any(less), whole[3] = all(less);
    whole[4] = mul24(7, -3) + mad24(2, 3, 4) + mul_hi(1 << 30, 16) + rotate(5, 31);
    whole[5] = clamp(12, 0, 9) + abs_diff(3, 8) + popcount(255) + clz(1);
    whole[5] += convert_uchar_sat(999);
    whole[6] = get_global_size(0) + get_num_groups(0) + get_group_id(2) + get_local_size(1);
    whole[7] = as_int((short2)(1, 2));
}
"""


def test_vectors_and_functions_have_the_devices_bits():
    """sim beside the driver: constructors, parts, conversions, functions, vload and vstore."""
    if (why := why_not("opencl")) or not HAS_SIM:
        pytest.skip(f"needs sim and an OpenCL device: {why}")
    found = []
    for place in ("opencl", "sim"):
        a = np.array([0.25, 0.75, -3.5, 1.125], "f4")
        out, whole = np.zeros(12, "f4"), np.zeros(8, "i4")
        gpuops.compile(VECTORS, place)[1, 1](a, out, whole)
        found.append((out, whole))
    same_bits(found[1][1], found[0][1])
    same_bits(found[1][0], found[0][0])


@pytest.mark.parametrize("mode", ["", "_rte", "_rtz", "_rtp", "_rtn"])
def test_conversions_to_floats_round_as_they_say(place, mode):
    """The mode counts where the float cannot hold the number: the four ways differ."""
    numbers = {
        "int": np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1, -(2**31), 2**31 - 1], "i4"),
        "uint": np.array([2**24 + 1, 2**24 + 3, 7, 2**31, 2**32 - 1], "u4"),
        "long": np.array([2**53 + 1, -(2**53) - 3, 2**63 - 1, -(2**63), 5], "i8"),
        "ulong": np.array([2**53 + 1, 2**53 + 3, 2**64 - 1, 2**63 + 1, 5], "u8"),
        "double": np.array([0.1, -0.1, 1e-46, -1e300, 1.5]),
    }
    for to, dtype in (("float", np.float32), ("double", np.float64)):
        kernels = "".join(
            f"__kernel void from_{name}(__global const {name} *a, __global {to} *b)\n"
            f"{{ vstore4(convert_{to}4{mode}(vload4(0, a)), 0, b);"
            f" b[4] = convert_{to}{mode}(a[4]); }}\n"
            for name in numbers
        )
        program = gpuops.compile(kernels, place)
        for name, a in numbers.items():
            got = np.zeros(5, dtype)
            program.kernels[f"from_{name}"][1, 1](a, got)
            assert got.tolist() == [_rounded(x, dtype, mode) for x in a.tolist()], name


def _rounded(x, dtype, mode: str) -> float:
    """The float nearest to it, or its neighbour on the side that the mode wants."""
    with np.errstate(over="ignore"):
        near = dtype(x)
    exact = Fraction(x)
    is_above = np.isposinf(near) or (np.isfinite(near) and Fraction(float(near)) > exact)
    is_below = np.isneginf(near) or (np.isfinite(near) and Fraction(float(near)) < exact)
    down = mode == "_rtn" or (mode == "_rtz" and exact > 0)
    up = mode == "_rtp" or (mode == "_rtz" and exact < 0)
    if (down and is_above) or (up and is_below):
        near = np.nextafter(near, dtype(-np.inf if down else np.inf))
    return float(near)


def test_the_highest_bit_selects(place):
    """Of the elements of vectors, signed or not; of a number whether it is 0."""
    k = gpuops.compile(
        """__kernel void select_(__global uchar *m, __global uchar *b)
    { uchar4 no = (uchar4)(1), yes = (uchar4)(2), which = vload4(0, m);
      vstore4(select(no, yes, which), 0, b);
      vstore4(select(no, yes, as_char4(which)), 1, b);
      b[8] = select(no.x, yes.x, which.y); }""",
        place,
    )
    b = np.zeros(9, "u1")
    k[1, 1](np.array([0, 1, 127, 128], "u1"), b)
    assert b.tolist() == [1, 1, 1, 2, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("word", ["char", "uchar", "short", "ushort", "int", "uint", "long",
                                  "ulong"])  # fmt: skip
def test_functions_of_every_integer(place, word):
    """By Python's integers: products' upper halves, sizes and distances, which are unsigned."""
    bits = 8 * np.dtype(DTYPE[word]).itemsize
    limits = np.iinfo(DTYPE[word])
    a = np.array([limits.min, limits.max, limits.max - 5, 3, limits.min + 1, 101], limits.dtype)
    b = np.array([limits.max, limits.max, 77, limits.min, limits.max, 90], limits.dtype)
    unsigned = "u" + word.removeprefix("u")
    k = gpuops.compile(
        f"""
    __kernel void all_(__global const {word} *a, __global const {word} *b,
                       __global {word} *high, __global {unsigned} *sizes, __global long *wide)
    {{
        {word}2 x = vload2(0, a), y = vload2(0, b);
        vstore2(mul_hi(x, y), 0, high);
        vstore2(abs(x), 0, sizes);
        vstore2(abs_diff(x, y), 0, sizes + 6);
        for (int i = 2; i < 6; i++) {{
            high[i] = mul_hi(a[i], b[i]);
            sizes[i] = abs(a[i]);
            sizes[i + 6] = abs_diff(a[i], b[i]);
        }}
        wide[0] = abs_diff(a[0], b[0]);
        wide[1] = abs(a[0]);
    }}""",
        place,
    )
    high, sizes, wide = np.zeros_like(a), np.zeros(12, DTYPE[unsigned]), np.zeros(2, "i8")
    k[1, 1](a, b, high, sizes, wide)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert high.tolist() == [x * y >> bits for x, y in pairs]
    assert sizes.tolist() == [*(abs(x) for x, _ in pairs), *(abs(x - y) for x, y in pairs)]
    assert wide.view("u8").tolist() == [limits.max - limits.min, abs(limits.min)]


@pytest.mark.parametrize("word", ["char", "uchar", "short", "uint", "int", "long", "ulong"])
def test_sums_within_bounds_and_averages(place, word):
    limits = np.iinfo(DTYPE[word])
    edges = np.array(
        [limits.min, limits.min + 1, 0, 3, limits.max - 1, limits.max], limits.dtype
    )
    a, b = np.repeat(edges, 6), np.tile(edges, 6)
    k = gpuops.compile(
        f"""
    __kernel void all_(__global const {word} *a, __global const {word} *b, __global {word} *o)
    {{
        int i = get_global_id(0);
        {word} x = a[i], y = b[i];
        o[i] = add_sat(x, y), o[i + 36] = sub_sat(x, y);
        {word}2 v = ({word}2)(x, y), w = ({word}2)(y, x);
        o[i + 72] = hadd(v, w).x, o[i + 108] = rhadd(v, w).y;
    }}""",
        place,
    )
    out = np.zeros(144, limits.dtype)
    k[6, 6](a, b, out)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    kept = [min(max(z, limits.min), limits.max) for z in
            [*(x + y for x, y in pairs), *(x - y for x, y in pairs)]]  # fmt: skip
    want = [*kept, *((x + y) >> 1 for x, y in pairs), *((x + y + 1) >> 1 for x, y in pairs)]
    assert out.tolist() == want


def test_relations_of_numbers_and_vectors(place):
    names = ["isequal", "isnotequal", "isless", "islessequal", "isgreater", "isgreaterequal",
             "islessgreater"]  # fmt: skip
    lines = "".join(f"*o++ = {n}(x, y); *o++ = {n}((float2)(x, y), (float2)(y, y)).x;"
                    for n in names)  # fmt: skip
    k = gpuops.compile(
        f"""
    __kernel void all_(__global const float *a, __global const float *b, __global int *out)
    {{
        __global int *o = out + 14 * get_global_id(0);
        float x = a[get_global_id(0)], y = b[get_global_id(0)];
        {lines}
    }}""",
        place,
    )
    edges = np.array([-np.inf, -1, -0.0, 0, 1, np.nan], "f4")
    a, b = np.repeat(edges, 6), np.tile(edges, 6)
    out = np.zeros((36, 14), "i4")
    k[6, 6](a, b, out)
    want = np.stack([a == b, a != b, a < b, a <= b, a > b, a >= b, (a < b) | (a > b)], 1)
    assert out[:, 0::2].tolist() == want.astype(int).tolist()
    assert out[:, 1::2].tolist() == (-want.astype(int)).tolist()


def test_operators_of_vectors(place):
    """Those that C has for numbers, and distances of shifts, which count modulo the width."""
    k = gpuops.compile(
        """__kernel void words(__global const int *a, __global int *o, __global char *c)
    {
        int4 v = vload4(0, a), u = (int4)(1, 2, 3, 4), w = u--;
        vstore4(w + v++ * --u, 0, o);
        vstore4((v && u) + 2 * (v < 0 || u == 3) + 4 * !v, 1, o);
        vstore4(v << (int4)(33, 1, 64, 2), 2, o);
        o[12] = v.x << a[4], o[13] = v.x >> a[5], o[14] = (int)((long)v.x << (a[4] + 32));
        float4 f = cross((float4)(1, 0, 0, 5), (float4)(0, 1, 0, 7));
        o[15] = f.z + 10 * f.w;
        char4 b = (char4)(3, -5, 100, -128);
        vstore4(b << (char4)(9), 0, c);
        vstore4(b >> (char)(9), 1, c);
    }""",
        place,
    )
    a = np.array([-3, 7, 0, 9, 33, -31], "i4")
    o, c = np.zeros(16, "i4"), np.zeros(8, "i1")
    k[1, 1](a, o, c)
    v, u, w = a[:4] + 1, np.array([-1, 0, 1, 2]), np.array([1, 2, 3, 4])
    truths = ((v != 0) & (u != 0), (v < 0) | (u == 3), v == 0)
    want = [
        w + a[:4] * u,
        -sum(n * t.astype("i4") for n, t in zip((1, 2, 4), truths, strict=True)),
    ]
    want += [v << [1, 1, 0, 2], [v[0] << 1, v[0] >> 1, v[0] << 1, 1]]
    assert o.tolist() == np.concatenate(want).tolist()
    b = np.array([3, -5, 100, -128], "i1")
    assert c.tolist() == [*(b << 1).tolist(), *(b >> 1).tolist()]


@needs_sim
def test_a_constant_distance_beyond_the_width_is_refused():
    source = "__kernel void k(__global int *a) { *a = *a << 33; }"
    with pytest.raises(gpuops.CompileError, match=r"(?s)line 1: left shift count >= width"):
        gpuops.compile(source, "sim")


def test_halves(place):
    source = """__kernel void halves(__global const half *a, __global half *b)
    { int i = get_global_id(0); vstore_half(vload_half(i, a) / 2, i, b); }"""
    a = np.linspace(-9, 9, 64).astype("f2")
    b = np.zeros_like(a)
    gpuops.compile(source, place)[1, 64](a, b)
    same_bits(b, (a.astype("f4") / 2).astype("f2"))


def test_products_and_sums_are_rounded_apart(place):
    """As NumPy has them: nothing is contracted, quotients are correctly rounded."""
    k = gpuops.compile("""
    __kernel void mixed(__global const float *a, __global const float *b, __global float *out)
    {
        int i = get_global_id(0);
        out[i] = a[i] * b[i] + a[i] / b[i];
    }
    """, place)  # fmt: skip
    a, b, out = random(256, "f4", 1), random(256, "f4", 2), np.zeros(256, "f4")
    k[4, 64](a, b, out)
    same_bits(out, a * b + a / b)


def test_arrays_that_share_memory(place):
    """The same one twice, and its first elements."""
    k = gpuops.compile(COPY, place)
    a = random(65, "f4")
    want = a.copy()
    k[1, 64](a, a, 64)
    same_bits(a, want)
    k[1, 64](a, a[:60], 60)
    same_bits(a, want)


def test_no_elements_and_an_include(place, tmp_path):
    """A file of its own folder; an array of none is a null pointer."""
    (tmp_path / "more.h").write_text("#define PLUS 3\n")
    (tmp_path / "k.cl").write_text(
        '#include "more.h"\n__kernel void k(__global int *a, __global int *b)'
        "{ a[get_global_id(0)] += PLUS; }"
    )
    a = np.zeros(8, "i4")
    gpuops.compile(tmp_path / "k.cl", place)[1, 8](a, np.zeros(0, "i4"))
    assert (a == 3).all()


def test_what_c_allows_and_cxx_does_not(place):
    """Words of C++ as names; qualifiers without underscores; a required size."""
    k = gpuops.compile("""
    __attribute__((reqd_work_group_size(8, 1, 1)))
    kernel void k(global int *this, constant int *new)
    {
        local int class[8];
        int i = get_local_id(0);
        class[i] = new[i];
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        this[i] = class[7 - i];
    }
    """, place)  # fmt: skip
    a = np.zeros(8, "i4")
    k[1, 8](a, np.arange(8, dtype="i4"))
    assert (a == np.arange(8)[::-1]).all()
    with pytest.raises(gpuops.DeviceError, match=r"expected the \(8, 1, 1\) of its reqd_work"):
        k[2, 4](a, a)


# ---- wrong ones ----


@pytest.mark.parametrize(("change", "line", "words"), [
    (("a[i]", "b[i]"), 5, "b"),
    (("a[i];", "a[i]"), 5, "expected ';'"),
    (("out[i] = a[i]", "out[i] = nowhere(a[i])"), 5, "nowhere"),
])  # fmt: skip
def test_the_first_error_with_its_line(place, change, line, words):
    with pytest.raises(gpuops.CompileError) as caught:
        gpuops.compile(COPY.replace(*change), place)
    first, second, third = str(caught.value).splitlines()
    assert first == "compile: the source does not compile"
    assert second.startswith(f"line {line}: ")
    assert words in second
    assert third.strip() == COPY.splitlines()[line - 1].strip().replace(*change)


@pytest.mark.parametrize(("args", "kind", "words"), [
    (("a", "out"), TypeError, "copy: expected 3 arguments, got 2"),
    (("a", "out", 2.5), TypeError, "argument 2 is 2.5, the kernel takes an integer"),
    (("a", "wide", 2), TypeError, "argument 1 has dtype float64, the kernel takes float32"),
    (("a", "fixed", 2), ValueError, "argument 1 is read-only, and the kernel may store to it"),
    (("a", "strided", 2), ValueError, "argument 1 is not C-contiguous; pass a copy of it"),
    ((3, "out", 2), TypeError, "argument 0 is 3, the kernel takes an array"),
])  # fmt: skip
def test_wrong_arguments_are_one_sentence(place, args, kind, words):
    fixed = np.zeros(8, "f4")
    fixed.flags.writeable = False
    arrays = {
        "a": np.ones(8, "f4"), "out": np.zeros(8, "f4"), "wide": np.zeros(8),
        "fixed": fixed, "strided": np.zeros(16, "f4")[::2],
    }  # fmt: skip
    given = [arrays.get(x, x) if isinstance(x, str) else x for x in args]
    with pytest.raises(kind) as caught:
        gpuops.compile(COPY, place)[1, 8](*given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_launches_that_are_too_large_or_made_otherwise(place):
    k, a = gpuops.compile(COPY, place), np.ones(8, "f4")
    with pytest.raises(gpuops.DeviceError, match=r"100000, 1, 1\).*expected.*at most"):
        k[1, 100_000](a, a, 8)
    with pytest.raises(TypeError, match="OpenCL C has no dynamic shared memory; take a p"):
        k[1, 8, 64]
    with pytest.raises(TypeError, match=r"launch it as copy\[groups, items\]\(...\)$"):
        k(a, a, 8)
    with pytest.raises(ValueError, match="copy: items is 0, expected sizes above 0"):
        k[1, 0]
    s = gpuops.compile(SUM, place)
    out, b = np.zeros(1, "i4"), np.ones(64, "i4")
    with pytest.raises(TypeError, match="points to local memory; expected the number of its"):
        s[1, 64](b, out, b)
    with pytest.raises(ValueError, match="a number of elements of local memory, from 1"):
        s[1, 64](b, out, 0)
    with pytest.raises(gpuops.DeviceError, match=r"of (local|shared) memory"):
        s[1, 64](b, out, 1 << 27)


def test_words_of_the_other_language(place):
    with pytest.raises(gpuops.CompileError, match="line 1: threadIdx is CUDA's: OpenCL"):
        gpuops.compile("__kernel void f(__global int *a) { a[threadIdx.x] = 1; }", place)
    with pytest.raises(gpuops.CompileError, match="line 1: OpenCL C has no headers of its own"):
        gpuops.compile("#include <math.h>\n__kernel void f(__global int *a) { *a = 1; }", place)
    with pytest.raises(gpuops.CompileError, match="has no kernel, `__kernel void name"):
        gpuops.compile("#define KERNEL __kernel\nvoid f(__global int *a) { *a = 1; }", place)
    struct = "struct s { int i; };\n__kernel void f(__global struct s *a) { a->i = 1; }"
    with pytest.raises(TypeError, match="parameter 0 has a type that Python cannot pass"):
        gpuops.compile(struct, place)[1, 1](np.zeros(1, "i4"))


def test_which_device_takes_which_language():
    with pytest.raises(ValueError, match="compile: OpenCL kernels run on 'opencl' and 'sim'"):
        gpuops.compile(COPY, "cpu")
    cuda = "__global__ void f(float *a) { a[0] = 1; }"
    with pytest.raises(ValueError, match="not on 'opencl'; OpenCL C marks its kernels by"):
        gpuops.compile(cuda, "opencl")


@needs_build
def test_which_of_several_kernels_is_asked_in_opencls_words():
    two = "__kernel void f(__global int *x) {} __kernel void g(__global int *x) {}"
    with pytest.raises(TypeError, match=r"f, g: name one, as program.f\[groups, items\]"):
        gpuops.compile(two, "opencl")[1, 1](np.zeros(1, "i4"))


# ---- what sim finds ----


def mistake(source, *args):
    with pytest.raises(gpuops.DeviceError) as caught:
        gpuops.compile(source, "sim")[1, 64](*args)
    return str(caught.value)


@needs_sim
def test_sim_finds_a_race():
    barrier = "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    source = SUM.replace(barrier, "").replace("    for (", barrier + "    for (")
    found = mistake(source, np.ones(64, "i4"), np.zeros(1, "i4"), 64)
    assert "kernel.cl:8" in found
    assert "local memory" in found
    assert "put barrier(CLK_LOCAL_MEM_FENCE) between them" in found
    assert "work-item (" in found
    assert "thread" not in found


@needs_sim
def test_sim_finds_an_index_outside():
    found = mistake(COPY.replace("if (i < n) ", ""), np.ones(60, "f4"), np.zeros(60, "f4"), 60)
    assert "kernel.cl:5" in found
    assert "work-item (60, 0, 0)" in found


@needs_sim
def test_sim_finds_a_barrier_that_some_pass_by():
    source = """
    __kernel void k(__global float *a)
    {
        int l = get_local_id(0);
        if (l < 40)
            barrier(CLK_LOCAL_MEM_FENCE);
        a[l] = l;
    }
    """
    found = mistake(source, np.zeros(64, "f4"))
    assert "kernel.cl:6" in found
    assert "barrier" in found


@needs_sim
def test_sim_finds_memory_that_was_never_written():
    """Local memory has no values at first: another order of the items, another result."""
    source = """
    __kernel void k(__global float *a)
    {
        __local float s[64];
        int l = get_local_id(0);
        if (l < 32) s[l] = l;
        barrier(CLK_LOCAL_MEM_FENCE);
        a[l] = s[l];
    }
    """
    found = mistake(source, np.zeros(64, "f4"))
    assert "kernel.cl:8" in found


@needs_sim
def test_sim_counts_banks_and_sectors():
    """As of a kernel in CUDA: padding removes the conflicts."""
    a, out = random((64, 64), "f4"), np.zeros((64, 64), "f4")
    for pad, turns in ((0, 32), (1, 1)):
        source = TRANSPOSE.replace("SIDE 16", "SIDE 32").replace("SIDE + 1", f"SIDE + {pad}")
        k = gpuops.compile(source, "sim")
        p = gpuops.profile(lambda k=k: k[(2, 2), (32, 32)](a, out, 64))["transpose"]
        same_bits(out, a.T)
        assert p.counts("shared", "load").per_request == turns
        assert p.counts("global", "store").per_request == 4
    four = "__kernel void four(__global float4 *a) { a[get_global_id(0)] *= 2.0f; }"
    k = gpuops.compile(four, "sim")
    p = gpuops.profile(lambda: k[1, 32](np.ones(128, "f4")))["four"]
    assert (p.counts("global", "load").requests, p.counts("global", "load").parts) == (1, 16)


@needs_sim
@pytest.mark.parametrize("order", ORDERS[:3], ids=str)
def test_every_order_of_items_gives_the_same(order):
    with gpuops.schedule(*order[:1]):
        out = np.zeros(1, "i4")
        gpuops.compile(SUM, "sim")[2, 128](np.ones(256, "i4"), out, 128)
    assert out == 256
