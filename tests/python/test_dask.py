"""gpuops.dask: Dask arrays stay lazy, and the result has the bytes of the whole call for any
chunks, by any scheduler."""

import engine
import numpy as np
import pytest

import gpuops

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'gpuops[dask]'")
da = pytest.importorskip("dask.array")

from dask.base import key_split  # noqa: E402
from dask_cases import (  # noqa: E402
    DTYPES,
    check_elementwise,
    check_jacobi,
    check_products,
    check_rdf,
    check_reductions,
)

import gpuops.dask as gd  # noqa: E402


@pytest.fixture(autouse=True)
def scheduler(request):
    name = getattr(request, "param", "sync")
    with dask.config.set(scheduler=name):
        yield name


both = pytest.mark.parametrize("scheduler", ["sync", "threads"], indirect=True)


@both
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("op", engine.REDUCTIONS)
@pytest.mark.sampled(every=11)
def test_reductions_have_the_bits_of_the_whole(op, name, scheduler):
    check_reductions(op, name, 1)


@both
@pytest.mark.sampled(later=True)
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("op", engine.REDUCTIONS)
def test_fifty_chunkings_have_the_bits_of_the_whole(op, name, scheduler):
    check_reductions(op, name, 50 if scheduler == "sync" else 3)


@pytest.mark.parametrize("axis", [0, -1, (0,), 1, None, ()])
@pytest.mark.parametrize("op", engine.REDUCTIONS)
def test_axes_of_a_number_are_those_of_the_whole(op, axis):
    """0 and -1 mean the number, as for NumPy; they were an AxisError."""

    def said(function, a):
        try:
            return np.asarray(function(a, axis=axis)).tobytes()
        except (TypeError, ValueError) as error:
            return str(error)

    whole = np.array(2.5)
    assert said(getattr(gd, op), da.from_array(whole)) == said(getattr(gpuops, op), whole)


@both
def test_elementwise(scheduler):
    check_elementwise()


@both
def test_products(scheduler):
    check_products()


def test_a_product_of_whole_sums_has_the_bits_of_its_block():
    a, b = engine.random((60, 90), "f4", 1), engine.random((90, 40), "f4", 2)
    x = gd.matmul(da.from_array(a, chunks=(25, 90)), da.from_array(b, chunks=(90, 15)))
    assert x.chunks == ((25, 25, 10), (15, 15, 10))
    engine.same_bits(x.compute()[25:50, :15], gpuops.matmul(a[25:50], b[:, :15]))


def test_a_task_of_a_product_holds_three_panels():
    """By the peak of NumPy's memory in one task: two operands, in chunks, and two blocks."""
    import tracemalloc

    from gpuops._dask.matrix import _product

    n = 256
    rows = [np.ones((n, n)) for _ in range(8)]
    columns = [np.ones((n, n)) for _ in range(8)]
    tracemalloc.start()
    _product(rows, columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * n * 8  # a third panel, beside the two that were there
    a, b = da.ones((4000, 8000), chunks=(2000, 1000)), da.ones((8000, 4000), chunks=2000)
    with pytest.raises(ValueError, match="8000 terms of its 2000 rows and 2000 col") as error:
        gd.matmul(a, b, memory="100 MB")
    first, second = str(error.value).partition("pass ")[2].split(" and ")
    gd.matmul(eval(first, {"a": a}), eval(second, {"b": b}), memory="100 MB")


@both
def test_rdf(scheduler):
    check_rdf()


def test_rdf_says_what_is_missing():
    gas = np.random.default_rng(0).random((9, 10, 3))
    x = da.from_array(gas, chunks=(2, 10, 3))
    with pytest.raises(TypeError, match="r_max is needed where bins is a count"):
        gd.rdf(x, box=(1, 1, 1))
    with pytest.raises(TypeError, match=r"points is a Dask array \(frames, n, 3\), a bag"):
        gd.rdf(gas, 0.4)
    with pytest.raises(ValueError, match=r"shape \(frames, n, 3\), not \(10, 3\)"):
        gd.rdf(x[0], 0.4)
    gas[7, 3, 1] = np.nan
    with pytest.raises(ValueError, match=r"points\[3, 1\] of frame 7 is nan"):
        gd.rdf(da.from_array(gas, chunks=(2, 10, 3)), 0.4, box=(1, 1, 1)).compute()
    bag = pytest.importorskip("dask.bag").from_sequence([], npartitions=1)
    with pytest.raises(ValueError, match="there is no frame"):
        gd.rdf(bag, 0.4).compute()


@pytest.mark.filterwarnings("default")  # MDAnalysis' own
def test_rdf_of_a_trajectory_that_tasks_open(tmp_path):
    mda = pytest.importorskip("MDAnalysis")
    rng = np.random.default_rng(1)
    made = mda.Universe.empty(30, trajectory=True)
    made.add_TopologyAttr("name", ["OW", "HW", "HW"] * 10)
    with mda.Writer(str(tmp_path / "gas.dcd"), 30) as writer:
        for _ in range(20):
            made.atoms.positions = rng.random((30, 3)) * 10
            made.dimensions = [*(10 + rng.random(3)), 90, 90, 90]
            writer.write(made.atoms)
    universe = made.load_new(str(tmp_path / "gas.dcd"))
    oxygen, all_atoms = universe.select_atoms("name OW"), universe.atoms
    for points, words in (
        (all_atoms, {}),
        (oxygen, {"points2": all_atoms, "exclude": "atom"}),
        (all_atoms, {"frames": slice(3, None, 2), "types": "name"}),
        (all_atoms, {"frames": [7, 2, 2], "norm": "none"}),
    ):
        want = gpuops.rdf(points, 4.5, 30, **words)
        seen = set()
        for each in (1, 3, None):
            got = gd.rdf(points, 4.5, 30, frames_per_task=each, **words).compute()
            engine.same_bits(got.counts, want.counts)
            assert got.frames == want.frames
            seen.add(got.g.tobytes())
        assert len(seen) == 1
    for frames in (iter([7, 2]), np.arange(20) < 2):  # an iterator was used up before
        assert gd.rdf(all_atoms, 4.5, 30, frames=frames).compute().frames == 2
    with pytest.raises(IndexError, match="rdf: frames has 20, and the trajectory has 20"):
        gd.rdf(all_atoms, 4.5, 30, frames=20)
    assert universe.trajectory.ts.frame == 0


@both
def test_jacobi(scheduler):
    check_jacobi()


def test_nothing_is_computed_before_it_is_asked_for():
    computed = []

    def block(a):
        computed.append(a.shape)
        return a

    x = da.ones((50, 40), chunks=25).map_blocks(block, dtype="f8", meta=np.empty((0, 0)))
    for lazy in (
        gd.sum(x, axis=0),
        gd.argmax(x, axis=1),
        gd.mean(x, axis=1, where=x > 0),
        gd.add(x, 1),
        gd.matmul(x, x.T),
        gd.transpose(x),
        gd.rdf(x[:, :39].reshape((50, 13, 3)), 0.4, box=(1, 1, 1)),
        gd.jacobi(gpuops.poisson(50), x),
    ):
        assert dask.is_dask_collection(lazy)
    assert computed == []


def test_tasks_are_named_by_the_operation():
    x = da.ones((40, 30), chunks=5)
    for lazy, name in (
        (gd.sum(x, axis=0), "gpuops-sum"),
        (gd.argmin(x, axis=0), "gpuops-argmin"),
        (gd.sum(da.ones(100, chunks=1)), "gpuops-sum-merge"),
        (gd.fma(x, x, 1), "gpuops-fma"),
        (gd.transpose(x), "gpuops-transpose"),
        (gd.matmul(x, x.T), "gpuops-matmul"),
        (gd.jacobi(gpuops.poisson(40), x), "gpuops-jacobi"),
        (gd.rdf(da.ones((4, 5, 3), chunks=(1, 5, 3)), 1.0), "gpuops-rdf"),
        (gd.rdf(da.ones((4, 5, 3), chunks=(1, 5, 3)), 1.0), "gpuops-rdf-frames"),
    ):
        names = {key_split(key) for key in dict(lazy.__dask_graph__())}
        assert name in names, names


def test_chunks_that_are_no_runs_are_rechunked_with_a_warning():
    a = engine.random((40, 5_000), "f4", 1)
    x = da.from_array(a, chunks=(10, 1_000))
    with pytest.warns(da.PerformanceWarning, match=r"781\.25 kiB are rechunked, since axis 1"):
        lazy = gd.sum(x)
    engine.same_bits(lazy.compute(), gpuops.sum(a))
    runs = x.rechunk((10, -1))
    for lazy in (gd.max(x), gd.sum(x, axis=1), gd.sum(x.astype("i4")), gd.sum(runs)):
        lazy.compute()  # no warning: they have no order, or are runs


def test_exact_sums_leave_chunks_where_they_are():
    a = engine.random((60, 500), "f4", 1)
    lazy = gd.sum(da.from_array(a, chunks=(20, 100)), exact=True)
    tasks = [key_split(key) for key in dict(lazy.__dask_graph__())]
    assert tasks.count("gpuops-sum") == 3 * 5 + 1  # a state for each chunk, and the result
    assert not [name for name in tasks if name.startswith("rechunk")]
    engine.same_bits(lazy.compute(), gpuops.sum(a, exact=True))


@both
def test_long_runs_merge_by_groups(scheduler):
    a = engine.random(5_000, "f4", 1)
    lazy = gd.sum(da.from_array(a, chunks=7))
    engine.same_bits(lazy.compute(), gpuops.sum(a))


def test_on_a_device():
    for device in engine.backends():
        a = engine.random(9_000, "f4", 1)
        x = da.from_array(a, chunks=5_000)
        engine.same_bits(gd.sum(x, device=device).compute(), gpuops.sum(a))
        engine.same_bits(gd.add(x, x, device=gpuops.Device(device)).compute(), a + a)


def test_chunks_of_cupy_stay_cupy():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if not gpuops.is_available("cuda"):
        pytest.skip("no GPU answers")
    a = engine.random((5_000, 6), "f4", 1)
    x = da.from_array(cupy.asarray(a), chunks=(1_500, 6), asarray=False)
    for lazy, want in (
        (gd.sum(x, axis=0), gpuops.sum(a, axis=0)),
        (gd.argmax(x, axis=0), gpuops.argmax(a, axis=0)),
        (gd.add(x, x), a + a),
        (gd.transpose(x), a.T),
        (gd.matmul(x[:, :3], x[:3, :2]), gpuops.matmul(a[:, :3], a[:3, :2], device="cuda")),
    ):
        assert isinstance(lazy._meta, cupy.ndarray)
        got = lazy.compute()
        assert isinstance(got, cupy.ndarray)
        engine.same_bits(got.get(), want)


LINE = gpuops.poisson((6,))


def test_wrong_operands_have_a_sentence():
    a = np.ones(6)
    x, cube = da.from_array(a, chunks=4), da.ones((2, 3, 4))
    for call, kind, words in (
        (lambda: gd.sum(a), TypeError, r"gpuops\.dask\.sum: a is a Dask array, not array\(\[1"),
        (lambda: gd.add(a, a), TypeError, r"gpuops\.dask\.add: a is a Dask array"),
        (lambda: gd.sum(x[x > 0]), ValueError, r"unknown size: call a\.compute_chunk_"),
        (lambda: gd.sum(x, axis=2), np.exceptions.AxisError, "sum: axis 2 is out of bounds"),
        (lambda: gd.sum(x, keepdims="no"), TypeError, "sum: keepdims is an integer, not 'no'"),
        (lambda: gd.jacobi(LINE, x, steps=10**9), ValueError, "make 200000000 tasks, expected"),
        (lambda: gd.sum(x, where=a), TypeError, "sum: where has dtype float64, expected bool"),
        (lambda: gd.sum(x, where=a[:4] > 0), ValueError, r"where of shape \(4,\) does not"),
        (lambda: gd.transpose(x, (0, 0)), ValueError, "transpose: "),
        (lambda: gd.matmul(x, da.ones(5)), ValueError, r"matmul: shapes \(6,\) and \(5,\)"),
        (lambda: gd.sum(x.astype(object)), TypeError, "sum: a has dtype object"),
        (lambda: gd.min(x, where=a < 0).compute(), ValueError, "^min of no terms has no val"),
        (lambda: gd.add(x, da.ones(5)), ValueError, r"^add: operands .*\(6,\) \(5,\)"),
        (lambda: gd.fma(x, 1.0, a[:4]), ValueError, r"^fma: operands .*\(6,\) \(4,\)"),
        (lambda: gd.matmul(cube, da.ones((3, 4, 5))), ValueError, "^matmul: the batch"),
        (lambda: gd.matmul(cube, cube[0].T, memory="x"), ValueError, "memory is 'x', ex"),
        (lambda: gd.matmul(cube, cube[0].T, memory=9), ValueError, "memory = 9 B is less than"),
        (lambda: gd.matmul(cube, cube[0].T, memory=-1), ValueError, "memory = -1 B is less"),
        (lambda: gd.argmin(x[:0]), ValueError, "^argmin: there is nothing to reduce in"),
    ):
        with pytest.raises(kind, match=words):
            call()


def test_plain_functions_name_the_module():
    x, db = da.ones((4, 3), chunks=2), pytest.importorskip("dask.bag")
    for call, op in (
        (lambda: gpuops.sum(x), "sum"),
        (lambda: gpuops.sum(np.ones((4, 3)), where=x > 0), "sum"),
        (lambda: gpuops.add(1, x), "add"),
        (lambda: gpuops.matmul(np.ones((3, 4)), x), "matmul"),
        (lambda: gpuops.rdf(x, 1.0), "rdf"),
        (lambda: gpuops.rdf(db.from_sequence([np.ones((4, 3))]), 1.0), "rdf"),
        (lambda: gpuops.jacobi(gpuops.poisson(4), x[:, 0]), "jacobi"),
        (lambda: gpuops.states("max", x), "max"),
    ):
        words = rf"computed here and now, which gpuops\.dask\.{op} leaves for later; pass"
        with pytest.raises(TypeError, match=words):
            call()
    with pytest.raises(TypeError, match=r"rdf: types is dask's Array .* pass types\.comp"):
        gpuops.rdf(np.ones((4, 3)), 1.0, types=x[:, 0])
