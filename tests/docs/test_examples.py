"""Every example in README.md, docs/ and the docstrings runs and prints what it says."""

import doctest
import importlib
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import gpuops

ROOT = Path(__file__).resolve().parents[2]
PAGES = [p for p in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if p.exists()]
PACKAGE = Path(gpuops.__file__).parent
MODULES = sorted(
    ".".join(p.relative_to(PACKAGE).with_suffix("").parts)
    for p in PACKAGE.rglob("*.py")
    if not p.stem.startswith("__")
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def _plain_numbers():
    with np.printoptions(legacy=False):
        yield


def run(test, globs):
    said = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    test.globs.update(globs)
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    if "dask" in name:
        pytest.importorskip("dask", reason="Dask is not installed")
    module = importlib.import_module(f"gpuops.{name}")
    for test in doctest.DocTestFinder().find(module, f"gpuops.{name}", module=module):
        run(test, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.stem in ("same-bits", "scaling-out"):
        pytest.importorskip("dask", reason="Dask is not installed")
    # A fence is no output: the example ends where it does.
    text = page.read_text().replace("```\n", "\n")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    run(test, {"np": np, "gpuops": gpuops})


def test_every_public_function_has_an_example():
    for name in gpuops.__all__:
        thing = getattr(gpuops, name)
        if callable(thing) and not isinstance(thing, type):
            assert ">>>" in thing.__doc__ or name in (
                "get_default_device",
                "get_num_threads",
            ), name


def test_the_version_is_the_same_everywhere():
    """The package and its metadata; the citation and the newest release of the changelog.

    After a release the package has a later version, with .dev0; it must have one where the
    changelog has something above the release.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = (ROOT / "CITATION.cff").read_text()
    cited = dict(re.findall(r"^([a-z-]+): (.+)$", said, re.MULTILINE))
    log = (ROOT / "CHANGELOG.md").read_text()
    newest, day = re.findall(r"^## (\d\S*) \((\S+)\)$", log, re.MULTILINE)[0]
    assert gpuops.__version__ == project["version"]
    assert cited["version"] == newest
    unreleased = log.partition("## Unreleased")[2].partition("\n## ")[0].strip()
    number, dev, _ = project["version"].partition(".dev0")
    now, then = (tuple(map(int, v.split("."))) for v in (number, newest))
    assert now > then if dev else now == then and not unreleased
    assert cited["date-released"] == day
    assert cited["license"] == project["license"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/design.md"])
def test_paths_that_pages_name_are_there(page):
    """From the top, from csrc or from docs; what stands in <brackets> is the reader's."""
    named = re.findall(r"`([\w.-]+/[\w./-]+\.\w+)`", (ROOT / page).read_text())
    missing = {
        name
        for name in named
        if not any((ROOT / at / name).exists() for at in (".", "csrc", "docs"))
    }
    made = {"build/skipped.txt", "gpuops/_build_info.json"}  # by the tests and the build
    assert not missing - made


def test_the_glossary_is_short():
    """At most forty words, the field's first, each once and with a meaning."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    field, house = (
        [line.strip("| ").split(" | ") for line in part.splitlines() if line[:2] == "| "][1:]
        for part in text.split("\n## ")[1:]
    )
    words = [row[0] for row in (*field, *house)]
    assert len(words) == len(set(words)) <= 40
    assert all(len(row) == 2 and row[1] for row in (*field, *house))
    standard = {"occupancy", "coalescing", "zero-copy", "roofline", "register tile"}
    assert standard <= {row[0] for row in field}
    own = {"ladder", "row", "rung", "role", "plan", "panel", "leaf", "lane"}
    assert own <= {row[0] for row in house}
