"""The OpenCL runtime: naming a device, what is said without one, threads, forks, faults."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading

import numpy as np
import pytest
from engine import random, same_bits
from opencl_machine import (
    keeping,
    needs_build,
    needs_cpu,
    opencl,  # noqa: F401
    python,
    said,
)

import gpuops
from gpuops import _core

pytestmark = needs_build
uses_opencl = pytest.mark.usefixtures("opencl")
WHY = "from gpuops.devices import why_not; print(why_not('opencl'))"


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
def test_every_operation_has_kernels():
    for op in _core.ops():
        assert _core.ladder(op, "opencl"), op


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


@needs_cpu
@uses_opencl
def test_no_icd_file_names_the_one_to_write(tmp_path):
    text = said(WHY, OCL_ICD_VENDORS=str(tmp_path))
    assert f"no driver with a GPU or a CPU in {tmp_path}" in text
    assert "write libnvidia-opencl.so.1 into /etc/OpenCL/vendors/nvidia.icd" in text
    ran = python("from gpuops.__main__ import main; main([])", OCL_ICD_VENDORS=str(tmp_path))
    assert "not opencl" in ran.stdout


@needs_cpu
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


@needs_cpu
@uses_opencl
@pytest.mark.sampled
def test_a_device_with_memory_of_its_own(everything):
    """What CPU devices share with the host a GPU has not: played by one that shares nothing."""
    text = said(f"part = slice({None if everything else -1}, None)" + """
import test_add, engine
m = engine.random((300, 70), "f4")
plan = gpuops.explain("add", m, m, device="opencl")
print(plan.upload_bytes, plan.download_bytes)
d, other = gpuops.to_device(m, "opencl"), gpuops.to_device(m[::-1], "opencl:0")
for kernel in gpuops.kernels("add", "opencl"):
    engine.same_bits(gpuops.add(d, other, kernel=kernel.name).get(), m + m[::-1])
for kernel in gpuops.kernels("transpose", "opencl"):
    x = m[:, :68].astype("i1" if kernel.name == "words" else "f4")
    there = gpuops.to_device(x, "opencl")
    engine.same_bits(gpuops.transpose(there, kernel=kernel.name).get(), x.T)
for kernel in gpuops.kernels("matmul", "opencl")[part]:
    rows = m[:2] if kernel.name == "thin" else m
    x, y = (gpuops.to_device(x, "opencl") for x in (rows, m.T))
    got = gpuops.matmul(x, y, kernel=kernel.name).get()
    engine.same_bits(got, gpuops.matmul(rows, m.T, device="cpu", kernel="naive"))
for kernel in ("tree", "chunked")[part]:
    mean = [gpuops.mean(m, axis=0, where=m > 0, device=x, kernel=k)
            for x, k in (("cpu", None), ("opencl", kernel))]
    engine.same_bits(*mean)
gpuops.add(d, d, d)  # in its place
engine.same_bits(d.get(), m + m)
for op in ("add", "multiply_add")[part]:
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


@uses_opencl
def test_a_small_call_on_a_device_with_its_own_memory_makes_no_buffers_and_waits_once():
    """It waits for its result alone, which it reads."""
    text = said("""
from gpuops import _core
a = np.ones(1000, "f4")
gpuops.add(a, a, device="opencl")
_core.profile("opencl", True)
gpuops.add(a, a, device="opencl")
names = _core.profile("opencl", False).split()
print(*(names.count("cl" + x) for x in ("CreateBuffer", "ReleaseMemObject", "Finish",
                                       "EnqueueNDRangeKernel", "EnqueueReadBuffer")))
""", GPUOPS_FAULT="opencl.sharing:1:forever")  # fmt: skip
    assert text == "0 0 0 1 1"


@needs_cpu
@uses_opencl
@pytest.mark.sampled
def test_results_larger_than_caches_are_streamed_past_them(tmp_path, everything):
    """From wherever a vector begins, and no byte beside them."""
    words = ("f4", "c8", "i1", "f2", "f8")[: 5 if everything else 1]
    text = said(f"words = {words}" + """
import engine
for word in words:
    for n in (1, 15, 64, 5003):
        for at in (0, 1, 3):
            a, whole = engine.random((n,), word, n), np.zeros(n + 9, word)
            gpuops.add(a, a, whole[at : at + n], device="opencl")
            engine.same_bits(whole[at : at + n], a + a)
            assert not whole[:at].any() and not whole[at + n :].any()
print("same")
""", GPUOPS_FAULT="opencl.caches:1:forever", **keeping(tmp_path))  # fmt: skip
    assert text == "same"
    kept = [file.read_bytes() for file in (tmp_path / "gpuops").glob("*.cl")]
    assert len(kept) == len(words)
    assert all(b" -DSTREAMED " in program for program in kept)


@needs_cpu
@uses_opencl
def test_what_is_streamed_does_not_depend_on_the_hosts_caches(tmp_path):
    """A virtual machine may report those of the whole host; 16 MiB are more than it has."""
    said("""
for n in (1000, (16 << 20) // 4 + 1):
    a = np.ones(n, "f4")
    assert (gpuops.add(a, a, device="opencl") == 2).all()
""", **keeping(tmp_path))  # fmt: skip
    kept = [file.read_bytes() for file in (tmp_path / "gpuops").glob("*.cl")]
    assert sorted(b" -DSTREAMED " in program for program in kept) == [False, True]


@uses_opencl
def test_a_device_without_float64():
    text = said("""
name = gpuops.devices("opencl")[0].name
for op, dtype in (("add", "f8"), ("multiply_add", "c16"), ("fma", "f2"), ("fma", "f8")):
    x = [np.ones(3, dtype)] * (2 if op == "add" else 3)
    for kernel in (None, "naive"):
        try: getattr(gpuops, op)(*x, device="opencl", kernel=kernel)
        except TypeError as error: print(str(error).replace(name, "NAME"))
x = np.ones(3, "f2")
y = x.astype("f4")
print(gpuops.multiply_add(x, x, x, device="opencl"), gpuops.fma(y, y, y, device="opencl"))
print(gpuops.transpose(np.ones((2, 2)), device="opencl").sum())
print("no float64" in str(gpuops.devices("opencl")[0]))
""", GPUOPS_FAULT="opencl.double:1:forever")  # fmt: skip
    lines = text.splitlines()
    sentences = [
        f"{op}: NAME has no float64, which {dtype} takes; expected another dtype, or another "
        "device such as 'cpu'"
        for op, dtype in (("add", "float64"), ("multiply_add", "complex128"),
                          ("fma", "float16"), ("fma", "float64"))
        for _ in range(2)
    ]  # fmt: skip
    assert lines == [*sentences, "[2. 2. 2.] [2. 2. 2.]", "4.0", "True"]


@uses_opencl
def test_a_device_that_flushes_subnormal_numbers():
    text = said("""
try: gpuops.add(1.0, 2.0, device="opencl")
except gpuops.UnsupportedDeviceError as error: print(error)
""", GPUOPS_FAULT="opencl.subnormals:1:forever")  # fmt: skip
    assert "sets subnormal numbers to zero, expected a device that keeps them" in text


@needs_build
def test_device_arrays_go_through_every_operation():
    points = random((60, 3), "float32", 1)
    given = gpuops.to_device(points, "opencl")
    got = gpuops.rdf(given, r_max=2.0, bins=9)
    assert (got.counts == gpuops.rdf(points, r_max=2.0, bins=9, device="cpu").counts).all()
    product = gpuops.matmul(given, gpuops.transpose(given))
    assert product.device == given.device
    sums = gpuops.sum(gpuops.add(product, product), axis=0)
    host = gpuops.matmul(points, points.T, device="cpu", kernel="naive")
    same_bits(sums.get(), gpuops.sum(host + host, axis=0, device="cpu"))
