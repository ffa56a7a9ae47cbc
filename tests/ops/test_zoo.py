"""The zoo of calls that nobody chose: a few of them, on the CPU, and what is drawn."""

import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import zoo  # noqa: E402
import zoo_draw  # noqa: E402


@pytest.mark.parametrize("op", zoo.OPS)
def test_what_is_drawn_is_what_the_seed_says(op):
    def some():
        draw = random.Random(f"{op} 7")
        return [zoo_draw.draw_case(op, draw, 1e4, 1e6, 0.2, True) for _ in range(50)]

    cases = some()
    assert cases == some()
    for case in cases:
        for laid in case.arrays:
            some_array = np.broadcast_to(np.int8(0), laid.stored).transpose(laid.back)
            some_array = some_array[laid.slices]
            assert some_array.shape == laid.shape
        item = zoo_draw.SIZES[case.dtype]
        most = max(case.arrays, key=lambda a: math.prod(a.shape))
        assert math.prod(most.shape) * item < 1e7


def test_the_kinds_of_permutations_and_reductions():
    assert zoo_draw.permutation_kind((5, 1, 7), (0, 2, 1), 4) == "a copy"
    assert zoo_draw.permutation_kind((100, 100, 3), (1, 0, 2), 1) == "lines stay, short"
    assert zoo_draw.permutation_kind((100, 100, 3), (2, 0, 1), 1) == "thin"
    assert zoo_draw.permutation_kind((100, 10, 10), (1, 2, 0), 1) == "turned"
    assert zoo_draw.reduction_kind((4, 1, 5), (0, 2)) == "whole"
    assert zoo_draw.reduction_kind((4, 3, 500), (0, 2)) == "apart"
    assert zoo_draw.reduction_kind((4, 3, 5), (1,)) == "middle, few"
    assert zoo_draw.reduction_kind((400, 3, 5), (0, 1)) == "columns"


@pytest.mark.parametrize("op", ["add", "multiply_add"])
def test_permuted_views_are_drawn(op):
    """In one order, which merges to lines where nothing is cut or repeated, and in several."""
    draw = random.Random(op)
    cases = [zoo_draw.draw_case(op, draw, 1e4, 1e6, 0.2, True) for _ in range(400)]
    kinds = [case.kind for case in cases]
    assert min(kinds.count("one order"), kinds.count("mixed orders")) > 30
    for case in cases:
        orders = {laid.order for laid in case.arrays}
        for laid in case.arrays if orders != {()} else ():
            at = [np.arange(n) for n in laid.made]
            assert laid.stored == tuple(len(at[d]) for d in laid.order)
            assert tuple(laid.stored[d] for d in laid.back) == laid.made


def test_a_few_cases_are_right_and_on_file(tmp_path):
    path = tmp_path / "zoo.json"
    options = {"device": "cpu", "cases": 12, "seconds": 60, "most": 1e5, "repeat": 1}
    command = [sys.executable, ROOT / "benchmarks" / "zoo.py", "--out", path]
    command += [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    got = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert got.returncode == 0, got.stdout[-2000:] + got.stderr[-2000:]
    results = zoo.read(path)
    assert len(results["rows"]) == 48
    assert all({"gpuops", "numpy", "copy"} <= row["seconds"].keys() for row in results["rows"])
    assert "| transpose | below 4 MiB | all | 12 |" in zoo.summary(results["rows"], "kind")
