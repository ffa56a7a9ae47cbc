"""transpose: a permuted copy of anything, bit for bit, and the sentences for bad input."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys

import engine
import numpy as np
import pytest
from engine import attempt, of_turn, random, rows, same_bits, same_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.exceptions import AxisError
from numpy.lib.stride_tricks import as_strided

import gpuops
from gpuops import _core

CALLS = rows("transpose")
DEVICES = engine.backends()
BY_SIZE = ("uint8", "int16", "float32", "float64", "complex128")


def bytes_of(a) -> bytes:
    return np.ascontiguousarray(engine.host(a)).tobytes()


def check(a, axes, device, kernel):
    """One call against NumPy, as bytes: even a NaN keeps its own. True unless refused."""
    try:
        got = attempt(gpuops.transpose, a, axes, device=device, kernel=kernel)
    except pytest.skip.Exception as refusal:
        check.refusal = str(refusal)
        return False
    want = np.transpose(a, axes)
    case = f"shape {a.shape}, strides {a.strides}, {a.dtype}, axes {axes}"
    assert (got.dtype, got.shape) == (want.dtype, want.shape), case
    assert got.flags.c_contiguous, case
    same_bytes(got, want, case)
    return True


def check_all(cases, device, kernel):
    """Every (array, axes); skipped only if the kernel refused all of them."""
    ran = [check(a, axes, device, kernel) for a, axes in cases]
    if not any(ran):
        pytest.skip(check.refusal)


def noise(shape, dtype, seed=0) -> np.ndarray:
    """Random bytes: every NaN payload, every pattern."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    stored = np.random.default_rng(seed).bytes(count * dtype.itemsize)
    if dtype.kind == "b":
        return np.frombuffer(stored, "u1").reshape(shape) % 2 == 1
    return np.frombuffer(stored, dtype).reshape(shape)


# ---- bytes ----


WORDS = [*(d.name for d in engine.DTYPES), "bfloat16"]
LARGER = [((130, 72), None), ((256, 192), None), ((6, 5, 256), (1, 0, 2)), ((3, 64), None),
          ((66, 67, 4), (1, 0, 2))]  # fmt: skip


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_dtypes(device, kernel, word, everything):
    """One of the larger ones is what each kernel takes: every (kernel, dtype) has run."""
    dtype = engine.bfloat16() if word == "bfloat16" else np.dtype(word)
    shapes = [(), (3,), (64,), (5, 7), (65, 64), (64, 130), (4, 5, 6)]
    cases = [*((s, None) for s in shapes), ((6, 4, 16), (1, 0, 2))]
    turn = WORDS.index(word)
    cases += of_turn(LARGER, 2, everything, "transpose", device, kernel, turn)
    check_all([(noise(s, dtype), axes) for s, axes in cases], device, kernel)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", BY_SIZE)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_sides_around_the_tiles(device, kernel, dtype):
    sides = [1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257]
    shapes = [*zip(sides, reversed(sides), strict=True), *zip(sides, sides, strict=True)]
    shapes += [(1, 1021), (1021, 1), (2, 1021), (1021, 3), (3, 5000), (5000, 5), (0, 5), (5, 0)]
    check_all([(noise(s, dtype), None) for s in shapes], device, kernel)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("dtype", BY_SIZE)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_runs_of_several_axes(device, kernel, dtype, everything):
    """Tiles over joined axes, boxes that share an axis, lines of a few items, odd pitches."""
    shapes = [(2,) * 12, (3,) * 7, (8,) * 4, (5, 4, 3, 2, 6, 7), (3, 64, 5, 80), (144, 256)]
    cases = [(noise(s, dtype), None) for s in shapes]
    for shape in [(16, 48, 64), (9, 40, 67), (50, 41, 3), (50, 40, 6), (9, 31, 16)]:
        cases += [(noise(shape, dtype), p) for p in itertools.permutations(range(3))]
    pitched = noise((140, 150), dtype)
    cases += [(pitched[3:, k:149], None) for k in range(1, 5)]
    cases += [(pitched[::-1, 1:141], None), (pitched[:128, :128], None)]
    turn = BY_SIZE.index(dtype)
    cases = of_turn(cases, 12, everything, "transpose", device, kernel, turn)
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_every_permutation(device, kernel, dtype):
    cases = []
    for shape in [(3, 5), (2, 3, 4), (33, 1, 65), (5, 3, 2, 7), (16, 2, 32, 4)]:
        cases += [(noise(shape, dtype), p) for p in itertools.permutations(range(len(shape)))]
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("rank", range(10))
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_ranks(device, kernel, rank):
    rng = np.random.default_rng(rank)
    cases = []
    for seed in range(8):
        shape = tuple(rng.integers(1, 4 if rank > 5 else 7, rank))
        axes = tuple(int(i) for i in rng.permutation(rank))
        cases += [(noise(shape, "int32", seed), axes), (noise(shape, "int16", seed), None)]
        cases += [(noise(shape, "int64", seed), tuple(i - rank for i in axes))]
    check_all(cases, device, kernel)


def test_the_highest_rank():
    a = noise((2, 3) + (1,) * 61 + (2,), "int32")
    for device in DEVICES:
        assert check(a, None, device, None)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("layout", engine.LAYOUTS)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_layouts(device, kernel, layout):
    cases = []
    for dtype in BY_SIZE:
        for shape, axes in [((9,), None), ((40, 37), None), ((4, 16, 32), (1, 0, 2)),
                            ((3, 20, 35), (0, 2, 1))]:  # fmt: skip
            cases.append((engine.layout(random(shape, dtype), layout), axes))
    check_all(cases, device, kernel)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_many_elements(device, kernel, everything):
    """Enough for several threads and for outputs that are written past the caches."""
    cases = [
        (noise((1500, 1601), "float32"), None),
        (noise((2048, 1024), "float64"), None),
        (noise((3000, 3001), "uint8"), None),
        (noise((70, 50, 300), "int16"), (2, 1, 0)),
        (noise((600_000, 3), "float32"), None),
        (noise((3, 600_000), "float32"), None),
        (noise((100_000, 2, 3), "float32"), (0, 2, 1)),
        (noise((100, 64, 256), "float32"), (1, 0, 2)),
    ]
    cases = of_turn(cases, 6, everything, "transpose", device, kernel)
    check_all(cases, device, kernel)


def test_blocks_of_long_arrays():
    """So many elements that they are written past the caches, in lines of three to thirty."""
    a = noise((1_000_003, 7, 3), "uint8")
    for axes in ((0, 2, 1), (0, 1, 2), (1, 0, 2)):
        assert bytes_of(gpuops.transpose(a, axes)) == bytes_of(a.transpose(axes))
    b = noise((31, 61, 2, 5, 30), "float64")[:, ::-1, :, ::2]
    for axes in ((2, 0, 4, 1, 3), (4, 3, 0, 1, 2), (1, 3, 0, 2, 4)):
        assert bytes_of(gpuops.transpose(b, axes)) == bytes_of(b.transpose(axes))


@pytest.mark.parametrize("dtype", BY_SIZE)
def test_levels_and_threads(dtype):
    a = noise((7, 203, 261), dtype)
    for level in _core.cpu_levels():
        for threads in (1, 2):
            _core.set_cpu_level(level)
            gpuops.set_num_threads(threads)
            assert check(a, (2, 0, 1), "cpu", None)
            assert check(a[:, 1:, ::2], None, "cpu", None)
            for n, m in ((5, 5), (8, 8), (6, 128), (127, 8), (129, 7), (2, 3), (33, 16)):
                small = a[0, :n, :m].copy()  # one tile, around its limits
                for b in (small, small[::-1], small[:, ::-1], a[0, :n, :m], a[:3, :n, 0]):
                    assert check(b, None, "cpu", None)


# Every input ends where the next page may not be read.
AT_THE_END = """
import ctypes, itertools, mmap
import numpy as np
import gpuops
from gpuops import _core
pages = mmap.mmap(-1, 33 * mmap.PAGESIZE)
end = 32 * mmap.PAGESIZE
address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + end), mmap.PAGESIZE, 0) == 0
memory = np.frombuffer(pages, "u1", end)
memory[:] = np.random.default_rng(1).integers(0, 256, end)
calls = itertools.product(_core.cpu_levels(), ("blocked", "simd", "streaming", "threaded"))
for level, kernel in calls:
    _core.set_cpu_level(level)
    for dtype, n in itertools.product(("u1", "u2", "u4", "u8", "c16"), (1, 15, 17, 33, 300)):
        for k in range(1, 20):
            for rows in (k, k + 2):  # without and with a gap
                items = (n - 1) * rows + k
                size = np.dtype(dtype).itemsize
                last = memory[end - items * size:].view(dtype)
                a = np.lib.stride_tricks.as_strided(last, (n, k), (rows * size, size))
                for b in (a, a[::-1], a[:, ::-1], a.T):
                    got = gpuops.transpose(b, kernel=kernel, device="cpu")
                    assert got.tobytes() == b.T.tobytes(), (level, kernel, dtype, n, k, rows)
print("all")
"""


def test_few_columns_at_the_end_of_memory():
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all\n"


@functools.cache
def large() -> tuple[np.ndarray, np.ndarray]:
    """An array of more than 2^31 items, and its transpose by NumPy."""
    a = noise((46349, 46351), "uint8")
    return a, np.ascontiguousarray(a.T)


@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_more_than_31_bits_of_elements(device, kernel):
    if device == "cpu" or gpuops.devices(device)[0].memory < 24 << 30:
        pytest.skip("needs a device of its own with 24 GiB")
    a, expected = large()
    assert np.array_equal(attempt(gpuops.transpose, a, device=device, kernel=kernel), expected)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_views(data):
    shape = data.draw(st.lists(st.integers(0, 6), max_size=5).map(tuple))
    dtype = data.draw(st.sampled_from(BY_SIZE))
    steps = [data.draw(st.sampled_from([-2, -1, 1, 3])) for _ in shape]
    stored = noise([n * abs(s) for n, s in zip(shape, steps, strict=True)], dtype)
    view = stored[tuple(slice(None, None, s) for s in steps)]
    view = view.transpose(data.draw(st.permutations(range(len(shape)))))
    axes = data.draw(st.none() | st.permutations(range(len(shape))).map(tuple))
    assert check(view, axes, data.draw(st.sampled_from(DEVICES)), None)


# ---- meaning ----


@pytest.mark.parametrize("dtype", ["M8[ns]", "m8[D]", "S8", "U1", "V2", "i2,i2", ">f8", "V16",
                                   [("x", "f4"), ("y", "i4")]], ids=str)  # fmt: skip
def test_plain_bytes_of_any_dtype(dtype):
    a = np.zeros((3, 5), dtype)
    a.view(np.uint8)[...] = np.arange(a.nbytes, dtype="u1").reshape(3, -1) % 100
    got = gpuops.transpose(a)
    assert got.dtype == a.dtype
    assert bytes_of(got) == bytes_of(a.T)
    out = np.zeros((5, 3), dtype)
    assert gpuops.transpose(a, out=out) is out
    assert bytes_of(out) == bytes_of(a.T)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "int4", "uint4"])
def test_other_dtypes_of_ml_dtypes_are_plain_bytes(name, device):
    dtype = getattr(pytest.importorskip("ml_dtypes"), name)  # the first has the kind "f"
    a = np.arange(6).reshape(2, 3).astype(dtype)
    got = gpuops.transpose(a, device=device)
    assert got.dtype == a.dtype
    assert got.tolist() == a.T.tolist()
    assert "transpose" in str(gpuops.explain("transpose", a, device=device))


def test_the_result_is_a_copy():
    a = np.arange(4.0)
    got = gpuops.transpose(a)
    got[0] = 9
    assert a[0] == 0
    assert gpuops.transpose([[1, 2], [3, 4]]).tolist() == [[1, 3], [2, 4]]
    assert gpuops.transpose(np.float32(2)).shape == ()


@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_device_arrays(device, kernel):
    a = random((48, 80), "float32")
    got = attempt(gpuops.transpose, gpuops.to_device(a, device), kernel=kernel)
    assert isinstance(got, gpuops.DeviceArray)
    same_bits(got, a.T)


@pytest.mark.parametrize("name", ["plain", "strided", "negative", "transposed", "unaligned",
                                  "packed"])  # fmt: skip
@pytest.mark.parametrize(("device", "kernel"), CALLS)
def test_out(device, kernel, name):
    a = random((37, 70), "float32")
    out = engine.layout(np.full((70, 37), np.nan, "float32"), name)
    pointer, strides = out.ctypes.data, out.strides
    got = attempt(gpuops.transpose, a, out=out, device=device, kernel=kernel)
    assert got is out
    assert (out.ctypes.data, out.strides) == (pointer, strides)
    same_bits(np.ascontiguousarray(out), a.T)


@pytest.mark.parametrize("device", DEVICES)
def test_out_may_overlap_the_input(device):
    a = random((40, 40), "float32")
    for take in (slice(None), slice(1, None), slice(None, -1)):
        b = a.copy()
        side = b[take][:, take]
        want = side.T.copy()
        gpuops.transpose(side, out=side, device=device)
        same_bits(np.ascontiguousarray(side), want)


# ---- bad input ----


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("axes", "error", "message"), [
    ((0,), ValueError, "axes don't match array: expected 2 of them for an array of 2 "
     "dimensions, got 1"),
    ((), ValueError, "axes don't match array: expected 2 of them .* got 0"),
    ((0, 1, 2), ValueError, "axes don't match array: expected 2 of them .* got 3"),
    ((0, 0), ValueError, "axis 0 is given twice"),
    ((1, -1), ValueError, "axis -1 is given twice"),
    ((0, 2), AxisError, "axis 2 is out of bounds for array of dimension 2"),
    ((-3, 0), AxisError, "axis -3 is out of bounds for array of dimension 2"),
    ((0, 1 << 80), AxisError, "axes 1208925819614629174706176 is out of bounds"),
    ((0, 1.0), TypeError, r"axes is an integer or a tuple of integers, not \(0, 1.0\)"),
    ("01", TypeError, "axes is an integer or a tuple of integers, not '01'"),
    ((True, False), TypeError, r"axes is an integer or a tuple .* not \(True, False\)"),
], ids=str)  # fmt: skip
def test_bad_axes(device, axes, error, message):
    out = np.full((3, 2), 7.0)
    with pytest.raises(error, match=f"^transpose: {message}"):
        gpuops.transpose(np.ones((2, 3)), axes, out=out, device=device)
    assert (out == 7).all()


def test_loose_axes_teach():
    with pytest.raises(TypeError, match=r"transpose\(a, \(0, 1\)\), not transpose\(a, 0, 1\)"):
        gpuops.transpose(np.ones((2, 3)), 0, 1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", [
    np.array([object()]), np.zeros(2, "O,O"), np.ma.zeros(2), None, "text",
], ids=lambda x: type(x).__name__ + str(getattr(x, "dtype", "")))  # fmt: skip
def test_bad_dtypes(device, bad):
    with pytest.raises(TypeError, match=r"^transpose: a "):
        gpuops.transpose(bad, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_bad_out(device):
    a = np.ones((3, 4), "float32")

    def refused(out, error, match):
        before = np.array(out, copy=True) if isinstance(out, np.ndarray) else None
        with pytest.raises(error, match=f"^transpose: {match}"):
            gpuops.transpose(a, out=out, device=device)
        if before is not None:
            assert np.array_equal(out, before)

    readonly = np.zeros((4, 3), "float32")
    readonly.flags.writeable = False
    refused(np.zeros((3, 4), "float32"), ValueError, ".*shape")
    refused(np.zeros((4, 3), "int32"), TypeError, ".*cannot be cast")
    refused(readonly, ValueError, "output array is read-only")
    refused(as_strided(np.zeros(3, "float32"), (4, 3), (0, 4)), ValueError, ".*overlap")
    refused([1, 2], TypeError, "return arrays must be of ArrayType")


def test_yardsticks_and_unknown_kernels_give_no_answer():
    for device in DEVICES:
        with pytest.raises(ValueError, match=r"^transpose: there is no kernel 'fastest' on"):
            gpuops.transpose(np.ones((2, 3)), device=device, kernel="fastest")
        for row in engine.ladder("transpose", device):
            if row["role"] == "yardstick":
                with pytest.raises(gpuops.KernelRefusedError, match="is a yardstick"):
                    gpuops.transpose(np.ones((2, 3)), device=device, kernel=row["name"])


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize(("made", "cut"), [
    ((1700, 3), np.s_[:, 1:]), ((1701, 4), np.s_[:, :3]), ((5, 300, 6), np.s_[..., ::3]),
    ((37, 261), np.s_[:, ::2]), ((15, 600), np.s_[:, 1::2]), ((2000, 67), np.s_[::2, 1::2]),
], ids=str)  # fmt: skip
def test_rows_with_gaps(dtype, made, cut):
    a = np.arange(np.prod(made)).astype(dtype).reshape(made)[cut]
    memory = np.full(3 * a.size, 77).astype(dtype)
    before, out, behind = np.split(memory, 3)
    gpuops.transpose(a, device="cpu", out=out.reshape(a.T.shape))
    assert out.tobytes() == a.T.tobytes()
    assert (np.concatenate([before, behind]) == 77).all()
