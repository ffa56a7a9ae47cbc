"""States of runs of terms: however an array is cut, and in whatever order its states merge, the
result has the bytes of the whole call."""

import itertools
import pickle
import warnings

import engine
import numpy as np
import pytest
from engine import dtype_of
from hypothesis import given, settings
from hypothesis import strategies as some

import gpuops

FLOATS = ("sum", "mean", "prod")
DTYPES = ("bool", "i1", "u8", "f2", "bfloat16", "f4", "f8", "c8", "c16")
# (shape, axis, the axis that is cut, terms of an element of it)
FORMS = (
    ((70_001,), None, 0, 1),
    ((9_000, 3), 0, 0, 1),
    ((2, 5_000, 3), (1, 2), 1, 3),
    ((3, 8_192), 1, 1, 1),
    ((40, 7, 19), None, 0, 7 * 19),
)


def values(op: str, shape, name: str, seed: int = 0) -> np.ndarray:
    a = engine.random(shape, dtype_of(name), seed)
    if op == "prod" and a.dtype.kind not in "biu":  # near 1, so that it stays finite
        near = 1 + engine.random(shape, "f8", seed) / 1000
        return (near * np.exp(1j * near) if a.dtype.kind == "c" else near).astype(a.dtype)
    return a


def in_states(op, a, axis, cut_axis, inner, cuts, device=None, **words) -> list:
    """The states of the chunks between `cuts`."""
    found = []
    for first, last in itertools.pairwise(cuts):
        at = (slice(None),) * cut_axis + (slice(first, last),)
        given = dict(words)
        if "where" in given:
            given["where"] = given["where"][at]
        chunk = a[at]
        if device:
            chunk = gpuops.to_device(chunk, device)
            given |= {k: gpuops.to_device(v, device) for k, v in given.items() if k == "where"}
        found.append(gpuops.states(op, chunk, axis, start=first * inner, **given))
    return found


def merged(states: list, rng):
    """By pairs of neighbours, drawn at random and in either order, pickled between."""
    states = [*states]
    while len(states) > 1:
        i = rng.integers(len(states) - 1)
        s, t = pickle.loads(pickle.dumps(states[i : i + 2]))
        turned = rng.random() < 0.5 and s.start < s.stop < t.stop
        states[i : i + 2] = [gpuops.merge(t, s) if turned else gpuops.merge(s, t)]
    return states[0]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: "x".join(map(str, f[0])))
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("op", engine.REDUCTIONS)
def test_merged_states_have_the_bits_of_the_whole(op, name, form):
    shape, axis, cut_axis, inner = form
    if op.startswith("arg") and isinstance(axis, tuple):
        axis, inner = 1, 1
    a = values(op, shape, name)
    want = gpuops.reduce(a, op, axis)
    extent, rng = shape[cut_axis], np.random.default_rng(len(op))
    for k in (0, 1, 2, 9):
        cuts = [0, *np.sort(rng.integers(0, extent + 1, k)).tolist(), extent]
        states = in_states(op, a, axis, cut_axis, inner, cuts)
        engine.same_bits(gpuops.finish(merged(states, rng)), want)
    aligned = [*range(0, extent, 2048), extent]
    states = in_states(op, a, axis, cut_axis, inner, aligned)
    engine.same_bits(gpuops.finish(merged(states, rng)), want)


@pytest.mark.parametrize("name", ["i4", "f2", "f4", "c16"])
@pytest.mark.parametrize("op", ["sum", "prod", "mean", "min", "max", "any", "all"])
def test_masks_are_cut_with_their_array(op, name):
    for shape, axis, cut_axis, inner in FORMS[:3]:
        a = values(op, shape, name)
        mask = np.random.default_rng(1).random(shape) < 0.7
        want = gpuops.reduce(a, op, axis, where=mask, **initial(op, a.dtype))
        for cuts in ([0, 700, 701, 2048, shape[cut_axis]], [0, 4096, shape[cut_axis]]):
            states = in_states(op, a, axis, cut_axis, inner, cuts, where=mask)
            got = gpuops.finish(merged(states, np.random.default_rng(2)))
            engine.same_bits(got, want)


def initial(op, dtype) -> dict:
    if op not in ("min", "max"):
        return {}
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return {"initial": int(limits.max if op == "min" else limits.min)}
    number = np.inf if op == "min" else -np.inf
    return {"initial": complex(number, number) if dtype.kind == "c" else number}


@pytest.mark.parametrize("name", ["f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("op", engine.REDUCTIONS)
def test_nan_infinity_and_zeros(op, name):
    rng = np.random.default_rng(3)
    for seed in range(5):
        a = engine.random(6_000, name, seed, special=True)
        states = in_states(op, a, None, 0, 1, [0, 1_000, 3_000, 3_001, 6_000])
        engine.same_bits(gpuops.finish(merged(states, rng)), gpuops.reduce(a, op))
    zeros = np.full(5_000, -0.0).astype(name)
    states = in_states(op, zeros, None, 0, 1, [0, 10, 5_000])
    engine.same_bits(gpuops.finish(merged(states, rng)), gpuops.reduce(zeros, op))


@pytest.mark.parametrize(
    ("op", "name", "dtype"),
    [("sum", "f4", "f8"), ("mean", "f8", "f2"), ("sum", "i4", "f4"), ("sum", "i8", "i1"),
     ("prod", "f8", "f4"), ("mean", "i2", "f4"), ("sum", "bfloat16", "f8")],
)  # fmt: skip
def test_the_dtype_is_that_of_the_whole(op, name, dtype):
    a = values(op, (9_000,), name)
    states = in_states(op, a, None, 0, 1, [0, 100, 5_000, 9_000], dtype=dtype)
    got = gpuops.finish(merged(states, np.random.default_rng(4)))
    engine.same_bits(got, gpuops.reduce(a, op, dtype=dtype))


@pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cpu"] + ["cpu"])
@pytest.mark.parametrize("op", engine.REDUCTIONS)
def test_arrays_on_a_device_are_reduced_there(op, device, monkeypatch):
    """Their large parts run on it; the state, which is small, lies on the host."""
    ran = []
    road = gpuops.runs._road
    call = road.Call

    def seen(op, *args, **words):
        made = call(op, *args, **words)
        ran.append((op, made.choose()[0]))
        return made

    monkeypatch.setattr(road, "Call", seen)
    for name, shape, axis in (
        ("f4", (6_000, 2), 0),
        ("i4", (5_000,), None),
        ("f2", (2, 4_500, 2), (1, 2)),
        ("c8", (3, 4_100), 1),
    ):
        if op.startswith("arg") and isinstance(axis, tuple):
            axis = 1
        cut_axis = shape.index(max(shape))
        inner = 2 if isinstance(axis, tuple) else 1
        a = values(op, shape, name)
        want = gpuops.reduce(a, op, axis)
        for view in (a, engine.layout(a, "transposed")):
            ran.clear()
            cuts = [0, 2_100, 4_096, max(shape)]
            states = in_states(op, view, axis, cut_axis, inner, cuts, device)
            assert ("reduce", device.partition(":")[0]) in ran
            got = gpuops.finish(merged(states, np.random.default_rng(5)))
            engine.same_bits(got, want)
    mask = np.random.default_rng(6).random((6_000, 2)) < 0.5
    if not op.startswith("arg"):
        a = values(op, (6_000, 2), "f8")
        states = in_states(op, a, 0, 0, 1, [0, 2_100, 6_000], device, where=mask)
        want = gpuops.reduce(a, op, 0, where=mask, **initial(op, a.dtype))
        engine.same_bits(gpuops.finish(merged(states, np.random.default_rng(5))), want)


@pytest.mark.parametrize("layout", engine.LAYOUTS)
def test_chunks_in_any_layout(layout):
    a = engine.layout(values("sum", (5_000, 3), "f4"), layout)
    for op in ("sum", "mean", "argmax", "max"):
        for axis in (0, None):
            states = in_states(op, a, axis, 0, 1 if axis == 0 else 3, [0, 1_500, 5_000])
            engine.same_bits(gpuops.finish(gpuops.merge(*states)), gpuops.reduce(a, op, axis))


@settings(max_examples=60, deadline=None)
@given(some.lists(some.integers(0, 12_000), max_size=6), some.integers(0, 2**32),
       some.sampled_from(["sum", "mean", "argmin"]))  # fmt: skip
def test_merging_is_associative(cuts, seed, op):
    a = engine.random(12_000, "f4", 7)
    cuts = [0, *sorted(cuts), 12_000]
    got = merged(in_states(op, a, None, 0, 1, cuts), np.random.default_rng(seed))
    engine.same_bits(gpuops.finish(got), gpuops.reduce(a, op))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("op", ["sum", "mean"])
def test_exact_states_have_no_order(op, name):
    """Chunks along both axes, in any order, and their rows in any order as well."""
    rng = np.random.default_rng(8)
    for special in (False, True):
        a = engine.random((60, 500), dtype_of(name), 1, special=special)
        if a.dtype.kind not in "biu":  # far apart, so that any rounding on the way would show
            with np.errstate(all="ignore"):
                a = (a * (10.0 ** rng.integers(-4, 4, a.shape)).astype(a.real.dtype)).astype(
                    a.dtype
                )
        mask = rng.random(a.shape) < 0.7
        for axis in (None, 0, (0, 1)):
            want = gpuops.reduce(a, op, axis, exact=True, where=mask)
            columns = [slice(0, 130), slice(130, 500)] if axis != 0 else [slice(None)]
            parts = [
                (rows, part)
                for rows in np.split(rng.permutation(60), [7, 20])
                for part in columns
            ]
            states = [
                gpuops.states(op, a[rows, part], axis, exact=True, where=mask[rows, part])
                for rows, part in parts
            ]
            rng.shuffle(states)
            engine.same_bits(gpuops.finish(gpuops.merge(*states)), want)


def test_exact_states_of_nothing_and_of_another_kind():
    none = gpuops.states("sum", np.empty(0), exact=True)
    engine.same_bits(gpuops.finish(none), gpuops.sum(np.empty(0), exact=True))
    with pytest.warns(RuntimeWarning, match="mean of an empty slice"):
        assert np.isnan(gpuops.finish(gpuops.states("mean", np.empty(0), exact=True)))
    one = gpuops.states("sum", np.ones(3))
    with pytest.raises(ValueError, match="different kinds, exact and not exact"):
        gpuops.merge(none, one)
    with pytest.raises(TypeError, match="prod: exact=True is only for sum and mean"):
        gpuops.states("prod", np.ones(3), exact=True)
    assert gpuops.states("sum", np.ones(1 << 20, "f4"), exact=True).nbytes == 13 * 8
    assert gpuops.finish(gpuops.states("sum", np.ones((3, 0)), 0, exact=True)).shape == (0,)


def test_nothing_and_empty_runs():
    empty = np.empty(0, "f4")
    for op in ("sum", "prod", "any", "all"):
        engine.same_bits(gpuops.finish(gpuops.states(op, empty)), gpuops.reduce(empty, op))
    with pytest.warns(RuntimeWarning, match="mean of an empty slice"):
        assert np.isnan(gpuops.finish(gpuops.states("mean", empty)))
    for op in ("min", "argmax"):
        with pytest.raises(ValueError, match=rf"finish: {op} of no terms has no value"):
            gpuops.finish(gpuops.states(op, empty))
        a = np.array([2.0, 1.0])
        for states in ([a, empty], [empty, a]):
            start = len(states[0])
            s = gpuops.states(op, states[0])
            t = gpuops.states(op, states[1], start=start)
            kind = s.dtype
            if s.dtype != t.dtype:
                t = gpuops.states(op, states[1].astype(kind), start=start)
            engine.same_bits(
                gpuops.finish(gpuops.merge(s, t)), gpuops.reduce(a.astype(kind), op)
            )
    with pytest.raises(ValueError, match="min of no terms"):
        gpuops.finish(gpuops.states("min", [1.0, 2.0], where=[False, False]))
    one = gpuops.states("sum", 2.5)
    engine.same_bits(gpuops.finish(one), gpuops.sum(2.5))
    assert gpuops.finish(gpuops.states("max", np.empty((3, 0)), axis=0)).shape == (0,)
    assert gpuops.finish(gpuops.states("argmax", np.empty((3, 0)), axis=0)).shape == (0,)
    for op in ("min", "argmax"):  # as reduce and NumPy
        for shape in ((0, 0), (0, 5, 0)):
            with pytest.raises(ValueError, match="nothing to reduce"):
                gpuops.reduce(np.empty(shape), op, axis=0)
            with pytest.raises(ValueError, match=f"{op} of no terms"):
                gpuops.finish(gpuops.states(op, np.empty(shape), axis=0))


@pytest.mark.parametrize("op", ["sum", "mean", "prod", "max", "argmin"])
def test_a_device_that_is_not_there_is_refused(op):
    for exact in (False, True) if op in ("sum", "mean") else (False,):
        for n in (0, 3, 5000):  # fewer terms than a leaf are only kept
            with pytest.raises(ValueError, match="there is no device 'bad'"):
                gpuops.states(op, np.ones(n), device="bad", exact=exact)
            with pytest.raises(gpuops.DeviceUnavailableError):
                gpuops.states(op, np.ones(n), device="cuda:99", exact=exact)
            assert gpuops.states(op, np.ones(n), device="auto", exact=exact).op == op


def test_a_state_is_small_and_keeps_no_array_alive():
    a = np.ones(1 << 22, "f4")
    assert gpuops.states("sum", a).nbytes == 4
    assert gpuops.states("sum", a[:-1], start=1).nbytes < 2 * 2048 * 4 + 100
    assert len(pickle.dumps(gpuops.states("sum", a))) < 2000
    short = np.ones(100)
    state = gpuops.states("sum", short)
    short[:] = 5
    assert gpuops.finish(state) == 100
    assert (state.op, state.dtype, state.shape, state.start, state.stop) == (
        "sum", np.float64, (), 0, 100,
    )  # fmt: skip


def test_what_does_not_merge_is_told():
    a = np.ones(10)
    s = gpuops.states("sum", a)
    for other, words in (
        (gpuops.states("sum", a, start=20), r"0 to 9 and terms 20 to 29 are no neighbours"),
        (s, r"terms 0 to 9 and terms 0 to 9 are no neighbours"),
        (gpuops.states("mean", a, start=10), "different operations, sum and mean"),
        (gpuops.states("sum", a.astype("f4"), start=10), "dtypes, float64 and float32"),
        (gpuops.states("sum", np.ones((10, 2)), 0, start=10), r"shapes, \(\) and \(2,\)"),
    ):
        with pytest.raises(ValueError, match=f"merge: .*{words}"):
            gpuops.merge(s, other)
    with pytest.raises(TypeError, match="merge: takes what states"):
        gpuops.merge(s, 1.0)
    with pytest.raises(TypeError, match="finish: takes what states"):
        gpuops.finish(a)
    with pytest.raises(ValueError, match="finish: the state begins at term 20: merge it"):
        gpuops.finish(gpuops.states("sum", a, start=20))
    with pytest.raises(ValueError, match="states: start is a number of terms, not -1"):
        gpuops.states("sum", a, start=-1)
    with pytest.raises(TypeError, match="argmin: where= is not taken"):
        gpuops.states("argmin", a, where=a > 0)
    with pytest.raises(ValueError, match=r"sum: where of shape \(3,\) does not broadcast"):
        gpuops.states("sum", a, where=[True] * 3)
    with pytest.raises(np.exceptions.AxisError):
        gpuops.states("sum", a, axis=1)
    for op in (a, 0):  # where reduce has the array, and the axis
        with pytest.raises(
            TypeError, match=r"^states: there is no operation .*, only sum, prod"
        ):
            gpuops.states(op, "sum")


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        big = np.full(5_000, 6e4, "f2")
        states = in_states("sum", big, None, 0, 1, [0, 10, 5_000])
        engine.same_bits(gpuops.finish(gpuops.merge(*states)), gpuops.sum(big))
