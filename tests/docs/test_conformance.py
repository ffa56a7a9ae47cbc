"""The conformance matrix: it is whole, and it would find a difference."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import conformance  # noqa: E402

RESULTS = sorted(conformance.RESULTS.glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_no_cell_is_missing_or_different(path):
    cells = json.loads(path.read_text())["cells"]
    assert path.stem in conformance.COLUMNS
    for op in conformance.OPS:
        for word in conformance.DTYPES:
            found = cells[op][word]
            assert "different" not in found, (op, word)
            assert found.get("refused") or found["same"]["auto"] >= 2, (op, word)


def test_each_device_has_a_table_or_a_sentence():
    for column, (title, needs) in conformance.COLUMNS.items():
        text = conformance.section(column)
        assert text.startswith(f"## {title}\n")
        there = (conformance.RESULTS / f"{column}.json").exists()
        assert there or text.endswith(f"Not run yet: it needs {needs}.")


@pytest.mark.parametrize("op", ["multiply_add", "argmin", "matmul", "jacobi_step", "rdf"])
def test_a_cell_counts_kernels(op):
    found = conformance.cell(op, "float32", "cpu")
    assert "different" not in found
    assert len(found["same"]) > 2
    assert "accepted are" in conformance.cell("rdf", "complex64", "cpu")["refused"]


def test_a_difference_is_found(monkeypatch):
    answer = conformance._answer

    def wrong(op, args, how, device, kernel):
        got = answer(op, args, how, device, kernel)
        return np.nextafter(got, np.float32(np.inf)) if kernel == "simd" else got

    monkeypatch.setattr(conformance, "_answer", wrong)
    found = conformance.cell("add", "float32", "cpu")
    assert found["different"][0].startswith("simd: ")
