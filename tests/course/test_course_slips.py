"""What misled or overpaid a student of the course, case by case, and a lecturer's slips."""

import subprocess
import sys
from pathlib import Path

import pytest
from sim_kernels import needs_sim
from test_course import EXERCISES, KERNEL, SOLVED

import gpuops
from gpuops.course import TASKS, check, compare
from gpuops.course.__main__ import main
from gpuops.course.checking import _cases
from gpuops.course.extract import is_same, starter_of
from gpuops.course.settings import settings_of, validate

pytestmark = pytest.mark.sampled(every=2)
SHIPPED = Path(gpuops.__file__).parent / "course" / "course.toml"


def changed(name, *changes):
    source = SOLVED[name]
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source


def said_of(name, source):
    score = check(name, source, quiet=True)
    assert not score.passed
    said = " ".join(line for part in score.parts for line in part.said)
    return score, said.replace("\n", " ")


# ---- what is handed in ----


@needs_sim
def test_a_byte_order_mark_costs_no_points(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_bytes(b"\xef\xbb\xbf" + KERNEL.encode())
    assert check("03", path, quiet=True).passed
    assert not gpuops.course.source_of("\ufeff" + KERNEL).startswith("\ufeff")


@pytest.mark.parametrize(("kernel", "words"), [
    ("", r"'' is no kernel: expected CUDA C\+\+"),
    ("hello", r"'hello' is no kernel: .* or the path of a file that ends in"),
])  # fmt: skip
@needs_sim
def test_what_is_no_kernel_is_a_sentence(kernel, words):
    with pytest.raises(ValueError, match=words):
        check("03", kernel)


@needs_sim
def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"check: there is no file .*none\.cu"):
        check("03", tmp_path / "none.cu")


@needs_sim
def test_an_exercise_by_its_number():
    for name in ("3", 3, " 03"):
        assert check(name, "x;", quiet=True).task == "03"
    assert check("5b", "x;", quiet=True).task == "05b"


# ---- points for nothing ----


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("name", sorted(TASKS))
@needs_sim
def test_an_untouched_starter_earns_nothing(name):
    score = check(name, EXERCISES[name] + "\n// my name\n", quiet=True)
    assert score.points == 0
    assert not score.passed


def test_every_starter_is_known():
    for name, task in TASKS.items():
        assert is_same(EXERCISES[name], starter_of(name[:2], task.variable))
        assert not is_same(SOLVED[name], EXERCISES[name])


def test_blanks_and_empty_statements_make_no_other_kernel():
    starter = EXERCISES[next(iter(EXERCISES))]
    for other in (starter.replace(";", ";;"), starter.replace(" = ", "="), starter + "// mine"):
        assert is_same(starter, other)
    assert not is_same(starter, starter.replace("threadIdx.x", "threadIdx.y"))
    assert not is_same("if (a) { b; } c;", "if (a) { b; c; }")


# Each ends in another exercise's kernel.
ELSEWHERE = [("03", "04"), ("03", "14a"), ("05", "14b"), ("05", "05b"), ("11", "14d")]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("name", "other"), ELSEWHERE)
@needs_sim
def test_the_next_starter_is_no_solution(name, other):
    source = EXERCISES[other]
    if other == "05b":  # without the ticket
        begin, end = source.index("        if (atomicAdd(ticket"), source.rindex("    }\n}")
        source = source[:begin] + source[end:]
        source = source.replace(", unsigned *ticket, int *out", "")
    score = check(name, source, quiet=True)
    assert not score.passed
    assert score.points < 60


# ---- wrong kernels that passed ----


@needs_sim
def test_a_place_past_the_last_bin_is_met():
    _, said = said_of("11", changed("11", ("if (bin < 64) ", "")))
    assert "of an array of type int [64]" in said
    for case in _cases(TASKS["11"], settings_of("11", None))[2:]:
        n = case.args[2]
        assert case.expected[1].sum() < n * (n - 1) // 2


@pytest.mark.sampled(later=True)
@needs_sim
def test_a_barrier_in_the_branch_of_a_reduction_is_met():
    rounds = "        if (t < d) s[t] += s[t + d];\n        __syncthreads();"
    inside = "        if (t < d) { s[t] += s[t + d]; __syncthreads(); }"
    _, said = said_of("05", changed("05", (rounds, inside)))
    assert "has skipped: a barrier in divergent code" in said


@needs_sim
def test_a_sum_in_a_float_is_met():
    words = ("int t = threadIdx.x, mine = 0", "int t = threadIdx.x; float mine = 0")
    score, said = said_of("05", changed("05", words))
    assert "Near, but rounded: a float has 24 bits" in said
    assert score.parts[0].points < 10


# ---- sentences that misled ----


@needs_sim
def test_an_edge_tile_asks_for_no_barrier():
    _, said = said_of("03", changed("03", ("if (x < n && y + j < n) out", "out")))
    words = "loads tile[0][8], shared memory that no thread of the block has stored to so far, "
    assert words in said
    assert "put __syncthreads" not in said
    assert "tile[threadIdx.x][threadIdx.y + j];" in said


@needs_sim
def test_the_exercises_hint_is_told_where_sim_stops_all():
    loop = "for (int j = 0; j < 32; j += 8)\n        if (x < n && y + j < n) tile"
    once = loop.replace("for (int j = 0; j < 32; j += 8)", "int j = 0;")
    _, said = said_of("03", changed("03", (loop, once)))
    assert "each thread carries four elements" in said


SAID = {
    "a tile of the thread's own": (
        "03", [("__shared__ float tile", "float tile")],
        "Only the diagonals of tiles are right: a tile is the whole block's, `__shared__`",
    ),
    "a tile of int": (
        "03", [("__shared__ float tile", "__shared__ int tile")], "the tile is of float",
    ),
    "rows of the output exchanged": (
        "03", [("out[(y + j) * n + x]", "out[x * n + y + j]")],
        "out[0, 1] is 1.0, that of in[0, 1], expected 33.0, that of in[1, 0]",
    ),
    "a stride of everything": (
        "05", [("i < n; i += 256 * gridDim.x", "i < n; i += n")],
        "These are the first 4096 elements",
    ),
    "added to parts that hold no 0": (
        "05",
        [("part[blockIdx.x] = s[0]", "atomicAdd(&part[blockIdx.x], s[0])")],
        "part holds no 0 at the start",
    ),
    "bins added by two threads": (
        "11",
        [("if (t < 64) atomicAdd(&h[t], mine[t])", "atomicAdd(&h[t % 64], mine[t % 64])")],
        "or each bin of the block is added to h by two threads",
    ),
    "the root forgotten": (
        "11", [("sqrtf(dx * dx + dy * dy + dz * dz)", "(dx * dx + dy * dy + dz * dz)")],
        "These are the squares of the distances",
    ),
    "the second fence of a ticket": (
        "05b", [("__threadfence(); // and", "// and")],
        "the half that is missing is this block's",
    ),
    "OpenCL's words": (
        "13", [("    barrier(CLK_LOCAL_MEM_FENCE);\n", "")],
        "local memory that no work-item of the work-group has stored to so far: store to it "
        "first, and put barrier(CLK_LOCAL_MEM_FENCE) between",
    ),
    "no part of a place": (
        "03", [("blockIdx.x * 32", "blockIdx * 32")], "blockIdx has three parts, x, y and z",
    ),
    "a store to the input": (
        "03", [("out[(y + j) * n + x] = tile", "in[(y + j) * n + x] = tile")],
        "`in` is constant here: nothing can be stored to it",
    ),
}  # fmt: skip


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", SAID)
@needs_sim
def test_the_sentence_helps(name):
    exercise, changes, words = SAID[name]
    _, said = said_of(exercise, changed(exercise, *changes))
    assert words in said
    assert exercise != "13" or "kernel.cu" not in said
    assert "gop_" not in said


@needs_sim
def test_what_a_kernel_prints_is_cut_with_a_mark():
    loud = '    printf("hello\\n");\n    __syncthreads();'
    many = KERNEL.replace("    __syncthreads();", loud)
    score = check("03", many, quiet=True)
    assert score.printed.endswith("... and more, which is not shown")
    assert not check("03", "x;", quiet=True).printed


# ---- a lecturer's slip ----


def file_with(tmp_path, *changes):
    text = SHIPPED.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


SLIPS = {
    "a schedule that is none": (
        ('"random:1"', '"randm:1"'), "schedules is .*'randm:1'.*expected some of \"forward\"",
    ),
    "no seconds": (("seconds = 120", "seconds = 0"), "seconds is 0, expected whole seconds"),
    "a word misspelt": (("seeds =", "seed ="), "has no `seed`; did you mean `seeds`"),
    "no [all]": (("[all]", "[tasks.xx]"), "has no|there is no"),
    "no shapes": (
        ("[tasks.03]\nshapes = [[33], [64]]", "[tasks.03]"),
        r"neither \[tasks.03\] nor \[all\] has `shapes`",
    ),
    "a size that nobody can pass with": (
        ("counted = [1000]\npoints", "counted = [500]\npoints"),
        "counted is .500., and rows that are no multiple of 8 floats begin inside a sector",
    ),
    "a shape of two sizes": (
        ("[tasks.03]\nshapes = [[33]", "[tasks.03]\nshapes = [[33, 2]"), r"expected \[n\]",
    ),
    "points of a kind that is none": (
        ("errors = 20, counters = 40", "error = 20, counters = 40"), "points is .*expected",
    ),
    "rules of no GPU": (('rules = ["sim"]', 'rules = ["sim:cc14"]'), "rules is .*expected"),
}  # fmt: skip


@pytest.mark.parametrize("name", SLIPS)
def test_a_lecturers_slip_is_told_before_anything_runs(name, tmp_path, capsys):
    change, words = SLIPS[name]
    path = file_with(tmp_path, change)
    kernel = tmp_path / "mine.cu"
    kernel.write_text(KERNEL)
    told = validate(path)
    assert told
    assert main(["validate", str(path)]) == 2
    if "tasks.xx" not in change[1]:
        task = "03" if "points" not in name else "08"
        with pytest.raises(ValueError, match=words):
            settings_of(task, path)
        assert main(["check", task, str(kernel), "--settings", str(path)]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_the_shipped_settings_are_right(capsys):
    assert validate(SHIPPED) == []
    assert main(["validate", str(SHIPPED)]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


# ---- predictions ----


def test_predicted_beside_counted():
    shown = repr(compare({"a": 4, "b": None, "c": 1}, {"a": 4, "b": 5, "c": 2})).split("\n")
    assert [line.split() for line in shown[1:4]] == [
        ["a", "4", "4", "right"], ["b", "-", "5"], ["c", "1", "2", "no"]
    ]  # fmt: skip
    assert shown[-1] == "1 of 3 right, 0 near"


def test_a_prediction_in_words():
    guess = {"a": "about 4", "b": "no idea", "c": "x 2.1", "other": 3}
    shown = repr(compare(guess, {"a": 4, "b": 5, "c": 2}))
    assert [line.split()[-1] for line in shown.split("\n")[1:4]] == ["right", "number", "near"]
    assert "1 of 3 right, 1 near" in shown
    assert "not asked: other" in shown
    assert "all 2 right: well predicted" in repr(compare({"a": 1, "b": 2}, {"a": 1, "b": 2}))


def test_the_shell_takes_an_exercise_by_its_number(tmp_path):
    path = tmp_path / "none.cu"
    words = [sys.executable, "-m", "gpuops.course", "check", "3", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("check: there is no file")


@needs_sim
def test_a_result_is_drawn_as_a_map():
    plt = pytest.importorskip("matplotlib.pyplot")
    plain = changed("03", ("if (x < n && y + j < n) out", "if (x < 20 && y + j < n) out"))
    score = check("03", plain, quiet=True)
    states = score.picture.states
    assert states.shape == (33, 33)
    assert (states[:, :20] == 0).all()  # right
    assert (states[:, 20:] == 2).all()  # never written
    ax = score.draw()
    assert "660 right" in ax.get_legend().get_texts()[0].get_text()
    assert "out, n = 33, inputs 0, 1, 2, ..." in ax.get_xlabel()
    plt.close("all")
    with pytest.raises(ValueError, match="draw: exercise 03 left no result to draw"):
        check("03", "x;", quiet=True).draw()
