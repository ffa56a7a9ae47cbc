"""setup - builds gpuops._core (core and CPU kernels) and the backends beside it.

`_core` is a Python extension. A backend is a plain shared library in the package's folder that
exports gop_backend_open alone and knows nothing of Python: one folder of csrc, one line in
BACKENDS. A backend that cannot be built is left out, said so loudly, and the reason is kept in
gpuops/_build_info.json for gpuops.show_config().

    GPUOPS_CUDA=auto|0|1    auto: where nvcc works; 1: its absence is an error
    GPUOPS_SIM=auto|0|1     the same, of a C++ compiler: CUDA's kernels on the CPU
    GPUOPS_OPENCL=auto|0|1  the same; it needs no OpenCL, which is looked for when it is used
    GPUOPS_CUDA_ARCHS       "90a", "80 90a 120+PTX", "native", "all"; without it, native where
                            a GPU answers and all elsewhere
    GPUOPS_CUDA_QUICK=1     CUDA kernels are compiled in half of the time, and are slower: for
                            CI, which runs none of them
    GPUOPS_CPU_LEVELS=all|native  native: the CPU's kernels for this machine's processor, a
                            third of the time; such a build runs on no lesser one
    NVCC, CUDA_HOME, NVCC_CCBIN, CC, CXX, CFLAGS, MAX_JOBS, GPUOPS_WERROR=1, GPUOPS_LINKER
"""

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from _build.compile import CompileError, Step, call, run_steps  # noqa: E402
from _build.embed import embed  # noqa: E402
from _build.levels import chosen_levels, is_x86, level_mask  # noqa: E402
from _build.link import link, linker, optimised, own_library  # noqa: E402
from _build.rewritten import rewritten  # noqa: E402
from _build.together import together  # noqa: E402
from _build.toolkit import (  # noqa: E402
    BrokenToolkit,
    NoToolkit,
    Toolkit,
    archs_of,
    gencode,
    is_alike,
)

CSRC = Path("csrc")
BUILD = ROOT / "build" / "objects"
IS_DARWIN = sys.platform == "darwin"
WERROR = os.environ.get("GPUOPS_WERROR") == "1"
QUICK = ["--Ofast-compile=max"] if os.environ.get("GPUOPS_CUDA_QUICK") == "1" else []
# A free-threaded interpreter has no limited API: it gets a module of its own version.
ABI3 = not sysconfig.get_config_var("Py_GIL_DISABLED")

CC = shlex.split(os.environ.get("CC") or ("cc" if shutil.which("cc") else "gcc"))
LEVELS = chosen_levels(CC)
# Fusing happens only where the source says fma(). errno and traps are not looked at, and
# forgetting them changes no value.
C_FLAGS = [
    *["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O3", "-ffp-contract=off", "-fno-math-errno"],
    *["-fno-trapping-math", "-fvisibility=hidden", "-fPIC"],
    *["-Wall", "-Wextra", "-Wshadow", "-Icsrc"],
    # A thread may have a small stack: no frame is large, and one that grows past the end of a
    # stack meets its guard page.
    "-Wframe-larger-than=16384",
    *([] if IS_DARWIN else ["-fstack-clash-protection"]),
    f"-DGOP_LEVELS={level_mask(LEVELS)}",
    *(["-Werror"] if WERROR else []),
    *shlex.split(os.environ.get("CFLAGS", "")),
]
CUDA_FLAGS = [
    *["-std=c++17", "-O3", "-fmad=false", "-Icsrc", "-Xcompiler"],
    "-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-fvisibility=hidden,-fPIC,-Wall",
    *(["--Werror=all-warnings"] if WERROR else []),
]
# The kernels of csrc/cuda for the CPU. The sanitizer's calls before every access are sim's own
# (csrc/sim/trace.c); a vectorizer would merge accesses of one thread that a GPU makes apart.
CXX = shlex.split(os.environ.get("CXX") or "c++")
SIM_FLAGS = [
    *["-x", "c++", "-std=c++17", "-O1", "-fno-tree-vectorize", "-fsanitize=thread"],
    *["-ffp-contract=off", "-fno-math-errno", "-fno-exceptions", "-fno-rtti", "-fPIC", "-g1"],
    *["-fno-threadsafe-statics", "-fvisibility=hidden", "-ftls-model=initial-exec"],
    "-fsanitize-coverage=trace-pc,trace-cmp",  # calls at branches: csrc/sim/paths.c
    # Lines of mistakes and of counts: of files by their place in the repository, no columns.
    *["-gno-column-info", f"-ffile-prefix-map={ROOT}=gpuops"],
    *["-Wall", "-Wno-unknown-pragmas", "-Wno-sign-compare"],
    *(["-Werror"] if WERROR else []),
]
# What each compiler understands besides: calls at the start of functions are not wanted.
SIM_EXTRA = {
    "gcc": [
        *["--param=tsan-instrument-func-entry-exit=0", "-Wno-class-memaccess"],
        "-fno-reorder-blocks",  # what comes later in the source has a higher address
    ],
    "clang": [
        *["-mllvm", "-tsan-instrument-func-entry-exit=0"],
        *["-mllvm", "-tsan-instrument-read-before-write=1", "-fno-slp-vectorize"],
        "-fsanitize-coverage=no-prune",  # at every basic block, as gcc does
    ],
}
# The one file that shows what compilers do to a*b + c unless they are told not to.
CONTRACTED = {
    "-fmad=false": ["-fmad=true"],
    "-ffp-contract=off": ["-ffp-contract=fast", *(["-mfma"] if is_x86() else [])],
    "-O1": ["-O2"],  # below that gcc fuses nothing
}
LINK = [*linker(CC), *([] if IS_DARWIN else ["-Wl,-z,defs"])]


@functools.cache
def shared_sources() -> str:
    """A hash of what the core and the CUDA backend are both made of: two packages that hold one
    each fit each other where it is the same."""
    found = (p for p in sorted(CSRC.rglob("*")) if p.suffix in (".h", ".inc", ".cu", ".def"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in found)).hexdigest()[:16]


def op_stems() -> set[str]:
    return set(re.findall(r"^GOP_OP\(\w+, (\w+)\)", (CSRC / "ops.def").read_text(), re.M))


def flags_for(source: Path, flags: list[str]) -> list[str]:
    """The flags of a kernel's file, as they are or with the contraction left on."""
    if source.stem != "contracted":
        return flags
    return [new for flag in flags for new in CONTRACTED.get(flag, [flag])]


def compile_step(compiler, flags, source: Path, suffix: str = "") -> Step:
    folder = source.parent.relative_to(BUILD if source.is_relative_to(BUILD) else CSRC)
    made = BUILD / folder / f"{source.stem}{suffix}.o"
    depfile = made.with_name(made.name + ".d")
    command = [*compiler, *flags, "-MMD", "-MF", depfile, "-c", source, "-o", made]
    return Step(made, tuple(map(str, command)), (ROOT / source,))


def python_flags() -> list[str]:
    try:
        import numpy
    except ImportError:
        sys.exit(
            "gpuops builds against NumPy >= 2.0, and this Python has none: leave "
            "--no-build-isolation out, or pip install 'numpy>=2.0' 'setuptools>=77' first"
        )
    if int(numpy.__version__.split(".")[0]) < 2:
        sys.exit(f"gpuops builds against NumPy >= 2.0; this is {numpy.__version__}")
    return [
        *(["-DPy_LIMITED_API=0x030B0000"] if ABI3 else []),
        "-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION",
        "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION",
        # Python passes each function its module, which few of ours need.
        "-Wno-unused-parameter",
        # Their headers are not ours to warn about.
        *("-isystem", sysconfig.get_paths()["include"], "-isystem", numpy.get_include()),
    ]


@functools.cache
def whole_program() -> tuple[tuple[str, ...], str]:
    """Flags by which GCC optimises files as one, since a short call passes through small
    functions of many; and why there are none. The objects are ordinary ones besides, which
    anyone can link. Some installations of GCC lack the linker's part of it: a program of two
    lines tells."""
    if IS_DARWIN or "Free Software Foundation" not in call((*CC, "--version")):
        return (), "not asked for: the compiler is not GCC"
    flags = ("-flto=1", "-flto-partition=one", "-ffat-lto-objects")
    source, made = (BUILD / "probe" / f"lto.{suffix}" for suffix in ("c", "so"))
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("int one(void);\nint one(void) { return 1; }\n")
    try:
        call((*map(str, (*CC, *flags, "-shared", "-fPIC", source, "-o", made)),))
    except CompileError as error:
        return (), f"left out, since it does not work here: {error}"
    return flags, ""


def kernel_steps() -> list[Step]:
    """Core and the CPU's kernels, without Python's part: the tests' driver is made of them."""
    whole = [*C_FLAGS, *whole_program()[0]]
    steps = [compile_step(CC, whole, source) for source in sorted(CSRC.glob("core/*/*.c"))]
    steps += [
        compile_step(CC, whole, source) for source in sorted(CSRC.glob("cpu/runtime/*.c"))
    ]
    for source in sorted(CSRC.glob("cpu/*/ladder.c")):  # includes its kernels' files
        for level, flags in LEVELS.items():
            chosen = [*C_FLAGS, f"-DGOP_LEVEL={level}", *flags]
            if source.parent.name == "add" and level == "avx512":
                chosen.append("-mprefer-vector-width=256")  # memory is the bound: see lines.h
            steps.append(compile_step(CC, chosen, source, f".{level}"))
    return steps


def build_core(target: Path) -> dict:
    steps = kernel_steps()
    whole, no_whole = whole_program()
    python = [*C_FLAGS, *whole, *python_flags()]
    tag = f".{sys.implementation.cache_tag}"
    steps += [
        compile_step(CC, python, source, tag) for source in sorted(CSRC.glob("python/*.c"))
    ]
    run_steps(steps, "core")
    if os.environ.get("GPUOPS_LINKER") and whole:
        steps, whole = optimised(CC, whole, steps, BUILD / "_core.o"), ()
    # Python's own symbols come from the interpreter, so this one cannot be linked with -z defs.
    link(target, BUILD, [*linker(CC), *whole], steps, ["-lm", "-pthread"])
    return {
        "built": True,
        "sources": shared_sources(),
        "compiler": call((*CC, "--version")).partition("\n")[0],
        "flags": shlex.join(C_FLAGS),
        "link_time_optimisation": shlex.join(whole) or no_whole,
        "levels": list(LEVELS),
        "abi3": ABI3,
    }


def build_cuda(target: Path) -> dict:
    if not sys.platform.startswith("linux"):
        raise NoToolkit("the CUDA backend is built on Linux alone (on Windows: in WSL)")
    toolkit = Toolkit(BUILD / "probe", CUDA_FLAGS, LINK)
    flags = [*toolkit.flags, f'-DGOP_CUDA_ARCHS="{" ".join(toolkit.archs)}"']
    steps = []
    for source in together(CSRC, BUILD):
        code = gencode(archs_of(source.stem, toolkit.archs), is_alike(source))
        chosen = [*flags_for(source, flags), *code]
        # nvcc's level is the host compiler's. What plans and launches a kernel is short and has
        # no loops, but is instantiated as often as the kernel: it need not be inlined.
        if source.stem != "together":
            chosen = ["-O1" if flag == "-O3" else flag for flag in chosen]
        # Code that nobody runs need not be fast: half of the time. But wgmma is compiled as for
        # a release: ptxas makes other code of it without its optimiser.
        if not source.stem.endswith("_sm90"):
            chosen += QUICK
        steps.append(compile_step(toolkit.command, chosen, source))
    run_steps(steps, "cuda")
    exports = BUILD / "backend.map"
    exports.write_text("{ global: gop_backend_open; local: *; };\n")
    # Names of what is not exported are a seventh of it. Kernels keep theirs for profilers.
    options = [f"-Wl,--version-script={exports}", "-Wl,--strip-all"]
    link(target, BUILD, [*LINK, *options], steps, toolkit.link)
    return {
        "built": True,
        "sources": shared_sources(),
        "nvcc": shlex.join(toolkit.command).replace(f"{ROOT}/", ""),
        "version": toolkit.version,
        "archs": toolkit.archs,
        "flags": shlex.join([*toolkit.flags, *QUICK, *gencode(toolkit.archs)]),
    }


def build_sim(target: Path) -> dict:
    if not sys.platform.startswith("linux"):
        raise NoToolkit("the sim backend is built on Linux alone (on Windows: in WSL)")
    if not shutil.which(CXX[0]):
        raise NoToolkit(f"no C++ compiler: {CXX[0]} is not found; install g++, or set CXX")
    said = subprocess.run([*CXX, "--version"], capture_output=True, text=True, check=False)
    kind = "clang" if "clang" in said.stdout else "gcc"
    folders = ["-Icsrc/sim/include", f"-I{(BUILD / 'sim').relative_to(ROOT)}", "-Icsrc"]
    flags = [*SIM_FLAGS, *SIM_EXTRA[kind], *folders]
    steps = []
    for source in rewritten(CSRC, BUILD):
        made = (ROOT / source).with_suffix(".o")
        chosen = flags_for(source, flags)
        # Half of the compiler's time, and counts are as near to a GPU's. But some
        # kernels of transpose load what is not yet written, and add's count 1.4 times as long.
        if source.parent.name not in ("add", "transpose"):
            chosen = ["-Og" if flag == "-O1" else flag for flag in chosen]
        command = [*CXX, *chosen, "-MMD", "-MF", f"{made}.d", "-c", source, "-o", made]
        steps.append(Step(made, tuple(map(str, command)), (ROOT / source,)))
    runtime = [*C_FLAGS, "-ftls-model=initial-exec"]
    steps += [compile_step(CC, runtime, source) for source in sorted(CSRC.glob("sim/*.c"))]
    run_steps(steps, "sim")
    exports = BUILD / "sim.map"
    # What kernels that Python compiles call; bound to this library whoever else has the names.
    called = "gop_sim_*; __wrap_*; __tsan_*; __sanitizer_cov_*"
    exports.write_text(f"{{ global: gop_backend_open; {called}; local: *; }};\n")
    options = ["-Wl,--as-needed", "-Wl,-Bsymbolic", f"-Wl,--version-script={exports}"]
    link(target, BUILD, [*LINK, *options], steps, [*own_library(CC), "-lm", "-pthread"])
    return {
        "built": True,
        "command": CXX,
        "compiler": said.stdout.partition("\n")[0],
        "flags": shlex.join([*SIM_FLAGS, *SIM_EXTRA[kind]]).replace(str(ROOT), "."),
    }


def build_opencl(target: Path) -> dict:
    if not sys.platform.startswith("linux"):
        raise NoToolkit("the OpenCL backend is built on Linux alone (on Windows: in WSL)")
    texts = BUILD / "opencl" / "sources.c"
    embed(CSRC, sorted(CSRC.glob("opencl/*/*.cl")), texts)
    steps = [compile_step(CC, C_FLAGS, source) for source in sorted(CSRC.glob("opencl/*/*.c"))]
    made = texts.with_suffix(".o")
    command = [*CC, *C_FLAGS, "-MMD", "-MF", f"{made}.d", "-c", texts, "-o", made]
    steps.append(Step(made, tuple(map(str, command)), (texts,)))
    run_steps(steps, "opencl")
    exports = BUILD / "opencl.map"
    exports.write_text("{ global: gop_backend_open; local: *; };\n")
    options = ["-Wl,--as-needed", f"-Wl,--version-script={exports}"]
    link(target, BUILD, [*LINK, *options], steps, ["-ldl", "-lm", "-pthread"])
    return {"built": True, "flags": shlex.join(C_FLAGS)}


# Name, its builder, the variable that asks for it or does without it.
BACKENDS = [
    ("cuda", build_cuda, "GPUOPS_CUDA"),
    ("opencl", build_opencl, "GPUOPS_OPENCL"),
    ("sim", build_sim, "GPUOPS_SIM"),
]


def made_of(name: str) -> tuple[str, str]:
    """What building a backend leaves in the package: its library, or what the compiler said.
    The log ships with the package, since pip removes the folder that it builds in."""
    return f"_{name}.so", f"_build_{name}.log"


def build_backend(name: str, builder, variable: str, target: Path, log: Path) -> dict:
    wish = os.environ.get(variable, "auto")
    if wish not in ("auto", "0", "1"):
        sys.exit(f"{variable} is auto, 0 or 1, not {wish!r}")
    if wish == "0":
        return {"built": False, "reason": f"{variable}=0 at build time; {variable}=1 builds it"}
    try:
        return builder(target)
    except (NoToolkit, CompileError) as error:
        # Where warnings are errors somebody works on the sources: without the library that does
        # not compile, half of the tests would pass and look like all.
        is_fault = not isinstance(error, (NoToolkit, BrokenToolkit))
        if wish == "1" or (WERROR and is_fault):
            said = getattr(error, "log", "")
            cause = f"{variable}=1" if wish == "1" else "GPUOPS_WERROR=1"
            sys.exit(f"{said}\n{cause}, but the {name} backend was not built: {error}")
        if isinstance(error, NoToolkit):
            return {"built": False, "reason": str(error)}
        log.write_text(error.log)
        return {"built": False, "reason": str(error), "log": log.name}


class BuildExtensions(build_ext):
    def run(self):
        # setuptools clears `inplace`, builds into build_lib, then copies into the source tree.
        inplace = bool(self.inplace)
        self.info = {}
        super().run()
        folder = Path("gpuops") if inplace else Path(self.build_lib, "gpuops")
        text = json.dumps(self.info, indent=2) + "\n"
        (folder / "_build_info.json").write_text(text)
        for name, _, variable in BACKENDS:
            self.say(name, variable, folder)

    def build_extension(self, ext):
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        try:
            self.info["core"] = build_core(target)
        except CompileError as error:
            sys.exit(f"{error.log}\ngpuops._core was not built: {error}")
        for name, builder, variable in BACKENDS:
            library, log = (target.with_name(made) for made in made_of(name))
            library.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
            self.info[name] = build_backend(name, builder, variable, library, log)

    def copy_extensions_to_source(self):
        super().copy_extensions_to_source()
        for name, _, _ in BACKENDS:
            for made in made_of(name):
                target = Path("gpuops", made).resolve()
                target.unlink(missing_ok=True)
                if (source := Path(self.build_lib, "gpuops", made)).exists():
                    shutil.copy(source, target)

    def say(self, name: str, variable: str, folder: Path):
        info = self.info[name]
        if info["built"]:
            archs = f" for {' '.join(info['archs'])}" if "archs" in info else ""
            print(f"gpuops: built with the {name} backend{archs}", file=sys.stderr)
        elif os.environ.get(variable) != "0":
            rule = "=" * 78
            log = f"\nsee {folder.resolve() / info['log']}" if "log" in info else ""
            print(
                f"{rule}\ngpuops: built WITHOUT the {name} backend. {info['reason']}{log}\n"
                f"With the cause mended: {variable}=1 pip install --no-cache-dir "
                f"--force-reinstall ...\n{rule}",
                file=sys.stderr,
            )


class BuildPackage(build_py):
    """Ships the kernels' sources inside the package: gpuops.source() works from a wheel."""

    def run(self):
        # What an earlier build left there would be shipped too.
        shutil.rmtree(Path(self.build_lib, "gpuops"), ignore_errors=True)
        super().run()
        if not getattr(self, "editable_mode", False):
            for source in sorted(CSRC.rglob("*")):
                if source.suffix in (".c", ".h", ".inc", ".cu", ".cl", ".def"):
                    target = Path(self.build_lib, "gpuops", source)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, target)


if __name__ == "__main__":
    setup(
        # The sources are listed for the sdist; BuildExtensions finds them itself.
        ext_modules=[Extension("gpuops._core", ["csrc/core/road/run.c"], py_limited_api=ABI3)],
        cmdclass={"build_ext": BuildExtensions, "build_py": BuildPackage},
        options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
    )
