"""test_compile - kernels of one's own on sim, and every planted mistake named with its line."""

import re
import shutil

import numpy as np
import pytest

import gpuops

pytestmark = pytest.mark.skipif(
    not gpuops.is_available("sim") or not shutil.which("c++"), reason="needs sim and a compiler"
)
needs_lines = pytest.mark.skipif(
    not shutil.which("addr2line"), reason="addr2line is not installed"
)


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def line_of(source: str, text: str) -> int:
    return source[: source.index(text)].count("\n") + 1


ADD = """
#include <cuda_runtime.h>
__global__ void add(const float *__restrict__ a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""

SUM = """
__global__ void sum(const float *a, float *out)
{
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = a[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) part[t] += part[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
"""

TRANSPOSE = """
#define SIDE 32
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[SIDE][SIDE];
    int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE;
    for (int j = threadIdx.y; j < SIDE; j += 8) tile[j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * SIDE + threadIdx.x, y = blockIdx.x * SIDE;
    for (int j = threadIdx.y; j < SIDE; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][j];
}
"""


def floats(n, seed=0):
    return np.random.default_rng(seed).random(n, "f4")


def run_sum(source):
    a, out = np.ones(1024, "f4"), np.zeros(4, "f4")
    gpuops.compile(source)[4, 256](a, out)
    return out


# ---- right ones ----


def test_add():
    a, b, out = floats(1000), floats(1000, 1), np.zeros(1000, "f4")
    gpuops.compile(ADD)[4, 256](a, b, out, 1000)
    assert (out == a + b).all()


def test_shared_memory_and_barriers():
    assert (run_sum(SUM) == 256).all()


def test_a_tile_and_its_profile():
    k = gpuops.compile(TRANSPOSE)
    a, out = floats(64 * 64).reshape(64, 64), np.zeros((64, 64), "f4")
    p = gpuops.profile(lambda: k[(2, 2), (32, 8)](a, out, 64))
    assert (out == a.T).all()
    assert p["transpose"].counts("shared", "load").per_request == 32
    assert p["transpose"].counts("global", "store").per_request == 4
    padded = gpuops.compile(TRANSPOSE.replace("[SIDE][SIDE]", "[SIDE][SIDE + 1]"))
    p = gpuops.profile(lambda: padded[(2, 2), (32, 8)](a, out, 64))
    assert p["transpose"].counts("shared", "load").per_request == 1


def test_dynamic_shared_memory_shuffles_votes_and_atomics():
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


def test_the_last_block_by_ticket_and_fence_raises_no_alarm():
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


def test_lanes_that_return_early_are_not_waited_for():
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


def test_several_kernels_and_a_file(tmp_path):
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


# ---- planted mistakes ----


def caught(source, launch, words, at=None):
    with pytest.raises(gpuops.DeviceError, match=words) as failure:
        launch(gpuops.compile(source))
    if at and shutil.which("addr2line"):
        assert f"kernel.cu:{line_of(source, at)} " in str(failure.value)
    return str(failure.value)


def launch_add(k, n=1000):
    k[4, 256](floats(n), floats(n), np.zeros(n, "f4"), n)


def launch_sum(k):
    k[4, 256](np.ones(1024, "f4"), np.zeros(4, "f4"))


def test_a_missing_bounds_check():
    said = caught(
        ADD.replace("if (i < n) ", ""), launch_add, "past the end of an array", "out[i] = a"
    )
    assert "block (3, 0, 0), thread (232, 0, 0)" in said
    assert "loads 4 bytes 0 bytes past the end of an array of 4000 bytes" in said


def test_an_index_off_by_one():
    source = ADD.replace("out[i] = a[i]", "out[i] = a[i - 1]")
    said = caught(source, launch_add, "before an array", "out[i] =")
    assert "block (0, 0, 0), thread (0, 0, 0)" in said


def test_a_removed_barrier():
    source = SUM.replace(
        "[blockIdx.x * 256 + t];\n    __syncthreads();", "[blockIdx.x * 256 + t];"
    )
    caught(source, launch_sum, r"put __syncthreads\(\) between", "if (t < d)")


def test_a_barrier_missing_in_a_loop():
    source = SUM.replace("        __syncthreads();\n", "")
    said = caught(source, launch_sum, "a race", "if (t < d)")
    assert "loads shared memory that thread" in said or "stores shared memory" in said


def test_a_warp_synchronous_tail_without_syncwarp():
    tail = """        if (d > 32) __syncthreads();
    """
    source = SUM.replace("        __syncthreads();\n", tail)
    caught(source, launch_sum, r"or __syncwarp\(\) as they are of one warp", "if (t < d)")
    right = SUM.replace(
        "        __syncthreads();\n",
        "        if (d > 32) __syncthreads(); else __syncwarp();\n",
    )
    right = right.replace(
        "if (t < d) part[t] += part[t + d];",
        """
        float x = t < d ? part[t + d] : 0;
        if (d <= 32) __syncwarp();
        if (t < d) part[t] += x;""",
    )
    assert (run_sum(right) == 256).all()


def test_a_barrier_that_some_threads_miss():
    source = """
__global__ void miss(int *out)
{
    if (threadIdx.x < 32) __syncwarp(0xffffffffu);
    else if (threadIdx.x == 32) __syncwarp(0xffffffffu);
    else __syncthreads();
    out[threadIdx.x] = 1;
}
"""
    caught(source, lambda k: k[1, 64](np.zeros(64, "i4")), "block .* is stuck")


def test_shared_memory_that_nobody_stored_to():
    source = SUM.replace("part[t] = a", "if (t != 200) part[t] = a")
    caught(source, launch_sum, "no thread of the block has stored to", "if (t < d)")


def test_more_shared_memory_than_was_given():
    source = """
__global__ void more(int *out)
{
    extern __shared__ int part[];
    part[threadIdx.x] = 1;
    out[threadIdx.x] = part[threadIdx.x];
}
"""
    words = "past the end of the block's shared memory"
    caught(source, lambda k: k[1, 64, 128](np.zeros(64, "i4")), words, "part[threadIdx.x] = 1")


def test_an_address_that_is_not_aligned():
    source = """
__global__ void shifted(char *bytes)
{
    *(int *)(bytes + 1) = 3;
}
"""
    caught(source, lambda k: k[1, 1](np.zeros(64, "i1")), "no multiple of 4", "bytes + 1")


def test_a_launch_of_too_many_threads():
    with pytest.raises(gpuops.DeviceError, match="at most 1024 threads"):
        gpuops.compile(SUM)[1, 2048](np.ones(2048, "f4"), np.zeros(1, "f4"))


def test_equal_values_stored_by_many_threads_are_no_race():
    k = gpuops.compile(
        """
    __global__ void any(const int *a, int *out)
    {
        __shared__ int found;
        if (threadIdx.x == 0) found = 0;
        __syncthreads();
        if (a[threadIdx.x] > 5) found = VALUE;
        __syncthreads();
        if (threadIdx.x == 0) *out = found;
    }
    """.replace("VALUE", "1")
    )
    a, out = np.arange(64, dtype="i4"), np.zeros(1, "i4")
    k[1, 64](a, out)
    assert out[0] == 1


def test_different_values_stored_by_many_threads_are_one():
    source = """
__global__ void last(int *out)
{
    __shared__ int found;
    found = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *out = found;
}
"""
    words = "stores something else to"
    caught(source, lambda k: k[1, 64](np.zeros(1, "i4")), words, "found = threadIdx.x")


def test_after_a_mistake_the_next_launch_works():
    k = gpuops.compile(ADD.replace("if (i < n) ", ""))
    for _ in range(3):
        with pytest.raises(gpuops.DeviceError):
            launch_add(k)
    launch_add(k, 1024)
    test_shared_memory_and_barriers()


# ---- sources and arguments ----


def test_compiler_errors_come_by_line_of_the_source():
    source = ADD.replace("float *out", "float *result")
    with pytest.raises(gpuops.CompileError) as failure:
        gpuops.compile(source)
    line = line_of(source, "out[i] =")
    assert re.search(rf"line {line}: .*\bout\b", str(failure.value))
    assert "if (i < n) out[i] = a[i] + b[i];" in str(failure.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int f() { return 1; }", "no kernel"),
        ("template <typename T> __global__ void k(T *a) { }", "k is a template"),
        (ADD + "void run() { add<<<1, 2>>>(0, 0, 0, 1); }", "line 8 launches a kernel"),
        ("__global__ void k() {\n __shared__ [3];\n}", "line 2: expected"),
    ],
)
def test_what_is_no_program(source, words):
    with pytest.raises(gpuops.CompileError, match=words):
        gpuops.compile(source)


def test_arguments_are_checked():
    k = gpuops.compile(ADD)
    a, out = floats(8), np.zeros(8, "f4")
    launch = k[1, 8]
    for args, error, words in [
        ((a, a, out), TypeError, "takes 4 arguments, got 3"),
        ((a, a.astype("f8"), out, 8), TypeError, "argument 1 has dtype float64"),
        ((a, a, out[::2], 4), ValueError, "argument 2 is not C-contiguous"),
        ((a, a, out, 8.5), TypeError, "argument 3 is 8.5, the kernel takes an integer"),
        ((a, a, out, 1 << 40), OverflowError, "too large for int32"),
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


def test_device_arrays_stay_on_the_device():
    a, out = gpuops.to_device(floats(8), "sim"), gpuops.to_device(np.zeros(8, "f4"), "sim")
    gpuops.compile(ADD)[1, 8](a, a, out, 8)
    assert (out.get() == 2 * a.get()).all()
