"""compile on an OpenCL device: arrays that overlap, and how much a program may have."""

from __future__ import annotations

import re

import numpy as np
import pytest
from engine import random, same_bits
from opencl_machine import needs_build, needs_cpu, opencl, said  # noqa: F401
from test_opencl_compile import COPY, SUM

import gpuops

pytestmark = [needs_build, pytest.mark.usefixtures("opencl")]


@needs_cpu
def test_arrays_behind_one_another():
    a = random(65, "f4")
    want = a.copy()
    gpuops.compile(COPY, "opencl")[1, 64](a[1:], a[:-1], 64)
    same_bits(a[:-1], want[1:])


def test_a_device_with_memory_of_its_own_copies():
    """Drivers die of parts of a buffer that overlap: such a view is a sentence."""
    text = said(f"""
SUM, COPY = {SUM!r}, {COPY!r}
a, out = np.arange(256, dtype="i4"), np.zeros(1, "i4")
gpuops.compile(SUM, "opencl")[4, 64](a, out, 64)
print(out[0] == a.sum())
x = np.arange(300, dtype="f4")
k = gpuops.compile(COPY, "opencl")
k[1, 64](x, x, 64)
k[1, 64](x[:150], x, 64)
for at in (1, 128):
    for pair in ((x[at:], x[:-at]), (x[:-at], x[at:])):
        try: k[1, 64](*pair, 64)
        except ValueError as error: print(error)
print(x.sum())
k[1, 64](x[:128], x[128:], 64)  # they lie apart
print((x[128:192] == x[:64]).all())
""", GPUOPS_FAULT="opencl.sharing:1:forever")  # fmt: skip
    first, *refused, total, last = text.splitlines()
    assert (first, total, last) == ("True", "44850.0", "True")
    assert [re.search(r"begins (\d+) bytes", line)[1] for line in refused] == [
        "4", "4", "512", "512",
    ]  # fmt: skip
    for line in refused:
        assert "behind one that it shares memory with, expected the same begin" in line
        assert "pass a copy, or the whole array and an index" in line


def test_what_a_program_may_have():
    """Many kernels with long names; of parameters as many as can be described and passed."""
    many = "".join(f"__kernel void {'n' * 60}{i}(__global int *a) {{ *a = {i}; }}\n"
                   for i in range(80))  # fmt: skip
    program = gpuops.compile(many, "opencl")
    a = np.zeros(1, "i4")
    program.kernels["n" * 60 + "79"][1, 1](a)
    assert (len(program.kernels), a[0]) == (80, 79)
    with pytest.raises(gpuops.CompileError, match="of 261 letters, expected at most 200"):
        gpuops.compile(many.replace("n" * 60, "n" * 260), "opencl")
    gpuops.compile(f"__kernel void {'n' * 200}(__global int *a) {{ *a = 1; }}", "opencl")
    numbers = ", ".join(f"int a{i}" for i in range(300))
    long = "".join(f"__kernel void f{i}(__global int *x, {numbers}) {{ *x = a0; }}\n"
                   for i in range(20))  # fmt: skip
    with pytest.raises(gpuops.CompileError, match="too many parameters in all, expected some"):
        gpuops.compile(long, "opencl")
    k = gpuops.compile(f"__kernel void f(__global int *x, {numbers}) {{ *x = a0; }}", "opencl")
    with pytest.raises(ValueError, match="launch: 301 arguments, expected at most 256"):
        k[1, 1](a, *range(300))
    k = gpuops.compile(
        "__kernel void f(__global float *x, read_only image2d_t i, sampler_t s)\n"
        "{ x[0] = read_imagef(i, s, (int2)(0, 0)).x; }", "opencl",
    )  # fmt: skip
    with pytest.raises(TypeError, match="parameter 1 has a type that Python cannot pass"):
        k[1, 1](a.astype("f4"), a, 0)


def test_arrays_without_elements():
    """Drivers make no buffer of no bytes, wherever the array would begin."""
    memory = np.zeros(4096, "u1")
    start = -memory.ctypes.data % 256
    for at in (0, 4):
        a = memory[start + at : start + at].view("f4").reshape(0, 3)
        for x in (a, gpuops.to_device(a, "opencl")):
            for got, want in (
                (gpuops.sum(x, axis=0, device="opencl"), a.sum(0)),
                (gpuops.all(x, device="opencl"), a.all()),
                (gpuops.max(x, initial=2, device="opencl"), a.max(initial=2)),
                (gpuops.matmul(gpuops.transpose(x), x, device="opencl"), a.T @ a),
            ):
                same_bits(got.get() if isinstance(got, gpuops.DeviceArray) else got, want)
