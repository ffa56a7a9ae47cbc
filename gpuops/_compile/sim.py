"""sim - kernels of one's own on sim: rewritten, and compiled by a C++ compiler."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import tempfile
from pathlib import Path

from .. import _core
from .._show.source import folder
from .._show.where import sources
from ..devices import Device
from ..errors import CompileError
from . import simt as _simt
from .barriers import marked
from .built import build_info
from .cache import cached
from .kernel_source import Source, call

# A kernel of one's own is checked more than those of csrc/cuda: arrays of a thread's own, by
# their bounds and by a value behind them on its stack. memset and its like are sim's functions
# (csrc/sim/include/cuda/call.h), so the compiler must call them. A lane's stack has 64 KiB:
# larger arrays are refused with their line.
CHECKED = [
    *["-fsanitize=bounds", "-fstack-protector-strong", "-U_FORTIFY_SOURCE"],
    *["-fno-builtin-memset", "-fno-builtin-memcpy", "-fno-builtin-memmove"],
    "-fno-builtin-printf",
    "-Werror=frame-larger-than=40000",
    "-fsanitize=float-cast-overflow,shift-exponent",  # a GPU gives other bits there
    *["-fno-builtin-fmin", "-fno-builtin-fmax", "-fno-builtin-fminf", "-fno-builtin-fmaxf"],
    *(["-mlong-double-64"] if platform.machine() == "x86_64" else []),
]


def _translation(text: str, kernels: dict[str, int]) -> str:
    calls = []
    for name, count in kernels.items():
        arguments = [f", gop_sim_argument{{gop_a[{k}]}}" for k in range(count)]
        calls.append(f"GOP_SIM_KERNEL({name}, {''.join(arguments)})")
    try:
        body = _simt.rewrite(marked(text), "kernel.cu")
    except _simt.SharedSyntaxError as error:
        raise CompileError(f"compile: {error}") from None
    return '#include "cuda/call.h"\n' + body + '\n#line 1 "calls"\n' + "\n".join(calls) + "\n"


def compiler() -> list[str]:
    """The C++ compiler's command; CompileError if there is none."""
    info = build_info().get("sim", {})
    command = shlex.split(os.environ.get("CXX", "")) or info.get("command") or ["c++"]
    if not shutil.which(command[0]):
        raise CompileError(
            f"compile: needs a C++ compiler, and {command[0]} is not found: install one, on "
            "Debian and Ubuntu by `apt install g++`"
        )
    return command


def _library(source: Source, kernels: dict[str, int], runtime: Path) -> Path:
    info, command = build_info().get("sim", {}), compiler()
    flags = [f for f in shlex.split(info.get("flags", "")) if not f.startswith("-W")]
    flags += CHECKED
    if "-mllvm" in flags:
        flags.append("-fno-finite-loops")  # clang would drop a loop without an end
    include = [folder() / "sim" / "include", folder(), source.folder]
    full = [*command, *flags, *(f"-I{path}" for path in include)]
    with tempfile.TemporaryDirectory(prefix="gpuops-") as scratch:
        written, made, linked = (Path(scratch, f"kernel.{end}") for end in ("cu", "o", "so"))
        written.write_text(_translation(source.text, kernels))
        # Without -g, which writes this folder's name into what the preprocessor gives.
        preprocessed = call([*full, "-g0", "-E", str(written)], source.text)

        def make() -> bytes:
            # Linked apart: with the sanitizer's flag the linker would add its runtime library.
            call([*full, "-c", str(written), "-o", str(made)], source.text)
            shared = [*command, "-shared", str(made), str(runtime), "-o", str(linked)]
            call(shared, source.text)
            return linked.read_bytes()

        stamp = f"{runtime.stat().st_mtime_ns} {runtime} {command} {flags} "
        return cached(stamp + preprocessed.replace(scratch, ""), ".so", make)


class Module:
    """The kernels of one source as a library that is opened beside sim's own."""

    def __init__(self, source: Source, kernels: dict[str, int], device: Device) -> None:
        made = _library(source, kernels, Path(__file__).parents[1] / "_sim.so")
        sources[str(made)] = source.text
        self._library = ctypes.CDLL(str(made))
        where = device.backend, device.ordinal
        self._module = _core.load_module(where, os.fsencode(made))

    def codes(self, name: str) -> list[int]:
        """What csrc/cuda/parameters.h says of each parameter."""
        describe = self._library[f"gop_describe_{name}"]
        return list(iter(map(describe, range(1 << 16)).__next__, -1))

    def launch(self, name: str, grid, block, shared: int, arguments) -> None:
        """`arguments` are 0-d arrays and Buffers, one for each parameter."""
        symbol = f"gop_call_{name}"
        _core.launch(self._module, name, symbol, grid, block, shared, tuple(arguments))
