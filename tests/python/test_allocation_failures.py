"""Every allocation that can fail is made to fail, one after the other: the right answer or one
MemoryError with a sentence, `out` untouched, and the next call works."""

import gc
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import gpuops
from gpuops import _core

RNG = np.random.default_rng(1)


def unaligned(a):
    """The same values where no item is aligned, so that the operand is staged."""
    memory = np.zeros(a.nbytes + 1, np.uint8)
    view = np.ndarray(a.shape, a.dtype, memory, offset=1)
    view[...] = a
    return view


A = unaligned(RNG.random((40, 40)) + np.eye(40) * 40)
V = unaligned(RNG.random(40))
POINTS = unaligned(RNG.random((50, 3)))
NAMES = {  # op: (operands, keywords, shape of out)
    "add": ((A, V), {}, (40, 40)),
    "multiply_add": ((A, V, A), {}, (40, 40)),
    "fma": ((A, V, V), {}, (40, 40)),
    "transpose": ((A,), {}, (40, 40)),
    "reduce": ((A,), {"axis": 0}, (40,)),
    "matmul": ((A, A.T), {}, (40, 40)),
    "jacobi_step": ((A, V, V), {}, (40,)),
    "rdf": ((POINTS, 0.5, 10), {"types": np.arange(50) % 2}, None),
    "jacobi": ((A, V), {"maxiter": 3}, None),
}


@pytest.fixture(params=NAMES)
def case(request):
    operands, keywords, shape = NAMES[request.param]
    f = getattr(gpuops, request.param)
    return request.param, lambda **k: f(*operands, **keywords, **k, device="cpu"), shape


def answer(result):
    return getattr(result, "counts", getattr(result, "x", result))


def walk(case, forever):
    """How many allocations the call made until none of them failed."""
    op, call, shape = case
    expected = answer(call()).copy()
    for n in range(1, 200):
        out = None if shape is None else unaligned(np.full(shape, 7.0))
        keywords = {} if out is None else {"out": out}
        _core.set_fault(f"host.alloc:{n}{':forever' if forever else ''}")
        try:
            result = answer(call(**keywords))
        except MemoryError as error:
            _core.set_fault(None)
            text = str(error)
            assert re.match(rf"{'sum' if op == 'reduce' else op}: ", text), text
            assert re.search(r"for \d+ bytes, \d+ bytes are free$", text), text
            assert out is None or (out == 7.0).all(), "out was touched"
            assert (answer(call()) == expected).all()
            continue
        _core.set_fault(None)
        assert (result == expected).all()
        return n
    raise AssertionError("it never succeeds")


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
def test_no_host_memory(case, forever):
    # Unaligned operands and out are staged, so each op needs memory at least for those.
    least = {"add": 3, "multiply_add": 4, "fma": 4, "matmul": 3, "jacobi_step": 4, "rdf": 2}
    assert walk(case, forever) > least.get(case[0], 2)


def test_a_failed_call_leaks_nothing():
    """Memory of the failed calls comes back: their blocks are larger than what may be left."""
    a = unaligned(np.ones((500, 500)))
    out = unaligned(np.zeros((500, 500)))

    def fail():
        for n in (1, 2, 3):
            _core.set_fault(f"host.alloc:{n}")
            with pytest.raises(MemoryError):
                gpuops.add(a, a, out=out, device="cpu")
        _core.set_fault(None)

    fail()
    before = resident()
    for _ in range(100):
        fail()
    assert resident() - before < 50e6  # each round allocates 6 MB before it fails


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


GOOD = {
    "add": lambda out: gpuops.add(A, A, out=out),
    "transpose": lambda out: gpuops.transpose(A, out=out),
    "matmul": lambda out: gpuops.matmul(A, A, out=out),
    "jacobi_step": lambda out: gpuops.jacobi_step(A, A, A, out=out),
}
BAD = {
    "shape": lambda: gpuops.add(A, np.ones(3)),
    "dtype": lambda: gpuops.add(A, "abc"),
    "axis": lambda: gpuops.sum(A, axis=5),
    "kernel": lambda: gpuops.matmul(A, A, kernel="nonsense"),
    "tunable": lambda: gpuops.transpose(A, kernel="naive", params={"uf": 3}),
    "out": lambda: gpuops.add(A, A, out=np.empty((2, 2))),
    "diagonal": lambda: gpuops.jacobi_step(A * 0, V, V),
    "nan": lambda: gpuops.rdf(POINTS * np.nan, 0.5),
}


@pytest.mark.sampled(every=3)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_no_references_and_no_memory_are_lost(name):
    out = np.empty((40, 40))
    arrays = (A, V, POINTS, out)

    def once():
        if name in GOOD:
            GOOD[name](out)
            return
        with pytest.raises((ValueError, TypeError, np.linalg.LinAlgError)):
            BAD[name]()

    for _ in range(20):
        once()
    counts = [sys.getrefcount(a) for a in arrays]
    memory = resident()
    tracemalloc.start()
    once()
    gc.collect()  # exceptions and their frames refer to each other
    first = tracemalloc.get_traced_memory()[0]
    for _ in range(300):
        once()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - first
    tracemalloc.stop()
    assert [sys.getrefcount(a) for a in arrays] == counts
    assert grown < 30_000, f"{grown} bytes more after 300 calls"
    assert resident() - memory < 20e6


def test_threads_that_cannot_be_started():
    """One or all of them: the others work on, the caller too, and the bits stay."""
    script = """
import numpy as np, gpuops
from gpuops import _core
gpuops.set_num_threads(4)
a = np.random.default_rng(1).random((400, 400))
for spec in ("thread.start:1:forever", "thread.start:2", "thread.start:1", None):
    _core.set_fault(spec)
    result = gpuops.matmul(a, a, device="cpu")
    total = gpuops.sum(np.tile(a, 10), device="cpu")
    if spec and spec.endswith("forever"): expected = result, total
    assert (result == expected[0]).all() and total == expected[1], spec
print("same")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "same\n", done.stderr


def test_results_and_device_arrays_without_memory():
    """Their sentences too name the operation, the bytes needed and the bytes free."""
    wide = np.broadcast_to(np.float32(1), (2**25, 1))  # times itself turned: 4 PiB
    with pytest.raises(
        MemoryError, match=rf"^add: no host memory for {2**52} bytes, \d+ bytes"
    ):
        gpuops.add(wide, wide.T, device="cpu")
    for word in ("sum", "any", "prod"):
        empty = np.broadcast_to(np.float32(1), (2**25, 2**25, 0))
        with pytest.raises(MemoryError, match=rf"^{word}: no host memory for \d+ bytes, "):
            getattr(gpuops, word)(empty, axis=-1, device="cpu")
    _core.set_fault("host.alloc:1")
    with pytest.raises(MemoryError, match=r"^to_device: no host memory for 12800 bytes, "):
        gpuops.to_device(A.copy(), "cpu")
    _core.set_fault(None)
    assert (gpuops.to_device(A, "cpu").get() == A).all()
