"""The catalogue of bad input over all operations: the same exception and sentence on every
device, `out` untouched, and the next call works. Odd values for every argument that is no array
give a sentence of ours or the caller's own exception, never one of Python's or NumPy's that
names nothing."""

import decimal
import fractions
import inspect
import re

import engine
import numpy as np
import pytest

import gpuops

PLACES = engine.backends()
A = np.arange(12, dtype=np.float32).reshape(3, 4)
SQUARE = np.eye(4, dtype=np.float32) * 3
V = np.ones(4, np.float32)
POINTS = np.random.default_rng(1).random((20, 3))

# A good call of each operation; the first operand is replaced by bad ones below.
GOOD = {
    "add": (A, A),
    "multiply_add": (A, A, A),
    "fma": (A, A, A),
    "transpose": (A,),
    "reduce": (A,),
    **{name: (A,) for name in engine.REDUCTIONS},
    "matmul": (A, A.T),
    "jacobi_step": (SQUARE, V, V),
    "rdf": (POINTS, 0.5, 10),
}
ARITHMETIC = [op for op in GOOD if op != "transpose"]
WITH_OUT = [op for op in GOOD if op != "rdf"]


def call(op, *args, **kwargs):
    return getattr(gpuops, op)(*args, **kwargs)


@pytest.fixture(params=PLACES)
def place(request):
    return request.param


@pytest.fixture(autouse=True)
def _next_call_works(request):
    yield
    for device in PLACES:
        assert gpuops.sum(A, device=device) == A.sum()


def refused(kind, pattern, op, *args, **kwargs):
    with pytest.raises(kind) as caught:
        call(op, *args, **kwargs)
    text = str(caught.value)
    assert re.search(pattern, text), text
    assert type(caught.value) not in (Exception, SystemError, AssertionError)
    assert not re.search(r"0x[0-9a-f]{6,}", text), text
    assert "\n" not in text.strip(), text
    return caught.value


class Hostile:
    """Raises while it is being read."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("I am not an array")


class Lying:
    """Claims memory that it does not have, by __array_interface__."""

    def __init__(self, **facts):
        self.__array_interface__ = {"shape": (3,), "typestr": "<f4", "version": 3, **facts}


BAD_ARRAYS = {
    "none": (None, TypeError, "None"),
    "text": ("abc", TypeError, "'abc'"),
    "bytes": (b"abc", TypeError, "b'abc'"),
    "object": (object(), TypeError, "object"),
    "objects": (np.array([1.0, None], object), TypeError, "dtype object"),
    "floats as objects": (np.array([1.0, 2.0], object), TypeError, "dtype object"),
    "strings": (np.array(["a", "b"]), TypeError, "dtype <U1"),
    "ragged": ([[1, 2], [3]], ValueError, "inhomogeneous"),
    "datetime": (np.array(["2020-01-01"], "M8[D]"), TypeError, "datetime64"),
    "timedelta": (np.array([1], "m8[s]"), TypeError, "timedelta64"),
    "structured": (np.zeros(3, [("x", "f4")]), TypeError, "accepted"),
    "longdouble": (np.ones(3, np.longdouble), TypeError, "accepted|longdouble|float128"),
    "clongdouble": (np.ones(3, np.clongdouble), TypeError, "accepted|complex256"),
    "masked": (
        np.ma.masked_array([1.0, 2.0], [True, False]),
        TypeError,
        "mask would be ignored",
    ),
    "a dict": ({"a": 1}, TypeError, "dict"),
    "a set": ({1, 2}, TypeError, "set"),
    "a type": (np.float32, TypeError, "type"),
}


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("bad", BAD_ARRAYS)
def test_operands_that_are_no_arrays_of_numbers(op, bad, place):
    value, kind, words = BAD_ARRAYS[bad]
    error = refused(kind, words, op, value, *GOOD[op][1:], device=place)
    assert str(error).startswith(f"{'sum' if op == 'reduce' else op}: "), error


@pytest.mark.parametrize("bad", ["none", "text", "object", "objects", "masked", "ragged"])
def test_transpose_takes_plain_bytes_only(bad, place):
    value, kind, words = BAD_ARRAYS[bad]
    if bad == "text":
        pytest.skip("a string is an array of plain bytes")
    refused(kind, words, "transpose", value, device=place)


def test_transpose_refuses_references(place):
    words = "accepted is every dtype of at least a byte that holds no references"
    for dtype in ("O", [("x", "f8"), ("y", "O")], "V0"):
        refused(TypeError, words, "transpose", np.empty((2, 2), dtype), device=place)


@pytest.mark.parametrize("op", [op for op in ARITHMETIC if op != "jacobi_step"])
def test_sparse_matrices_and_hostile_producers(op, place):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_array(np.eye(4))
    refused(TypeError, r"sparse.*toarray", op, matrix, *GOOD[op][1:], device=place)
    with pytest.raises(RuntimeError, match="I am not an array"):
        call(op, Hostile(), *GOOD[op][1:], device=place)


@pytest.mark.parametrize(
    "facts",
    [
        {"data": (0, False), "shape": (-1,)},
        {"data": b"123"},
        {"data": b"x" * 12, "strides": (1 << 40,)},
        {"data": "nonsense"},
        {"data": b"x" * 12, "typestr": "<q9"},
        {"data": b"x" * 12, "shape": (1 << 62, 1 << 62)},
        {"data": b"x" * 12, "shape": "ab"},
    ],
)
def test_a_lying_array_interface(facts, place):
    with pytest.raises((TypeError, ValueError, BufferError, OverflowError, AttributeError)):
        gpuops.add(Lying(**facts), 1, device=place)


# ---- keywords that every operation has ----


@pytest.mark.parametrize("op", GOOD)
def test_device_kernel_and_tunables(op, place):
    args = GOOD[op]
    refused(ValueError, "there is no device 'gpu'", op, *args, device="gpu")
    refused(TypeError, "device is a string", op, *args, device=7)
    refused(ValueError, r"no kernel 'warp9' on .*one of .*naive", op, *args, kernel="warp9",
            device=place)  # fmt: skip
    refused(TypeError, "kernel is a name", op, *args, kernel=3, device=place)
    refused(TypeError, "params is a dict", op, *args, params=[("uf", 4)], device=place)
    refused(TypeError, "params has names", op, *args, params={1: 4}, device=place)
    refused(TypeError, "is an integer", op, *args, params={"uf": 1.5}, device=place)
    refused(ValueError, "has no tunable 'colour'", op, *args, params={"colour": 1},
            kernel="naive", device=place)  # fmt: skip
    refused(
        (ValueError, OverflowError), "uf|large", op, *args, params={"uf": 1 << 80}, device=place
    )
    with pytest.raises(TypeError, match="unexpected keyword"):
        call(op, *args, colour=1)


# ---- out ----


def result_of(op):
    return np.asarray(call(op, *GOOD[op], device="cpu"))


@pytest.mark.parametrize("op", WITH_OUT)
def test_out_that_does_not_fit(op, place):
    args, good = GOOD[op], result_of(op)
    filled = {
        "shape": (np.full((*good.shape, 2), 1, good.dtype), ValueError, "shape"),
        "larger": (np.full((7, *good.shape), 1, good.dtype), ValueError, "shape"),
        "dtype": (np.full(good.shape, 1, "M8[s]"), TypeError, "same_kind|cast"),
    }
    if op in ("add", "multiply_add", "fma", "matmul"):
        filled.pop("larger")  # over which the result is repeated
    if good.dtype.kind == "f":
        filled["kind"] = (np.full(good.shape, 1, "i8"), TypeError, "same_kind")
    for out, kind, words in filled.values():
        before = out.copy()
        error = refused(kind, words, op, *args, out=out, device=place)
        assert str(error).startswith(f"{'sum' if op == 'reduce' else op}: ")
        assert (out == before).all()
    locked = np.full(good.shape, 1, good.dtype)
    locked.flags.writeable = False
    refused(ValueError, "output array is read-only", op, *args, out=locked, device=place)
    for bad in ([0.0], 3, "x", object()):
        refused(
            TypeError, "return arrays must be of ArrayType", op, *args, out=bad, device=place
        )
    masked = np.ma.masked_array(np.zeros(good.shape, good.dtype))
    refused(TypeError, "mask would be ignored", op, *args, out=masked, device=place)
    two = (np.zeros(good.shape, good.dtype),) * 2
    refused(ValueError, "tuple must have one entry", op, *args, out=two, device=place)


@pytest.mark.parametrize("op", [op for op in WITH_OUT if GOOD[op][0].ndim == 2])
def test_out_that_overlaps_itself(op, place):
    good = result_of(op)
    if good.size < 2:
        pytest.skip("one element cannot overlap")
    memory = np.zeros(1, good.dtype)
    out = np.lib.stride_tricks.as_strided(memory, good.shape, (0,) * good.ndim)
    refused(ValueError, "overlap", op, *GOOD[op], out=out, device=place)
    assert memory[0] == 0


@pytest.mark.parametrize("op", WITH_OUT)
def test_out_that_fits(op, place):
    args, good = GOOD[op], result_of(op)
    for layout in (
        "plain",
        "strided",
        "negative",
        "transposed",
        "unaligned",
        "packed",
        "swapped",
    ):
        out = engine.layout(np.zeros_like(good), layout)
        assert call(op, *args, out=out, device=place) is out
        engine.same_bits(out.astype(good.dtype), good)
    out = np.zeros_like(good)
    assert call(op, *args, out=(out,), device=place) is out
    if good.dtype == np.float32:
        wide = np.zeros(good.shape, np.float64)
        assert call(op, *args, out=wide, device=place) is wide
        engine.same_bits(wide, good.astype(np.float64))
        half = np.zeros(good.shape, np.float16)
        call(op, *args, out=half, device=place)
        engine.same_bits(half, good.astype(np.float16))
    subclass = np.zeros_like(good).view(type("Mine", (np.ndarray,), {}))
    assert call(op, *args, out=subclass, device=place) is subclass
    engine.same_bits(np.asarray(subclass), good)


# ---- Python numbers, axes, sizes ----


@pytest.mark.parametrize("op", ["add", "multiply_add", "fma"])
def test_python_numbers_are_weak(op, place):
    rest = GOOD[op][1:]
    assert call(op, 3, *rest, device=place).dtype == np.float32
    assert call(op, 3e300, *rest, device=place).dtype == np.float32
    assert call(op, np.float64(3), *rest, device=place).dtype == np.float64
    small = np.ones(3, np.int8)
    refused(OverflowError, "a of .* bits is out of bounds", op, 10**6000, *rest, device=place)
    words = "= 300 is out of bounds for int8"
    if op != "fma":
        refused(OverflowError, f"{op}: a {words}", op, 300, *[small] * len(rest), device=place)
        refused(OverflowError, "out of bounds for int64", op, 1 << 70,
                *[np.ones(3, np.int64)] * len(rest), device=place)  # fmt: skip


def test_bfloat16_and_numbers(place):
    a = np.ones(3, engine.bfloat16())
    assert gpuops.add(a, np.ones(3, "f2"), device=place).dtype == np.float32
    assert gpuops.add(a, 1.5, device=place).dtype == a.dtype
    assert gpuops.add(a, 1, device=place).dtype == a.dtype


@pytest.mark.parametrize("axis", [1.5, True, "0", [0], None.__class__])
def test_axes_are_integers(axis, place):
    refused(TypeError, "axis is an integer", "sum", A, axis=axis, device=place)


@pytest.mark.parametrize("axis", [2, -3, (0, 5), 10**30, -(10**30)])
def test_axes_are_in_range(axis, place):
    refused(np.exceptions.AxisError, "out of bounds", "sum", A, axis=axis, device=place)
    refused(np.exceptions.AxisError, "out of bounds", "transpose", A,
            axes=(0, axis) if isinstance(axis, int) else axis, device=place)  # fmt: skip


def test_repeated_axes(place):
    refused(ValueError, "twice", "sum", A, axis=(0, -2), device=place)
    refused(ValueError, "twice", "transpose", A, axes=(0, 0), device=place)
    refused(ValueError, "axes", "transpose", A, axes=(0,), device=place)
    refused(
        TypeError, r"transpose\(a, \(0, 1\)\), not transpose\(a, 0, 1\)", "transpose", A, 0, 1
    )


def test_the_operation_comes_second():
    refused(TypeError, r"reduce\(a, 'sum', 0\), or gpuops.sum\(a, 0\)", "reduce", A, 0)
    refused(TypeError, "the operation comes second", "reduce", A, (0, 1))
    refused(ValueError, "no operation 'avg', only sum", "reduce", A, "avg")
    refused(TypeError, "no operation", "reduce", A, None)
    assert gpuops.reduce(A, gpuops.max) == 11


def test_reductions_keywords(place):
    for word in ("any", "all", "argmin", "argmax"):
        refused(
            TypeError, "it has no argument dtype", "reduce", A, word, dtype="f4", device=place
        )
    refused(TypeError, "cannot hold a mean", "mean", A, dtype=np.int64, device=place)
    for word in ("mean", "any", "argmax"):
        refused(TypeError, "no argument initial", "reduce", A, word, initial=1, device=place)
    refused(TypeError, "where has dtype", "sum", A, where=np.ones((3, 4)), device=place)
    refused(ValueError, "where of shape", "sum", A, where=np.ones(5, bool), device=place)
    refused(TypeError, "dtype", "sum", A, dtype="nonsense", device=place)
    refused(TypeError, "accepted", "sum", A, dtype=object, device=place)
    refused(ValueError, "initial is one number", "sum", A, initial=[1, 2], device=place)
    refused(TypeError, "initial", "sum", np.arange(3), initial=1.5, device=place)
    refused(ValueError, "identity|initial", "min", A, where=A > 3, device=place)
    refused(ValueError, "identity|empty", "max", np.ones((0, 3)), device=place)
    refused(ValueError, "empty|identity", "argmin", np.ones((0, 3)), device=place)


def test_sizes_beyond_memory(place):
    huge = np.broadcast_to(np.float32(1), (1 << 31, 1))
    row = np.broadcast_to(np.float32(1), (1, 1 << 31))
    huger = np.broadcast_to(np.int8(1), (1 << 32, 1))
    widest = np.broadcast_to(np.int8(1), (1, 1 << 32))
    for op, args in (("add", (huge, row)), ("matmul", (huge, row)), ("add", (huger, widest))):
        with pytest.raises((MemoryError, ValueError)):
            call(op, *args, device=place)


def test_shapes_that_do_not_broadcast(place):
    for op in ("add", "multiply_add", "fma"):
        args = [np.ones((2, 3), "f4"), *[np.ones((4, 3), "f4")] * (len(GOOD[op]) - 1)]
        refused(ValueError, rf"{op}: .*\(2, ?3\).*\(4, ?3\)", op, *args, device=place)
    refused(ValueError, "matmul", "matmul", A, A, device=place)
    refused(ValueError, "matmul", "matmul", A, np.float32(2), device=place)
    refused(
        ValueError, "matmul", "matmul", np.ones((2, 3, 4)), np.ones((3, 4, 5)), device=place
    )
    for word, kind in (
        ("half", ValueError),
        ("", ValueError),
        (1, TypeError),
        (b"tf32", TypeError),
    ):
        sentence = rf"matmul: precision is {word!r}, expected None.*'highest'.*'bf16'"
        refused(kind, sentence, "matmul", A, A.T, precision=word, device=place)
    refused(TypeError, "fma: .*complex", "fma", np.ones(3, "c8"), 1, 1, device=place)


@pytest.mark.parametrize("word", ["axis", "keepdims", "device", "kernel", "params"])
def test_an_array_out_of_place_takes_one_line(word):
    with pytest.raises(TypeError) as failure:
        gpuops.sum(A, **{word: np.zeros((40, 40))})
    said = str(failure.value)
    assert said.startswith("device is" if word == "device" else f"sum: {word} is")
    assert "not array([[0., 0.," in said
    assert "\n" not in said
    assert len(said) < 150
    with pytest.raises(TypeError, match=r"args is a tuple of arguments, not array\(.*\.\.\.$"):
        gpuops.benchmark("add", np.zeros((40, 40)))


# ---- odd values for every argument that is no array ----

M = np.arange(6.0).reshape(2, 3)
DIAGONAL, RIGHT = np.eye(3) * 3, np.ones(3)
KERNEL = "__global__ void twice(float *a) { a[threadIdx.x] *= 2; }"


class NoNumber:
    def __index__(self):
        raise RuntimeError("mine")

    __float__ = __array__ = __len__ = __getitem__ = __index__


class NoArray:
    def __array__(self, *args, **words):
        return 3


ODD = [
    None, True, -1, 1.5, float("nan"), 10**30, -(10**400), 2**63, 1j, "", "\0", "naive\0",
    "a\ud800", "ü" * 300, b"x", [], [[1], [2, 3]], ["a"], (), (0, 1), {}, {"uf": "x"}, {1: 2},
    set(), object(), ..., slice(3), range(3), np.array(3), np.array([1, 2]), np.zeros((2, 0)),
    np.zeros(2, "V5"), np.array(["a", "b"]), np.array([None, 1]), np.datetime64("2020"),
    np.longdouble(1), np.ma.array([1, 2], mask=[0, 1]), np.dtype("f4"),
    fractions.Fraction(1, 2), decimal.Decimal("1.5"), NoNumber(), NoArray(),
    gpuops.to_device(RIGHT, "cpu"), gpuops.poisson(3), memoryview(b"abcd"),
]  # fmt: skip

CALLS = {
    "add": (M, M),
    "transpose": (M,),
    "matmul": (M, M.T),
    **{word: (M,) for word in ("sum", "max", "mean", "any", "argmin")},
    "jacobi_step": (DIAGONAL, RIGHT, RIGHT),
    "jacobi": (DIAGONAL, RIGHT),
    "rdf": (POINTS, 0.5, 5),
    "poisson": (3,),
    "stencil": ([1.0, 2.0, 1.0], 3),
    "sweep": ("transpose", M),
    "occupancy": (64,),
    **({"schedule": ()} if gpuops.is_available("sim") else {}),
}
NOT_WORDS = {"callback"}  # a function of the caller's that is called


def words_of(name):
    of = inspect.signature(getattr(gpuops, name)).parameters.values()
    arrays = len(CALLS[name]) if name not in ("rdf", "poisson", "occupancy") else 1
    return [
        p.name
        for i, p in enumerate(of)
        if i >= arrays * (name not in ("poisson", "occupancy"))
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        and p.name not in NOT_WORDS
    ]


def said_of(f, args, words) -> str:
    """What a call raises, "" if nothing or the caller's own exception."""
    try:
        made = f(*args, **words)
        if f is gpuops.schedule:
            with made:
                pass
    except (TypeError, ValueError, OverflowError, gpuops.Error) as error:
        return str(error)
    except RuntimeError as error:
        return "" if str(error) == "mine" else f"RuntimeError: {error}"
    return ""


@pytest.mark.parametrize(("name", "word"), [(n, w) for n in CALLS for w in words_of(n)])
def test_every_word_of_a_call(name, word):
    f = getattr(gpuops, name)
    at = [*inspect.signature(f).parameters].index(word)
    starts = [f"{name}: ", "device is a string", "there is no device"]
    for value in ODD:
        args, words = [*CALLS[name]], {}
        if at < len(args):
            args[at] = value
        else:
            words[word] = value
        said = said_of(f, args, words)
        assert not said or said.startswith(tuple(starts)), f"{value!r}: {said}"


@pytest.mark.parametrize("op", ["sum", "any", "argmin", "fma"])
def test_a_wrong_kernel_is_told_by_the_name_of_the_call(op):
    operands = [np.ones(4)] * (3 if op == "fma" else 1)
    with pytest.raises(ValueError, match=rf"^{op}: there is no kernel 'foo' on cpu"):
        getattr(gpuops, op)(*operands, kernel="foo", device="cpu")


@pytest.mark.parametrize("op", ["add", "sum", "transpose", "matmul"])
def test_a_kernels_name_has_no_end_of_its_own(op):
    """C ends a word where it has a NUL, Python does not."""
    for name in ("naive\0", "naive\0x", "\0"):
        with pytest.raises(ValueError, match=rf"^{op}: there is no kernel '"):
            getattr(gpuops, op)(*CALLS[op], kernel=name)
        with pytest.raises(ValueError, match=rf"^{op}: no kernel has a tunable '"):
            getattr(gpuops, op)(*CALLS[op], kernel="naive", params={name: 1})


def test_words_of_those_that_time_and_show():
    for call, words in (
        (lambda: gpuops.ladder("add", M, M, n_repeat=1.5), "ladder: n_repeat is an integer"),
        (lambda: gpuops.ladder("add", M, M, n_repeat=10**30), "ladder: n_repeat is at least 1"),
        (lambda: gpuops.benchmark("add", (M, M), n_repeat=10**10), "at most 10"),
        (lambda: gpuops.ladder("add", M, M, blocks=np.ones(2)), "ladder: blocks= is a sample"),
        (lambda: gpuops.occupancy(64, cc=["9.0"]), "occupancy: cc is one of .*, not "),
        (lambda: gpuops.devices(np.ones(2)), "devices: there is no backend"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()
    assert not gpuops.is_available(np.ones(2))


def test_sources_that_are_no_files(tmp_path):
    (tmp_path / "bytes.cu").write_bytes(b"\xff\xfe" + KERNEL.encode())
    for source in ("\0", str(tmp_path / "bytes.cu"), str(tmp_path)):
        with pytest.raises(
            (ValueError, OSError), match=r"^compile: .* as a file cannot be read"
        ):
            gpuops.compile(source, device="cpu" if "sim" not in engine.backends() else "sim")


FLAGS = {
    "benchmark": ("cold", lambda **f: gpuops.benchmark("add", (A, A), **f)),
    "ladder": ("cold", lambda **f: gpuops.ladder("add", A, A, **f)),
    "sweep": ("cold", lambda **f: gpuops.sweep("transpose", A, device="sim", **f)),
    "jacobi": ("progress", lambda **f: gpuops.jacobi(SQUARE, V, **f)),
    "rdf": ("progress", lambda **f: gpuops.rdf(POINTS, 0.5, 10, **f)),
    "schedule": ("checks", lambda **f: gpuops.schedule(**f)),
    "astype": ("copy", lambda **f: gpuops.to_device(A, "cpu").astype("f8", **f)),
    "check": ("quiet", lambda **f: gpuops.course.check("03", "x;", **f)),
    "sum": ("exact", lambda **f: gpuops.sum(A, **f)),
}


@pytest.mark.skipif(not gpuops.is_available("sim"), reason="needs sim")
@pytest.mark.parametrize("name", FLAGS)
def test_what_is_only_truthy_is_no_true(name):
    word, f = FLAGS[name]
    for value in ("no", "", 1, 0, np.ones(1, bool)):
        with pytest.raises(TypeError) as caught:
            f(**{word: value})
        said = str(caught.value)
        assert said == f"{name}: {word} is {value!r}, expected True or False"


# Calls that most kernels refuse: no axis is contiguous, no operand plain.
SPREAD = np.ones((3, 5, 7), np.float32)[:, ::2, ::-1]
SPREAD_CALLS = {
    **{name: (SPREAD,) for name in engine.REDUCTIONS},
    "add": (SPREAD, SPREAD[:1]),
    "multiply_add": (SPREAD, SPREAD[:1], 2),
    "fma": (SPREAD, SPREAD[:1], SPREAD),
    "transpose": (SPREAD,),
    "matmul": (SPREAD[:, :, :3], SPREAD),
    "jacobi_step": (gpuops.poisson((4, 4)), np.ones(16), np.ones(16)),
    "jacobi": (gpuops.poisson((4, 4)), np.ones(16)),
}


@pytest.mark.parametrize("name", SPREAD_CALLS)
def test_a_refusal_names_the_function_that_was_called(name, place):
    """Plans say "reduce: this kernel ..."; the caller wrote sum(kernel="rows")."""
    words = {"axis": (0, 2)} if name in engine.REDUCTIONS and "arg" not in name else {}
    stem = "jacobi_step" if name == "jacobi" else name
    for kernel in {
        *map(str, gpuops.kernels(name, place)),
        *map(str, gpuops.kernels(stem, place)),
    }:
        try:
            call(name, *SPREAD_CALLS[name], **words, kernel=kernel, device=place)
        except gpuops.KernelRefusedError as error:
            said = str(error)
            assert said.startswith(f"{name}: "), said
            assert "this kernel" not in said
            assert not re.search(r"got (others|another|some|more)\b", said), said
