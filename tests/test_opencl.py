"""The OpenCL runtime: naming a device, what is said without one, threads, forks, faults."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from engine import random, same_bits
from opencl_machine import OCLGRIND, needs_build, opencl, python, said  # noqa: F401

import gpuops

pytestmark = needs_build
ROOT = Path(__file__).resolve().parents[1]
OBJECTS = ROOT / "build" / "objects" / "opencl"
needs_oclgrind = pytest.mark.skipif(
    not OCLGRIND, reason="needs Oclgrind, Debian's package oclgrind"
)
uses_opencl = pytest.mark.usefixtures("opencl")
WHY = "print(gpuops.devices.__globals__['why_not']('opencl'))"
IS_POCL = 'next(iter(gpuops.devices("opencl"))).detail.lower().count("pocl")'


# ---- naming ----


@uses_opencl
def test_importing_loads_nothing_of_it():
    maps = "print('libOpenCL' in open('/proc/self/maps').read())\n"
    first, then, last = said(
        f"{maps}gpuops.add(1.0, 2.0)\n"
        "gpuops.kernels('add', 'opencl')\n"
        f"try: gpuops.add(1.0, 2.0, device='gpu')\nexcept ValueError: pass\n{maps}"
        f"gpuops.devices('opencl')\n{maps}"
    ).split()
    assert (first, then, last) == ("False", "False", "True")


@uses_opencl
def test_words_for_a_device():
    info = gpuops.devices("opencl")[0]
    kind, _, rest = info.detail.partition(" of ")
    platform = rest.partition(",")[0]
    for word in ("0", kind, kind.lower(), platform, platform.upper(), info.name[2:9].lower()):
        with gpuops.device(f"opencl:{word}") as chosen:
            assert chosen == gpuops.Device("opencl", 0)
    with pytest.raises(ValueError, match=r"no device 'opencl:nobody'; expected a number"):
        gpuops.add(1.0, 2.0, device="opencl:nobody")
    with pytest.raises(gpuops.DeviceUnavailableError, match="'opencl:99' is not available"):
        gpuops.add(1.0, 2.0, device="opencl:99")


@uses_opencl
def test_the_environment_names_it():
    word = gpuops.devices("opencl")[0].detail[:3].lower()
    program = "print(gpuops.get_default_device(), gpuops.add(1.0, 2.0))"
    assert said(program, GPUOPS_DEVICE=f"opencl:{word}") == "opencl 3.0"
    assert said(program, GPUOPS_DEVICE="auto") == "None 3.0"


@uses_opencl
def test_nobody_gets_it_unasked():
    plan = gpuops.explain("matmul", np.ones((2048, 2048)), np.ones((2048, 2048)))
    assert "opencl" not in str(plan.device)


@uses_opencl
def test_python_m_gpuops_lists_it():
    text = said("from gpuops.__main__ import main; main([])")
    assert re.search(r"^device +opencl: .*compute units.*driver", text, re.M)


@uses_opencl
def test_operations_that_it_has_not_say_so():
    m = np.eye(3, dtype="f4")
    for call in (lambda: gpuops.matmul(m, m, device="opencl"),
                 lambda: gpuops.sum(m, device="opencl", kernel="tree"),
                 lambda: gpuops.ladder("matmul", m, m, device="opencl")):  # fmt: skip
        with pytest.raises(
            gpuops.UnsupportedDeviceError,
            match="opencl has no kernels of this operation, expected another device",
        ):
            call()
    assert len(gpuops.kernels("matmul", "opencl")) == 0


# ---- where there is none ----


def test_no_loader():
    text = said(WHY, GPUOPS_OPENCL_LIBRARY="/no/such.so")
    assert "the loader /no/such.so does not open" in text
    assert "ocl-icd-libopencl1" in text


def test_it_can_be_disabled():
    assert "disabled" in said(WHY, GPUOPS_OPENCL_LIBRARY="disabled")
    ran = python("gpuops.add(1.0, 2.0, device='opencl')", GPUOPS_OPENCL_LIBRARY="disabled")
    assert "DeviceUnavailableError: opencl: it is disabled by" in ran.stderr


def test_a_library_that_is_no_loader():
    text = said(WHY, GPUOPS_OPENCL_LIBRARY="libm.so.6")
    assert "libm.so.6 has no function clGetPlatformIDs" in text


@uses_opencl
def test_no_icd_file_names_the_one_to_write(tmp_path):
    text = said(WHY, OCL_ICD_VENDORS=str(tmp_path))
    assert f"no driver with a GPU or a CPU in {tmp_path}" in text
    assert "write libnvidia-opencl.so.1 into /etc/OpenCL/vendors/nvidia.icd" in text
    ran = python("from gpuops.__main__ import main; main([])", OCL_ICD_VENDORS=str(tmp_path))
    assert "not opencl" in ran.stdout


@uses_opencl
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_driver_that_aborts_leaves_this_process_alone(tmp_path):
    driver = tmp_path / "driver.so"
    source = (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "__attribute__((constructor)) void f(void)\n"
        '{ fputs("no /sys here\\n", stderr); abort(); }'
    )
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", driver]
    subprocess.run(command, input=source, text=True, check=True)
    (tmp_path / "bad.icd").write_text(str(driver))
    text = said(WHY, OCL_ICD_VENDORS=str(tmp_path))
    assert "a driver ends its process (Aborted) when its devices are counted" in text
    assert "no /sys here" in text
    assert "PoCL does so where /sys is not mounted" in text


# ---- threads, forks, several devices ----


@uses_opencl
def test_threads_have_their_own_queues():
    a = random(40_000, "f4")
    m = random((90, 70), "f4", 1)
    wrong = []

    def work(k):
        for _ in range(5):
            if not np.array_equal(gpuops.add(a, a[::-1], device="opencl"), a + a[::-1]):
                wrong.append(k)
            if not np.array_equal(gpuops.transpose(m, device="opencl"), m.T):
                wrong.append(k)

    for _ in range(2):  # the second lot has the contexts of the first
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


@uses_opencl
def test_a_forked_child_is_told_and_does_not_hang():
    text = said("""
import os
gpuops.add(1.0, 2.0, device="opencl")
child = os.fork()
if child == 0:
    try: gpuops.add(1.0, 2.0, device="opencl")
    except gpuops.DeviceUnavailableError as e: print(e, gpuops.add(1.0, 2.0), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], gpuops.add(1.0, 2.0, device="opencl"))
""")
    assert "forked from one that had used OpenCL" in text
    assert "'spawn' start method" in text
    assert text.endswith("3.0\n0 3.0")


@uses_opencl
def test_a_child_may_use_what_its_parent_did_not():
    text = said("""
import os
gpuops.kernels("add", "opencl")
child = os.fork()
if child == 0:
    print(gpuops.add(1.0, 2.0, device="opencl"), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
""")
    assert text == "3.0\n0"


@uses_opencl
def test_two_devices(tmp_path):
    text = said("""
if "pocl" not in gpuops.devices("opencl")[0].detail.lower():
    print("no PoCL")
    raise SystemExit
print(*(d.device for d in gpuops.devices("opencl")))
a = np.arange(6, dtype="f4")
one, two = (gpuops.to_device(a, f"opencl:{i}") for i in range(2))
print(gpuops.add(one, one).get(), gpuops.add(two, two).device)
try: gpuops.add(one, two)
except TypeError as error: print(error)
print(gpuops.add(a, a, device="opencl:1"))
""", POCL_DEVICES="pthread pthread")  # fmt: skip
    if text == "no PoCL":
        pytest.skip("needs PoCL for devices of which there are two")
    lines = text.splitlines()
    assert lines[0] == "opencl opencl:1"
    assert lines[1] == "[ 0.  2.  4.  6.  8. 10.] opencl:1"
    assert "its arrays live on opencl and on opencl:1" in lines[2]
    assert lines[3] == "[ 0.  2.  4.  6.  8. 10.]"


@uses_opencl
def test_device_arrays():
    a = random((30, 40), "f4")
    d = gpuops.to_device(a, "opencl")
    assert str(d.device) == "opencl"
    same_bits(gpuops.transpose(gpuops.add(d, d)).get(), (a + a).T)
    out = gpuops.to_device(np.zeros((30, 40), "f4"), "opencl")
    gpuops.add(a, d, out)
    same_bits(out.get(), a + a)


@uses_opencl
def test_a_device_with_memory_of_its_own(tmp_path):
    """What CPU devices share with the host a GPU has not: played by one that shares nothing."""
    text = said("""
import test_add, engine
m = engine.random((300, 70), "f4")
plan = gpuops.explain("add", m, m, device="opencl")
print(plan.upload_bytes, plan.download_bytes)
d, other = gpuops.to_device(m, "opencl"), gpuops.to_device(m[::-1], "opencl:0")
for kernel in gpuops.kernels("add", "opencl"):
    engine.same_bits(gpuops.add(d, other, kernel=kernel.name).get(), m + m[::-1])
for kernel in gpuops.kernels("transpose", "opencl"):
    engine.same_bits(gpuops.transpose(d, kernel=kernel.name).get(), m.T)
gpuops.add(d, d, d)  # in its place
engine.same_bits(d.get(), m + m)
for op in ("add", "multiply_add"):
    for layout in engine.LAYOUTS:
        arrays = [engine.layout(engine.random((60, 50), "f4", i), layout) for i in range(3)]
        test_add.check(op, arrays[: test_add.INPUTS[op]], "opencl", None)
big = engine.random((3, 700, 801), "f8")  # several pieces of a transfer
engine.same_bits(gpuops.transpose(big, device="opencl"), big.T)
timing = gpuops.benchmark("transpose", (d,), n_repeat=2)
print(timing.kernel > 0)
try: gpuops.to_device(np.broadcast_to(np.float32(1), (1 << 38,)), "opencl")
except gpuops.DeviceMemoryError as error: print(error)
print(gpuops.add(d, d).get().shape)
""", GPUOPS_FAULT="opencl.sharing:1:forever")  # fmt: skip
    lines = text.splitlines()
    assert lines[:2] == ["168000 84000", "True"]
    assert "no memory for 1048576.0 MiB on " in lines[2]
    assert lines[3] == "(300, 70)"


# ---- failures ----

# In the order of a first call, so that each is met before a later one has failed.
FUNCTIONS = (
    "clGetPlatformIDs", "clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource",
    "clBuildProgram", "clCreateKernel", "clCreateBuffer", "clSetKernelArg",
    "clEnqueueNDRangeKernel",
)  # fmt: skip
AFTER = ("clFinish",)


@uses_opencl
def test_every_function_that_fails_is_named(tmp_path):
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
    lines = said(program, XDG_CACHE_HOME=str(tmp_path)).splitlines()
    firsts = [line.split()[0] for line in lines[: len(FUNCTIONS)]]
    assert firsts == [*FUNCTIONS]
    later = {line.split()[0] for line in lines[len(FUNCTIONS) :]}
    assert {*FUNCTIONS[-3:]} <= later
    for line in lines:
        assert "CL_" in line, line
        assert "opencl: " in line, line


@uses_opencl
def test_what_the_driver_says_of_a_build_is_a_sentence(tmp_path):
    text = said("""
try: gpuops.add(np.ones(3), 1.0, device="opencl")
except gpuops.UnsupportedDeviceError as error: print(error)
""", XDG_CACHE_HOME=str(tmp_path), GPUOPS_FAULT="opencl.clBuildProgram:1")  # fmt: skip
    assert re.search(r"not build the kernel add/\w+ \(CL_BUILD_PROGRAM_FAILURE, -11\)", text)
    assert "options -cl-std=CL1.2" in text


# ---- the cache ----


@uses_opencl
def test_programs_are_kept_and_read_again(tmp_path):
    folder = tmp_path / "gpuops"
    program = "print(gpuops.add(np.ones(3), 1.0, device='opencl'))"
    place = {"XDG_CACHE_HOME": str(tmp_path)}
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
    assert file.read_bytes()[:8] == whole[:8]


@uses_opencl
def test_a_cache_that_others_could_write_is_not_read(tmp_path):
    program = "print(gpuops.add(np.ones(3), 1.0, device='opencl'))"
    place = {"XDG_CACHE_HOME": str(tmp_path)}
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


# ---- Oclgrind ----

CALLS = """
a = np.arange(300, dtype="f4")
c, h = np.arange(60, dtype="c8"), np.arange(100, dtype="f2")
m = np.arange(40 * 36, dtype="f4").reshape(40, 36)
calls = [("fma", (h, h, h))] + [("multiply_add", (x, x, x)) for x in (a, c, a[::2])]
calls += [("transpose", (m.astype(d),)) for d in ("u1", "f4", "f8", "c16")]
for op, arrays in calls:
    for kernel in gpuops.kernels(op, "opencl"):
        try:
            got = getattr(gpuops, op)(*arrays, device="opencl", kernel=kernel.name)
        except gpuops.KernelRefusedError:
            continue
        assert np.array_equal(got, getattr(gpuops, op)(*arrays, device="cpu")), (op, kernel)
"""


def oclgrind(program, tmp_path, **more):
    log = tmp_path / "log"
    env = {"OCL_ICD_VENDORS": str(OCLGRIND), "OCLGRIND_DATA_RACES": "1",
           "OCLGRIND_CHECK_API": "1", "OCLGRIND_LOG": str(log),
           "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}  # fmt: skip
    said(program, **env)
    return log.read_text() if log.exists() else ""


@needs_oclgrind
def test_oclgrind_finds_nothing(tmp_path):
    assert oclgrind(CALLS, tmp_path) == ""


@needs_oclgrind
def test_oclgrind_meets_no_uninitialised_read(tmp_path):
    """Without what sets half of a vector, which Oclgrind 21.10 takes for one, and without
    optimisation, after which it meets instructions that it does not know."""
    program = CALLS.replace("(a, c, a[::2])", "(a, a[::2])")
    program = program.replace(
        "        try:", "        if kernel.name == 'blocked': continue\n        try:"
    )
    how = {"OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_BUILD_OPTIONS": "-O0"}
    assert oclgrind(program, tmp_path, **how) == ""


@needs_oclgrind
@pytest.mark.skipif(not OBJECTS.is_dir(), reason="needs a build")
def test_oclgrind_finds_a_planted_race(tmp_path):
    """The same library with a kernel of which the barrier was taken away."""
    sources = (OBJECTS / "sources.c").read_text()
    barrier = '"    barrier(CLK_LOCAL_MEM_FENCE);\\n"'
    assert sources.count(barrier) == 2
    planted = tmp_path / "sources.c"
    planted.write_text(sources.replace(barrier, '"\\n"'))
    package = tmp_path / "gpuops"
    package.mkdir()
    for file in Path(gpuops.__file__).parent.iterdir():
        if file.name not in ("__pycache__", "_opencl.so"):
            (package / file.name).symlink_to(file)
    objects = [o for o in OBJECTS.rglob("*.o")
               if o.name != "sources.o"]  # fmt: skip
    command = ["cc", "-std=c11", "-fPIC", "-shared", f"-I{ROOT / 'csrc'}", planted, *objects]
    subprocess.run([*command, "-o", package / "_opencl.so", "-ldl", "-pthread"], check=True)
    program = (
        "a = np.arange(4096, dtype='f4').reshape(64, 64)\n"
        "gpuops.transpose(a, kernel='tiled', device='opencl')"
    )
    log = oclgrind(program, tmp_path, PYTHONPATH=str(tmp_path))
    assert "data race" in log.lower(), log
