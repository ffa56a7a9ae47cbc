"""opencl - a kernel in OpenCL C: said in CUDA's words, so that sim plays it, and run by OpenCL.

The words that exercise 13 needs translate one by one, on their own lines. What sim finds of
races and counts of sectors then holds for both, and pyopencl, where it is installed, brings the
same bits from a device of OpenCL's.
"""

from __future__ import annotations

import re

import numpy as np

_INDICES = {
    "get_local_id": "threadIdx.{0}",
    "get_group_id": "blockIdx.{0}",
    "get_local_size": "blockDim.{0}",
    "get_num_groups": "gridDim.{0}",
    "get_global_id": "(blockIdx.{0} * blockDim.{0} + threadIdx.{0})",
    "get_global_size": "(gridDim.{0} * blockDim.{0})",
}
# OpenCL's word, as a regular expression, and CUDA's.
WORDS = [
    (r"\b(?:__)?kernel\b(?=\s+void\b)", "__global__"),
    (r"\b(?:__)?(?:global|private)\s+(?=const\b|float|int|uint|double)", ""),
    (r"\b(?:__)?constant\s+(?=float|int|uint|double)", "const "),
    (r"\b(?:__)?local\s+(?=float|int|uint|double)", "__shared__ "),
    (r"\bbarrier\s*\([^()]*\)", "__syncthreads()"),
    (r"\bmul24\s*\(", "__mul24("),
    *(
        (rf"\b{theirs}\s*\(\s*{axis}\s*\)", ours.format("xyz"[axis]))
        for theirs, ours in _INDICES.items()
        for axis in range(3)
    ),
]


def as_cuda(source: str) -> str:
    """OpenCL C in CUDA's words, line for line."""
    for theirs, ours in WORDS:
        source = re.sub(theirs, ours, source)
    return source


# sim's words, as regular expressions, and OpenCL's.
_SENTENCES = [
    (r"__syncthreads\(\)", "barrier(CLK_LOCAL_MEM_FENCE)"),
    (r" a __syncthreads\b", " a barrier"),
    (r"__syncthreads", "barrier"),
    (r"\bshared memory\b", "local memory"),
    (r"\bthread( \()", r"work-item\1"),
    (r"\bthread\b", "work-item"),
    (r"\bthreads\b", "work-items"),
    (r"\bblock\b", "work-group"),
    (r"\bblocks\b", "work-groups"),
    (r"\bkernel\.cu\b", "kernel.cl"),
]


def as_opencl(said: str, source: str) -> str:
    """A sentence of sim's on `as_cuda(source)` in OpenCL's words, with the source's lines."""
    lines = source.splitlines()
    sentence, *quoted = said.split("\n")
    for ours, theirs in _SENTENCES:
        sentence = re.sub(ours, theirs, sentence)
    for k, line in enumerate(quoted):
        at = re.match(r"(\s*)kernel\.cu:(\d+)  ", line)
        if at and int(at[2]) <= len(lines):
            quoted[k] = f"{at[1]}kernel.cl:{at[2]}  {lines[int(at[2]) - 1].strip()}"
    return "\n".join([sentence, *quoted])


def missing() -> str:
    """Why no OpenCL runs here, in a sentence; "" where it does."""
    try:
        import pyopencl
    except ImportError:
        return 'pyopencl is not installed: pip install "pyopencl[pocl]", with PoCL for CPUs'
    try:
        found = any(platform.get_devices() for platform in pyopencl.get_platforms())
    except pyopencl.Error as error:
        return f'OpenCL has no platform here ({error}): pip install "pyopencl[pocl]" brings one'
    return "" if found else "OpenCL has no device here: PoCL has CPUs"


def errors_of(said: str) -> str:
    """The first errors of a compiler's, by line; all it said where it has no such words."""
    found = re.findall(r"^error: .*?:(\d+):\d+: (.*)$|^.*?:(\d+):\d+: error: (.*)$", said, re.M)
    lines = [f"line {a or c}: {b or d}" for a, b, c, d in found]
    more = [f"and {len(lines) - 3} more"] if len(lines) > 3 else []
    kept = "\n".join([*lines[:3], *more]) or said
    return f"the source does not compile as OpenCL C\n{kept}"


class Runner:
    """A program of OpenCL's on its first device."""

    def __init__(self, source: str, name: str) -> None:
        import pyopencl

        self._cl = pyopencl
        self._context = pyopencl.Context(
            [next(d for p in pyopencl.get_platforms() for d in p.get_devices())]
        )
        self._queue = pyopencl.CommandQueue(self._context)
        try:
            program = pyopencl.Program(self._context, source).build()
        except pyopencl.RuntimeError as error:
            raise ValueError(errors_of(str(error))) from None
        self._kernel = pyopencl.Kernel(program, name)

    def __call__(self, grid, block, args: list) -> None:
        """Arrays are copied there and back."""
        flags = self._cl.mem_flags
        passed = []
        for a in args:
            if isinstance(a, np.ndarray):
                how = flags.READ_WRITE | flags.COPY_HOST_PTR
                passed.append(self._cl.Buffer(self._context, how, hostbuf=a))
            else:
                passed.append(np.int32(a) if isinstance(a, int) else np.float32(a))
        axes = len(grid)
        size = tuple(grid[k] * block[k] for k in range(axes))
        self._kernel(self._queue, size, tuple(block[:axes]), *passed)
        for a, there in zip(args, passed, strict=True):
            if isinstance(a, np.ndarray):
                self._cl.enqueue_copy(self._queue, a, there)
        self._queue.finish()
