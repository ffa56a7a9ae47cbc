"""test_cuda_device_arrays - calls on device arrays, on the fake driver: enqueued, in order."""

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
        pass
    ndarray.__module__ = "cupy"
    kind = ndarray
    def empty(shape, dtype):
        if full:
            raise MemoryError("full")
        array = made(gpuops.to_device(np.full(shape, 7, dtype), "cuda"))
        array.data = types.SimpleNamespace(ptr=array.device_array._buffer.ptr, device_id=0)
        own.append(array)
        return array
    streams = module("cupy.cuda", get_current_stream=lambda device=0: current, Device=Device)
    module("cupy", from_dlpack=made, cuda=streams, ndarray=ndarray, empty=empty)
    return ndarray

class Tensor_(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int), ("id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]

Read = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor_))
Stream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int,
                           ctypes.POINTER(ctypes.c_void_p))
Make = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Tensor_), ctypes.POINTER(ctypes.c_void_p),
                         ctypes.c_void_p, ctypes.c_void_p)
Give = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))

def torch():
    global kind, kept
    reads = []
    @Read
    def read(tensor, into):
        b = tensor.device_array._buffer
        reads.append(1)
        tensor.shape_ = (ctypes.c_int64 * 1)(*b.shape)
        into[0] = Tensor_(b.ptr, 2, 0, 1, 2, 32, 1, ctypes.addressof(tensor.shape_), None, 0)
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
        into[0] = len(own)
        return 0
    @Give
    def give(managed, into):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(own[managed - 1]))
        into[0] = id(own[managed - 1])
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


def test_calls_return_before_their_work_is_done(run):
    run(
        """
        a = np.arange(1000, dtype="f4")
        d, e = gpuops.to_device(a, "cuda"), gpuops.to_device(a, "cuda")
        signal.alarm(60)  # a call that waits would wait for ever
        variable("stuck").value = 1
        for _ in range(3):
            assert gpuops.add(d, e, out=e) is e
        f = gpuops.add(e, e)
        assert np.array_equal(gpuops.to_device(a, "cpu").get(), a)
        variable("stuck").value = 0
        assert np.array_equal(f.get(), 8 * a)
        with gpuops.Timer() as timer:
            variable("stuck").value = 1
            gpuops.add(d, e, out=e)
            threading.Timer(0.3, lambda: setattr(variable("stuck"), "value", 0)).start()
        assert timer.seconds > 0.25  # it waits for what it timed
        """
    )


def test_threads_and_freed_arrays_are_in_order(run):
    run(
        """
        a = np.arange(1000, dtype="f4")
        one = gpuops.to_device(np.ones(1000, "f4"), "cuda")
        x = gpuops.to_device(a, "cuda")
        def work():
            global x
            for _ in range(20):
                x = gpuops.add(x, one)  # the last x is freed while it is read
        for _ in range(5):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert np.array_equal(x.get(), a + 100)
        host = np.zeros(1000, "f4")
        gpuops.add(x, one, out=host)
        assert np.array_equal(host, a + 101)
        assert np.array_equal(gpuops.add(x, a).get(), 2 * a + 100)  # one operand of the host's
        assert np.array_equal(gpuops.transpose(x, out=x).get(), a + 100)
        del x, one
        assert variable("blocks").value == 0
        """
    )


def test_a_call_inside_a_call(run):
    """A signal's handler uses device arrays while a call on host arrays waits."""
    run(
        """
        a = np.arange(100000, dtype="f4")
        d = gpuops.to_device(a, "cuda")
        seen = []
        def handler(*_):
            variable("stuck").value = 0
            e = gpuops.add(d, d)
            seen.append(gpuops.add(e, d).get())
        signal.signal(signal.SIGALRM, handler)
        variable("stuck").value = 1
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert np.array_equal(gpuops.add(a, a, device="cuda"), 2 * a)
        assert np.array_equal(seen, [3 * a])
        """
    )


def test_a_call_inside_a_call_with_many_threads(run):
    """Threads of the outer call, which waits for the inner one, leave it slots of the ring."""
    run(
        """
        import time
        a = np.arange(40 << 20, dtype="f4")
        d = gpuops.to_device(a[:1000], "cuda")
        seen = []
        def handler(*_):
            threading.Timer(0.2, lambda: setattr(variable("stuck"), "value", 0)).start()
            time.sleep(0.4)
            seen.append(gpuops.add(a[:100], a[:100], device="cuda"))
            seen.append(gpuops.add(d, d).get())
        signal.signal(signal.SIGALRM, handler)
        gpuops.set_num_threads(32)
        variable("stuck").value = 1
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert np.array_equal(gpuops.add(a, a, device="cuda"), 2 * a)
        assert np.array_equal(seen[0], 2 * a[:100]) and np.array_equal(seen[1], 2 * a[:1000])
        """
    )


def test_failures_come_later(run):
    run(
        """
        a = np.arange(1000, dtype="f4")
        d = gpuops.to_device(a, "cuda")
        variable("work_error").value = 700
        gpuops.add(d, d, out=d)
        error = caught(d.get)
        assert type(error) is gpuops.DeviceLostError and "add_plain" in str(error), error
        assert type(caught(gpuops.add, d, d)) is gpuops.DeviceLostError
        """
    )


def test_arrays_of_cupy(run):
    run(
        LIBRARIES
        + """
ndarray = cupy()
x, y, out = ndarray(a), ndarray(a), ndarray(a)
assert _core.quick("add", None, out, None, None, None, x, y) is out
assert x.asked == [None] and np.array_equal(out.get(), 2 * a)
result = gpuops.add(x, y)
assert result is own[0] and np.array_equal(result.get(), 2 * a)
named = gpuops.add(x, y, kernel="naive")  # by Python's road, which asks for no capsule more
assert named is own[1] and np.array_equal(named.get(), 2 * a) and x.asked == [None] * 3
full.append(1)  # what the library refuses, we may have
result = gpuops.add(x, y)
assert type(result) is ndarray and result not in own and np.array_equal(result.get(), 2 * a)
# On a stream of its own: events, both ways.
current.ptr = stream()
assert _core.quick("add", None, out, None, None, None, x, y) is NotImplemented
waits = variable("stream_waits").value
assert gpuops.add(out, y, out=out) is out
assert np.array_equal(out.get(), 3 * a)
assert x.asked[-1] is None and out.asked[-1] == 1
assert variable("stream_waits").value == waits + 1  # its stream waits for us
assert "its arrays live there" in str(gpuops.explain("add", x, y))
"""
    )


def test_arrays_of_cupy_backwards(run):
    """CuPy's DLPack tells negative strides wrongly: its interface is asked."""
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
got = gpuops.add(x, a)
assert type(got).__name__ == "ndarray" and (got.get() == a[::-1] + a).all()
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
named = gpuops.add(x, y, kernel="naive")  # by Python's road, which asks for no capsule
assert named is own[1] and np.array_equal(named.get(), 2 * a) and not x.asked
full.append(1)  # what the library refuses, we may have
result = gpuops.add(x, y)
assert type(result) is Tensor and result not in own and np.array_equal(result.get(), 2 * a)
d = gpuops.to_device(a, "cuda")
assert type(gpuops.add(d, x)) is Tensor
x.requires_grad = True
assert _core.quick("add", None, out, None, None, None, x, y) is NotImplemented
x.requires_grad = False
current.cuda_stream = stream()
waits = variable("stream_waits").value
assert gpuops.add(x, y, out=out) is out
assert x.asked == [1] and variable("stream_waits").value == waits + 1
class Sub(Tensor): pass
current.cuda_stream = 0
assert _core.foreign(x) is not None
for bit in ("is_conj", "is_neg"):  # an operation that is pending
    setattr(x, bit, lambda: True)
    assert _core.foreign(x) is None
    assert _core.quick("add", None, out, None, None, None, x, y) is NotImplemented
    if bit == "is_neg":  # which PyTorch's capsules forget
        error = caught(gpuops.add, x, y)
        assert type(error) is BufferError and "add: a: its negative bit" in str(error), error
    delattr(x, bit)
assert _core.quick("add", None, out, None, None, None, Sub(a), y) is NotImplemented
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
assert variable("blocks").value == 0
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
