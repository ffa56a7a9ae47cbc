"""test_instruments - excess, pictures of requests and steps, limits of old GPUs, sim's time."""

import numpy as np
import pytest
from sim_kernels import caught, floats, needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

READ = """
__global__ void read(const float *a, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[WHERE];
}
"""


def counted(where, device="sim", size=2048):
    kernel = gpuops.compile(READ.replace("WHERE", where))
    a, out = np.ones(size, "f4"), np.zeros(64, "f4")
    return gpuops.profile(lambda: kernel[1, 64](a, out), device=device).kernels[0]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("where", "excess"),
    # Of two warps: 4 sectors are enough for 32 words, 2 for 16, 1 for a single one.
    [("i", 0), ("i + 1", 2), ("2 * i", 8), ("32 * i", 56), ("i / 2", 0), ("7", 0),
     ("8 * (i / 2)", 28)],
)  # fmt: skip
def test_excess_is_beyond_what_the_same_data_would_take(where, excess):
    load = counted(where).counts("global", "load")
    assert load.excess == excess
    assert 0 < load.efficiency <= 1
    assert load.efficiency == 1 - excess / load.parts


def test_excess_by_the_rules_of_old_gpus():
    # Half warps: out of order each thread is alone, where one transaction would do.
    assert counted("i + 1", "sim:cc10").counts("global", "load").excess == 4 * (16 - 1)
    assert counted("i", "sim:cc10").counts("global", "load").excess == 0
    assert counted("i", "sim:cc13").counts("global", "load").excess == 0
    assert counted("32 * i", "sim:cc20").counts("global", "load").excess == 2 * (32 - 1)


def test_excess_of_shared_memory_is_what_conflicts_cost():
    a = np.zeros((64, 64), "f4")
    tiled = gpuops.profile("transpose", a, kernel="tiled")["transpose_tiled"]
    load = tiled.counts("shared", "load")
    assert load.excess == load.requests * 31
    assert tiled.counts("shared", "store").excess == 0


def test_red_is_excess_and_not_volume():
    a = np.zeros((64, 64), "f4")
    page = gpuops.profile("transpose", a, kernel="padded")._repr_html_()
    assert "rgba(255,70,50,0.00)" in page
    assert "rgba(255,70,50,0.75)" not in page
    page = gpuops.profile("transpose", a, kernel="tiled")._repr_html_()
    assert "rgba(255,70,50,0.75)" in page


def words_of(ax):
    return [t.get_text() for t in ax.texts] + [ax.get_title(loc="left")]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("device", ["sim", "sim:cc10", "sim:cc13", "sim:cc20"])
def test_a_request_is_drawn(device):
    pytest.importorskip("matplotlib")
    kernel = counted("2 * i + 1", device)
    ax = kernel.draw(5, "load")
    title = words_of(ax)[-1]
    (load,) = (a for a in kernel.accesses if a.kind == "load")
    assert f"{len(load.pieces)} " in title
    assert len(load.pieces) * 2 == load.counts.parts  # the other warp is as this one
    assert f"{sum(n for _, n in load.pieces)} bytes" in title
    assert sum(n for _, n in load.pieces) * 2 == load.counts.moved
    # Every lane's line ends in a box that holds its word, wide enough to be seen.
    assert len(ax.lines) == 32
    words = [box for box in ax.patches if box.get_y() == 0 and box.get_linewidth() == 0]
    assert len(words) == 32
    assert min(box.get_width() for box in words) > 0.1


def test_banks_are_drawn_with_the_words_wanted_of_each():
    pytest.importorskip("matplotlib")
    a = np.zeros((64, 64), "f4")
    ax = gpuops.profile("transpose", a, kernel="tiled").draw(kind="load")
    assert "32 wavefronts" in words_of(ax)[-1]
    assert words_of(ax).count("32") == 1
    with pytest.raises(ValueError, match="draw: no request at line 99999; there are some at"):
        gpuops.profile("transpose", a, kernel="tiled").draw(99999)


PARTS = """
__global__ void parts(float *out)
{
    int i = threadIdx.x;
    float s = 0;
    if (i % 4 == 0) s = out[i] * 2;
    out[i] = s;
}
"""


def test_the_steps_of_a_warp_name_its_lanes():
    pytest.importorskip("matplotlib")
    kernel = gpuops.compile(PARTS)
    out = np.ones(64, "f4")
    p = gpuops.profile(lambda: kernel[2, 64](np.ones(64, "f4")) or kernel[1, 64](out))
    steps = p.kernels[0].steps
    assert {s.warp for s in steps} == {0, 1}
    quarter = sum(1 << lane for lane in range(0, 32, 4))
    assert {s.lanes for s in steps} == {quarter, 0xFFFFFFFF}
    assert "lane" in p.timeline().get_title(loc="left")
    assert [t.get_text() for t in p.timeline(None).get_yticklabels()] == ["warp 0", "warp 1"]
    with pytest.raises(ValueError, match="timeline: no steps of parts"):
        p.timeline(7)


def test_checks_are_turned_off_and_on_at_any_time():
    kernel = gpuops.compile(READ.replace("WHERE", "i]; out[0] = float(i) * a[0"))
    a, out = np.ones(64, "f4"), np.zeros(64, "f4")
    for checks in True, None:
        with pytest.raises(gpuops.DeviceError, match="race"), gpuops.schedule(checks=checks):
            kernel[1, 64](a, out)
    with gpuops.schedule(checks=False):
        kernel[1, 64](a, out)
        with pytest.raises(gpuops.DeviceError, match="race"), gpuops.schedule(checks=True):
            kernel[1, 64](a, out)
        kernel[1, 64](a, out)
    with pytest.raises(gpuops.DeviceError, match="race"):
        kernel[1, 64](a, out)


def test_old_gpus_have_smaller_blocks_and_less_shared_memory():
    one = "__global__ void one(float *a) { a[threadIdx.x] = 1; }"
    a = np.zeros(1024, "f4")
    for device in "sim:cc10", "sim:cc13":
        kernel = gpuops.compile(one, device)
        kernel[1, 512](a)
        with pytest.raises(gpuops.DeviceError, match="at most 512 threads in a block"):
            kernel[1, 513](a)
        with pytest.raises(gpuops.DeviceError, match=r"17000 bytes of shared memory.*16384"):
            kernel[1, 32, 17000](a)
    gpuops.compile(one, "sim:cc20")[1, 1024](a)
    much = """
__global__ void much(float *a)
{
    __shared__ float s[4000]; // 16000 bytes
    s[threadIdx.x] = 1;
    a[threadIdx.x] = s[threadIdx.x];
}
"""
    gpuops.compile(much, "sim:cc13")[1, 32](a)
    with pytest.raises(gpuops.DeviceError, match=r"16000 bytes.*at most 15384"):
        gpuops.compile(much, "sim:cc13")[1, 32, 1000](a)


def test_barriers_in_both_branches_on_one_line():
    source = """
__global__ void both(float *a)
{
    if (threadIdx.x < 16) __syncthreads(); else __syncthreads(); // here
    a[threadIdx.x] = 1;
}
"""
    words = "a barrier in divergent code"
    caught(source, lambda k: k[1, 32](np.zeros(32, "f4")), words, "// here")


def test_a_pointer_to_structures_is_told_the_cast():
    kernel = gpuops.compile("__global__ void k(const float4 *p, float *o) { o[0] = p[0].x; }")
    with pytest.raises(TypeError, match=r"`\(\(const float4 \*\)p\)\[i\]`"):
        kernel[1, 1](np.zeros(4, "f4"), np.zeros(1, "f4"))


def test_vectors_of_three_are_three_words():
    kernel = gpuops.compile("""
    __global__ void turn(const float *p, float *out, int *ones, int n)
    {
        int i = threadIdx.x;
        if (i >= n) return;
        float3 v = ((const float3 *)p)[i];
        ((float3 *)out)[i] = make_float3(v.z, v.y, v.x);
        ((int3 *)ones)[i] = make_int3(1, 1, 1);
    }
    """)
    p, out, ones = floats(300).reshape(100, 3), np.zeros((100, 3), "f4"), np.zeros(300, "i4")
    found = gpuops.profile(lambda: kernel[1, 128](p, out, ones, 100)).kernels[0]
    assert (out == p[:, ::-1]).all()
    assert (ones == 1).all()
    assert found.counts("global", "load").requests == 3 * 4  # of four warps


def test_times_on_sim_say_that_they_are_no_gpus():
    kernel = gpuops.compile("__global__ void one(float *a) { a[0] = 1; }")
    a = np.zeros(1, "f4")
    with gpuops.Timer() as timer:
        kernel[1, 1](a)
    assert "tells nothing of a GPU's" in repr(timer)
    assert "tells nothing of a GPU's" in repr(gpuops.benchmark(kernel[1, 1], (a,), n_repeat=1))
    add = gpuops.benchmark("add", (a, a), {"device": "sim"}, n_repeat=1)
    assert "tells nothing of a GPU's" in repr(add)
    with gpuops.Timer() as timer:
        pass
    assert "GPU" not in repr(timer)
    assert "GPU" not in repr(gpuops.benchmark(len, ("",), n_repeat=1))
