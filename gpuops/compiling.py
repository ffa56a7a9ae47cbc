"""compiling - compile: a CUDA kernel of one's own, run on a GPU or on `sim`.

The source is plain CUDA C++. On sim a C++ compiler compiles it, so no GPU and no CUDA toolkit
are needed, and every access is checked: indices outside an array, races between threads,
barriers that not all threads reach. On cuda it is NVRTC's or nvcc's, and the GPU runs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ._call.operands import index
from ._compile import cuda as _compile_cuda
from ._compile import sim as _compile_sim
from ._compile.kernel_source import read, refuse_assignments, refuse_launches
from .arrays import DeviceArray, borrow, is_foreign, to_device
from .devices import CPU, Device, check, get_default_device, is_available, parse
from .errors import CompileError, brief
from .profiling import is_counting

__all__ = ["CompiledKernel", "Program", "compile"]

_NO_COPY = (
    "{}: it is code that was loaded into this process; take the program's `source` along, and "
    "compile it there again"
)


@dataclass(frozen=True)
class _Parameter:
    dtype: np.dtype | None  # None: of a type that Python cannot pass
    pointer: bool
    const: bool

    @classmethod
    def of(cls, code: int) -> _Parameter:
        """From a code of csrc/cuda/parameters.h."""
        letter = chr(code & 255)
        return cls(np.dtype(letter) if code & 255 else None, bool(code & 256), bool(code & 512))


class CompiledKernel:
    """One kernel; `kernel[grid, block](*args)` runs it, `[grid, block, shared]` with bytes of
    dynamic shared memory. Arrays that the kernel takes as pointers to non-const are changed."""

    def __init__(self, name: str, device: Device, module: Any) -> None:
        self.name = name
        self.device = device
        self.parameters = tuple(map(_Parameter.of, module.codes(name)))
        self._module = module

    def __reduce__(self) -> NoReturn:
        raise TypeError(_NO_COPY.format("CompiledKernel"))

    def __repr__(self) -> str:
        count = len(self.parameters)
        return f"<CUDA kernel {self.name}, {count} parameters, on {self.device}>"

    def __getitem__(self, place: tuple[Any, ...]) -> Callable[..., None]:
        if not isinstance(place, tuple) or not 2 <= len(place) <= 3:
            self()
        shared = index(self.name, "shared", place[2]) if len(place) == 3 else 0
        if shared < 0:
            raise ValueError(f"{self.name}: shared is a number of bytes, not {shared}")
        grid = _sizes(self.name, "grid", place[0])
        block = _sizes(self.name, "block", place[1])

        def launch(*args: Any) -> None:
            self._run(grid, block, shared, args)

        launch.__qualname__ = f"{self.name}[{place[0]}, {place[1]}] on {self.device}"
        return launch

    def __call__(self, *_args: Any, **_words: Any) -> NoReturn:
        raise TypeError(
            f"{self.name}: launch it as {self.name}[grid, block](...), "
            "or [grid, block, shared_bytes]"
        )

    def _run(self, grid, block, shared: int, args: tuple[Any, ...]) -> None:
        if len(args) != len(self.parameters):
            raise TypeError(
                f"{self.name}: takes {len(self.parameters)} arguments, got {len(args)}"
            )
        if self.device.backend != "sim" and is_counting():
            raise ValueError(
                f"profile: kernels are counted on 'sim', and {self.name} was compiled for "
                f"'{self.device}'; compile it with device='sim'"
            )
        passed: list[Any] = []
        back = []
        for k, (parameter, x) in enumerate(zip(self.parameters, args, strict=True)):
            if not parameter.pointer:
                passed.append(_scalar(self.name, k, parameter, x))
                continue
            on_device = _array(self.name, k, parameter, x, self.device)
            if isinstance(x, np.ndarray) and not parameter.const:
                back.append((x, on_device))
            passed.append(on_device._buffer)
        self._module.launch(self.name, grid, block, shared, passed)
        for x, on_device in back:
            x[...] = on_device.get()


class Program:
    """What `compile` makes: its kernels by name, or the only one by calling it itself."""

    def __init__(
        self, kernels: dict[str, CompiledKernel], device: Device, source: str = ""
    ) -> None:
        self.kernels = kernels
        self.device = device
        self.source = source

    def __reduce__(self) -> NoReturn:
        raise TypeError(_NO_COPY.format("Program"))

    def __repr__(self) -> str:
        return f"<CUDA program of {', '.join(self.kernels)}, on {self.device}>"

    def __getattr__(self, name: str) -> CompiledKernel:
        if name in self.__dict__.get("kernels", {}):
            return self.kernels[name]
        raise AttributeError(f"the program has no kernel {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.kernels]

    def __getitem__(self, place: tuple[Any, ...]) -> Callable[..., None]:
        return self._only()[place]

    def __call__(self, *_args: Any, **_words: Any) -> NoReturn:
        self._only()()

    def _only(self) -> CompiledKernel:
        if len(self.kernels) != 1:
            raise TypeError(
                f"the program has the kernels {', '.join(self.kernels)}: name one, "
                f"as program.{next(iter(self.kernels))}[grid, block](...)"
            )
        return next(iter(self.kernels.values()))


def _sizes(kernel: str, word: str, size) -> tuple[int, ...]:
    sizes = size if isinstance(size, tuple) else (size,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{kernel}: {word} has one to three sizes, not {len(sizes)}")
    found = [index(kernel, word, s) for s in sizes]
    if not all(0 < s < 1 << 32 for s in found):
        raise ValueError(f"{kernel}: {word} is {size}, expected sizes above 0")
    return (*found, *(1,) * (3 - len(found)))


def _known(kernel: str, k: int, parameter: _Parameter) -> np.dtype:
    if parameter.dtype is None:
        cast = "; of float4 or a structure, take its numbers, `const float *p`, and cast where "
        cast += "you use them, `((const float4 *)p)[i]`"
        raise TypeError(
            f"{kernel}: parameter {k} has a type that Python cannot pass, expected a number or "
            f"a pointer to numbers{cast if parameter.pointer else ''}"
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


def _array(kernel: str, k: int, parameter: _Parameter, x, device: Device) -> DeviceArray:
    dtype = _known(kernel, k, parameter)
    if is_foreign(x):
        x = borrow(kernel, f"argument {k}", x)
    if not isinstance(x, np.ndarray | DeviceArray):
        raise TypeError(f"{kernel}: argument {k} is {brief(x)}, the kernel takes an array")
    if x.dtype != dtype:
        raise TypeError(f"{kernel}: argument {k} has dtype {x.dtype}, the kernel takes {dtype}")
    if isinstance(x, DeviceArray) and x.device != device:
        raise ValueError(f"{kernel}: argument {k} lives on another device than {device}")
    if not _is_contiguous(x):
        raise ValueError(f"{kernel}: argument {k} is not C-contiguous; pass a copy of it")
    if not parameter.const and not _is_writeable(x):
        raise ValueError(f"{kernel}: argument {k} is read-only, and the kernel may store to it")
    return x if isinstance(x, DeviceArray) else to_device(x, device)


def _is_contiguous(x: np.ndarray | DeviceArray) -> bool:
    if isinstance(x, np.ndarray):
        return x.flags.c_contiguous
    step = x.dtype.itemsize
    for n, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if n > 1 and stride != step:
            return x.size == 0
        step *= n
    return True


def _is_writeable(x: np.ndarray | DeviceArray) -> bool:
    return x.flags.writeable if isinstance(x, np.ndarray) else not x._buffer.readonly


# ---- compiling ----


def _chosen(device) -> Device:
    where = get_default_device() if device is None else parse(device)
    if where == CPU:
        if device is not None:
            raise ValueError("compile: CUDA kernels run on 'cuda' and 'sim', not on 'cpu'")
        where = Device("sim")
    if where is None:
        usable = is_available("cuda") and _compile_cuda.has_compiler()
        where = Device("cuda" if usable else "sim")
    return check(where)


def compile(source: str | os.PathLike[str], device: str | Device | None = None) -> Program:
    """Compiles CUDA kernels, for a GPU or for `sim`, which needs no GPU and no CUDA toolkit.

    Parameters
    ----------
    source : str or path
        CUDA C++ with one ``__global__`` function or more, or the file that holds it. Kernels
        take numbers and pointers to numbers.
    device : str or Device, optional
        "cuda", "cuda:1" or "sim". Without it, the one that a `with` block or the default
        names (sim for the CPU), else cuda where a GPU and a compiler for it are there, else
        sim.

    Returns
    -------
    Program
        ``program[grid, block](*args)`` runs its only kernel on NumPy arrays and numbers, or on
        arrays of that device; ``program.name[grid, block](*args)`` one of several. It returns
        when the kernel is done.

    Raises
    ------
    CompileError
        The compiler's words with the source's own lines, or that no C++ compiler is there.
    DeviceUnavailableError
        The device is not there, or neither NVRTC nor nvcc to compile for it.
    DeviceError
        A launch that the device refuses, or a failure while it ran. On sim every mistake that
        a GPU may let pass (an index outside an array, a race between threads, a barrier that
        some threads miss) raises it with the line.

    Notes
    -----
    Every operation is rounded by itself on both devices (nvcc's ``--fmad=false``), so results
    have the same bits: write ``fma(a, b, c)`` where you mean it. `profile` counts what the
    warps of kernels on sim do. ``#include "..."`` looks in the file's folder, for a string in
    the working directory. Compiled kernels are kept in ``~/.cache/gpuops`` (or
    ``$XDG_CACHE_HOME/gpuops``), as long as only you can write there.

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
    found = read(source)
    where = _chosen(device)
    refuse_launches(found.text)
    refuse_assignments(found.text)
    compiler = _compile_cuda if where.backend == "cuda" else _compile_sim
    module = compiler.Module(found, where)
    if len(module.names) > 1 and (own := {"device", "kernels", "source"} & {*module.names}):
        raise CompileError(
            f"compile: {min(own)} is the program's own word, so `program.{min(own)}` is no "
            "kernel: name the kernel otherwise"
        )
    kernels = {name: CompiledKernel(name, where, module) for name in module.names}
    return Program(kernels, where, found.text)
