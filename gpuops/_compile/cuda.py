"""cuda - kernels of one's own on a GPU: compiled by NVRTC, or else by nvcc.

Nothing but the compiler reads the types of a kernel's parameters. The source gets, at its end,
an empty kernel for each of its own, whose name carries them: gop_parameters_add<gop_codes<..>>.
The names of all kernels are read from the image, which is what the cache keeps.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

from .. import _core
from .._show.source import folder
from ..devices import Device
from ..errors import CompileError, DeviceUnavailableError
from .arguments import Parameter
from .cache import cached, content
from .compiler_words import call, readable
from .kernel_source import Source, kernel_names
from .nvrtc import (
    CONSTANTS,
    Nvrtc,
    find_nvcc,
    find_nvrtc,
    glibc_cure,
    include_folders,
    with_includes,
)

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


def image(source: Source, kernels: dict[str, int], capability: tuple[int, int]) -> bytes:
    """The kernels as a cubin of one compute capability, or as PTX that its driver finishes."""
    translation = _translation(source.text, kernels)
    nvrtc, nvcc = find_nvrtc(), find_nvcc()
    if nvrtc is None and nvcc is None:
        raise DeviceUnavailableError(MISSING)
    if nvrtc is None:
        return _by_nvcc(nvcc, translation, source, capability)
    try:
        return _by_nvrtc(nvrtc, translation, source, capability)
    except CompileError as error:
        # NVRTC takes neither the host's functions nor its headers, beside which nvcc's kernels
        # may stand. Of what both refuse, NVRTC's words are shown. What calls CUDA's runtime
        # nvcc compiles, too, and no driver loads it.
        if nvcc is not None and "is for the host" not in str(error):
            with contextlib.suppress(CompileError):
                return _by_nvcc(nvcc, translation, source, capability)
        raise


def _by_nvrtc(path: str, translation: str, source: Source, capability) -> bytes:
    nvrtc = Nvrtc(path)
    flags = [f"--gpu-architecture={nvrtc.arch(capability)}", *FLAGS]
    toolkit = include_folders()
    include = [source.folder, *toolkit]

    def make() -> bytes:
        options = [*flags, *(f"-I{folder}" for folder in include)]
        whole = CONSTANTS + translation
        made, said = nvrtc.compile(whole, source.folder / "kernel.cu", options)
        if made is None:
            raise CompileError(readable(said, source))
        return made

    read = with_includes(translation, include, toolkit)
    stamp = read and f"{path} {nvrtc.version} {flags} {CONSTANTS} {read}"
    return content(cached(stamp, ".cubin", make))


def _by_nvcc(nvcc: list[str], translation: str, source: Source, capability) -> bytes:
    arch = "-arch=sm_{}{}".format(*capability) + ("a" if capability[0] >= 9 else "")
    command = [*nvcc, "-cubin", arch, *FLAGS, *glibc_cure()]
    include = f"-I{source.folder}"
    with tempfile.TemporaryDirectory(prefix="gpuops-") as scratch:
        written, made = Path(scratch, "kernel.cu"), Path(scratch, "image")
        written.write_text(translation)

        def make() -> bytes:
            call([*command, include, str(written), "-o", str(made)], source)
            return made.read_bytes()

        preprocessed = call([*command, include, "-E", str(written)], source)
        stamp = f"{command} {preprocessed.replace(scratch, '')}"
        return content(cached(stamp, ".cubin", make))


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

    def __init__(self, source: Source, device: Device) -> None:
        kernels = kernel_names(source.text)
        made = image(source, kernels, device.info.compute_capability)
        self.names = list(kernels)
        self._symbols = {name: symbols(made, name) for name in kernels}
        self._module = _core.load_module((device.backend, device.ordinal), made)

    def parameters(self, name: str) -> list[Parameter]:
        """By csrc/cuda/parameters.h."""
        return list(map(Parameter.of, self._symbols[name][1]))

    def launch(self, name: str, grid, block, shared: int, arguments) -> None:
        """`arguments` are 0-d arrays and Buffers, one for each parameter."""
        symbol = self._symbols[name][0]
        _core.launch(self._module, name, symbol, grid, block, shared, tuple(arguments))
