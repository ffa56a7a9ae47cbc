"""The op's name is the join key: each stem has its files everywhere; none grows too long."""

import json
import re
from pathlib import Path

import pytest

from gpuops import _core

ROOT = Path(__file__).resolve().parents[2]
OPS = dict(re.findall(r"^GOP_OP\((\w+), (\w+)\)", (ROOT / "csrc/ops.def").read_text(), re.M))
STEMS = sorted(set(OPS.values()))


def test_the_table_is_the_core_s():
    assert list(OPS.items()) == list(_core.ops().items())


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize(
    "place",
    [
        "csrc/core/ops/{}.c",
        "csrc/cpu/{}/ladder.c",
        "csrc/cuda/{}/ladder.cu",
        "tests/ops/test_{}.py",
        "notebooks/{}.ipynb",
    ],
)
def test_each_stem_has_its_file(stem, place):
    assert (ROOT / place.format(stem)).is_file()


def sources():
    for pattern in (
        "csrc/**/*",
        "gpuops/**/*.py*",
        "tests/**/*",
        "benchmarks/*.py",
        "*.py",
        "Makefile",
    ):
        for path in ROOT.glob(pattern):
            if (
                path.suffix in (".c", ".h", ".inc", ".cu", ".py", ".pyi", ".def", "")
                and path.is_file()
            ):
                yield path


def test_no_file_is_longer_than_600_lines():
    long = {
        str(p.relative_to(ROOT)): n
        for p in sources()
        if (n := len(p.read_text().splitlines())) > 600
    }
    assert not long


def test_the_first_line_of_c_files_says_what_they_are():
    for path in sources():
        if path.suffix in (".c", ".h", ".inc", ".cu"):
            head = "\n".join(path.read_text().splitlines()[:2])
            assert re.match(rf"(/\*|//)\s+(\* )?{path.stem}(\{path.suffix})? - .+", head), path


def test_kernels_are_named_after_their_rows():
    """What a profiler shows, <op>_<kernel>_kernel, is the table's language."""
    for path in (ROOT / "csrc/cuda").glob("*/*.cu"):
        for name in re.findall(
            r"__global__\s+void\s+"
            r"(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)*(\w+)\(",
            path.read_text(),
        ):
            assert name.endswith("_kernel"), (path.name, name)


def test_notebooks_say_nothing_of_when_they_ran():
    """They come with what they print, for the site; the numbers of runs would only differ."""
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        book = json.loads(path.read_text())
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 5), path.name
        for cell in book["cells"]:
            assert cell["id"]
            if cell["cell_type"] == "code":
                assert cell["execution_count"] is None, path.name
                for output in cell["outputs"]:
                    assert output["output_type"] != "error", path.name
                    assert output.get("execution_count") is None, path.name


def test_the_solver_has_room_for_what_a_row_of_its_steps_keeps():
    for path in (ROOT / "csrc").glob("c*/jacobi_step/*"):
        assert "GOP_OWN(" not in path.read_text(), f"{path.name}: GOP_OWN_OF_STEP"
