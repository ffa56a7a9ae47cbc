"""toolkit - finds nvcc, the architectures to build for, and whether nvcc works here."""

import ctypes
import importlib.util
import os
import platform
import re
import shlex
import shutil
from pathlib import Path

from _build.compile import CompileError, Step, call, run_steps

# A cubin for every supported generation, which runs on its later members too (8.0's on 8.6 and
# 8.9), and PTX of the newest for those to come: PTX needs a driver as new as the compiler, a
# cubin does not. 90a holds Hopper's own instructions.
RELEASE_ARCHS = "75 80 90a 100+PTX 120"

SYSTEM_NVCC = Path("/usr/local/cuda/bin/nvcc")

PROBE = """#include <cuda_runtime.h>
__global__ void probe(float *x) { *x = 1.0f; }
extern "C" int gop_probe(float *x) { probe<<<1, 1>>>(x); return cudaGetLastError(); }
"""

# From glibc 2.42 on, math.h declares rsqrt with an exception specification that the headers of
# CUDA 13.0 and 13.1 contradict; without the GNU extensions it does not declare it.
GLIBC_CURE = ("-U_GNU_SOURCE", "-D_DEFAULT_SOURCE")


class NoToolkit(Exception):
    """Why there is no CUDA build, in a sentence."""


class BrokenToolkit(CompileError):
    """nvcc fails on three lines: that is no fault of the sources."""

    def __init__(self, version: str, error: CompileError):
        Exception.__init__(self, f"nvcc {version} fails on three lines: {error}")
        self.log = error.log


def find_nvcc(wheels: bool = True) -> list[str] | None:
    """The command: NVCC, CUDA_HOME or CUDA_PATH, PATH, /usr/local/cuda, NVIDIA's wheels."""
    asked = os.environ.get("NVCC")
    if asked:
        return shlex.split(asked)  # may be a list, as "ccache nvcc"
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    for folder in folders:
        if folder and (nvcc := Path(folder, "bin", "nvcc")).exists():
            return [str(nvcc)]
    found = shutil.which("nvcc")
    if not found and SYSTEM_NVCC.exists():
        found = str(SYSTEM_NVCC)
    if not found and wheels:
        found = next(wheel_nvcc(), None)
    return [found] if found else None


def wheel_nvcc():
    """nvcc of the packages nvidia-cuda-nvcc and its kin, where they are installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        nvcc = Path(folder, "cu13", "bin", "nvcc")
        if nvcc.exists():
            yield str(nvcc)


def has_driver() -> bool:
    """An NVIDIA driver is on this machine; asks without starting it."""
    if Path("/proc/driver/nvidia").exists() or Path("/dev/nvidiactl").exists():
        return True
    return load_driver() is not None


def load_driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def archs_here() -> list[str]:
    """The compute capabilities of this machine's GPUs as nvcc writes them: ["90a"]."""
    driver = load_driver()
    count = ctypes.c_int()
    if driver is None or driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    archs = set()
    for ordinal in range(count.value):
        digits = []
        for attribute in (75, 76):  # compute capability, major and minor
            value = ctypes.c_int()
            driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, ordinal)
            digits.append(str(value.value))
        archs.add("".join(digits))
    return sorted("90a" if arch == "90" else arch for arch in archs)


class Toolkit:
    """A working nvcc: .command, .version, .archs, .flags, .link. Raises NoToolkit."""

    def __init__(self, folder: Path, host_flags: list[str], linker: list[str]):
        command = find_nvcc()
        if command is None:
            raise NoToolkit(
                "nvcc was not found: not in NVCC, CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda, "
                "nor as the package nvidia-cuda-nvcc"
            )
        self.command = command
        try:
            said = call((*command, "--version"))
            known = call((*command, "--list-gpu-arch"))
        except CompileError as error:
            raise NoToolkit(f"nvcc does not run: {error}") from error
        release = re.search(r"V(\d+\.\d+\.\d+)", said)
        self.version = release.group(1) if release else "unknown"
        self.archs = self._choose_archs(set(re.findall(r"compute_(\d+)", known)))
        self.flags = list(host_flags)
        if os.environ.get("NVCC_CCBIN"):
            self.flags += ["-ccbin", os.environ["NVCC_CCBIN"]]
        if int(self.version.split(".")[0]) >= 13:
            self.flags += ["-compress-mode=size"]  # loads on every 13.x driver
        libraries = ["-lcudart_static", "-ldl", "-lrt", "-lm", "-lpthread"]
        self.link = [*self._library_folders(), *libraries]
        self._probe(folder, linker)

    def _choose_archs(self, known: set[str]) -> list[str]:
        asked = os.environ.get("GPUOPS_CUDA_ARCHS", "").strip()
        if asked in ("", "native"):
            archs = archs_here()
            if asked and not archs:
                raise NoToolkit("GPUOPS_CUDA_ARCHS=native, but no GPU answers here")
            # An nvcc older than the GPU still makes PTX that its driver can finish.
            if archs and all(number(arch) in known for arch in archs):
                return archs
        if asked in ("", "native", "all"):
            words = RELEASE_ARCHS.split()
            return [word for word in words if number(word) in known] or [max(known) + "+PTX"]
        archs = re.split(r"[\s,;]+", asked.replace(".", ""))
        archs = ["90a" if arch == "90" else arch for arch in archs]  # the same GPUs, all of it
        for arch in archs:
            if number(arch) not in known:
                raise NoToolkit(
                    f"GPUOPS_CUDA_ARCHS asks for {arch}, which nvcc {self.version} does not "
                    f"know; it knows {' '.join(sorted(known, key=int))}"
                )
        return archs

    def _library_folders(self) -> list[str]:
        # NVIDIA's wheels have lib alone, toolkits lib64, conda targets/; a distribution's nvcc
        # uses the system's folders.
        top = Path(shutil.which(self.command[-1]) or self.command[-1]).resolve().parent.parent
        target = f"targets/{platform.machine()}-linux/lib"
        folders = [top / name for name in ("lib64", "lib", target)]
        return [f"-L{path}" for path in folders if (path / "libcudart_static.a").exists()]

    def _probe(self, folder: Path, linker: list[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        source, made, linked = (folder / f"probe.{suffix}" for suffix in ("cu", "o", "so"))
        if not source.exists() or source.read_text() != PROBE:
            source.write_text(PROBE)
        compiling = [*self.command, *self.flags, *gencode(self.archs)]
        compiling += ["-c", str(source), "-o", str(made)]
        linking = [*linker, str(made), *self.link, "-o", str(linked)]
        try:
            try:
                run_steps([Step(made, tuple(compiling), (source,))])
            except CompileError:
                run_steps([Step(made, (*compiling, *GLIBC_CURE), (source,))])
                self.flags += GLIBC_CURE
            run_steps([Step(linked, tuple(linking), (made,))])
        except CompileError as error:
            raise BrokenToolkit(self.version, error) from error


def number(arch: str) -> str:
    """90 of 90a+PTX."""
    return re.sub(r"\D", "", arch)


def archs_of(stem: str, archs: list[str]) -> list[str]:
    """Those of a file's kernels: *_sm90.cu uses what 9.0 alone has, *_sm80.cu what 7.5 has not.
    Where none is left all are, as their rows refuse there in any case. Other files use nothing
    of 9.0 alone, so that later GPUs share its PTX."""
    kept = archs
    later = any(int(number(arch)) >= 100 for arch in archs)
    if stem.endswith("_sm90"):
        kept = [arch for arch in archs if number(arch) == "90"]
    elif stem.endswith("_sm80"):
        kept = [arch for arch in archs if int(number(arch)) >= 80]
    elif later:
        kept = [arch.replace("90a", "90") for arch in archs]
    return kept or archs


# Files whose PTX for 8.0 is that for 7.5 but for the line that names the target, as nvcc -ptx
# shows: it is made once.
ALIKE = {
    *("jacobi/resident", "jacobi_step/balanced", "matmul/gemv_row", "rdf/persistent"),
    "transpose/planar",
}


def is_alike(source: Path) -> bool:
    return "/".join(source.with_suffix("").parts[-2:]) in ALIKE


def gencode(archs: list[str], alike: bool = False) -> list[str]:
    """nvcc's options. Architectures of one generation share the first one's PTX, which is most
    of the work; from 9.0 on all do, as the kernels use nothing of later ones. `alike`: 8.x
    shares 7.x's as well."""
    groups: dict[str, list[str]] = {}
    first = 7 if alike and any(int(number(arch)) < 80 for arch in archs) else 8
    for arch in sorted(archs, key=lambda arch: int(number(arch))):
        name = arch.partition("+")[0]
        major = min(int(number(arch)) // 10, 9)
        if major == 8:
            major = first
        groups.setdefault(name if name.endswith("a") else str(major), []).append(arch)
    flags = []
    for members in groups.values():
        virtual = members[0].partition("+")[0]
        made = [f"sm_{arch.partition('+')[0]}" for arch in members]
        if any(arch.endswith("+PTX") for arch in members):
            made.append(f"compute_{virtual}")
        flags += ["-gencode", f"arch=compute_{virtual},code=[{','.join(made)}]"]
    return flags
