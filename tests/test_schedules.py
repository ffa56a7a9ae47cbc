"""test_schedules - orders of turns, barriers in divergent code, threads that wait in vain."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from sim_kernels import line_of

import gpuops

pytestmark = pytest.mark.skipif(
    not gpuops.is_available("sim") or not shutil.which("c++"), reason="needs sim and a compiler"
)
ORDERS = [("forward", 0), ("lockstep", 0), ("reversed", 0), ("random", 1), ("random", 2)]


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    with gpuops.device("sim"):
        yield


def caught(source, launch, words, *at):
    with pytest.raises(gpuops.DeviceError, match=words) as failure:
        launch(gpuops.compile(source))
    for text in at if shutil.which("addr2line") else ():
        assert f"kernel.cu:{line_of(source, text)} " in str(failure.value)
    return str(failure.value)


# ---- orders ----

WHEN = """
__global__ void when(unsigned *turn, unsigned *of)
{
    of[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(turn, 1u);
}
"""


def order(blocks=3, threads=64):
    turn, of = np.zeros(1, "u4"), np.zeros(blocks * threads, "u4")
    gpuops.compile(WHEN)[blocks, threads](turn, of)
    assert sorted(of) == list(range(blocks * threads))
    return of.tolist()


def test_whose_turn_it_is():
    gpuops.set_num_threads(1)
    forward = list(range(3 * 64))
    assert order() == forward
    with gpuops.schedule("reversed"):
        assert order() == forward[::-1]
        with gpuops.schedule("forward"):
            assert order() == forward
        assert order() == forward[::-1]
    orders = []
    for seed in (5, 6, 5):
        with gpuops.schedule("random", seed=seed):
            orders.append(order())
    assert orders[0] == orders[2] != orders[1]
    assert orders[0] not in (forward, forward[::-1])
    assert order() == forward


def test_after_a_failure_the_schedule_is_what_it_was():
    gpuops.set_num_threads(1)
    with pytest.raises(KeyError), gpuops.schedule("reversed"):
        raise KeyError
    assert order() == list(range(3 * 64))


@pytest.mark.parametrize(
    ("turns", "seed", "error", "words"),
    [
        ("backwards", 0, ValueError, "one of forward, lockstep, reversed, random, not 'backw"),
        ("random", -1, ValueError, "seed is between 0"),
        ("random", 1 << 64, ValueError, "seed is between 0"),
        ("random", 1.5, TypeError, "seed"),
        ("reversed", 3, ValueError, "seed is of 'random'"),
    ],
)
def test_what_is_no_schedule(turns, seed, error, words):
    with pytest.raises(error, match=words), gpuops.schedule(turns, seed=seed):
        pass


def calls(op):
    """Arguments of an operation that all of its kernels take, one call or the other."""
    random = np.random.default_rng(0)
    if op == "add":
        x = random.random(3000, "f4")
        return [((x, x[::-1].copy()), {})]
    if op == "transpose":
        return [
            ((random.random((130, 128), "f4"),), {}),
            ((random.integers(0, 99, (64, 96)).astype("u2"),), {}),
            ((random.random((3, 500, 2), "f4"),), {"axes": (2, 1, 0)}),
        ]
    if op == "reduce":
        return [
            ((random.random(9000, "f4"),), {}),
            ((random.random((99, 70), "f4"),), {"axis": 0}),
        ]
    if op == "matmul":
        shapes = [(37, 50, 41), (3, 1100, 4)]
        return [((random.random((m, k)), random.random((k, n))), {}) for m, k, n in shapes]
    if op == "jacobi_step":
        n = 70
        sparse = pytest.importorskip("scipy.sparse")
        a, f, x = random.random((n, n)), random.random(n), random.random(n)
        return [((A, f, x), {"alpha": -0.01}) for A in (a, a.T, sparse.csr_matrix(a))]
    return [((random.random((300, 3), "f4"), 0.4, 8), {})]


@pytest.mark.parametrize(("turns", "seed"), ORDERS[2:])
@pytest.mark.parametrize("op", ["add", "transpose", "reduce", "matmul", "jacobi_step", "rdf"])
def test_every_kernel_is_right_in_any_order(op, turns, seed):
    function = getattr(gpuops, op)
    never_ran = {k.name for k in gpuops.kernels(op) if k.role != "yardstick"} - {"bulk"}
    for args, keywords in calls(op):
        expected = function(*args, **keywords, device="cpu")
        for kernel in gpuops.kernels(op):
            if kernel.role == "yardstick":
                continue
            with gpuops.schedule(turns, seed=seed):
                try:
                    got = function(*args, **keywords, kernel=kernel.name)
                except gpuops.KernelRefusedError:
                    continue
            never_ran.discard(kernel.name)
            if op == "rdf":
                assert (got.counts == expected.counts).all()
            else:
                np.testing.assert_allclose(got, expected, rtol=1e-4)
    assert not never_ran


def test_a_schedule_of_the_environment_that_there_is_not():
    code = "import gpuops; gpuops.sum([1.0], device='sim')"
    for text in ("backwards", "random:", "forward:3"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "GPUOPS_SIM_SCHEDULE": text},
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"ValueError: sim: GPUOPS_SIM_SCHEDULE is '{text}', expected" in done.stderr


# A reduction whose last warp relies on its threads to go together, as they once did. In
# lockstep the loads come before the stores; otherwise a thread reads what others have not
# added to yet, or have already.
TAIL = """
__global__ void sum(const float *a, float *out)
{
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = a[t];
    __syncthreads();
    if (t < 32) {
        volatile float *p = part;
        p[t] += p[t + 32];
        p[t] += p[t + 16];
        p[t] += p[t + 8];
        p[t] += p[t + 4];
        p[t] += p[t + 2];
        p[t] += p[t + 1];
    }
    if (t == 0) *out = part[0];
}
"""


@pytest.mark.parametrize(("turns", "seed"), ORDERS)
def test_a_warp_synchronous_tail_is_a_race_in_any_order(turns, seed):
    with gpuops.schedule(turns, seed=seed):
        caught(
            TAIL,
            lambda k: k[1, 64](np.ones(64, "f4"), np.zeros(1, "f4")),
            r"a race; put __syncthreads\(\), or __syncwarp\(\) as they are of one warp",
        )


def test_and_without_checks_its_sum_is_right_by_luck_alone():
    code = f"""
import numpy as np, gpuops
out = np.zeros(1, "f4")
gpuops.compile({TAIL!r}, "sim")[1, 64](np.ones(64, "f4"), out)
print(out[0])
"""
    sums = {}
    for turns in ("lockstep", "forward", "reversed", "random:1"):
        environment = {"GPUOPS_SIM_CHECKS": "0", "GPUOPS_SIM_SCHEDULE": turns}
        sums[turns] = float(
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert sums.pop("lockstep") == 64
    assert 64 not in sums.values()


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
        assert f"kernel.cu:{line_of(source, '        __syncthreads')} for others" in said


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
