"""test_schedules - kernels whose threads take turns in other orders."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from sim_kernels import ORDERS, caught, needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]


# ---- orders ----

WHEN = """
__global__ void when(unsigned *turn, unsigned *of)
{
    of[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(turn, 1u);
}
"""


def order(blocks=3, threads=64):
    turn, of = np.zeros(1, "u4"), np.zeros(blocks * threads, "u4")
    gpuops.compile(WHEN, "sim")[blocks, threads](turn, of)
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


def test_schedules_of_overlapping_threads():
    """Each has its own, and leaves nothing behind."""
    gpuops.set_num_threads(1)
    forward = list(range(3 * 64))
    step = threading.Barrier(2, timeout=60)
    found = {}

    def first():
        with gpuops.schedule("reversed"):
            step.wait()  # the second one begins
            step.wait()  # it has
            found["first"] = order()
        step.wait()  # it ends

    def second():
        step.wait()
        found["before"] = order()
        with gpuops.schedule("random", seed=5):
            step.wait()
            step.wait()
            found["second"] = order()
        found["after"] = order()

    threads = [threading.Thread(target=f) for f in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found["first"] == forward[::-1]
    assert found["second"] not in (forward, forward[::-1])
    assert found["before"] == found["after"] == order() == forward


@pytest.mark.parametrize(
    ("turns", "seed", "error", "words"),
    [
        ("backwards", 0, ValueError, "one of forward, lockstep, reversed, random, not 'backw"),
        (np.ones((2, 9)), 0, ValueError, r"one of forward, .*, not array\(\[\[1., 1.*\.\.\."),
        ("random", -1, ValueError, "seed is between 0"),
        ("random", 1 << 64, ValueError, "seed is between 0"),
        ("random", 1.5, TypeError, "seed"),
        ("reversed", 3, ValueError, "seed is of 'random'"),
    ],
)
def test_what_is_no_schedule(turns, seed, error, words):
    with pytest.raises(error, match=words), gpuops.schedule(turns, seed=seed):
        pass


def test_checks_are_on_or_off():
    with pytest.raises(TypeError, match="schedule: checks is 'off', expected True or False"):
        gpuops.schedule(checks="off")


def calls(op):
    """Arguments of an operation that all of its kernels take, one call or the other."""
    random = np.random.default_rng(0)
    if op == "add":
        x = random.random(3000, "f4")
        square = random.random((70, 90), "f4")
        return [((x, x[::-1].copy()), {}), ((square, random.random((90, 70), "f4").T), {})]
    if op == "transpose":
        return [
            ((random.random((130, 128), "f4"),), {}),
            ((random.integers(0, 99, (64, 96)).astype("u2"),), {}),
            ((random.random((3, 500, 2), "f4"),), {"axes": (2, 1, 0)}),
            ((random.random((500, 3), "f4"),), {}),
            ((random.random((6, 40, 64), "f4"),), {"axes": (1, 0, 2)}),
            ((random.integers(0, 99, (132, 68, 3)).astype("u1"),), {"axes": (1, 0, 2)}),
        ]
    if op == "reduce":
        return [
            ((random.random(9000, "f4"),), {}),
            ((random.random((99, 70), "f4"),), {"axis": 0}),
            ((random.random((9, 16384), "f4"),), {"axis": 0}),
            ((random.random((3, 300), "f4"),), {"axis": 0}),
            ((random.random((40, 9), "f4"),), {"axis": 1}),
            ((random.random((3000, 5), "f4"),), {"axis": 0}),
        ]
    if op == "matmul":
        shapes = [(37, 50, 41), (3, 1100, 4)]
        whole = [random.integers(-3, 4, (40, 40)).astype("f4") for _ in "ab"]
        floats = [(random.random((m, k)), random.random((k, n))) for m, k, n in shapes]
        return [(pair, {}) for pair in (tuple(whole), *floats)]
    if op == "jacobi_step":
        n = 70
        sparse = pytest.importorskip("scipy.sparse")
        a, f, x = random.random((n, n)), random.random(n), random.random(n)
        grid = gpuops.poisson((7, 10), dtype="f8")
        matrices = (a, a.T, sparse.csr_matrix(a), grid)
        return [((A, f, x), {"alpha": -0.01}) for A in matrices]
    return [((random.random((300, 3), "f4"), 0.4, 8), {})]


# Kernels whose instructions sim has not.
ASSEMBLY = {
    "imma", "bf16x3", "dmma", "bf16x3_small", "bf16x3_batch", "fp16x2", "dmma_tma",
    "mma", "bf16x3_packed", "skinny_wgmma", "ring", "tf32", "wgmma_f16", "outer_mma",
}  # fmt: skip


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize(("turns", "seed"), ORDERS[2:])
@pytest.mark.parametrize("op", ["add", "transpose", "reduce", "matmul", "jacobi_step", "rdf"])
def test_every_kernel_is_right_in_any_order(op, turns, seed):
    function = getattr(gpuops, op)
    never_ran = {k.name for k in gpuops.kernels(op) if k.role != "yardstick"}
    never_ran -= {*ASSEMBLY, "exact"}
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
    for text in ("backwards", "random:", "forward:3", "random:-1", "random: 1", "random:9x",
                 "random:18446744073709551616", ""):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "GPUOPS_SIM_SCHEDULE": text},
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"ValueError: sim: GPUOPS_SIM_SCHEDULE is '{text}', expected"
        assert said in done.stderr if text else not done.stderr


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
