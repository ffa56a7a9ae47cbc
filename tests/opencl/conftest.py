"""Fixtures of the tests of OpenCL."""

import pytest
from opencl_machine import needs_build
from sim_kernels import needs_sim

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
