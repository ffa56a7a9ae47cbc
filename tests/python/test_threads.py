"""Python threads, forks and changing thread counts: the same bits as calls made in turn."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import gpuops

RNG = np.random.default_rng(3)
A = RNG.random((300, 300), np.float32)
V = RNG.random(300, np.float32)
POINTS = RNG.random((900, 3))
SYSTEM = A + np.eye(300, dtype=np.float32) * 300
CALLS = (
    lambda: gpuops.add(A, A.T, device="cpu"),
    lambda: gpuops.fma(A, A.T, V, device="cpu"),
    lambda: gpuops.transpose(np.tile(A, 3), device="cpu"),
    lambda: gpuops.sum(np.tile(A, 12), axis=0, device="cpu"),
    lambda: gpuops.argmax(np.tile(A, 12), axis=1, device="cpu"),
    lambda: gpuops.matmul(A, A, device="cpu"),
    lambda: gpuops.jacobi_step(SYSTEM, V, V, device="cpu"),
    lambda: gpuops.rdf(POINTS, 0.5, device="cpu").counts,
)


def together(works):
    """Runs them in threads that start at once; raises what any of them raised."""
    barrier, errors = threading.Barrier(len(works)), []

    def run(work):
        try:
            barrier.wait(timeout=60)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def checked(expected, order, rounds):
    def work():
        for _ in range(rounds):
            for i in order:
                assert CALLS[i]().tobytes() == expected[i], f"call {i} differs"

    return work


def orders(count):
    return [np.random.default_rng(t).permutation(len(CALLS)) for t in range(count)]


def test_eight_threads_give_the_bits_of_one():
    expected = [call().tobytes() for call in CALLS]
    together([checked(expected, order, 3) for order in orders(8)])


def test_the_number_of_threads_changes_meanwhile():
    expected = [call().tobytes() for call in CALLS]
    end = threading.Event()

    def change():
        n = 0
        while not end.is_set():
            n += 1
            gpuops.set_num_threads(n % 7 + 1)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        together([checked(expected, order, 3) for order in orders(4)])
    finally:
        end.set()
        changer.join()


def test_errors_stay_with_their_thread():
    """Each thread gets the sentence of its own failure."""

    def wrong(axis):
        def work():
            for _ in range(200):
                with pytest.raises(np.exceptions.AxisError, match=f"axis {axis} is out"):
                    gpuops.sum(A, axis=axis, device="cpu")

        return work

    together([wrong(axis) for axis in range(2, 8)])


def test_short_calls_back_to_back():
    """Workers look for them, and half of those go over to the calls of other threads."""
    gpuops.set_num_threads(5)
    short = [RNG.random(n, np.float32) for n in (40_000, 70_001, 500_000)]

    def work():
        for i in range(600):
            a = short[i % 3]
            assert np.array_equal(gpuops.add(a, a, device="cpu"), a + a)

    try:
        together([work, work, checked([call().tobytes() for call in CALLS], range(8), 3)])
    finally:
        gpuops.set_num_threads(None)


@pytest.mark.alone
def test_workers_sleep_in_the_end():
    for _ in range(50):
        gpuops.add(A, A, device="cpu")
    time.sleep(0.01)
    begun = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - begun < 0.05


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")  # Python's own, and other libraries'
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "while a call runs"])
def test_a_forked_child_works(busy):
    gpuops.set_num_threads(3)
    expected = [call().tobytes() for call in CALLS]
    end, started = threading.Event(), threading.Event()

    def work():
        while not end.is_set():
            started.set()
            gpuops.matmul(A, A, device="cpu")

    other = threading.Thread(target=work)
    if busy:
        other.start()
        started.wait()
    try:
        child = os.fork()
        if child == 0:
            same = all(c().tobytes() == e for c, e in zip(CALLS, expected, strict=True))
            os._exit(0 if same else 3)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        end.set()
        if busy:
            other.join()
    assert CALLS[5]().tobytes() == expected[5]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.skipif(not gpuops.is_available("sim"), reason="sim is not built")
@pytest.mark.sampled(later=True)
def test_a_child_that_is_forked_while_a_kernel_runs_on_sim():
    """About one child in a hundred waited forever for a lock of a thread that it has not."""
    k = gpuops.compile("__global__ void k(int *a) { a[0] = 1; }", device="sim")
    k[1, 1](np.zeros(1, np.int32))  # what it imports is there
    end = threading.Event()

    def work():
        while not end.is_set():
            k[1, 1](np.zeros(1, np.int32))

    others = [threading.Thread(target=work) for _ in range(2)]
    for other in others:
        other.start()
    try:
        for _ in range(300):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                a = np.zeros(1, np.int32)
                k[1, 1](a)
                os._exit(0 if a[0] == 1 else 3)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        end.set()
        for other in others:
            other.join()


@pytest.mark.sampled(later=True)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("call", ["matmul(a, a)", "rdf(p, 0.5)", "transpose(b)"])
def test_a_handler_that_forks(call):
    """The child has one thread: what the others had taken is an error there, not a result."""
    code = f"""
    import os, signal, warnings
    import numpy as np
    import gpuops

    warnings.simplefilter("ignore")
    gpuops.set_num_threads(4)
    rng = np.random.default_rng(1)
    a, b, p = rng.random((2000, 2000)), rng.random((40, 999, 1001)), rng.random((25000, 3))
    child = None

    def call():
        result = gpuops.{call[:-1]}, device="cpu")
        return getattr(result, "counts", result)

    def handler(*_):
        global child
        if child is None:
            child = os.fork()

    def attempt():  # what the call gave or raised
        global child
        child = None
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        try:
            return call(), None
        except gpuops.Error as error:
            return None, error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    expected = call()
    signal.signal(signal.SIGALRM, handler)
    for _ in range(40):  # until a child has lost a piece: a fork may come too late
        result, error = attempt()
        if child is None:
            continue
        if child == 0:
            signal.alarm(100)
            right = "forked" in str(error) if error else np.array_equal(result, expected)
            os._exit((0 if error else 5) if right and np.array_equal(call(), expected) else 4)
        assert error is None and np.array_equal(result, expected)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended in (0, 5), ended
        if ended == 0:
            break
    else:
        raise AssertionError("no child has lost a piece")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=200)


WORKERS_STACK = """
import os, re, sys
import numpy as np
import gpuops
def reserved():
    return int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
a = np.ones(1 << 22, "f4")
threads, before = len(os.listdir("/proc/self/task")), reserved()
for _ in range(50):
    gpuops.add(a, a, out=a, kernel="threaded", device="cpu")
print(len(os.listdir("/proc/self/task")) - threads, reserved() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_workers_have_the_stack_that_they_state():
    """Not what a program's threads have by default, here 1 GiB."""
    large = 1 << 30
    if 0 <= resource.getrlimit(resource.RLIMIT_STACK)[1] < large:
        pytest.skip("stacks of 1 GiB are not allowed here")
    done = subprocess.run(
        [sys.executable, "-c", WORKERS_STACK],
        env={**os.environ, "GPUOPS_NUM_THREADS": "2"},
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_STACK, (large, resource.getrlimit(resource.RLIMIT_STACK)[1])
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    workers, mebibytes = map(int, done.stdout.split())
    assert workers >= 1
    assert mebibytes < 512
