"""test_cuda_foreign - arrays of CuPy, PyTorch and others, on the fake driver."""

import test_cuda_runtime

library = test_cuda_runtime.library
run = test_cuda_runtime.run

# Arrays of libraries that are not here: a class by the right name over a DeviceArray's memory.
LIBRARIES = """
import types
a = np.arange(100, dtype="f4")

def stream():
    handle = ctypes.c_void_p()
    fake.cudaStreamCreateWithFlags(ctypes.byref(handle), 1)
    return handle.value

current = types.SimpleNamespace(ptr=0, cuda_stream=0)  # the library's stream
own = []  # arrays of the library's own making
full = []  # whether its memory is

class Borrowed:
    def __init__(self, values):
        self.device_array = gpuops.to_device(values, "cuda")
        self.asked = []
    def __dlpack_device__(self):
        return self.device_array.__dlpack_device__()
    def __dlpack__(self, stream=None, max_version=None):
        self.asked.append(stream)
        return self.device_array.__dlpack__(stream=stream, max_version=max_version)
    def get(self):
        return self.device_array.get()

def module(name, **members):
    sys.modules[name] = types.SimpleNamespace(**members)
    return sys.modules[name]

def made(array):
    result = Borrowed.__new__(kind)
    result.device_array = array
    return result

class Device:
    def __init__(self, ordinal): pass
    def __enter__(self): pass
    def __exit__(self, *exception): pass

def cupy():
    global kind
    class ndarray(Borrowed):
        def __getattr__(self, name):
            if name in ("shape", "strides", "dtype"):
                return getattr(self.device_array, name)
            if name == "data":
                return types.SimpleNamespace(ptr=self.device_array._buffer.ptr, device_id=0)
            raise AttributeError(name)
    ndarray.__module__ = "cupy"
    kind = ndarray
    def empty(shape, dtype):
        if full:
            raise MemoryError("full")
        own.append(made(gpuops.to_device(np.full(shape, 7, dtype), "cuda")))
        return own[-1]
    streams = module("cupy.cuda", get_current_stream=lambda device=0: current, Device=Device)
    module("cupy", from_dlpack=made, cuda=streams, ndarray=ndarray, empty=empty)
    return ndarray

class Tensor_(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int), ("id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]

class Managed(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint64), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor_)]

Read = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor_))
Stream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int,
                           ctypes.POINTER(ctypes.c_void_p))
Make = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Tensor_), ctypes.POINTER(ctypes.c_void_p),
                         ctypes.c_void_p, ctypes.c_void_p)
Give = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))

def torch():
    global kind, kept
    reads, managed = [], {}
    @Read
    def read(tensor, into):
        b = tensor.device_array._buffer
        reads.append(1)
        tensor.shape_ = (ctypes.c_int64 * 1)(*b.shape)
        kind = {"f4": (2, 32), "b1": (6, 8), "c8": (5, 64)}[tensor.device_array.dtype.str[1:]]
        into[0] = Tensor_(b.ptr, 2, 0, 1, *kind, 1, ctypes.addressof(tensor.shape_), None, 0)
        return 0
    @Stream
    def of(type, device, into):
        into[0] = current.cuda_stream or None
        return 0
    @Make
    def make(prototype, into, context, complain):
        t = prototype[0]
        if full or t.ndim != 1 or t.code != 2 or t.bits != 32:
            return -1
        shape = ctypes.cast(t.shape, ctypes.POINTER(ctypes.c_int64))[:t.ndim]
        own.append(made(gpuops.to_device(np.full(shape, 7, "f4"), "cuda")))
        m = Managed()
        m.tensor.data = own[-1].device_array._buffer.ptr
        managed[ctypes.addressof(m)] = own[-1], m
        into[0] = ctypes.addressof(m)
        return 0
    @Give
    def give(given, into):
        tensor = managed[given][0]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
        into[0] = id(tensor)
        return 0
    table = (ctypes.c_void_p * 7)()
    ctypes.cast(table, ctypes.POINTER(ctypes.c_uint32))[0] = 1
    of_table = {2: make, 4: give, 5: read, 6: of}
    for place, f in of_table.items():
        table[place] = ctypes.cast(f, ctypes.c_void_p).value
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                   ctypes.c_void_p]
    class Tensor(Borrowed):
        requires_grad = False
        is_conj = is_neg = lambda tensor: False
        __dlpack_c_exchange_api__ = new(ctypes.addressof(table), b"dlpack_exchange_api", None)
    Tensor.__module__ = "torch"
    kind, kept = Tensor, (of_table, table)
    cuda = types.SimpleNamespace(current_stream=lambda device: current, device=Device)
    module("torch", from_dlpack=made, cuda=cuda)
    return Tensor, reads
"""


def test_arrays_of_cupy(run):
    run(
        LIBRARIES
        + """
ndarray = cupy()
x, y, out = ndarray(a), ndarray(a), ndarray(a)
assert gpuops.add(x, y, out=out) is out
assert np.array_equal(out.get(), 2 * a)
result = gpuops.add(x, y)
assert result is own[0] and np.array_equal(result.get(), 2 * a)
named = gpuops.add(x, y, kernel="naive")  # whatever the kernel
assert named is own[1] and np.array_equal(named.get(), 2 * a)
assert x.asked == y.asked == out.asked == []  # their attributes tell, no capsule
full.append(1)  # what the library refuses, we may have
result = gpuops.add(x, y)
assert type(result) is ndarray and result not in own and np.array_equal(result.get(), 2 * a)
# On a stream of its own: events, both ways.
current.ptr = stream()
assert _core.foreign(x) is None
waits = variable("stream_waits").value
assert gpuops.add(out, y, out=out) is out
assert np.array_equal(out.get(), 3 * a)
assert set(out.asked) == {1}
assert variable("stream_waits").value == waits + 1  # its stream waits for us
assert "the arrays are on this device" in str(gpuops.explain("add", x, y))
"""
    )


def test_arrays_of_cupy_by_its_own_functions(run):
    """What its modules offer each other in C, and how its class makes an array."""
    run(
        LIBRARIES
        + """
class PooledMemory: pass
class Base:
    _c_contiguous = True
    def __new__(cls, *values):
        return object.__new__(cls)
    def _init(self, shape, dtype, data=None, strides=None):
        if full:
            raise MemoryError("full")
        if data is None:
            self.__init__(np.full(shape, 7, dtype))
        else:
            self.device_array = at(data.of._buffer, shape, strides, dtype)
        own.append(self)
def at(buffer, shape, strides, dtype):
    where = buffer.ptr, shape, strides, np.dtype(dtype), buffer.device
    return gpuops.DeviceArray(_core.borrow(*where, buffer, False))
def alloc(size):
    if full:
        raise MemoryError("full")
    of = gpuops.to_device(np.full(size, 7, "u1"), "cuda")
    return types.SimpleNamespace(ptr=of._buffer.ptr, device_id=0, of=of)
Array, asked = cupy(), []
class ndarray(Base, Array):
    @property
    def strides(self):
        asked.append("strides")
        return self.device_array.strides
    @property
    def data(self):
        memory = PooledMemory()
        return types.SimpleNamespace(ptr=self.device_array._buffer.ptr, device_id=0, mem=memory)
ndarray.__module__ = "cupy"
Stream = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int)
handle = [1]
of = Stream(lambda device: handle[0])
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                               ctypes.c_void_p]
function = new(ctypes.cast(of, ctypes.c_void_p), b"intptr_t (int)", None)
module("cupy.cuda.memory", PooledMemory=PooledMemory, alloc=alloc)
module("cupy_backends")
module("cupy_backends.cuda.stream", __pyx_capi__={"get_stream_ptr": function})
def never(*arguments):
    raise AssertionError("this takes longer")
sys.modules["cupy.cuda"].get_current_stream = sys.modules["cupy"].empty = never
x, y = ndarray(a), ndarray(a)
result = gpuops.add(x, y)
assert result is own[0] and np.array_equal(result.get(), 2 * a) and not asked
assert gpuops.add(x, y, kernel="naive") is own[1]  # whatever the kernel
x._c_contiguous = False
assert np.array_equal(gpuops.add(x, y).get(), 2 * a) and asked
turned = ndarray(a)
turned.device_array = at(turned.device_array._buffer, (25, 4), (4, 100), "f4")
turned._c_contiguous = False
result = gpuops.add(turned, turned)  # in their order, in memory that was asked for once
assert result is own[-1] and result.device_array.strides == (4, 100)
assert np.array_equal(result.get(), 2 * a.reshape(4, 25).T)
for handle[0] in (2, 1 << 40, -1):  # of a thread, its own, none
    assert _core.foreign(x) is None
handle[0] = 0
full.append(1)
sys.modules["cupy"].from_dlpack = lambda d: d
assert np.array_equal(gpuops.add(x, y).get(), 2 * a)
"""
    )


def test_arrays_of_cupy_that_are_no_arrays_of_ours(run):
    """What attributes say that nobody can run: it is Python that says so."""
    run(
        LIBRARIES
        + """
x, y = cupy()(a), cupy()(a)
data = x.data
for name, values in {"shape": [(-1,), ("1",), [100], (1,) * 65, None],
                     "strides": [(4, 4), (), (1 << 62,), None, 4], "dtype": ["f4", None, ">f4"],
                     "data": [None, types.SimpleNamespace(ptr=0, device_id=0),
                              types.SimpleNamespace(ptr="1", device_id=0),
                              types.SimpleNamespace(ptr=a.ctypes.data, device_id=0)]}.items():
    for value in values:
        setattr(x, name, np.dtype(value) if value == ">f4" else value)
        took = _core.foreign(x)
        assert took is None or (name, value) == ("strides", None), (name, value, took)
    delattr(x, name)
assert np.array_equal(gpuops.add(x, y).get(), 2 * a)
"""
    )


def test_arrays_of_cupy_backwards(run):
    """CuPy's DLPack tells negative strides wrongly: its attributes or interface do not."""
    run(
        LIBRARIES
        + """
x = cupy()(a)
def wrong(**words):
    raise BufferError("a stride of 1152921504606846975 items")
x.__dlpack__, x.strides = wrong, (-4,)
last = x.device_array.__cuda_array_interface__["data"][0] + 99 * 4
x.__cuda_array_interface__ = {"shape": (100,), "strides": (-4,), "typestr": "<f4",
                              "data": (last, False), "version": 3, "stream": 1}
x.data = types.SimpleNamespace(ptr=last, device_id=0)
for current.ptr in (0, stream()):  # the default one, where attributes are enough
    got = gpuops.add(x, a)
    assert type(got).__name__ == "ndarray" and (got.get() == a[::-1] + a).all()
"""
    )


def test_ctrl_c_in_a_library_is_no_refusal(run):
    """Heard while CuPy makes the result, or tells its stream: ours does not replace it."""
    run(
        LIBRARIES
        + """
x = cupy()(a)
plain, stop, asked = sys.modules["cupy"].empty, [], []
def ask(which):
    asked.append(which)
    if len(asked) in stop or which in stop:
        raise KeyboardInterrupt
def empty(shape, dtype):
    ask("memory")
    return plain(shape, dtype)
def get_current_stream(device=0):
    ask("stream")
    return current
sys.modules["cupy"].empty = empty
sys.modules["cupy.cuda"].get_current_stream = get_current_stream
def stopped(*arguments):
    asked.clear()
    try:
        gpuops.add(*arguments)
    except KeyboardInterrupt:
        return True
    return False
assert not stopped(x, x) and asked.count("memory") == 1 and "stream" in asked
questions = len(asked)
for stop in (["memory"], *([k] for k in range(1, questions + 1))):
    assert stopped(x, x) and stopped(x, 1.0), (stop, asked)
stop = []
assert np.array_equal(gpuops.add(x, x).get(), 2 * a)
"""
    )


def test_arrays_of_pytorch(run):
    run(
        LIBRARIES
        + """
Tensor, reads = torch()
x, y, out = Tensor(a), Tensor(a), Tensor(a)
assert gpuops.add(x, y, out=out) is out
assert len(reads) == 3 and not x.asked and np.array_equal(out.get(), 2 * a)
result = gpuops.add(x, y)
assert result is own[0] and np.array_equal(result.get(), 2 * a)
named = gpuops.add(x, y, kernel="naive")  # a named kernel asks for no capsule
assert named is own[1] and np.array_equal(named.get(), 2 * a) and not x.asked
full.append(1)  # what the library refuses, we may have
result = gpuops.add(x, y)
assert type(result) is Tensor and result not in own and np.array_equal(result.get(), 2 * a)
d = gpuops.to_device(a, "cuda")
assert type(gpuops.add(d, x)) is Tensor
x.requires_grad = True
assert _core.foreign(x) is None
x.requires_grad = False
current.cuda_stream = stream()
waits = variable("stream_waits").value
assert gpuops.add(x, y, out=out) is out
assert x.asked == [1] and variable("stream_waits").value == waits + 1
class Sub(Tensor): pass
current.cuda_stream = 0
assert _core.foreign(x) is not None
z = Tensor(a.astype("c8"))
for bit, x in ("is_conj", z), ("is_neg", x):  # an operation that is pending
    setattr(x, bit, lambda: True)
    assert _core.foreign(x) is None
    if bit == "is_neg":  # which PyTorch's capsules forget
        error = caught(gpuops.add, x, y)
        assert type(error) is BufferError and "add: a: its negative bit" in str(error), error
    delattr(x, bit)
assert _core.foreign(Sub(a)) is None
"""
    )


def test_arrays_of_an_unknown_library_are_waited_for(run):
    run(
        LIBRARIES
        + """
x, out = Borrowed(a), Borrowed(a)
variable("stuck").value = 1
threading.Timer(0.3, lambda: setattr(variable("stuck"), "value", 0)).start()
gpuops.add(x, x, out=out)
assert variable("stuck").value == 0
assert np.array_equal(out.get(), 2 * a)
"""
    )


def test_memory_that_other_streams_know(run):
    """It is given back once the device has done all it had to do."""
    run(
        LIBRARIES
        + """
for use, drains in ((lambda d: d.__dlpack__(stream=1), 0),
                    (lambda d: d.__dlpack__(stream=stream()), 1),
                    (lambda d: d.__dlpack__(stream=-1), 1),
                    (lambda d: d.__cuda_array_interface__, 1)):
    d = gpuops.to_device(a, "cuda")
    before = variable("drains").value
    seen = use(d)
    del d, seen
    assert variable("drains").value == before + drains
assert variable("blocks").value == 1  # is kept for the next array of this size
"""
    )


def test_arrays_on_two_gpus(run):
    run(
        LIBRARIES
        + """
on = [0]
class Current:
    def __init__(self, ordinal): self.ordinal = ordinal
    def __enter__(self): on.append(self.ordinal)
    def __exit__(self, *exception): on.pop()
Tensor, _ = torch()
sys.modules["torch"].cuda.device = Current
class OnCurrent(Tensor):  # exported from the current device alone, as PyTorch's are
    def __init__(self, values, device):
        self.device_array, self.asked = gpuops.to_device(values, device), []
    def __dlpack__(self, **keywords):
        if self.__dlpack_device__()[1] != on[-1]:
            raise BufferError("Can't export tensors on a different CUDA device index.")
        return super().__dlpack__(**keywords)
OnCurrent.__module__, kind = "torch", OnCurrent
x, y = OnCurrent(a, "cuda"), OnCurrent(a, "cuda:1")
assert np.array_equal(gpuops.add(y, y).get(), 2 * a)
d, e = gpuops.to_device(a, "cuda"), gpuops.to_device(a, "cuda:1")
for first, second in ((x, y), (d, e), (x, e)):
    error = caught(gpuops.add, first, second)
    assert type(error) is TypeError, repr(error)
    assert str(error).startswith("add: its arrays live on cuda and on cuda:1"), error
assert on == [0]
"""
    )
