"""Arrays at the limits and producers that lie: an answer or an exception, never a crash."""

import ctypes
import subprocess
import sys

import engine
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import gpuops
from gpuops import _core

CPU = ("cpu", 0)
LEAST = -(2**63)


@pytest.mark.parametrize("device", engine.backends())
def test_sixty_four_axes(device):
    a = np.arange(24.0).reshape((2,) + (1,) * 30 + (3,) + (1,) * 31 + (4,))
    view = a[::-1]
    assert (gpuops.add(a, view, device=device) == a + view).all()
    assert (gpuops.transpose(view, device=device) == view.T).all()
    assert (gpuops.sum(a, axis=(0, 31), device=device) == a.sum((0, 31))).all()
    assert gpuops.max(view, device=device) == 23.0
    assert (gpuops.matmul(a, a.mT, device=device) == a @ a.mT).all()
    with pytest.raises(np.exceptions.AxisError, match="axis 64"):
        gpuops.sum(a, axis=64, device=device)


@pytest.mark.parametrize("stride", [0, 1, 2**62, 2**63 - 1, LEAST, LEAST + 1])
def test_strides_that_mean_nothing(stride):
    """Those of axes of one element or none: any number is allowed there."""
    one = as_strided(np.ones(1), (1, 1), (stride, stride))
    assert gpuops.add(one, one, device="cpu") == 2.0
    assert gpuops.matmul(one, one, device="cpu") == 1.0
    assert gpuops.transpose(one, device="cpu").shape == (1, 1)
    assert gpuops.sum(one, device="cpu") == 1.0
    assert gpuops.jacobi_step(one, one[0], one[0], device="cpu") == 1.0
    none = as_strided(np.ones(1), (1000, 0), (stride, stride))
    out = as_strided(np.ones(1), (1000, 0), (stride, stride))
    assert gpuops.add(none, none, out=out, device="cpu") is out
    assert gpuops.transpose(none, device="cpu").shape == (0, 1000)
    assert (gpuops.sum(none, axis=1, device="cpu") == 0.0).all()
    assert gpuops.matmul(none, none.T, device="cpu").sum() == 0.0


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 5, 7), (5, 0, 7)])
def test_an_empty_out_overlaps_nothing(shape):
    out = as_strided(np.ones(1), shape, (0,) * len(shape))
    assert gpuops.add(np.empty(shape), 1.0, out=out, device="cpu") is out


def test_too_many_elements():
    wide = np.broadcast_to(np.float32(1), (2**30, 1, 2**20))
    with pytest.raises(ValueError, match=r"add: .* \(.*\) has too many elements"):
        gpuops.add(wide, np.broadcast_to(np.float32(1), (2**30, 1)), device="cpu")


# ---- tunables and params that run code while they are read ----


class Growing:
    """An integer that adds to the dict it stands in."""

    def __init__(self, home):
        self.home = home

    def __index__(self):
        self.home.update({str(i): 1 for i in range(100)})
        return 1


def test_a_dict_that_grows_while_it_is_read():
    tunables: dict = {}
    tunables["a"] = Growing(tunables)
    a = np.ones(3)
    with pytest.raises(TypeError, match="integers"):
        _core.run("add", (a, a), None, None, CPU, "naive", tunables)
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        gpuops.add(a, a, kernel="naive", params=tunables, device="cpu")
    with pytest.raises((TypeError, SystemError)):
        _core.run("add", (a, a), None, None, CPU, "naive", [1])
    assert (gpuops.add(a, a, device="cpu") == 2).all()


# ---- code of the caller's that frees an operand ----


def survives(code: str) -> str:
    """What a program prints that would crash the interpreter if memory were read too late."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-800:]}"
    return done.stdout.strip()


RESIZES = """
import sys
import numpy as np, gpuops
from gpuops import _core
a = np.ones(1 << 22)  # large enough for pages of its own, which go back at once
class Word({base}):
    {method}
        a.resize(1, refcheck=False)
        {value}
"""


def test_a_device_that_frees_an_operand():
    code = RESIZES.format(
        base="str", method="def __hash__(self):", value="return str.__hash__(self)"
    )
    ask = "r = gpuops.add(a, np.ones(1 << 22), device=Word('cpu')); print(r.shape, r[-1])"
    assert survives(code + ask) == "(4194304,) 2.0"
    ask = "print(gpuops.sum(a, device=Word('cpu')))"
    assert survives(code + ask) == "1.0"


def test_a_default_that_frees_an_operand():
    code = RESIZES.format(base="object", method="def __call__(self):", value="return None")
    code += """
devices = sys.modules["gpuops.devices"]
devices.defaults["anything"], devices.get_default_device = None, Word()
_core.setup(devices, sys.modules["gpuops.arrays"])
print({call})
"""
    assert survives(code.replace("{call}", "gpuops.sum(a)")) == "1.0"
    assert survives(code.replace("{call}", "gpuops.add(a, a)")) == "[2.]"


@pytest.mark.skipif(not gpuops.is_available("cuda"), reason="only there are they asked")
def test_an_operand_that_frees_another():
    """What is taken for CuPy's array, as its type has the name."""
    code = RESIZES.format(
        base="object", method="@property\n    def dtype(self):", value="return None"
    )
    code += """
Word.__module__, Word.__name__ = "cupy", "ndarray"
import sys, types
cupy = sys.modules["cupy"] = types.ModuleType("cupy")
cupy.cuda = sys.modules["cupy.cuda"] = types.ModuleType("cupy.cuda")
cupy.cuda.get_current_stream = None
try:
    print(gpuops.add(a, Word()))
except Exception as error:
    print(type(error).__name__)
"""
    assert survives(code) == "TypeError"


PARAMS = """
import numpy as np
from gpuops import _core
n = 1 << 11
A, f = np.ones((n, n)), np.ones(n)
class Number:
    def __complex__(self):
        {does}
        return 1 + 0j
params = {{"csr": False, "n": n, "columns": n, "omega": 0.5}}
params["alpha"] = Number()
r = _core.run("jacobi_step", (A, f, f), params, None, ("cpu", 0), None, None)
print(r[0])
"""


def test_parameters_that_change_while_they_are_read():
    # 1 + (2048 * 1 - 1) by the one row that is left, or by all of them.
    assert survives(PARAMS.format(does="params.clear()")) == "2048.0"
    code = PARAMS.format(does="A.resize(1, refcheck=False); f.resize(1, refcheck=False)")
    with pytest.raises(AssertionError, match="ValueError: jacobi_step"):
        survives(code)


# ---- DLPack ----


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    )  # fmt: skip


MEMORY = np.arange(6, dtype=np.float32)
NO_SHAPE = (None, None)  # two axes, and NULL for what they extend
_kept = []  # what the capsules point to


def capsule(shape=(2, 3), strides=None, **fields):
    t = Tensor(MEMORY.ctypes.data, 1, 0, len(shape), 2, 32, 1)
    if shape != NO_SHAPE:
        t.shape = (ctypes.c_int64 * 64)(*shape)
    if strides is not None:
        t.strides = (ctypes.c_int64 * 64)(*strides)
    for name, value in fields.items():
        setattr(t, name, value)
    _kept.append(t)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(t), b"dltensor", None)


def test_a_sound_capsule():
    assert (_core.from_dlpack(capsule()).get() == MEMORY.reshape(2, 3)).all()
    turned = _core.from_dlpack(capsule((3, 2), (1, 3)))
    assert (turned.get() == MEMORY.reshape(2, 3).T).all()
    assert _core.from_dlpack(capsule((0, 3), data=None)).get().shape == (0, 3)


@pytest.mark.parametrize(
    "lie",
    [
        {"shape": (-1, 3)},
        {"shape": (2**40, 2**40)},
        {"shape": (2**62,)},
        {"strides": (2**62, 1)},
        {"strides": (LEAST, 1)},
        {"data": None},
        {"ndim": 65},
        {"ndim": -1},
        {"bits": 12},
        {"lanes": 4},
        {"code": 77},
        {"device_type": 99},
        {"shape": NO_SHAPE},
        {"offset": 2**64 - 1},
        {"strides": (2**61 - 1, 1), "shape": (9, 3)},
        {"strides": (-(2**58), 1), "shape": (3, 3)},
    ],
    ids=str,
)
def test_lying_capsules(lie):
    bad = capsule(**lie)
    with pytest.raises((BufferError, ValueError), match=r"^from_dlpack: "):
        _core.from_dlpack(bad)
    del bad


@pytest.mark.skipif(not gpuops.is_available("cuda"), reason="there is no GPU")
def test_a_capsule_of_a_gpu_with_memory_of_the_host():
    with pytest.raises(BufferError, match=r"host's|unknown to the driver"):
        _core.from_dlpack(capsule(device_type=2))


def test_memory_that_leaves_the_address_space():
    pointer = MEMORY.ctypes.data
    for shape, strides in (((3,), (2**62,)), ((2, 2), (LEAST, 4)), ((2,), (-(2**50),))):
        with pytest.raises(BufferError, match="beyond all memory"):
            _core.borrow(pointer, shape, strides, np.float32, CPU, None, False)


def test_arrays_that_dlpack_cannot_describe():
    memory = np.zeros(40, np.uint8)

    def lent(strides, readonly):
        return _core.borrow(
            memory.ctypes.data, (2, 2), strides, np.float32, CPU, memory, readonly
        )

    with pytest.raises(BufferError, match="aligned"):
        lent((9, 4), False).dlpack(None, True)
    with pytest.raises(BufferError, match="read-only"):
        lent(None, True).dlpack(None, False)
    assert lent(None, True).dlpack(None, True) is not None
    with pytest.raises(ValueError, match="NULL"):
        _core.borrow(0, (2,), None, np.float32, CPU, None, False)
    assert _core.borrow(0, (0, 2), None, np.float32, CPU, None, False).get().size == 0


@pytest.mark.parametrize("facts", [None, 3, {}, {"shape": (3,), "typestr": "<f4"}])
def test_an_interface_of_cuda_that_tells_nothing(facts):
    liar = type("Liar", (), {"__cuda_array_interface__": facts})()
    said = r"^add: a: its __cuda_array_interface__ is no dict|has no cuda backend"
    with pytest.raises((ValueError, gpuops.DeviceUnavailableError), match=said):
        gpuops.add(liar, 1.0)
