"""What users of NumPy expect of a call: taken as NumPy takes it, or refused by a sentence."""

import engine
import numpy as np
import pytest

import gpuops

PLACES = engine.backends()
A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(params=PLACES)
def place(request):
    return request.param


# ---- memory order ----


def laid_out(rng, shape):
    """A view of that shape, or broadcast to it, with its axes in any order and steps."""
    order, steps = rng.permutation(len(shape)), rng.choice([1, 1, 2, -1], len(shape))
    stored = [shape[d] * abs(int(s)) for d, s in zip(order, steps, strict=True)]
    view = np.ones(stored, "f4")[tuple(slice(None, None, int(s)) for s in steps)]
    view = view.transpose(np.argsort(order))
    return view[tuple(slice(0, 1) if rng.random() < 0.12 else slice(None) for _ in shape)]


def test_results_lie_as_numpys_do(place):
    rng = np.random.default_rng(3)
    for _ in range(3000 if place == "cpu" else 40):
        shape = [int(n) for n in rng.choice([1, 2, 3, 4], rng.integers(1, 6))]
        a, b = laid_out(rng, shape), laid_out(rng, shape)
        want, got = a + b, gpuops.add(a, b, device=place)
        at = [d for d, n in enumerate(want.shape) if n > 1]
        assert [got.strides[d] for d in at] == [want.strides[d] for d in at], (
            a.strides,
            b.strides,
        )


# ---- out ----


@pytest.mark.parametrize("op", ["add", "matmul", "transpose", "sum"])
def test_out_in_a_tuple(op, place):
    args = (A, A) if op == "add" else (A, A.T) if op == "matmul" else (A,)
    want = getattr(np, op)(*args)
    out = np.zeros(np.shape(want), A.dtype)
    assert getattr(gpuops, op)(*args, out=(out,), device=place) is out
    engine.same_bits(out, np.ascontiguousarray(want).reshape(out.shape))


def test_out_that_is_an_ellipsis(place):
    """The result is an array, also where it would be a scalar."""
    v = np.arange(3.0)
    for call, want in (
        (lambda **k: gpuops.add(np.float32(1), np.float32(2), **k), np.float32(3)),
        (lambda **k: gpuops.fma(1.0, 2.0, 3.0, **k), np.float64(5)),
        (lambda **k: gpuops.matmul(v, v, **k), np.float64(5)),
        (lambda **k: gpuops.transpose(A, **k), A.T.copy()),
        (lambda **k: gpuops.transpose(A > 3, **k), (A > 3).T.copy()),
    ):
        got = call(out=..., device=place)
        assert type(got) is np.ndarray
        assert (got.shape, got.dtype) == (np.shape(want), want.dtype)
        assert (got == want).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4"])
def test_an_out_that_the_result_is_repeated_over(dtype, place):
    row = A[1]
    for call, args, shape in (
        (gpuops.add, (row, row), (3, 4)),
        (gpuops.add, (A[:, :1], 1), (2, 3, 4)),
        (gpuops.multiply_add, (row, row, row), (1, 4)),
        (gpuops.matmul, (A, A.T), (5, 3, 3)),
        (gpuops.matmul, (row, A.T), (2, 3)),
        (gpuops.matmul, (row, row), (5,)),
        (gpuops.matmul, (A[None], A.T), (5, 3, 3)),
    ):
        out = np.full(shape, -1, dtype)
        assert call(*args, out=out, device=place) is out
        engine.same_bits(out.astype("f4"), np.broadcast_to(call(*args), shape).copy())
    one = A[:1, :1]
    for call, args, shape in (
        (gpuops.add, (A, A), (4,)),
        (gpuops.add, (A, A), (1, 4)),
        (gpuops.matmul, (A[:1], A.T), (3, 3)),  # extents of matrices are never repeated
        (gpuops.matmul, (one, one), (2, 1)),
        (gpuops.transpose, (A,), (2, 4, 3)),
        (gpuops.sum, (A, 0), (2, 4)),
    ):
        out = np.full(shape, -1, dtype)
        with pytest.raises(ValueError, match=r"shape \(.*\), expected \("):
            call(*args, out=out, device=place)
        assert (out == -1).all()


def test_one_mistake_has_one_sentence(place):
    said = set()
    for out in (np.ones(4, "f4"), np.ones(4, "f8"), np.ones(4, ">f4")):
        for call in (
            lambda **k: gpuops.add(A, A, **k),
            lambda **k: gpuops.add(A, A + 0.5, **k),
        ):
            with pytest.raises(ValueError) as caught:
                call(out=out, device=place)
            said.add(str(caught.value))
    assert said == {"add: the output has shape (4,), expected (3, 4)"}


# ---- words that are not taken ----


@pytest.mark.parametrize("word", ["where", "dtype", "casting", "order", "subok", "signature"])
def test_words_that_are_refused(word, place):
    for f, args in (
        (gpuops.add, (A, A)),
        (gpuops.multiply_add, (A, A, A)),
        (gpuops.fma, (A, A, A)),
        (gpuops.matmul, (A, A.T)),
        (gpuops.transpose, (A,)),
    ):
        with pytest.raises(TypeError, match=rf"^{f.__name__}: {word}= is not taken; \w"):
            f(*args, device=place, **{word: None})
    with pytest.raises(TypeError, match=r"^matmul: axes= is not taken; .*moveaxis"):
        gpuops.matmul(A, A.T, axes=[(0, 1)] * 3, device=place)


# ---- transpose: axes and items ----


def test_axes_in_any_sequence(place):
    a = np.arange(24).reshape(2, 3, 4)
    for axes in (range(3), range(2, -1, -1), [1, 2, 0], np.array([2, 0, 1]), (0, -1, 1)):
        engine.same_bits(
            gpuops.transpose(a, axes, device=place),
            np.ascontiguousarray(a.transpose(tuple(axes))),
        )
    with pytest.raises(TypeError, match="axes is an integer"):
        gpuops.transpose(a, "012", device=place)


ITEMS = ["S3", "S12", "V32", "U5", "V7", "S1", "V48", ">U3", [("x", "f8"), ("y", "f4")]]


@pytest.mark.parametrize("dtype", ITEMS, ids=str)
def test_items_of_any_size(dtype, place):
    dtype = np.dtype(dtype)
    a = np.frombuffer(np.random.default_rng(1).bytes(60 * dtype.itemsize), f"V{dtype.itemsize}")
    a = a.reshape(3, 4, 5).view(dtype)
    for view, axes in (
        (a, None),
        (a[::-1, :, ::2], (1, 0, 2)),
        (a.T, (-1, 0, 1)),
        (a[:0], None),
        (a[0, 0, 0, ...], ()),
        (a[1, 1], None),
    ):
        want = np.ascontiguousarray(view.transpose(axes)).reshape(view.transpose(axes).shape)
        got = gpuops.transpose(view, axes, device=place)
        assert (got.dtype, got.shape, got.tobytes()) == (dtype, want.shape, want.tobytes())
        assert got.flags.c_contiguous
        out = np.zeros((*want.shape, 2), dtype)[..., 0]
        assert gpuops.transpose(view, axes, out=out, device=place) is out
        assert out.tobytes() == want.tobytes()
    for axes, kind, words in (
        ((0, 1, 3), np.exceptions.AxisError, "axis 3 is out of bounds"),
        ((0, 1), ValueError, "axes don't match"),
        ((0, 1, -2), ValueError, "twice"),
    ):
        with pytest.raises(kind, match=words):
            gpuops.transpose(a, axes, device=place)
    with pytest.raises(ValueError, match=r"has shape \(3, 4, 5\), expected \(5, 4, 3\)"):
        gpuops.transpose(a, out=np.empty_like(a), device=place)


# ---- arrays that mean more than their numbers ----


class Quantity(np.ndarray):
    """Has units, as astropy's."""

    def __array_ufunc__(self, *args, **words):
        raise AssertionError


class Labelled(np.ndarray):
    def __array_finalize__(self, source):
        self.label = getattr(source, "label", "")


class Duck:
    """Has its own arithmetic and is no ndarray, as pint's."""

    __array_ufunc__ = Quantity.__array_ufunc__

    def __array__(self, *args, **words):
        return np.ones(3)


def test_what_would_be_lost_is_said(place):
    for x in (A.view(Quantity), A.view(Labelled), Duck(), Mapped()):
        name = type(x).__name__
        for f in (gpuops.transpose, gpuops.sum, lambda x, **k: gpuops.add(1, x, **k)):
            with pytest.raises(TypeError, match=rf": [ab] is a {name}, .*units.*np\.asarray"):
                f(x, device=place)
    with pytest.raises(TypeError, match=r"out is a Quantity, .*np\.asarray\(out\)"):
        gpuops.add(A, A, out=np.zeros_like(A).view(Quantity), device=place)


class Mapped(np.memmap):
    def __new__(cls):
        return A.view(cls)

    def __array_wrap__(self, *args, **words):
        raise AssertionError


def test_of_numpys_own_only_the_class_is_lost(tmp_path, place):
    class Plain(np.ndarray):
        pass

    mapped = np.memmap(tmp_path / "a", "f4", "w+", shape=A.shape)
    mapped[:] = A
    for x in (A.view(Plain), A.view(np.matrix), A.view(np.recarray), mapped):
        assert type(gpuops.add(x, x, device=place)) is np.ndarray
        engine.same_bits(gpuops.add(x, x, device=place), A + A)


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("dask", r"be computed here and now; pass a\.compute\(\)"),
        ("pandas", r"lose its index, .*; pass a\.to_numpy\(\), or a\.to_numpy\(float\) where"),
        ("xarray", r"lose its dimensions and coordinates; pass a\.to_numpy\(\)"),
    ],
)
def test_arrays_of_dask_pandas_and_xarray(library, words, place):
    ways = {"__module__": f"{library}.core", "__array__": None}
    kind = type("Series", (Duck,), {**ways, "to_numpy": None, "compute": None})
    with pytest.raises(TypeError, match=rf"add: a is {library}'s Series and would {words}"):
        gpuops.add(kind(), 1, device=place)
