"""The bits of sums, means and products are those of tests/golden_tree.json, everywhere and for
good: on every device, by every conforming kernel, at every instruction set, in every layout."""

from __future__ import annotations

import functools
import warnings

import engine
import golden_tree
import numpy as np
import pytest
from test_same_bits import Way, ways

import gpuops

CASES = golden_tree.golden()
WAYS = ways()


@functools.cache
def numbers(index: int) -> tuple[np.ndarray, np.ndarray | None]:
    return golden_tree.operand(CASES[index]), golden_tree.mask(CASES[index])


def answer(case: dict, a: np.ndarray, mask: np.ndarray | None, way: Way) -> str:
    axis = tuple(case["axis"]) if isinstance(case["axis"], list) else case["axis"]
    more = {} if mask is None else {"where": mask}
    function = getattr(gpuops, case["function"])
    with way, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no element may be left by a mask
        got = function(a, axis=axis, device=way.device, kernel=way.kernel, **more)
    return golden_tree.digest(got)


def test_the_file_holds_every_case():
    kept = [{k: v for k, v in case.items() if k != "sha256"} for case in CASES]
    made = [{**case, "shape": list(case["shape"])} for case in golden_tree.cases()]
    for case in made:
        if isinstance(case["axis"], tuple):
            case["axis"] = list(case["axis"])
    assert kept == made


def test_the_hashes_differ():
    """Answers that are all infinite, or all the same, would prove nothing."""
    assert len({case["sha256"] for case in CASES}) == len(CASES)


def test_the_reference_gives_the_hashes():
    for case in CASES:
        assert golden_tree.digest(golden_tree.reference(case)) == case["sha256"], case


def test_a_bit_changes_the_hash():
    case = next(c for c in CASES if c["shape"] == [4097] and c["dtype"] == "float32")
    other = np.nextafter(golden_tree.reference(case), np.float32(np.inf))
    assert golden_tree.digest(other) != case["sha256"]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_gives_the_hashes(way):
    ran = 0
    for index, case in enumerate(CASES):
        a, mask = numbers(index)
        if not engine.small_enough(way.device, a.size):
            continue
        for view in (a, engine.layout(a, "negative"), engine.layout(a, "transposed")):
            try:
                assert answer(case, view, mask, way) == case["sha256"], f"{case}: {way}"
                ran += 1
            except gpuops.KernelRefusedError:
                continue
    assert ran > 0, f"{way} refused every call"
