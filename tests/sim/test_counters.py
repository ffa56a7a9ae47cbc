"""test_counters - profile beyond its sums: branches, samples, warnings, maps, its cost.

The kernels are written here, so that every number follows from their source.
"""

import html
import importlib.util
import json
import re
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from sim_kernels import line_of, needs_sim

import gpuops
from gpuops import profiling

pytestmark = needs_sim
needs_lines = pytest.mark.skipif(not shutil.which("addr2line"), reason="no addr2line")

# ---- branches ----

PARTS = """
__global__ void parts(const int *a, int *out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t % 2 == 0)
        out[t] = 1;
    else
        out[t] = a[t];
    if (threadIdx.x < 32)
        out[t] += 1;
    int sum = 0;
    for (int j = 0; j < threadIdx.x % 4; j++)
        sum += a[j];
    if (t < n)
        out[t] += sum;
}
"""


@needs_lines
def test_files_of_kernels_of_the_package():
    """Each by its one name, though sim's compiler reads a copy."""
    a = np.ones((33, 33), "i4")
    profile = gpuops.profile("matmul", a, a, kernel="blocktiled")
    (k,) = profile
    assert len(profile) == 1
    assert profile[k.name] is k
    for places in (k.branch_lines, k.lines):
        assert places
        assert all(file.startswith("csrc/cuda/") for file, *_ in places)


@needs_lines
def test_branches_by_line():
    k = gpuops.compile(PARTS)
    a, out = np.zeros(128, "i4"), np.zeros(128, "i4")
    p = gpuops.profile(lambda: k[2, 64](a, out, 1000))["parts"]
    found = {line: b for (_, line), b in p.branch_lines.items()}
    odd = found[line_of(PARTS, "t % 2")]
    assert (odd.passed, odd.divergent, odd.lanes) == (4, 4, 128)
    by_warp = found[line_of(PARTS, "threadIdx.x < 32")]  # whole warps go one way
    assert (by_warp.passed, by_warp.divergent, by_warp.lanes) == (4, 0, 128)
    inside = found[line_of(PARTS, "t < n")]
    assert (inside.passed, inside.divergent) == (4, 0)
    loop = found[line_of(PARTS, "for (")]  # eight threads leave each time
    assert loop.divergent == 4 * 3
    assert loop.passed >= 4 * 4 - 4
    text = repr(gpuops.profile(lambda: k[2, 64](a, out, 1000)))
    assert f"kernel.cu:{line_of(PARTS, 't % 2')}" in text
    assert f"kernel.cu:{line_of(PARTS, 't < n')} " not in text  # no warp parts there


@needs_lines
@pytest.mark.parametrize(("kernel", "apart"), [("interleaved", 47), ("sequential", 5)])
def test_the_steps_of_a_reduction_diverge_or_not(kernel, apart):
    """With t % (2 d) == 0 every warp at work is split, with t < d one warp of the last five."""
    p = gpuops.profile("reduce", np.ones(256 * 40, "f4"), kernel=kernel)[f"reduce_{kernel}"]
    in_loop = max(b.divergent for b in p.branch_lines.values())
    assert in_loop == 41 * apart


ROUNDS = """
__global__ void rounds(const int *a, int *out)
{
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 3; i++) {
        if ((t + i) % 2)
            for (int j = 0; j <= t % 4; j++)
                sum += a[32 * j + t]; // some
        for (int j = 0; j < 4; j++)
            sum += a[32 * j + t]; // all
    }
    out[t] = sum;
    for (int i = 0; i < 3; i++) {
        sum += a[t + i]; // before
        __syncthreads();
        if (t % 2) out[t] += sum; // behind
    }
}
"""


@needs_lines
def test_threads_that_part_in_a_loop_share_its_turns():
    k = gpuops.compile(ROUNDS)
    a, out = np.zeros(128, "i4"), np.zeros(32, "i4")
    p = gpuops.profile(lambda: k[1, 32](a, out))["rounds"]
    found = {(x.line, x.kind): (x.counts.requests, x.counts.lanes) for x in p.accesses}
    # Odd threads go round 2 or 4 times, then even ones once or 3 times, then odd ones.
    some = (4 + 3 + 4, 8 * (2 + 4 + 1 + 3 + 2 + 4))
    assert found[line_of(ROUNDS, "// some"), "load"] == some
    assert found[line_of(ROUNDS, "// all"), "load"] == (3 * 4, 3 * 4 * 32)
    assert found[line_of(ROUNDS, "// before"), "load"] == (3, 3 * 32)
    assert found[line_of(ROUNDS, "// behind"), "store"] == (3, 3 * 16)


LONG_WAY = """
__global__ void far(int *out, int n)
{
    int x = threadIdx.x;
    for (int j = 0; j < n; j++)
        x = x % 2 ? 3 * x + 1 : x / 2;
    out[threadIdx.x] = x;
}
"""


@needs_lines
def test_paths_longer_than_what_is_kept_lose_no_branch():
    k = gpuops.compile(LONG_WAY)
    out = np.zeros(32, "i4")
    p = gpuops.profile(lambda: k[1, 32](out, 1000))["far"]
    loop = p.branch_lines[next(key for key in p.branch_lines if key[1] == 5)]
    assert 1000 <= loop.passed <= 1020  # but for where the room for paths ended
    assert loop.lanes == pytest.approx(32 * 1000, abs=64)
    assert loop.divergent < 20
    step = p.branch_lines[(loop.file, line_of(LONG_WAY, "x % 2 ?"))]
    assert step.divergent > 100  # odd and even ones
    assert p.counts("global", "store").lanes == 32


# ---- samples ----


def test_a_sample_says_so():
    a = np.zeros((256, 256), "f4")
    p = gpuops.profile("transpose", a, kernel="tiled", blocks=7)
    (k,) = p.kernels
    assert k.sampled
    assert (k.blocks, k.grid, k.threads) == (7, 64, 7 * 256)
    assert k.counts("global", "store").per_request == 4
    assert "a sample of 7 of 64 blocks" in repr(p)
    assert "results are incomplete" in repr(p)
    assert "results are incomplete" in p._repr_html_()
    assert p.as_dict()["transpose_tiled_kernel"]["sampled"] is True
    whole = gpuops.profile("transpose", a, kernel="tiled", blocks=64)
    assert not whole.kernels[0].sampled
    assert repr(whole) == repr(gpuops.profile("transpose", a, kernel="tiled"))


def test_a_sample_is_spread_over_the_grid_and_always_the_same():
    k = gpuops.compile("""
    __global__ void mark(int *out) { out[blockIdx.y * gridDim.x + blockIdx.x] = 1; }""")
    for blocks, grid in ((8, (16, 16)), (100, (16, 16)), (3, (1000, 1)), (1, (5, 1))):
        seen = []
        for _ in range(2):
            out = gpuops.to_device(np.zeros(grid[0] * grid[1], "i4"), "sim")
            gpuops.profile(lambda out=out, grid=grid: k[grid, 1](out), blocks=blocks)
            seen.append(np.flatnonzero(out.get()))
        assert (seen[0] == seen[1]).all()
        parts = seen[0] * blocks // (grid[0] * grid[1])
        assert len(seen[0]) == blocks
        assert np.abs(parts - np.arange(blocks)).max() <= 1  # one in each part of the grid


@pytest.mark.parametrize("blocks", [0, -1])
def test_a_sample_of_nothing_is_refused(blocks):
    with pytest.raises(ValueError, match="profile: blocks is a number above 0 or 'all'"):
        gpuops.profile("add", 1.0, 2.0, blocks=blocks)


def test_counts_of_what_there_is_not_are_refused():
    """A misspelt word counted nothing, as if there were no bank conflicts."""
    k = gpuops.profile("add", np.ones(64), 1.0, kernel="naive", device="sim").kernels[0]
    assert k.counts("shared", "load").requests == 0
    for space, kind in (("Shared", "load"), ("local", "load"), ("shared", "loads")):
        with pytest.raises(ValueError, match=r"counts: (space|kind) is '.*', expected .* or "):
            k.counts(space, kind)
    with pytest.raises(ValueError, match="balance: kind is 'read', expected load or"):
        k.balance("read")


@pytest.mark.parametrize("blocks", ["some", 2.5, None])
def test_a_sample_of_something_else_is_refused(blocks):
    with pytest.raises(TypeError, match="profile: blocks"):
        gpuops.profile("add", 1.0, 2.0, blocks=blocks)


@needs_lines
def test_a_profile_finds_places_outside_as_other_calls_do():
    k = gpuops.compile("""
    __global__ void past(float *a, int n) { a[blockIdx.x * n + threadIdx.x] = 1; }""")
    a = np.zeros(64, "f4")
    for shift in (1 << 6, 1 << 26):  # another array's place, and nobody's
        with pytest.raises(gpuops.DeviceError, match=r"kernel.cu:2 stores (a\[64\]|4)"):
            gpuops.profile(lambda shift=shift: k[2, 64](a, shift))
    assert gpuops.profile(lambda: k[1, 64](a, 0)).kernels  # and it still counts
    k = gpuops.compile("""
    __global__ void far(int *a, int i)
    {
        __shared__ int part[32];
        int *s = part;
        s[i] = 1;
        a[0] = s[i];
    }""")
    with pytest.raises(gpuops.DeviceError, match="past the end of the block's shared memory"):
        gpuops.profile(lambda: k[1, 1](np.zeros(4, "i4"), 32))


# ---- long runs ----

SLOW = """
__global__ void slow(float *a, int n)
{
    for (int j = 0; j < n; j++) a[(threadIdx.x + j) % 32] += 1;
}
"""


@pytest.mark.sampled(later=True)
def test_a_long_run_warns_with_its_estimate(monkeypatch):
    k = gpuops.compile(SLOW)
    a = np.zeros(32, "f4")

    def run(blocks="all", steps=300):
        return gpuops.profile(lambda: k[4096, 32](a, steps), blocks=blocks)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(steps=10)  # well under 20 s
    monkeypatch.setattr(profiling, "LONG", 0.0)
    with pytest.warns(gpuops.SimWarning, match=r"slow will take some \d+ s more.*blocks=64"):
        p = run()
    assert p["slow"].counts("global", "store").requests == 4096 * 300  # and goes on
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(gpuops.SimWarning):
            run()
        assert run(blocks=2)["slow"].blocks == 2


# ---- maps ----


def test_banks_and_sectors_of_each_instruction():
    a = np.zeros((64, 64), "f4")
    p = gpuops.profile("transpose", a, kernel="tiled")["transpose_tiled"]
    found = {(x.space, x.kind): x for x in p.accesses}
    load, store = found["shared", "load"], found["shared", "store"]
    assert load.each == ((32, 128),)  # 128 requests of 32 wavefronts
    assert load.map == store.map == (128,) * 32  # each bank gives as many words, at a bad time
    assert store.each == ((1, 128),)
    whole = found["global", "load"]
    assert whole.each == ((4, 128),)
    assert whole.map == (*[0] * 32, 4 * 128)  # all 32 bytes of all sectors
    p = gpuops.profile("transpose", a, kernel="naive")["transpose_naive"]
    (far,) = [x for x in p.accesses if (x.space, x.kind) == ("global", "load")]
    assert far.each == ((32, 128),)
    assert far.map == (0, 0, 0, 0, 4096, *[0] * 28)  # 4 bytes of each of 32 sectors


@needs_lines
def test_a_notebook_shows_source_banks_and_sectors():
    p = gpuops.profile("transpose", np.zeros((64, 64), "f4"), kernel="tiled")
    page = p._repr_html_()
    assert page.count("<svg") == page.count("</svg>") == 2
    folder = Path(gpuops.__file__).parent.parent / "csrc"
    for a in p.kernels[0].accesses:  # the source itself
        text = (folder / a.file.rpartition("csrc/")[2]).read_text().splitlines()
        assert html.escape(text[a.line - 1]) in page
    assert "bank 31: 128 words" in page
    assert "32 wavefronts: 100%" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=", page)
    assert "GB/s" not in page
    own = gpuops.compile(PARTS)
    a = np.zeros(64, "i4")
    page = gpuops.profile(lambda: own[1, 64](a, a.copy(), 64))._repr_html_()
    assert "if (threadIdx.x &lt; 32)" in page
    assert "2 of 2" in page  # divergent warps


def test_a_profile_is_ready_for_json():
    def both():
        gpuops.transpose(np.zeros((64, 64), "f4"), kernel="tiled")
        gpuops.transpose(np.zeros((64, 64), "u1"), kernel="tiled")

    p = gpuops.profile(both, device="sim:cc13")
    d = json.loads(json.dumps(p.as_dict()))
    (k,) = d.values()  # the instances of a kernel are one
    assert k["launches"] == 2
    assert k["shared load"]["parts"] == p["transpose_tiled"].counts("shared", "load").parts
    assert set(k["balance"]) == {"load", "store"}
    assert {i["space"] for i in k["instructions"]} == {"global", "shared"}
    assert all(b["passed"] >= b["divergent"] for b in k["branches"])


# ---- cost ----


@pytest.mark.alone
def test_cost_of_a_lane_access():
    """The aim is 150 ns on one core; a machine that runs other things gets three times that."""
    path = Path(__file__).parents[2] / "benchmarks" / "sim_cost.py"
    spec = importlib.util.spec_from_file_location("sim_cost", path)
    cost = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cost)
    least = cost.measure(256)
    for _ in range(2):  # other programs only ever add to it
        if max(least.values()) >= 450:
            least = {name: min(took, least[name]) for name, took in cost.measure(256).items()}
    assert max(least.values()) < 450, least


@pytest.mark.alone
def test_a_profile_of_a_million_elements_takes_under_a_second():
    """Of one core; here again with three times that, for a machine that runs other things."""
    a = np.zeros((1024, 1024), "f4")
    began = time.process_time()
    p = gpuops.profile("transpose", a, kernel="tiled")
    assert time.process_time() - began < 3
    assert p["transpose_tiled"].counts("shared", "load").per_request == 32
