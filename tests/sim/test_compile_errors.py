"""test_compile_errors - what nvcc refuses, or warns of, is an error on sim too, with its line.

Each of these compiled and ran, or ended Python, or named a line of another file.
"""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from sim_kernels import ADD, needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

KERNEL = "__global__ void k(float *a, int n)\n{\n%s\n}\n"
SIZE = "the size of a `__shared__` array is a constant.*extern"
TYPES = "no matching function.*docs/sim.md lists the type"
PARTS = "{} has three parts, x, y and z: write {}.x"
IN_KERNEL = {  # in its third line
    "float t[n]; a[0] = t[n - 1];": "the size of an array in a kernel is a constant",
    "__shared__ float s[n]; s[0] = 1;": SIZE,
    "__shared__ float s[blockDim.x];": SIZE,
    "a[0] = max(a[1], 0);": r"call of overloaded 'max\(float&, int\)' is ambiguous|ambiguous",
    "a[0] = min(n, sizeof(int));": "ambiguous",
    "atomicAdd(a[0], 1);": r"its first argument is an address: &a\[0\]",
    "atomicMax(a, 1.f);": r"no matching function.*docs/sim.md lists the types",
    "__shared__ size_t t; atomicAdd(&t, 1);": TYPES,
    "int j = threadIdx; a[j] = 1;": "threadIdx has three parts, x, y and z: write threadIdx.x",
    "int j = blockIdx * 32; a[j] = 1;": PARTS.format("blockIdx", "blockIdx"),
    "a[0] = __shfl_down(a[0], 1);": "__shfl_down is gone since CUDA 9: write __shfl_down_sync",
    'printf("%d", a[0]);': "printf's format is for an `int`, and the argument is a `double`",
    'printf("%f", n);': "printf's format is for a `double`, and the argument is an `int`",
    'printf("%s", n);': r"printf's format is for a `char ?\*`, and the argument is an `int`",
    'printf("%d", threadIdx);': "threadIdx has three parts, x, y and z: write threadIdx.x",
    'printf("%y", n);': "printf has no conversion `%y` on sim",
    "a[0] = tex1Dfetch(n, 0);": "'tex1Dfetch'.*docs/sim.md lists what sim supports of CUDA",
    "cooperative_groups::sync(n);": "'cooperative_groups'.*docs/sim.md lists what sim supports",
    "std::sort(a, a + n);": "std::sort is of the host's library",
    "std::vector<int> v(3);": "std::vector is of the host's library",
    "std::cout << n;": "std::cout is of the host's library",
    "std::function<int()> f; n = f();": "std::function is of the host's library",
    "std::terminate();": "std::terminate is of the host's library",
    "int *p = (int *)malloc(4); a[0] = p[n];": "`malloc`: kernels on sim have no heap",
    "int *p = new int[n]; a[0] = p[n - 1];": "new and delete: kernels on sim have no heap",
    "free(a);": "`free`: kernels on sim have no heap",
    "a[0] = rand();": "`rand` is of the host's library",
    'sprintf((char *)a, "%d", n);': "`sprintf` is of the host's library",
    "raise(6);": "`raise` is of the host's library",
    "int i; a[i] = 1;": "`i` is used before it has a value: give it one where it is declared",
    "float *p; *p = 1;": "`p` is used before it has a value",
    "float s; for (int i = 0; i < n; i++) s += a[i]; a[0] = s;": "`s` is used before it has",
    "float m; for (int i = 0; i < n; i++) m = fmaxf(m, a[i]); a[0] = m;": "`m` is used before",
    "int i; while (i < n) { a[i] = 1; i += blockDim.x; }": "`i` is used before it has a value",
    "float s; if (n) for (int i = 0; i < n; i++) s += a[i]; atomicAdd(a, s);": "`s` is used",
    "a[0] = fmax(a[1], 1);": r"fmax of a `float` and an `int` is ambiguous.*fmax\(\(float\)",
    "a[0] = fmod(n, n);": "fmod of an `int` and an `int` is ambiguous",
    "a[0] = fma(a[0], 2.0, 1);": "call of overloaded 'fma|ambiguous",
    "a[0] = ldexp(n, 2);": "ambiguous",
    "float4 v = float4(1, 2, 3, 4); a[0] = v.x;": "float4 is no function: write make_float4",
    "float2 v = (float2)(1, 2); a[0] = v.x;": "float2 is no function: write make_float2",
    "__syncthreads(1);": "__syncthreads takes no argument",
    "thread_local int x; x = n;": "a kernel has no thread_local variables",
    "throw 1;": "kernels have no exceptions: no try, catch or throw",
    "a[0] = typeid(int).hash_code();": "kernels have no typeid and no dynamic_cast",
    "switch (n) { case 1: int x = 1; a[0] = x; case 2: a[0] = 2; }": "put { } around the stat",
    'sprintf((char *)a, "x");': "`sprintf` is of the host's library",
    'asm("int3");': r"sim runs C\+\+ on the CPU, and inline assembly is a GPU's",
}
INCLUDES = "#include <csignal>\n#include <vector>\n#include <iostream>\n#include <functional>\n"
INCLUDES += "#include <algorithm>\n#include <exception>\n"


def said_of(source):
    with pytest.raises(gpuops.CompileError) as failure:
        gpuops.compile(source)
    said = str(failure.value)
    assert said.startswith("compile: the source does not compile\nline ")
    assert not re.search(r"gop_|GOP_|/include|\[-W|typedef", said)
    return said.partition("\n")[2]


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("text", IN_KERNEL)
def test_one_sentence_with_the_line_of_the_kernel(text):
    includes = INCLUDES if "std::" in text or "raise" in text else "\n" * 6
    said = said_of(includes + KERNEL % text)
    assert re.match(rf"line 9: .*(?:{IN_KERNEL[text]})", said), said
    assert said.splitlines()[1:] == ["    " + text]


BESIDE = [
    (
        "float sq(float x) { return x * x; }\n",
        "a[0] = sq(3);",
        4,
        "`sq` is a function of the h",
    ),
    (
        "template <class T> T sq(T x) { return x; }\n",
        "a[0] = sq(3);",
        4,
        "`sq` is a function of",
    ),
    (
        "struct V { float x; float len() { return x; } };\n",
        "V v = {3}; a[0] = v.len();",
        4,
        "`len` is a function of the host",
    ),
    ("float factor = 3;\n", "a[0] = factor;", 4, "`factor` is a variable of the host"),
    ("const float w[2] = {1, 2};\n", "a[0] = w[n];", 4, "`w` is a variable of the host"),
    (
        "__global__ void one(float *a) {}\n",
        "one(a);",
        4,
        "`one` is a kernel, and kernels do not",
    ),
    ("__constant__ float c[3];\n", "a[0] = c[n];", 1, "c is `__constant__` and has no value"),
    ("__constant__ int c[2] = {1};\n", "c[n] = 5;", 4, "`c` is constant here"),
    (
        "__device__ int sq(int);\n",
        "a[0] = sq(n);",
        4,
        r"`sq\(int\)` is declared, and defined now",
    ),
    ("__device__ float p(float x) { if (x > 1) return x; }\n", "a[0] = p(n);", 1, "non-void"),
    (
        "__device__ __noinline__ float p(int n) { float s = 0; while (n--) s += n; }\n",
        "a[0] = p(n);",
        1,
        "no return statement in function returning non-void",
    ),
    (
        "__device__ int p(int x) { if (x > 1) { if (x > 2) return 1; } else return 2; }\n",
        "a[0] = p(n);",
        1,
        "non-void function",
    ),
    (
        "__device__ int p(int x) { switch (x) { case 1: return 2; } }\n",
        "a[0] = p(n);",
        1,
        "non-void function",
    ),
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a[0] = sqrt(n);", "sqrt of an integer is ambiguous, .*float and double"),
        ("a[0] = ceil(n / 3);", "ceil of an integer is ambiguous"),
        ("int v[] = {[1] = 2, [0] = 3}; a[0] = v[n];", ".*designated initializers"),
        ("cudaMalloc(&a, 4);", "`cudaMalloc` is for the host"),
        ('char s[4]; strcpy(s, "x"); a[0] = s[n];', "`strcpy` is of the host's library"),
        ("a[0] = memcmp(a, a + 1, 4) == 0;", "`memcmp` is of the host's library"),
        ("a[0] = __isGlobal(a);", "'__isGlobal' .*; docs/sim.md lists what"),
        ("__syncthread();", "'__syncthread' .*; did you mean '__syncthreads'"),
        ("__shared__ struct { int x; } s; s.x = n;", "a type is defined behind `__shared__`"),
    ],
)
def test_words_for_what_learners_write(text, words):
    assert re.match(rf"line 3: {words}", said_of(KERNEL % text))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("before", "text", "line", "words"), BESIDE)
def test_what_stands_beside_the_kernel(before, text, line, words):
    assert re.match(rf"line {line}: .*{words}", said_of(before + KERNEL % text))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("__global__ void blockIdx(float *a) { }", "blockIdx is a variable of CUDA's own"),
        (
            "__global__ void k(const float *in) { in[threadIdx.x] = 3; }",
            "`in` is constant here",
        ),
        (
            "#include <cuda_fp16.h>\n__global__ void k(half *a) { atomicAdd(a, a[1]); }",
            "no matching function for call to 'atomicAdd",
        ),
    ],
)
def test_no_name_of_sim_s_own(source, words):
    assert words in said_of(source)


@pytest.mark.parametrize(
    "header",
    ["cooperative_groups.h", "cuda_bf16.h", "curand_kernel.h", "helper_math.h", "mma.h"],
)
def test_a_header_that_sim_has_not(header):
    """With a CUDA toolkit in the include path, and without."""
    said = said_of(f"\n#include <{header}>\n" + KERNEL % "")
    assert re.match(rf"line 2: .*{header}.*; docs/sim.md lists what", said), said
    assert said.splitlines()[1:] == [f"    #include <{header}>"]


@pytest.mark.parametrize(
    ("head", "body"),
    [("#include <cooperative_groups.h>\n", ""), ("", "cooperative_groups::sync(n);")],
)
def test_what_to_take_for_cooperative_groups(head, body):
    assert "instead, __syncthreads() waits for a block" in said_of(head + KERNEL % body)


def test_what_nvcc_takes_stays():
    """Declared twice, once with __device__; constant numbers of the host; unused functions."""
    k = gpuops.compile("""
    #include <type_traits>
    float twice(float x);
    __device__ float twice(float x) { return 2 * x; }
    const float c = 3; static const int q = 4; constexpr int r = 5;
    constexpr int more(int x) { return x + 1; }
    static int unused(int *p) { return rand() + *p; }
    struct V { float x; __host__ __device__ V operator+(V b) const { return V{x + b.x}; } };
    __global__ void k(float *a, int n)
    {
        __shared__ float s[more(r)];
        s[0] = std::is_same<int, int>::value + std::sqrt(4.f);
        V v = V{1} + V{2};
        asm volatile("" ::: "memory");
        printf("%s %lld %lu %5.2f%%", "", (long)n, sizeof n, a[0]);
        a[0] = twice(c) + q + r + s[0] + v.x;
    }
    """)
    a = np.zeros(1, "f4")
    k[1, 1](a, 3)
    assert a == 21


def test_more_threads_than_launch_bounds():
    k = gpuops.compile("__global__ void __launch_bounds__(8 * (4 + 4)) k(int *a) { *a = 1; }")
    with pytest.raises(
        gpuops.DeviceError, match=r"k: a block of 128 threads, .* most the 64 of"
    ):
        k[1, 128](np.zeros(1, "i4"))
    k[1, 64](a := np.zeros(1, "i4"))
    assert a == 1


def test_a_variable_without_a_value_is_no_zero():
    """Where a branch may set it, so that the compiler cannot tell."""
    k = gpuops.compile(
        KERNEL % "float sum; for (int i = 0; i < n; i++) if (i) sum += a[i]; else if (n > 9) "
        "sum = 0; a[0] = sum;"
    )
    a = np.ones(4, "f4")
    k[1, 1](a, 4)
    assert a[0] != 3


@pytest.mark.parametrize(
    "text",
    [
        "volatile char *p = (char *)alloca(n); p[0] = 1; a[0] = p[n / 2];",
        "a[0] = big(all, n);",
    ],
)
def test_a_stack_that_is_too_small_does_not_end_python(text):
    before = "struct B { char c[300000]; };\n__device__ B all;\n"
    before += "__device__ __noinline__ float big(B b, int n) { return b.c[n % 7]; }\n"
    k = gpuops.compile(before + KERNEL % text)
    with pytest.raises(
        gpuops.DeviceError, match=r"touches memory that is not there|has used up"
    ):
        k[1, 1](np.zeros(4, "f4"), 10_000_000)
    assert gpuops.compile(ADD)


def test_a_frame_that_reaches_over_other_stacks_leaves_them_whole():
    """It was written over the stacks of threads that had ended: the next ones found garbage."""
    gpuops.set_num_threads(1)
    a = np.ones((300, 300), "f4")
    want = gpuops.sum(a, axis=1, device="sim", kernel="tree")  # so that there are stacks
    before = "struct B { int c[75000]; };\n__device__ B all;\n"
    before += "__device__ __noinline__ int big(B b, int n) { return b.c[n]; }\n"
    k = gpuops.compile(before + KERNEL % "if (threadIdx.x == 7) a[0] = big(all, n);")
    with pytest.raises(gpuops.DeviceError):
        k[1, 256](np.zeros(4, "f4"), 1)
    assert (gpuops.sum(a, axis=1, device="sim", kernel="tree") == want).all()


# ---- surroundings ----


def test_another_compiler_s_calls_are_told_to_be_that():
    """clang's, where gcc built sim."""
    source = 'extern "C" __device__ void __tsan_func_entry(void *);\n'
    said = said_of(source + KERNEL % "__tsan_func_entry(a);")
    assert re.search("calls `__tsan_func_entry`, which sim has not: .* the variable CXX", said)


def test_nothing_is_kept_of_what_cannot_be_linked(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        said_of("__device__ int sq(int);\n" + KERNEL % "a[0] = sq(n);")
    assert not list(tmp_path.glob("gpuops/*"))


def test_a_working_directory_that_is_gone(tmp_path):
    script = f"""
import os, shutil, numpy as np, gpuops
os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
k = gpuops.compile({ADD!r}, "sim")
k[1, 8](a := np.ones(8, "f4"), a, a, 8)
print(a[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "2.0\n", done.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/bin/false", "/bin/false ended with status 1 and said nothing"),
        ("/bin/true", "/bin/true gave no preprocessed source, expected a C++ compiler"),
        ('"x', "CXX is '\"x', which is no command: No closing quotation"),
    ],
)
def test_a_compiler_that_is_none(monkeypatch, command, words):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(gpuops.CompileError, match=f"^compile: {re.escape(words)}"):
        gpuops.compile(ADD)


def test_programs_and_kernels_are_not_pickled():
    program = gpuops.compile(ADD)
    for made in (program, program.add):
        with pytest.raises(TypeError, match="compile it there again"):
            pickle.dumps(made)


@pytest.mark.parametrize("name", ["device", "source", "kernels"])
def test_kernels_with_names_of_a_program_s_own(name):
    one = f"__global__ void {name}(int *a) {{ *a = 7; }}\n"
    gpuops.compile(one)[1, 1](a := np.zeros(1, "i4"))
    assert a == 7
    program = gpuops.compile(one + "__global__ void other(int *a) {}\n")
    program.kernels[name][1, 1](a := np.zeros(1, "i4"))
    assert a == 7
    with pytest.raises(TypeError, match=rf'as program\.kernels\["{name}"\]\['):
        program[1, 1](a)


def test_a_byte_order_mark(tmp_path):
    (tmp_path / "mine.cu").write_bytes(b"\xef\xbb\xbf" + ADD.strip().encode())
    assert gpuops.compile(tmp_path / "mine.cu").kernels
    assert gpuops.compile("\ufeff" + ADD.strip()).kernels


def test_a_header_s_mistake_names_the_header(tmp_path):
    (tmp_path / "mine.h").write_text("\n__device__ int f() { return x; }\n")
    (tmp_path / "mine.cu").write_text('#include "mine.h"\n' + ADD)
    with pytest.raises(gpuops.CompileError, match=r"mine\.h, line 2: .*x"):
        gpuops.compile(tmp_path / "mine.cu")


@pytest.mark.parametrize("declared", ["c[2 * 1 + 1] = {1, 2}", "c[2 * 2][1 * 1] = {{1}, {2}}",
                                      "c = 2 * 3", "c{2 * 3}"])  # fmt: skip
def test_a_store_to_constant_memory_whose_size_is_a_product(declared):
    """The `*` of the size was taken for that of a pointer, which may be stored through."""
    place = "c[0][0]" if "][" in declared else "c[0]" if "[" in declared else "c"
    said = said_of(f"__constant__ float {declared};\n" + KERNEL % f"{place} = n;")
    assert re.search("line 4: (`c` is constant here|assignment of read-only variable)", said)


UNSURE = [  # nothing is used here before it is set, or a branch may have set it
    "float s; for (int i = 0; i < n; i++) if (i) s += a[i]; else s = a[i]; a[0] = s;",
    "float s; for (int i = 0; i < n; i++) { if (!i) { s = 1; continue; } s += 1; } a[0] = s;",
    "float s; for (int i = 0; i < n; i++) s = i ? s + a[i] : a[i]; a[0] = s;",
    "float s; for (int i = 0; i < n; i++) if (i) s = s + 1; else s = a[i]; a[0] = s;",
    "float s; for (int i = 0; i < n; i++) { i && (s += 1); s = i; } a[0] = s;",
    "float s; for (int i = 0; i < n; i++) { switch (i) { case 0: s = 7; break; default: s++; } "
    "} a[0] = s;",
    "float v; if (threadIdx.x == 0) v = a[0]; v = __shfl_sync(1, v, 0); a[0] = v;",
    "float4 v; v.x = 1; ((float4 *)a)[0] = v; a[0] = 7;",
    "struct { float3 p; float m; } q; q.m = 7; __shared__ decltype(q) s; s = q; a[0] = s.m;",
    "float s;\n#if 0\ns += 1;\n#else\ns = 7;\n#endif\nfor (int i = 0; i < n; i++) s += 1; "
    "a[0] = s;",
    "float s, t; sincosf(a[1], &s, &t); a[0] = s + t;",
    "float s; if (n > 100) s = 1; if (n > 100) a[0] = s;",
]


@pytest.mark.parametrize("body", UNSURE)
def test_a_variable_that_may_have_a_value_is_no_mistake(body):
    gpuops.compile(KERNEL % body)[1, 1](np.ones(8, "f4"), 2)
