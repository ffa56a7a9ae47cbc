"""test_cuda_runtime - the CUDA runtime's devices, transfers and failures, on a fake driver.

The real runtime of csrc/cuda is linked with tests/fake_cuda, whose devices are host memory and
whose work is done late. Each test is a process of its own: a lost device stays lost.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from _build import toolkit

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = ROOT / "build" / "objects" / "cuda" / "runtime"
PARTS = ("devices", "together")

PREAMBLE = """
import ctypes, os, signal, sys, threading
import numpy as np
import gpuops
from gpuops import _core

path = sys.argv[1]
_core.load_backend("cuda", path)
sys.modules["gpuops.devices"]._opened.add("cuda")
fake = ctypes.CDLL(path)

def variable(name, kind=ctypes.c_int):
    return kind.in_dll(fake, "fake_" + name)

def moved(a, device="cuda"):
    return gpuops.transpose(a, device=device)

def caught(f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")

def check(a, device="cuda"):
    assert np.array_equal(moved(a, device), a.T)
    assert variable("blocks").value == 0
"""


def link(made: Path, **others: Path) -> Path:
    """The objects of the runtime, some in another's place, and the fake driver."""
    nvcc = toolkit.find_nvcc()
    objects = {part: OBJECTS / f"{part}.o" for part in PARTS} | others
    if nvcc is None or not all(path.exists() for path in objects.values()):
        pytest.skip("the CUDA runtime was not compiled here")
    include = Path(nvcc[-1]).resolve().parent.parent / "include"
    if not (include / "cuda_runtime_api.h").exists():
        pytest.skip("cuda_runtime_api.h was not found beside nvcc")
    sources = [
        ROOT / "tests" / "fake_cuda" / f"fake_{name}.c"
        for name in ("cudart", "devices", "graphs", "ladders", "modules")
    ]
    flags = "-std=c11 -D_POSIX_C_SOURCE=200809L -O1 -Wall -Wextra -Werror -shared -fPIC"
    command = ["cc", *flags.split(), "-Wl,-z,defs", f"-I{ROOT / 'csrc'}", "-isystem", include]
    command += [*sources, *objects.values(), "-o", made, "-pthread"]
    subprocess.run(list(map(str, command)), check=True)
    return made


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return link(tmp_path_factory.mktemp("fake") / "_cuda.so")


@pytest.fixture
def run(library):
    def run(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(code), str(library)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run


# ---- transfers ----


def test_arrays_of_every_layout_go_there_and_back(run):
    run(
        """
        rng = np.random.default_rng(1)
        for dtype in ("?", "i1", "i2", "f4", "f8", "c16"):
            a = rng.integers(0, 100, (37, 53, 11)).astype(dtype)
            for view in (a, a.T, a[::2, 1::3], a[::-1, :, ::-1], a[:0], a[5], a[5, 5, 5],
                         np.broadcast_to(a[0], a.shape), a.swapaxes(0, 1)[:, ::2]):
                check(view)
            memory = np.zeros(a.nbytes + 1, np.uint8)
            unaligned = np.ndarray(a.shape, a.dtype, memory, offset=1)
            unaligned[...] = a
            check(unaligned)
        """
    )


@pytest.mark.sampled(later=True)
def test_arrays_longer_than_the_ring_go_there_and_back(run):
    run(
        """
        a = np.arange(9 * 2**21 + 5, dtype=np.int64)  # 144 MiB through at most 56 MiB
        check(a)
        check(a[::2])
        d = gpuops.to_device(a, "cuda")
        assert np.array_equal(d.get(), a)
        assert variable("pinned").value <= 56
        out = np.zeros((2, a.size), a.dtype)[:, ::-1][1]
        gpuops.transpose(a, device="cuda", out=out)
        assert np.array_equal(out, a)
        """
    )


@pytest.mark.sampled(later=True)
def test_threads_share_the_ring(run):
    run(
        """
        failed = []
        def work(seed):
            a = np.random.default_rng(seed).integers(0, 2**60, 3 * 2**21)
            for _ in range(3):
                if not np.array_equal(moved(a), a):
                    failed.append(seed)
        threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failed
        assert variable("blocks").value == 0
        assert variable("pinned").value <= 56
        """
    )


def test_transfers_go_on_where_no_memory_can_be_pinned(run):
    run(
        """
        _core.set_fault("cuda.pinned:1:forever")
        check(np.arange(5 * 2**21))
        assert variable("pinned").value == 0
        """
    )


def test_device_arrays(run):
    run(
        """
        a = np.arange(35.0).reshape(5, 7)
        for view in (a, a.T, a[::2, ::-1]):
            d = gpuops.to_device(view, "cuda:1")
            assert str(d.device) == "cuda:1"
            assert np.array_equal(d.get(), view)
            assert np.array_equal(gpuops.transpose(d).get(), view.T)
            del d
        # One of scratch memory; of each of the two sizes two are kept.
        assert variable("blocks").value == 1 + 2 * 2
        """
    )


def test_small_device_arrays_are_kept_for_the_next_ones(run):
    run(
        """
        d = gpuops.to_device(np.ones(1000, "f4"), "cuda")
        gpuops.add(d, d)
        before = variable("blocks").value
        for _ in range(50):
            assert np.array_equal(gpuops.add(d, d).get(), np.full(1000, 2, "f4"))
        assert variable("blocks").value == before
        for n in range(1, 21):
            gpuops.to_device(np.ones(n), "cuda")
        gpuops.to_device(np.ones(2**19), "cuda")  # 4 MiB are not kept
        assert variable("blocks").value == before - 1 + 8
        # Where the device is full, those that are kept are given back first.
        kept = sum(8 * n for n in range(13, 21))
        variable("capacity", ctypes.c_size_t).value = variable("used", ctypes.c_size_t).value
        one = gpuops.to_device(np.ones(kept, "u1"), "cuda")
        assert variable("blocks").value == before - 1 + 1
        error = caught(gpuops.to_device, np.ones(kept, "u1"), "cuda")
        assert "out of memory" in str(error)
        """
    )


# ---- devices and contexts ----


def test_the_current_device_is_put_back(run):
    run(
        """
        for mine in (0, 1):
            fake.fake_make_current(mine)
            check(np.arange(100), "cuda:0")
            check(np.arange(100), "cuda:1")
            assert fake.fake_current() == mine
        assert variable("devices_in_use").value == 0  # no work on a device not current
        """
    )


def test_devices_are_listed_and_named_by_number(run):
    run(
        """
        assert [d.name for d in gpuops.devices("cuda")] == ["Fake GPU 0", "Fake GPU 1"]
        assert [d.memory_free for d in gpuops.devices("cuda")] == [None, None]
        assert "free)" not in str(gpuops.devices("cuda")[0])
        check(np.arange(3), "cuda:1")  # a device in use is asked, the other one is not
        first, second = gpuops.devices("cuda")
        assert first.memory_free is None and second.memory_free == second.memory
        error = caught(moved, np.arange(3), "cuda:2")
        assert type(error) is gpuops.DeviceUnavailableError, error
        assert "cuda:2" in str(error) and "cuda:1" in str(error)
        """
    )


def test_a_device_without_code_is_named_with_the_cure(run):
    run(
        """
        variable("major").value, variable("minor").value = 6, 1
        error = caught(moved, np.arange(3))
        assert type(error) is gpuops.UnsupportedDeviceError, error
        for text in ("Fake GPU 0", "6.1", "GPUOPS_CUDA_ARCHS=61"):
            assert text in str(error), error
        """
    )


@pytest.mark.parametrize(
    ("code", "driver", "sentence"),
    [
        (35, 0, "no NVIDIA driver on this machine"),
        (35, 12040, "too old: it serves CUDA 12.4"),
        (34, 0, "stub"),
        (100, 13000, "CUDA_VISIBLE_DEVICES is ''"),
        (46, 13000, "busy or held exclusively"),
        (3, 13000, "CUDA does not start"),
        (802, 13000, "fabric manager"),
        (803, 13000, "reboot"),
        (804, 13000, "cuda-compat"),
        (999, 13000, "unknown error"),
    ],
)
def test_why_there_is_no_device(run, code, driver, sentence):
    text = run(
        f"""
        variable("count_error").value, variable("driver").value = {code}, {driver}
        error = caught(moved, np.arange(3))
        assert type(error) is gpuops.DeviceUnavailableError, error
        assert not gpuops.is_available("cuda")
        assert np.array_equal(moved(np.arange(3), "auto"), np.arange(3))
        print(error)
        """,
        CUDA_VISIBLE_DEVICES="",
    )
    assert sentence in text


# ---- failures ----


def test_every_failure_leaves_the_library_usable(run):
    """Each site fails once, at its first, second, ... use; then the same call works."""
    run(
        """
        a = np.arange(3 * 2**15).reshape(3, -1)  # three pieces
        end = threading.Event()
        threads, failed = [], {}

        def attempt(out):
            # From a thread that stays: the next one opens a new context.
            errors, done = [], threading.Event()
            def work():
                try:
                    gpuops.transpose(a, device="cuda", out=out)
                except (gpuops.Error, MemoryError) as error:
                    errors.append(error)
                done.set()
                end.wait()
            threads.append(threading.Thread(target=work, daemon=True))
            threads[-1].start()
            done.wait()
            return errors[0] if errors else None

        for site in ("pool", "context", "event", "alloc", "pinned", "upload", "download",
                     "sync"):
            for n in range(1, 70):
                out = np.zeros(a.T.shape, a.dtype)
                often = ":forever" if site == "alloc" else ""  # once: it would go in parts
                _core.set_fault(f"cuda.{site}:{n}{often}")
                error = attempt(out)
                _core.set_fault(None)
                assert variable("blocks").value == 0, site
                if error is None:
                    assert np.array_equal(out, a.T), site
                    break  # the call does not come by this site n times
                failed[site] = n
                assert "cuda" in str(error), error
                assert site in ("download", "sync") or not out.any(), site
        check(a)
        end.set()
        print(failed)
        # The first piece of three that come back may be shorter, up to where a page ends.
        assert failed.pop("download") in (3, 4)
        assert failed == {"pool": 1, "context": 1, "event": 61, "alloc": 3, "upload": 3,
                          "sync": 1}
        """
    )


def test_out_of_memory_tells_the_bytes(run):
    run(
        """
        variable("capacity", ctypes.c_size_t).value = 1000
        error = caught(gpuops.transpose, np.zeros(100000), device="cuda", kernel="naive")
        assert type(error) is gpuops.DeviceMemoryError, error
        assert isinstance(error, MemoryError)
        assert error.requested == 800000 and error.total == 1000
        assert "800000 bytes" in str(error) and "device='cpu'" in str(error)
        check(np.zeros(10))
        """
    )


def test_a_sticky_error_loses_the_device_once_and_for_all(run):
    run(
        """
        a = np.arange(100000.0)
        variable("work_error").value = 700
        first = caught(moved, a)
        assert type(first) is gpuops.DeviceLostError, first
        assert "cudaErrorIllegalAddress" in str(first) and "device='cpu'" in str(first)
        second = caught(moved, a)
        assert type(second) is gpuops.DeviceLostError
        assert str(second) == str(first)
        assert second.code == 700
        assert np.array_equal(moved(a, "cpu"), a)
        """
    )


def test_control_c_is_heard_while_waiting(run):
    run(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
        check(np.arange(10))
        variable("stuck").value = 1
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            moved(np.arange(2**22))
        except KeyboardInterrupt:
            print("heard")
        variable("stuck").value = 0
        assert variable("blocks").value == 0
        check(np.arange(2**22))
        """
    )


def test_a_forked_child_is_told_to_spawn(run):
    run(
        """
        import warnings
        warnings.simplefilter("ignore")
        held = gpuops.to_device(np.arange(10), "cuda")
        child = os.fork()
        if child == 0:
            error = caught(moved, np.arange(3))
            good = "Cannot re-initialize CUDA in forked subprocess" in str(error)
            good = good and "'spawn'" in str(error) and "device='cpu'" in str(error)
            del held  # its memory belongs to the parent
            good = good and variable("blocks").value == 1
            good = good and np.array_equal(moved(np.arange(3), "cpu"), np.arange(3))
            os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert np.array_equal(held.get(), np.arange(10))
        """
    )
