"""test_choice - which kernel runs where none is named: the tables of choose, as explain() has
them."""

from __future__ import annotations

import engine
import numpy as np
import pytest
from engine import random

import gpuops

DEVICES = engine.backends()
PRODUCTS = (
    ("float32", (1000, 30, 20), (1000, 20, 30)),
    ("float32", (300, 400), (400, 500)),
    ("float32", (4000, 300), (300, 2)),
    ("float16", (8, 65, 40), (8, 40, 70)),
    ("float64", (33, 2000), (2000, 31)),
    ("int32", (256, 256), (256, 256)),
    ("uint8", (1, 3000), (3000, 40)),
    ("complex64", (50, 60), (60, 70)),
    ("bool", (100, 200), (200, 100)),
    ("int64", (5, 1), (1, 5)),
)


def product(word: str, a: tuple, b: tuple):
    return random(a, np.dtype(word), 1), random(b, np.dtype(word), 2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: f"{case[0]}{case[1]}")
def test_the_first_candidate_that_takes_the_call_runs(device, case):
    told = gpuops.explain("matmul", *product(*case), device=device)
    takes = [c.kernel for c in told.candidates if not c.refusal]
    assert told.kernel == takes[0]
    roles = {k.name: k.role for k in gpuops.kernels("matmul", device)}
    assert all(roles[c.kernel] == "production" for c in told.candidates)
    for candidate in told.candidates:
        assert not candidate.refusal or candidate.refusal.startswith("matmul: ")
        assert candidate.refusal or candidate.kernel in takes


@pytest.mark.skipif("sim" not in DEVICES, reason="sim is not built")
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: f"{case[0]}{case[1]}")
def test_candidates_are_asked_in_the_order_of_their_times(case):
    told = gpuops.explain("matmul", *product(*case), device="sim")
    seconds = [c.seconds for c in told.candidates]
    assert all(1e-6 < s < 1 for s in seconds)
    assert seconds == sorted(seconds)
    assert all(c.why for c in told.candidates)


@pytest.mark.skipif("sim" not in DEVICES, reason="sim is not built")
def test_who_is_passed_over_says_why():
    a = random((512, 512), np.dtype("float32"), 1)
    told = gpuops.explain("matmul", a, a, device="sim")
    text = repr(told)
    for candidate in told.candidates:
        if candidate.kernel == told.kernel:
            break
        sentence = candidate.refusal.partition(": ")[2]
        assert sentence
        sentence = sentence.removeprefix(f"kernel '{candidate.kernel}' ")  # the line names it
        assert sentence[:20] in text.replace("\n", " ")
    assert next(line for line in text.splitlines() if told.kernel in line and "µs" in line)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("a", "b"), [((0, 3), (3, 4)), ((3, 4), (4, 0)), ((3, 0), (0, 4)), ((0, 3, 4), (0, 4, 5))]
)
def test_empty_products_are_weighed_and_run(device, a, b):
    operands = product("float32", a, b)
    expected = np.matmul(*operands)
    assert np.array_equal(gpuops.matmul(*operands, device=device), expected)
    assert gpuops.explain("matmul", *operands, device=device).kernel


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", ["add", "transpose", "reduce", "matmul", "jacobi_step", "rdf"])
def test_a_ladder_has_three_sections(op, device):
    order = {"lesson": 0, "teaching": 0, "production": 1, "candidate": 1, "yardstick": 2}
    found = [order[k.role] for k in gpuops.kernels(op, device)]
    assert found == sorted(found)
    assert 1 in found
    text = repr(gpuops.kernels(op, device)).splitlines()
    assert "-- production --" in text
    assert ("-- lessons --" in text) == (0 in found)
