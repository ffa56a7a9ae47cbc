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
