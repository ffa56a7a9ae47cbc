"""test_environment - GPUOPS_* variables with values that nobody takes."""

import os
import subprocess
import sys

import numpy as np
import pytest

import gpuops
from gpuops import environment

WRONG = {
    "GPUOPS_NUM_THREADS": ("two", "-1", "0", "1.5", "257", str(10**20), "\u0663"),
    "GPUOPS_SIM_MEMORY": ("1e9", "nan", "-1", "1 GB", str(10**20)),
    "GPUOPS_SIM_CHECKS": ("off", "2", " "),
    "GPUOPS_CUDA_GRAPHS": ("no",),
    "GPUOPS_CUDA_POOL": ("false",),
    "GPUOPS_KEEP_SCRATCH": ("00",),
    "GPUOPS_FAULT": ("host.alloc", "host.alloc:0", "host.alloc:1:always", "1"),
}
RIGHT = {
    "GPUOPS_NUM_THREADS": ("1", "256", "08", ""),
    "GPUOPS_SIM_MEMORY": ("0", "1000000000", ""),
    "GPUOPS_SIM_CHECKS": ("0", "1", ""),
    "GPUOPS_FAULT": ("sim.alloc:3", "host.alloc:1:forever", ""),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n in WRONG for v in WRONG[n]])
def test_a_wrong_value_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"^{name} is '{value}', expected .*, or nothing$"):
        environment.check()


@pytest.mark.parametrize(("name", "value"), [(n, v) for n in RIGHT for v in RIGHT[n]])
def test_a_right_value(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    environment.check()


def run(code, **variables):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_says_it():
    done = run("import gpuops", GPUOPS_NUM_THREADS="two")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    said = "GPUOPS_NUM_THREADS is 'two', expected a number from 1 to 256, or nothing"
    assert last == f"ValueError: {said}"


@pytest.mark.skipif(not gpuops.is_available("sim"), reason="needs sim")
def test_memory_that_is_set_later(monkeypatch):
    for value in ("1e9", "nan", "99999999999999999999999"):
        monkeypatch.setenv("GPUOPS_SIM_MEMORY", value)
        with pytest.raises(
            ValueError, match=f"GPUOPS_SIM_MEMORY is '{value}', expected a whole"
        ):
            gpuops.to_device(np.ones(3), "sim")
    monkeypatch.setenv("GPUOPS_SIM_MEMORY", "")
    gpuops.to_device(np.ones(3), "sim")


def test_times_on_a_terminal_of_ascii():
    code = "import gpuops; from gpuops.timer import duration; print(duration(3e-6))"
    assert run(code, PYTHONIOENCODING="ascii").stdout == "3 us\n"
    assert run(code, PYTHONIOENCODING="utf-8").stdout == "3 \u00b5s\n"


def test_no_memory_under_a_limit_speaks_of_the_limit():
    code = """
import resource, numpy as np, gpuops
a = np.ones(1 << 22)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (8 << 20), -1))
try:
    gpuops.to_device(a, "cpu")
except MemoryError as error:
    print(error)
"""
    said = run(code).stdout
    assert "no host memory for " in said
    assert "this process may have" in said
    assert "are free" not in said
