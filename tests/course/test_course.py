"""The course: check, its process, its score, and the exercises."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from course_kinds import KINDS
from course_right import RIGHT
from course_wrong import WRONG
from sim_kernels import needs_sim

import gpuops
from gpuops.course import TASKS, check, source_of
from gpuops.course.__main__ import main
from gpuops.course.checking import _ended
from gpuops.course.opencl import missing, steps
from gpuops.course.settings import settings_of

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "gpuops" / "course" / "notebooks").glob("*.ipynb"))
SOLUTIONS = ROOT / "course" / "solutions"


def assigned(path: Path) -> dict[str, str]:
    """Exercise -> source, of all `check("03", KERNEL)` of a notebook."""
    found = {}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "check":
                task, name = node.args
                found[task.value] = source_of(str(path), name.id)
    return found


MISTAKES = {name: [*wrong, *KINDS.get(name, [])] for name, wrong in WRONG.items()}
EXERCISES = {t: s for path in NOTEBOOKS for t, s in assigned(path).items()}
SOLVED = {t: s for path in SOLUTIONS.glob("*.ipynb") for t, s in assigned(path).items()}


def pytest_generate_tests(metafunc):
    """All of them with --all, of each kind one in `make test`."""
    everything = metafunc.config.getoption("--all")
    wrong, right = (
        [(name, k) for name in sorted(known) for k in range(len(known[name]))]
        for known in (MISTAKES, RIGHT)
    )
    for argument, all_there_are, one in (
        ("name", sorted(TASKS), ["03"]),
        ("wrong", wrong, [("05b", 0)]),
        ("right", right, [("03", 1)]),
    ):
        if argument in metafunc.fixturenames:
            found = all_there_are if everything else one
            ids = [x if argument == "name" else f"{x[0]}-{x[1]}" for x in found]
            metafunc.parametrize(argument, found, ids=ids)


# ---- the exercises ----


def test_every_exercise_has_a_notebook_a_solution_and_wrong_ones():
    assert set(EXERCISES) == set(SOLVED) == set(TASKS) == set(WRONG)
    assert all(len(wrong) >= 2 for wrong in WRONG.values())
    assert all(settings_of(name, None)["points"]["bits"] for name in TASKS)


@needs_sim
@pytest.mark.sampled
def test_the_exercise_fails_and_its_solution_passes(name, capsys):
    shipped = check(name, EXERCISES[name])
    assert not shipped.passed
    assert shipped.points == 0
    solved = check(name, SOLVED[name])
    assert solved.passed, str(solved)
    assert "passed" in capsys.readouterr().out
    assert solved.most == 100


@needs_sim
@pytest.mark.sampled
def test_a_wrong_solution_fails_with_a_sentence_that_helps(wrong):
    name, what = wrong
    _, changes, words = MISTAKES[name][what]
    source = SOLVED[name]
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    score = check(name, source, quiet=True)
    assert not score.passed
    said = " ".join(line for part in score.parts for line in part.said).replace("\n", " ")
    assert re.search(words, said), said


@needs_sim
@pytest.mark.sampled
def test_an_unusual_right_solution_passes(right):
    name, what = right
    score = check(name, RIGHT[name][what][1], quiet=True)
    assert score.passed, str(score)


# ---- check ----

KERNEL = SOLVED.get("03", "")


def said_of(source, **how):
    score = check("03", source, quiet=True, **how)
    assert not score.passed
    return score, " ".join(line for part in score.parts for line in part.said)


@pytest.fixture
def settings(tmp_path):
    """A lecturer's file."""
    path = tmp_path / "mine.toml"
    text = (Path(gpuops.__file__).parent / "course" / "course.toml").read_text()
    path.write_text(text.replace("loop = 15", "loop = 3").replace("[[33], [64]]", "[[41]]"))
    return path


@needs_sim
def test_a_lecturers_file_has_other_shapes_and_seconds(settings):
    score, said = said_of(KERNEL.replace("x < n", "x < 40"), settings=settings)
    assert "n = 41, inputs 0, 1, 2, ..." in said
    assert score.parts[0].points == 0


@needs_sim
def test_a_kernel_without_an_end_is_stopped(settings):
    start = time.monotonic()
    # No loop that sim could tell: it computes, and computes.
    _, said = said_of(
        KERNEL.replace(
            "__syncthreads();",
            """
    volatile double forever = 1;
    while (forever > 0) forever = forever * 1.5 > 10 ? 1 : forever * 1.5;""",
        ),
        settings=settings,
    )
    assert (
        "this block has run for 3 s and was stopped; the loop there touches no memory" in said
    )
    line = next(x for x in said.split("\n") if "while (forever > 0)" in x)
    assert "kernel.cu:" in line
    assert "not tried after that" in said
    assert time.monotonic() - start < 30


def test_a_kernels_process_that_ends_is_a_sentence():
    report = {"now": "n = 41, seed 1"}
    killed = _ended(-signal.SIGKILL, 8, report)
    assert killed.startswith("the kernel's process was ended by SIGKILL (at: n = 41, seed 1)")
    assert "more memory than it may have?" in killed
    assert "ended early (at: n = 41, seed 1), with exit status 0" in _ended(0, 8, report)


@pytest.mark.sampled(every=2)
@needs_sim
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise(SIGKILL);", "`raise` is of the host's library"),
        ("_exit(0);", "`_exit` is of the host's library"),
        (
            r'static int once = printf("100 of 100 points\n"); (void)once;',
            "the value of once is",
        ),
    ],
)
def test_a_kernel_cannot_end_its_process_or_write_a_score(line, words):
    head = "#include <csignal>\n#include <unistd.h>\n"
    score, said = said_of(head + KERNEL.replace("__syncthreads();", line))
    assert words in said
    assert score.points == 0


@needs_sim
def test_nothing_of_a_kernel_runs_when_it_is_loaded(tmp_path):
    mark = tmp_path / "was-here"
    head = f"""#include <cstdio>
static int early = [] {{ return fclose(fopen("{mark}", "w")); }}();
"""
    _, said = said_of(head + KERNEL)
    assert "line 2: the value of early is computed when the kernels are loaded" in said
    assert not mark.exists()


@pytest.mark.sampled(later=True)
@needs_sim
def test_nothing_is_given_for_a_kernel_that_does_nothing():
    score, said = said_of("__global__ void transpose(const float *in, float *out, int n) {}")
    assert score.points == 0
    assert "is never written" in said
    score, said = said_of("__global__ void transpose(float *out) {}")
    assert "the exercise asks for void transpose(const float *in, float *out, int n)" in said
    score, said = said_of("__global__ void transpose(const float *in, float *out, int n) { x }")
    assert "line 1: 'x' was not declared" in said
    assert score.points == 0


@needs_sim
def test_a_mistake_that_many_threads_make_is_told_once():
    _, said = said_of(KERNEL.replace("if (x < n && y + j < n) tile", "tile"))
    assert said.count("past the end of in, which has") == 1


@needs_sim
def test_without_a_compiler_there_is_no_score(monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(gpuops.CompileError, match="no-such-compiler is not found: install one"):
        check("03", KERNEL)
    assert main(["check", "03", str(SOLUTIONS / "03-transpose.ipynb"), "--json", "-"]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "needs a C++ compiler" in said.err


@needs_sim
def test_an_exercise_knows_its_string_in_a_notebook():
    assert {name: TASKS[name].variable for name in ("05", "05b", "14c")} == {
        "05": "KERNEL", "05b": "ONE_LAUNCH", "14c": "STEP"
    }  # fmt: skip
    for path in (*SOLUTIONS.glob("*.ipynb"), *NOTEBOOKS):
        for name in assigned(path):
            assert source_of(path, TASKS[name].variable) == assigned(path)[name]
    assert main(["check", "14c", str(SOLUTIONS / "14-capstone.ipynb")]) == 0


@needs_sim
def test_the_score_in_gradescopes_words():
    found = json.loads(check("03", KERNEL, quiet=True).json())
    assert found["score"] == found["max_score"] == 100
    assert [t["max_score"] for t in found["tests"]] == [20, 20, 60]
    assert {t["status"] for t in found["tests"]} == {"passed"}
    assert isinstance(found["output"], str)


@pytest.mark.sampled(later=True)
@needs_sim
def test_the_shell(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(KERNEL.replace("__syncthreads();", ""))
    out = tmp_path / "score.json"
    words = [
        sys.executable,
        "-m",
        "gpuops.course",
        "check",
        "03",
        str(path),
        "--json",
        str(out),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "put __syncthreads() between" in " ".join(done.stdout.split())
    assert json.loads(out.read_text())["score"] == 0
    done = subprocess.run([*words[:-1], "-"], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["score"] == 0
    (tmp_path / "empty.cu").touch()
    for name in ("none.cu", "empty.cu"):
        words = [sys.executable, "-m", "gpuops.course", "check", "03", str(tmp_path / name)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert name in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("args", "error", "words"), [
    (("99", "x;"), KeyError, "no exercise '99', only 00"),
    (("03", 5), TypeError, "kernel is CUDA C"),
])  # fmt: skip
@needs_sim
def test_what_is_no_exercise(args, error, words):
    with pytest.raises(error, match=words):
        check(*args)


def test_a_source_out_of_what_is_handed_in(tmp_path):
    book = {"cells": [
        {"cell_type": "code", "source": ["%matplotlib inline\n", "KERNEL = 'first;'\n"]},
        {"cell_type": "markdown", "source": ["KERNEL = 'no;'"]},
        {"cell_type": "code", "source": ["half written ("]},
        {"cell_type": "code", "source": ["!ls\n", "KERNEL = r'''second;'''\n", "1/0"]},
        {"cell_type": "code", "source": ["%%kernel OTHER\n", "third;"]},
    ]}  # fmt: skip
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(book))
    assert source_of(path) == "second;"
    assert source_of(path, "OTHER") == "third;"
    with pytest.raises(ValueError, match="assigns no string to NONE"):
        source_of(path, "NONE")
    (tmp_path / "mine.py").write_text("KERNEL = 'fourth;'")
    assert source_of(tmp_path / "mine.py") == "fourth;"
    (tmp_path / "mine.cu").write_bytes("fifth; // für".encode("latin-1"))
    assert source_of(tmp_path / "mine.cu").startswith("fifth; // f")
    for text in ("", "{}", '{"cells": [1]}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"mine\.ipynb is no notebook"):
            source_of(path)


@pytest.mark.sampled(later=True)
@needs_sim
def test_an_umlaut_in_a_comment_is_no_mistake(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_bytes((KERNEL + "// f\xfcr n\n").encode("latin-1"))
    assert check("03", path, quiet=True).passed
    assert check("03", KERNEL + "// f\xfcr n\n", quiet=True).passed


@needs_sim
def test_a_gpu_runs_the_cases_too():
    if gpuops.is_available("cuda"):
        assert check("03", KERNEL, quiet=True, device="cuda").passed
        wrong = KERNEL.replace("= tile", "= KIND tile")
        wrong = "#ifdef __CUDACC__\n#define KIND 1 +\n#else\n#define KIND\n#endif\n" + wrong
        score = check("03", wrong, quiet=True, device="cuda")
        assert "on cuda: out[0, 0] is" in " ".join(score.parts[0].said)
        return
    with pytest.raises(gpuops.DeviceUnavailableError, match="cuda"):
        check("03", KERNEL, quiet=True, device="cuda")


@pytest.mark.sampled(later=True)
@needs_sim
def test_gradescopes_script_scores_what_is_handed_in(tmp_path):
    """As in its container, with that one's folders and Python in a folder of the test's own."""
    script = (ROOT / "course" / "templates" / "gradescope" / "run_autograder").read_text()
    script = script.replace("/autograder/python/bin/python", sys.executable)
    script = script.replace("/autograder", str(tmp_path))
    for name in ("submission", "results", "source"):
        (tmp_path / name).mkdir()
    settings = Path(gpuops.__file__).parent / "course" / "course.toml"
    (tmp_path / "source" / "course.toml").write_text(settings.read_text())

    def graded():
        words = ["bash", "-c", script]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(words, capture_output=True, check=False, env=env)
        return json.loads((tmp_path / "results" / "results.json").read_text())

    assert "no kernel was found" in graded()["output"]
    (tmp_path / "results" / "results.json").unlink()
    (tmp_path / "submission" / "mine.cu").write_text(KERNEL)
    assert graded()["score"] == 100


def test_the_steps_of_opencl_are_its_functions_in_order():
    if why := missing():
        pytest.skip(f"needs an OpenCL device: {why}")
    source = "__kernel void f(__global int *a, int b) { a[get_global_id(0)] = b; }"
    a = np.zeros(64, "i4")
    said = steps(lambda: gpuops.compile(source, "opencl")[1, 64](a, 7))
    names = [line.partition(",")[0] for line in said]
    assert (a == 7).all()
    order = ["clCreateProgramWithSource", "clBuildProgram", "clCreateBuffer",
             "clSetKernelArg", "clEnqueueNDRangeKernel"]  # fmt: skip
    assert list(dict.fromkeys(name for name in names if name in order)) == order
    assert names[names.index(order[-1]) + 1].startswith("clFinish")
    assert steps(lambda: None) == []


def test_results_are_numpys():
    for name, task in TASKS.items():
        case = task.make(tuple(settings_of(name, None)["counted"]), np.random.default_rng(0))
        inside = task.signature.partition("(")[2]
        assert len(case.args) == inside.count(",") + 1, name
        for k, expected in case.expected.items():
            assert np.isfinite(expected).all(), name
            free = case.total or k in case.within
            assert free or expected.dtype == case.args[k].dtype, name
