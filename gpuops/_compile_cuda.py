"""_compile_cuda - kernels of one's own on a GPU: compiled by NVRTC, or else by nvcc.

Nothing but the compiler reads the types of a kernel's parameters. The source gets, at its end,
an empty kernel for each of its own, whose name carries them: gop_parameters_add<gop_codes<..>>.
The names of all kernels are read from the image, which is what the cache keeps.
"""

from __future__ import annotations

import re
from pathlib import Path

from . import _core
from ._kernel_source import cached, call, readable
from ._nvrtc import Nvrtc, find_nvcc, find_nvrtc, glibc_cure, include_folders
from ._source import folder
from .devices import Device
from .errors import CompileError, DeviceUnavailableError

# Every operation rounded by itself, as in all of gpuops: so the bits are those of sim.
FLAGS = ["-std=c++17", "--fmad=false", "-lineinfo"]

MISSING = (
    "compile: needs NVRTC or nvcc to compile for cuda, and neither was found: not in "
    "CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda, nor as the packages nvidia-cuda-nvrtc or "
    "nvidia-cuda-nvcc; `pip install nvidia-cuda-nvrtc` brings it, and device='sim' needs none"
)


def has_compiler() -> bool:
    return find_nvrtc() is not None or find_nvcc() is not None


def _translation(text: str, kernels: dict[str, int]) -> str:
    # A static kernel that no launch names would be dropped.
    text = re.sub(r"\bstatic(?=\s+(?:\w+\s+|\"C\"\s+)*__global__)", "", text)
    described = [
        f"template <typename T> __global__ void gop_parameters_{name}() {{}}\n"
        f"template __global__ void gop_parameters_{name}<"
        f"gop_codes_of<decltype(&{name})>::type>();"
        for name in kernels
    ]
    return "\n".join([
        (folder() / "cuda" / "parameters.h").read_text(),
        '#line 1 "kernel.cu"',
        text,
        '#line 1 "parameters"',
        *described,
        "",
    ])  # fmt: skip


def image(text: str, kernels: dict[str, int], capability: tuple[int, int]) -> bytes:
    """The kernels as a cubin of one compute capability, or as PTX that its driver finishes."""
    source = _translation(text, kernels)
    nvrtc, nvcc = find_nvrtc(), find_nvcc()
    if nvrtc is not None:
        try:
            return _by_nvrtc(nvrtc, source, text, capability)
        except CompileError as error:
            # NVRTC brings few headers of the C library, nvcc takes the host's.
            if nvcc is None or "cannot open source file" not in str(error):
                raise
    if nvcc is None:
        raise DeviceUnavailableError(MISSING)
    return _by_nvcc(nvcc, source, text, capability)


def _by_nvrtc(path: str, source: str, text: str, capability: tuple[int, int]) -> bytes:
    nvrtc = Nvrtc(path)
    arch = f"--gpu-architecture={nvrtc.arch(capability)}"
    flags = [arch, *FLAGS, *(f"-I{path}" for path in include_folders())]

    def make(scratch: Path) -> Path:
        made, said = nvrtc.compile(source, flags)
        if made is None:
            raise CompileError(readable(said, text))
        target = scratch / "image"
        target.write_bytes(made)
        return target

    return cached(f"{path} {nvrtc.version} {flags} {source}", ".cubin", make).read_bytes()


def _by_nvcc(nvcc, source, text, capability) -> bytes:
    arch = "-arch=sm_{}{}".format(*capability) + ("a" if capability[0] >= 9 else "")
    command = [*nvcc, "-cubin", arch, *FLAGS, *glibc_cure()]

    def make(scratch: Path) -> Path:
        written, made = scratch / "kernel.cu", scratch / "image"
        written.write_text(source)
        call([*command, str(written), "-o", str(made)], text)
        return made

    return cached(f"{command} {source}", ".cubin", make).read_bytes()


def symbols(made: bytes, name: str) -> tuple[str, list[int]]:
    """What the image calls a kernel, and the codes of its parameters."""
    mangled = f"_Z{len(name)}{name}"
    # A cubin has a section .text.<symbol> for each kernel, PTX an .entry.
    found = re.search(rf"(?:\.text\.|\.entry )({name}|{mangled}\w+)[\0(\s]".encode(), made)
    codes = re.search(rf"gop_parameters_{name}I9gop_codesIJ((?:Li\d+E)*)E".encode(), made)
    if not found or not codes:
        raise CompileError(f"compile: the compiled program has no kernel {name}")
    return found[1].decode(), [int(code) for code in re.findall(rb"Li(\d+)E", codes[1])]


class Module:
    """The kernels of one source, loaded on one GPU."""

    def __init__(self, text: str, kernels: dict[str, int], device: Device) -> None:
        made = image(text, kernels, device.info.compute_capability)
        self._symbols = {name: symbols(made, name) for name in kernels}
        self._module = _core.load_module((device.backend, device.ordinal), made)

    def codes(self, name: str) -> list[int]:
        """What csrc/cuda/parameters.h says of each parameter."""
        return self._symbols[name][1]

    def launch(self, name: str, grid, block, shared: int, arguments) -> None:
        """`arguments` are 0-d arrays and Buffers, one for each parameter."""
        symbol = self._symbols[name][0]
        _core.launch(self._module, name, symbol, grid, block, shared, tuple(arguments))
