"""compiling - compile: a CUDA kernel of one's own, run on `sim` like those of this package.

The source is plain CUDA C++. It is compiled by a C++ compiler, so no GPU and no CUDA toolkit
are needed, and every access is checked: indices outside an array, races in shared memory,
barriers that not all threads reach.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _simt
from ._operands import index
from ._source import folder
from .arrays import DeviceArray, to_device
from .config import build_info
from .devices import check, parse
from .errors import CompileError, DeviceError

__all__ = ["CompiledKernel", "Program", "compile"]

_KERNEL = re.compile(
    r"(template\s*<[^;{]*>\s*)?(?:static\s+|extern\s+\"C\"\s+)*__global__\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)\s*\{"
)
_SAID = re.compile(r"^(?:[^\s:]*/)?(kernel\.cu):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.M)


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_size_t),
    )


@dataclass(frozen=True)
class _Parameter:
    dtype: np.dtype | None  # None: of a type that Python cannot pass
    pointer: bool
    const: bool


class CompiledKernel:
    """One kernel; `kernel[grid, block](*args)` runs it, `[grid, block, shared]` with bytes of
    dynamic shared memory. Arrays that the kernel takes as pointers to non-const are changed."""

    def __init__(self, name: str, library: ctypes.PyDLL) -> None:
        self.name = name
        self._call = getattr(library, f"gop_call_{name}")
        self._message = library.gop_sim_message
        self._message.restype = ctypes.c_char_p
        describe = getattr(library, f"gop_describe_{name}")
        describe.restype = ctypes.c_char_p
        self.parameters = tuple(_parameters(describe))

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.name}, {len(self.parameters)} parameters, on sim>"

    def __getitem__(self, place):
        if not isinstance(place, tuple) or not 2 <= len(place) <= 3:
            raise TypeError(
                f"{self.name}: launch it as {self.name}[grid, block](...), "
                "or [grid, block, shared_bytes]"
            )
        shared = index(self.name, "shared", place[2]) if len(place) == 3 else 0
        if shared < 0:
            raise ValueError(f"{self.name}: shared is a number of bytes, not {shared}")
        launch = _Launch(
            _sizes(self.name, "grid", place[0]), _sizes(self.name, "block", place[1]), shared
        )
        return lambda *args: self._run(launch, args)

    def _run(self, launch: _Launch, args: tuple[Any, ...]) -> None:
        if len(args) != len(self.parameters):
            raise TypeError(
                f"{self.name}: takes {len(self.parameters)} arguments, got {len(args)}"
            )
        values, kept, back = [], [], []
        for k, (parameter, x) in enumerate(zip(self.parameters, args, strict=True)):
            if not parameter.pointer:
                values.append(_scalar(self.name, k, parameter, x))
                continue
            on_device = _array(self.name, k, parameter, x)
            if on_device is not x and not parameter.const:
                back.append((x, on_device))
            kept.append(on_device)
            values.append(np.array(on_device._buffer.ptr, np.uintp))
        addresses = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
        if self._call(ctypes.byref(launch), addresses) != 0:
            raise DeviceError(self._message().decode())
        for x, on_device in back:
            x[...] = on_device.get()


class Program:
    """What `compile` makes: its kernels by name, or the only one by calling it itself."""

    def __init__(self, kernels: dict[str, CompiledKernel]) -> None:
        self.kernels = kernels

    def __repr__(self) -> str:
        return f"<CUDA program of {', '.join(self.kernels)}, on sim>"

    def __getattr__(self, name: str) -> CompiledKernel:
        if name in self.__dict__.get("kernels", {}):
            return self.kernels[name]
        raise AttributeError(f"the program has no kernel {name!r}")

    def __getitem__(self, place):
        if len(self.kernels) != 1:
            raise TypeError(
                f"the program has the kernels {', '.join(self.kernels)}: name one, "
                f"as program.{next(iter(self.kernels))}[grid, block](...)"
            )
        return next(iter(self.kernels.values()))[place]


def _parameters(describe) -> Iterator[_Parameter]:
    bits = ctypes.c_int()
    k = 0
    while (name := describe(k, ctypes.byref(bits))) is not None:
        dtype = np.dtype(name.decode()) if name else None
        yield _Parameter(dtype, bool(bits.value & 1), bool(bits.value & 2))
        k += 1


def _sizes(kernel: str, word: str, size) -> Any:
    sizes = size if isinstance(size, tuple) else (size,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{kernel}: {word} has one to three sizes, not {len(sizes)}")
    found = [index(kernel, word, s) for s in sizes]
    if not all(0 < s < 1 << 32 for s in found):
        raise ValueError(f"{kernel}: {word} is {size}, expected sizes above 0")
    return (ctypes.c_uint * 3)(*found, *(1,) * (3 - len(found)))


def _known(kernel: str, k: int, parameter: _Parameter) -> np.dtype:
    if parameter.dtype is None:
        raise TypeError(
            f"{kernel}: parameter {k} has a type that Python cannot pass, expected a number or "
            "a pointer to numbers"
        )
    return parameter.dtype


def _scalar(kernel: str, k: int, parameter: _Parameter, x) -> np.ndarray:
    dtype = _known(kernel, k, parameter)
    if isinstance(x, np.ndarray | DeviceArray) and x.ndim:
        raise TypeError(f"{kernel}: argument {k} is an array, the kernel takes one {dtype}")
    if dtype.kind in "iu" and not isinstance(x, int | np.integer | np.bool_):
        raise TypeError(f"{kernel}: argument {k} is {x!r}, the kernel takes an integer")
    try:
        return np.array(x.item() if isinstance(x, np.generic) else x, dtype)
    except OverflowError:
        raise OverflowError(f"{kernel}: argument {k} is {x}, too large for {dtype}") from None


def _array(kernel: str, k: int, parameter: _Parameter, x) -> DeviceArray:
    dtype = _known(kernel, k, parameter)
    if not isinstance(x, np.ndarray | DeviceArray):
        raise TypeError(f"{kernel}: argument {k} is {x!r:.40}, the kernel takes an array")
    if x.dtype != dtype:
        raise TypeError(f"{kernel}: argument {k} has dtype {x.dtype}, the kernel takes {dtype}")
    if isinstance(x, DeviceArray):
        if x._buffer.device[0] != "sim":
            raise ValueError(f"{kernel}: argument {k} lives on another device than sim")
        return x
    if not x.flags.c_contiguous:
        raise ValueError(f"{kernel}: argument {k} is not C-contiguous; pass a copy of it")
    if not parameter.const and not x.flags.writeable:
        raise ValueError(f"{kernel}: argument {k} is read-only, and the kernel may store to it")
    return to_device(x, "sim")


# ---- compiling ----


def _read(source) -> str:
    if isinstance(source, os.PathLike):
        return Path(source).read_text()
    if not isinstance(source, str):
        raise TypeError(f"compile: source is CUDA C++ or a path, not {source!r:.60}")
    return source if re.search(r"[\n{;]", source) else Path(source).read_text()


def _kernel_names(text: str) -> dict[str, int]:
    """Names of the kernels with the number of their parameters."""
    plain = _simt.without_comments(text)
    found = {}
    for template, name, parameters in _KERNEL.findall(plain):
        if template:
            raise CompileError(
                f"compile: the kernel {name} is a template; make it a __device__ function, and "
                "call that from a kernel for each type"
            )
        inside = parameters.strip()
        found[name] = 0 if inside in ("", "void") else parameters.count(",") + 1
    if "<<<" in plain:
        line = plain[: plain.index("<<<")].count("\n") + 1
        raise CompileError(
            f"compile: line {line} launches a kernel; compile kernels alone, and launch them "
            "from Python as kernel[grid, block](...)"
        )
    if not found:
        raise CompileError("compile: the source has no kernel, `__global__ void name(...) {`")
    return found


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


def _readable(said: str, text: str) -> str:
    """The compiler's errors by line of the source, each with the line itself."""
    lines = text.splitlines()
    found = [
        f"line {line}: {words}\n    {lines[int(line) - 1].strip()}"
        for _, line, words in _SAID.findall(said)
        if int(line) <= len(lines)
    ]
    return "compile: the source does not compile\n" + ("\n".join(found) or said.strip())


def _call(command: list[str], text: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(_readable(done.stderr, text))


def _build(text: str, kernels: dict[str, int], library: Path) -> Path:
    info = build_info().get("sim", {})
    command = shlex.split(os.environ.get("CXX", "")) or info.get("command") or ["c++"]
    if not shutil.which(command[0]):
        raise CompileError(f"compile: needs a C++ compiler, and {command[0]} is not found")
    flags = [f for f in shlex.split(info.get("flags", "")) if not f.startswith("-W")]
    include = [f"-I{folder() / 'sim' / 'include'}", f"-I{folder()}"]
    # A lane's stack has 64 KiB: larger arrays of its own are refused, with their line.
    full = [*command, *flags, "-Werror=frame-larger-than=40000", *include]
    translation = _translation(text, kernels)
    stamp = f"{library.stat().st_mtime_ns} {library} {full} {translation}"
    key = hashlib.sha256(stamp.encode()).hexdigest()[:32]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gpuops")
    made = cache / f"{key}.so"
    if made.exists():
        return made
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        source, object_, output = (Path(scratch, f"kernel.{end}") for end in ("cu", "o", "so"))
        source.write_text(translation)
        # Linked apart: with the sanitizer's flag the linker would add its runtime library.
        _call([*full, "-c", str(source), "-o", str(object_)], text)
        _call([*command, "-shared", str(object_), str(library), "-o", str(output)], text)
        output.replace(made)
    return made


def compile(source) -> Program:
    """Compiles CUDA kernels for `sim`: no GPU and no CUDA toolkit are needed.

    Parameters
    ----------
    source : str or path
        CUDA C++ with one ``__global__`` function or more, or the file that holds it.

    Returns
    -------
    Program
        ``program[grid, block](*args)`` runs its only kernel on NumPy arrays and numbers,
        ``program.name[grid, block](*args)`` one of several. A mistake that a GPU may let pass
        (an index outside an array, a race in shared memory, a barrier that some threads miss)
        raises DeviceError with the line; so `profile` counts what the warps do.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> k = gpuops.compile('''
    ... __global__ void twice(float *a, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) a[i] *= 2;
    ... }''')    # doctest: +SKIP
    >>> a = np.arange(5, dtype=np.float32)
    >>> k[1, 32](a, 5)    # doctest: +SKIP
    >>> a    # doctest: +SKIP
    array([0., 2., 4., 6., 8.], dtype=float32)
    """
    text = _read(source)
    check(parse("sim") or parse("cpu"))
    kernels = _kernel_names(text)
    made = _build(text, kernels, Path(__file__).with_name("_sim.so"))
    # The interpreter's lock is kept: a signal's exception then comes out of the call.
    library = ctypes.PyDLL(str(made))
    return Program({name: CompiledKernel(name, library) for name in kernels})
