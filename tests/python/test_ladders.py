"""kernels, source, ladder, sweep and explain: that the tables can be looked at from Python."""

import re
from types import SimpleNamespace

import engine
import numpy as np
import pytest

import gpuops
from gpuops import _core

A = np.ones((48, 48), np.float32)
CALLS = {
    "add": (A, A),
    "multiply_add": (A, A, A),
    "fma": (A, A, A),
    "transpose": (A,),
    "reduce": (A,),
    "matmul": (A, A),
    "jacobi_step": (A + 48 * np.eye(48, dtype="f4"), A[0], A[0]),
    "jacobi": (A + 48 * np.eye(48, dtype="f4"), A[0]),
    "rdf": (np.random.default_rng(0).random((40, 3)), 0.5, 10),
}
QUICK = {"n_repeat": 1, "cold": False}
PLACES = engine.backends()
needs_sim = pytest.mark.skipif("sim" not in PLACES, reason="needs sim")


def test_every_operation_has_a_call_here():
    assert sorted(CALLS) == sorted(_core.ops())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", CALLS)
def test_tables_are_well_formed(op, place):
    rows = gpuops.kernels(op, place)
    names = [k.name for k in rows]
    assert "naive" in names
    assert len(set(names)) == len(names)
    assert any(k.role == "production" for k in rows)
    for k in rows:
        assert k.name.isidentifier()
        assert k.name.islower()
        assert re.search(r"([a-z]|f16|f32|x2|x3)$", k.name)  # no number, but a format's
        assert k.note
        assert not k.note.endswith(".")
        assert k.role in ("lesson", "production", "teaching", "yardstick", "candidate")
        assert k.lecture is None or " " in k.lecture  # its topic in words
        assert (k.caveat is not None) == (k.role == "teaching"), k.name
        assert all(values for values in k.tunables.values())
        assert k.backend == place
    text = repr(rows)
    assert all(name in text for name in names)


@pytest.mark.parametrize(
    ("op", "device", "kernel"),
    [
        pytest.param(op, place, row["name"], id=f"{op}-{place}-{row['name']}")
        for op in CALLS
        for place in PLACES
        for row in _core.ladder(op, place)
    ],
)
def test_a_row_takes_dtypes(op, device, kernel):
    """One that takes none refuses all that the engine asks of it: nothing but skips."""
    # sim has not all kernels that are written in the instructions of one generation of GPUs
    own = device == "sim" and re.search(r"_sm\d+\.cu:", gpuops.source(op, kernel, "cuda"))
    assert engine.row(op, device, kernel)["dtypes"] or own, (
        f"{kernel} of {op} takes no dtype, so no test runs it: its row has `launch`, a "
        "function for each dtype, or `dtypes`, where its plan finds the launch"
    )


def test_string_and_function_both_work():
    assert gpuops.kernels(gpuops.transpose) == gpuops.kernels("transpose")
    assert gpuops.kernels(gpuops.sum)[0].op == "sum"
    assert gpuops.source(gpuops.add, "naive", "cpu") == gpuops.source("add", "naive", "cpu")


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", CALLS)
def test_ladder(op, place):
    rungs = gpuops.ladder(op, *CALLS[op], device=place, **QUICK)
    listed = gpuops.kernels(op, place)
    assert [(r.name, r.lecture) for r in rungs] == [(k.name, k.lecture) for k in listed]
    if place != "sim":
        first = next(r for r in rungs if r.timing and r.role != "yardstick")
        assert first.speedup == 1.0
        assert rungs.best.timing is not None
    for r in rungs:
        assert ((r.profile or r.timing) is None) == (r.refused is not None)
        assert (r.profile is None) == (place != "sim" or r.refused is not None)
    for text in (repr(rungs), rungs._repr_html_()):
        assert op in text
        assert all(r.name in text for r in rungs)
        words = " ".join(text.split())
        assert all(r.lecture in words for r in rungs if r.lecture)
    facts = rungs.as_dict()
    assert list(facts) == [r.name for r in rungs]
    for r in rungs:
        assert facts[r.name]["refused"] == r.refused
        if r.timing:
            assert facts[r.name]["kernel"] == float(r.timing.kernel)


@needs_sim
def test_ladder_on_sim_counts():
    """One warp reads or writes 32 rows: 32 sectors; a column of the tile is one bank."""
    rungs = gpuops.ladder("transpose", np.ones((64, 64), "f4"), device="sim")
    assert rungs.best is None
    text = repr(rungs)
    assert "time on sim is not time on a GPU" in text
    assert text.startswith("transpose of (64, 64) float32 on sim\n")
    assert "GB/s" not in text + rungs._repr_html_()
    facts = rungs.as_dict()
    assert facts["naive"]["global load"] == {
        "requests": 128, "parts": 4096, "ideal": 512, "per_request": 32.0
    }  # fmt: skip
    assert facts["copy"]["global store"]["per_request"] == 4.0
    assert facts["tiled"]["shared load"]["per_request"] == 32.0
    assert facts["padded"]["shared load"]["per_request"] == 1.0
    row = next(line for line in text.splitlines() if line.startswith("tiled "))
    assert re.findall(r"128 x (\S+)", row) == ["4", "4", "32", "1"]


@needs_sim
def test_ladder_on_sim_counts_atomics():
    rungs = gpuops.ladder("sum", np.ones(4096, "f4"), device="sim", only=["atomic", "tree"])
    facts = rungs.as_dict()
    assert facts["atomic"]["atomics"] > 0
    assert facts["tree"]["atomics"] == 0


def test_ladder_only_and_lookup():
    rungs = gpuops.ladder("transpose", A, only=["naive"], device="cpu", **QUICK)
    assert len(rungs) == 1
    assert rungs["naive"] is rungs[0]
    one = gpuops.kernels("transpose", device="cpu")["naive"]
    for only in ("naive", one):
        assert len(gpuops.ladder("transpose", A, only=only, device="cpu", **QUICK)) == 1
    with pytest.raises(KeyError):
        rungs["blocked"]
    first = gpuops.kernels("transpose", device="cpu")[0].name
    with pytest.raises(ValueError, match=f"no kernel 'x' on cpu, only {first}"):
        gpuops.ladder("transpose", A, only=["x"], device="cpu")
    with pytest.raises(TypeError, match="ladder: only names kernels of transpose, not 7"):
        gpuops.ladder("transpose", A, only=7, device="cpu")
    with pytest.raises(ValueError, match="no kernel of transpose on cpu comes from a lecture"):
        gpuops.ladder("transpose", A, only="lecture", device="cpu")


@pytest.mark.parametrize("place", [p for p in PLACES if p != "cpu"])
def test_ladder_of_a_lecture(place):
    rungs = gpuops.ladder("sum", A, device=place, only="lecture", **QUICK)
    listed = [k.name for k in gpuops.kernels("reduce", place) if k.lecture]
    assert [r.name for r in rungs] == listed
    assert 1 < len(rungs) < len(gpuops.kernels("reduce", place))
    assert "parallel reduction" in repr(rungs)


def test_ladder_passes_keywords_on():
    rungs = gpuops.ladder("sum", A, axis=0, device="cpu", only="naive", **QUICK)
    assert rungs[0].timing.op == "sum"
    with pytest.raises(np.exceptions.AxisError):
        gpuops.ladder("sum", A, axis=5, device="cpu")
    with pytest.raises(TypeError, match="axes= is not taken; here it is axis="):
        gpuops.ladder("sum", A, axes=0, device="cpu")


def test_plot():
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = gpuops.ladder("transpose", A, device="cpu", **QUICK).plot()
    assert len(axes.patches) == len(gpuops.kernels("transpose", "cpu")) + 1  # and NumPy
    assert "transpose" in axes.get_title()
    other = plt.figure().subplots()
    assert gpuops.ladder("matmul", A, A, device="cpu", **QUICK).plot(other) is other
    assert "operations" in other.get_xlabel()
    plt.close("all")


@needs_sim
def test_plot_on_sim():
    plt = pytest.importorskip("matplotlib.pyplot")
    rungs = gpuops.ladder("transpose", A, device="sim", only=["tiled", "padded"])
    axes = rungs.plot()
    wide = [bar.get_width() for bar in axes.patches]
    assert wide[:2] == [rungs.as_dict()[n]["global load"]["parts"] * 2 for n in ("tiled",) * 2]
    assert wide[2] > 10 * wide[3]
    assert "no times" in axes.get_xlabel()
    plt.close("all")


def tunable():
    """(op, kernel) of some kernel with tunables on this machine."""
    for place in PLACES:
        for op in CALLS:
            for k in gpuops.kernels(op, place):
                if k.tunables and k.role != "yardstick":
                    return op, k
    pytest.skip("no kernel has tunables here")


def test_sweep():
    op, kernel = tunable()
    (name, values), *_ = kernel.tunables.items()
    options = {"kernel": kernel, "device": kernel.backend, **QUICK}
    table = gpuops.sweep(op, *CALLS[op], **options, **{name: values[:2]})
    assert {r.params[name] for r in table} == set(values[:2])
    if kernel.backend != "sim":
        assert table.best.timing
    assert f"{name}={values[0]}" in repr(table)
    one = gpuops.sweep(op, *CALLS[op], **options, **{name: 10**6})
    assert "is one of" in one[0].refused
    assert one.best is None
    with pytest.raises(TypeError, match="is an integer"):
        gpuops.sweep(op, *CALLS[op], **options, **{name: [1.5]})
    with pytest.raises(ValueError, match=f"^sweep: {name} has more than 1000 values"):
        gpuops.sweep(op, *CALLS[op], **options, **{name: range(10**12)})


@needs_sim
def test_ladder_on_sim_counts_branches():
    """In steps of 1, 2, 4, ... some threads of every warp work; from 128 down, whole warps."""
    rungs = gpuops.ladder(
        "sum", np.ones(1 << 12, "f4"), device="sim", only=["interleaved", "sequential"]
    )
    diverged = [facts["diverged"] for facts in rungs.as_dict().values()]
    assert diverged[0] > diverged[1]


@needs_sim
def test_ladder_by_the_rules_of_older_gpus():
    """Rows of 4096 floats begin in one memory partition: columns of them all go there."""
    a = np.ones((4096, 4096), "f4")
    rungs = gpuops.ladder("transpose", a, device="sim:cc13", only="padded", blocks=240)
    assert rungs.as_dict()["padded"]["balance"] < 0.2
    text = repr(rungs)
    assert "of a sample of the blocks, requests of warps x transactions (global)" in text
    assert re.search(r"^kernel .* balance$", text, re.M)
    with pytest.raises(ValueError, match="blocks= is a sample of what sim runs; cpu runs all"):
        gpuops.ladder("transpose", A, device="cpu", blocks=3)


@needs_sim
def test_sweep_on_sim_counts():
    """Twice the loads under way a thread: half the blocks, and half the sums they store."""
    table = gpuops.sweep(
        "sum", np.ones(1 << 16, "f4"), kernel="multipass", device="sim", uf=[2, 4]
    )
    assert "kernel 'multipass'" in repr(table)
    assert "time on sim is not time on a GPU" in repr(table)
    facts = table.as_dict()
    stores = [facts[f"uf={uf}"]["global store"]["requests"] for uf in (2, 4)]
    assert stores[0] > stores[1]


def test_sweep_refusals():
    with pytest.raises(ValueError, match="no kernel 'x'"):
        gpuops.sweep("transpose", A, kernel="x", device="cpu")
    op, kernel = tunable()
    with pytest.raises(TypeError, match="keyword"):
        gpuops.sweep(op, *CALLS[op], kernel=kernel, device=kernel.backend, colour=[1])
    for kernel in ("naive", None):
        with pytest.raises(ValueError, match="tunables") as refusal:
            gpuops.sweep("transpose", A, kernel=kernel, device="cpu", **QUICK)
        if "sim" in PLACES:
            assert "tiled (side, rows) on sim" in str(refusal.value)


def test_what_names_one_kernel_or_one_value_is_refused():
    """A ladder left out `kernel=`, and a sweep tried `params=` on another kernel."""
    with pytest.raises(TypeError, match=r"ladder: kernel= names one kernel.* pass only="):
        gpuops.ladder("transpose", A, kernel="naive", device="cpu")
    with pytest.raises(TypeError, match=r"sweep: params= .* as side=\[16, 32\]"):
        gpuops.sweep("transpose", A, kernel="naive", params={"side": 16}, device="cpu")


@pytest.mark.parametrize("op", CALLS)
def test_explain(op):
    e = gpuops.explain(op, *CALLS[op], device="cpu")
    assert str(e.device) == "cpu"
    assert e.kernel in [k.name for k in gpuops.kernels(op, "cpu")]
    assert e.upload_bytes == e.download_bytes == 0
    assert e.bytes > 0
    assert "asked for" in repr(e)
    assert op in repr(e)


def test_explain_says_why():
    """With a GPU or without: host arrays of add stay on the CPU, small products as well."""
    assert gpuops.explain("add", A, A).why[0].startswith("device: to move host arrays")
    why = repr(gpuops.explain("matmul", A, A))
    assert ("to move the arrays" if gpuops.is_available("cuda") else "there is no GPU") in why
    assert "by name" in repr(gpuops.explain("add", A, A, kernel="naive"))
    assert "are on this device" in repr(gpuops.explain("add", gpuops.to_device(A, "cpu"), A))
    with gpuops.device("cpu"):
        assert "with block" in repr(gpuops.explain(gpuops.matmul, A, A))
    with pytest.raises(ValueError, match="add"):
        gpuops.explain("add", A, np.ones(5))
    assert gpuops.add(1, 2) == 3


def test_explain_predicts_a_product_by_its_arithmetic(monkeypatch):
    a = np.ones((256, 256), np.float32)
    # A busy machine may copy at any rate.
    monkeypatch.setattr("gpuops._show.explain.copy_seconds", lambda where, moved: moved / 1e12)
    e = gpuops.explain("matmul", a, a, device="cpu")
    assert "GFLOP/s" in repr(e)
    assert e.kernel_seconds > e.bytes / 1e12
    e = gpuops.explain("add", a, a, device="cpu")
    assert "a copy of 768 KiB (its arrays in whole cache lines) takes here" in repr(e)
    small = np.ones((100, 100), np.float32)
    e = gpuops.explain("matmul", small, small, device="cpu")
    assert e.kernel == "direct"
    assert "GFLOP/s" in repr(e)


@pytest.mark.skipif("sim" not in PLACES, reason="this build has no sim")
def test_explain_expects_no_time_on_sim():
    assert gpuops.explain("add", A, A, device="sim").kernel_seconds is None


def test_explain_counts_the_sectors_that_memory_moves():
    def moved(a, **call):
        e = gpuops.explain("transpose", a, device="cpu", **call)
        return e.sector_bytes - a.nbytes  # the result is dense

    whole = np.ones((64, 64), np.float32)
    assert moved(whole) == whole.nbytes
    assert moved(whole[:, ::2]) == whole.nbytes  # every second of a sector's items is needed
    assert moved(np.ones((64, 1024), np.float32)[:, ::32]) == 64 * 32 * 64  # a sector each
    assert moved(np.ones((64, 65), np.float32)[:, :3]) == 64 * (12 + 60)  # begins anywhere


def test_to_device_without_a_gpu_says_what_to_do():
    if gpuops.is_available("cuda"):
        pytest.skip("there is a GPU")
    with pytest.raises(gpuops.DeviceUnavailableError, match=r"to_device\(a, 'cpu'\)"):
        gpuops.to_device(A)


@pytest.mark.parametrize("f", [gpuops.kernels, gpuops.ladder, gpuops.sweep, gpuops.explain])
def test_unknown_operations(f):
    with pytest.raises(ValueError, match="there is no operation 'sub', only add"):
        f("sub")
    with pytest.raises(TypeError, match="name or function of an operation"):
        f(np.add)


def test_a_ladder_of_products_shows_how_far_each_is_off():
    rng = np.random.default_rng(5)
    a = rng.standard_normal((40, 300)).astype("f4")
    rungs = gpuops.ladder("matmul", a, a.T, device="cpu", **QUICK)
    for row in rungs:
        assert (row.error is None) == (row.timing is None)
        assert rungs.as_dict()[row.name].get("error") == row.error
    assert 0 < rungs["naive"].error < 300
    assert " u " in repr(rungs)
    assert "error" in repr(rungs["naive"])
    for x, y in ((a[0], a.T), (a, a[0]), (a[0], a[1]), (a.astype("f2"), a.T.astype("f2"))):
        assert 0 <= gpuops.ladder("matmul", x, y, device="cpu", **QUICK)["naive"].error < 300
    whole = a.astype("i4")
    assert gpuops.ladder("matmul", whole, whole.T, device="cpu", **QUICK)["naive"].error is None
    assert gpuops.ladder("add", a, a, device="cpu", **QUICK)["naive"].error is None


def test_a_share_of_the_peak_where_a_yardstick_tells_it():
    from gpuops._show.tables import Row, Table

    def timing(gflops):
        return SimpleNamespace(
            kernel=1e-3, gflops=gflops, gbps=1.0, share=None, is_bound_by_memory=False
        )

    rows = [
        Row("units", role="yardstick", timing=timing(80.0)),
        Row("tiled", timing=timing(20.0)),
    ]
    text = repr(Table("matmul", gpuops.Device("cpu"), rows, call="matmul"))
    assert "of peak" in text
    assert "25%" in text
    assert "100%" in text


@needs_sim
@pytest.mark.parametrize("op", ["add", "transpose", "sum"])
def test_explain_names_the_kernel_that_writes_out(op):
    """It planned a new result, whatever `out` was: another kernel ran."""
    a = np.ones((500, 70), np.float32)
    args = (a, a) if op == "add" else (a,)
    shape = getattr(np, op)(*args).shape
    for dtype, turned in (("f4", False), ("f4", True), ("f8", True)):
        out = np.zeros(shape[::-1], dtype).T if turned else np.zeros(shape, dtype)
        ran = gpuops.profile(op, *args, device="sim", out=out)
        expected = gpuops.explain(op, *args, device="sim", out=out).kernel
        assert any(expected in k.name for k in ran), (dtype, turned, expected, ran)


def test_explain_refuses_the_out_that_a_call_refuses():
    for out in (np.zeros(48, "f4"), np.zeros((48, 48), "i4"), "x", [A]):
        with pytest.raises((TypeError, ValueError)) as call:
            gpuops.add(A, A, out=out)
        with pytest.raises(type(call.value)) as explained:
            gpuops.explain("add", A, A, out=out)
        assert str(explained.value) == str(call.value)


@pytest.mark.parametrize("place", PLACES)
def test_explain_counts_bytes_where_they_lie(place):
    def moved(op, *args, **call):
        return gpuops.explain(op, *args, device=place, **call).bytes

    row, mask = np.ones(1000, np.float32), np.ones((10, 1), bool)
    many = np.broadcast_to(row, (10, 1000))
    assert moved("add", row, row) == 12000
    assert moved("add", many, row) == 4000 + 4000 + 40000  # each element of a view once
    assert moved("transpose", many) == 4000 + 40000
    assert moved("sum", many) == 4000 + 4
    assert moved("sum", row[::2]) == 2000 + 4
    assert moved("sum", np.ones((10, 1000), "f4"), where=mask) == 40000 + 10 + 4
    wide = 4000 if place == "cpu" else 8000  # elsewhere it is cast on the way
    assert moved("sum", row, dtype="f8") == wide + 8
    assert moved("add", row, row, out=np.zeros((3, 1000), "f4")) == 12000


def test_explain_knows_the_dtype_of_what_was_passed():
    assert gpuops.explain("add", a=A, b=A).dtype == np.float32
    assert gpuops.explain("add", [1, 2], [3, 4]).dtype == np.int64
    assert gpuops.explain("add", A, 1.5).dtype == np.float32
    assert gpuops.explain("sum", A, out=np.zeros((), "f8")).dtype == np.float32
    system = {"A": np.eye(3, dtype="f4"), "f": np.ones(3, "f4")}
    assert gpuops.explain("jacobi", **system).dtype == np.float32


@pytest.mark.parametrize(
    ("op", "args", "wrong"),
    [
        ("jacobi", CALLS["jacobi"], {"callback": 3}),
        ("jacobi", CALLS["jacobi"], {"progress": "no"}),
        ("jacobi", CALLS["jacobi"], {"out": A}),
        ("rdf", CALLS["rdf"], {"out": A}),
        ("rdf", CALLS["rdf"], {"progress": "no"}),
        ("rdf", CALLS["rdf"], {"norm": "volume"}),
        ("rdf", CALLS["rdf"], {"box": (0.5, 0.5, np.inf)}),
    ],
)
def test_explain_refuses_what_a_call_refuses(op, args, wrong):
    with pytest.raises((TypeError, ValueError)) as call:
        getattr(gpuops, op)(*args, **wrong)
    with pytest.raises(type(call.value)) as explained:
        gpuops.explain(op, *args, **wrong)
    assert str(explained.value) == str(call.value)
