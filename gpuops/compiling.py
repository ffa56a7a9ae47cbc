"""compiling - compile: a kernel of one's own, run on a GPU, an OpenCL device or on `sim`.

The source is plain CUDA C++ or OpenCL C. On sim a C++ compiler compiles either, so no GPU and
no toolkit are needed, and every access is checked: indices outside an array, races between
threads, barriers that not all threads reach. On cuda it is NVRTC's or nvcc's, on opencl the
driver's, and the device runs it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ._call.road import index, rounded
from ._compile import cuda as _compile_cuda
from ._compile import opencl as _compile_opencl
from ._compile import sim as _compile_sim
from ._compile.arguments import pass_all
from ._compile.kernel_source import Source, read, refuse_assignments, refuse_launches
from ._compile.watch import watched
from ._show.elements import Argument, called, parameters
from .device_facts import DeviceInfo
from .devices import CPU, Device, check, get_default_device, is_available, parse
from .errors import brief
from .profiling import is_counting

__all__ = ["CompiledKernel", "Program", "compile"]

_NO_COPY = (
    "{}: it is code that was loaded into this process; take the program's `source` along, and "
    "compile it there again"
)


class CompiledKernel:
    """One kernel of a `Program`; `kernel[grid, block](*args)` runs it.

    `kernel[grid, block, shared](*args)` runs it with that many bytes of dynamic shared memory.
    A kernel in OpenCL C runs as `kernel[groups, items](*args)`, with the items of a work-group.
    Arrays that the kernel takes as pointers to non-const are changed.

    Attributes
    ----------
    name : str
        The name of the function in the source.
    device : Device
        What it was compiled for.
    parameters : tuple
        For each parameter its `dtype`, whether it is a `pointer`, and whether it points to
        `const`. In OpenCL C also whether it points to `local` memory, and the `width` of its
        vectors.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> program = gpuops.compile("__global__ void one(int *a) { *a = 1; }")    # doctest: +SKIP
    >>> program.one.parameters[0].pointer    # doctest: +SKIP
    True
    >>> program.one[1, 1](np.zeros(1, np.int32))    # doctest: +SKIP
    """

    def __init__(
        self, name: str, device: Device, module: Any, source: str = "", is_opencl: bool = False
    ) -> None:
        self.name = name
        self._source = source
        self.device = device
        self.parameters = tuple(module.parameters(name))
        self._module = module
        self._words = ("groups", "items") if is_opencl else ("grid", "block")

    def __reduce__(self) -> NoReturn:
        raise TypeError(_NO_COPY.format("CompiledKernel"))

    def __repr__(self) -> str:
        count = len(self.parameters)
        language = "OpenCL" if self._words[0] == "groups" else "CUDA"
        return f"<{language} kernel {self.name}, {count} parameters, on {self.device}>"

    def __getitem__(self, place: tuple[Any, ...]) -> Callable[..., None]:
        if not isinstance(place, tuple) or not 2 <= len(place) <= 3:
            self()
        if len(place) == 3 and self._words[0] == "groups":
            raise TypeError(
                f"{self.name}: OpenCL C has no dynamic shared memory; take a pointer to "
                "__local memory, for which the launch passes the number of its elements"
            )
        shared = index(self.name, "shared", place[2]) if len(place) == 3 else 0
        if not 0 <= shared < 1 << 32:
            raise ValueError(
                f"{self.name}: shared is a number of bytes below 2**32, not {brief(shared)}"
            )
        grid = _sizes(self.name, self._words[0], place[0])
        block = _sizes(self.name, self._words[1], place[1])

        def launch(*args: Any, **words: Any) -> None:
            for word in words:
                raise TypeError(
                    f"{self.name}: the arguments of a kernel have no names, pass {word}= by "
                    "its place"
                )
            self._run(grid, block, shared, args)

        launch.__qualname__ = f"{self.name}[{place[0]}, {place[1]}] on {self.device}"
        return launch

    def __call__(self, *_args: Any, **_words: Any) -> NoReturn:
        outer, inner = self._words
        more = "" if outer == "groups" else ", or [grid, block, shared_bytes]"
        raise TypeError(f"{self.name}: launch it as {self.name}[{outer}, {inner}](...){more}")

    @rounded
    def _run(self, grid, block, shared: int, args: tuple[Any, ...]) -> None:
        n = len(self.parameters)
        if len(args) != n:
            raise TypeError(
                f"{self.name}: expected {n} argument{'s' * (n != 1)}, got {len(args)}"
            )
        if self.device.backend != "sim" and is_counting():
            raise ValueError(
                f"profile: kernels are counted on 'sim', and {self.name} was compiled for "
                f"'{self.device}'; compile it with device='sim'"
            )
        passed, back = pass_all(self.name, self.parameters, args, self.device)
        if self.device.backend == "sim":
            with called(self._arguments(passed)), watched():
                self._module.launch(self.name, grid, block, shared, passed)
        else:
            self._module.launch(self.name, grid, block, shared, passed)
        for x, on_device in back:
            x[...] = on_device.get()

    def _arguments(self, passed: list[Any]) -> tuple[Argument, ...]:
        """Its arrays by the names that the source gives them."""
        names = parameters(self._source, self.name)
        if len(names) != len(passed):
            names = [f"argument {k}" for k in range(len(passed))]
        return tuple(
            Argument(name, x.ptr, p.dtype.itemsize * math.prod(x.shape), p.dtype.itemsize)
            for name, p, x in zip(names, self.parameters, passed, strict=True)
            if p.pointer and p.dtype and not p.local
        )


class Program:
    """What `compile` returns: its kernels by name. If there is only one, launch it directly.

    A program has attributes ``device``, ``kernels`` and ``source``. A kernel of such a name is
    ``program.kernels["device"]``.

    Attributes
    ----------
    kernels : dict
        Name -> CompiledKernel; each is an attribute of its name too.
    device : Device
        What it was compiled for.
    source : str
        The text that was compiled.

    Examples
    --------
    >>> import gpuops
    >>> program = gpuops.compile("__global__ void one(int *a) { *a = 1; }")    # doctest: +SKIP
    >>> list(program.kernels)    # doctest: +SKIP
    ['one']
    """

    def __init__(
        self, kernels: dict[str, CompiledKernel], device: Device, source: str = ""
    ) -> None:
        self.kernels = kernels
        self.device = device
        self.source = source

    def __reduce__(self) -> NoReturn:
        raise TypeError(_NO_COPY.format("Program"))

    def __repr__(self) -> str:
        language = "OpenCL" if Source(self.source, Path()).is_opencl else "CUDA"
        return f"<{language} program of {', '.join(self.kernels)}, on {self.device}>"

    def __getattr__(self, name: str) -> CompiledKernel:
        if name in self.__dict__.get("kernels", {}):
            return self.kernels[name]
        has = ", ".join(self.__dict__.get("kernels", {}))
        raise AttributeError(f"the program has no kernel {name!r}, only {has}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.kernels]

    def __getitem__(self, place: tuple[Any, ...]) -> Callable[..., None]:
        return self._only()[place]

    def __call__(self, *_args: Any, **_words: Any) -> NoReturn:
        self._only()()

    def _only(self) -> CompiledKernel:
        if len(self.kernels) != 1:
            name, first = next(iter(self.kernels.items()))
            place = f'kernels["{name}"]' if name in self.__dict__ else name
            raise TypeError(
                f"the program has the kernels {', '.join(self.kernels)}: name one, "
                f"as program.{place}[{', '.join(first._words)}](...)"
            )
        return next(iter(self.kernels.values()))


# CUDA's limits of each axis; how many threads a block may have in all is the device's to say.
_MOST = {
    "grid": ((2**31 - 1, 65535, 65535), "at most 2**31 - 1 in x and 65535 in y and z"),
    "block": ((2**32 - 1, 2**32 - 1, 64), "at most 64 in z"),
    "groups": ((2**31 - 1,) * 3, "at most 2**31 - 1"),
    "items": ((2**31 - 1,) * 3, "at most 2**31 - 1"),
}


def _sizes(kernel: str, word: str, size) -> tuple[int, ...]:
    sizes = size if isinstance(size, (tuple, list)) else (size,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{kernel}: {word} has one to three sizes, not {len(sizes)}")
    found = [index(kernel, word, s) for s in sizes]
    most, words = _MOST[word]
    if not all(0 < s <= m for s, m in zip(found, most, strict=False)):
        raise ValueError(f"{kernel}: {word} is {brief(size)}, expected sizes above 0, {words}")
    return (*found, *(1,) * (3 - len(found)))


# ---- compiling ----


_COMPILERS = {"cuda": _compile_cuda, "opencl": _compile_opencl, "sim": _compile_sim}
_RUN_ON = {False: ("cuda", "sim"), True: ("opencl", "sim")}  # by whether it is OpenCL C


def _chosen(device, source: Source) -> Device:
    where = get_default_device() if device is None else parse(device)
    if device is None and where == CPU:
        where = Device("sim")
    if where is None:
        usable = not source.is_opencl and is_available("cuda") and _compile_cuda.has_compiler()
        where = Device("cuda" if usable else "sim")
    places = _RUN_ON[source.is_opencl]
    if where.backend not in places:
        hint = "; OpenCL C marks its kernels by `__kernel`" if where.backend == "opencl" else ""
        raise ValueError(
            f"compile: {'OpenCL' if source.is_opencl else 'CUDA'} kernels run on '{places[0]}' "
            f"and '{places[1]}', not on '{where.backend}'{hint}"
        )
    return check(where)


def compile(
    source: str | os.PathLike[str], device: str | Device | DeviceInfo | None = None
) -> Program:
    """Compiles CUDA or OpenCL kernels, for a device or for `sim`, which needs no GPU.

    Parameters
    ----------
    source : str or path
        The source or its file: CUDA C++ with one ``__global__`` function or more, or OpenCL C
        1.2 with one ``__kernel`` function or more. gpuops tells the language by that word.
        Kernels take numbers and pointers to numbers.
    device : str or Device, optional
        "cuda", "cuda:1" or "sim" for CUDA; "opencl" and its like, or "sim", for OpenCL C. By
        default the device of ``with gpuops.device(...)`` or of `set_default_device`, but "sim"
        in place of the CPU. If neither is set, "cuda" for CUDA if there is a GPU and a compiler
        for it, and "sim" in all other cases.

    Returns
    -------
    Program
        ``program[grid, block](*args)`` runs its only kernel on NumPy arrays and numbers, or on
        arrays of that device; ``program.name[grid, block](*args)`` runs one of several. The
        call returns when the kernel is done. In OpenCL C it is ``program[groups, items]``, with
        the number of work-groups and of work-items in each. There, pass the number of elements
        for a pointer to ``__local`` memory, and an array of numbers for a pointer to vectors
        (``float4 *``).

    Raises
    ------
    CompileError
        The source does not compile: the message has the compiler's errors with lines of the
        source (from an OpenCL driver the first error). Or there is no C++ compiler.
    DeviceUnavailableError
        The device is not there, or neither NVRTC nor nvcc is there to compile for it.
    DeviceError
        The device refuses a launch, or it fails while it runs. On sim mistakes that a GPU may
        let pass raise it, with the line: an index outside an array, a race between threads, a
        barrier that not all threads of the block reach.

    Warns
    -----
    SimWarning
        A block has run on sim for 10 seconds: its loop may have no end. The thread and
        line are named.

    Notes
    -----
    On all devices every operation is rounded, as with nvcc's ``--fmad=false``. Where you want
    one rounding, write ``fma(a, b, c)``. So sums, products, quotients, roots and comparisons
    have the same bits. The bits of a NaN, and the last ones of ``expf`` and its like, may
    differ. Two things that C++ leaves undefined and a GPU defines are errors on sim: to convert
    a float that the integer type cannot hold, and to shift by the width or more. Arrays that
    share memory share it on the device; OpenCL's GPUs take them only from the same begin.
    `profile` counts what the warps of kernels on sim do.
    ``#include "..."`` looks in the file's folder; for a string, in the working directory.
    Compiled kernels are kept in ``~/.cache/gpuops`` (or ``$XDG_CACHE_HOME/gpuops``), if nobody
    else can write there.

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
    where = _chosen(device, found)
    refuse_launches(found.text)
    refuse_assignments(found.text)
    module = _COMPILERS[where.backend].Module(found, where)
    kernels = {
        name: CompiledKernel(name, where, module, found.text, found.is_opencl)
        for name in module.names
    }
    return Program(kernels, where, found.text)
