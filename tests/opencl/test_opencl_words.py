"""What sim says of OpenCL C: in its words, and no less strict than its compilers."""

from __future__ import annotations

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops

pytestmark = needs_sim

POINTER = """#define IN const int *
__kernel void k(__global int *a, {} b) {{ a[0] = b[0]; }}"""


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
