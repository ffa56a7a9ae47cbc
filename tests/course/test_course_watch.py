"""watch: a small launch step by step, and what its page holds."""

import json
import re

import numpy as np
import pytest
from sim_kernels import needs_sim
from test_course import SOLVED

import gpuops
from gpuops.course import TASKS, watch

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim")]


def test_a_tile_goes_from_thread_to_shared_to_output():
    seen = watch(SOLVED["03"], n=8)
    assert [(g.name, g.place) for g in seen.grids] == [
        ("in", "in"), ("tile", "shared"), ("out", "out")
    ]  # fmt: skip
    first, second = seen.steps[:2]
    assert (first.does, first.array) == ("loads", "in")
    assert first.elements == {k: k for k in range(8)}
    assert (second.does, second.array, second.warp) == ("stores", "tile", 0)
    stored = [at for s in seen.steps if s.array == "out" for at in s.elements.values()]
    assert sorted(stored) == list(range(64))
    line = SOLVED["03"].splitlines()[first.line - 1]
    assert "= in[(y + j) * n + x]" in line


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("name", sorted(set(TASKS) - {"13"}))
def test_every_exercise_can_be_watched(name):
    seen = watch(SOLVED[name], n=256 if name == "01" else 8)
    assert seen.steps
    assert all(s.line and s.elements for s in seen.steps)
    assert {g.place for g in seen.grids} >= {"out"}


def test_any_launch_can_be_watched():
    body = "int t = threadIdx.x; b[t] = a[31 - t];"
    source = f"__global__ void k(const float *a, float *b) {{ {body} }}"
    k = gpuops.compile(source)
    seen = watch(k[1, 32], np.ones(32, "f4"), np.zeros(32, "f4"))
    assert [(s.does, s.array) for s in seen.steps] == [("loads", "a"), ("stores", "b")]
    assert seen.steps[0].elements == {lane: 31 - lane for lane in range(32)}
    with pytest.raises(ValueError, match="k is no exercise's kernel"):
        watch(source)


def test_a_size_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="n is 1000000, expected 1 to 256"):
        watch(SOLVED["03"], n=10**6)


def test_the_page_is_whole():
    page = watch(SOLVED["02"], n=8)._repr_html_()
    data = json.loads(re.search(r"data = (\{.*?\});\n", page)[1].replace("<\\/", "</"))
    assert [g[0] for g in data["grids"]] == ["p", "s", "out"]
    assert len(data["steps"]) == 6
    assert "@" not in page.replace("@DATA@", "")
    assert page.count("<script>") == page.count("</script>") == 1
    assert re.search(r'id="(gpuops-watch-\d+)"', page)[1] in page.split("<script>")[1]
    assert "6 steps" in repr(watch(SOLVED["02"], n=8))
