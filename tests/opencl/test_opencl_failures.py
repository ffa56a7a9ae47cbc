"""OpenCL's functions fail one after the other; programs are kept on disk, and never trusted."""

from __future__ import annotations

import re

import pytest
from opencl_machine import (
    keeping,
    needs_build,
    needs_cpu,
    opencl,  # noqa: F401
    python,
    said,
)

pytestmark = [needs_build, pytest.mark.usefixtures("opencl")]

# ---- failures ----

# In the order of a first call, so that each is met before a later one has failed.
FUNCTIONS = (
    "clGetPlatformIDs", "clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource",
    "clBuildProgram", "clCreateKernel", "clCreateBuffer", "clSetKernelArg",
    "clEnqueueNDRangeKernel",
)  # fmt: skip
AFTER = ("clFinish",)


@needs_cpu
def test_every_function_that_fails_is_named():
    """Each in turn, before the first call that works and after it; nothing is written before
    the kernel runs, and the next call works."""
    program = f"""
a = np.arange(40, dtype="f4").reshape(5, 8)
from gpuops import _core
def call(name, n):
    _core.set_fault(f"opencl.{{name}}:{{n}}")
    out = np.full((8, 5), 7, "f4")
    try:
        gpuops.transpose(a, out=out, device="opencl", kernel="naive")
    except gpuops.Error as error:
        assert name in {AFTER} or (out == 7).all(), name
        print(name, n, error)
    _core.set_fault(None)
for name in {FUNCTIONS}:
    call(name, 1)
assert (gpuops.transpose(a, device="opencl") == a.T).all()
for name in {FUNCTIONS[-3:] + AFTER}:
    for n in (1, 2):
        call(name, n)
        assert (gpuops.transpose(a, device="opencl", kernel="naive") == a.T).all()
"""
    lines = said(program).splitlines()
    firsts = [line.split()[0] for line in lines[: len(FUNCTIONS)]]
    assert firsts == [*FUNCTIONS]
    later = {line.split()[0] for line in lines[len(FUNCTIONS) :]}
    assert {*FUNCTIONS[-3:]} <= later
    for line in lines:
        assert "CL_" in line, line
        assert "opencl: " in line, line


def test_what_the_driver_says_of_a_build_is_a_sentence():
    text = said("""
try: gpuops.add(np.ones(3), 1.0, device="opencl")
except gpuops.UnsupportedDeviceError as error: print(error)
""", GPUOPS_FAULT="opencl.clBuildProgram:1")  # fmt: skip
    assert re.search(r"not build the kernel add/\w+ \(CL_BUILD_PROGRAM_FAILURE, -11\)", text)
    assert "options -cl-std=CL1.2" in text


@pytest.mark.parametrize(
    ("more", "fault"),
    [("clCreateBuffer", ""), ("clRetainMemObject", "opencl.sharing:1:forever")],
)
def test_functions_that_fail_for_a_kernel_of_ones_own(request, more, fault):
    """Each is named, on devices of either kind of memory, and the next call works."""
    if not fault:
        request.getfixturevalue("opencl_cpu")
    program = """
from gpuops import _core
text = "__kernel void one(__global int *a, int b) { a[get_global_id(0)] = b; }"
def call(name):
    a = np.zeros(8, "i4")
    try: gpuops.compile(text, "opencl")[1, 8](a, 3)
    except (gpuops.CompileError, gpuops.Error) as error: print(name, error)
    assert name or (a == 3).all()
for name in NAMES:
    _core.set_fault(f"opencl.{name}:1")
    call(name)
    _core.set_fault(None)
    call("")
"""
    names = ("clCreateProgramWithSource", "clBuildProgram", "clGetProgramInfo",
             "clCreateKernel", "clSetKernelArg", "clEnqueueNDRangeKernel",
             "clFinish", more)  # fmt: skip
    text = "gpuops.devices('opencl')\n" + program.replace("NAMES", str(names))
    lines = said(text, GPUOPS_FAULT=fault).splitlines()
    assert [line.split()[0] for line in lines if line.startswith("cl")] == [*names]
    for name in names:
        assert name == "clBuildProgram" or any(f"{name} failed: CL_" in x for x in lines)


# ---- the cache ----


def test_programs_are_kept_and_read_again(tmp_path):
    folder = tmp_path / "gpuops"
    program = "print(gpuops.add(np.ones(3), 1.0, device='opencl', kernel='naive'))"
    place = keeping(tmp_path)
    no_build = {"GPUOPS_FAULT": "opencl.clBuildProgram:1:forever"}
    assert said(program, **place) == "[2. 2. 2.]"
    (file,) = folder.glob("*.cl")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600
    assert said(program, **place, **no_build) == "[2. 2. 2.]"
    whole = file.read_bytes()
    for damaged in (whole[:-9], whole[:60], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(damaged)
        assert python(program, **place, **no_build).returncode == 1
    assert said(program, **place) == "[2. 2. 2.]"
    assert said(program, **place, **no_build) == "[2. 2. 2.]"


def test_a_cache_that_others_could_write_is_not_read(tmp_path):
    program = "print(gpuops.add(np.ones(3), 1.0, device='opencl', kernel='naive'))"
    place = keeping(tmp_path)
    no_build = {"GPUOPS_FAULT": "opencl.clBuildProgram:1:forever"}
    said(program, **place)
    folder = tmp_path / "gpuops"
    (file,) = folder.glob("*.cl")
    file.chmod(0o666)
    assert python(program, **place, **no_build).returncode == 1
    file.chmod(0o600)
    folder.chmod(0o777)
    assert python(program, **place, **no_build).returncode == 1
    assert said(program, XDG_CACHE_HOME="/proc") == "[2. 2. 2.]"
