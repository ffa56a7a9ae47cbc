"""Barriers in divergent code, threads that wait for others which never come."""

import shutil

import numpy as np
import pytest
from sim_kernels import ORDERS, caught, line_of, needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]


# ---- barriers ----


def test_a_divergent_barrier():
    source = """
__global__ void apart(int *out)
{
    if (threadIdx.x < 40) {
        out[threadIdx.x] = 1;
        __syncthreads(); // here
    } else
        __syncthreads(); // or there
    out[64 + threadIdx.x] = out[63 - threadIdx.x];
}
"""
    launch = lambda k: k[1, 64](np.zeros(128, "i4"))  # noqa: E731
    said = caught(source, launch, "a barrier in divergent code", "// here", "// or there")
    assert "block (0, 0, 0), thread (0, 0, 0)" in said
    assert "thread (40, 0, 0)" in said
    assert "take it out of the branch" in said


def test_a_barrier_that_a_loop_leaves_early():
    source = """
__global__ void uneven(int *out)
{
    for (int i = 0; i <= threadIdx.x / 32; i++) {
        out[threadIdx.x] = i;
        __syncthreads(); // inside
    }
    __syncthreads(); // behind
}
"""
    launch = lambda k: k[1, 64](np.zeros(64, "i4"))  # noqa: E731
    caught(source, launch, "a barrier in divergent code", "// inside", "// behind")


def test_copies_of_a_barrier_by_the_compiler_are_one():
    k = gpuops.compile("""
template <int N> __device__ void steps(int *part, int t)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (t % 2 == 0) part[t] += part[t + 1] * i;
        __syncthreads();
    }
}
__global__ void unrolled(int *out, int odd)
{
    __shared__ int part[64];
    part[threadIdx.x] = 1;
    __syncthreads();
    if (odd) steps<3>(part, threadIdx.x);
    else steps<4>(part, threadIdx.x);
    out[threadIdx.x] = part[threadIdx.x];
}
""")
    out = np.zeros(64, "i4")
    k[1, 64](out, 1)
    assert out[0] == 4
    k[1, 64](out, 0)
    assert out[0] == 7


def test_a_shuffle_that_a_thread_of_the_warp_misses():
    source = """
__global__ void missed(int *out)
{
    int x = threadIdx.x;
    if (x != 7)
        x = __shfl_xor_sync(0xffffffffu, x, 1);
    else
        __syncthreads();
    out[threadIdx.x] = x;
}
"""
    said = caught(
        source, lambda k: k[1, 64](np.zeros(64, "i4")), "the block is stuck", "x = __shfl"
    )
    assert "thread (0, 0, 0)" in said
    assert "waits for thread (7, 0, 0) of its warp, which waits" in said
    if shutil.which("addr2line"):
        line = line_of(source, "        __syncthreads")
        assert f"which waits elsewhere, kernel.cu:{line}: the block is stuck" in said


# ---- waiting in a loop ----

FLAG = """
__global__ void flag(volatile int *ready, int *out)
{
    __shared__ int mine;
    if (threadIdx.x == 0) mine = blockIdx.x;
    __syncthreads();
    if (mine == WAITS) while (atomicAdd((int *)ready, 0) == 0) { }
    if (mine == STORES) atomicExch((int *)ready, 1);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = 1;
}
"""


def run_flag(waits, stores, blocks=2, threads=32):
    k = gpuops.compile(FLAG.replace("WAITS", str(waits)).replace("STORES", str(stores)))
    out = np.zeros(blocks, "i4")
    k[blocks, threads](np.zeros(1, "i4"), out)
    return out


@pytest.mark.parametrize("threads", [1, 1000])
def test_a_block_that_waits_for_a_later_one(threads):
    gpuops.set_num_threads(1)
    with pytest.raises(gpuops.DeviceError, match="a block must not wait for one") as failure:
        run_flag(0, 1, threads=threads)
    assert "block (0, 0, 0), thread (0, 0, 0)" in str(failure.value)
    assert "number them by a ticket (atomicAdd)" in str(failure.value)
    if shutil.which("addr2line"):
        assert f"kernel.cu:{line_of(FLAG, 'if (mine == WAITS)')} waits" in str(failure.value)


@pytest.mark.sampled(later=True)
def test_a_block_that_waits_for_an_earlier_one_is_lucky():
    gpuops.set_num_threads(1)
    assert run_flag(1, 0).all()
    with gpuops.schedule("reversed"), pytest.raises(gpuops.DeviceError, match="in any order"):
        run_flag(1, 0)


def test_blocks_on_two_cpu_threads_wait_for_each_other():
    gpuops.set_num_threads(2)
    for _ in range(3):
        assert run_flag(299, 0, blocks=300, threads=1024).all()
    everyone = """
__global__ void everyone(int *arrived)
{
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < gridDim.x) { } // all of the grid
}
"""
    said = caught(
        everyone,
        lambda k: k[300, 1](np.zeros(1, "i4")),
        "waits in a loop",
        "// all of the grid",
    )
    assert "a block must not wait for one that may start after it has ended" in said


def test_a_value_that_nobody_stores():
    with pytest.raises(gpuops.DeviceError, match="every thread of the block waits"):
        run_flag(0, 5, blocks=1)
    source = "__global__ void spin(volatile int *a) { while (a[0] != a[1] + 1) { } }"
    with pytest.raises(gpuops.DeviceError, match="for a value that no thread will store"):
        gpuops.compile(source + "\n")[1, 1](np.zeros(2, "i4"))


def test_a_loop_without_an_end_is_told_to_look_at_its_condition():
    """A search that halves its range without an end was told of blocks that wait."""
    source = """
__global__ void find(const int *a, int *out)
{
    int low = 0, high = 3;
    while (low <= high) { int m = (low + high) / 2; if (a[m] < -1) low = m + 1; else high = m; }
    *out = low;
}
"""
    for blocks in 1, 3:
        with pytest.raises(gpuops.DeviceError, match="look at its condition, which does not"):
            gpuops.compile(source)[blocks, 1](np.zeros(4, "i4"), np.zeros(1, "i4"))


def test_a_lock_that_is_held_at_a_barrier():
    source = """
__global__ void locked(int *lock, int *sum)
{
    while (atomicCAS(lock, 0, 1) != 0) { }
    *sum += 1;
    __syncthreads();
    atomicExch(lock, 0);
}
"""
    with pytest.raises(gpuops.DeviceError, match="others of its block wait for this thread at"):
        gpuops.compile(source)[2, 64](np.zeros(1, "i4"), np.zeros(1, "i4"))


@pytest.mark.parametrize(("turns", "seed"), ORDERS)
def test_threads_of_a_block_may_wait_for_each_other(turns, seed):
    k = gpuops.compile("""
__global__ void chain(unsigned *turn, int *out)
{
    const unsigned me = blockDim.x - 1 - threadIdx.x;
    while (atomicAdd(turn, 0u) != me) { }
    __threadfence();
    out[me] = me ? out[me - 1] + 1 : 1;
    __threadfence();
    atomicAdd(turn, 1u);
}
""")
    out = np.zeros(40, "i4")
    with gpuops.schedule(turns, seed=seed):
        k[1, 40](np.zeros(1, "u4"), out)
    assert (out == np.arange(1, 41)).all()


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("turns", "seed"), ORDERS)
def test_a_lock_that_threads_wait_for(turns, seed):
    k = gpuops.compile("""
__global__ void locked(int *lock, int *sum)
{
    while (atomicCAS(lock, 0, 1) != 0) { }
    __threadfence();
    *sum += 1;
    __threadfence();
    atomicExch(lock, 0);
}
""")
    total = np.zeros(1, "i4")
    with gpuops.schedule(turns, seed=seed):
        k[6, 48](np.zeros(1, "i4"), total)
    assert total[0] == 6 * 48


def test_a_loop_that_reads_the_same_long_ends():
    k = gpuops.compile("""
__global__ void again(const volatile int *a, int *out, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += a[i % 3];
    out[threadIdx.x] = sum;
}
""")
    out = np.zeros(40, "i4")
    k[1, 40](np.arange(3, dtype="i4"), out, 30000)
    assert (out == 30000).all()
