"""Fixtures of the tests of OpenCL."""

import pytest
from opencl_machine import needs_build
from sim_kernels import needs_sim

import gpuops
from gpuops.devices import why_not


@pytest.fixture(
    params=[
        pytest.param("opencl", marks=needs_build),
        pytest.param("sim", marks=needs_sim),
    ]
)
def place(request, monkeypatch, tmp_path_factory):
    """Where OpenCL C runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    if request.param == "opencl" and (why := why_not("opencl")):
        pytest.skip(f"needs an OpenCL device, as Debian's pocl-opencl-icd: {why}")
    return request.param


@pytest.fixture
def opencl_cpu():
    """Skips where 'opencl' is no CPU, which shares the host's memory and whose kernels have
    vectors, stores past the caches and parts of their own."""
    if why := why_not("opencl"):
        pytest.skip(f"needs an OpenCL device, as Debian's pocl-opencl-icd: {why}")
    first = gpuops.devices("opencl")[0]
    if not first.detail.startswith("CPU "):
        pytest.skip(
            f"needs a CPU as 'opencl', as by Debian's pocl-opencl-icd, not {first.name}"
        )
