"""opencl_machine - what the tests of the OpenCL backend need of a machine, and say it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import engine
import pytest

import gpuops
from gpuops import _core
from gpuops.devices import open_backend, why_not

FOLDER = Path(gpuops.__file__).parent
IS_BUILT = (FOLDER / "_opencl.so").exists()
OCLGRIND = next(iter(sorted(Path("/usr/lib").glob("**/liboclgrind-rt-icd.so"))), None)

needs_build = pytest.mark.skipif(not IS_BUILT, reason="this build has no OpenCL backend")
needs_cpu = pytest.mark.usefixtures("opencl_cpu")


@pytest.fixture(scope="module")
def opencl():
    """Skips where there is no device of OpenCL; its drivers are loaded only now.

    gpuops keeps no program but where a test names a folder (keeping).
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", "/proc")
        if why := why_not("opencl"):
            pytest.skip(f"needs an OpenCL device, as Debian's pocl-opencl-icd: {why}")
        yield


def rows(op: str) -> list:
    """As engine.rows, of OpenCL alone; no driver is asked for."""
    if not IS_BUILT:
        return [pytest.param("opencl", None, marks=needs_build)]
    open_backend("opencl")
    names = [None, *(row["name"] for row in _core.ladder(op, "opencl"))]
    return [pytest.param("opencl", name, id=name or "auto") for name in names]


def keeping(folder: Path) -> dict[str, str]:
    """Variables of a process that keeps programs there, also those that PoCL would keep."""
    return {"XDG_CACHE_HOME": str(folder), "POCL_KERNEL_CACHE": "0"}


def python(program: str, **environment: str) -> subprocess.CompletedProcess:
    """A process of its own, where nothing of OpenCL was loaded before."""
    tests = Path(engine.__file__).parent
    paths = os.pathsep.join(map(str, (FOLDER.parent, tests, tests / "ops", tests / "opencl")))
    return subprocess.run(
        [sys.executable, "-P", "-c", "import numpy as np, gpuops\n" + program],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def said(program: str, **environment: str) -> str:
    ran = python(program, **environment)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout.strip()
