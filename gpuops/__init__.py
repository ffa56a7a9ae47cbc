"""gpuops - six array operations, each a ladder of kernels from the naive to the fastest one.

`add`, `transpose`, `reduce`, `matmul`, `jacobi_step` and `rdf` take NumPy arrays (or CuPy,
PyTorch, JAX and Numba arrays on a GPU). Most results have the same bits on every device;
the last bits of a `matmul` of floats may differ, but its error has a guaranteed bound. Every
kernel can be called by name (`kernel="tiled"`), listed (`kernels`), read (`source`), timed
(`ladder`, `benchmark`) and explained (`explain`).

Importing touches no driver and prints nothing.
"""

from __future__ import annotations

try:
    from . import _core as _core
except ImportError:
    # Python looks first where it is started: in a clone, at the source of what is installed,
    # elsewhere perhaps at a file of one's own that is called numpy.py.
    from pathlib import Path as _Path

    _folder = _Path(__file__).parent
    if not any(_folder.glob("_core*.so")) and (_folder.parent / "setup.py").exists():
        raise ImportError(
            f"{_folder} is the source of gpuops, and nothing is built in it: run `make build` "
            "there, or start Python in another folder to use what is installed"
        ) from None
    import numpy as _numpy

    if not hasattr(_numpy, "ndarray"):
        raise ImportError(
            f"gpuops needs NumPy, and found {_numpy.__file__} in its place: rename that file"
        ) from None
    raise

from . import environment as _environment
from . import errors
from .arrays import DeviceArray
from .devices import (
    Device,
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
from .jacobi import jacobi, jacobi_step
from .ops import add, fma, matmul, multiply_add, transpose
from .rdf import rdf
from .reductions import all, any, argmax, argmin, max, mean, min, prod, reduce, sum
from .sparse import SparseMatrix, sparse
from .stencils import Stencil, poisson, stencil
from .transfers import to_device

_environment.check()

__version__ = "0.3.0.dev0"

# Loaded when first asked for (PEP 562): most programs never time or list anything. For type
# checkers there is __init__.pyi, which knows no such names as are not there.
_LAZY = {
    "compiling": ("CompiledKernel", "Program", "compile"),
    "config": ("get_num_threads", "set_num_threads", "show_config"),
    "_show.explain": ("Explanation", "explain"),
    "_show.jacobi_result": ("JacobiResult",),
    "_show.rdf_result": ("FirstShell", "RdfResult"),
    "_show.roofline": ("roofline",),
    "device_facts": ("DeviceInfo",),
    "ladders": ("Ladder", "ladder"),
    "limits": ("Occupancy", "occupancy"),
    "listing": ("Kernel", "kernels", "source"),
    "merging": ("State", "finish", "merge", "states"),
    "profiling": ("Profile", "profile"),
    "scheduling": ("schedule",),
    "sweeps": ("Sweep", "sweep"),
    "timing": ("Timer", "Timing", "benchmark"),
}  # fmt: skip

__all__ = [
    "add", "multiply_add", "fma", "transpose", "reduce", "matmul",
    "jacobi_step", "jacobi", "sparse", "stencil", "poisson", "rdf",
    "sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax",
    "SparseMatrix", "Stencil",
    "DeviceArray", "to_device",
    "Device", "device", "devices", "get_default_device", "is_available",
    "set_default_device",
    *[name for names in _LAZY.values() for name in names],
    "Error", "CompileError", "DeviceError", "DeviceLostError", "DeviceMemoryError",
    "DeviceUnavailableError", "KernelRefusedError", "SimWarning", "UnsupportedDeviceError",
    "errors", "course",
]  # fmt: skip


def __getattr__(name: str):
    from importlib import import_module

    if name in ("course", "dask"):  # the latter is not listed: it needs the package dask
        return import_module(f"gpuops.{name}")
    for module, names in _LAZY.items():
        if name in names:
            value = getattr(import_module(f"gpuops.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'gpuops' has no attribute {name!r}")


def load_ipython_extension(shell) -> None:
    """What ``%load_ext gpuops`` calls: it adds the magics %%kernel and %gpu_timeit.

    ``%%kernel NAME [DEVICE]`` compiles a cell of CUDA, as `compile`, into the name;
    ``%gpu_timeit CALL`` times a call, as `benchmark`.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        IPython passes it.

    Returns
    -------
    None

    Raises
    ------
    AttributeError
        `shell` is not an InteractiveShell.

    Examples
    --------
    >>> %load_ext gpuops    # doctest: +SKIP
    >>> %gpu_timeit gpuops.transpose(a)    # doctest: +SKIP
    """
    from ._show.magics import load

    load(shell)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
