"""test_cuda_panels - long calls in panels, on the fake driver: results, memory and failures."""

import pytest
import test_cuda_runtime

library = test_cuda_runtime.library
run = test_cuda_runtime.run

MIB = """
MIB = 1 << 20
rng = np.random.default_rng(1)
def long(*shape, dtype="f8"):
    return rng.integers(0, 1000, shape).astype(dtype)
def panels():
    return variable("launches").value
def transposed(a, axes=None, cut=True, look=True, **keywords):
    before = panels()
    result = gpuops.transpose(a, axes, device="cuda", **keywords)
    assert not look or np.array_equal(result, np.transpose(a, axes))
    assert (panels() - before > 1) == cut, panels() - before
    assert variable("blocks").value == 0
    return result
"""


@pytest.mark.sampled(later=True)
def test_layouts(run):
    run(
        MIB
        + """
a = long(2000, 2501)
result = transposed(a)
assert result.flags.c_contiguous
for view in (a.T, a[:, ::-1], np.broadcast_to(a[:1], a.shape)):
    transposed(view)
cube = long(160, 200, 161)
for axes in ((2, 1, 0), (1, 0, 2), (0, 2, 1), (0, 1, 2)):
    transposed(cube, axes)
transposed(long(2**21, 3))
transposed(long(3, 2**21))
transposed(long(9 * MIB // 2 + 3))
transposed(long(5001, 7001, dtype="i1"))
memory = np.zeros(a.nbytes + 1, np.uint8)
unaligned = np.ndarray(a.shape, a.dtype, memory, offset=1)
unaligned[...] = a
transposed(unaligned)
out = np.zeros((2501, 4000))[:, ::2]
assert transposed(a, out=out) is out
out = np.zeros((2501, 2000), order="F")
transposed(a, out=out)
transposed(long(1000, 1000), cut=False)
deep = long(2**11, *(2,) * 10)
transposed(deep, (10, *range(1, 10), 0), cut=False)
"""
    )


@pytest.mark.sampled(later=True)
def test_elementwise(run):
    run(
        MIB
        + """
a, b = long(3000, 3001, dtype="f4"), long(3000, 3001, dtype="f4")
for x, y in ((a, b), (a.T, b.T), (a, b[:1]), (a, b[:, :1]), (a, b[0]), (a[:, :1], b[:1]),
             (a, np.float32(3)), (a[:, ::-1], b[::-1])):
    x, y = np.asarray(x), np.asarray(y)
    before = panels()
    assert np.array_equal(gpuops.add(x, y, device="cuda"), x + y)
    assert panels() - before > 1
# Memory that is read and written: not in panels, whose first results would be read as inputs.
square = long(2100, 2100, dtype="f8")
expected = square.T.copy()
before = panels()
gpuops.transpose(square, device="cuda", out=square)
assert panels() - before == 1 and np.array_equal(square, expected)
expected = a + a
gpuops.add(a, a, device="cuda", out=a)
assert np.array_equal(a, expected)
"""
    )


@pytest.mark.sampled(later=True)
def test_the_device_holds_a_part(run):
    run(
        MIB
        + """
a = long(5000, 5000)
transposed(a)
assert variable("peak", ctypes.c_size_t).value < 1.1 * a.nbytes
variable("capacity", ctypes.c_size_t).value = 50  # less than scratch memory takes
error = caught(gpuops.transpose, a, device="cuda")
assert type(error) is gpuops.DeviceMemoryError and str(error).startswith("transpose: cuda:0")
assert str(error).endswith("the smallest part that the call can be cut into"), error
variable("capacity", ctypes.c_size_t).value = 1 << 40
transposed(a)
"""
    )


def test_what_the_device_cannot_hold(run):
    """Halves of halves, each a call of its own, which goes in panels if it is long enough."""
    run(
        MIB
        + """
capacity = variable("capacity", ctypes.c_size_t)
deep = long(2**11, *(2,) * 10)  # no panels: its runs are short
axes = (10, *range(1, 10), 0)
for part in (2, 3, 10):
    capacity.value = 2 * deep.nbytes // part
    transposed(deep, axes)
a, b = long(2000, 2501, dtype="f4"), long(2501, dtype="f4")
capacity.value = 100000
for x, y in ((a, b), (a.T, b[:, None]), (a[::-1], a[:1])):
    assert np.array_equal(gpuops.add(x, y, device="cuda"), x + y)
assert variable("peak", ctypes.c_size_t).value < 2 * deep.nbytes + 1000
assert variable("blocks").value == 0
# An output that a later part would read has to be written elsewhere first, as a whole.
square = long(2100, 2100)
before = square.copy()
error = caught(gpuops.transpose, square, device="cuda", out=square)
assert type(error) is gpuops.DeviceMemoryError and np.array_equal(square, before)
total = a + a
gpuops.add(a, a, device="cuda", out=a)
assert np.array_equal(a, total)
error = caught(gpuops.transpose, square, device="cuda", kernel="naive")
assert type(error) is gpuops.DeviceMemoryError
"""
    )


@pytest.mark.sampled
def test_every_failure(run, everything):
    """Whatever fails, and whenever: one error, no memory lost, and the next call works."""
    run(
        f"TIMES = {(1, 2, 3, 7, 12, 20) if everything else (1, 3, 7)}"
        + MIB
        + """
a = long(2000, 2501)
transposed(a)
for site in ("alloc", "upload", "download", "event", "launch"):
    met = 0
    for n in TIMES:
        often = ":forever" if site == "alloc" else ""  # once: it would go in parts
        _core.set_fault(f"cuda.{site}:{n}{often}")
        try:
            transposed(a)
        except (gpuops.Error, MemoryError) as error:
            assert "cuda" in str(error) or "naive" in str(error), error
            met += 1
        _core.set_fault(None)
        assert variable("blocks").value == 0, site
    assert met >= 2 or site == "launch", (site, met)
for _ in range(30):  # slots that were lost would be missing by now
    transposed(a, look=False)
transposed(a)
"""
    )


def test_control_c(run):
    run(
        MIB
        + """
signal.signal(signal.SIGINT, signal.default_int_handler)
a = long(2000, 2501)
transposed(a)
variable("stuck").value = 1
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    gpuops.transpose(a, device="cuda")
except KeyboardInterrupt as error:
    print(error.__notes__)
variable("stuck").value = 0
assert variable("blocks").value == 0
transposed(a)
"""
    )


@pytest.mark.parametrize("threads", [1, 2, 40])
def test_threads(run, threads):
    run(
        MIB
        + f"""
gpuops.set_num_threads({threads})
a = long(2000, 2501)
failed = []
def work():
    for _ in range(2):
        if not np.array_equal(gpuops.transpose(a, device="cuda"), a.T):
            failed.append(1)
team = [threading.Thread(target=work) for _ in range(3)]
for t in team: t.start()
for t in team: t.join()
assert not failed and variable("blocks").value == 0
"""
    )


def test_a_signals_handler_has_streams_of_its_own(run):
    """While it waits for a device array the panels' kernels go where they went before."""
    run(
        MIB
        + """
gpuops.set_num_threads(4)
a = long(6000, 3001, dtype="f4")
held = long(2**21, dtype="f8")
d = gpuops.to_device(held, "cuda")
done = []
def handler(*_):
    before = panels()
    for _ in range(40):
        assert np.array_equal(d.get(), held)
        if panels() > before + 1: break
    done.append(panels() - before)
signal.signal(signal.SIGALRM, handler)
for _ in range(6):
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    assert np.array_equal(gpuops.add(a, a, device="cuda"), a + a)
assert max(done) > 1, done  # else this shows nothing
assert variable("on_default").value == 0
"""
    )


@pytest.mark.sampled(later=True)
def test_two_devices_share_threads_and_slots(run):
    run(
        MIB
        + """
gpuops.set_num_threads(9)
a, b = long(16000, 8001, dtype="f4"), long(4000, 8001, dtype="f4")
first = threading.Thread(target=gpuops.add, args=(a, a), kwargs={"device": "cuda"})
first.start()
while variable("copies").value < 50: pass
result = gpuops.add(b, b, device="cuda:1")
assert first.is_alive()  # else this shows nothing
first.join()
assert np.array_equal(result, b + b)
copiers = (ctypes.c_int * 2).in_dll(fake, "fake_copiers")
assert copiers[1] >= 4, list(copiers)
assert variable("pinned").value <= 56 and variable("blocks").value == 0
"""
    )


@pytest.mark.sampled(later=True)
@pytest.mark.parametrize("threads", [1, 4])
def test_a_handler_that_forks(run, threads):
    """The child is told; it neither waits for threads that it has not, nor gives a result."""
    run(
        MIB
        + f"""
import warnings
warnings.simplefilter("ignore")
gpuops.set_num_threads({threads})
a = long(4000, 3001, dtype="f4")
children = []
def handler(*_):
    children.append(os.fork())
    if children[-1] == 0: signal.alarm(20)
signal.signal(signal.SIGALRM, handler)
"""
        + """
gpuops.add(a, a, device="cuda")
signal.setitimer(signal.ITIMER_REAL, 0.03)
error = None
try:
    result = gpuops.add(a, a, device="cuda")
except gpuops.Error as raised:
    error = raised
if children[-1] == 0:
    good = "forked" in str(error) and np.array_equal(gpuops.add(a, a, device="cpu"), a + a)
    os._exit(0 if good else 1)
assert error is None and np.array_equal(result, a + a)
assert os.waitstatus_to_exitcode(os.waitpid(children[-1], 0)[1]) == 0
"""
    )
