"""The speed tables of the documents are generated from the results on file, and are fresh."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import tables  # noqa: E402


def test_the_documents_show_the_results_on_file():
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "tables.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(tables.gpuops, "is_available", lambda name: False)  # the rest is slow
    stale = [path.name for path, text in tables.documents().items() if path.read_text() != text]
    assert {"README.md", "benchmarks.md"} <= set(stale)


def test_a_target_is_met_within_one_percent():
    row = {"op": "add", "seconds": {"gpuops": 1.0, "numpy": 0.992}, "copy_seconds": 0.9}
    assert tables.is_met(row, "numpy", 1.0)
    assert not tables.is_met(row, "copy", 1.0)
    assert tables.is_met(row, "cupy", 1.0) is None
