"""matmul: what `out` may be, the sentences for bad input, and Ctrl-C."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
from engine import attempt, layout, same_bits, taken
from test_matmul import EVERY_DEVICE, EVERY_ROW, exact, product

import gpuops

# ---- out ----


@EVERY_ROW
def test_out(device, kernel):
    a, b = exact((2, 33, 520), np.dtype("float32")), exact((520, 35), np.dtype("float32"), 1)
    want = product(a, b)
    names = ("plain", "strided", "negative", "transposed", "unaligned", "packed")
    outs = [layout(np.full(want.shape, np.nan, "float32"), name) for name in names]
    places = [(out.ctypes.data, out.strides) for out in outs]

    def call(out):
        return attempt(gpuops.matmul, a, b, out=out, device=device, kernel=kernel)

    for out, got in taken(outs, call):
        assert got is out
        assert (out.ctypes.data, out.strides) in places
        same_bits(np.ascontiguousarray(out), want)


@EVERY_DEVICE
def test_out_may_be_or_overlap_an_operand(device):
    a, b = exact((50, 50), np.dtype("int32")), exact((50, 50), np.dtype("int32"), 1)
    want = product(a, b)
    for x, y in ((a.copy(), b), (a, b.copy())):
        out = x if y is b else y
        assert gpuops.matmul(x, y, out=out, device=device) is out
        same_bits(out, want)
    memory = exact((80, 50), np.dtype("int32"))
    before = memory.copy()
    gpuops.matmul(memory[:50], b, out=memory[30:], device=device)
    same_bits(memory[30:], product(before[:50], b))
    same_bits(memory[:30], before[:30])
    square = exact((40, 40), np.dtype("int32"))
    want = product(square.T, square)
    gpuops.matmul(square.T, square, out=square, device=device)
    same_bits(square, want)


@EVERY_DEVICE
def test_out_of_another_dtype(device):
    a, b = exact((3, 4), np.dtype("int32")) % 7, exact((4, 5), np.dtype("int32")) % 5
    out = np.empty((3, 5), "float64")
    gpuops.matmul(a, b, out=out, device=device)
    assert (out == a @ b).all()
    with pytest.raises(TypeError, match="same_kind"):
        gpuops.matmul(a, b, out=np.empty((3, 5), "uint8"), device=device)


# ---- bad input ----


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ((), (3,), r"matmul: operand a has 0 dimensions.*gpuops\.multiply_add\(a, b, 0\)"),
        ((3, 3), (), r"matmul: operand b has 0 dimensions.*gpuops\.multiply_add\(a, b, 0\)"),
        ((2, 3), (4, 5), r"a with shape \(2, 3\) and b with shape \(4, 5\).* 3 .*b has 4"),
        ((3,), (4,), r"\(3,\) and b with shape \(4,\).*axis 0 of a has 3.*axis 0 of b has 4"),
        ((3,), (2, 4, 5), r"axis 0 of a has 3 elements, axis 1 of b has 4"),
        ((2, 3, 4), (5,), r"axis 2 of a has 4 elements, axis 0 of b has 5"),
        ((0, 3), (0, 3), r"axis 1 of a has 3 elements, axis 0 of b has 0"),
        ((2, 4, 3), (5, 3, 4), r"batch axes .*\(2, 4, 3\).*\(5, 3, 4\).*2 against 5"),
        ((2, 0, 3), (3, 3, 0), r"batch axes"),
    ],
)  # fmt: skip
@EVERY_DEVICE
def test_shapes_that_do_not_fit(device, a, b, sentence):
    out = np.full((2, 5), 7.0)
    with pytest.raises(ValueError, match=sentence):
        gpuops.matmul(np.ones(a), np.ones(b), device=device)
    with pytest.raises(ValueError, match=sentence):
        gpuops.matmul(np.ones(a), np.ones(b), out=out, device=device)
    assert (out == 7).all()
    same_bits(
        gpuops.matmul(np.ones((2, 3)), np.ones((3, 2)), device=device), np.full((2, 2), 3.0)
    )


@EVERY_DEVICE
def test_bad_arguments(device):
    a = np.ones((2, 2))
    with pytest.raises(ValueError, match=r"out.*\(3, 2\).*\(2, 2\)|output.*\(3, 2\).*\(2, 2\)"):
        gpuops.matmul(a, a, out=np.empty((3, 2)), device=device)
    with pytest.raises(ValueError, match="read-only"):
        gpuops.matmul(a, a, out=layout(a, "readonly"), device=device)
    for x, y in ((2, a), (a, 2.0), (np.float32(2), a)):
        with pytest.raises(
            ValueError, match=r"by a number with gpuops.multiply_add\(a, b, 0\)$"
        ):
            gpuops.matmul(x, y, device=device)
        assert (gpuops.multiply_add(x, y, 0, device=device) == 2).all()  # as it says
    with pytest.raises(TypeError, match="matmul"):
        gpuops.matmul(a.astype(object), a, device=device)
    with pytest.raises(ValueError, match="precision is 'double', expected None, 'highest'"):
        gpuops.matmul(a, a, precision="double", device=device)
    with pytest.raises(ValueError, match="there is no kernel 'fastest'"):
        gpuops.matmul(a, a, device=device, kernel="fastest")
    huge = np.broadcast_to(np.zeros((1, 1), "int8"), (2**31, 2))
    with pytest.raises((ValueError, MemoryError), match="matmul"):
        gpuops.matmul(huge, huge.T, device=device)


@EVERY_DEVICE
@pytest.mark.parametrize("precision", ["highest", "fast", "tf32", "bf16"])
def test_a_precision_gives_that_or_a_better_one(device, precision):
    """No conforming kernel gives less than the dtype's own yet, so all of them say so."""
    a, b = (np.random.default_rng(s).standard_normal((33, 40)).astype("f4") for s in (1, 2))
    for x, y in ((a, b.T), (a.astype("f8"), b.T), (a, b.T + 1j), (a.astype("i4"), b.T)):
        want = gpuops.matmul(x, y, device=device)
        same_bits(gpuops.matmul(x, y, precision=precision, device=device), want)
        e = gpuops.explain("matmul", x, y, precision=precision, device=device)
        assert e.precision == "highest"
    assert "highest, the dtype's own" in repr(e)


def test_lists_and_mixed_dtypes():
    same_bits(gpuops.matmul([[1, 2], [3, 4]], [5, 6]), np.array([17, 39]))
    assert gpuops.matmul(np.ones((2, 2), "i2"), np.ones((2, 2), "f2")).dtype == np.float32
    assert gpuops.matmul(np.ones(3, "?"), np.ones(3, "u1")) == 3


def test_interrupt():
    """Ctrl-C stops a long product, and the next one is right."""

    def stop(*_):
        raise KeyboardInterrupt

    a = np.ones((3000, 3000), "complex128")
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            gpuops.matmul(a, a, device="cpu")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    same_bits(gpuops.matmul(a[:5, :5], a[:5, :5], device="cpu"), np.full((5, 5), 5 + 0j))


def test_threads_changed_by_another_thread():
    """Scratch is sized for as many workers as there are when the call begins."""
    a = exact((300, 300), np.dtype("float32"))
    want = product(a, a)
    done = threading.Event()

    def change():
        while not done.is_set():
            for threads in (1, 8, 2, 5):
                gpuops.set_num_threads(threads)

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(60):
            same_bits(gpuops.matmul(a, a, device="cpu", kernel="threaded"), want)
    finally:
        done.set()
        other.join()


@pytest.mark.parametrize(
    ("before", "now"), [("pieces", "bf16x3_packed"), ("fragments", "ring")]
)
def test_a_kernel_that_was_renamed_says_so(before, now):
    """Wherever it can be named: the old name is not taken silently."""
    a = np.ones((8, 8), np.float32)
    said = f"(matmul|sweep): kernel '{before}' of sim is now called '{now}'"
    if gpuops.is_available("sim"):
        how = {"kernel": before, "device": "sim"}
        for call in (
            lambda: gpuops.matmul(a, a, **how),
            lambda: gpuops.explain("matmul", a, a, **how),
            lambda: gpuops.sweep("matmul", a, a, **how),
        ):
            with pytest.raises(ValueError, match=said):
                call()
        with pytest.raises(ValueError, match=f"ladder: kernel '{before}' of sim is now called"):
            gpuops.ladder("matmul", a, a, only=before, device="sim")
    with pytest.raises(ValueError, match=f"source: kernel '{before}' of cuda is now called"):
        gpuops.source("matmul", before)
    assert f"matmul_{now}" in gpuops.source("matmul", now)
