"""benchmark, Timing and Timer: what they measure, count and print."""

import time

import numpy as np
import pytest

import gpuops
from gpuops.timing import Seconds, Timing, copy_rate, duration

A = np.ones((64, 64), np.float32)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (gpuops.add, (A, A)),
        ("multiply_add", (A, A, 2.0)),
        (gpuops.transpose, (A,)),
        ("sum", (A, 0)),
        ("reduce", (A, "max")),
        (gpuops.matmul, (A, A)),
        (gpuops.argmin, (A,)),
    ],
)
def test_an_operation_is_timed_in_parts(op, args):
    t = gpuops.benchmark(op, args, {"device": "cpu"}, n_repeat=5, n_warmup=0, cold=False)
    assert t.op == (op if isinstance(op, str) else op.__name__)
    assert str(t.device) == "cpu"
    assert t.name in [str(k) for k in gpuops.kernels(op, "cpu")]
    for part in (t.kernel, t.upload, t.download, t.total):
        assert len(part.samples) == 5
        assert part.spread[0] <= part <= part.spread[1]
    assert 0 < t.kernel <= t.total * 1.01
    assert t.bytes > 0
    assert t.gbps == pytest.approx(t.bytes / t.kernel / 1e9)
    assert t.share == pytest.approx(t.gbps / copy_rate("cpu"))


def test_the_result_is_not_needed_and_not_changed():
    out = np.zeros((64, 64), np.float32)
    gpuops.benchmark(gpuops.add, (A, A), {"device": "cpu", "out": out}, n_repeat=2, cold=False)
    assert (gpuops.add(A, A) == 2).all()  # no probe is left behind


def test_a_kernel_is_timed_by_name_and_a_yardstick_too():
    t = gpuops.benchmark(
        "transpose", (A,), {"kernel": "naive", "device": "cpu"}, n_repeat=2, cold=False
    )
    assert t.name == "naive"
    with pytest.raises(ValueError, match="no kernel 'nil'"):
        gpuops.benchmark("transpose", (A,), {"kernel": "nil", "device": "cpu"})


def test_runs_are_chosen_when_nobody_says():
    assert (
        3 <= len(gpuops.benchmark(gpuops.add, (A, A), {"device": "cpu"}).total.samples) <= 100
    )


def test_other_functions_are_timed_as_wholes():
    t = gpuops.benchmark(np.add, (A, A), n_repeat=4)
    assert (t.op, t.device, t.name, t.gbps, t.gflops, t.share) == (None,) * 6
    assert len(t.total.samples) == 4
    assert "add" in repr(t)
    seen = []
    gpuops.benchmark(lambda x, y: seen.append((x, y)), (1,), {"y": 2}, n_repeat=2, n_warmup=1)
    assert seen == [(1, 2)] * 3


def test_text_and_html():
    t = gpuops.benchmark(gpuops.add, (A, A), {"device": "cpu"}, n_repeat=3)
    for text in (repr(t), t._repr_html_()):
        assert "add of (64, 64) float32, (64, 64) float32 on cpu, " in text
        assert "3 runs" in text
        assert "GB/s" in text
    assert t._repr_html_().startswith("<table>")
    warm = gpuops.benchmark(gpuops.add, (A, A), {"device": "cpu"}, n_repeat=3, cold=False)
    assert "warm caches" in repr(warm)


def test_errors_of_the_call_are_the_call_s_own():
    with pytest.raises(TypeError, match="add: a has dtype"):
        gpuops.benchmark(gpuops.add, (np.array(["x"]), 1))
    assert gpuops.add(1, 1) == 2


@pytest.mark.parametrize(
    ("args", "kwargs", "kind", "words"),
    [
        ((gpuops.add, A), {}, TypeError, "args is a tuple"),
        ((gpuops.add, (A, A), 3), {}, TypeError, "kwargs is a dict"),
        ((3, ()), {}, TypeError, "operation or a function"),
        (("sub", (A, A)), {}, ValueError, "there is no operation 'sub'"),
        ((gpuops.add, (A, A)), {"n_repeat": 0}, ValueError, "n_repeat is at least 1"),
        ((gpuops.add, (A, A)), {"n_repeat": 2.0}, TypeError, "n_repeat is an integer"),
        ((gpuops.add, (A, A)), {"n_repeat": True}, TypeError, "n_repeat is an integer"),
        ((gpuops.add, (A, A)), {"n_warmup": -1}, ValueError, "n_warmup is at least 0"),
        ((gpuops.add, (A, A)), {"n_repeat": 10**7}, ValueError, "^benchmark: n_repeat is at"),
        ((max, (A, 1)), {"n_repeat": 10**7}, ValueError, "n_repeat is .* at most 1000000, not"),
        ((gpuops.add, (A, A)), {"n_repeat": 10**30}, ValueError, "n_repeat"),
    ],
)
def test_bad_arguments(args, kwargs, kind, words):
    with pytest.raises(kind, match=words):
        gpuops.benchmark(*args, **kwargs)


def test_seconds_are_medians():
    s = Seconds([3.0, 1.0, 2.0])
    assert s == 2.0
    assert s.spread == (1.0, 3.0)
    assert repr(s) == "2 s (1 s to 3 s)"
    import pickle

    assert pickle.loads(pickle.dumps(s)).samples == (3.0, 1.0, 2.0)
    assert [duration(x) for x in (2.0, 0.5, 2.5e-6, 3e-8, 0.0)] == [
        "2 s", "500 ms", "2.5 µs", "30 ns", "0 ns",
    ]  # fmt: skip


def test_rates_come_from_the_median():
    t = Timing("x", None, "k", Seconds([1.0]), Seconds([0.5]), bytes=1e9, flops=3e9)
    assert (t.gbps, t.gflops, t.share) == (2.0, 6.0, None)


@pytest.mark.alone
def test_copy_rate_is_measured_once():
    first = copy_rate("cpu")
    assert first > 0
    start = time.perf_counter()
    assert copy_rate("cpu") == first
    assert time.perf_counter() - start < 0.01


def test_timer():
    timer = gpuops.Timer("a nap")
    assert "not started" in repr(timer)
    with pytest.raises(RuntimeError, match="with"):
        _ = timer.seconds
    with timer as t:
        time.sleep(0.01)
        assert t.seconds > 0
    first = t.seconds
    assert 0.01 <= first < 5
    assert t.seconds == first
    assert repr(t).startswith("a nap: ")
    with pytest.raises(KeyError), gpuops.Timer() as broken:
        raise KeyError
    assert broken.seconds > 0


def test_a_copy_reads_what_was_written_and_the_largest_one_past_the_caches(monkeypatch):
    """Pages that nobody has written to are one page of zeros, in a cache: a false rate."""
    from gpuops import timing

    seen = {}

    class Call:
        def __init__(self, op, inputs, params, **how):
            (self.source,) = inputs

        def time(self, warm, repeat, cold, into):
            moved = self.source.shape[0] * 8
            seen[moved] = cold, self.source.get()[[0, -1]].tolist()
            return {"kernel": [moved / 1e10]}

    monkeypatch.setattr(timing._core, "Call", Call)
    timing._measure_copy.cache_clear()
    try:
        cpu = timing.parse("cpu")
        largest = timing.COPY_BYTES["cpu"]
        assert timing.copy_seconds(cpu, 4.0 * largest) == pytest.approx(4 * largest / 1e10)
        assert timing.copy_seconds(cpu, 1e6) == pytest.approx(1e-4, rel=0.1)
    finally:
        timing._measure_copy.cache_clear()
    assert seen[largest] == (True, [1.0, 1.0])
    assert all(first == [1.0, 1.0] for _, first in seen.values())
    assert [size for size, (cold, _) in seen.items() if cold] == [largest]


def test_what_a_new_result_costs_is_told():
    a = np.ones((512, 512), "f4")
    timed = gpuops.benchmark(gpuops.transpose, (a,), {"device": "cpu"}, n_repeat=3)
    assert len(timed.new_result.samples) >= 3
    assert dict(timed.facts())["new result"].endswith("new memory takes time, too")
    into = {"device": "cpu", "out": np.empty((512, 512), "f4")}
    timed = gpuops.benchmark(gpuops.transpose, (a,), into, n_repeat=3)
    assert not timed.new_result
    assert "new result" not in dict(timed.facts())
    ladder = gpuops.ladder("transpose", a, device="cpu", n_repeat=3, only="threaded")
    assert not ladder[0].timing.new_result


def test_a_new_result_finds_the_caches_that_cold_asks_for(monkeypatch):
    from gpuops import timing

    call = gpuops.transpose, (np.ones((64, 64), "f4"),), {"device": "cpu"}
    monkeypatch.setattr(timing, "SCRATCH", -1)  # bytes that cannot be written
    with pytest.raises(ValueError, match="negative"):
        gpuops.benchmark(*call, n_repeat=3)
    assert gpuops.benchmark(*call, n_repeat=3, cold=False).new_result


def test_explain_says_where_a_result_is_made():
    a = np.ones((1024, 1024), "f4")
    assert "out= saves it" in repr(gpuops.explain("transpose", a, device="cpu"))
    into = {"device": "cpu", "out": np.empty((1024, 1024), "f4")}
    assert not gpuops.explain("transpose", a, **into).new_result
    assert not gpuops.explain("sum", a, device="cpu").new_result


@pytest.mark.parametrize(
    ("dtype", "word"),
    [(np.float64, "float64"), (float, "float"), ("f8", "f8"), (np.dtype("f8"), "float64")],
)
def test_a_scalar_type_is_told_by_its_name(dtype, word):
    a = np.ones(5, np.float32)
    for told in (
        gpuops.explain("sum", a, dtype=dtype),
        gpuops.benchmark("sum", (a,), {"dtype": dtype}, n_repeat=1),
        gpuops.ladder("sum", a, dtype=dtype, n_repeat=1),
    ):
        assert f"sum of (5,) float32, dtype={word} on cpu" in str(told)


def test_a_result_says_which_kernel_made_it():
    p = np.random.default_rng(0).uniform(0, 9, (50, 3))
    assert gpuops.rdf(p, 2.0, 9, kernel="simd", device="cpu").kernel == "simd"
    two = gpuops.rdf(np.stack([p, p]), 2.0, 9, device="cpu")
    assert two.kernel == gpuops.explain("rdf", p, 2.0, 9, device="cpu").kernel
    assert gpuops.rdf(p[:0], 2.0, 9, device="cpu").frames == 1
    found = gpuops.jacobi(np.diag([2.0, 4.0]), [2.0, 4.0])
    assert found.kernel in [k.name for k in gpuops.kernels("jacobi", "cpu")]
    steps = gpuops.jacobi(np.diag([2.0, 4.0]), [2.0, 4.0], callback=lambda x: None)
    assert steps.kernel in [k.name for k in gpuops.kernels("jacobi_step", "cpu")]


def test_no_time_is_said_of_a_kernel_that_leaves_pairs_out():
    p = np.random.default_rng(0).uniform(0, 10, (3000, 3)).astype("f4")
    found = gpuops.explain("rdf", p, 1.0, 50, device="cpu")
    assert found.kernel == "cells"
    assert found.kernel_seconds is None
