"""test_compile - kernels of one's own, compiled for sim, and for a GPU where there is one."""

import re
import signal
from pathlib import Path

import numpy as np
import pytest
from sim_kernels import ADD, HAS_SIM, SUM, TRANSPOSE, floats, line_of, needs_sim, run_sum

import gpuops
from gpuops._compile import cuda as _compile_cuda

PLACES = ["sim"] * HAS_SIM
PLACES += ["cuda"] * (gpuops.is_available("cuda") and _compile_cuda.has_compiler())

pytestmark = [
    pytest.mark.skipif(not PLACES, reason="needs sim and a compiler, or a GPU and one"),
    pytest.mark.sampled(every=3),
]


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(params=PLACES)
def place(request):
    """Runs a test on every device that takes compiled kernels."""
    with gpuops.device(request.param):
        yield request.param


# ---- right ones ----


def test_add(place):
    a, b, out = floats(1000), floats(1000, 1), np.zeros(1000, "f4")
    gpuops.compile(ADD)[4, 256](a, b, out, 1000)
    assert (out == a + b).all()


def test_shared_memory_and_barriers(place):
    assert (run_sum(SUM) == 256).all()


@needs_sim
def test_a_tile_and_its_profile():
    k = gpuops.compile(TRANSPOSE, device="sim")
    a, out = floats(64 * 64).reshape(64, 64), np.zeros((64, 64), "f4")
    p = gpuops.profile(lambda: k[(2, 2), (32, 8)](a, out, 64))
    assert (out == a.T).all()
    assert p["transpose"].counts("shared", "load").per_request == 32
    assert p["transpose"].counts("global", "store").per_request == 4
    padded = gpuops.compile(TRANSPOSE.replace("[SIDE][SIDE]", "[SIDE][SIDE + 1]"), "sim")
    p = gpuops.profile(lambda: padded[(2, 2), (32, 8)](a, out, 64))
    assert p["transpose"].counts("shared", "load").per_request == 1


def test_dynamic_shared_memory_shuffles_votes_and_atomics(place):
    k = gpuops.compile("""
    __global__ void all_of_it(const int *a, int *total, unsigned *odd)
    {
        extern __shared__ int part[];
        int t = threadIdx.x, sum = a[t];
        for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
        unsigned votes = __ballot_sync(0xffffffffu, a[t] & 1);
        if (t % 32 == 0) part[t / 32] = sum, odd[t / 32] = votes;
        __syncthreads();
        if (t < 4) atomicAdd(total, part[t]);
    }
    """)
    a = np.random.default_rng(0).integers(0, 100, 128, dtype="i4")
    total, odd = np.zeros(1, "i4"), np.zeros(4, "u4")
    k[1, 128, 16](a, total, odd)
    assert total[0] == a.sum()
    for w, part in enumerate((a & 1).reshape(4, 32)):
        assert odd[w] == sum(int(bit) << i for i, bit in enumerate(part))


def test_the_last_block_by_ticket_and_fence_raises_no_alarm(place):
    k = gpuops.compile("""
    __device__ unsigned ticket;
    __global__ void total(const float *a, volatile float *part, float *out)
    {
        __shared__ bool last;
        if (threadIdx.x == 0) {
            part[blockIdx.x] = a[blockIdx.x];
            __threadfence();
            last = atomicAdd(&ticket, 1u) == gridDim.x - 1;
        }
        __syncthreads();
        if (last && threadIdx.x == 0) {
            float sum = 0;
            for (int b = 0; b < (int)gridDim.x; b++) sum += part[b];
            *out = sum;
        }
    }
    """)
    a, part, out = np.arange(100, dtype="f4"), np.zeros(100, "f4"), np.zeros(1, "f4")
    k[100, 32](a, part, out)
    assert out[0] == a.sum()


def test_lanes_that_return_early_are_not_waited_for(place):
    k = gpuops.compile("""
    __global__ void early(int *out, int n)
    {
        if ((int)threadIdx.x >= n) return;
        __syncthreads();
        out[threadIdx.x] = 1;
    }
    """)
    out = np.zeros(64, "i4")
    k[1, 64](out, 40)
    assert out.sum() == 40


def test_several_kernels_and_a_file(place, tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(ADD + SUM)
    program = gpuops.compile(path)
    assert list(program.kernels) == ["add", "sum"]
    out = np.zeros(4, "f4")
    program.sum[4, 256](np.ones(1024, "f4"), out)
    assert (out == 256).all()
    with pytest.raises(TypeError, match="name one"):
        program[1, 1](out)
    with pytest.raises(AttributeError, match="no kernel 'mul'"):
        _ = program.mul
    assert gpuops.compile(str(path)).kernels


# ---- sources and arguments ----


def test_compiler_errors_come_by_line_of_the_source(place):
    source = ADD.replace("float *out", "float *result")
    with pytest.raises(gpuops.CompileError) as failure:
        gpuops.compile(source)
    line = line_of(source, "out[i] =")
    assert re.search(rf"line {line}: .*\bout\b", str(failure.value))
    assert "if (i < n) out[i] = a[i] + b[i];" in str(failure.value)


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("    if (i = 5) a[0] = 1;\n}\n", "if (i", "`=` assigns, `==` compares"),
        ("    while (a[i] = i) i--;\n}\n", "while", "`=` assigns, `==` compares"),
        ("    if (i < 5) {\n        a[i] = 1;\n}\n", "if (i", "this `{` has no `}`"),
        ("    if (i < 5) { // {\n        a[i] = 1;\n    }\n", "{\n", "this `{` has no `}`"),
        ("    if (i < 5)\n        a[i] = 1;\n    }\n}\n", "    }", "this `}` closes nothing"),
        ("    a[i] = 1;\n}\n}\n", "}\n", "this `}` closes nothing"),
    ],
)
def test_one_sentence_in_the_learner_s_own_lines(place, text, at, words):
    head = "__global__ void k(int *a)\n{\n    int i = threadIdx.x;\n"
    line = line_of(head + text, at) if at != "}\n" else 6
    for tail in ("", ADD):
        with pytest.raises(gpuops.CompileError) as failure:
            gpuops.compile(head + text + tail)
        said = str(failure.value).splitlines()
        assert said[0] == "compile: the source does not compile"
        assert said[1].startswith(f"line {line}: {words}")
        assert said[2:] == ["    " + (head + text).splitlines()[line - 1].strip()]


def test_a_condition_without_its_end(place):
    with pytest.raises(gpuops.CompileError, match="line 3: ") as failure:
        gpuops.compile("__global__ void k(int *a, int i)\n{\n    if (i < 5 a[i] = 1;\n}\n")
    assert "assigns" not in str(failure.value)


def test_braces_that_only_a_preprocessor_can_count(place):
    gpuops.compile("#define BEGIN {\n__global__ void k(int *a) {\n if (a) BEGIN *a = 1; } }")
    with pytest.raises(gpuops.CompileError, match="line 4: "):
        gpuops.compile("#define END }\n__global__ void k(int *a) {\n if (a) {\n x = 1; END }")


def test_what_is_meant_compiles(place):
    k = gpuops.compile("""
    __global__ void k(const int *a, int *out)
    {
        int i = 0, n;
        while ((n = a[i])) out[i++] = n;
        if (i > 5 && n == 0 || i == 1) out[i] = -1;
    }
    """)
    out = np.zeros(4, "i4")
    k[1, 1](np.array([7, 0], "i4"), out)
    assert out.tolist() == [7, -1, 0, 0]


@needs_sim
def test_sim_s_own_names_stay_inside():
    source = "__global__ void k(int *a)\n{\n    __shared__ int t[32];\n    %s\n}\n"
    for line in ("t = a;", 'atomicAdd(a, "x");', "__syncthread();", "int i = 1", "k.x = 1;"):
        with pytest.raises(gpuops.CompileError, match=r"line [45]: ") as failure:
            gpuops.compile(source % line, "sim")
        assert not re.search(r"gop_|GOP_|_shared|\[-|/", str(failure.value))


@needs_sim
def test_more_variables_than_a_stack_holds():
    with pytest.raises(gpuops.CompileError, match=r"variables take 80\d\d\d bytes"):
        gpuops.compile(
            """
        __global__ void large(float *out, int n)
        {
            float own[20000];
            for (int i = 0; i < 20000; i++) own[(i * n) % 20000] = i;
            out[threadIdx.x] = own[n];
        }
        """,
            "sim",
        )


@needs_sim
def test_a_signal_stops_a_long_run():
    k = gpuops.compile(
        """
    __global__ void slow(const float *a, float *out)
    {
        float sum = 0;
        for (int i = 0; i < 4000; i++) sum += a[i % 32];
        out[threadIdx.x] = sum;
    }
    """,
        "sim",
    )

    def ring(*_):
        raise InterruptedError("enough")

    out = np.zeros(32, "f4")
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(InterruptedError, match="enough"):
            k[1_000_000, 32](np.ones(32, "f4"), out)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not out.any()
    with gpuops.device("sim"):
        assert (run_sum(SUM) == 256).all()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int f() { return 1; }", "no kernel"),
        ("template <typename T> __global__ void k(T *a) { }", "k is a template"),
        (ADD + "void run() { add<<<1, 2>>>(0, 0, 0, 1); }", "line 8 launches a kernel"),
        ("__global__ void k() {\n __shared__ [3];\n}", "line 2: (expected|attribute)"),
        (
            "__global__ void k() {\n __shared__ int t[32]\n t[0] = 1;\n}",
            r"line [23]: expected ",  # NVRTC tells where it should have been by now
        ),
        ("", "the source is empty"),
        (" ", "the source is empty"),
        ("\n", "the source is empty"),
        (
            "// none\n__global__ int k(int *a) { }",
            "line 2 is none|line 2: the kernel k returns a|line 2: .* a void return type",
        ),
        ("__global__ void k(int *a)\n return;\n}", "line 1 is none|line 3: this `}` closes"),
    ],
)
def test_what_is_no_program(source, words):
    with pytest.raises(gpuops.CompileError, match=words):
        gpuops.compile(source)


def test_a_file_that_is_not_there(tmp_path):
    words = "compile: 'mine.cu' is no CUDA C\\+\\+ or OpenCL C, and as a file cannot be read"
    for source in ("mine.cu", Path("mine.cu")):
        with pytest.raises(FileNotFoundError, match=words):
            gpuops.compile(source)
    with pytest.raises(IsADirectoryError, match="cannot be read: Is a directory"):
        gpuops.compile(tmp_path)


def test_a_program_shows_its_kernels_and_how_they_are_launched(place):
    program = gpuops.compile(ADD + SUM)
    assert {"add", "sum", "kernels"} <= set(dir(program))
    with pytest.raises(TypeError, match=r"name one, as program.add\[grid, block\]\(...\)"):
        program(1)
    for k in (program.add, gpuops.compile(ADD)):
        for wrong in (k, lambda *a, k=k: k[256](*a)):
            with pytest.raises(TypeError, match=r"add: launch it as add\[grid, block\]\(...\)"):
                wrong(1)
    with pytest.raises(AttributeError, match="no kernel 'product', only add, sum"):
        program.product[1, 8]
    with pytest.raises(TypeError, match="arguments of a kernel have no names, pass n="):
        program.add[1, 8](floats(8), floats(8), floats(8), n=8)


def test_arguments_are_checked(place):
    k = gpuops.compile(ADD)
    a, out = floats(8), np.zeros(8, "f4")
    launch = k[1, 8]
    for args, error, words in [
        ((a, a, out), TypeError, "expected 4 arguments, got 3"),
        ((a, a.astype("f8"), out, 8), TypeError, "argument 1 has dtype float64"),
        ((a, a, out[::2], 4), ValueError, "argument 2 is not C-contiguous"),
        ((a, a, out, 8.5), TypeError, "argument 3 is 8.5, the kernel takes an integer"),
        ((a, a, out, 1 << 40), OverflowError, "expected a number of int32, from -2147483648"),
        ((a, a, 5, 8), TypeError, "argument 2 is 5, the kernel takes an array"),
        ((a, a, out, out), TypeError, "argument 3 is an array"),
    ]:
        with pytest.raises(error, match=re.escape(words)):
            launch(*args)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        launch(a, a, out, 8)
    for place, error in [((1,), TypeError), ((0, 8), ValueError), (((1,) * 4, 8), ValueError)]:
        with pytest.raises(error):
            k[place](a, a, out, 8)


def test_device_arrays_stay_on_the_device(place):
    a, out = gpuops.to_device(floats(8), place), gpuops.to_device(np.zeros(8, "f4"), place)
    add = gpuops.compile(ADD)
    add[1, 8](a, a, out, 8)
    assert (out.get() == 2 * a.get()).all()
    elsewhere = gpuops.to_device(floats(8), "cpu")
    with pytest.raises(ValueError, match="argument 1 lives on another device than"):
        add[1, 8](a, elsewhere, out, 8)


def test_the_device_asked_for_is_named(place):
    for k in (gpuops.compile(ADD), gpuops.compile(ADD, device=place)):
        assert str(k.device) == str(k.add.device) == place
        assert repr(k.add) == f"<CUDA kernel add, 4 parameters, on {place}>"


def test_types_that_python_cannot_pass(place):
    k = gpuops.compile("""
    struct pair { int a, b; };
    __global__ void take(pair p, float **q) { }
    """)
    with pytest.raises(TypeError, match="parameter 0 has a type that Python cannot pass"):
        k[1, 1](1, np.zeros(1, "f4"))


def test_a_launch_of_too_many_threads(place):
    with pytest.raises(gpuops.DeviceError, match="1024"):
        gpuops.compile(SUM)[1, 2048](np.ones(2048, "f4"), np.zeros(1, "f4"))
    assert (run_sum(SUM) == 256).all()


def test_float16(place):
    k = gpuops.compile("""
    #include <cuda_fp16.h>
    __global__ void mixed(const half *a, const __half *b, __half c, half *out, int n)
    {
        int i = threadIdx.x;
        half x = a[i] * b[i];
        x += a[i] / b[i];
        out[i] = x < c ? -x : __hfma(a[i], b[i], c) - __float2half(__half2float(c));
    }
    """)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(256).astype("e") for _ in range(2))
    out, c = np.zeros(256, "e"), np.float16(0.3)
    k[1, 256](a, b, c, out, 256)
    x = a * b + a / b
    fused = (a.astype("d") * b.astype("d") + float(c)).astype("e")  # exact until it is rounded
    assert out.tobytes() == np.where(x < c, -x, fused - c).tobytes()


def test_products_and_sums_are_rounded_one_by_one(place):
    """The bits of NumPy, so those of sim and cuda are equal too."""
    k = gpuops.compile("""
    __global__ void mixed(const float *a, const float *b, float *out, int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = a[i] * b[i] + sqrtf(a[i]) / (b[i] + 0.1f);
    }
    """)
    a, b, out = floats(5000), floats(5000, 1), np.zeros(5000, "f4")
    k[20, 256](a, b, out, 5000)
    expected = a * b + np.sqrt(a) / (b + np.float32(0.1))
    assert out.tobytes() == expected.tobytes()


def test_a_block_s_sum_has_the_bits_of_its_own_order(place):
    a, out = floats(4096), np.zeros(16, "f4")
    gpuops.compile(SUM)[16, 256](a, out)
    part = a.reshape(16, 256)
    while part.shape[1] > 1:
        half = part.shape[1] // 2
        part = part[:, :half] + part[:, half:]
    assert out.tobytes() == part.tobytes()
