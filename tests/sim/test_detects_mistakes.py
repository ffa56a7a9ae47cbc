"""test_detects_mistakes - every mistake planted in a kernel is named by sim, with its line."""

import shutil

import numpy as np
import pytest
from sim_kernels import ADD, SUM, floats, line_of, needs_sim, run_sum

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]


# ---- planted mistakes ----


def caught(source, launch, words, at=None):
    with pytest.raises(gpuops.DeviceError, match=words) as failure:
        launch(gpuops.compile(source))
    if at and shutil.which("addr2line"):
        assert f"kernel.cu:{line_of(source, at)} " in str(failure.value)
    return str(failure.value)


def launch_add(k, n=1000):
    k[4, 256](floats(n), floats(n), np.zeros(n, "f4"), n)


def launch_sum(k):
    k[4, 256](np.ones(1024, "f4"), np.zeros(4, "f4"))


def test_a_missing_bounds_check():
    said = caught(
        ADD.replace("if (i < n) ", ""),
        launch_add,
        "past the end of a, which has 1000 elements",
        "out[i] = a",
    )
    assert "block (3, 0, 0), thread (232, 0, 0)" in said
    assert "loads a[1000], past the end of a, which has 1000 elements; compare" in said
    assert said.endswith("  if (i < n) out[i] = a[i] + b[i];".replace("if (i < n) ", ""))


@pytest.mark.parametrize("far", [1, 100, 2500, 3000, 5000, 10_000])
def test_an_index_far_outside_is_told_of_the_array_that_its_line_has(far):
    """Another array may lie nearer to the place."""
    source = "__global__ void k(const int *v, int *part, int n)\n{\n    LINE\n}"

    def said(line):
        kernel = gpuops.compile(source.replace("LINE", line), device="sim")
        with pytest.raises(gpuops.DeviceError) as error:
            kernel[1, 16](np.ones(1, "i4"), np.zeros(16, "i4"), far)
        return str(error.value)

    assert f"loads v[{far}], past the end of v, which has 1 element" in said("part[0] = v[n];")
    assert f"loads v[{far}], past the end of v" in said("if (v[n] <= 0) part[0] = 1;")
    assert f"loads part[{far + 16}], past the end of part" in said("part[n + 16]++;")
    assert f"stores part[{-far}], before part" in said("part[-n] = v[0];")


def test_an_index_outside_reaches_no_other_array():
    """Up to 16,000 elements away; small arrays were 4 KiB apart, and nothing was said."""
    others = [f"int *{name}" for name in "abcdefgh"]
    head = ", ".join([*others[:4], "int *part", *others[4:], "int n"])
    kernel = gpuops.compile(f"__global__ void k({head}) {{ part[n] = 1; }}", device="sim")
    sizes = [4000, 4000, 4000, 100, 16, 100, 4000, 4000, 4000]
    for far in range(16, 16_000, 122):
        for n, place in ((far, "past the end of part"), (-far, "before part")):
            with pytest.raises(gpuops.DeviceError, match=rf"stores part\[{n}\], {place}"):
                kernel[1, 1](*(np.zeros(size, "i4") for size in sizes), n)


def test_an_index_off_by_one():
    source = ADD.replace("out[i] = a[i]", "out[i] = a[i - 1]")
    said = caught(source, launch_add, r"loads a\[-1\], before a, which has", "out[i] =")
    assert "block (0, 0, 0), thread (0, 0, 0)" in said


def test_an_unsigned_index_below_zero():
    """It was an address of no array, which lay 16 GiB away."""
    words = "{} a[{}], past the end of a, which has 1000 elements; an unsigned index below 0"
    for at, index in (("threadIdx.x - 1", 2**32 - 1), ("(blockIdx.x - 1) * 32", 2**32 - 32)):
        source = f"__global__ void k(float *a)\n{{\n    a[{at}] = 1;\n}}\n"
        said = caught(source, lambda k: k[1, 32](np.zeros(1000, "f4")), "no array|past the", at)
        assert words.format("stores", index) in said
        assert "compare before subtracting" in said


def test_a_removed_barrier():
    source = SUM.replace(
        "[blockIdx.x * 256 + t];\n    __syncthreads();", "[blockIdx.x * 256 + t];"
    )
    caught(source, launch_sum, r"put __syncthreads\(\) between", "if (t < d)")


def test_a_barrier_missing_in_a_loop():
    source = SUM.replace("        __syncthreads();\n", "")
    said = caught(source, launch_sum, "a race", "if (t < d)")
    assert "loads part[" in said or "stores part[" in said


def test_a_warp_synchronous_tail_without_syncwarp():
    tail = """        if (d > 32) __syncthreads();
    """
    source = SUM.replace("        __syncthreads();\n", tail)
    caught(source, launch_sum, r"or __syncwarp\(\) as they are of one warp", "if (t < d)")
    right = SUM.replace(
        "        __syncthreads();\n",
        "        if (d > 32) __syncthreads(); else __syncwarp();\n",
    )
    right = right.replace(
        "if (t < d) part[t] += part[t + d];",
        """
        float x = t < d ? part[t + d] : 0;
        if (d <= 32) __syncwarp();
        if (t < d) part[t] += x;""",
    )
    assert (run_sum(right) == 256).all()


def test_a_barrier_that_some_threads_miss():
    source = """
__global__ void miss(int *out)
{
    if (threadIdx.x < 32) __syncwarp(0xffffffffu);
    else if (threadIdx.x == 32) __syncwarp(0xffffffffu);
    else __syncthreads();
    out[threadIdx.x] = 1;
}
"""
    caught(source, lambda k: k[1, 64](np.zeros(64, "i4")), "block .* is stuck")


def test_shared_memory_that_nobody_stored_to():
    source = SUM.replace("part[t] = a", "if (t != 200) part[t] = a")
    said = caught(source, launch_sum, "no thread of the block stores to", "if (t < d)")
    assert "loads part[200], shared memory" in said
    assert "another" not in said
    assert "put __syncthreads" not in said  # there is one: another is no cure


TURN = """
__global__ void turn(int *a)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    FIRST
    s[t] = a[t]; // store
    SECOND
    a[t] = s[NEXT]; // load
}
"""


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("turns", "place"), [("forward", "t + 1"), ("reversed", "t + 63")])
@pytest.mark.parametrize(("barrier", "words"), [
    ("__syncthreads();",
     "between the store and the load (the __syncthreads() that is there comes before "),
    ("", "put __syncthreads() between; thread ("),
])  # fmt: skip
def test_a_load_before_the_store_is_told_with_the_store(barrier, words, turns, place):
    source = TURN.replace("FIRST", barrier).replace("NEXT", f"({place}) % 64")
    with gpuops.schedule(turns):
        said = caught(
            source.replace("SECOND", ""),
            lambda k: k[1, 64](np.zeros(64, "i4")),
            "kernel.cu:7 stores there only later",
            "// load",
        )
        gpuops.compile(source.replace("SECOND", "__syncthreads();"))[1, 64](np.zeros(64, "i4"))
    assert words in said


def test_a_sum_without_its_start_asks_for_one():
    source = TURN.replace("FIRST", "").replace("NEXT", "t").replace("SECOND", "")
    sums = source.replace("s[t] =", "s[t] +=")
    said = caught(
        sums, lambda k: k[1, 64](np.zeros(64, "i4")), "has stored to before", "s[t] +="
    )
    assert "store its first value, as 0, before that; if another thread does so" in said


def test_a_race_of_two_threads_at_one_line():
    source = TURN.replace("FIRST", "").replace("NEXT", "t")
    rounds = source.replace("SECOND", "__syncthreads(); if (t < 63) s[t] += s[t + 1]; // line")
    said = caught(rounds, lambda k: k[1, 64](np.zeros(64, "i4")), "a race", "// line")
    assert "at the same line with no barrier between: a race; put __syncthreads()" in said
    assert said.count("kernel.cu:") == 2  # and the line itself
    for one in ("s[0] += t", "s[0] = s[0] + a[t]", "s[t % 7] += a[t]"):
        sums = source.replace("SECOND", f"__syncthreads(); {one}; // line")
        said = caught(sums, lambda k: k[1, 64](np.zeros(64, "i4")), "a race", "// line")
        assert "updates get lost: use an atomic" in said
        assert "put __syncthreads" not in said
    both = source.replace("SECOND", "__syncthreads(); a[t / 2] = t; return; // line")
    said = caught(both, lambda k: k[1, 64](np.zeros(64, "i4")), "something else", "// line")
    assert "give each thread an element of its own" in said


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("body", "element"), [
    ("__shared__ int s[4][33]; s[0][0] = 1; a[0] = s[0][N - t]", "s[0][32]"),
    ("__shared__ int s[4][N + 1]; s[0][0] = 1; a[0] = s[3][t + 7]", "s[3][7]"),
    ("extern __shared__ float s[]; a[0] = s[t + 5]", "s[5]"),
    ("extern __shared__ char s[][8]; a[0] = s[t + 2][3]", "s[2][3]"),
    ("__shared__ double first, second; first = 1; a[0] = second", "second"),
    ("__shared__ float4 s[9]; a[0] = s[t + 2].z", "s[2]"),
])  # fmt: skip
def test_shared_memory_by_its_name(body, element):
    source = f"#define N 32\n__global__ void k(int *a) {{ int t = threadIdx.x; {body}; }}"
    with pytest.raises(gpuops.DeviceError) as failure:
        gpuops.compile(source)[1, 1, 512](np.zeros(1, "i4"))
    assert f"loads {element}, shared memory that no thread of the block" in str(failure.value)


def test_a_counter_that_was_never_set_is_no_question_of_places():
    source = """
__global__ void k(int *a)
{
    __shared__ int s[8];
    __syncthreads();
    atomicAdd(&s[threadIdx.x % 8], 1); // here
    a[0] = 1;
}
"""
    said = caught(
        source, lambda k: k[1, 32](np.zeros(1, "i4")), "has stored to so far", "// here"
    )
    assert "updates s[0], shared memory" in said
    assert "store its first value, as 0, before that" in said


def test_a_barrier_that_others_wait_at_is_named():
    source = """
__global__ void k(int *a)
{
    __shared__ int s[64];
    if (threadIdx.x < 32) {
        s[threadIdx.x] = 1;
        __syncthreads(); // here
    }
    a[threadIdx.x] = s[threadIdx.x];
}
"""
    said = caught(source, lambda k: k[1, 64](np.zeros(64, "i4")), "has stored to so far")
    assert "loads s[32], shared memory" in said
    assert "thread (0, 0, 0), kernel.cu:7 waits at one that this thread has not come to" in said


def test_more_shared_memory_than_was_given():
    source = """
__global__ void more(int *out)
{
    extern __shared__ int part[];
    part[threadIdx.x] = 1;
    out[threadIdx.x] = part[threadIdx.x];
}
"""
    words = "past the end of the block's shared memory"
    caught(source, lambda k: k[1, 64, 128](np.zeros(64, "i4")), words, "part[threadIdx.x] = 1")


def test_an_address_that_is_not_aligned():
    source = """
__global__ void shifted(char *bytes)
{
    *(int *)(bytes + 1) = 3;
}
"""
    caught(source, lambda k: k[1, 1](np.zeros(64, "i1")), "no multiple of 4", "bytes + 1")


def test_a_launch_of_too_many_threads():
    with pytest.raises(gpuops.DeviceError, match="at most 1024 threads"):
        gpuops.compile(SUM)[1, 2048](np.ones(2048, "f4"), np.zeros(1, "f4"))


def test_equal_values_stored_by_many_threads_are_no_race():
    k = gpuops.compile(
        """
    __global__ void any(const int *a, int *out)
    {
        __shared__ int found;
        if (threadIdx.x == 0) found = 0;
        __syncthreads();
        if (a[threadIdx.x] > 5) found = VALUE;
        __syncthreads();
        if (threadIdx.x == 0) *out = found;
    }
    """.replace("VALUE", "1")
    )
    a, out = np.arange(64, dtype="i4"), np.zeros(1, "i4")
    k[1, 64](a, out)
    assert out[0] == 1


def test_different_values_stored_by_many_threads_are_one():
    source = """
__global__ void last(int *out)
{
    __shared__ int found;
    found = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *out = found;
}
"""
    words = "stores something else to"
    caught(source, lambda k: k[1, 64](np.zeros(1, "i4")), words, "found = threadIdx.x")


def test_after_a_mistake_the_next_launch_works():
    k = gpuops.compile(ADD.replace("if (i < n) ", ""))
    for _ in range(3):
        with pytest.raises(gpuops.DeviceError):
            launch_add(k)
    launch_add(k, 1024)
    assert (run_sum(SUM) == 256).all()


@pytest.mark.parametrize("call", ["printf(s)", 'printf("%s", *(char **)s)'])
def test_a_bad_pointer_in_printf_has_its_line(call):
    source = f"""__device__ void say(const char *s)
{{
    {call};
}}
__global__ void k(int *a, char *s)
{{
    a[0] = 1;
    say(s);
    a[1] = 2;
}}
"""
    words = np.frombuffer(b"%s%s%s%s%s%s%s%s\\0", "i1").copy()
    caught(source, lambda k: k[1, 1](np.zeros(2, "i4"), words), "touches memory", call)


def test_a_long_text_of_printf(capfd):
    source = """__global__ void k(char *s) { printf("%s|%d\\n", s, threadIdx.x); }"""
    words = np.full(3001, ord("x"), "i1")
    words[-1] = 0
    gpuops.compile(source).k[1, 2](words)
    assert capfd.readouterr().out == "".join(f"{'x' * 3000}|{t}\n" for t in (0, 1))
