"""test_file_scope - what stands outside of functions: shared memory, and nothing that runs.

A library whose constructors run kernels' code ended Python when it was opened.
"""

import subprocess
import sys

import numpy as np
import pytest
from sim_kernels import line_of, needs_sim

import gpuops
from gpuops._show.where import sources

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

TURNED = """
{} float s[8];
__device__ float *place(int i) {{ return &s[i]; }}
__global__ void turn(float *a)
{{
    *place(threadIdx.x) = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[7 - threadIdx.x];
}}
"""


@pytest.mark.parametrize(
    "words", ["__shared__", "static __shared__", "__device__ __shared__", "__shared__ static"]
)
def test_shared_memory_at_file_scope(words):
    a = np.arange(8, dtype="f4")
    gpuops.compile(TURNED.format(words))[1, 8](a)
    assert a.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_dynamic_shared_memory_at_file_scope():
    """The programming guide's example, whose function makes other arrays of it."""
    k = gpuops.compile("""
    extern __shared__ float array[];
    __device__ void func(float x)
    {
        short *array0 = (short *)array;
        float *array1 = (float *)&array0[128];
        array0[threadIdx.x] = (short)x;
        array1[threadIdx.x] = x * 2;
    }
    __global__ void k(float *a)
    {
        func(a[threadIdx.x]);
        __syncthreads();
        a[threadIdx.x] = array[64 + (threadIdx.x + 1) % 4];
    }
    """)
    a = np.arange(4, dtype="f4")
    k[1, 4, 1024](a)
    assert a.tolist() == [2, 4, 6, 0]


def test_names_of_the_file_may_be_names_of_a_function_too():
    k = gpuops.compile("""
    __shared__ float s[4], t;
    struct pair { float s; __device__ float get() const { return s; } };
    __device__ float of(float s) { return s + 1; }
    namespace n { __device__ float own() { float s = 5; return s; } }
    __global__ void k(float *a)
    {
        pair p = {3};
        t = 2;
        { float t = 9; a[3] = t; }
        a[0] = of(t);
        a[1] = p.get() + p.s;
        a[2] = n::own() + sizeof s;
    }
    __shared__ int unused[32];
    """)
    a = np.zeros(4, "f4")
    k[1, 1](a)
    assert a.tolist() == [3, 6, 21, 9]


def test_mistakes_in_shared_memory_of_the_file_are_found():
    with pytest.raises(gpuops.DeviceError, match=r"element 8 of an array of type float ?\[8\]"):
        gpuops.compile(TURNED.format("__shared__").replace("7 -", "8 -"))[1, 8](
            np.ones(8, "f4")
        )


KERNEL = "__global__ void k(float *a) { a[0] = 1; }\n"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int v = blockIdx.x * blockDim.x + threadIdx.x;", "the value of v is computed when"),
        ("__device__ int v = threadIdx.x;", "the value of v is computed when"),
        (
            "__device__ int g() { __syncthreads(); return 1; }\n__device__ int v = g();",
            "the value of v is computed when",
        ),
        ("__device__ float v = sqrtf(threadIdx.x);", "the value of v is computed when"),
        (
            "struct S { int a; __device__ S() { a = 3; } };\n__device__ S v;",
            "the value of v is computed when",
        ),
        ("__device__ int q[3];\n__device__ int v = q[1];", "the value of v is computed when"),
        (
            "__attribute__((constructor)) void v() {}",
            "the attribute constructor is none of CUDA",
        ),
        (
            "[[gnu::constructor]] static void v() {}",
            "the attribute constructor is none of CUDA",
        ),
    ],
)
def test_what_would_run_when_the_kernels_are_loaded(source, words):
    line = line_of(source, "v ") if " v" not in source else source.count("\n") + 1
    with pytest.raises(gpuops.CompileError, match=rf"line {line}: {words}"):
        gpuops.compile(source + "\n" + KERNEL)


def test_a_destructor_at_file_scope():
    with pytest.raises(gpuops.CompileError, match="a constructor or a destructor, which would"):
        gpuops.compile(
            "struct S { int a = 4; __device__ ~S() {} };\n__device__ S v;\n" + KERNEL
        )


def test_a_static_member_of_a_template():
    source = "template <class T> struct S { static int v; };\n"
    source += "template <class T> int S<T>::v = threadIdx.x;\n"
    with pytest.raises(
        gpuops.CompileError, match=r"line 2: the value of S<int>::v is computed"
    ):
        gpuops.compile(source + "__global__ void k(float *a) { a[0] = S<int>::v; }")


@pytest.mark.parametrize("name", ["_init", "_fini"])
def test_what_a_linker_would_have_run(name):
    """Of these names alone, and without a word of the compiler's."""
    script = f"""
import numpy as np, gpuops
source = 'extern "C" void {name}() {{ *(volatile int *)0 = 1; }}'
k = gpuops.compile(source + '__global__ void k(float *a) {{ a[0] = 1; }}', 'sim')
k[1, 1](a := np.zeros(1, 'f4'))
print(a[0])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1.0\n")


def test_a_static_variable_of_a_kernel_has_a_constant_value():
    with pytest.raises(gpuops.CompileError, match=r"line 2: the value of q is computed when"):
        gpuops.compile("__global__ void k(int *a) {\n static int q = threadIdx.x; a[0] = q; }")


def test_a_library_has_nothing_that_runs_but_the_sanitizer_s_own():
    a = np.zeros(1, "f4")
    source = "#include <iostream>\nint main() { std::cout << 3; }\n" + KERNEL
    gpuops.compile(source)[1, 1](a)
    assert a == 1
    made = next(path for path, text in sources.items() if text == source)
    said = subprocess.run(["nm", "-C", made], capture_output=True, text=True, check=True).stdout
    assert "gop_call_k" in said
    assert "ios_base" not in said
    assert "GLOBAL__sub_I_main" not in said


COUNTS = """
__device__ int from_zero, from_five = 5;
__global__ void k(int *out)
{
    static int own;
    out[0] = ++from_zero;
    out[1] = ++from_five;
    out[2] = ++own;
}
"""


def counts(program):
    out = np.zeros(3, "i4")
    program.k[1, 1](out)
    return out.tolist()


def test_each_program_has_variables_of_its_own():
    for _ in range(3):  # the program before lives until the name has the new one
        program = gpuops.compile(COUNTS)
        assert counts(program) == [1, 6, 1]
        assert counts(program) == [2, 7, 2]
    kernel = gpuops.compile(COUNTS).k
    assert counts(program) == [3, 8, 3]
    del program
    out = np.zeros(3, "i4")
    kernel[1, 1](out)
    assert out.tolist() == [1, 6, 1]
    assert counts(gpuops.compile(COUNTS)) == [1, 6, 1]


def test_variables_after_a_kernel_that_failed():
    source = "__device__ int n;\n__global__ void k(int *a) { if (n++ == 1) a[9] = 1; *a = n; }"
    program = gpuops.compile(source)
    a = np.zeros(1, "i4")
    program.k[1, 1](a)
    with pytest.raises(gpuops.DeviceError, match=r"a\[9\], past the end of a") as failure:
        program.k[1, 1](a)
    assert "if (n++ == 1) a[9] = 1" in str(failure.value)  # a copy's line is found, too
    again = gpuops.compile(source)
    again.k[1, 1](a)
    assert a[0] == 1
    with pytest.raises(gpuops.DeviceError, match="a\\[9\\] = 1"):
        again.k[1, 1](a)
