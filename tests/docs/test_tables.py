"""The speed tables of the documents are generated from the results on file, and are fresh."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import results as results_on_file  # noqa: E402
import tables  # noqa: E402


def test_the_documents_show_the_results_on_file(monkeypatch, capsys):
    """All but docs/certificate.md, which tests/sim/test_certificate.py compares."""
    monkeypatch.setattr(tables.gpuops, "is_available", lambda name: name == "cpu")
    monkeypatch.setattr(sys, "argv", ["tables.py", "--check"])
    assert tables.main() == 0, capsys.readouterr().out


def test_another_result_makes_them_stale(tmp_path, monkeypatch):
    for path in tables.RESULTS.glob("*.json"):
        results = json.loads(path.read_text())
        for run in results["ops"].values():
            for row in run["rows"]:
                if "seconds" in row:
                    times = row["seconds"]
                    row["seconds"] = (
                        {name: 2 * s for name, s in times.items()}
                        if isinstance(times, dict)
                        else 2 * times
                    )
        (tmp_path / path.name).write_text(json.dumps(results))
    assert list(tmp_path.iterdir())
    for module in (results_on_file, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(tables.gpuops, "is_available", lambda name: False)  # the rest is slow
    stale = [path.name for path, text in tables.documents().items() if path.read_text() != text]
    assert {"README.md", "benchmarks.md"} <= set(stale)


def marked(page: str, name: str) -> str:
    text = (ROOT / page).read_text()
    return text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]


def table_rows(text: str) -> list[list[str]]:
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line[:2] == "| "]
    return [row for row in rows if row[0] not in ("operation", "---")]


def test_readme_has_one_row_for_each_operation():
    text = marked("README.md", "speed")
    ops = [row[0] for row in table_rows(text)]  # those of a GPU, then those of a CPU
    assert ops[:6] == ["add", "transpose", "reduce", "matmul", "jacobi_step", "rdf"]
    assert ops[6:] == ["add", "transpose", "reduce"]
    assert "NVIDIA H200" in text.partition("AMD EPYC, 2 threads")[0]
    assert "not met" not in text


def test_readme_begins_with_a_picture_and_three_figures():
    text = marked("README.md", "figures")
    picture = text.partition("](")[2].partition(")")[0]
    assert (ROOT / picture).is_file()
    rows = [row for row in table_rows(text) if row[0] != "what"]
    assert [row[-1].split(" ")[0] for row in rows] == ["MDAnalysis", "PyTorch", "PyTorch"]
    assert all(row[-1].endswith(" times as long") for row in rows)


def test_the_lectures_pairs_stand_beside_ours():
    page = marked("docs/lectures.md", "lectures").partition("## rdf")[2]
    ours = {tuple(row[:2]): row[2:] for row in table_rows(page) if row[0] != "device"}
    assert ours["NVIDIA H200", "naive"][1] == "16.3 s"
    assert ours["NVIDIA H200", "shared"][1] == "1.9 s; below 1 s"
    for device, results in tables.all_ladders().items():
        ladder = results["ops"].get("rdf", {"call": "", "rows": []})
        for row in ladder["rows"]:
            if ladder["call"] == f"{tables.POINTS} points f4" and "seconds" in row:
                shown = ours[results["device"], row["name"]][-1]
                assert float(shown.split()[0]) == float(f"{row['seconds']:.4g}"), device
    small = {"amd": {"ops": {"rdf": {"call": "10000 points f4", "rows": []}}}}
    assert tables.lecture_pairs(small) == ""


def test_the_scoreboard_has_what_is_missed_too():
    text = marked("docs/benchmarks.md", "targets")
    verdicts = [row[-1] for row in table_rows(text)]
    assert {"yes", "**no**"} <= set(verdicts)
    counts = [line.split(": ")[1] for line in text.splitlines() if line.endswith(" met.")]
    met, of = (sum(int(c.split()[i]) for c in counts) for i in (0, 2))
    assert (verdicts.count("yes"), len(verdicts)) == (met, of)
    for results in tables.all_results():
        for row in tables.rows_of(results):
            for beside, _ in row["targets"] if row.get("headline") else ():
                assert f"| {row['case']} | {beside} |" in text


def test_a_target_is_met_within_one_percent():
    row = {"op": "add", "seconds": {"gpuops": 1.0, "numpy": 0.992}, "copy_seconds": 0.9}
    assert tables.is_met(row, "numpy", 1.0)
    assert not tables.is_met(row, "copy", 1.0)
    assert tables.is_met(row, "cupy", 1.0) is None
