"""test_old_gpus - the rules of compute capability 1.0, 1.3 and 2.0, on sim:cc10 and so on.

The numbers follow by hand from the CUDA C Programming Guide 4.2, appendix F; a second model of
them is written plainly below and held against random accesses.
"""

import importlib

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops
from gpuops import _core
from gpuops.devices import SIM_RULES

pytestmark = [needs_sim, pytest.mark.sampled(every=2)]
module = importlib.import_module("gpuops.devices")  # its name in the package is a function
OLD = ("sim:cc10", "sim:cc13", "sim:cc20")

GATHER = """
__global__ void gather(const int *at, const {T} *a, {T} *out)
{{
    int t = threadIdx.x;
    int from = at[t];
    if (from >= 0) out[t] = a[from];
}}
"""
SHARED = """
__global__ void shared(const int *at, {T} *out)
{{
    __shared__ {T} s[1024];
    int t = threadIdx.x;
    for (int i = t; i < 1024; i += 32) s[i] = 0;
    int from = at[t];
    __syncthreads();
    if (from >= 0) out[t] = s[from];
}}
"""
C_NAMES = {1: "unsigned char", 2: "unsigned short", 4: "float", 8: "double"}
DTYPES = {1: "u1", 2: "u2", 4: "f4", 8: "f8"}


def gather(at, width, device):
    """Counts of loading a[at[t]], 32 threads, -1: the thread does not."""
    k = gpuops.compile(GATHER.format(T=C_NAMES[width]))
    a = np.zeros(4096, DTYPES[width])
    out = np.zeros(32, DTYPES[width])
    p = gpuops.profile(lambda: k[1, 32](np.asarray(at, "i4"), a, out), device=device)["gather"]
    (load,) = [c.counts for c in p.accesses if c.kind == "load" and c.line == 6]
    of_indices = [c.counts for c in p.accesses if c.kind == "load" and c.line == 5]
    assert len(of_indices) == 1
    return load


def shared(at, width, device):
    k = gpuops.compile(SHARED.format(T=C_NAMES[width]))
    out = np.zeros(32, DTYPES[width])
    p = gpuops.profile(lambda: k[1, 32](np.asarray(at, "i4"), out), device=device)["shared"]
    return p.counts("shared", "load")


# ---- devices ----


def test_devices_by_rules():
    found = gpuops.devices("sim")
    assert [str(d.device) for d in found] == ["sim", *OLD]
    assert [d.compute_capability for d in found[1:]] == [(1, 0), (1, 3), (2, 0)]
    assert len(_core.devices("sim")) == len(SIM_RULES)
    assert "compute capability 1.3" in str(found[2])


@pytest.mark.parametrize("name", OLD)
def test_every_way_of_naming_one(name, monkeypatch):
    a = np.arange(6.0).reshape(2, 3)
    assert (gpuops.transpose(a, device=name) == a.T).all()
    with gpuops.device(name):
        assert str(gpuops.explain("transpose", a).device) == name
        assert gpuops.profile("transpose", a, kernel="naive").kernels[0].device == name
        assert gpuops.profile("transpose", a, device="sim").kernels[0].device == "sim"
    monkeypatch.setitem(module.defaults, "environment", name)
    assert gpuops.profile("transpose", a, kernel="naive").kernels[0].device == name
    assert gpuops.Device("sim", SIM_RULES.index(name[4:])) == module.parse(name)


@pytest.mark.parametrize("name", ["sim:cc99", "sim:cc", "sim:cc130"])
def test_a_generation_that_is_not_there_lists_those_that_are(name):
    with pytest.raises(ValueError, match=rf"no device '{name}'.*'sim:cc10', 'sim:cc13'"):
        gpuops.add(1.0, 2.0, device=name)


def test_a_launch_on_a_device_of_its_own_is_counted_by_its_rules():
    a = np.ones((64, 64), "f4")

    def both():
        gpuops.transpose(a, kernel="naive")
        gpuops.transpose(a, kernel="naive", device="sim:cc20")

    p = gpuops.profile(both, device="sim:cc13")
    assert [k.device for k in p.kernels] == ["sim:cc13", "sim:cc20"]
    assert [k.counts("global", "store").per_request for k in p.kernels] == [2, 1]
    assert list(p.as_dict()) == ["transpose_naive_kernel", "transpose_naive_kernel on sim:cc20"]


# ---- global memory ----

LANES = np.arange(32)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("at", "width", "expected"),
    [
        # (transactions, bytes) on 1.0, 1.3, 2.0
        (LANES, 4, [(2, 128), (2, 128), (1, 128)]),
        (LANES + 1, 4, [(32, 1024), (3, 128 + 64 + 32), (2, 256)]),
        (LANES[::-1], 4, [(32, 1024), (2, 128), (1, 128)]),
        (LANES * 2, 4, [(32, 1024), (2, 256), (2, 256)]),
        (LANES * 0, 4, [(32, 1024), (2, 64), (1, 128)]),
        (LANES * 64, 4, [(32, 1024), (32, 1024), (32, 4096)]),
        (LANES, 8, [(2, 256), (2, 256), (2, 256)]),
        (LANES * 0, 8, [(32, 1024), (2, 64), (2, 256)]),
        (LANES, 2, [(32, 1024), (2, 64), (1, 128)]),
        (LANES, 1, [(32, 1024), (2, 64), (1, 128)]),
        # In order, with lanes that do not take part: still one transaction on 1.0.
        (np.where(LANES % 3, LANES, -1), 4, [(2, 128), (2, 128), (1, 128)]),
        (np.where(LANES < 4, LANES, -1), 4, [(1, 64), (1, 32), (1, 128)]),
    ],
)
def test_transactions_and_their_bytes(at, width, expected):
    for device, (parts, moved) in zip(OLD, expected, strict=True):
        c = gather(at, width, device)
        assert (c.parts, c.moved) == (parts, moved), device
        assert c.requests == 1


def by_the_guide(at, width, device):
    """(transactions, bytes) of loads by the guide's words, for 1.3 and 2.0."""
    together = {"sim:cc13": 16, "sim:cc20": {8: 16}.get(width, 32)}[device]
    size = {"sim:cc13": {1: 32, 2: 64}.get(width, 128), "sim:cc20": 128}[device]
    parts = moved = 0
    for first in range(0, 32, together):
        waiting = [int(i) * width for i in at[first : first + together] if i >= 0]
        while waiting:
            segment = waiting[0] // size
            mine = [b for b in waiting if b // size == segment]
            waiting = [b for b in waiting if b // size != segment]
            now = size
            while device == "sim:cc13" and now > 32:
                if len({b // (now // 2) for b in mine}) > 1:
                    break
                now //= 2
            parts, moved = parts + 1, moved + now
    return parts, moved


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("device", OLD[1:])
def test_random_accesses_against_the_guides_words(width, device):
    random = np.random.default_rng(width)
    for spread in (20, 60, 200, 4000):
        at = random.integers(-spread // 8, spread, 32)
        c = gather(at, width, device)
        assert (c.parts, c.moved) == by_the_guide(at, width, device), at


# ---- shared memory ----


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("at", "width", "old", "new"),
    [
        (LANES, 4, 2, 1),
        (LANES * 0, 4, 2, 1),  # one word goes to all lanes
        (LANES * 2, 4, 4, 2),
        (LANES * 16, 4, 32, 16),
        (LANES * 31, 4, 2, 1),  # an odd stride
        (LANES % 2 * 16, 4, 4, 1),  # two words: of one bank of 16, of two banks of 32
        (LANES // 2, 4, 4, 1),  # eight words, each for two lanes: 1.x gives away one at a time
        (LANES, 1, 8, 1),  # four lanes in each word
        (LANES, 2, 4, 1),
        (LANES, 8, 8, 2),  # two words each, asked for one after the other with stride 2
    ],
)
def test_turns_of_banks(at, width, old, new):
    assert shared(at, width, "sim:cc10").parts == old
    assert shared(at, width, "sim:cc13").parts == old
    assert shared(at, width, "sim:cc20").parts == new
    assert shared(at, width, "sim").parts == new


def test_one_of_the_threads_that_store_to_one_place_does():
    k = gpuops.compile("""
    __global__ void store(int *out)
    {
        __shared__ int s[32];
        s[threadIdx.x / 4] = 5;
        if (threadIdx.x == 0) out[0] = s[0];
    }""")
    out = np.zeros(1, "i4")
    for device, turns in (("sim:cc13", 2), ("sim:cc20", 1)):
        p = gpuops.profile(lambda: k[1, 32](out), device=device)["store"]
        assert p.counts("shared", "store").parts == turns


# ---- memory partitions: 4096 against 4000 ----


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("device", "camps"), [("sim:cc13", 0.15), ("sim:cc10", 0.6)])
@pytest.mark.parametrize(
    ("kernel", "far"),
    [("naive", "load"), ("reads", "store"), ("tiled", "store"), ("padded", "store")],
)
def test_4096_columns_camp_on_few_partitions_and_4000_do_not(device, camps, kernel, far):
    near = {"load": "store", "store": "load"}[far]
    seen = {}
    for n in (4096, 4000):
        a = np.zeros((n, n), "f4")
        p = gpuops.profile("transpose", a, kernel=kernel, device=device, blocks=1)
        (k,) = p.kernels
        assert k.blocks == k.wave < k.grid  # a wave, the least that shows how they share
        assert k.balance(near) > 0.9
        seen[n] = k.balance(far)
    assert seen[4000] > 0.99
    # Of eight partitions one is at work; of six, rows of 64 pieces visit every second one.
    assert seen[4096] <= camps


@pytest.mark.parametrize("device", ["sim:cc13", "sim:cc10"])
def test_blocks_in_diagonal_order_do_not_camp(device):
    a = np.zeros((4096, 4096), "f4")
    (k,) = gpuops.profile("transpose", a, kernel="diagonal", device=device, blocks=1).kernels
    assert min(k.balance("load"), k.balance("store")) > 0.8


def test_waves_are_as_large_as_the_gpu():
    """30 multiprocessors, 1024 threads and 16 KiB each: 4 blocks of 256 threads, or 3."""
    a = np.zeros((1024, 1024), "f4")
    for kernel, blocks in (("tiled", 4), ("padded", 3)):  # tiles of 4096 and 4224 bytes
        p = gpuops.profile("transpose", a, kernel=kernel, device="sim:cc13", blocks=1)
        assert p.kernels[0].wave == 30 * blocks
    assert p.kernels[0].partitions == 8


def test_threads_do_not_change_the_balance():
    a = np.zeros((512, 1000), "f4")
    seen = set()
    try:
        for threads in (1, 2, 5):
            gpuops.set_num_threads(threads)
            p = gpuops.profile("transpose", a, kernel="tiled", device="sim:cc13")
            seen.add((repr(p), p.kernels[0].balance("load"), p.kernels[0].balance("store")))
    finally:
        gpuops.set_num_threads(None)
    assert len(seen) == 1


def test_rules_without_partitions_say_none():
    a = np.zeros((64, 64), "f4")
    for device in ("sim", "sim:cc20"):
        (k,) = gpuops.profile("transpose", a, kernel="tiled", device=device).kernels
        assert k.balance("load") is None
        assert (k.partitions, k.wave) == (0, 0)
