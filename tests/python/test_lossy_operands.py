"""What would lose more than its class is refused, wherever it is hidden, and what the refusal
advises works."""

import re
from unittest.mock import Mock

import engine
import numpy as np
import pytest

import gpuops
from gpuops._call.meaning import read

PLACES = engine.backends()
MASKED = np.ma.array([1.0, 1e20], mask=[0, 1])


class Gives:
    """An object whose `__array__` gives what it was made with."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class Metres(np.ndarray):
    def __array_finalize__(self, other):
        self.unit = "m"


QUANTITY = np.ones(2).view(Metres)


def module(name, **members):
    """A class that says it is of another library."""
    return type("Theirs", (), {"__module__": name, **members})


def advised(error) -> str:
    """The expression that a sentence tells to pass."""
    return re.search(r"pass (.*)", str(error.value))[1]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("a", "words", "values"),
    [
        (MASKED, "[ab] is a masked array", [1.0, 7.0]),
        (Gives(MASKED), "[ab] becomes a masked array", [1.0, 7.0]),
        (Gives(np.ma.ones(2)), "[ab] becomes a masked array", [1.0, 1.0]),
        (QUANTITY, "[ab] is a Metres, .* units", [1.0, 1.0]),
        (Gives(QUANTITY), "[ab] becomes a Metres, .* units", [1.0, 1.0]),
    ],
)
def test_a_mask_or_a_unit_is_refused_and_the_advice_works(a, words, values, place):
    for call in (gpuops.sum, gpuops.transpose, lambda a, **k: gpuops.add(1, a, **k)):
        with pytest.raises(TypeError, match=words) as error:
            call(a, device=place)
        name = "b" if str(error.value).startswith("add") else "a"
        passed = eval(advised(error), {"np": np, "value": 7.0, name: a})
        assert type(passed) is np.ndarray
        assert passed.tolist() == values
        call(passed, device=place)


@pytest.mark.parametrize("a", [
    ([MASKED], r"a\[0\] is a masked array"),
    ((1.0, np.ma.masked), r"a\[1\] is a masked array"),
    ([[1.0, 2.0], Gives(MASKED)], r"a\[1\] becomes a masked array"),
    ([[[0.0] * 2], [QUANTITY]], r"a\[1\]\[0\] is a Metres"),
    ([gpuops.to_device(np.ones(2), "cpu")], r"a\[0\]: a DeviceArray .* use \.get\(\)"),
    ([module("pandas", to_numpy=0, __array__=0)()], r"a\[0\] is pandas's Theirs"),
], ids=lambda a: a[1])  # fmt: skip
def test_within_lists(a):
    with pytest.raises(TypeError, match="sum: " + a[1]):
        gpuops.sum(a[0])


def test_lists_of_plain_things_are_read_as_by_numpy(tmp_path):
    mapped = np.memmap(tmp_path / "a", "f8", "w+", shape=2)
    for a in ([np.ones(2), [2, 3]], [mapped, mapped], [Gives(np.ones(2))] * 2, [], [[], []]):
        assert np.array_equal(read("sum", "a", a), np.array(a))
    itself = []
    itself.append(itself)
    with pytest.raises(ValueError, match=r"^sum: a: .* dimension"):
        gpuops.sum(itself)


def test_every_argument_is_asked():
    square, v, points = np.eye(2), np.ones(2), np.random.default_rng(1).random((5, 3))
    one = QUANTITY[:1].reshape(())
    for call in (
        lambda: gpuops.sum(v, where=[np.ma.array([True, True], mask=[0, 1])]),
        lambda: gpuops.sum(v, initial=Gives(np.ma.masked)),
        lambda: gpuops.jacobi_step(Gives(np.ma.array(square)), v, v),
        lambda: gpuops.jacobi_step(square, v, v, alpha=one),
        lambda: gpuops.rdf(Gives(np.ma.array(points)), 0.5, 10),
        lambda: gpuops.rdf(points, one, 10),
        lambda: gpuops.rdf(
            points, 0.5, exclude=np.ma.array([0, 0, 1, 1, 2], mask=[1] + [0] * 4)
        ),
        lambda: gpuops.rdf(points, 0.5, exclude=Gives(np.ma.zeros(5, int))),
        lambda: gpuops.rdf(points, 0.5).coordination(np.ma.array([0.1, 0.2], mask=[0, 1])),
        lambda: gpuops.rdf(points, 0.5).coordination(Gives(np.ma.array(0.1))),
        lambda: gpuops.states("sum", Gives(MASKED)),
        lambda: gpuops.stencil(Gives(np.ma.ones(3)), 8),
        lambda: gpuops.to_device(Gives(MASKED), "cpu"),
    ):
        with pytest.raises(TypeError, match=r"mask would be ignored|units, would be lost"):
            call()
    with pytest.raises(TypeError, match="alpha is a number, not"):
        gpuops.jacobi_step(square, v, v, alpha=Gives(np.ma.masked))


def test_what_array_may_give_besides():
    plain = type("Plain", (np.ndarray,), {})
    assert gpuops.sum(Gives(np.arange(3).view(plain))) == 3
    with pytest.raises(TypeError, match="a is a Gives; expected an array"):
        gpuops.sum(Gives(np.array([1, None])))
    with pytest.raises(TypeError, match=r"a has dtype \[\('f0'"):
        gpuops.sum(Gives(np.zeros(2, "f4,i4")))
    with pytest.raises(ValueError, match="a: object __array__ method not producing an array"):
        gpuops.sum(Gives([1, 2]))
    described = {**np.ones(2).__array_interface__, "mask": np.ones(2, bool)}
    with pytest.raises(TypeError, match="a: its __array_interface__ has a mask"):
        gpuops.sum(type("Facts", (), {"__array_interface__": described})())


def test_errors_of_theirs_that_take_other_arguments():
    class TheirError(TypeError):
        def __init__(self, one, two):
            super().__init__(f"{one} {two}")

    class Fails:
        def __array__(self, dtype=None, copy=None):
            raise TheirError("no", "units")

    with pytest.raises(TypeError, match=r"^sum: a: no units$"):
        gpuops.sum(Fails())


def ufunc(*args, **words):
    return NotImplemented


SPARSE = {"__array_ufunc__": ufunc, "__array__": ufunc, "shape": (2, 2)}


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (module("sparse.core", todense=0, tocsr=0, **SPARSE), "a.todense()"),
        (module("sparse.dok", todense=0, **SPARSE), "a.todense()"),
        (module("scipy.sparse", toarray=0, todense=0, tocsr=0, shape=0), "a.toarray()"),
        (module("xarray", to_numpy=0, __array__=0), "a.to_numpy()"),
        (module("xarray", data_vars=0, __array__=0), "a variable of it, as a['x'].to_numpy()"),
        (module("dask.array", compute=0, __array__=0), "a.compute()"),
        (module("dask.dataframe", compute=0, to_dask_array=0), "a.compute().to_numpy()"),
        (module("polars", to_numpy=0, __array__=0), "a.to_numpy()"),
        (module("polars", collect=0), "a.collect().to_numpy()"),
        (module("awkward", to_numpy=0, __array__=0), "a.to_numpy()"),
        (module("pint.registry", magnitude=0, **SPARSE), "a.magnitude"),
        (module("units", **SPARSE), "np.asarray(a)"),
    ],
)
def test_the_way_out_is_one_that_they_have(kind, way):
    with pytest.raises(TypeError) as error:
        gpuops.add(kind(), 1.0)
    assert advised(error) == way


def test_a_sparse_matrix_that_becomes_no_csr():
    """As GCXS of the package sparse; np.asarray of one raises."""
    kind = module("sparse.gcxs", **SPARSE | {"todense": lambda self: 2 * np.eye(2)})
    for solve in (gpuops.jacobi, lambda A, f: gpuops.jacobi_step(A, f, np.zeros(2))):
        with pytest.raises(TypeError, match="A is a sparse matrix") as error:
            solve(kind(), np.ones(2))
        solve(eval(advised(error), {"A": kind()}), np.ones(2))


def column(nulls: int):
    """As pyarrow's arrays, whose nulls become NaN without a word."""
    kind = module("pyarrow.lib", __array__=lambda self, *a, **k: np.array([1.0, np.nan]))
    kind.null_count = nulls
    return kind()


def table(*columns):
    kind = module("pyarrow.lib", __array__=lambda self, *a, **k: np.ones((2, len(columns))))
    kind.columns = columns
    return kind()


def test_nulls_of_arrow():
    for a in (column(1), table(column(0), column(2)), [column(1)]):
        with pytest.raises(TypeError, match="lose which values are null") as error:
            gpuops.sum(a)
        assert advised(error).startswith("np.asarray(a")
    assert np.isnan(gpuops.sum(column(0)))
    assert gpuops.sum(table(column(0), column(0))) == 4


def test_a_method_that_only_raises_is_no_advice():
    """pyarrow's arrays of strings have it."""

    class Strings:
        def __dlpack__(self, **words):
            raise TypeError("Can only use DLPack on primitive arrays")

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(TypeError, match="a is a Strings; expected") as error:
        gpuops.sum(Strings())
    assert "from_dlpack" not in str(error.value)


def no_scalar_type(*args, **words):
    raise TypeError("Got unsupported ScalarType Float8_e5m2")


@pytest.mark.parametrize(("facts", "way"), [
    ((False, False), "to(torch.float32)"),
    ((True, False), "to(torch.complex64)"),
    ((False, True), "dequantize()"),
])  # fmt: skip
def test_tensors_of_a_dtype_that_numpy_has_not(facts, way):
    is_complex, is_quantized = facts
    kind = module("torch", __array__=no_scalar_type, dtype="torch.odd")
    kind.is_complex, kind.is_quantized = lambda self: is_complex, is_quantized
    for a, name in ((kind(), "a"), ([kind()], "a[0]")):
        with pytest.raises(TypeError, match=r"dtype torch\.odd, which NumPy has not") as error:
            gpuops.sum(a)
        assert advised(error) == f"{name}.{way}"


def test_a_layout_that_pytorch_makes_no_csr_of():
    def fails(self):
        raise RuntimeError("expected SparseCsr or SparseCsc layout but got SparseBsr")

    kind = module("torch", to_sparse_csr=fails, layout="torch.sparse_bsr", shape=(2, 2))
    for call in (lambda A: gpuops.jacobi(A, np.ones(2)), gpuops.sparse):
        with pytest.raises(TypeError, match=r"layout is torch\.sparse_bsr") as error:
            call(kind())
        assert advised(error) == "A.to_dense().to_sparse_csr()"


def test_sparse_matrices_of_scipy_by_the_advice():
    scipy = pytest.importorskip("scipy.sparse")
    a = scipy.eye_array(2)
    with pytest.raises(TypeError) as error:
        gpuops.sum(a)
    assert gpuops.sum(eval(advised(error), {"a": a})) == 2
    for ours in (gpuops.poisson(2), gpuops.sparse(a)):
        with pytest.raises(TypeError) as error:
            gpuops.sum(ours)
        assert gpuops.sum(eval(advised(error), {"a": ours})) == 2


class Capsule:
    """Memory that is told by DLPack alone."""

    def __dlpack__(self, **words):
        return np.arange(3.0).__dlpack__(**words)

    def __dlpack_device__(self):
        return 1, 0


class File:
    """As SciPy's netcdf_variable: an array by indexing alone."""

    shape = (3,)

    def __getitem__(self, at):
        return np.arange(3.0)[at]


@pytest.mark.parametrize("a", [Capsule(), File()])
def test_arrays_that_numpy_does_not_see(a):
    with pytest.raises(TypeError, match="expected an array, a list") as error:
        gpuops.sum(a)
    way = re.search(r"(np.from_dlpack\(a\)|a\[\.\.\.\])", str(error.value))[1]
    assert gpuops.sum(eval(way, {"np": np, "a": a})) == 3


def shapeless(self, dtype=None, copy=None):
    return np.empty(self.shape)  # a TypeError about shapes


@pytest.mark.parametrize(
    ("a", "kind", "words"),
    [
        (Mock(), TypeError, "a is a Mock; expected"),
        ([1, 2**70], OverflowError, f"a holds {2**70}, and no integer dtype is so large"),
        (-(2**70), OverflowError, f"a holds -{2**70}, and no integer"),
        ([[10**6000]], OverflowError, "a holds an integer of 19932 bits"),
        ([None, 1], TypeError, "a is a list of objects; expected"),
        (int, TypeError, "a is a type; expected"),
        (module("h5py", shape=None)(), TypeError, "a is a Theirs; expected"),
        (
            module("h5py", shape=None, __array__=shapeless)(),
            TypeError,
            "a is a Theirs; expected",
        ),
    ],
    ids=lambda x: "" if isinstance(x, list) else None,
)
def test_what_is_no_array(a, kind, words):
    with pytest.raises(kind, match=f"^sum: {words}"):
        gpuops.sum(a)
    assert gpuops.sum([float(2**70)]) == 2.0**70  # "pass floats"


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda a: gpuops.jacobi(a, np.ones(3)), ValueError, "jacobi: expected a square"),
        (lambda a: gpuops.jacobi_step(a, np.ones(3), np.ones(3)), ValueError, "jacobi_step: "),
        (gpuops.sparse, ValueError, "sparse: expected a square matrix A, got a sparse"),
    ],
)
def test_what_has_every_attribute(call, kind, words):
    with pytest.raises(kind, match=f"^{words}"):
        call(Mock())


# ---- words of other libraries ----


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: gpuops.sum(a, dim=0), "dim= is not taken; here it is axis="),
        (lambda a: gpuops.sum(a, axis=0, keepdim=True), "here it is keepdims="),
        (lambda a: gpuops.max(a, axes=0), "here it is axis="),
        (lambda a: gpuops.transpose(a, axis=(1, 0)), "here it is axes="),
        (lambda a: gpuops.jacobi(a, a[0], tol=1e-3), "jacobi: tol= is not taken; .* rtol="),
        (lambda a: gpuops.jacobi(a, b=a[0]), "jacobi: b= is not taken; here it is f="),
        (lambda a: gpuops.rdf(a, nbins=5), "rdf: nbins= is not taken; here it is bins="),
        (lambda a: gpuops.jacobi(a, a[0], max_iterations=9), "max_iterations= .* maxiter="),
        (lambda a: gpuops.rdf(a, cutoff=1.0), "rdf: cutoff= is not taken; here it is r_max="),
        (lambda a: gpuops.rdf(a, range=(0, 1)), "give r_min= and r_max="),
        (lambda a: gpuops.add(a, other=a), "here it is b="),
        (lambda a: gpuops.mean(a, initial=1.0), r"gpuops\.sum\(a, initial=value\) has it"),
        (lambda a: gpuops.argmax(a, where=a > 1), r"np\.where\(mask, a, -np\.inf\) leaves"),
        (lambda a: gpuops.argmin(a, where=a > 1), r"np\.where\(mask, a, np\.inf\) leaves"),
        (lambda a: gpuops.add(a, a, where=a > 1), r"np\.copyto\(out, result, where=mask\)"),
        (lambda a: gpuops.any(a, dtype="f4"), r"cast the result with \.astype\(\)"),
        (lambda a: gpuops.matmul(a, a, axes=[0]), r"np\.moveaxis"),
    ],
)
def test_keywords_that_are_called_otherwise(call, words):
    with pytest.raises(TypeError, match=words):
        call(np.ones((2, 2)))


def test_the_advice_for_masked_positions():
    a, mask = np.array([3, 9, 1, 7]), np.array([1, 0, 0, 1], bool)
    assert gpuops.argmax(np.where(mask, a, -np.inf)) == 3
    assert gpuops.argmin(np.where(mask, a, np.inf)) == 0


@pytest.mark.parametrize("op", ["add", "multiply_add", "fma", "matmul", "sum", "max", "argmax"])
def test_the_ellipsis_is_a_keyword_alone(op):
    count = {"multiply_add": 3, "fma": 3, "add": 2, "matmul": 2}.get(op, 1)
    arrays = [np.ones((2, 2))] * count
    function = getattr(gpuops, op)
    places = [None] * {"sum": 2, "max": 1, "argmax": 1}.get(op, 0)
    with pytest.raises(TypeError, match=rf"^{op}: out=\.\.\. is only allowed as a keyword"):
        function(*arrays, *places, ...)
    with pytest.raises(TypeError, match=rf"^{op}: out=\.\.\. stands by itself, not in a tuple"):
        function(*arrays, out=(...,))
    assert type(function(*arrays, out=...)) is np.ndarray


# ---- 0-d arrays along an axis; empty arrays of large extents ----


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", [w for w in engine.REDUCTIONS if w != "reduce"])
@pytest.mark.parametrize("axis", [(0,), (-1,)])
def test_a_scalar_has_no_axis_in_a_tuple(op, axis, place):
    function, a = getattr(gpuops, op), np.array(3.0)
    device = gpuops.to_device(a, place)
    for call in (
        lambda: function(a, axis, device=place),
        lambda: function(a, axis=axis, device=place),
        lambda: function(a, axis=axis, keepdims=True, device=place),
        lambda: function(a, axis=axis, kernel="naive", device=place),
        lambda: function(device, axis=axis),
        lambda: function(3.0, axis=axis, device=place),
        lambda: gpuops.reduce(a, op, axis=axis, device=place),
        lambda: gpuops.states(op, a, axis=axis, device=place),
    ):
        with pytest.raises(np.exceptions.AxisError, match=rf"{op}: axis {axis[0]} is out of"):
            call()
    if op[:3] != "arg":  # which take one axis
        assert function(a, axis=(), device=place) in (3.0, True)
    if op != "mean":  # for which NumPy has no such meaning
        assert function(a, axis=axis[0], device=place) == function(a)
        assert function(device, axis=axis[0]).get() == function(a)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", [
    (2**40, 0, 2**20), (2**40, 0), (2**40, 2**20, 0), (0, 2**60), (1, 2**60, 0),
])  # fmt: skip
def test_empty_arrays_with_large_extents(shape, place):
    a = np.empty(shape, "f")
    on_device = gpuops.to_device(a, place)
    assert gpuops.add(a, 1, device=place).shape == shape
    assert gpuops.add(on_device, on_device).shape == on_device.get().shape == shape
    assert gpuops.transpose(a, device=place).shape == shape[::-1]
    assert gpuops.sum(a, device=place) == 0.0
    kept = tuple(i for i, n in enumerate(shape) if n)
    assert gpuops.sum(a, axis=kept, device=place).shape == (0,)
    if len(kept) == 2:
        assert (
            gpuops.matmul(a, np.empty((*shape[:-2], shape[-1], 0), "f"), device=place).size == 0
        )
    if len(kept) == 2 and 1 not in shape:
        with pytest.raises(ValueError, match=r"^sum: an array of .* has too many elements"):
            gpuops.sum(a, axis=shape.index(0), device=place)


def test_a_result_whose_extents_have_no_product_is_refused():
    a = np.broadcast_to(np.empty((1, 0, 1), "i1"), (2**40, 0, 1))
    b = np.broadcast_to(np.empty((1, 1, 1), "i1"), (1, 1, 2**40))
    with pytest.raises(ValueError, match="too big"):
        np.add(a, b)
    with pytest.raises(ValueError, match=r"^add: an array of shape .* has too many elements"):
        gpuops.add(a, b)


@pytest.mark.parametrize("device", PLACES)
def test_what_pytorch_refuses_to_give_names_the_operation(device):
    """A tensor that requires a gradient: PyTorch raises a RuntimeError, with its advice."""

    class Tensor:
        __module__ = "torch"

        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("Use tensor.detach().numpy() instead.")

    for a in (Tensor(), [Tensor()]):
        with pytest.raises(BufferError, match=r"^sum: a(\[0\])?: Use tensor.detach\(\)"):
            gpuops.sum(a, device=device)

    class Own(Tensor):
        __module__ = "own"

    with pytest.raises(RuntimeError, match=r"^Use tensor"):  # another's error stays its own
        gpuops.sum(Own(), device=device)
