"""The driver that sanitizers watch: it builds, and runs every kernel for each of its dtypes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpuops

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "driver"))


@pytest.fixture(scope="module")
def driver():
    import sanitize

    return sanitize.build_driver("driver", [])


# Calls that meet all pairs, of every seventh dtype: uint8 and float64.
SOME = ("--pairs", "--share", "5", "7")


def pairs(driver, *arguments) -> int:
    """How many pairs of properties of calls the kernels have met."""
    done = subprocess.run([driver, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout
    return int(re.search(r" (\d+) pairs,", done.stdout)[1])


@pytest.mark.sampled
def test_every_kernel_of_the_cpu(driver, everything):
    met = pairs(driver, *(() if everything else SOME))
    assert met > 0
    assert not everything or met == pairs(driver, "--pairs")


@pytest.mark.sampled(later=True)
@pytest.mark.parametrize("stem", ["add", "transpose", "reduce", "jacobi_step", "jacobi"])
@pytest.mark.skipif(not gpuops.is_available("sim"), reason="sim is not built")
def test_every_kernel_of_the_gpu_on_sim(driver, stem, everything):
    on_sim = ("--sim", str(ROOT / "gpuops" / "_sim.so"), stem)
    assert pairs(driver, *(() if everything else SOME), *on_sim) > 0


def test_a_kernel_that_no_call_runs_is_told(driver):
    done = subprocess.run(
        [driver, "--every", "1000000", "transpose"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "transpose naive int8: no call ran it" in done.stdout


def test_reports_that_racecheck_is_known_for():
    """Of a warp's reads of which one lane told, before copies (tests/driver/handover.cu)."""
    import sanitize

    write = "Write access at void cp_async<(int)16>(unsigned int, const void *, bool)+0xd270"
    read = "Read access at void ring_read<float, (bool)1>(unsigned int (&)[4])+0x14e0"
    store = "Write access at store(int *)+0x20"
    report = "========= Error: Race reported between {0}\n=========     and {1} [9 hazards]\n"
    known, other = report.format(write, read), report.format(store, read)
    closing = "========= RACECHECK SUMMARY: {0} hazards displayed ({1} errors, 0 warnings)\n"
    assert sanitize.only_unfollowed(2 * known + closing.format(2, 2))
    assert not sanitize.only_unfollowed(2 * known + closing.format(2, 3))
    assert not sanitize.only_unfollowed(known + other + closing.format(2, 2))
    assert not sanitize.only_unfollowed(closing.format(0, 0))
