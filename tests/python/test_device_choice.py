"""Choosing a device: what each way of naming one does, and what is said where there is none."""

import importlib
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import gpuops
from gpuops._call.road import choose_device

module = importlib.import_module("gpuops.devices")  # its name in the package is a function

needs_no_cuda = pytest.mark.skipif(gpuops.is_available("cuda"), reason="there is a GPU")
needs_cuda = pytest.mark.skipif(not gpuops.is_available("cuda"), reason="there is no GPU")

A = np.ones((4, 4))


def test_cpu_is_always_there():
    (cpu,) = gpuops.devices("cpu")
    assert str(cpu.device) == "cpu"
    assert cpu.processors >= 1
    assert cpu.memory > 0
    assert str(cpu).startswith("cpu: ")
    assert gpuops.is_available("cpu")


def test_devices_print_as_a_table():
    found = gpuops.devices()
    assert isinstance(found, tuple)
    head, *lines = repr(found).splitlines()
    assert len(lines) == len(found)
    assert head.split()[:2] == ["device", "name"]
    for info, line in zip(found, lines, strict=True):
        assert line.startswith(f"{info.device} ")
        assert info.name in line
        assert len(line) <= 120
        assert f"{info.memory / 2**30:.1f} GiB" in line
    assert found._repr_html_().count("<tr>") == len(found) + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_child_does_not_wait_for_a_thread_it_has_not(monkeypatch):
    """A fork while another thread opens a backend: the child opens it itself."""
    monkeypatch.setattr(module, "_opened", {"cpu"})
    monkeypatch.setattr(module, "_why_not", {})
    with module._lock:
        child = os.fork()
        if child == 0:
            done = threading.Timer(10, os._exit, (3,))
            done.daemon = True
            done.start()
            gpuops.is_available("sim")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_device_is_a_value():
    cpu = gpuops.Device("cpu")
    assert cpu == gpuops.Device("cpu", 0)
    assert hash(cpu) == hash(gpuops.Device("cpu"))
    assert str(gpuops.Device("cuda", 1)) == "cuda:1"
    assert str(gpuops.Device("cuda")) == "cuda"
    assert cpu.info.device == cpu


@pytest.mark.parametrize(
    "name",
    ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:¹", "cpu:1", "CPU", "", "sim:5", "cuda:99999"],
)
def test_a_bad_name_lists_what_there_is(name):
    with pytest.raises(ValueError, match=r"there is no device .*; this machine has 'cpu'"):
        gpuops.add(A, A, device=name)


@pytest.mark.parametrize("name", ["cuda:1", "cpu:0", "sim:cc10"])
def test_a_backend_and_its_number_are_apart(name):
    """`this build of gpuops has no cuda:1 backend`, it said."""
    with pytest.raises(ValueError, match=r"Device: backend is .* as in Device\('cuda', 1\)"):
        gpuops.Device(name)
    with pytest.raises(TypeError, match="Device: backend is 1, expected a name"):
        gpuops.Device(1)
    for ordinal in ("1", 1.5, True, None):
        with pytest.raises(TypeError, match="Device: ordinal is an integer, not"):
            gpuops.Device("sim", ordinal)
    assert str(gpuops.Device("sim", -1)) == "sim:-1"  # and not sim:cc20


@pytest.mark.parametrize("ordinal", [-1, 1, 99])
def test_a_device_that_is_not_there(ordinal):
    for use in (
        lambda d: gpuops.add(A, A, device=d),
        lambda d: gpuops.to_device(A, d),
        gpuops.device,
        gpuops.set_default_device,
    ):
        with pytest.raises(gpuops.DeviceUnavailableError, match="this machine has 'cpu'"):
            use(gpuops.Device("cpu", ordinal))


@pytest.mark.parametrize("name", [0, None.__class__, b"cpu", ("cuda", 0), 1.5])
def test_a_device_that_is_no_name(name):
    with pytest.raises(TypeError, match="device is a string such as 'cpu' or 'cuda:1'"):
        gpuops.add(A, A, device=name)


@needs_no_cuda
def test_cuda_is_refused_with_the_reason():
    with pytest.raises(gpuops.DeviceUnavailableError, match="cuda") as caught:
        gpuops.add(A, A, device="cuda")
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(gpuops.DeviceUnavailableError):
        gpuops.to_device(A, "cuda")
    with pytest.raises(gpuops.DeviceUnavailableError), gpuops.device("cuda"):
        pass
    with pytest.raises(gpuops.DeviceUnavailableError):
        gpuops.set_default_device("cuda")
    assert gpuops.add(A, A).sum() == 32  # auto never fails for want of a GPU


def test_sim_is_refused_with_the_reason():
    if gpuops.is_available("sim"):
        pytest.skip("sim is built")
    with pytest.raises(gpuops.DeviceUnavailableError, match="sim"):
        gpuops.add(A, A, device="sim")


@needs_cuda
def test_an_ordinal_that_is_not_there():
    with pytest.raises(gpuops.DeviceUnavailableError, match="this machine has 'cpu'"):
        gpuops.add(A, A, device="cuda:77")


def test_order_keyword_context_default_environment(monkeypatch):
    other = gpuops.Device("cuda")
    monkeypatch.setattr(module, "check", lambda device: device)
    monkeypatch.setattr(module, "_at", {})  # of devices that were met
    cpu = gpuops.Device("cpu")
    assert choose_device("add", (A, A)) == cpu
    monkeypatch.setitem(module.defaults, "environment", "cuda")
    assert choose_device("add", (A, A)) == other
    gpuops.set_default_device("cpu")
    assert choose_device("add", (A, A)) == cpu
    with gpuops.device("cuda"):
        assert choose_device("add", (A, A)) == other
        assert choose_device("add", (A, A), "cpu") == cpu
        with gpuops.device("cpu"):
            assert choose_device("add", (A, A)) == cpu
        assert choose_device("add", (A, A)) == other
    assert choose_device("add", (A, A)) == cpu


def test_a_bad_environment_says_so(monkeypatch):
    monkeypatch.setitem(module.defaults, "environment", "fpga")
    with pytest.raises(ValueError, match="GPUOPS_DEVICE: there is no device 'fpga'"):
        gpuops.add(A, A)
    assert gpuops.add(A, A, device="cpu").sum() == 32


def test_the_environment_is_read_at_import():
    code = "import gpuops; print(gpuops.get_default_device())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "GPUOPS_DEVICE": "cuda:1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "cuda:1"


def test_context_is_of_its_thread_and_ends_with_an_error():
    seen = []
    with gpuops.device("cpu"):
        thread = threading.Thread(target=lambda: seen.append(gpuops.get_default_device()))
        thread.start()
        thread.join()
    assert seen == [None]
    with pytest.raises(KeyError), gpuops.device("cpu"):
        raise KeyError
    assert gpuops.get_default_device() is None


def test_a_context_is_entered_again_and_pickled():
    context = gpuops.device("cpu")
    for again in (context, pickle.loads(pickle.dumps(context))):
        with again as outer, again as inner:
            assert outer == inner == gpuops.get_default_device() == gpuops.Device("cpu")
            with gpuops.device("auto"):
                assert gpuops.get_default_device() is None
            assert gpuops.get_default_device() == outer
        assert gpuops.get_default_device() is None

    @context
    def inside():
        return gpuops.get_default_device()

    assert inside() == inside() == gpuops.Device("cpu")


def test_blocks_in_generators_end_in_any_order_and_thread():
    def held(name):
        with gpuops.device(name):
            yield

    first = held("auto")
    next(first)
    with gpuops.device("cpu"):
        first.close()
        assert gpuops.get_default_device() == gpuops.Device("cpu")
    assert gpuops.get_default_device() is None
    elsewhere = held("cpu")
    next(elsewhere)
    thread = threading.Thread(target=elsewhere.close)
    thread.start()
    thread.join()
    assert gpuops.get_default_device() is None


def test_a_device_array_decides(monkeypatch):
    monkeypatch.setattr(module, "check", lambda device: device)
    monkeypatch.setattr(module, "_at", {})  # of devices that were met
    x = gpuops.to_device(A, "cpu")
    with gpuops.device("cuda"):
        assert choose_device("add", (x, A)) == gpuops.Device("cpu")
        assert choose_device("add", (x, A), "cuda") == gpuops.Device("cuda")


def test_auto_weighs_the_work(monkeypatch):
    monkeypatch.setattr(module, "is_available", lambda backend="cuda": True)
    monkeypatch.setattr(module, "check", lambda device: device)
    monkeypatch.setattr(module, "_at", {})  # of devices that were met
    big, small = np.broadcast_to(1.0, (4096, 4096)), np.ones((8, 8))
    assert str(choose_device("matmul", (big, big))) == "cuda"
    assert str(choose_device("matmul", (small, small))) == "cpu"
    for op in ("add", "transpose", "reduce"):
        assert str(choose_device(op, (big, big))) == "cpu"
    assert str(choose_device("jacobi_step", (big, big[0], big[0]))) == "cpu"
    assert str(choose_device("jacobi", (big, big[0], big[0]))) == "cuda"
    assert str(choose_device("jacobi", (small, small, small))) == "cpu"
    points = np.broadcast_to(0.0, (10**5, 3))
    assert str(choose_device("rdf", (points, np.ones(3)), params={"points2": False})) == "cuda"


def test_a_kernel_finds_its_device():
    assert gpuops.add(A, A, kernel="naive").sum() == 32
    with pytest.raises(ValueError, match="there is no kernel 'warp9'"):
        gpuops.add(A, A, kernel="warp9")


@pytest.mark.skipif(not gpuops.is_available("sim"), reason="sim is not built")
def test_a_kernel_by_name_is_not_simulated(monkeypatch):
    monkeypatch.setattr(module, "is_available", lambda backend="cuda": backend != "cuda")
    assert str(choose_device("add", (A, A), kernel="naive")) == "cpu"
    for call in (gpuops.transpose, lambda *a, **k: gpuops.explain("transpose", *a, **k)):
        with pytest.raises(gpuops.KernelRefusedError, match=r"'padded' .* device='sim'"):
            call(A, kernel="padded")
    assert "else cpu" in repr(gpuops.explain("add", A, A, kernel="naive"))
    with gpuops.device("sim"):
        assert str(choose_device("transpose", (A,), kernel="padded")) == "sim"
    assert gpuops.transpose(np.ones((9, 8)), kernel="padded", device="sim").all()


def test_auto_is_a_word_everywhere():
    gpuops.set_default_device("auto")
    with gpuops.device("auto"):
        assert gpuops.add(A, A, device="auto").sum() == 32


def test_errors_are_picklable():
    error = gpuops.DeviceMemoryError("full", requested=8, free=4, total=16)
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), twin.requested, twin.free, twin.total) == ("full", 8, 4, 16)
    assert isinstance(twin, MemoryError)
    lost = pickle.loads(pickle.dumps(gpuops.DeviceLostError("gone", code=719, name="x")))
    assert (lost.code, lost.name) == (719, "x")
    for kind in (gpuops.Error, gpuops.KernelRefusedError, gpuops.DeviceUnavailableError):
        assert str(pickle.loads(pickle.dumps(kind("why")))) == "why"
    with pytest.raises(TypeError, match="no field"):
        gpuops.Error("x", colour=1)


def test_threads_and_their_limits():
    gpuops.set_num_threads(1)
    assert gpuops.get_num_threads() == 1
    assert gpuops.add(A, A).sum() == 32
    for bad, kind in (
        (-1, ValueError),
        (5000, ValueError),
        (1.5, TypeError),
        (True, TypeError),
    ):
        with pytest.raises(kind, match="set_num_threads"):
            gpuops.set_num_threads(bad)
