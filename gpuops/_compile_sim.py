"""_compile_sim - kernels of one's own on sim: rewritten, and compiled by a C++ compiler."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
from pathlib import Path

import numpy as np

from . import _simt
from ._kernel_source import cached, call
from ._source import folder
from ._where import sources
from .config import build_info
from .devices import Device
from .errors import CompileError, DeviceError


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_size_t),
        ("device", ctypes.c_int),
    )


def _translation(text: str, kernels: dict[str, int]) -> str:
    calls = []
    for name, count in kernels.items():
        arguments = [f"gop_sim_argument{{a[{k}]}}" for k in range(count)]
        calls.append(f"GOP_SIM_KERNEL({', '.join([name, 'place', *arguments])})")
    try:
        body = _simt.rewrite(text, "kernel.cu")
    except _simt.SharedSyntaxError as error:
        raise CompileError(f"compile: {error}") from None
    return '#include "cuda/call.h"\n' + body + '\n#line 1 "calls"\n' + "\n".join(calls) + "\n"


def _library(text: str, kernels: dict[str, int], runtime: Path) -> Path:
    info = build_info().get("sim", {})
    command = shlex.split(os.environ.get("CXX", "")) or info.get("command") or ["c++"]
    if not shutil.which(command[0]):
        raise CompileError(f"compile: needs a C++ compiler, and {command[0]} is not found")
    flags = [f for f in shlex.split(info.get("flags", "")) if not f.startswith("-W")]
    include = [f"-I{folder() / 'sim' / 'include'}", f"-I{folder()}"]
    # A lane's stack has 64 KiB: larger arrays of its own are refused, with their line.
    full = [*command, *flags, "-Werror=frame-larger-than=40000", *include]
    translation = _translation(text, kernels)

    def make(scratch: Path) -> Path:
        source, made, linked = (scratch / f"kernel.{end}" for end in ("cu", "o", "so"))
        source.write_text(translation)
        # Linked apart: with the sanitizer's flag the linker would add its runtime library.
        call([*full, "-c", str(source), "-o", str(made)], text)
        call([*command, "-shared", str(made), str(runtime), "-o", str(linked)], text)
        return linked

    stamp = f"{runtime.stat().st_mtime_ns} {runtime} {full} {translation}"
    return cached(stamp, ".so", make)


class Module:
    """The kernels of one source as a library that is opened beside sim's own."""

    def __init__(self, text: str, kernels: dict[str, int], device: Device) -> None:
        made = _library(text, kernels, Path(__file__).with_name("_sim.so"))
        sources[str(made)] = text
        self._device = device.ordinal
        # The interpreter's lock is kept: a signal's exception then comes out of the call.
        self._library = ctypes.PyDLL(str(made))
        self._message = self._library.gop_sim_message
        self._message.restype = ctypes.c_char_p

    def codes(self, name: str) -> list[int]:
        """What csrc/cuda/parameters.h says of each parameter."""
        describe = self._library[f"gop_describe_{name}"]
        return list(iter(map(describe, range(1 << 16)).__next__, -1))

    def launch(self, name: str, grid, block, shared: int, arguments) -> None:
        """`arguments` are 0-d arrays and Buffers, one for each parameter."""
        values = [
            x if isinstance(x, np.ndarray) else np.array(x.ptr, np.uintp) for x in arguments
        ]
        sizes = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)
        place = _Launch(*sizes, shared, self._device)
        addresses = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
        if self._library[f"gop_call_{name}"](ctypes.byref(place), addresses) != 0:
            raise DeviceError(self._message().decode())
