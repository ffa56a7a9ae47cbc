"""gpuops - six array operations, each a ladder of kernels from the naive to the fastest one.

`add`, `transpose`, `reduce`, `matmul`, `jacobi_step` and `rdf` take NumPy arrays (or CuPy,
PyTorch, JAX and Numba arrays on a GPU) and give the same bits on every device. Every kernel can
be called by name (`kernel="tiled"`), listed (`kernels`), read (`source`), timed (`ladder`,
`benchmark`) and explained (`explain`).

Importing touches no driver and prints nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import errors
from .arrays import DeviceArray, to_device
from .devices import (
    Device,
    DeviceInfo,
    device,
    devices,
    get_default_device,
    is_available,
    set_default_device,
)
from .errors import (
    CompileError,
    DeviceError,
    DeviceLostError,
    DeviceMemoryError,
    DeviceUnavailableError,
    Error,
    KernelRefusedError,
    SimWarning,
    UnsupportedDeviceError,
)
from .jacobi import JacobiResult, jacobi, jacobi_step
from .ops import add, fma, matmul, multiply_add, transpose
from .rdf import RdfResult, rdf
from .reductions import all, any, argmax, argmin, max, mean, min, prod, reduce, sum

if TYPE_CHECKING:  # for type checkers and editors: the same names as in _LAZY
    from ._explain import Explanation as Explanation
    from ._explain import explain as explain
    from .compiling import CompiledKernel as CompiledKernel
    from .compiling import Program as Program
    from .compiling import compile as compile
    from .config import get_num_threads as get_num_threads
    from .config import set_num_threads as set_num_threads
    from .config import show_config as show_config
    from .ladders import Kernel as Kernel
    from .ladders import Ladder as Ladder
    from .ladders import Sweep as Sweep
    from .ladders import kernels as kernels
    from .ladders import ladder as ladder
    from .ladders import source as source
    from .ladders import sweep as sweep
    from .profiling import Profile as Profile
    from .profiling import profile as profile
    from .scheduling import schedule as schedule
    from .timing import Timer as Timer
    from .timing import Timing as Timing
    from .timing import benchmark as benchmark

__version__ = "0.1.0"

# Loaded when first asked for (PEP 562): most programs never time or list anything.
_LAZY = {
    "compiling": ("CompiledKernel", "Program", "compile"),
    "config": ("get_num_threads", "set_num_threads", "show_config"),
    "_explain": ("Explanation", "explain"),
    "ladders": ("Kernel", "Ladder", "Sweep", "kernels", "ladder", "source", "sweep"),
    "profiling": ("Profile", "profile"),
    "scheduling": ("schedule",),
    "timing": ("Timer", "Timing", "benchmark"),
}  # fmt: skip

__all__ = [
    "add", "multiply_add", "fma", "transpose", "reduce", "matmul",
    "jacobi_step", "jacobi", "rdf",
    "sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax",
    "JacobiResult", "RdfResult",
    "DeviceArray", "to_device",
    "Device", "DeviceInfo", "device", "devices", "get_default_device", "is_available",
    "set_default_device",
    *[name for names in _LAZY.values() for name in names],
    "Error", "CompileError", "DeviceError", "DeviceLostError", "DeviceMemoryError",
    "DeviceUnavailableError", "KernelRefusedError", "SimWarning", "UnsupportedDeviceError",
    "errors",
]  # fmt: skip


def __getattr__(name: str):
    from importlib import import_module

    for module, names in _LAZY.items():
        if name in names:
            value = getattr(import_module(f"gpuops.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'gpuops' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
