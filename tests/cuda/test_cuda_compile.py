"""test_cuda_compile - what compiling for a GPU needs no GPU for: the image, symbols, errors."""

import re
from pathlib import Path

import numpy as np
import pytest
from sim_kernels import ADD, SUM, TRANSPOSE, line_of

import gpuops
from gpuops._compile import arguments
from gpuops._compile import cuda as _compile_cuda
from gpuops._compile import kernel_source as _kernel_source
from gpuops._compile import nvrtc as _nvrtc

HOPPER = (9, 0)
needs_nvrtc = pytest.mark.skipif(_nvrtc.find_nvrtc() is None, reason="NVRTC was not found")
needs_nvcc = pytest.mark.skipif(_nvrtc.find_nvcc() is None, reason="nvcc was not found")
COMPILERS = [
    pytest.param("nvrtc", marks=needs_nvrtc),
    pytest.param("nvcc", marks=needs_nvcc),
]


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def only(monkeypatch):
    """Leaves one compiler, or none."""

    def only(compiler):
        if compiler != "nvrtc":
            monkeypatch.setattr(_compile_cuda, "find_nvrtc", lambda: None)
        if compiler != "nvcc":
            monkeypatch.setattr(_compile_cuda, "find_nvcc", lambda: None)

    return only


def image(source, capability=HOPPER):
    read = _kernel_source.read(source)
    return _compile_cuda.image(read, _kernel_source.kernel_names(source), capability)


def described(made, name):
    symbol, codes = _compile_cuda.symbols(made, name)
    return symbol, [
        (str(p.dtype), p.pointer, p.const) for p in map(arguments.Parameter.of, codes)
    ]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_image_tells_its_kernels_and_their_parameters(compiler, only):
    only(compiler)
    made = image(ADD + SUM + TRANSPOSE)
    assert made[:4] == b"\x7fELF"
    array, constant = ("float32", True, False), ("float32", True, True)
    symbol, parameters = described(made, "add")
    assert symbol.startswith("_Z3addPKf")
    assert parameters == [constant, constant, array, ("int32", False, False)]
    assert described(made, "sum")[1] == [constant, array]
    assert described(made, "transpose")[1] == [constant, array, ("int32", False, False)]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_types_are_the_compilers_own(compiler, only):
    only(compiler)
    made = image("""
    typedef double real;
    #define COUNT unsigned long long
    struct pair { int a, b; };
    #include <cuda_fp16.h>
    extern "C" __global__ void many(half h, const __half *g, const real *a,
                                    volatile real *b, const volatile bool *c,
                                    COUNT n, const short s, pair p, pair *q, float **r,
                                    const signed char *x, unsigned char *y, long *z)
    { g[0] * h; }
    static __global__ void __launch_bounds__(64) none() { }
    """)
    symbol, parameters = described(made, "many")
    assert symbol == "many"
    assert parameters == [
        ("float16", False, False), ("float16", True, True),
        ("float64", True, True), ("float64", True, False), ("bool", True, True),
        ("uint64", False, False), ("int16", False, False), ("None", False, False),
        ("None", True, False), ("None", True, False), ("int8", True, True),
        ("uint8", True, False), ("int64", True, False),
    ]  # fmt: skip
    assert described(made, "none")[1] == []


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compiler_errors_come_by_line_of_the_source(compiler, only):
    only(compiler)
    source = ADD.replace("float *out", "float *result")
    with pytest.raises(gpuops.CompileError) as failure:
        image(source)
    line = line_of(source, "out[i] =")
    assert re.search(rf"line {line}: identifier \"out\" is undefined", str(failure.value))
    assert "if (i < n) out[i] = a[i] + b[i];" in str(failure.value)


@needs_nvrtc
def test_nvrtc_takes_the_usual_headers(only):
    only("nvrtc")
    names = ("assert.h", "math.h", "stdint.h", "stdio.h", "stdlib.h", "string.h", "time.h")
    names += ("float.h", "limits.h", "stddef.h", "cfloat", "climits", "cstdint", "cstdio")
    includes = "".join(f"#include <{name}>\n" for name in ("cuda_runtime.h", *names))
    body = "__global__ void k(int32_t *a) { assert(a); a[0] = (int)sqrt(2.0); "
    body += "double b = FLT_MAX + DBL_EPSILON + LLONG_MIN + ULLONG_MAX; a[1] = INT_MIN + b; }"
    assert described(image(includes + body), "k")[1] == [("int32", True, False)]
    with pytest.raises(gpuops.CompileError, match=r"line 1: cannot open source file .vector"):
        image("#include <vector>\n__global__ void k() { }")


@needs_nvrtc
@needs_nvcc
def test_nvcc_takes_what_nvrtc_has_no_headers_for():
    assert image("#include <vector>\n__global__ void k() { }")[:4] == b"\x7fELF"


@needs_nvrtc
@needs_nvcc
def test_functions_of_the_host_stand_beside_kernels():
    beside = "int main() { return 0; }\nfloat half(float x) { return x / 2; }\n"
    assert image(beside + "__global__ void k() { }")[:4] == b"\x7fELF"
    with pytest.raises(gpuops.CompileError, match=r"line 2: `half` is a function of the host"):
        image(beside + "__global__ void k(float *a) { a[0] = half(1); }")


@needs_nvrtc
def test_constants_of_the_host_that_nvcc_needs_no_header_for(only):
    only("nvrtc")
    body = "a[0] = NAN + INFINITY + HUGE_VAL + M_PI;"
    source = f"__constant__ float c = INFINITY; __global__ void k(float *a) {{ {body} }}"
    assert image(source)[:4] == b"\x7fELF"
    for beside, name in (("int n = 3;", "n` is a variable"), ("void f() { }", "f` is a func")):
        with pytest.raises(gpuops.CompileError, match=f"line 1: `{name}.*where nvcc is inst"):
            image(beside + "\n__global__ void k() { }")


@needs_nvrtc
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("__device__ void f(int *);\nX { f(a); }", "line 1: `f` is declared, and defined now"),
        ("X {\n a[0] = __ballot(1); }", "line 2: __ballot is gone since CUDA 9: write __ball"),
        ("X {\n a[0] = __shfl(a[0], 1); }", "line 2: __shfl is gone since CUDA 9: write"),
        ("X {\n cudaMalloc(&a, 4); }", "line 2: `cudaMalloc` is for the host"),
    ],
)
def test_errors_that_nvrtc_has_no_line_or_no_cure_for(source, words):
    with pytest.raises(gpuops.CompileError, match=words):
        image(source.replace("X", "__global__ void k(int *a)"))


@pytest.mark.parametrize(
    "source",
    [
        "void __global__ k(int *a) { }",
        "__global__ inline void k(int *a) { }",
        "__global__ __attribute__((noinline)) void k(int *a) { }",
        "__global__ __launch_bounds__(32 * (4 + 4)) void k(int *a) { }",
        "#define LB __launch_bounds__(256)\n__global__ void LB k(int *a) { }",
        "#define KERNEL __global__ void\nKERNEL k(int *a) { }",
        "#define MAKE(n, T) \\\n __global__ void n(T *a) { }\nMAKE(k, int)",
        'extern "C" {\n__global__ void k(int *a) { }\n}',
        "#if 0\n__global__ void old() { }\n#endif\n__global__ void k(int *a) { }",
        "// __global__ void no() {}\n__global__ void k(int *a);\n__global__ void k(int *a) { }",
        "__device__ char c = '{'; __global__ void k(int *a) { const char *s = \"}\"; }",
    ],
)
def test_kernels_are_found_however_they_are_written(source):
    assert _kernel_source.kernel_names(source) == {"k": 1}


def test_kernels_of_one_macro():
    source = "#define MAKE(T) __global__ void add_##T(T *a, T b) { a[0] += b; }\n"
    source += "MAKE(int) MAKE(float)\n"
    assert _kernel_source.kernel_names(source) == {"add_int": 2, "add_float": 2}


@needs_nvrtc
def test_a_gpu_newer_than_nvrtc_gets_ptx(only):
    only("nvrtc")
    made = image(ADD, (99, 0))
    assert made.startswith(b"//")
    assert made.endswith(b"\0")
    assert len(described(made, "add")[1]) == 4
    with pytest.raises(gpuops.CompileError, match=r"no code for compute capability 1\.3"):
        image(ADD, (1, 3))


@needs_nvrtc
def test_an_image_is_kept_by_its_source(only, monkeypatch, tmp_path):
    only("nvrtc")
    first = image(ADD)
    calls = []
    monkeypatch.setattr(_nvrtc.Nvrtc, "compile", lambda *a: calls.append(a))
    assert image(ADD) == first
    assert not calls
    assert len(list((tmp_path / "cache" / "gpuops").iterdir())) == 1


@needs_nvrtc
def test_nothing_is_fused(only):
    """a*b + c in one rounding would differ from sim's bits."""
    only("nvrtc")
    made = image("__global__ void k(float *a) { a[0] = a[1] * a[2] + a[3]; }", (99, 0))
    assert b"mul.f32" in made or b"mul.rn.f32" in made
    assert b"fma.rn.f32" not in made


def test_no_compiler_is_said_with_the_cure(only):
    only(None)
    assert not _compile_cuda.has_compiler()
    with pytest.raises(gpuops.DeviceUnavailableError, match="pip install nvidia-cuda-nvrtc"):
        image(ADD)


def test_compilers_are_found_in_order(monkeypatch, tmp_path):
    for name in ("CUDA_HOME", "CUDA_PATH", "NVCC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_nvrtc, "SYSTEM", tmp_path / "system")
    monkeypatch.setattr(_nvrtc, "LOADED", ())
    wheel = tmp_path / "nvidia" / "cu13"
    monkeypatch.setattr(_nvrtc, "wheels", lambda: iter([wheel]))
    assert _nvrtc.find_nvcc() is None
    assert _nvrtc.find_nvrtc() is None
    assert _nvrtc.include_folders() == []

    def put(path: Path) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return str(path)

    put(wheel / "lib" / "libnvrtc.alt.so.13")
    assert _nvrtc.find_nvrtc() is None
    in_wheel = put(wheel / "lib" / "libnvrtc.so.13")
    assert _nvrtc.find_nvrtc() == in_wheel
    in_system = put(tmp_path / "system" / "lib64" / "libnvrtc.so.13")
    put(tmp_path / "system" / "lib64" / "libnvrtc.so.13.0.88")
    assert _nvrtc.find_nvrtc() == in_system
    put(tmp_path / "home" / "lib" / "libnvrtc.so.12")
    put(tmp_path / "home" / "include" / "cuda_fp16.h")
    nvcc = put(tmp_path / "home" / "bin" / "nvcc")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert _nvrtc.find_nvrtc() == str(tmp_path / "home" / "lib" / "libnvrtc.so.12")
    assert _nvrtc.find_nvcc() == [nvcc]
    assert _nvrtc.include_folders() == [tmp_path / "home" / "include"]
    monkeypatch.setenv("NVCC", "ccache /opt/nvcc")
    assert _nvrtc.find_nvcc() == ["ccache", "/opt/nvcc"]


def test_devices_of_compile():
    with pytest.raises(ValueError, match="on 'cuda' and 'sim', not on 'cpu'"):
        gpuops.compile(ADD, device="cpu")
    if not gpuops.is_available("cuda"):
        with pytest.raises(gpuops.DeviceUnavailableError, match="cuda"):
            gpuops.compile(ADD, device="cuda")


def test_a_pointer_to_anything_else_cannot_be_passed():
    parameter = arguments.Parameter.of(256)
    with pytest.raises(TypeError, match="parameter 2 has a type that Python cannot pass"):
        arguments._array("k", 2, parameter, np.zeros(3), gpuops.Device("cpu"))
