"""test_front - a call gives the same result or error however it is put: at once, as a Call that
is run, by words or by places; plain arguments are read without asking Python."""

import importlib
import inspect
import pickle
import signal
import sys
import threading
import types

import engine
import fuzz_calls
import numpy as np
import pytest

import gpuops
from gpuops import _core
from gpuops._call import arguments as _arguments
from gpuops._call import road as _road

A = np.arange(12, dtype="f4").reshape(3, 4)
READONLY = np.zeros((3, 4), "f4")
READONLY.flags.writeable = False


class Subclass(np.ndarray):
    pass


def outcome(call):
    """The result or the error of a call."""
    try:
        return call()
    except Exception as error:
        return error


def same(f, *args, **keywords):
    """At once, and as a Call."""
    at_once = outcome(lambda: f(*args, **keywords))
    later = outcome(lambda: _road.calls[f.__name__](*args, **keywords).run())
    assert type(at_once) is type(later)
    if isinstance(later, Exception):
        assert str(at_once) == str(later)
        return
    a, b = (x.get() if isinstance(x, gpuops.DeviceArray) else x for x in (at_once, later))
    assert np.asarray(a).dtype == np.asarray(b).dtype
    assert np.asarray(a).strides == np.asarray(b).strides
    engine.same_bits(a, b)


@pytest.fixture
def unasked(monkeypatch):
    """Every question to Python about an argument fails the test."""

    def fail(*args):
        raise AssertionError(f"Python was asked: {args}")

    questions = types.SimpleNamespace(**dict.fromkeys(_arguments.__all__, fail))
    _core.setup_arguments(questions)
    yield
    _core.setup_arguments(_arguments)


OPERANDS = {
    "plain": lambda d: engine.random((3, 4), d),
    "0-d": lambda d: engine.random((), d),
    "empty": lambda d: engine.random((0, 4), d),
    "row": lambda d: engine.random((4,), d),
    "turned": lambda d: engine.random((4, 3), d).T,
    "steps": lambda d: engine.random((6, 8), d)[::2, ::-2],
    "swapped": lambda d: engine.random((3, 4), d).astype(np.dtype(d).newbyteorder()),
    "list": lambda d: engine.random((3, 4), d).tolist(),
    "number": lambda d: 2,
    "subclass": lambda d: engine.random((3, 4), d).view(Subclass),
    "masked": lambda d: np.ma.masked_array(engine.random((3, 4), d)),
    "device": lambda d: gpuops.to_device(engine.random((3, 4), d), "cpu"),
    "none": lambda d: None,
}


@pytest.mark.parametrize("dtype", ["?", "i1", "q", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("first", OPERANDS)
def test_operands(first, dtype):
    a = OPERANDS[first](dtype)
    for second in OPERANDS:
        b = OPERANDS[second](dtype)
        same(gpuops.add, a, b)
        same(gpuops.matmul, a, b)
    same(gpuops.add, a, OPERANDS["plain"]("f4"))
    same(gpuops.multiply_add, a, a, a)
    same(gpuops.fma, a, a, a)
    same(gpuops.transpose, a)
    for f in (gpuops.sum, gpuops.max, gpuops.argmin, gpuops.any, gpuops.prod, gpuops.mean):
        same(f, a)


STEPS = {  # of jacobi_step: a matrix, or a vector of its length
    "plain": lambda a: a,
    "fortran": np.asfortranarray,
    "steps": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "columns": lambda a: np.stack([a, a], axis=-1),
    "list": lambda a: a.tolist(),
    "subclass": lambda a: a.view(Subclass),
    "masked": np.ma.masked_array,
    "device": lambda a: gpuops.to_device(a, "cpu"),
    "short": lambda a: a[:-1],
    "none": lambda a: None,
}
WORDS = ({}, {"alpha": -0.1}, {"omega": 0.5}, {"alpha": 1}, {"omega": 1j}, {"alpha": True},
         {"alpha": "1"}, {"alpha": 0.1, "omega": 0.5}, {"out": np.zeros(5)},
         {"out": np.zeros(5, "f4")}, {"out": np.zeros(4)}, {"device": "cpu"}, {"device": "gpu"},
         {"kernel": "naive"}, {"params": {"a": 1}})  # fmt: skip


@pytest.mark.parametrize("dtype", ["?", "q", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("first", STEPS)
def test_jacobi_step(first, dtype):
    matrix = (engine.random((5, 5), "f4") + 9 * np.eye(5)).astype(dtype)
    f, x = (engine.random((5,), "f4").astype(dtype) for _ in range(2))
    A = STEPS[first](matrix)
    for words in WORDS:
        same(gpuops.jacobi_step, A, f, x, **words)
    for second in STEPS:
        g = STEPS[second](f)
        same(gpuops.jacobi_step, A, g, STEPS[second](x))
        same(gpuops.jacobi_step, A, g, x)
    same(gpuops.jacobi_step, A, f, np.ones(5, "f4"))
    for few in ((), (A,), (A, f), (A, f, x, 1)):
        same(gpuops.jacobi_step, *few)


def test_jacobi_step_at_once(monkeypatch, unasked):
    def fail(*args, **words):
        raise AssertionError("Python has read the system")

    monkeypatch.setattr(importlib.import_module("gpuops.jacobi"), "_system", fail)
    matrix, x = np.eye(3, dtype="f4"), np.ones(3, "f4")
    assert gpuops.jacobi_step(matrix, x, x).shape == (3,)
    assert gpuops.jacobi_step(matrix, x, x, alpha=-0.5, out=x, device="cpu") is x


AXES = (0, 1, -1, 2, -3, (), (0,), (1, 0), (0, -1), (0, 0), (0, 5), [0], [1, 0], True, 1.0, "0",
        (True,), (np.int64(1),), np.int64(0), 1 << 70, None)  # fmt: skip


@pytest.mark.parametrize("axis", AXES)
def test_axes(axis):
    for f in (gpuops.sum, gpuops.mean, gpuops.max, gpuops.any, gpuops.argmin):
        for a in (A, A.astype("i2"), np.float32(1), np.zeros((0, 4), "f4")):
            with np.errstate(all="ignore"):
                same(f, a, axis)
                same(f, a, axis=axis)
                same(f, a, axis=axis, keepdims=True)
                same(f, a, axis, keepdims=1)
        same(f, A, axis, axis=axis)
        same(f, A, axis, out=np.zeros(4, "f4"))
    for a in (A, np.ones((2, 3, 4), "c8"), np.float32(1), [[1, 2]]):
        same(gpuops.transpose, a, axis)
        same(gpuops.transpose, a, axes=axis)
        same(gpuops.transpose, a, device="cpu", axes=axis)
        same(gpuops.transpose, a, axis, axes=axis)
        same(gpuops.transpose, a, axis, out=np.zeros((4, 3), "f4"))


def test_plain_axes_are_read_at_once(unasked):
    assert gpuops.transpose(A, (1, 0)).shape == (4, 3)
    assert gpuops.transpose(A, axes=[1, 0], device="cpu").shape == (4, 3)
    assert gpuops.sum(A, 0).shape == (4,)
    assert gpuops.mean(A, axis=(0, -1), keepdims=True).shape == (1, 1)
    assert gpuops.argmax(A, axis=1).shape == (3,)


MASKS = (A > 2, A[0] > 1, A[:, :1] > 2, A, [True] * 4, True, None, np.bool_(False), np.True_,
         (A > 2)[:2], np.zeros((2, 3, 4), bool), np.ones((3, 8), bool)[:, ::2])  # fmt: skip


@pytest.mark.parametrize("mask", MASKS, ids=range(len(MASKS)))
def test_masks(mask):
    for f in (gpuops.sum, gpuops.prod, gpuops.any, gpuops.all, gpuops.mean, gpuops.max):
        for axis in (None, 1, (0, 1), 5):
            same(f, A, axis, where=mask)
            same(f, A, axis=axis, keepdims=True, where=mask)
        if f in (gpuops.sum, gpuops.prod, gpuops.max):  # the others refuse it in words
            same(f, A, where=mask, initial=1)
        same(f, A, where=mask, out=np.zeros((), "f4"))


def test_plain_masks_are_read_at_once(unasked):
    assert gpuops.sum(A, where=A > 2) == 63
    assert gpuops.any(A, axis=0, where=A[0] > 1).tolist() == [False, False, True, True]


OUTS = {
    "fits": lambda: np.zeros((3, 4), "f4"),
    "shape": lambda: np.zeros((4, 3), "f4"),
    "wider": lambda: np.zeros((3, 4), "f8"),
    "narrower": lambda: np.zeros((3, 4), "i4"),
    "swapped": lambda: np.zeros((3, 4), ">f4"),
    "read-only": lambda: READONLY,
    "turned": lambda: np.zeros((4, 3), "f4").T,
    "itself": lambda: np.broadcast_to(np.zeros(4, "f4"), (3, 4)),
    "tuple": lambda: (np.zeros((3, 4), "f4"),),
    "list": lambda: [[0.0] * 4] * 3,
    "device": lambda: gpuops.to_device(np.zeros((3, 4), "f4"), "cpu"),
    "sim": lambda: gpuops.to_device(np.zeros((3, 4), "f4"), "sim"),
}


@pytest.mark.parametrize("name", OUTS)
@pytest.mark.parametrize("device", [None, "cpu", "sim"])
def test_outs(name, device):
    if "sim" in (name, device) and not gpuops.is_available("sim"):
        pytest.skip("sim is not built")
    out = OUTS[name]()
    same(gpuops.add, A, A, out=out, device=device)
    if name in ("fits", "turned"):
        assert gpuops.add(A, A, out=out, device=device) is out
        engine.same_bits(out, A + A)
    same(gpuops.transpose, A.T, out=out, device=device)


def unaligned(shape) -> np.ndarray:
    memory = np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)
    return memory[1:].view("f4").reshape(shape)


LINES = {
    "apart": lambda a, room: np.zeros_like(a),
    "the first": lambda a, room: a,
    "overlapping": lambda a, room: room[4:16].reshape(3, 4),
    "unaligned": lambda a, room: unaligned(a.shape),
    "other order": lambda a, room: np.zeros(a.shape, a.dtype, order="F"),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("device", [None, "sim"])
def test_outs_of_the_same_layout(name, device, unasked):
    if device == "sim" and not gpuops.is_available("sim"):
        pytest.skip("sim is not built")
    room = np.arange(16, dtype="f4")
    a, b = room[:12].reshape(3, 4), np.full((3, 4), 0.5, "f4")
    wanted, out = a + b, LINES[name](a, room)
    assert gpuops.add(a, b, out=out, device=device) is out
    engine.same_bits(out, wanted)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_device_arrays_of_the_same_layout(device, unasked):
    if device == "sim" and not gpuops.is_available("sim"):
        pytest.skip("sim is not built")
    a, b, out = (gpuops.to_device(x, device) for x in (A, A[::-1], np.zeros_like(A)))
    made = gpuops.add(a, b)
    assert type(made) is gpuops.DeviceArray
    assert made.device == a.device
    engine.same_bits(made.get(), A + A[::-1])
    assert gpuops.add(a, b, out=out) is out
    engine.same_bits(out.get(), A + A[::-1])
    assert gpuops.multiply_add(out, out, out, out=out) is out
    engine.same_bits(out.get(), gpuops.multiply_add(made, made, made).get())


@pytest.mark.parametrize(
    "device", ["cpu", gpuops.Device("cpu"), "auto", "CPU", "cpu:0", "cuda:99", 3, [], b"cpu"]
)
def test_devices(device):
    same(gpuops.add, A, A, device=device)
    same(gpuops.sum, A, device=device)


def test_defaults(monkeypatch):
    for name in ("cpu", "sim") if gpuops.is_available("sim") else ("cpu",):
        with gpuops.device(name):
            same(gpuops.add, A, A)
    defaults = importlib.import_module("gpuops.devices").defaults
    monkeypatch.setitem(defaults, "environment", "fpga")
    same(gpuops.add, A, A)
    with pytest.raises(ValueError, match="GPUOPS_DEVICE"):
        gpuops.add(A, A)


def test_kernels_and_parameters():
    same(gpuops.add, A, A, kernel="naive")
    same(gpuops.add, A, A, kernel="nonsense")
    same(gpuops.add, A, A, params={"uf": 3})
    same(gpuops.transpose, A, (1, 0))
    same(gpuops.transpose, A, 1, 0)
    same(gpuops.sum, A, keepdims=True)
    same(gpuops.sum, A, 1)
    same(gpuops.sum, A, initial=3)
    same(gpuops.min, np.zeros(0))


def test_the_ways_to_put_a_call():
    out = np.zeros_like(A)
    apart = "".join(["o", "ut"])  # not the very string that the core compares with
    for f, inputs in ((gpuops.add, 2), (gpuops.multiply_add, 3), (gpuops.fma, 3)):
        arrays, expected = [A] * inputs, f(*[A.copy()] * inputs)
        for positions, words in (
            ([*arrays, out], {}),
            (arrays, {"out": out}),
            (arrays, {"device": "cpu", "out": out}),
            (arrays, {apart: out}),
            (arrays, {"params": None, "kernel": None, "device": None, "out": out}),
        ):
            out[:] = -1
            assert f(*positions, **words) is out
            engine.same_bits(out, expected)
        engine.same_bits(f(*arrays[1:], **{"abc"[inputs - 1]: A}), expected)
        for positions, words, said in (
            ([*arrays, out], {"out": out}, "multiple values for argument 'out'"),
            ([*arrays, out, "cpu"], {}, "positional"),
            (arrays[1:], {"out": out}, "missing 1 required positional"),
            (arrays, {"there": True}, "unexpected keyword argument 'there'"),
        ):
            with pytest.raises(TypeError, match=said):
                f(*positions, **words)
    engine.same_bits(gpuops.transpose(A, None), A.T.copy())
    with pytest.raises(TypeError, match="axes is one tuple"):
        gpuops.transpose(A, 1, 0)


def test_a_front_looks_like_its_function():
    for f in (gpuops.add, gpuops.multiply_add, gpuops.fma, gpuops.matmul, gpuops.transpose,
              gpuops.reduce, gpuops.argmin):  # fmt: skip
        assert list(inspect.signature(f).parameters)[-3:] == ["device", "kernel", "params"]
        assert "Parameters" in f.__doc__
        assert pickle.loads(pickle.dumps(f)) is f


def test_plain_operands_are_read_at_once(unasked):
    device, out = gpuops.to_device(A, "cpu"), np.zeros_like(A)
    engine.same_bits(gpuops.add(A, A), A + A)
    assert gpuops.add(A, A, out=out, device="cpu") is out
    assert gpuops.add(device, device, out=device) is device
    assert gpuops.transpose(A).shape == (4, 3)
    engine.same_bits(gpuops.add(A, 2), A + 2)
    engine.same_bits(gpuops.add(A, A.astype("i8")), A + A.astype("i8"))
    assert gpuops.sum(A, exact=False, dtype=None) == 66


def test_what_python_is_asked_about(unasked):
    for call in (
        lambda: gpuops.add(A, 1e300),  # whose cast NumPy warns of
        lambda: gpuops.add(2, 2),
        lambda: gpuops.add(A, A.tolist()),
        lambda: gpuops.add(A, A, kernel="naive"),
        lambda: gpuops.add(A, A, A, A),
    ):
        with pytest.raises(AssertionError, match="Python was asked"):
            call()


def test_ctrl_c_is_not_lost(monkeypatch):
    """A signal's exception that comes while the default device is asked for goes on."""

    def interrupted():
        signal.raise_signal(signal.SIGINT)
        return

    devices = sys.modules["gpuops.devices"]
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(devices, "get_default_device", interrupted)
    monkeypatch.setitem(devices.defaults, "anything", None)
    try:
        _core.setup(devices, sys.modules["gpuops.arrays"])
        with pytest.raises(KeyboardInterrupt):
            gpuops.add(A, A)
    finally:
        monkeypatch.undo()
        _core.setup(devices, sys.modules["gpuops.arrays"])
        signal.signal(signal.SIGINT, handler)
    engine.same_bits(gpuops.add(A, A), A + A)


def test_threads():
    failed = []

    def work(seed):
        a = np.random.default_rng(seed).random(50)
        for _ in range(300):
            if not np.array_equal(gpuops.add(a, a), a + a):
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_random_calls():
    """Drawn calls, most of them bad ones, end the same by words as by places, and as a Call."""

    def ends(call, seed, by_words=False):
        name, args, keywords = fuzz_calls.draw(seed)
        if by_words:
            words = fuzz_calls.WORDS[name][: len(args)]
            args, keywords = (), {**dict(zip(words, args, strict=True)), **keywords}
        said = fuzz_calls.outcome(lambda *a, **k: call(name, a, k), args, keywords)
        return said.replace(" is out", "")

    def at_once(name, args, keywords):
        return getattr(gpuops, name)(*args, **keywords)

    def later(name, args, keywords):
        return _road.calls[name](*args, **keywords).run()

    for seed in range(600):
        name, args, keywords = fuzz_calls.draw(seed)
        said = ends(at_once, seed)
        assert ends(later, seed) == said, seed
        words = fuzz_calls.WORDS[name][: len(args)]
        plain = len(words) == len(args) and not {*words} & keywords.keys()
        if plain and not any(value is ... for value in args):
            assert ends(at_once, seed, by_words=True) == said, seed


@pytest.mark.parametrize("dtype", ["f4", "i8", np.longlong, np.ulonglong, ">f4"])
def test_an_array_that_grows_while_other_arguments_are_read(dtype):
    a = np.arange(4).astype(dtype)
    other = fuzz_calls.Resizing(np.ones(5, dtype), a)
    result = gpuops.add(a, other)
    assert a.shape == (5,)
    engine.same_bits(result, (a + 1).astype(result.dtype))
    b = np.arange(4).astype(dtype)
    assert gpuops.sum(b, axis=fuzz_calls.Resizing(0, b)) == b.sum()
    assert b.shape == (5,)
