"""test_runner - `make test` itself: its set-up, who runs beside whom, what it says of skips."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import conftest
import pytest

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import time
from pathlib import Path
import pytest

def note(what):
    with Path("log").open("a") as log:
        log.write(what + "\\n")
    time.sleep(0.02)

@pytest.mark.parametrize("i", range(20))
def test_other(i):
    note("other begins")
    note("other ends")

@pytest.mark.alone
@pytest.mark.parametrize("i", range(3))
def test_alone(i):
    note("alone begins")
    note("alone ends")

@pytest.mark.parametrize("i", range(30))
def test_refused(i):
    pytest.skip(f"the kernel takes 8 items, got {i}")
"""


@pytest.mark.sampled(later=True)
def test_who_is_alone_runs_alone_and_skips_are_a_line(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-n", "2", "test_some.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "23 passed, 30 skipped" in done.stdout, done.stdout + done.stderr
    log = (tmp_path / "log").read_text().splitlines()
    for at, line in enumerate(log):
        if line == "alone begins":
            assert log[at + 1] == "alone ends", log
            assert log[:at].count("other begins") == log[:at].count("other ends"), log
    assert log.count("alone begins") == 3
    assert done.stdout.count("the kernel takes") == 1
    assert "30 of test_some.py: the kernel takes # items, got #" in done.stdout
    kept = (tmp_path / "build" / "skipped.txt").read_text()
    assert kept.count("the kernel takes 8 items, got ") == 30


SAMPLED = """
import itertools
from pathlib import Path
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("device", "kernel"), itertools.product("sc", "nt"))
def test_calls(device, kernel, n, dtype):
    with Path("log").open("a") as log:
        log.write(f"{device}{kernel}{n}{dtype}\\n")

@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("i", range(7))
def test_third(i):
    pass

@pytest.mark.sampled(later=True)
def test_later():
    pass

@pytest.mark.parametrize("i", range(20))
def test_other(i):
    pass
"""
SAMPLED_FILE = """
import pytest
pytestmark = pytest.mark.sampled(every=2)

def test_one():
    pass

@pytest.mark.parametrize("i", range(4))
def test_four(i):
    pass
"""


@pytest.mark.sampled(later=True)
def test_of_sampled_tests_a_few_meet_all_pairs(tmp_path):
    """A device's kernel with each other argument, and others with each other."""
    (tmp_path / "test_some.py").write_text(SAMPLED)
    (tmp_path / "test_file.py").write_text(SAMPLED_FILE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = sampled\n")
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])

    def ran(*words, file="test_some.py"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "conftest", *words, file],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        (tmp_path / "log").touch()
        log = (tmp_path / "log").read_text().splitlines()
        (tmp_path / "log").unlink()
        return log, done.stdout

    def pairs(log):
        return {p for at in log for p in itertools.combinations((at[:2], at[2], at[3]), 2)}

    every, said = ran("--all", "-m", "sampled")
    assert len(every) == 4 * 3 * 2
    assert "32 passed, 20 deselected" in said
    few, said = ran()
    assert 12 <= len(few) < 18
    assert f"{len(few) + 3 + 20} passed, {24 - len(few) + 4 + 1} deselected" in said
    assert pairs(few) == pairs(every)
    rest, _ = ran("--all", "--rest", "-m", "sampled")  # what has passed is not made again
    assert sorted(rest + few) == sorted(every)
    left_out = next(at for at in every if at not in few)
    named = "{}-{}-{}-{}".format(*left_out)  # what is asked for runs
    assert ran("-k", f"test_calls and {named}")[0] == [left_out]
    assert "5 passed" in ran("-k", f"test_later or test_third or {named}")[1]
    assert "3 passed, 2 deselected" in ran(file="test_file.py")[1]


def test_each_commit_has_a_share_of_its_own_and_several_have_all():
    names = [f"test_some.py::test_calls[{n}]" for n in range(300)]
    met = set()
    for commit in range(30):
        chosen = {n for n in names if conftest.is_in_share(n, b"%040x\n" % commit, 3)}
        assert 60 < len(chosen) < 140
        met |= chosen
    assert met == {*names}


OLD = """#!/bin/sh
exec %s -c "import sys; sys.version_info = (3, 9); sys.version = '3.9.2'; $2"
"""


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_an_old_python_is_told_before_anything_is_installed(tmp_path):
    python = tmp_path / "python3.9"
    python.write_text(OLD % sys.executable)
    python.chmod(0o755)
    words = ["make", "-C", str(ROOT), "build", f"PYTHON={python}", f"VENV={tmp_path}/venv"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "gpuops needs Python 3.11 or later" in done.stderr
    assert "is 3.9.2: make PYTHON=" in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize(
    ("more", "variable", "wish", "is_said"),
    [
        (["CUDA=0"], None, "0", False),
        (["CUDA=1"], None, "1", False),
        (["CUDA=1"], "0", "1", False),
        ([], "1", "1", False),
        ([], "auto", "auto", False),
        (["GPUS="], None, "0", True),
        (["GPUS=75 90a"], None, "auto", False),
    ],
)
def test_cuda_is_compiled_where_a_gpu_answers_and_where_it_is_asked_for(
    more, variable, wish, is_said
):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    for name in ("CUDA", "GPUS", "GPUOPS_CUDA"):
        env.pop(name, None)
    env |= {"GPUOPS_CUDA": variable} if variable else {}
    told = "ask: ; @$(NOTE) echo cuda=$$GPUOPS_CUDA"
    words = ["make", "-C", str(ROOT), "--eval", told, "ask", *more]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    assert f"cuda={wish}\n" in done.stdout
    assert ("no NVIDIA GPU answers here" in done.stdout) is is_said
