"""What sim says of OpenCL C: in its words, and no less strict than its compilers."""

from __future__ import annotations

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops

pytestmark = needs_sim

POINTER = """#define IN const int *
__kernel void k(__global int *a, {} b) {{ a[0] = b[0]; }}"""


def test_the_second_of_two_numbers_is_converted():
    """CUDA has no fmax of a float and an int, and OpenCL C has."""
    sums = "fmax(*a, 1) + hypot(*a, 2) + atan2(*a, 1) + ldexp(*a, n) + fma(*a, a[1], 1)"
    a = np.array([2, 3], "f4")
    gpuops.compile(f"__kernel void k(__global float *a, int n) {{ a[0] = {sums}; }}",
                   device="sim")[1, 1](a, 2)  # fmt: skip
    assert abs(a[0] - (2 + 8**0.5 + np.arctan2(2, 1) + 8 + 7)) < 1e-4


@pytest.mark.parametrize("words", ["IN", "int *restrict", "const int *const"])
def test_a_kernels_pointer_says_where_to(words):
    with pytest.raises(gpuops.CompileError, match=r"line 2: .* write `__global .*int \*.*b`"):
        gpuops.compile(POINTER.format(words), device="sim")
    gpuops.compile(POINTER.format("__constant int *"), device="sim")
    gpuops.compile(POINTER.format("global IN"), device="sim")


def test_sim_names_functions_of_opencl():
    source = "__kernel void k(__global int *c) { c[0]++; }"
    with pytest.raises(gpuops.DeviceError, match=r"as atomic_add\(&c\[i\], 1\) for c\[i\]\+\+"):
        gpuops.compile(source, device="sim").k[1, 8](np.zeros(1, "i4"))
    with pytest.raises(gpuops.CompileError, match=r"expected `__local type name\[size\];`"):
        gpuops.compile("__kernel void k() { __local int s = 3; }", device="sim")
    with pytest.raises(gpuops.CompileError, match=r"printf has no conversion `%v`"):
        gpuops.compile('__kernel void k() { printf("%v4d", (int4)(1)); }', device="sim")


def test_numbers_among_vectors():
    """Where OpenCL's compilers widen a number."""
    a, r = np.array([0.1, 0.5, 0.9, -1], "f4"), np.array([1, 2, 3, 4], "f4")
    t = np.clip((a - 0.25) / 0.5, 0, 1)
    calls = {
        "mad(a, 2.0f, r)": a * 2 + r,
        "mad(2.0f, r, a)": a + r * 2,
        "fma(a, 2.0f, 1.0f)": a * 2 + 1,
        "fma(a, r, 1.0f)": a * r + 1,
        "mix(a, r, 0.25f)": a + (r - a) / 4,
        "step(0.5f, a)": np.array([0, 1, 1, 0]),
        "smoothstep(0.25f, 0.75f, a)": t * t * (3 - 2 * t),
        "degrees(a)": np.degrees(a),
    }
    body = "".join(f"vstore4({call}, {i}, out); " for i, call in enumerate(calls))
    source = f"""__kernel void k(__global const float *p, __global float *out)
    {{ const float4 a = vload4(0, p), r = (float4)(1, 2, 3, 4); {body} }}"""
    out = np.zeros((len(calls), 4), "f4")
    gpuops.compile(source, device="sim").k[1, 1](a, out)
    assert np.allclose(out, list(calls.values()), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int4 q = (int4)(c[0]); c[0] = (q > 0 ? q : -q).x;", "a vector is no condition: take"),
        ("event_t e;", "'event_t' was not declared in this scope; docs/sim.md lists"),
        ("c[0] = get_work_dim();", "'get_work_dim' .*; docs/sim.md lists .* of OpenCL C"),
        ("c[0] = g;", "`g` is in no memory that kernels have: .* `constant`"),
    ],
)
def test_words_for_what_sim_has_not(text, words):
    source = f"int g = 3;\n__kernel void k(__global int *c) {{ {text} }}"
    with pytest.raises(gpuops.CompileError, match=f"line 2: {words}|line 1: {words}"):
        gpuops.compile(source, device="sim")


OF_ONE = "__kernel void k(__global float *a) {{ {} }}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("__kernel void k(__global int *a, size_t n) { *a = n; }", "type size_t: .*`ulong`"),
        ("__kernel void k(__global int *a, const bool n) { *a = n; }", "type bool: .*`int`"),
        ("__kernel void k(half h, __global int *a) { *a = 1; }", "type half: .*`float`"),
        (OF_ONE.format("atomic_add(a, 1.0f);"), "atomics are of integers"),
        (OF_ONE.format("atomic_cmpxchg(a, 1.0f, 2.0f);"), "atomics are of integers"),
        (OF_ONE.format("atomic_inc((__global uchar *)a);"), "an atomic is of 4 or 8 bytes"),
        (OF_ONE.format("float4 v = float4(1, 2, 3, 4); *a = v.x;"), r"write \(float4\)\("),
        (OF_ONE.format("auto x = 1.5f; *a = x;"), r"auto is C\+\+'s"),
        (OF_ONE.format("*a = static_cast<float>(1);"), r"static_cast is C\+\+'s"),
        (OF_ONE.format("if (*a > 0) { __local float s[4]; s[0] = 1; }"), "`__local` variable"),
        ("void f() { __local int s; s = 1; }\n" + OF_ONE.format("f();"), "`__local` variable"),
        (OF_ONE.format("static int n = 0; *a = n;"), "no static variables"),
        ("const float g = 3;\n" + OF_ONE.format("*a = g;"), "`g` is outside of functions"),
        (OF_ONE.format("__syncthreads();"), "__syncthreads is CUDA's"),
        (OF_ONE.format("__shared__ float s[4];"), "__shared__ is CUDA's"),
        (OF_ONE.format("atomicAdd(a, 1);"), "atomicAdd is CUDA's"),
        (
            "__kernel void f(__global float *a) { }\n" + OF_ONE.format("f(a);"),
            "a function without `__kernel`",
        ),
        (OF_ONE.format("*a = get_sub_group_size();"), "docs/sim.md lists .* of OpenCL C"),
    ],
)
def test_what_devices_refuse(source, words):
    with pytest.raises(gpuops.CompileError, match=rf"line \d: .*{words}"):
        gpuops.compile(source, device="sim")


def test_a_source_without_its_kernel_is_known_by_its_words():
    with pytest.raises(gpuops.CompileError, match="has no kernel, `__kernel void name"):
        gpuops.compile("void k(__global float *a) { *a = 1; }", device="sim")
    with pytest.raises(gpuops.CompileError, match="has no kernel, `__global__ void name"):
        gpuops.compile("__global void k(float *a) { *a = 1; }", device="sim")


def test_a_float_is_exchanged():
    a = np.zeros(1, "f4")
    gpuops.compile(OF_ONE.format("atomic_xchg(a, 2.5f);"), device="sim")[1, 1](a)
    assert a == 2.5


def test_names_and_lines_of_the_source_stay():
    source = "__kernel void k(__global int *block)\n{ int thread = 9; block[thread] = 1; }"
    with pytest.raises(gpuops.DeviceError) as caught:
        gpuops.compile(source, device="sim")[1, 1](np.zeros(8, "i4"))
    said = str(caught.value)
    assert "stores block[9], past the end of block, which has 8 elements" in said
    assert "    kernel.cl:2  { int thread = 9; block[thread] = 1; }" in said


def test_local_memory_ends_where_the_launch_says():
    source = """__kernel void k(__global float *a, __local float *s)
    { int i = get_local_id(0); s[i] = i; barrier(CLK_LOCAL_MEM_FENCE); a[i] = s[31 - i]; }"""
    k = gpuops.compile(source, device="sim")
    a = np.zeros(32, "f4")
    k[1, 32](a, 32)
    assert a.tolist() == list(range(31, -1, -1))
    with pytest.raises(gpuops.DeviceError, match="past the end of the work-group's local mem"):
        k[1, 32](a, 31)
