"""The course's notebooks: what their sources give, run, and what a GPU's clock said."""

import importlib.util
import json
import re
import subprocess
import sys
import time

import pytest
from sim_kernels import needs_sim
from test_course import NOTEBOOKS, ROOT, SOLUTIONS, assigned

import gpuops
from gpuops.course import copy_notebooks, recorded
from gpuops.course.measures import MEASURES


def pytest_generate_tests(metafunc):
    """All solutions with --all, one in `make test`."""
    if "solution" in metafunc.fixturenames:
        found = sorted(path.stem for path in SOLUTIONS.glob("*.ipynb"))
        everything = metafunc.config.getoption("--all")
        metafunc.parametrize("solution", found if everything else ["01-warp"])


def build():
    spec = importlib.util.spec_from_file_location("course_build", ROOT / "course" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebooks_are_what_their_sources_give():
    twins = dict(build().twins())
    for path, text in twins.items():
        assert path.read_text() == text, f"{path.name}: run python course/build.py"
    beside = {p for p in twins if p.parent == NOTEBOOKS[0].parent}
    assert set(NOTEBOOKS) == {p for p in beside if p.suffix == ".ipynb"}
    assert {p.name for p in beside if p.suffix == ".md"} == {"cuda-words.md", "glossary.md"}
    assert {p.name for p in NOTEBOOKS} == {p.name for p in SOLUTIONS.glob("*.ipynb")}


def test_exercises_hold_no_solution():
    for path in NOTEBOOKS:
        text, solved = path.read_text(), (SOLUTIONS / path.name).read_text()
        assert "#- " not in text
        assert "#- " not in solved
        for task, source in assigned(SOLUTIONS / path.name).items():
            assert assigned(path)[task] != source


def texts(path):
    cells = json.loads(path.read_text())["cells"]
    return [(c["cell_type"], "".join(c["source"])) for c in cells]


def test_every_notebook_links_its_words_and_ends_with_what_is_next(tmp_path):
    copied = {path.name for path in copy_notebooks(tmp_path)}
    for path, after in zip(NOTEBOOKS, [*NOTEBOOKS[1:], None], strict=True):
        kind, last = texts(path)[-1]
        assert kind == "markdown"
        assert "**Next.**" in last
        assert after is None or f"]({after.name}). " in last
        for name in re.findall(r"\]\(([\w-]+\.(?:md|ipynb))\)", last):
            assert (tmp_path / name).exists()
    assert copied == {path.name for path in NOTEBOOKS}
    assert "](glossary.md)" in (tmp_path / "cuda-words.md").read_text()


def test_shared_memory_and_the_barrier_come_before_who_needs_them():
    """In the order of the notebooks: what a solution of an exercise uses was shown before."""
    shown = ""
    for path in sorted(SOLUTIONS.glob("*.ipynb")):
        for kind, text in texts(path):
            for word in ("__shared__", "__syncthreads", "__threadfence", "atomicAdd"):
                if kind == "code" and "check(" in text and word in text:
                    assert word in shown, f"{path.name}: {word}"
            shown += text


def no_opencl() -> str:
    """Asked in another process: drivers of OpenCL do not bear being forked."""
    words = "from gpuops.course.opencl import missing; print(missing())"
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr[-200:]


@needs_sim
@pytest.mark.sampled
@pytest.mark.filterwarnings("default")
def test_a_solution_runs_without_a_warning(solution, tmp_path, monkeypatch):
    if solution == "13-opencl" and (why := no_opencl()):
        pytest.skip(why)
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("MPLBACKEND")  # pictures as in a notebook
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    book = nbformat.read(SOLUTIONS / f"{solution}.ipynb", as_version=4)
    nbformat.validate(book)
    where = {"metadata": {"path": str(tmp_path)}}
    start = time.monotonic()
    nbclient.NotebookClient(book, timeout=180, kernel_name="python3", resources=where).execute()
    assert time.monotonic() - start < 120  # a minute on two free cores
    said = [o for c in book.cells for o in c.get("outputs", []) if o.get("name") == "stderr"]
    assert not said
    pictures = [
        o for c in book.cells for o in c.get("outputs", []) if "image/png" in o.get("data", ())
    ]
    assert pictures


# ---- what a GPU's clock said ----


def test_what_needs_a_clock_is_recorded(monkeypatch):
    monkeypatch.setattr("gpuops.course.recording.is_available", lambda where: False)
    for name in MEASURES:
        found = recorded(name)
        assert "recorded on" in found["device"]
        assert found["values"]
    with pytest.raises(KeyError, match="there is no 'colour', only"):
        recorded("colour")


def test_a_gpu_that_cannot_be_measured_is_said(monkeypatch, capsys):
    def fails(where):
        raise gpuops.DeviceUnavailableError("no compiler")

    monkeypatch.setattr("gpuops.course.recording.is_available", lambda where: True)
    monkeypatch.setitem(MEASURES, "rungs", fails)
    monkeypatch.setattr(gpuops.Device, "info", property(lambda self: gpuops.devices("cpu")[0]))
    assert "recorded on" in recorded("rungs")["device"]
    assert "not measured on the GPU here: no compiler" in capsys.readouterr().out
