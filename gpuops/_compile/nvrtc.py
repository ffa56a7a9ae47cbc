"""nvrtc - finds the CUDA compilers of this machine, and calls NVRTC, the one in a library.

Found in this order: CUDA_HOME, CUDA_PATH, the toolkit whose nvcc is on PATH, /usr/local/cuda,
NVIDIA's packages (nvidia-cuda-nvrtc, nvidia-cuda-nvcc), for NVRTC also what the loader knows.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..errors import CompileError
from .built import build_info
from .simt import without_comments

SYSTEM = Path("/usr/local/cuda")
_INCLUDE = re.compile(
    r'#\s*include\b\s*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)'
    r"|(?P<unclear>#\s*include|__has_include)"
)

# NVRTC has no headers of the C library; what these declare it knows by itself.
_HEADERS = {
    "assert.h": "",
    "math.h": "",
    "stdio.h": "",
    "stdlib.h": "",
    "string.h": "",
    "stdint.h": "typedef signed char int8_t; typedef unsigned char uint8_t;\n"
    "typedef short int16_t; typedef unsigned short uint16_t;\n"
    "typedef int int32_t; typedef unsigned uint32_t;\n"
    "typedef long int64_t; typedef unsigned long uint64_t;\n",
    "stddef.h": "",
    "time.h": "",
    "limits.h": "#define CHAR_BIT 8\n#define SCHAR_MAX 127\n#define SCHAR_MIN (-128)\n"
    "#define UCHAR_MAX 255\n#define CHAR_MAX 127\n#define CHAR_MIN (-128)\n"
    "#define SHRT_MAX 32767\n#define SHRT_MIN (-32768)\n#define USHRT_MAX 65535\n"
    "#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n#define UINT_MAX 4294967295u\n"
    "#define LONG_MAX 9223372036854775807l\n#define LONG_MIN (-LONG_MAX - 1)\n"
    "#define ULONG_MAX (2ul * LONG_MAX + 1)\n#define LLONG_MAX 9223372036854775807ll\n"
    "#define LLONG_MIN (-LLONG_MAX - 1)\n#define ULLONG_MAX (2ull * LLONG_MAX + 1)\n",
    "float.h": "#define FLT_MAX 3.402823466e38f\n#define FLT_MIN 1.175494351e-38f\n"
    "#define FLT_EPSILON 1.192092896e-7f\n#define FLT_DIG 6\n#define FLT_MANT_DIG 24\n"
    "#define DBL_MAX 1.7976931348623157e308\n#define DBL_MIN 2.2250738585072014e-308\n"
    "#define DBL_EPSILON 2.2204460492503131e-16\n#define DBL_DIG 15\n"
    "#define DBL_MANT_DIG 53\n",
}
# What nvcc has of the host's math.h without an #include.
CONSTANTS = """
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define HUGE_VALF INFINITY
#define HUGE_VAL ((double)INFINITY)
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""
for _name in ("assert", "float", "limits", "stddef", "stdint", "stdio", "stdlib", "string"):
    _HEADERS[f"c{_name}"] = _HEADERS[f"{_name}.h"]


def folders() -> Iterator[Path]:
    """Where a toolkit may be, whole or in part."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    yield SYSTEM
    yield from wheels()


def wheels() -> Iterator[Path]:
    """The folders of NVIDIA's packages: one for all in CUDA 13, one for each before."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from (Path(folder, name) for name in ("cu13", "cuda_nvrtc", "cuda_runtime"))


def find_nvcc() -> list[str] | None:
    if os.environ.get("NVCC"):
        return shlex.split(os.environ["NVCC"])
    for folder in folders():
        if (folder / "bin" / "nvcc").exists():
            return [str(folder / "bin" / "nvcc")]
    return None


def find_nvrtc() -> str | None:
    """The path of libnvrtc, or the name by which the loader finds it."""
    for folder in folders():
        for sub in ("lib64", "lib", f"targets/{platform.machine()}-linux/lib"):
            found = [p for p in (folder / sub).glob("libnvrtc.so.*") if ".alt." not in p.name]
            if found:
                return str(min(found, key=lambda p: len(p.name)))
    return next((name for name in LOADED if _loads(name)), None)


LOADED = ("libnvrtc.so.13", "libnvrtc.so.12")


@functools.cache
def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def include_folders() -> list[Path]:
    """Where cuda_fp16.h and its like are, of the first toolkit that has them; may be empty."""
    for folder in folders():
        include = folder / "include"
        if (include / "cuda_fp16.h").exists():
            return [p for p in (include, include / "cccl") if p.is_dir()]
    return []


def with_includes(text: str, include: list[Path], toolkit: list[Path]) -> str | None:
    """The text and all that its #includes may read: NVRTC does not tell what it has read.

    Of the toolkit's own headers, which include hundreds of others, name, size and time stand
    for all. None where a macro says what is read, or whether.
    """
    pieces, seen, waiting = [text], set(), [(text, include)]
    while waiting:
        inside, folders = waiting.pop()
        hidden = without_comments(inside)
        for found in _INCLUDE.finditer(inside):
            if hidden[found.start()] == " ":
                continue
            if found["unclear"]:
                return None
            places = include if found["angled"] else folders
            paths = (
                (folder, folder / (found["quoted"] or found["angled"])) for folder in places
            )
            folder, path = next(((f, p) for f, p in paths if p.is_file()), (None, None))
            if path is None or path in seen:
                continue
            seen.add(path)
            if folder in toolkit:
                info = path.stat()
                pieces.append(f"{path} {info.st_size} {info.st_mtime_ns}")
            else:
                pieces.append(path.read_text(errors="replace"))
                waiting.append((pieces[-1], [path.parent, *include]))
    return "\0".join(pieces)


def glibc_cure() -> list[str]:
    """What nvcc needed on this machine's C library when gpuops was built."""
    flags = shlex.split(build_info().get("cuda", {}).get("flags", ""))
    return [f for f in flags if f in ("-U_GNU_SOURCE", "-D_DEFAULT_SOURCE")]


class Nvrtc:
    """libnvrtc by ctypes."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def arch(self, capability: tuple[int, int]) -> str:
        """What to compile for: the GPU's own code, or PTX where NVRTC is older than it."""
        count = ctypes.c_int()
        self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        known = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(known)
        number = 10 * capability[0] + capability[1]
        if number in known:
            # From 9.0 on, `a` adds the instructions that only this generation has.
            return f"sm_{number}" + ("a" if number >= 90 else "")
        older = [arch for arch in known if arch < number]
        if older:
            return f"compute_{max(older)}"
        raise CompileError(
            "compile: NVRTC {} makes no code for compute capability {}.{}, only for {}.{} and "
            "later; an older CUDA toolkit does".format(
                self.version, *capability, *divmod(min(known), 10)
            )
        )

    def compile(self, source: str, path: Path, options: list[str]) -> tuple[bytes | None, str]:
        """The image, or None, and what the compiler said. Beside `path` is what is quoted."""
        names = (ctypes.c_char_p * len(_HEADERS))(*(n.encode() for n in _HEADERS))
        texts = (ctypes.c_char_p * len(_HEADERS))(*(t.encode() for t in _HEADERS.values()))
        program = ctypes.c_void_p()
        self._check(self._library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), os.fsencode(path), len(_HEADERS), texts,
            names,
        ))  # fmt: skip
        try:
            words = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
            code = self._library.nvrtcCompileProgram(program, len(options), words)
            said = self._get(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if code != 0:
                return None, said or self._words(code)
            is_ptx = any(re.search(r"=compute_", o) for o in options)
            return self._get(program, "PTX" if is_ptx else "CUBIN"), said
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _get(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(self._library[f"nvrtcGet{what}Size"](program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._check(self._library[f"nvrtcGet{what}"](program, text))
        return text.raw

    def _words(self, code: int) -> str:
        tell = self._library.nvrtcGetErrorString
        tell.restype = ctypes.c_char_p
        return tell(code).decode()

    def _check(self, code: int) -> None:
        if code != 0:
            raise CompileError(f"compile: NVRTC {self.version} failed: {self._words(code)}")
