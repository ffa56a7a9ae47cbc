"""DeviceArray's own methods: astype, and the operators that it refuses."""

import operator

import engine
import numpy as np
import pytest

import gpuops

PLACES = engine.backends()
WORDS = ("?", "b", "h", "i", "l", "B", "H", "I", "L", "e", "f", "d", "F", "D")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("have", WORDS)
def test_casts_are_numpys(have, place):
    a = engine.random((3, 5), np.dtype(have))
    with np.errstate(all="ignore"):
        x = gpuops.to_device(a, place)
        for want in WORDS:
            if a.dtype.kind == "c" and np.dtype(want).kind not in "bc":
                with pytest.warns(np.exceptions.ComplexWarning):
                    made = x.astype(want)
                expected = a.real.astype(want)
            else:
                made, expected = x.astype(want), a.astype(want)
            assert type(made) is gpuops.DeviceArray
            assert (made.device, made.dtype) == (x.device, np.dtype(want))
            assert made.strides == expected.strides
            engine.same_bits(made.get(), expected)


@pytest.mark.parametrize("place", PLACES)
def test_an_image_with_floats(place):
    """What was refused where a device array met another dtype."""
    image = gpuops.to_device(np.arange(6, dtype=np.uint8).reshape(2, 3), place)
    for call, wanted in (
        (lambda a: gpuops.add(a, 0.5), "float64"),
        (lambda a: gpuops.sum(a, dtype="f4"), "float32"),
        (lambda a: gpuops.multiply_add(a, np.float32(2), np.float32(1)), "float32"),
        (lambda a: gpuops.matmul(a, np.ones((3, 1), "f4")), "float32"),
    ):
        with pytest.raises(TypeError, match=rf"a\.astype\('{wanted}'\)$"):
            call(image)
        given = call(image.get())
        result = call(image.astype(wanted))
        engine.same_bits(result.get(), np.asarray(given))
    with pytest.raises(TypeError, match=r"sum is uint64, not int32: cast .* astype\(\)"):
        gpuops.sum(image, dtype="i4")
    assert gpuops.sum(image).astype("i4").get() == 15


@pytest.mark.parametrize("place", PLACES)
def test_copies(place):
    x = gpuops.to_device(np.arange(4.0), place)
    assert x.astype("f8", copy=False) is x
    copied = x.astype("f8")
    gpuops.add(x, 1.0, out=x)
    assert copied.get().tolist() == [0, 1, 2, 3]
    assert x.astype("f4", copy=False).dtype == np.float32
    assert gpuops.to_device(np.empty((0, 3)), place).astype("i4").shape == (0, 3)
    assert gpuops.to_device(np.array(2.5), place).astype("i4").get() == 2
    turned = gpuops.to_device(np.arange(6.0).reshape(2, 3).T, place)
    assert turned.astype("i2").get().tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("place", PLACES)
def test_bfloat16(place):
    bfloat16 = engine.bfloat16()
    x = gpuops.to_device(np.array([1.5, -2.0, 1e30], "f4"), place)
    assert x.astype(bfloat16).astype("f8").get().tolist() == [
        1.5,
        -2.0,
        float(bfloat16.type(1e30)),
    ]


def test_refused_casts():
    x = gpuops.to_device(np.ones(3, np.uint8), "cpu")
    with pytest.raises(TypeError, match=r"^astype: uint8 cannot be cast to int8 by the rule"):
        x.astype("i1", casting="safe")
    assert x.astype("i2", casting="safe").dtype == np.int16
    with pytest.raises(TypeError, match=r"^astype: dtype is object; accepted are bool"):
        x.astype(object)
    with pytest.raises(TypeError, match=r"^astype: dtype: .*nonsense"):
        x.astype("nonsense")
    with pytest.raises(ValueError, match="casting must be one of"):
        x.astype("f4", casting="kind")


OTHERS = [1, None, np.ones(3), [1, 2], gpuops.to_device(np.ones(3), "cpu")]


@pytest.mark.parametrize("other", OTHERS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.ge])
def test_comparisons_are_refused(compare, other):
    """Python's own == says whether it is the same object, and nobody means that."""
    x = gpuops.to_device(np.ones(3), "cpu")
    for pair in ((x, other), (other, x)):
        with pytest.raises(TypeError, match=r"a DeviceArray has no operator .*\.get\(\)"):
            compare(*pair)


@pytest.mark.parametrize(
    "act",
    [
        float, int, complex, abs, operator.pos, operator.neg, operator.invert,
        *(lambda x, f=f: f(x, 2) for f in (
            operator.pow, operator.floordiv, operator.mod, operator.and_, operator.lshift,
            operator.ior, operator.xor, operator.rshift)),
        lambda x: operator.setitem(x, 0, 1.0), lambda x: operator.contains(x, 1.0),
    ],
)  # fmt: skip
def test_what_it_lacks_says_what_to_use(act):
    """Of a sum, above all: float(gpuops.sum(x)) is what one writes first."""
    x = gpuops.sum(gpuops.to_device(np.ones(3), "cpu"))
    with pytest.raises(TypeError, match=r"a DeviceArray has no operator .*\.get\(\)"):
        act(x)


def test_what_does_not_compare_still_works():
    x, y = (gpuops.to_device(np.ones(3), "cpu") for _ in range(2))
    assert x in [x]
    assert [x, y].index(x) == 0
    assert {x: 1, y: 2}[y] == 2
    assert len({x, y, x}) == 2
    with pytest.raises(TypeError, match="no operator =="):
        assert x in [y]
    with pytest.raises(TypeError, match="no operator =="):
        assert x in [np.ones(3)]
    with pytest.raises(TypeError, match=r"use \.get\(\)"):
        np.testing.assert_array_equal(x, np.ones(3))


def test_the_advice_for_a_difference():
    """Of whole numbers too, which fma does not take on a device."""
    for dtype in ("i4", "i8", "f4", "c8"):
        a, b = (gpuops.to_device(np.array(v, dtype), "cpu") for v in ([5, 7], [1, 9]))
        with pytest.raises(TypeError, match=r"multiply_add\(b, -1, a\)"):
            a - b
        assert gpuops.multiply_add(b, -1, a).get().tolist() == [4, -2]
    for dtype in ("u1", "u2", "u4", "u8"):
        have = np.array([5, 7], dtype), np.array([1, 9], dtype)
        a, b = (gpuops.to_device(v, "cpu") for v in have)
        with pytest.raises(TypeError, match=r"use gpuops.multiply_add\(b, \d+, a\)$") as error:
            a - b
        way = str(error.value).partition("use ")[2]
        found = eval(way, {"gpuops": gpuops, "a": a, "b": b})
        assert found.get().tolist() == (have[0] - have[1]).tolist()


@pytest.mark.parametrize(("name", "way"), [
    ("T", "gpuops.transpose(a)"), ("sum", "gpuops.sum(a)"), ("reshape", "a.get().reshape"),
    ("item", "a.get().item"),
])  # fmt: skip
def test_attributes_of_numpys_arrays(name, way):
    a = gpuops.to_device(np.ones((1, 1)), "cpu")
    with pytest.raises(AttributeError, match=f"no attribute '{name}': use ") as error:
        getattr(a, name)
    assert str(error.value).endswith(way)
    eval(way)
    assert not hasattr(a, "no_such_thing")
