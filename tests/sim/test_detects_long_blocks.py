"""A kernel that does not end says where it is, as one that is stopped."""

import shutil
import signal
import warnings

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops
from gpuops._compile import watch

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

FLAG = """
__global__ void k(int *flag, int block)
{
    if (blockIdx.x == block)
        while (*flag == 0) { } // here
    flag[1 + blockIdx.x] = 1;
}
"""
UPDATES = FLAG.replace("while (*flag == 0) { }", "for (;;) atomicAdd(&flag[40], 1);")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE", 0.3)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def run_until_stopped(k, blocks, block):
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt) as stop:
            k[blocks, 32](np.zeros(64, "i4"), block)
    at = f"k: block ({block}, 0, 0), thread ("
    assert [w.category for w in told] == [gpuops.SimWarning]
    assert told[0].filename == __file__
    note = stop.value.__notes__[-1]
    assert at in note
    assert note.splitlines()[0].endswith("was running when it was stopped")
    if shutil.which("addr2line"):
        assert "kernel.cu:5" in note
        assert "kernel.cu:5" in str(told[0].message)
    assert at in str(told[0].message)
    return str(told[0].message)


@pytest.mark.parametrize(("blocks", "block"), [(1, 0), (3, 2)])
def test_a_flag_that_is_loaded_once(impatient, blocks, block):
    gpuops.set_num_threads(2)
    said = run_until_stopped(gpuops.compile(FLAG), blocks, block)
    assert "goes on; the loop there touches no memory: if it waits for what another" in said
    assert "declare that volatile" in said


def test_a_loop_without_an_end_that_stores(impatient):
    said = run_until_stopped(gpuops.compile(UPDATES), 2, 1)
    assert "if a loop there has no end, look at its condition" in said


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "loop",
    [
        "while (true);",
        "for (unsigned char c = 0; c < 256; c++);",
        "for (float t = 0; t != 1.f; t += 0.1f);",
        "for (int i = 0; i < 10;) flag[50] = i;",
        "do block = 0; while (block < 3);",
        "L: goto L;",
        "while (int two = block + 2);",
    ],
)
def test_a_loop_that_a_compiler_finds_empty(impatient, loop):
    source = FLAG.replace("while (*flag == 0) { }", loop.replace("block", "own"))
    source = source.replace("    if", "    int own = 0; if")
    run_until_stopped(gpuops.compile(source), 2, 1)


LOOPS = """
__device__ int steps(int n)
{
    int s = 0;
    while (n != 1)
        if (n % 2) n = 3 * n + 1, s++;
        else n /= 2, s++;
    return s;
}
__global__ void k(int *a, int n)
{
    int i = 0, j = 10, least = n;
    auto twice = [](int x) { for (int y = x; y--;) x++; return x; };
    while (i++ < n);
    do j--; while (j > 3);
    #pragma unroll
    for (int l = 0; l < 3; l++) if (l == 1) continue; else a[l] = l;
    while (int left = n - least) { a[9] = left; break; }
    while (least > 0 && --least, least > 2);
again:
    if (i < 100) goto again_later; else a[3] = i;
    a[4] = j, a[5] = steps(27), a[6] = least, a[7] = twice(n);
    return;
again_later:
    i += 50;
    goto again;
}
"""


def test_loops_of_every_form_do_what_they_say():
    a = np.full(10, -1, "i4")
    gpuops.compile(LOOPS)[1, 1](a, 7)
    assert a.tolist() == [0, -1, 2, 108, 3, 111, 2, 14, -1, -1]


def test_where_warnings_are_errors_the_kernel_ends(impatient):
    k = gpuops.compile(FLAG)
    with pytest.raises(gpuops.SimWarning, match="this block has run"):
        k[1, 32](np.zeros(64, "i4"), 0)  # pytest makes errors of them
    flag = np.zeros(64, "i4")
    k[2, 1](flag, 7)
    assert flag.sum() == 2
