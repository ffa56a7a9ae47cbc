"""sim - kernels of one's own on sim: rewritten, and compiled by a C++ compiler."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import platform
import re
import shlex
import shutil
import tempfile
import threading
import weakref
from pathlib import Path

import numpy as np

from .. import _core
from .._show.elements import Shared, shared_of, variables
from .._show.source import folder
from .._show.where import sources
from ..devices import Device
from ..errors import CompileError, DeviceError
from . import kernel_source, opencl_c
from .arguments import Parameter
from .barriers import marked
from .built import build_info
from .cache import cached, content
from .compiler_words import call, refused
from .declarations import without_strings
from .device_code import Kernel, Refused, translate
from .kernel_source import Source

# A kernel of one's own is checked more than those of csrc/cuda: arrays of a thread's own, by
# their bounds and by a value behind them on its stack. memset and its like are sim's functions
# (csrc/sim/include/cuda/call.h), so the compiler must call them. A lane's stack has 64 KiB:
# larger arrays are refused with their line, and what grows while it runs touches each page.
CHECKED = [
    *["-fsanitize=bounds", "-fstack-protector-strong", "-U_FORTIFY_SOURCE"],
    *["-fno-builtin-memset", "-fno-builtin-memcpy", "-fno-builtin-memmove"],
    # Of the C library: gcc computes some calls itself, and nvcc refuses them.
    *("-fno-builtin-" + name for name in ("memcmp", "strcpy", "strlen", "strcmp", "strcat")),
    *("-fno-builtin-" + name for name in ("sprintf", "snprintf", "strncpy", "strncmp")),
    *["-fno-builtin-printf", "-fstack-clash-protection"],
    # A GPU gives other bits there.
    "-fsanitize=float-cast-overflow,shift-exponent,integer-divide-by-zero",
    *["-fno-builtin-fmin", "-fno-builtin-fmax", "-fno-builtin-fminf", "-fno-builtin-fmaxf"],
    *(["-mlong-double-64"] if platform.machine() == "x86_64" else []),
    *["-Werror=frame-larger-than=40000", "-Werror=vla", "-Werror=return-type", "-Wformat"],
    *["-Wuninitialized", "-Wno-narrowing"],  # nvcc only warns of `int i = {1.5};`
]
# OpenCL C takes a distance modulo the width. So does x86, but not what gcc makes of a constant.
SHIFTS = ["-Werror=shift-count-overflow", "-Werror=shift-count-negative"]
# Of the C library what nobody sees being called: a copy of a structure, made by the compiler.
# All else that is found in no other place is no function of CUDA's. A function called _init or
# _fini does not run when the library is opened or closed.
LINKED = [
    *["-shared", "-nostdlib", "-Wl,-z,defs", "-Wl,-init=no-function"],
    "-Wl,-fini=no-function",
    *(f"-Wl,--wrap={name}" for name in ("memcpy", "memset", "memmove")),
]
# What sources ask nvcc for, as in `#if CUDART_VERSION >= 9000`: CUDA 13.0.
NVCC = [
    *["-D__CUDACC__", "-D__NVCC__", "-D__CUDACC_VER_MAJOR__=13", "-D__CUDACC_VER_MINOR__=0"],
    *["-D__CUDACC_VER_BUILD__=0", "-DCUDART_VERSION=13000", "-DCUDA_VERSION=13000"],
]
_LETTER = re.compile(r"\\U([\da-f]{8})")
_COMPILER = re.compile(r"gop_sim_compiler \{ gcc = (\d+), clang = (\d+) \}")
# Of C++17's <cmath> half are functions that no GPU has, as std::legendre, and what these need.
# Without them a compilation takes a third less.
WITHOUT = "-D_GLIBCXX_BITS_SPECFUN_H"


def _calls(kernels: list[Kernel]) -> str:
    """What Python calls: each kernel's parameters, its bound, and the kernel."""
    made = ['\n# 1 "calls"\n#pragma GCC diagnostic ignored "-Wdeprecated-declarations"\n']
    for k in kernels:
        export = 'extern "C" __attribute__((visibility("default")))'
        made.append(
            f"{export} int gop_describe_{k.name}(unsigned gop_i)\n"
            "{ return gop_sim_describe("
            f"gop_codes_of<decltype(&{k.name})>::type(), gop_i); }}\n"
            f"{export} int gop_call_{k.name}(const gop_sim_place *gop_place, void **gop_a)\n"
            f'{{ return gop_sim_call_("{k.name}", {k.name}, gop_place, gop_a); }}\n'
            f"{export} int gop_most_{k.name}(void) {{ return {k.most or 1024}; }}\n"
        )
    return "".join(made)


def compiler() -> list[str]:
    """The C++ compiler's command; CompileError if there is none."""
    info, asked = build_info().get("sim", {}), os.environ.get("CXX", "")
    try:
        command = shlex.split(asked) or info.get("command") or ["c++"]
    except ValueError as error:
        raise CompileError(f"compile: CXX is {asked!r}, which is no command: {error}") from None
    if not shutil.which(command[0]):
        raise CompileError(
            f"compile: needs a C++ compiler, and {command[0]} is not found: install one, on "
            "Debian and Ubuntu by `apt install g++`"
        )
    return command


def _preprocessed(source: Source, full: list[str], scratch: str, device: Device) -> str:
    arch = "{}{}0".format(*device.info.compute_capability)
    written = Path(scratch, "kernel.cu")
    header, text = "cuda/call.h", source.text
    if source.is_opencl:
        header, text = "opencl/language.h", opencl_c.with_barriers(text)
    written.write_text(
        f'#include "{header}"\n#line 1 "kernel.cu"\n{marked(text)}\n',
        encoding="utf-8",
    )
    # Without -g, which writes this folder's name into what the preprocessor gives.
    asked = ["-g0", "-E", "-DGOP_SIM_OWN", f"-D__CUDA_ARCH__={arch}", WITHOUT]
    if not source.is_opencl:
        asked += NVCC
    made = _in_letters(call([*full, *asked, str(written)], source).replace(scratch, ""))
    return opencl_c.to_cuda(made) if source.is_opencl else made


def _in_letters(preprocessed: str) -> str:
    """Names as their letters: gcc gives `ä` as `\\U000000e4`."""
    if "\\U0" not in preprocessed:
        return preprocessed
    hidden, pieces, end = without_strings(preprocessed), [], 0
    for found in _LETTER.finditer(hidden):
        pieces += [preprocessed[end : found.start()], chr(int(found[1], 16))]
        end = found.end()
    return "".join(pieces) + preprocessed[end:]


@contextlib.contextmanager
def _scratch_folder():
    """Where the compiler reads and writes; an error names the file or folder."""
    try:
        with tempfile.TemporaryDirectory(prefix="gpuops-") as scratch:
            yield scratch
    except OSError as error:
        words = f"compile: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            words += f"; it writes into {tempfile.gettempdir()}: TMPDIR names another folder"
        raise OSError(error.errno or 0, words, error.filename) from None


def _library(
    source: Source, runtime: Path, device: Device
) -> tuple[Path, list[Kernel], dict[int, Shared]]:
    info, command = build_info().get("sim", {}), compiler()
    flags = [f for f in shlex.split(info.get("flags", "")) if not f.startswith("-W")]
    flags += CHECKED
    if "-mllvm" in flags:
        flags.append("-fno-finite-loops")  # clang would drop a loop without an end
    include = [folder() / "sim" / "include", folder(), source.folder]
    full = [*command, *flags, *(f"-I{path}" for path in include)]
    with _scratch_folder() as scratch:
        try:
            preprocessed = _preprocessed(source, full, scratch, device)
            known = _COMPILER.search(preprocessed)
            if not known:
                raise CompileError(
                    f"compile: {command[0]} gave no preprocessed source, expected a C++ "
                    "compiler: look at the variable CXX"
                )
            gcc, clang = (int(number) if number else 0 for number in known.groups())
            word = (
                "__attribute__((require_constant_initialization))" if clang else "__constinit"
            )
            text, kernels, is_balanced = translate(
                preprocessed, folder(), word, source.is_opencl
            )
        except Refused as error:
            raise refused(source, [(error.file, error.line, error.words)]) from None
        if is_balanced and not kernels:
            raise _no_kernel(source)
        if source.is_opencl:
            flags = [*flags, *SHIFTS]
        if clang or gcc >= 12:
            flags = [*flags, "-ftrivial-auto-var-init=pattern"]
        text += _calls(kernels)

        def make() -> bytes:
            return _made(source, text, command, flags, runtime, scratch)

        stamp = f"{runtime.stat().st_mtime_ns} {runtime} {command} {flags} {LINKED} "
        return cached(stamp + text, ".so", make), kernels, shared_of(text)


def _no_kernel(source: Source) -> CompileError:
    return (opencl_c if source.is_opencl else kernel_source).no_kernel(source.text)


def _made(source: Source, text: str, command, flags, runtime: Path, scratch: str) -> bytes:
    written, made, linked = (Path(scratch, f"kernel.{end}") for end in ("ii", "o", "so"))
    written.write_text(text, encoding="utf-8")
    flags = ["c++-cpp-output" if f == "c++" else f for f in flags]
    call([*command, *flags, "-c", str(written), "-o", str(made)], source)
    if b".init_array\0" in made.read_bytes():  # the sanitizer has one of its own name
        raise CompileError(
            "compile: a variable of the file has a constructor or a destructor, which would "
            "run when the kernels are loaded: give it a value that the compiler knows"
        )
    # Linked apart: with the sanitizer's flag the linker would add its runtime library.
    call(
        [*command, *LINKED, str(made), str(runtime), "-lm", "-lgcc", "-o", str(linked)], source
    )
    return linked.read_bytes()


def _placed(parameters: list[Parameter], arguments, shared: int) -> tuple[list, int]:
    """Bytes of local memory become its places, one behind the other; and all that is asked."""
    made = []
    for parameter, x in zip(parameters, arguments, strict=True):
        if parameter.local:
            place = -(-shared // 16) * 16
            shared = place + int(x)
            x = np.array(place, np.int64)
        made.append(x)
    return made, shared


_living: dict[Path, list[tuple[Path, weakref.ref[Module]]]] = {}
_opening = threading.Lock()


def _renew() -> None:
    global _opening
    _opening = threading.Lock()  # the parent's may be held by a thread that the child has not


os.register_at_fork(after_in_child=_renew)


def _place_of_its_own(made: Path, module: Module) -> Path:
    """The library, or a copy of it while another module uses it.

    Each module has variables of its own, as on a GPU, but the loader gives a file only one set.
    """
    with _opening:
        places = _living.setdefault(made, [])
        for i, (place, owner) in enumerate(places):
            if owner() is None:
                places[i] = place, weakref.ref(module)
                return place
        place = cached(None, ".so", lambda: content(made)) if places else made
        places.append((place, weakref.ref(module)))
        return place


class Module:
    """The kernels of one source as a library that is opened beside sim's own."""

    def __init__(self, source: Source, device: Device) -> None:
        if source.is_opencl:
            opencl_c.refuse_words(source.text)
        try:
            runtime = Path(__file__).parents[1] / "_sim.so"
            made, kernels, shared = _library(source, runtime, device)
        except CompileError as error:
            if not source.is_opencl:
                raise
            raise CompileError(opencl_c.said(str(error))) from None
        self._is_opencl = source.is_opencl
        if not kernels:
            raise _no_kernel(source)
        self.names = [k.name for k in kernels]
        self._required = opencl_c.required_sizes(source.text) if source.is_opencl else {}
        made = _place_of_its_own(made, self)
        sources[str(made)] = source.text
        variables[str(made)] = shared
        self._library = ctypes.CDLL(str(made))
        where = device.backend, device.ordinal
        self._module = _core.load_module(where, os.fsencode(made))

    def parameters(self, name: str) -> list[Parameter]:
        """By csrc/cuda/parameters.h."""
        describe = self._library[f"gop_describe_{name}"]
        return list(map(Parameter.of, iter(map(describe, range(1 << 16)).__next__, -1)))

    def launch(self, name: str, grid, block, shared: int, arguments) -> None:
        """`arguments` are 0-d arrays and Buffers, one for each parameter."""
        most = self._library[f"gop_most_{name}"]()
        if most < math.prod(block) <= 1024:
            raise DeviceError(
                f"{name}: a block of {math.prod(block)} threads, expected at most the {most} "
                "of the kernel's __launch_bounds__"
            )
        if (size := self._required.get(name, block)) != block:
            raise DeviceError(
                f"{name}: a work-group of {block} items, expected the {size} of its "
                "reqd_work_group_size"
            )
        arguments, shared = _placed(self.parameters(name), arguments, shared)
        symbol = f"gop_call_{name}"
        try:
            _core.launch(self._module, name, symbol, grid, block, shared, tuple(arguments))
        except DeviceError as error:
            if self._is_opencl:
                error.args = (opencl_c.said(str(error)), *error.args[1:])
            raise
