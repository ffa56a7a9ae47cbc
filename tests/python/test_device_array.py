"""DeviceArray: what it is, what it refuses, and the way in and out for other libraries."""

import copy
import gc
import pickle
import subprocess
import sys
import weakref

import engine
import numpy as np
import pytest

import gpuops

PLACES = engine.backends()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", engine.DTYPES, ids=str)
def test_there_and_back(place, dtype):
    a = engine.random((5, 7), dtype, special=True)
    x = gpuops.to_device(a, place)
    assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes) == (a.shape, a.dtype, 2, 35, a.nbytes)
    assert str(x.device) == place
    engine.same_bits(x.get(), a)
    assert gpuops.to_device(x, place) is x
    assert len(x) == 5
    assert repr(x) == f"<DeviceArray (5, 7) {a.dtype} on {place}>"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("layout", engine.LAYOUTS)
@pytest.mark.parametrize("shape", [(), (0, 3), (4, 5, 6)])
def test_every_layout_goes_there(place, layout, shape):
    view = engine.layout(engine.random(shape, "f4"), layout)
    engine.same_bits(gpuops.to_device(view, place), np.array(view, "f4"))


@pytest.mark.parametrize("place", PLACES)
def test_bfloat16(place):
    a = engine.random((9,), engine.bfloat16())
    engine.same_bits(gpuops.to_device(a, place), a)


@pytest.mark.parametrize("place", PLACES)
def test_it_goes_into_every_operation(place):
    a = engine.random((6, 6), "f4")
    x = gpuops.to_device(a, place)
    for f, args, twin in (
        (gpuops.add, (x, x), a + a),
        (gpuops.add, (x, a), a + a),
        (gpuops.add, (x, 2), a + 2),
        (gpuops.multiply_add, (x, x, 1.5), a * a + np.float32(1.5)),
        (gpuops.transpose, (x,), a.T.copy()),
        (gpuops.max, (x,), a.max()),
        (gpuops.sum, (x, 0), engine.tree_sum(a, 0)),
    ):
        result = f(*args)
        assert type(result) is gpuops.DeviceArray
        assert str(result.device) == place
        engine.same_bits(result, twin)


@pytest.mark.parametrize("place", PLACES)
def test_out_on_the_device(place):
    a = engine.random((6, 6), "f4")
    x = gpuops.to_device(a, place)
    out = gpuops.to_device(np.zeros((6, 6), "f4"), place)
    assert gpuops.add(x, x, out=out) is out
    engine.same_bits(out, a + a)
    host = np.zeros((6, 6), "f4")
    assert gpuops.add(x, x, out=host) is host
    engine.same_bits(host, a + a)
    with pytest.raises(TypeError, match=r"same_kind|is needed"):
        gpuops.add(x, x, out=gpuops.to_device(np.zeros((6, 6), "i4"), place))
    with pytest.raises(ValueError, match="shape"):
        gpuops.add(x, x, out=gpuops.to_device(np.zeros((6, 5), "f4"), place))


def test_device_arrays_are_not_cast():
    x = gpuops.to_device(np.ones(3, "f4"), "cpu")
    with pytest.raises(TypeError, match="add: a is a device array of float32 where float64"):
        gpuops.add(x, np.ones(3))
    engine.same_bits(gpuops.add(x, 2), np.full(3, 3, "f4"))


def test_what_it_does_not_do():
    x = gpuops.to_device(np.arange(6.0), "cpu")
    with pytest.raises(TypeError, match=r"use \.get\(\)"):
        np.asarray(x)
    with pytest.raises(TypeError, match=r"use gpuops\.add"):
        x + x
    with pytest.raises(TypeError, match=r"use gpuops\.add"):
        np.ones(6) + x
    with pytest.raises(TypeError, match=r"use gpuops\.matmul"):
        x @ x
    with pytest.raises(TypeError, match=r"use gpuops\.multiply_add"):
        2 * x
    for statement in (
        lambda: bool(x),
        lambda: list(x),
        lambda: x[0],
        lambda: -x,
        lambda: x < x,
    ):
        with pytest.raises(TypeError, match="DeviceArray"):
            statement()
    with pytest.raises(TypeError, match="0-d"):
        len(gpuops.to_device(1.0, "cpu"))
    with pytest.raises(TypeError, match="to_device"):
        gpuops.DeviceArray(np.ones(3))
    with pytest.raises(AttributeError):
        x.shape = (2, 3)
    with pytest.raises(AttributeError):
        x._buffer = gpuops.to_device(np.ones(3), "cpu")._buffer


def test_a_copy_is_another_handle_on_the_same_memory():
    x = gpuops.to_device(np.arange(3.0), "cpu")
    other = copy.copy(x)
    assert other is not x
    assert other._kind is None
    gpuops.add(x, x, out=x)
    engine.same_bits(other.get(), np.arange(3.0) * 2)
    for leave in (copy.deepcopy, pickle.dumps, lambda x: pickle.dumps(x, 0)):
        with pytest.raises(TypeError, match=r"in a device's memory .* get\(\) brings"):
            leave(x)


def test_dlpack_to_numpy_shares_memory_and_lifetime():
    x = gpuops.to_device(np.arange(6.0).reshape(2, 3), "cpu")
    assert x.__dlpack_device__() == (1, 0)
    view = np.from_dlpack(x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
    engine.same_bits(np.array(view), np.arange(6.0).reshape(2, 3))


def test_dlpack_requests():
    x = gpuops.to_device(np.arange(6.0), "cpu")
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 9
    assert x.get()[0] == 0
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="stream 0"):
        x.__dlpack__(stream=0)
    assert not hasattr(x, "__cuda_array_interface__")


def test_a_capsule_is_used_once():
    from gpuops import _core

    capsule = gpuops.to_device(np.arange(3.0), "cpu").__dlpack__()
    buffer = _core.from_dlpack(capsule)
    engine.same_bits(buffer.get(), np.arange(3.0))
    with pytest.raises((ValueError, BufferError, TypeError)):
        _core.from_dlpack(capsule)
    for bad in (None, object(), 3):
        with pytest.raises((ValueError, BufferError, TypeError)):
            _core.from_dlpack(bad)


def test_other_libraries_are_not_imported():
    code = (
        "import sys, numpy as np, gpuops; gpuops.to_device(np.ones(3), 'cpu');"
        "print({'cupy', 'torch', 'jax', 'numba', 'ml_dtypes', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None  # as if it were not installed
import numpy as np, gpuops
from types import ModuleType

class Tensor:  # what PyTorch shows of a tensor of bfloat16 on the CPU
    dtype = "torch.bfloat16"
    def __init__(self, values):
        bits = np.float32(values).view("u4") >> 16
        self.bits = np.array(bits, "u2", order="C")
    def __array__(self, *args, **words):
        raise TypeError("Got unsupported ScalarType BFloat16")
    def __dlpack_device__(self):
        return (1, 0)
    def __dlpack__(self, *, stream=None, max_version=None):
        assert stream is None
        from gpuops import _core
        from gpuops._call import dtypes as _dtypes
        _dtypes.meet_bfloat16()
        place, dtype = ("cpu", 0), _dtypes._bfloat16
        at = self.bits.ctypes.data
        made = _core.borrow(at, self.bits.shape, None, dtype, place, self.bits, False)
        return made.dlpack(None, max_version is not None)

def values(array):
    bits = np.from_dlpack(Uint16(array))
    return (bits.astype("u4") << 16).view("f4").tolist()

class Uint16:  # its bits
    def __init__(self, array):
        from gpuops import _core
        b = array._buffer
        self.made = _core.borrow(b.ptr, b.shape, None, np.uint16, b.device, array, False)
    def __dlpack_device__(self):
        return (1, 0)
    def __dlpack__(self, **words):
        return self.made.dlpack(None, True)

Tensor.__module__ = "torch"
torch = sys.modules["torch"] = ModuleType("torch")
torch.from_dlpack = lambda array: array
t = Tensor([[1.0, 2.0], [3.0, 4.5]])
"""


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("gpuops.add(t, t)", [[2.0, 4.0], [6.0, 9.0]]),
        ("gpuops.add(t, t, kernel='naive')", [[2.0, 4.0], [6.0, 9.0]]),
        ("gpuops.transpose(t)", [[1.0, 3.0], [2.0, 4.5]]),
        ("gpuops.matmul(t, t)", [[7.0, 11.0], [16.5, 26.25]]),
        ("gpuops.sum(t, axis=0)", [4.0, 6.5]),
        ("gpuops.sum(t, axis=0, initial=0.5)", [4.5, 7.0]),
        ("gpuops.max(t, axis=1, keepdims=True)", [[2.0], [4.5]]),
        ("gpuops.mean(t)", 2.625),
        ("gpuops.add(t, 1)", [[2.0, 3.0], [4.0, 5.5]]),
        ("gpuops.fma(t, t, t)", [[2.0, 6.0], [12.0, 24.75]]),
    ],
)
def test_bfloat16_of_others_needs_no_ml_dtypes(call, expected):
    code = (
        WITHOUT_ML_DTYPES
        + f"""
r = {call}
assert repr(r).endswith(" bfloat16 on cpu>"), r
out = Tensor(np.zeros(r.shape))
{call[:-1]}, out=out)
words = (out.bits.astype("u4") << 16).view("f4").tolist()
assert words == values(r), words
try:
    r.get()
except TypeError as error:
    assert "install ml_dtypes" in str(error)
else:
    raise AssertionError
print(values(r))
"""
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-800:]
    assert done.stdout.strip() == str(expected)


def test_a_number_becomes_bfloat16_as_with_ml_dtypes():
    from gpuops._call.dtypes import as_bfloat16

    a = engine.random((4096,), "f4", special=True)
    with np.errstate(over="ignore"):
        theirs = a.astype(engine.bfloat16())
    ours = as_bfloat16(a, np.dtype("u2"))
    number = ~np.isnan(a)
    assert (ours[number] == theirs.view("u2")[number]).all()
    assert np.isnan(ours.view(theirs.dtype)[~number].astype("f4")).all()


class FakeCuda:
    """An object that says its memory is a GPU's, and counts how often it is asked."""

    def __init__(self, **facts):
        self.__cuda_array_interface__ = {
            "shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3, **facts,
        }  # fmt: skip


@pytest.mark.skipif(gpuops.is_available("cuda"), reason="there is a GPU")
def test_a_gpu_array_without_a_gpu():
    with pytest.raises(gpuops.DeviceUnavailableError):
        gpuops.add(FakeCuda(), 1)


@pytest.mark.skipif(not gpuops.is_available("cuda"), reason="there is no GPU")
def test_lying_interfaces():
    for facts, kind in (
        ({"stream": 0}, ValueError),
        ({"mask": object()}, TypeError),
        ({}, (ValueError, TypeError, BufferError)),  # a pointer that is no GPU's
    ):
        with pytest.raises(kind, match="add: a: "):
            gpuops.add(FakeCuda(**facts), 1)
    assert gpuops.add(np.ones(3), 1, device="cuda").sum() == 6


@pytest.mark.parametrize("library", ["cupy", "torch", "jax.numpy", "numba.cuda"])
def test_their_arrays_come_back_as_theirs(library):
    if not gpuops.is_available("cuda"):
        pytest.skip("there is no GPU")
    module = pytest.importorskip(library)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    make = {
        "torch": lambda: module.from_numpy(a).cuda(),
        "numba.cuda": lambda: module.to_device(a),
    }.get(library, lambda: module.asarray(a))
    x = make()
    for f, twin in (
        (lambda: gpuops.add(x, x), a + a),
        (lambda: gpuops.transpose(x), a.T),
        (lambda: gpuops.max(x), a.max()),
    ):
        result = f()
        assert type(result) is type(x)
        back = gpuops.to_device(result, "cuda").get()
        engine.same_bits(back, np.ascontiguousarray(twin).reshape(np.shape(twin)))
