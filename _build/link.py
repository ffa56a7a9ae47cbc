"""link - makes a shared library of objects: by the compiler, or for a release by GPUOPS_LINKER.

A library that is linked here asks for the C library of this machine, or for a later one.
`GPUOPS_LINKER="python -m ziglang cc -target x86_64-linux-gnu.2.28"` links the same objects
for an older one (docs/release.md).
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

from _build.compile import Step, call, run_steps

IS_DARWIN = sys.platform == "darwin"
SHARED = ["-bundle", "-undefined", "dynamic_lookup"] if IS_DARWIN else ["-shared"]


def linker(compiler: list[str]) -> list[str]:
    """The command before the objects."""
    return [*(shlex.split(os.environ.get("GPUOPS_LINKER", "")) or compiler), *SHARED]


def link(target: Path, build: Path, command, steps: list[Step], libraries) -> None:
    """Links beside the objects, or finds that done, and copies to where setuptools asks."""
    made = build / target.name
    objects = [step.output for step in steps]
    words = tuple(map(str, [*command, *objects, *libraries, "-o", made]))
    run_steps([Step(made, words, tuple(objects))])
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    shutil.copy(made, partial)
    partial.replace(target)  # a process that has the old library open keeps it


def own_library(compiler) -> list[str]:
    """For another linker: GCC's own library, before what that one has in its place. This one's
    asks the processor otherwise, and tells where on the builder's machine it was compiled."""
    if not os.environ.get("GPUOPS_LINKER"):
        return []
    return [call((*compiler, "-print-libgcc-file-name")).strip()]


def optimised(compiler, flags, steps: list[Step], made: Path) -> list[Step]:
    """The objects as one, which the compiler has optimised whole: another linker cannot."""
    objects = [*(step.output for step in steps), *map(Path, own_library(compiler))]
    words = [*compiler, *flags, "-r", "-flinker-output=nolto-rel", *objects, "-o", made]
    step = Step(made, tuple(map(str, words)), tuple(objects))
    run_steps([step])
    return [step]
