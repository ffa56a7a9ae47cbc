"""The site: every page has its place and says for whom it is, every public name has a page, and
links of the documents lead somewhere. `make docs` builds it, and looks at what it has built.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import gpuops

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
COURSE = ROOT / "gpuops" / "course" / "notebooks"
sys.path.insert(0, str(DOCS / "site"))

import check  # noqa: E402
import sentences  # noqa: E402
import stage  # noqa: E402
from tree import API, LADDERS, TREE  # noqa: E402

PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "speed-log").glob("*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
# Folders, their lists, and the sections: stage.py writes them.
MADE = {"ladders", "api", *TREE}


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """What Sphinx reads."""
    folder = tmp_path_factory.mktemp("docs") / "src"
    stage.main(folder)
    return folder


def test_every_page_has_its_place(staged):
    in_tree = [page for _, _, pages in TREE.values() for page in pages]
    assert len(in_tree) == len(set(in_tree))
    assert {path.stem for path in DOCS.glob("*.md")} - {"index"} <= set(in_tree)
    for page in in_tree:
        assert (staged / f"{page}.md").exists() or (staged / f"{page}.ipynb").exists(), page


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(DOCS).as_posix())
def test_every_page_says_for_whom(path):
    title, _, rest = path.read_text().partition("\n")
    assert title.startswith("# ")
    said = " ".join(rest.split()).partition(". ")[0]
    whom = "all|everybody|people|those|readers|contributors|lecturers"
    assert re.match(rf"For ({whom})\b.+", said), said


def test_every_public_name_has_a_page(staged):
    named = [name for names in API.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) == {*gpuops.__all__, "load_ipython_extension"}
    for name in named:
        assert f"gpuops.{name}" in (staged / "api" / f"{name}.md").read_text()


def test_every_ladder_has_a_page_with_every_kernel(staged):
    for op in LADDERS["cpu"]:
        text = (staged / "ladders" / f"{op}-cpu.md").read_text()
        for kernel in gpuops.kernels(op, "cpu"):
            assert f"\n### {kernel.name}\n" in text
            assert f"Source of {kernel.name}\n" in text
    assert "4.68 ms" in (staged / "ladders" / "transpose-cuda.md").read_text()  # reads, on file


def anchors(path: Path) -> set[str]:
    """What `#` may lead to, as forges and myst name headings."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", head.lower()) for head in heads]
    return {head.strip().replace(" ", "-") for head in plain}


@pytest.mark.parametrize(
    "path",
    [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"],
    ids=lambda p: p.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
        name, _, anchor = target.partition("#")
        to = (path.parent / name).resolve() if name else path
        if name.partition("/")[0].removesuffix(".md") in MADE and path.parent == DOCS:
            continue
        assert to.exists(), target
        if anchor and to.suffix == ".md":
            assert anchor in anchors(to), target


def test_links_of_notebooks_lead_somewhere():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "markdown":
                for target in LINK.findall("".join(cell["source"])):
                    assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_notebooks_come_with_what_they_print():
    """Each has outputs, of which none holds a folder of the machine that made it."""
    for path in [*(ROOT / "notebooks").glob("*.ipynb"), *(DOCS / "outputs").glob("*.ipynb")]:
        text = path.read_text()
        cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
        assert any(cell["outputs"] for cell in cells), path.name
        assert not re.search(r"/(work|home|root|Users)/", text), path.name


def test_outputs_are_those_of_the_notebooks_that_there_are():
    """A cell that has changed since would stand on the site without what it prints."""
    for path in (DOCS / "outputs").glob("*.ipynb"):
        books = [json.loads(p.read_text()) for p in (path, COURSE / path.name)]
        ran, now = (
            ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
            for book in books
        )
        assert ran == now, f"python docs/site/execute.py {path.stem}"


def test_errors_are_found_by_their_sentences():
    found = dict(sentences.catalogue())
    assert len(found) > 300

    def page(words):
        (text,) = [text for text in found if words in text]
        return found[text]

    assert page("opposite faces … apart") == "rdf.md"
    assert page("axes is one tuple") == "transpose.md"
    assert page("axes don't match array") == "troubleshooting.md#shapes-and-out"
    assert page("axis … is given twice") == "troubleshooting.md#shapes-and-out"
    assert page("the output has shape") == "troubleshooting.md#shapes-and-out"
    assert page("a DeviceArray does not become a NumPy array by itself") == "arrays.md"
    for name in set(found.values()):
        name, _, anchor = name.partition("#")
        assert (DOCS / name).exists()
        assert not anchor or anchor in anchors(DOCS / name)


def best(asked: str, entries: list) -> list:
    """What search_errors.js puts first."""

    def words(text):
        return set(re.findall("[a-z_]{3,}", text.lower()))

    return max(
        entries,
        key=lambda e: len(words(asked) & words(e[0])) / max(len(words(e[0])), 1) ** 0.5,
    )


@pytest.mark.parametrize(
    ("asked", "page"),
    {
        "axes must be a permutation": "troubleshooting.html#shapes-and-out",
        "axes don't match array": "troubleshooting.html#shapes-and-out",
        "transpose: axis 1 is given twice": "troubleshooting.html#shapes-and-out",
        "operands could not be broadcast together": "troubleshooting.html#shapes-and-out",
        "shapes not aligned": "troubleshooting.html#shapes-and-out",
        "CUDA is not available": "troubleshooting.html#installing",
        "CUDA out of memory": "troubleshooting.html#running",
        "no kernel image is available for execution": "troubleshooting.html#installing",
    }.items(),
)
def test_the_words_that_other_libraries_use_find_a_page(staged, asked, page):
    text = (staged / "static" / "errors.js").read_text()
    entries = json.loads(text[text.index("[") :].rstrip().rstrip(";"))
    assert best(asked, entries)[1] == page
    # The site's own search wants every word on one page, but for these.
    words = set(re.findall("[a-z']+", asked.lower())) - {"be", "is", "a", "for", "not"}
    text = (DOCS / "troubleshooting.md").read_text().lower()
    assert words <= set(re.findall("[a-z']+", text))


def test_a_page_that_fetches_or_misses_is_told(tmp_path):
    (tmp_path / "llms.txt").write_text("")
    (tmp_path / "a.html").write_text('<a href="b.html#x">b</a><a href="https://x.org">x</a>')
    (tmp_path / "b.html").write_text('<link rel="stylesheet" href="_static/a.css">')
    assert check.faults(tmp_path) == []
    (tmp_path / "b.html").write_text('<script src="//cdn.x.org/a.js"></script>')
    (tmp_path / "a.html").write_text('<a href="c.html">c</a>')
    assert check.faults(tmp_path) == [
        "a.html links to c.html, which is not there",
        "b.html fetches //cdn.x.org/a.js",
    ]


NEEDS_SIM = pytest.mark.skipif(
    not (gpuops.is_available("sim") and shutil.which("c++")), reason="needs sim and a compiler"
)


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@NEEDS_SIM
def test_the_first_kernel_runs_and_its_mistake_is_named():
    (code,) = blocks("first-kernel.md", "python")
    names = {}
    exec(code.replace("print", "str"), names)
    assert names["a"][:4].tolist() == [0, 2, 4, 6]
    (said,) = (b for b in blocks("first-kernel.md", "text") if b.startswith("DeviceError"))
    place = re.search(r"block .*, thread .*, kernel.cu:\d+", said)[0]
    with pytest.raises(gpuops.DeviceError, match=re.escape(place)):
        exec(code.replace("if (i < n) ", "").replace("print", "str"), names)


@NEEDS_SIM
def test_mistakes_are_named_as_their_page_says():
    """Most words of each quotation are those of the sentence."""
    text = (DOCS / "mistakes.md").read_text()
    pairs = re.findall(
        r"^```cuda\n(.*?)^```\n\n((?:^>[^\n]*\n)+)", text, re.DOTALL | re.MULTILINE
    )
    assert len(pairs) == 4
    words = re.compile(r"[a-z]{3,}")
    for code, quoted in pairs:
        source = f"__global__ void k(float *a, float *out)\n{{\n{code}}}\n"
        launch = (4, 256) if "blockIdx" in code else (1, 256)
        a, out = np.zeros(1000, np.float32), np.zeros(1000, np.float32)
        with pytest.raises(gpuops.DeviceError) as error:
            gpuops.compile(source, device="sim")[launch](a, out)
        said, told = set(words.findall(quoted)), set(words.findall(str(error.value)))
        assert len(said & told) > 0.7 * len(said), (quoted, str(error.value))


@pytest.mark.filterwarnings("default")  # ase's own
def test_the_examples_with_atoms_of_ase_run(tmp_path, monkeypatch):
    """Those of rdf.md, on molecules of water in a box."""
    ase = pytest.importorskip("ase")
    build, io = pytest.importorskip("ase.build"), pytest.importorskip("ase.io")
    monkeypatch.chdir(tmp_path)
    atoms = ase.Atoms(cell=(18, 18, 18), pbc=True)
    for k, place in enumerate(np.random.default_rng(0).random((40, 3)) * 18):
        water = build.molecule("H2O")
        water.translate(place)
        water.set_tags([k] * 3)
        atoms += water
    io.write("run.traj", [atoms, atoms])
    (code,) = [b for b in blocks("rdf.md", "python") if "ase.io.iread" in b]
    results, rdf = [], gpuops.rdf
    monkeypatch.setattr(gpuops, "rdf", lambda *a, **b: results.append(rdf(*a, **b)))
    exec(code, {})
    assert [r.frames for r in results] == [1, 2, 1]
    assert results[0].types.tolist() == ["H", "O"]
    by_types, apart, two_sets = (result.counts for result in results)
    assert by_types[0, 1][:75].sum() == two_sets.sum()  # up to 6 of 8
    every = by_types[0, 0].sum() + by_types[0, 1].sum() + by_types[1, 1].sum()
    assert apart.sum() == 2 * (every - 3 * 40)  # three pairs of each molecule, in two frames
