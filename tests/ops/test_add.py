"""add, multiply_add and fma: the bits of NumPy, and of exact arithmetic for fma."""

from __future__ import annotations

from fractions import Fraction

import engine
import numpy as np
import pytest
from engine import attempt, dtype_of, of_turn, random, rows, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuops
from gpuops import _core

OPS = {"add": gpuops.add, "multiply_add": gpuops.multiply_add, "fma": gpuops.fma}
INPUTS = {"add": 2, "multiply_add": 3, "fma": 3}
CALLS = [
    pytest.param(op, *row.values, id=f"{op}-{row.id}")
    for op in INPUTS
    for row in rows(op, teaching=False)  # test_add_ladder.py has the contracted ones
]
ELEMENTWISE = [p for p in CALLS if p.values[0] != "fma"]
WORDS = (*(d.name for d in engine.DTYPES), "bfloat16")


def reference(op: str, *arrays) -> np.ndarray:
    with np.errstate(all="ignore"):
        if op == "add":
            a, b = arrays
            return np.add(a, b)
        a, b, c = arrays
        if a.dtype.kind != "c":
            return np.add(np.multiply(a, b), c)
        out = np.empty(np.broadcast(a, b, c).shape, a.dtype.newbyteorder("="))
        out.real = (a.real * b.real - a.imag * b.imag) + c.real
        out.imag = (a.real * b.imag + a.imag * b.real) + c.imag
        return out


def check(op, arrays, device, kernel, **more):
    """One call against the reference; True unless the kernel refused it."""
    try:
        got = attempt(OPS[op], *arrays, device=device, kernel=kernel, **more)
    except pytest.skip.Exception as refusal:
        check.refusal = str(refusal)
        return False
    same_bits(np.asarray(got), np.asarray(reference(op, *arrays)))
    return True


def check_all(op, cases, device, kernel):
    """Every case; skipped only if the kernel refused all of them."""
    if not any([check(op, arrays, device, kernel) for arrays in cases]):
        pytest.skip(check.refusal)


def exact(a: float, b: float, c: float, mantissa: int, least: int, largest: float) -> float:
    """a*b + c rounded once, to nearest even, to so many bits but never below 2**least."""
    if not all(map(np.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            product = np.float64(a) * np.float64(b)
            return float(c if np.isfinite(a) and np.isfinite(b) else product + c)
    value = Fraction(a) * Fraction(b) + Fraction(c)
    if value == 0:
        if (a == 0 or b == 0) and c == 0:  # a sum of zeros
            return np.copysign(0.0, a) * np.copysign(1.0, b) + c
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - mantissa + 1, least)
    rounded = round(size / unit) * unit  # Fraction rounds half to even
    magnitude = np.inf if rounded > Fraction(largest) else float(rounded)
    return float(np.copysign(magnitude, 1 if value > 0 else -1))


LIMITS = {
    "float16": (11, -24),
    "bfloat16": (8, -133),
    "float32": (24, -149),
    "float64": (53, -1074),
}
LARGEST = {"float16": 65504.0, "bfloat16": (2 - 2**-7) * 2.0**127,
           "float32": (2 - 2**-23) * 2.0**127, "float64": np.finfo("f8").max}  # fmt: skip


def fma_operands(word: str, n: int = 600, seed: int = 0):
    """Random triples, half of which nearly cancel, then every triple of the special values."""
    dtype, (mantissa, least) = dtype_of(word), LIMITS[word]
    rng = np.random.default_rng(seed)
    bits = rng.bytes(3 * n * dtype.itemsize)
    a, b, c = np.frombuffer(bits, dtype).reshape(3, n).copy()
    with np.errstate(all="ignore"):
        product = a.astype("f8") * b.astype("f8")
        c[: n // 2] = -product[: n // 2].astype(dtype)
        scale = 2.0 ** rng.integers(-mantissa - 2, mantissa + 2, n // 4)
        c[: n // 4] = (c[: n // 4].astype("f8") * scale).astype(dtype)
    special = [0.0, -0.0, 1.0, -1.0, 1 + 2.0 ** (1 - mantissa), 2.0**least, -(2.0**least),
               LARGEST[word], -LARGEST[word], np.inf, -np.inf, np.nan]  # fmt: skip
    special = np.array(special).astype(dtype)
    grid = np.meshgrid(*[np.arange(len(special))] * 3)
    return [
        np.concatenate([x, special[g.ravel()]]) for x, g in zip((a, b, c), grid, strict=True)
    ]


# ---- bits ----


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("op", "device", "kernel"), ELEMENTWISE)
def test_shapes(op, device, kernel, word):
    dtype = dtype_of(word)
    check_all(op, [
        [random(shape, dtype, seed, special=True) for seed in range(INPUTS[op])]
        for shape in engine.SHAPES
    ], device, kernel)  # fmt: skip


@pytest.mark.parametrize("layout", engine.LAYOUTS)
@pytest.mark.parametrize(("op", "device", "kernel"), ELEMENTWISE)
def test_layouts(op, device, kernel, layout):
    """Each operand in turn is laid out so; then all of them are."""
    cases = []
    for word in ("int16", "float32", "complex128"):
        plain = [random((6, 5, 8), word, seed) for seed in range(INPUTS[op])]
        odd = [engine.layout(a, layout) for a in plain]
        cases.append(odd)
        cases += [[*plain[:k], odd[k], *plain[k + 1 :]] for k in range(INPUTS[op])]
    check_all(op, cases, device, kernel)


BROADCASTS = [
    ((), (5,), (5,)), ((3, 1), (4,), ()), ((1, 4), (3, 1), (3, 4)), ((2, 3, 4), (3, 1), (1,)),
    ((0, 1), (1, 5), (5,)), ((1,), (0,), (1, 1)), ((64,), (16, 64), (16, 1)),
    ((16, 64), (1, 64), (64,)), ((5, 1, 3, 1), (1, 7, 1, 2), (7, 3, 2)),
    ((33, 1), (1, 129), (129,)),
]  # fmt: skip


@pytest.mark.parametrize("word", ["bool", "uint8", "float16", "float32", "complex64"])
@pytest.mark.parametrize(("op", "device", "kernel"), ELEMENTWISE)
def test_broadcasting(op, device, kernel, word):
    cases = []
    for shapes in BROADCASTS:
        for turn in range(3):  # each shape at each place
            turned = [*shapes[turn:], *shapes[:turn]][: INPUTS[op]]
            cases.append([random(s, word, seed) for seed, s in enumerate(turned)])
    check_all(op, cases, device, kernel)


def short_forms(last: int, word: str) -> list[np.ndarray]:
    """Arrays of (3, 1031, last), or broadcast to it, whose lines do not join."""
    dtype = dtype_of(word)
    wide = random((3, 1031, 2 * last + 3), dtype, 1)
    plain = random((3, 1031, last), dtype, 2)
    return [
        plain, plain[..., :1], plain[:, :1], plain[:1, :1], plain[:1], plain[:, ::-1, ::-1],
        wide[..., 3 : 3 + last], wide[..., : 2 * last : 2], wide[:, ::-1, 1 : 1 + last],
        np.asfortranarray(plain), np.ascontiguousarray(plain.swapaxes(0, 1)).swapaxes(0, 1),
        random((), dtype, 3),
    ]  # fmt: skip


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("last", [2, 3, 4, 5, 7, 8, 9, 15, 17, 33, 65])
@pytest.mark.parametrize("op", ["add", "multiply_add"])
def test_short_lines(op, last):
    """What the CPU gathers into blocks, several of them and the last one shorter."""
    words = "uint8 bool int16 bfloat16 float32 int64 complex64 complex128"
    for word in words.split():
        forms = short_forms(last, word)
        for k, form in enumerate(forms):
            arrays = [forms[0], form, forms[(k * 5 + last) % len(forms)]][: INPUTS[op]]
            assert check(op, arrays, "cpu", None)
            assert check(op, arrays[::-1], "cpu", None)
    # Pieces that begin with a row's shorter last block: longer ones of the same line follow.
    many = np.resize(forms[0], (24, *forms[0].shape[1:]))
    assert check(op, [many, forms[3], forms[3]][: INPUTS[op]], "cpu", None)
    a = forms[0].copy()
    gpuops.add(a, forms[1], a)  # the output's own memory
    same_bits(a, np.add(forms[0], forms[1]))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("op", "device", "kernel"), ELEMENTWISE)
def test_many_elements(op, device, kernel, everything):
    """Enough for several threads and many blocks, and one more than a round number."""
    cases = []
    for shape in [(1 << 18,), ((1 << 17) + 1,), (3, 100_003), (100_003, 3), (401, 17, 31)]:
        plain = [random(shape, "float32", seed, special=True) for seed in range(INPUTS[op])]
        cases.append(plain)
        cases.append([np.asfortranarray(a) for a in plain])
        cases.append([plain[0], *[np.asfortranarray(a) for a in plain[1:]]])
        cases.append([plain[0], *[a[..., :1] for a in plain[1:]]])
        cases.append([plain[0][:1], *plain[1:]])
    check_all(op, of_turn(cases, 8, everything, op, device, kernel), device, kernel)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", LIMITS)
@pytest.mark.parametrize(("device", "kernel"), rows("fma"))
def test_fma_is_rounded_once(device, kernel, word):
    dtype = dtype_of(word)
    a, b, c = fma_operands(word)
    limits = (*LIMITS[word], LARGEST[word])
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    want = np.array([exact(*map(float, t), *limits) for t in triples])
    with np.errstate(all="ignore"):
        want = want.astype(dtype)
    same_bits(attempt(gpuops.fma, a, b, c, device=device, kernel=kernel), want)


@pytest.mark.parametrize("word", LIMITS)
@pytest.mark.parametrize(("device", "kernel"), rows("fma"))
def test_fma_layouts(device, kernel, word):
    """Every layout and broadcast gives what plain arrays give, which the test above checks."""
    arrays = [random((6, 5, 8), dtype_of(word), seed) for seed in range(3)]
    ran, where = 0, {"device": device, "kernel": kernel}
    for name in engine.LAYOUTS:
        odd = [engine.layout(a, name) for a in arrays]
        for turned in (
            odd,
            [odd[0], arrays[1], arrays[2][0]],
            [arrays[0][..., :1], odd[1], odd[2]],
        ):
            plain = [np.ascontiguousarray(a) for a in np.broadcast_arrays(*turned)]
            plain = [a.astype(a.dtype.newbyteorder("=")) for a in plain]
            try:
                got = gpuops.fma(*turned, **where)
            except gpuops.KernelRefusedError as refusal:
                skipped = str(refusal)
                continue
            same_bits(got, gpuops.fma(*plain, device="cpu", kernel="naive"))
            ran += 1
    if not ran:
        pytest.skip(skipped)


@pytest.mark.parametrize("word", ["float16", "float32", "float64", "complex64", "int32"])
@pytest.mark.parametrize("op", ["add", "multiply_add", "fma"])
def test_levels_and_threads_give_the_same_bits(op, word):
    if op == "fma" and word in ("complex64", "int32"):
        pytest.skip("fma: takes floats")
    arrays = [random((37, 5003), word, seed, special=True) for seed in range(INPUTS[op])]
    results = []
    for level in _core.cpu_levels():
        for threads in (1, 2):
            _core.set_cpu_level(level)
            gpuops.set_num_threads(threads)
            results.append(OPS[op](*arrays, device="cpu"))
            results.append(OPS[op](*[a.T for a in arrays], device="cpu").T)
    for result in results[1:]:
        same_bits(result, results[0])


@pytest.mark.parametrize(("op", "device", "kernel"), ELEMENTWISE)
def test_more_than_32_bits_of_elements(op, device, kernel):
    if device == "cpu" or gpuops.devices(device)[0].memory < 24 << 30:
        pytest.skip("needs a device of its own with 24 GiB")
    row, column = random((46349,), "uint8"), random((46351, 1), "uint8", 1)
    arrays = (row, column, row[::-1])[: INPUTS[op]]
    got = attempt(OPS[op], *arrays, device=device, kernel=kernel)
    for i in range(0, got.shape[0], 4096):
        part = slice(i, i + 4096)
        assert np.array_equal(got[part], reference(op, row, column[part], *arrays[2:]))


shapes = st.lists(st.integers(0, 5), max_size=5).map(tuple)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_views(data):
    """Random views of random arrays, broadcast against each other, by the kernel of choice."""
    shape = data.draw(shapes)
    dtype = data.draw(st.sampled_from(["int8", "uint32", "float16", "float64", "complex64"]))
    device = data.draw(st.sampled_from(engine.backends()))
    arrays = []
    for seed in range(3):
        own = tuple(1 if data.draw(st.booleans()) else n for n in shape)
        own = own[data.draw(st.integers(0, len(own))) :]
        steps = [data.draw(st.sampled_from([-2, -1, 1, 3])) for _ in own]
        order = data.draw(st.permutations(range(len(own))))
        stored = random([own[k] * abs(steps[k]) for k in order], dtype, seed)
        view = stored.transpose(np.argsort(order)) if own else stored
        arrays.append(view[tuple(slice(None, None, s) for s in steps)])
    check("add", arrays[:2], device, None)
    check("multiply_add", arrays, device, None)


# ---- meaning ----


def test_promotion_is_numpys():
    arrays = [random((4,), w) for w in ("bool", "int8", "uint16", "int64", "float16", "float32",
                                        "float64", "complex64")]  # fmt: skip
    for a in arrays:
        for b in (*arrays, 2, 2.5, np.float32(3), np.int64(1)):
            same_bits(gpuops.add(a, b), np.add(a, b))
    same_bits(gpuops.add([1, 2], [0.5, 1]), np.array([1.5, 3.0]))
    assert gpuops.fma([1], [2], [3]).dtype == np.float64


def test_promotion_of_bfloat16():
    """As NumPy's ufuncs, beside arrays and its scalars; Python's numbers are weak."""
    ones = np.ones(3, engine.bfloat16())
    for word in WORDS:
        other = np.ones(3, dtype_of(word))
        for b in (other, other[0]):
            same_bits(gpuops.add(ones, b), np.add(ones, b))
            same_bits(gpuops.add(b, ones), np.add(b, ones))
            assert gpuops.matmul(ones, other).dtype == np.add(ones, other).dtype
    three = (ones, np.ones(3, "f2"), np.ones(3, "i4"))
    assert gpuops.multiply_add(*three).dtype == np.float64
    for number in (2, 2.5, -(2**70)):
        assert gpuops.add(ones, number).dtype == ones.dtype
    assert gpuops.add(ones, 1j).dtype == np.complex64
    with pytest.raises(OverflowError, match="b of 2001 bits is out of bounds for bfloat16"):
        gpuops.add(ones, 2**2000)


@pytest.mark.parametrize("word", ["complex64", "complex128"])
def test_a_complex_product_is_rounded_part_by_part(word):
    """NumPy's own may be fused, which changes a part by two roundings of its terms at most."""
    a, b, c = (random((1000,), word, seed) for seed in range(3))
    got, numpys = gpuops.multiply_add(a, b, c), a * b + c
    same_bits(got, reference("multiply_add", a, b, c))
    terms = np.abs(a) * np.abs(b) + np.abs(c)
    assert (np.abs(got - numpys) <= 4 * np.finfo(word).eps * terms).all()


def test_scalars_give_a_scalar():
    assert isinstance(gpuops.add(1, 2), np.integer)
    assert gpuops.add(1, 2) == 3
    assert isinstance(gpuops.add(np.float32(1), 2), np.float32)
    assert gpuops.multiply_add(2.0, 3.0, 0.5) == 6.5
    assert gpuops.fma(2.0, 3.0, 0.5) == 6.5


def test_memory_order_is_kept():
    a = random((3, 4, 5), "float32")
    for view in (a, np.asfortranarray(a), a.transpose(1, 2, 0), a[::-1], a[:, ::-1, ::2]):
        got, want = gpuops.add(view, view), np.add(view, view)
        assert got.strides == want.strides
        same_bits(got, want)


@pytest.mark.parametrize(("op", "device", "kernel"), CALLS)
def test_device_arrays(op, device, kernel):
    arrays = [random((16, 32), "float32", seed) for seed in range(INPUTS[op])]
    there = [gpuops.to_device(a, device) for a in arrays]
    got = attempt(OPS[op], *there, kernel=kernel)
    assert isinstance(got, gpuops.DeviceArray)
    same_bits(got, OPS[op](*arrays, device="cpu"))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("word", ["uint8", "int16", "float32", "float64", "complex128"])
def test_orders_that_meet_in_tiles(word):
    """On the CPU: lines shorter and longer than a tile, axes of a few elements whose neighbours
    lie megabytes apart, and three operands in an order each."""
    dtype = np.dtype(word)
    for shape, orders in (
        ((130, 140), ((0, 1), (1, 0), (1, 0))),
        ((90, 1100), ((1, 0), (0, 1), (1, 0))),
        ((700_000, 3), ((0, 1), (1, 0), (0, 1))),
        ((2, 150_001, 3), ((0, 1, 2), (2, 1, 0), (2, 0, 1))),
        ((40, 70, 50), ((0, 1, 2), (2, 0, 1), (1, 2, 0))),
    ):
        arrays = [
            random([shape[d] for d in o], dtype, k).transpose(np.argsort(o))
            for k, o in enumerate(orders)
        ]
        for threads in (1, 2):
            gpuops.set_num_threads(threads)
            same_bits(gpuops.add(*arrays[:2], device="cpu"), np.add(*arrays[:2]))
            got = gpuops.multiply_add(*arrays, device="cpu")
            lines = [np.ascontiguousarray(a) for a in arrays]
            same_bits(got, gpuops.multiply_add(*lines, device="cpu", kernel="naive"))
