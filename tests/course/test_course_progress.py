"""What helps a learner on: hints, solutions, progress, the class's table, and %%kernel."""

import json
import types

import pytest
from sim_kernels import needs_sim
from test_course import EXERCISES, KERNEL, SOLVED

from gpuops._show import magics
from gpuops.course import TASKS, check, class_csv, hint, progress, solution, source_of
from gpuops.course.__main__ import main as shell
from gpuops.course.progress import HINTS

pytestmark = pytest.mark.sampled(every=2)


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def test_every_exercise_has_three_steps_of_help():
    assert list(HINTS) == list(TASKS)
    for steps in HINTS.values():
        assert len(steps) == 3
        assert all(step.endswith((".", "?", ";", "}")) for step in steps)


def test_hints_come_one_by_one():
    said = [str(hint("03")) for _ in range(4)]
    assert [s.partition(":")[0] for s in said] == [
        "03, hint 1 of 3", "03, hint 2 of 3", "03, hint 3 of 3", "03, hint 3 of 3"
    ]  # fmt: skip
    assert str(hint("3", step=1)) == said[0]
    with pytest.raises(ValueError, match="step is 4, expected 1 to 3"):
        hint("03", 4)
    assert progress().as_dict()["03"]["hints"] == 3


@needs_sim
def test_a_solution_is_shown_for_all_points(capsys):
    words = r'you have 0 of 100; gpuops\.course\.hint\("03"\) helps'
    with pytest.raises(PermissionError, match=words):
        solution("03")
    check("03", KERNEL)
    assert 'gpuops.course.solution("03") shows how another one does it; next is 04, banks' in (
        capsys.readouterr().out
    )
    assert str(solution("03")) == SOLVED["03"]


@needs_sim
def test_check_and_progress_name_the_same_exercise_as_next(capsys):
    for name, after in (("03", "04"), ("01", "02"), ("03", "04")):
        check(name, SOLVED[name])
        assert f"next is {after}, " in capsys.readouterr().out
        assert progress().next == after


def test_the_solutions_that_travel_are_the_notebooks(home):
    home.joinpath("gpuops").mkdir(parents=True)
    known = {name: {"best": 100.0, "most": 100.0, "attempts": 1} for name in TASKS}
    (home / "gpuops" / "course.json").write_text(json.dumps(known))
    for name in TASKS:
        assert str(solution(name)) == SOLVED[name]
    assert progress().next == ""


@needs_sim
def test_progress_is_kept_and_a_hint_offered(capsys):
    for _ in range(3):
        check("03", "x;")
    assert 'stuck? gpuops.course.hint("03") helps in 3 steps' in capsys.readouterr().out
    check("03", KERNEL, quiet=True)  # keeps nothing
    entry = progress().as_dict()["03"]
    assert (entry["best"], entry["attempts"], entry["failed"]) == (0, 3, 3)
    table = repr(progress())
    assert table.splitlines()[1].split() == ["00", "grid", "-", "0", "0", "next"]
    assert table.endswith(f"0 of {len(TASKS)} done")


@needs_sim
def test_a_home_that_cannot_be_written_is_no_mistake(home, capsys):
    home.write_text("a file where the folder would be")
    check("03", "x;")
    assert "03 transpose: 0 of 100" in capsys.readouterr().out
    assert progress().as_dict()["03"]["attempts"] == 0


@needs_sim
def test_a_classs_table(tmp_path, capsys):
    kernel = tmp_path / "anna.cu"
    kernel.write_text(KERNEL)
    assert shell(["check", "03", str(kernel), "--json", str(tmp_path / "anna.json")]) == 0
    (tmp_path / "ben.json").write_text("")
    capsys.readouterr()
    assert shell(["table", *map(str, tmp_path.glob("*.json"))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "submission,exercise,points,most,passed,bits,errors,counters",
        "anna,03,100,100,yes,20,20,60",
        "ben,,0,,not graded",
    ]
    assert progress().as_dict()["03"]["attempts"] == 0  # somebody else's
    assert class_csv([]).count("\n") == 1


@needs_sim
def test_a_cell_of_cuda_is_graded_and_its_lines_are_the_cells(capsys):
    shell_of = types.SimpleNamespace(user_ns={})
    cell = EXERCISES["03"].lstrip("\n").replace("threadIdx.y;", "threadIdx.y; oops")
    magics.kernel(shell_of, "KERNEL --check 03", cell)
    assert not shell_of.user_ns["score"]
    at = cell.split("\n").index(next(x for x in cell.split("\n") if "oops" in x))
    assert f"line {at + 2}: " in capsys.readouterr().out  # the first one is %%kernel's
    assert source_of(shell_of.user_ns["KERNEL"]).strip() == cell.strip()
    magics.kernel(shell_of, "KERNEL --check", cell)
    assert "%%kernel KERNEL --check 03" in capsys.readouterr().out


def test_a_source_is_shown_in_colours(monkeypatch):
    display = pytest.importorskip("IPython.display")
    seen = []
    monkeypatch.setattr(display, "display", seen.append)
    magics.show(KERNEL)
    assert '<span style="color' in seen[0].data
    assert "__syncthreads" in seen[0].data
