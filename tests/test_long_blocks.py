"""test_long_blocks - a kernel that does not end says where it is, as one that is stopped."""

import shutil
import signal
import warnings

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops
from gpuops._compile import watch

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim")]

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
    assert note.endswith("was running when it was stopped")
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


def test_where_warnings_are_errors_the_kernel_ends(impatient):
    k = gpuops.compile(FLAG)
    with pytest.raises(gpuops.SimWarning, match="this block has run"):
        k[1, 32](np.zeros(64, "i4"), 0)  # pytest makes errors of them
    flag = np.zeros(64, "i4")
    k[2, 1](flag, 7)
    assert flag.sum() == 2
