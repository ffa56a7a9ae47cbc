"""_kernel_source - what compiling for sim and cuda share: source, kernels, errors, cache."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import _simt
from .errors import CompileError

_KERNEL = re.compile(
    r"(template\s*<[^;{]*>\s*)?(?:static\s+|extern\s+\"C\"\s+)*__global__\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)\s*\{"
)
# gcc and clang say kernel.cu:3:5: error: ..., nvcc and NVRTC kernel.cu(3): error: ...
_SAID = re.compile(
    r"^(?:[^\s:(]*/)?kernel\.cu(?::(\d+):(?:\d+:)?|\((\d+)\):) "
    r"(?:fatal |catastrophic )?error: (.*)$",
    re.M,
)


def read(source) -> str:
    if isinstance(source, os.PathLike):
        return Path(source).read_text()
    if not isinstance(source, str):
        raise TypeError(f"compile: source is CUDA C++ or a path, not {source!r:.60}")
    return source if re.search(r"[\n{;]", source) else Path(source).read_text()


def kernel_names(text: str) -> dict[str, int]:
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


def readable(said: str, text: str) -> str:
    """The compiler's errors by line of the source, each with the line itself."""
    lines = text.splitlines()
    found = [
        f"line {line}: {words}\n    {lines[int(line) - 1].strip()}"
        for line, words in ((a or b, words) for a, b, words in _SAID.findall(said))
        if 0 < int(line) <= len(lines)
    ]
    return "compile: the source does not compile\n" + ("\n".join(found) or said.strip())


def call(command: list[str], text: str) -> None:
    """Runs a compiler; CompileError has its words by line of `text`."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(readable(done.stderr + done.stdout, text))


def cached(stamp: str, suffix: str, make: Callable[[Path], Path]) -> Path:
    """The file that was made for a stamp before; else what `make(scratch folder)` made, kept.

    The stamp holds all that the result depends on.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gpuops")
    kept = cache / (hashlib.sha256(stamp.encode()).hexdigest()[:32] + suffix)
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            make(Path(scratch)).replace(kept)
    return kept
