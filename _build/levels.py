"""levels - the instruction sets that the CPU's kernels are compiled for.

Every file of them is compiled once per level, and the processor decides at run time. A wheel
has all levels. Who compiles for the machine in front of them needs one, the best that it has.
"""

import os
import platform
import sys

from _build.compile import call

# What each level is compiled with, and what the compiler defines where the processor has it.
# -march= and these names are those of GCC and Clang.
LEVELS = {
    "baseline": ("-march=x86-64", ()),
    "avx2": ("-march=x86-64-v3", ("AVX2", "FMA", "BMI2", "F16C")),
    "avx512": (
        "-march=x86-64-v4",
        (
            *("AVX2", "FMA", "BMI2", "F16C"),
            *("AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"),
        ),
    ),
}


def is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def levels_here(compiler: list[str]) -> list[str]:
    """The levels that this processor has, by what the compiler says of it."""
    if not is_x86():
        return ["baseline"]
    said = call((*compiler, "-march=native", "-dM", "-E", "-x", "c", os.devnull))
    defined = {line.split()[1] for line in said.splitlines() if line.startswith("#define __")}
    return [
        name
        for name, (_, needed) in LEVELS.items()
        if all(f"__{macro}__" in defined for macro in needed)
    ]


def chosen_levels(compiler: list[str]) -> dict[str, list[str]]:
    """The levels to compile, each with its flags, by GPUOPS_CPU_LEVELS."""
    if not is_x86():
        return {"baseline": []}
    wish = os.environ.get("GPUOPS_CPU_LEVELS") or "all"
    if wish not in ("all", "native"):
        sys.exit(f"GPUOPS_CPU_LEVELS is all or native, not {wish!r}")
    names = list(LEVELS) if wish == "all" else levels_here(compiler)[-1:]
    return {name: [LEVELS[name][0]] for name in names}


def level_mask(names) -> int:
    """A bit for each level, as csrc/cpu/runtime/levels.h numbers them."""
    return sum(1 << list(LEVELS).index(name) for name in names)
