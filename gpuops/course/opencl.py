"""opencl - what notebook 13 asks of gpuops's OpenCL backend."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from .. import _core
from ..devices import open_backend, why_not


def missing() -> str:
    """Why no OpenCL runs here, in a sentence; "" where it does."""
    return why_not("opencl") or ""


def steps(call: Callable[[], object]) -> list[str]:
    """OpenCL's functions that the backend calls meanwhile, in order."""
    open_backend("opencl")
    _core.profile("opencl", True)
    try:
        call()
    finally:
        names = _core.profile("opencl", False).split()
    return [
        name if (times := len(list(same))) == 1 else f"{name}, {times} times"
        for name, same in groupby(names)
    ]
