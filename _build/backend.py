"""backend - setuptools' build backend, plus NVIDIA's compiler where only a driver is present.

A machine with an NVIDIA driver, Python and a C and C++ compiler gets a GPU build from
`pip install .` alone: pip installs the wheels below into the build's own environment.
"""

import os
import sys

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  the other hooks are setuptools' own

from _build.toolkit import find_nvcc, has_driver

# All pinned to one minor: the wheels depend on each other without versions, and pip would mix
# nvcc 13.0 with nvvm 13.5. 13.0, because its code runs on every driver from 580 on.
NVCC_WHEELS = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
]


def nvcc_wheels() -> list[str]:
    """The wheels that this machine needs for a build with CUDA; none where nvcc is there."""
    wish = os.environ.get("GPUOPS_CUDA", "auto")
    if wish == "0" or not sys.platform.startswith("linux") or find_nvcc(wheels=False):
        return []
    return NVCC_WHEELS if wish == "1" or has_driver() else []


def get_requires_for_build_wheel(config_settings=None):
    return build_meta.get_requires_for_build_wheel(config_settings) + nvcc_wheels()


def get_requires_for_build_editable(config_settings=None):
    return build_meta.get_requires_for_build_editable(config_settings) + nvcc_wheels()
