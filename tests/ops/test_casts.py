"""Operands of another dtype or byte order give what they give when they are cast before.

The core casts them as it reads them, piece by piece: no copy of the whole is made.
"""

import subprocess
import sys
import textwrap

import engine
import numpy as np
import pytest

import gpuops
from gpuops import _core

DTYPES = "?bhilBHILefdFD"
NUMBERS = [0, 1, -1, 2, 127, 128, 255, -129, 32767, 65504, 65519, 65520, 65535, 2**24 + 1,
           2**31 - 1, -(2**31), 2**53 + 1, -(2**62) - 1, 2**63 - 1]  # fmt: skip
SPECIAL = [0.0, -0.0, 1.5, 2.0**-14, 2.0**-24, 2.0**-25, 3 * 2.0**-26, 2.0**-126, 2.0**-140,
           2.0**-149, 2.0**-150, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-30, 65519.99, 65520.0,
           1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-50, 3.4e38, 3.5e38, 1e300, np.inf, -np.inf,
           np.nan]  # fmt: skip


def sample(dtype, n=600):
    """Values of every size that the dtype has, none twice in a row."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(n)
    with np.errstate(all="ignore"):
        if dtype.kind in "fc":
            x = np.resize(SPECIAL, n) * rng.choice([1, -1, 1.25], n)
            if dtype.kind == "f":
                return x.astype(dtype)
            parts = np.stack([x, rng.permutation(x)], -1).astype(
                "f" if dtype.char == "F" else "d"
            )
            return parts.view(dtype)[:, 0]
        if dtype.kind == "b":
            return rng.integers(0, 2, n).astype(bool)
        return np.resize(np.array(NUMBERS, object) % 2**64, n).astype("u8").astype(dtype)


def same(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert np.array_equal(found, expected, equal_nan=expected.dtype.kind in "fc")
    if expected.dtype.kind in "fc":
        assert np.array_equal(np.signbit(found.real), np.signbit(expected.real))


@pytest.mark.parametrize("source", DTYPES)
def test_casts_are_numpys(source):
    taken = 0
    for target in DTYPES:
        if not _core.casts(np.dtype(source), np.dtype(target)):
            continue
        taken += 1
        for order in "=><":
            x = sample(source).astype(np.dtype(source).newbyteorder(order))
            for view in (x, x[::3], x[1::-1], x.reshape(20, 30).T):
                with np.errstate(all="ignore"):
                    expected = view.astype(target)
                for to in "=>":
                    made = np.empty(view.shape, np.dtype(target).newbyteorder(to))
                    _core.copy(made, view)
                    same(made.astype(target), expected)
                    apart = np.zeros((*view.shape, 3), made.dtype)[..., 1]
                    _core.copy(apart, view)
                    same(apart.astype(target), expected)
    assert taken >= (2 if source in "FD" else 3)


def test_casts_of_bfloat16_are_those_of_ml_dtypes():
    bfloat16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    for dtype in DTYPES[1:12]:
        x = sample(dtype)
        with np.errstate(all="ignore"):
            expected = x.astype(bfloat16)
        made = np.empty(x.shape, bfloat16)
        if not _core.casts(x.dtype, bfloat16):
            continue
        _core.copy(made, x)
        assert np.array_equal(made.astype("f"), expected.astype("f"), equal_nan=True), dtype
        if dtype in "fd":
            back = np.empty(x.shape, dtype)
            _core.copy(back, expected)
            assert np.array_equal(back, expected.astype(dtype), equal_nan=True)


def test_a_copy_not_known_is_refused():
    with pytest.raises(TypeError, match="complex128 is not cast to float64"):
        _core.copy(np.zeros(3), np.zeros(3, "D"))
    with pytest.raises(TypeError, match="float64 is not cast to int64"):
        gpuops._core.run("add", ((np.zeros(3), "l"), np.zeros(3, "l")), None, None, None, None,
                         None)  # fmt: skip


# ---- reductions ----

SHAPES = [((5000,), None), ((7, 3001), 1), ((3001, 7), 0), ((40, 3, 50), (0, 2)), ((0, 3), 0),
          ((600, 2), 1), ((2, 3, 4, 5), (1, 3)), ((300, 70), 0), ((4, 9000), None)]  # fmt: skip


def values_for(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    x = rng.standard_normal(shape) * 50
    if dtype.kind == "c":
        return (x + 1j * rng.standard_normal(shape)).astype(dtype)
    return np.abs(x).astype(dtype) if dtype.kind == "u" else x.astype(dtype)


def layouts(x):
    yield x
    yield np.asfortranarray(x)
    yield np.repeat(x, 2, -1)[..., ::2]
    yield x[::-1]


def places():
    yield from (("cpu", row["name"]) for row in engine.ladder("reduce", "cpu"))
    yield from ((device, None) for device in engine.backends())


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    "pair", ["fd", "ed", "ef", "ld", "id", "Hf", "FD", "fD", "bF", "?d", "Bl"]
)
def test_reduce_reads_as(pair):
    source, target = pair
    for device, kernel in places():
        how = {"device": device, "kernel": kernel}
        for k, (shape, axis) in enumerate(SHAPES):
            x = values_for(shape, source, k)
            for word in ("sum", "prod", "mean", "min", "max"):
                if device == "sim" and (k or word in ("min", "prod")):
                    continue
                if (0 in shape and word not in ("sum", "prod")) or (word, target) == (
                    "mean",
                    "l",
                ):
                    continue  # refused
                for view in layouts(x):
                    found = gpuops.reduce(view, word, axis, dtype=target, **how)
                    before = gpuops.reduce(view.astype(target), word, axis, **how)
                    assert np.asarray(found).tobytes() == np.asarray(
                        before.astype(found.dtype)).tobytes(), (word, shape, how)  # fmt: skip


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", ["f", "d", "e", "i", "H", "F", "D", "l"])
def test_reduce_of_swapped_bytes(dtype):
    for device, kernel in places():
        how = {"device": device, "kernel": kernel}
        for k, (shape, axis) in enumerate(SHAPES):
            if 0 in shape or (device == "sim" and k > 1):
                continue
            x = values_for(shape, dtype, k)
            words = ["sum", "mean", "min", "max", "any", "argmax"]
            for word in words[:-1] if isinstance(axis, tuple) else words:
                swapped_bytes = x.astype(x.dtype.newbyteorder(">"))
                for view, swapped in zip(layouts(x), layouts(swapped_bytes), strict=True):
                    found = gpuops.reduce(swapped, word, axis, **how)
                    before = gpuops.reduce(view, word, axis, **how)
                    assert found.dtype == before.dtype
                    assert found.dtype.isnative
                    assert np.asarray(found).tobytes() == np.asarray(before).tobytes()


def test_reduce_with_mask_initial_and_out():
    x = values_for((30, 4000), "f", 3)
    mask = x > 0
    wide = x.astype("d")
    for device in engine.backends():
        for axis in (0, 1):
            out = np.zeros(x.shape[1 - axis], ">f4")
            found = gpuops.sum(x, axis, "d", where=mask, initial=2.5, device=device)
            before = gpuops.sum(wide, axis, where=mask, initial=2.5, device=device)
            assert found.tobytes() == before.tobytes()
            given = gpuops.sum(x, axis, "d", out, where=mask, initial=2.5, device=device)
            assert given is out
            assert np.array_equal(out, before.astype("f"))
    out = np.zeros((), "i")
    assert gpuops.argmax(x.astype(">f4"), out=out) is out
    assert out == x.argmax()


# ---- elementwise, matmul, transpose ----


def test_elementwise_in_blocks():
    n = (1 << 20) + 3
    a, b = values_for(n, "f", 1), values_for(n, "d", 2)
    assert gpuops.add(a, b).tobytes() == (a + b).tobytes()
    assert gpuops.add(a, b, kernel="naive").tobytes() == (a + b).tobytes()
    x, y = a.astype(">f4"), b[::-1].astype(">f4")
    assert gpuops.add(x, y).tobytes() == (a + b[::-1].astype("f")).tobytes()
    assert gpuops.multiply_add(x, 3, y[:1]).tobytes() == (a * 3 + y[0]).astype("f").tobytes()
    out = np.zeros(n, ">f4")
    assert gpuops.add(a, b, out=out) is out
    assert np.array_equal(out, (a + b).astype("f"))
    tall = values_for((1000, 3, 700), "h", 4)
    row = values_for((3, 1), "d", 5)
    found = gpuops.add(tall.transpose(2, 1, 0), row)
    assert np.array_equal(found, tall.transpose(2, 1, 0) + row)
    assert found.strides == (tall.transpose(2, 1, 0) + row).strides
    made = np.zeros((700, 3, 1000), "d")
    gpuops.transpose(tall, out=made)
    assert np.array_equal(made, tall.T)


@pytest.mark.parametrize("n", [100, 1 << 20])
def test_outputs_over_their_inputs(n):
    memory = np.arange(n, dtype="d")
    expected = (memory + 1).astype("f")
    out = memory.view("f")[:n]
    gpuops.add(memory, 1.0, out=out)
    assert np.array_equal(out, expected)
    memory = np.arange(n, dtype="d")
    swapped = memory.view(">f8")
    expected = memory + swapped
    gpuops.add(memory, swapped, out=memory)
    assert np.array_equal(memory, expected)


@pytest.mark.parametrize("device", engine.backends())
def test_matmul_of_several_dtypes(device):
    a, b = values_for((20, 30), "f", 1), values_for((30, 10), "d", 2)
    before = gpuops.matmul(a.astype("d"), b, device=device)
    assert gpuops.matmul(a, b, device=device).tobytes() == before.tobytes()
    assert gpuops.matmul(a, b.astype(">f8"), device=device).tobytes() == before.tobytes()
    out = np.zeros((3, 20, 10), ">f4")
    gpuops.matmul(a, b, out=out, device=device)
    assert np.array_equal(out[2], before.astype("f"))


# ---- memory ----

LIMITED = """
    import resource, sys
    import numpy as np, gpuops
    path, call = sys.argv[1:]
    x = np.memmap(path, "f4", "r", shape=(1 << 24, 4))  # 256 MiB, of zeros
    small = np.ones(1 << 22, "f4")
    gpuops.sum(small, dtype="f8"), gpuops.add(small, small.astype("f8"))  # threads, buffers
    out = np.zeros(1 << 24, "f8") if "out" in call else None
    data = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmData"))
    most = (data + (48 << 10)) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        x.astype("f8")
    except MemoryError:
        print(float(eval(call)))
"""


@pytest.mark.sampled(every=2)
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA bounds no other system's")
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("gpuops.sum(x, dtype='f8')", 3.0),
        ("gpuops.sum(x.view('>f4'))", (0x803F + 0x40) * 2.0**-149),
        ("gpuops.sum(x, 0, 'f8')[1]", 2.0),
        ("gpuops.mean(x.view('i4'), dtype='f8')", (0x3F800000 + 0x40000000) / 2**26),
        ("gpuops.reduce(x, 'max', 0, 'f8')[0]", 1.0),
        ("gpuops.add(x[:, 0], 1.5, out=out)[20]", 2.5),
        ("gpuops.add(x[:, 0].view('>f4'), x[:, 1], out=out)[9]", 2.0),
    ],
)
def test_no_copy_of_the_whole(tmp_path, call, expected):
    path = tmp_path / "values"
    with open(path, "wb") as file:
        file.truncate(1 << 28)
    x = np.memmap(path, "f4", "r+", shape=(1 << 24, 4))
    x[20, 0], x[9, 1] = 1, 2
    x.flush()
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(LIMITED), path, call],
                           check=True, capture_output=True, text=True)  # fmt: skip
    assert float(found.stdout) == expected


LARGER_THAN_SIM = """
import numpy as np, gpuops
rng = np.random.default_rng(1)
a = rng.integers(0, 100, (700, 700))
where = np.broadcast_to(rng.random((700, 1)) < 0.5, (700, 700))
for dtype in (">f4", ">i4", ">i8", ">f8"):
    want = gpuops.sum(a.astype(dtype), where=where, device="cpu")
    assert gpuops.sum(a.astype(dtype), where=where, device="sim") == want, dtype
"""


@pytest.mark.skipif("sim" not in engine.backends(), reason="needs sim")
def test_a_mask_of_a_call_that_is_larger_than_the_device(monkeypatch):
    """It is cut and copied by its own dtype, however the elements lie."""
    monkeypatch.setenv("GPUOPS_SIM_MEMORY", "600000")
    done = subprocess.run(
        [sys.executable, "-c", LARGER_THAN_SIM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
