"""An `out` that shares memory with inputs gives what it would with a copy: random pairs of
views of one block of memory, for every operation that takes `out`."""

from functools import partial

import engine
import numpy as np
import pytest

import gpuops

PLACES = engine.backends()
ROUNDS = {"cpu": 60, "cuda": 30, "sim": 4}  # random views per operation
SIDE = 12  # of the block of memory


def a_view(rng, memory, shape):
    """A random view of that shape: offsets, steps, directions, axes turned."""
    ndim = len(shape)
    turned = rng.permutation(ndim)
    index = []
    for axis in range(memory.ndim):
        if axis >= ndim:
            index.append(int(rng.integers(0, SIDE)))
            continue
        n = shape[turned[axis]]
        step = int(rng.integers(1, (SIDE - 1) // max(n - 1, 1) + 1)) if n > 1 else 1
        first = int(rng.integers(0, SIDE - (n - 1) * step))
        part = slice(first, first + (n - 1) * step + 1, step)
        index.append(part)
    view = memory[tuple(index)]
    view = view[tuple(slice(None, None, int(rng.choice([1, -1]))) for _ in range(view.ndim))]
    return view.transpose(np.argsort(turned))


def block(rng, dtype):
    """Memory that is not aligned to its items, every third time."""
    memory = np.zeros(SIDE**2 * np.dtype(dtype).itemsize + 1, np.uint8)
    offset = int(rng.integers(0, 3) == 0)
    a = np.ndarray((SIDE, SIDE), dtype, memory, offset=offset)
    a[...] = rng.integers(1, 9, (SIDE, SIDE))
    return a


def as_if_copied(memory, out, call, *inputs):
    """`call(*inputs, out=out)` writes what it writes elsewhere, and nothing else."""
    before = memory.copy()
    expected = call(*(x.copy() for x in inputs))
    got = call(*inputs, out=out)
    assert got is out
    engine.same_bits(out, np.asarray(expected, out.dtype))
    after = memory.copy()
    out[...] = 0
    touched = memory.copy()
    memory[...] = before
    out[...] = 0
    assert (touched == memory).all(), "memory outside of out was written"
    memory[...] = after


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("op", ["add", "multiply_add", "fma"])
def test_elementwise(op, device):
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS[device]):
        memory = block(rng, rng.choice(["f4", "f8"]))
        shape = tuple(int(n) for n in rng.integers(1, 7, 2))
        inputs = [a_view(rng, memory, shape) for _ in range(2 if op == "add" else 3)]
        # Now and then the very same view, which is computed in place.
        out = inputs[0] if rng.integers(0, 3) == 0 else a_view(rng, memory, shape)
        as_if_copied(memory, out, partial(getattr(gpuops, op), device=device), *inputs)


@pytest.mark.parametrize("device", PLACES)
def test_broadcast_operands(device):
    rng = np.random.default_rng(2)
    for _ in range(ROUNDS[device]):
        memory = block(rng, "i4")
        out = a_view(rng, memory, (5, 4))
        row, column = a_view(rng, memory, (4,)), a_view(rng, memory, (5, 1))
        as_if_copied(
            memory, out, lambda *a, **k: gpuops.add(*a, **k, device=device), row, column
        )


@pytest.mark.parametrize("device", PLACES)
def test_transpose(device):
    rng = np.random.default_rng(3)
    for _ in range(ROUNDS[device]):
        memory = block(rng, rng.choice(["i1", "i2", "f4", "c16"]))
        n, m = (int(n) for n in rng.integers(1, 9, 2))
        a = a_view(rng, memory, (n, m))
        out = a.T if n == m and rng.integers(0, 3) == 0 else a_view(rng, memory, (m, n))
        as_if_copied(memory, out, partial(gpuops.transpose, device=device), a)


@pytest.mark.parametrize("device", PLACES)
def test_reduce(device):
    rng = np.random.default_rng(4)
    for _ in range(ROUNDS[device]):
        memory = block(rng, "f8")
        a, out = a_view(rng, memory, (6, 5)), a_view(rng, memory, (5,))
        word = str(rng.choice(["sum", "max"]))
        as_if_copied(memory, out, partial(gpuops.reduce, op=word, axis=0, device=device), a)


@pytest.mark.parametrize("device", PLACES)
def test_matmul(device):
    rng = np.random.default_rng(5)
    for _ in range(ROUNDS[device]):
        memory = block(rng, rng.choice(["i8", "f4", "f8"]))
        m, n, k = (int(n) for n in rng.integers(1, 8, 3))
        a, b = a_view(rng, memory, (m, k)), a_view(rng, memory, (k, n))
        out = a_view(rng, memory, (m, n))
        as_if_copied(memory, out, partial(gpuops.matmul, device=device), a, b)


@pytest.mark.parametrize("device", PLACES)
def test_jacobi_step(device):
    rng = np.random.default_rng(6)
    for _ in range(ROUNDS[device]):
        memory = block(rng, "f8")
        n = int(rng.integers(1, 7))
        A = a_view(rng, memory, (n, n))
        f, x, out = (a_view(rng, memory, (n,)) for _ in range(3))
        out = x if rng.integers(0, 3) == 0 else out
        as_if_copied(memory, out, partial(gpuops.jacobi_step, device=device), A, f, x)


def test_host_memory_known_twice():
    """A device array over NumPy's memory and the array itself are one memory."""
    a = np.arange(24.0)
    x = gpuops.to_device(a, "cpu")
    view = np.from_dlpack(x)
    expected = view[:-1] + view[1:]
    gpuops.add(view[:-1], view[1:], out=view[1:], device="cpu")
    assert (x.get()[1:] == expected).all()
