"""What tables and reports look like: 100 columns, titles that say the call, HTML."""

import functools
import html.parser
import re

import engine
import numpy as np
import pytest

import gpuops

A = np.ones((48, 40), np.float32)
QUICK = {"n_repeat": 1, "cold": False}
needs_sim = pytest.mark.skipif("sim" not in engine.backends(), reason="needs sim")


def many():
    return np.ones(3 << 12, "f4")


@functools.cache
def rungs():
    return gpuops.ladder("multiply_add", A, A, 2.0, device="cpu", **QUICK)


@functools.cache
def counted():
    return gpuops.ladder("sum", many(), device="sim:cc13", only=["tree", "atomic"])


def points():
    return np.random.default_rng(0).random((60, 3))


def of_sim(**options):
    return gpuops.ladder("transpose", A, **options)


# Whatever prints as more than a line or shows as HTML.
MAKERS = {
    "ladder": rungs,
    "row": lambda: rungs()[0],
    "numpy": lambda: rungs().numpy,
    "kernels": lambda: gpuops.kernels("matmul", "cpu"),
    "kernel": lambda: gpuops.kernels("matmul", "cpu")[0],
    "timing": lambda: rungs()[0].timing,
    "explain": lambda: gpuops.explain("matmul", A, A.T),
    "rdf": lambda: gpuops.rdf(points(), 0.5, 10, types=["O", "H"] * 30),
    "jacobi": lambda: gpuops.jacobi([[4.0, 1.0], [1.0, 2.0]], [1.0, 2.0]),
}
if "sim" in engine.backends():
    MAKERS |= {
        "ladder on sim": lambda: of_sim(device="sim"),
        "older rules": lambda: of_sim(device="sim:cc13"),
        "atomics": counted,
        "row on sim": lambda: counted()[0],
        "refused": lambda: of_sim(device="sim", only="shifted")[0],
        "sweep": lambda: gpuops.sweep("transpose", A, device="sim", kernel="tiled", rows=[8]),
        "kernels of sim": lambda: gpuops.kernels("transpose", "sim"),
        "kernel of sim": lambda: gpuops.kernels("transpose", "sim")[0],
        "tile": lambda: gpuops.profile("transpose", A, kernel="tiled"),
        "profile": lambda: gpuops.profile("sum", many(), device="sim:cc13"),
        "long names": lambda: gpuops.profile(
            "matmul", A, A.T, device="sim:cc13", kernel="blocktiled"
        ),
    }


@functools.cache
def thing(name):
    return MAKERS[name]()


@pytest.mark.parametrize("name", MAKERS)
def test_text_fits_a_hundred_columns(name):
    lines = repr(thing(name)).splitlines()
    assert max(map(len, lines)) <= 100, max(lines, key=len)
    assert "object at 0x" not in repr(thing(name))
    assert "Row(" not in repr(thing(name))


class Tags(html.parser.HTMLParser):
    """Fails where a tag is not closed by its like."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", MAKERS)
def test_html_is_whole_and_brings_no_colour_of_its_own(name):
    """Dark notebooks write light text: whoever sets the one has to set the other."""
    page = thing(name)._repr_html_()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert "<table" in page
    assert not re.search(r"[^-]color:[^i]|background:(#|rgb\()|fill=\"(#|rgb\()", page)


@needs_sim
def test_what_is_hot_is_a_tint():
    """The notebook's own text and paper show through, and source stays source."""
    page = thing("profile")._repr_html_()
    assert "rgba(" in page
    assert "white-space:pre;font-family:monospace" in page


def test_titles_say_the_call():
    text = repr(thing("ladder"))
    count = gpuops.get_num_threads()
    assert text.startswith(
        "multiply_add of (48, 40) float32, (48, 40) float32, 2.0 on cpu, "
        f"{count} thread{'s' * (count > 1)}"
    )
    for name in ("timing", "explain"):
        assert "(48, 40) float32" in repr(thing(name))
    table = gpuops.ladder("sum", [[1, 2], [3, 4]], axis=0, device="cpu", only="naive", **QUICK)
    assert repr(table).startswith("sum of (2, 2) int64, axis=0 on cpu")


@pytest.mark.parametrize(
    ("op", "args", "kwargs", "written"),
    [
        ("add", (A, A), {}, "np.add(a, b, out)"),
        ("multiply_add", (A, A, 2.0), {}, "np.add(np.multiply(a, b, out), c, out)"),
        ("transpose", (A,), {}, "np.copyto(out, np.transpose(a, axes))"),
        ("sum", (A,), {"axis": 0}, "np.sum(a, axis=0)"),
        ("reduce", (A, "max"), {}, "np.max(a)"),
        ("reduce", (A,), {}, "np.sum(a)"),
        ("matmul", (A, A.T), {}, "np.matmul(a, b, out)"),
        ("jacobi_step", (np.eye(4), np.ones(4), np.ones(4)), {}, "x + (f - A @ x)/diag(A)"),
    ],
)
def test_numpy_stands_below_the_kernels(op, args, kwargs, written):
    table = gpuops.ladder(op, *args, **kwargs, device="cpu", **QUICK)
    assert table.numpy.note.startswith(written)
    assert "not a kernel of gpuops" in table.numpy.note
    assert len(table.numpy.timing.kernel.samples) == 1
    assert table.numpy not in list(table)
    assert table.numpy is not table.best
    assert re.search(r"^\(numpy\) ", repr(table), re.M)


def test_numpy_is_left_out_where_it_has_nothing_like_it():
    assert gpuops.ladder("rdf", points(), 0.5, 10, device="cpu", **QUICK).numpy is None
    assert gpuops.ladder("fma", A, A, A, device="cpu", **QUICK).numpy is None
    assert gpuops.ladder("add", A, A, device="cpu", only="naive", **QUICK).numpy is None


def test_tab_completes_the_names_of_rows():
    table = thing("ladder")
    assert table._ipython_key_completions_() == [row.name for row in table]
    listed = thing("kernels")
    assert listed._ipython_key_completions_() == [kernel.name for kernel in listed]
    assert listed["naive"] is listed[[kernel.name for kernel in listed].index("naive")]
    with pytest.raises(KeyError):
        listed["nil"]


def test_plots_of_results():
    plt = pytest.importorskip("matplotlib.pyplot")
    result = thing("rdf")
    ax = result.plot()
    assert [line.get_label() for line in ax.get_lines()] == ["H-H", "H-O", "O-H", "O-O"]
    assert ax.get_xlabel() == "r"
    assert ax.get_ylabel() == "density of neighbours"
    ax = gpuops.rdf(points(), 0.5, 10, box=(1, 1, 1)).plot(ax)
    assert ax.get_ylabel() == "g(r)"
    plt.close("all")


def test_curves_in_html_have_axes():
    page = thing("jacobi")._repr_html_()
    for words in ("step", "residual", f">{thing('jacobi').iterations}</text>"):
        assert words in page
    page = thing("rdf")._repr_html_()
    assert page.count("<polyline") == 4
    assert ">0.475</text>" in page
    assert "at most" in repr(thing("rdf"))


def test_whatever_a_call_takes_can_be_described():
    """Types of two sets, a sparse matrix, functions: none of them is an array."""
    types = (np.zeros(60, int), np.ones(30, int))
    call = {"points2": points()[:30], "types": types, "device": "cpu"}
    text = " ".join(repr(gpuops.explain("rdf", points(), 0.5, 10, **call)).split())
    assert "types=(60,) int64 and (30,) int64" in text
    assert "max" in repr(gpuops.explain("reduce", A, np.max, device="cpu")).splitlines()[0]
    assert "reduce of (0,) float64" in repr(gpuops.explain("reduce", [], device="cpu"))


def test_numpy_is_not_made_to_repeat_what_takes_long(monkeypatch):
    monkeypatch.setattr("gpuops._show.numpy_line.LONG", 0.0)
    table = gpuops.ladder("add", A, A, device="cpu", cold=False)
    assert len(table.numpy.timing.kernel.samples) == 1
