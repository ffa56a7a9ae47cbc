"""test_barriers - __syncthreads that threads of a block pass by, and those that are right."""

import numpy as np
import pytest
from sim_kernels import ORDERS, caught, needs_sim

import gpuops
from gpuops._compile.barriers import marked

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

FUNCTIONS = """
#define ALL __syncthreads()
__device__ void all() { __syncthreads(); }
__device__ int apart(int *a, int i, int n)
{
    if (i >= n) return 0;
    __syncthreads();
    return a[0];
}
__device__ void halves(int *a, int i, int d)
{
    for (; d > 0; d /= 2)
        if (i < d) {
            a[i] += a[i + d];
            __syncthreads(); // halves
        }
}
"""


def kernel(body):
    head = "__global__ void k(int *a, int n)\n{\n    int i = threadIdx.x;\n"
    return f"{FUNCTIONS}{head}{body}\n}}\n"


def launch(k):
    k[1, 256](np.zeros(512, "i4"), 100)


PASSED_BY = {
    "by half of the threads": "    if (i < 128) __syncthreads(); // here",
    "by another number of rounds": "    for (int j = 0; j < i; j++) __syncthreads(); // here",
    "in a loop that some leave": "    while (true) {\n        __syncthreads(); // here\n"
    "        if (a[i] == i % 2) break;\n        a[i] = 1;\n    }",
    "by continue": "    for (int d = 4; d > 0; d /= 2) {\n        if (i >= d) continue;\n"
    "        __syncthreads(); // here\n    }",
    "in odd rounds and in even ones": "    for (int j = 0; j < 4; j++)\n"
    "        if ((i + j) % 2)\n            __syncthreads(); // here",
    "in a switch": "    switch (i / 64) {\n    case 1:\n        __syncthreads(); // here\n"
    "        break;\n    default:\n        break;\n    }",
    "and then returned": "    if (i < n) __syncthreads(); // here\n    if (i > 3) return;\n"
    "    a[0] = 1;",
    "by a macro's name": "    do {\n        if (i < n)\n"
    "            ALL; // here\n    } while (0);",
    "in a lambda": "    auto some = [=](int m) { if (i < m) __syncthreads(); }; // here\n"
    "    some(n);",
    "after one for all": "    __syncthreads();\n    if (i < n) { a[i] = 1;\n"
    "        __syncthreads(); // here\n        a[i] = 2; }",
}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", PASSED_BY)
def test_a_barrier_that_threads_pass(name):
    said = caught(kernel(PASSED_BY[name]), launch, "has skipped: a barrier in", "// here")
    assert "take it out of the branch or the loop" in said


@pytest.mark.parametrize(("turns", "seed"), ORDERS)
def test_a_reduction_with_its_barrier_in_the_branch(turns, seed):
    source = kernel(
        "    __syncthreads();\n    halves(a, i, 128);\n    if (i) return;\n    a[0]++;"
    )
    with gpuops.schedule(turns, seed=seed):
        said = caught(source, launch, "has skipped", "// halves")
    assert "thread (0, 0, 0)" in said
    assert "thread (128, 0, 0), which has ended, has skipped" in said


def test_a_function_of_barriers_that_some_call():
    with pytest.raises(gpuops.DeviceError, match="which has ended, has skipped"):
        launch(gpuops.compile(kernel("    if (i < n) all();")))


RIGHT = {
    "an early return": "    if (i >= n) return;\n    __syncthreads();",
    "a return after a barrier": "    __syncthreads();\n    if (i >= n) return;\n"
    "    __syncthreads();",
    "returns in a loop": "    for (int d = 128; d > 0; d /= 2) {\n        if (i >= d) return;\n"
    "        a[i] += a[i + d];\n        __syncthreads();\n    }",
    "a return in a function": "    apart(a, i, n);",
    "a branch that nobody takes": "    if (n < 5) __syncthreads();\n    if (i < 3) return;\n"
    "    __syncthreads();",
    "branches that all take": "    for (int j = 0; j < n; j++)\n"
    "        if (j % 3 == 0) all();\n"
    "        else if (j % 3 == 1) __syncthreads();\n    a[i] = 1;",
    "in a lambda that all call": "    auto some = [=]() { for (int j = 0; j < n; j++) "
    "__syncthreads(); };\n    if (n) some();\n    if (i > 3) return;\n    a[i] = 1;",
    "two in a line": "    for (int j = 0; j < 9; j++) { __syncthreads(); __syncthreads(); }",
}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", RIGHT)
def test_barriers_that_all_come_to_or_have_returned_before(name):
    launch(gpuops.compile(kernel(RIGHT[name])))


def test_what_some_pass_by_with_the_checks_off():
    k = gpuops.compile(kernel(PASSED_BY["by half of the threads"]))
    with gpuops.schedule(checks=False):
        launch(k)


def test_marks_stand_behind_statements_and_change_no_line():
    text = """
__global__ void k(int *a)
{
    if (a[0])
        for (int i = 0; i < 3; i++) __syncthreads();
    else
        a[1] = 2; // __syncthreads()
#define IF if (a[2]) __syncthreads()
    if (a[3]) IF;
}
"""
    made = marked(text)
    assert made.count("\n") == text.count("\n")
    lines = made.split("\n")
    inside = "{ for (int i = 0; i < 3; i++) __syncthreads(); gop_sim_done_with(5, 5, 1); }"
    assert lines[4].strip() == inside
    assert lines[6].strip() == "a[1] = 2; gop_sim_done_with(5, 5, 1); // __syncthreads()"
    assert lines[7] == "#define IF if (a[2]) __syncthreads()"
    assert lines[8].strip() == "if (a[3]) IF; gop_sim_done_with(9, 9, 1);"
    loop = "for (;;) __syncthreads();"
    unrolled = f"void k() {{\n if (a)\n#pragma unroll\n  {loop}\n}}"
    assert marked(unrolled) == unrolled.replace(loop, loop + " gop_sim_done_with(4, 4, 0);")
    unclear = "void k() { if (a) {\n#ifdef B\n } else {\n#endif\n __syncthreads(); }"
    assert marked(unclear) == unclear


LEFT_SIDEWAYS = {
    "an if by continue": "    for (int j = 0; j < 3; j++) {\n        if (j < 2) {\n"
    "            __syncthreads();\n            if (i == 0) continue;\n"
    "            a[i]++;\n        }\n    }",
    "an inner loop's if by break": "    for (int j = 0; j < 3; j++)\n"
    "        for (int l = 0; l < 2; l++) {\n            if (l == 0) {\n"
    "                __syncthreads();\n                if (i == 0) break;\n"
    "                a[i]++;\n            }\n        }",
    "a switch by continue": "    for (int j = 0; j < 3; j++) {\n        switch (j) {\n"
    "        case 1:\n            __syncthreads();\n            if (i == 0) continue;\n"
    "            a[i]++;\n        }\n    }",
    "a loop by goto": "    for (int j = 0; j < 3; j++) {\n"
    "        for (int l = 0; l < 1; l++) {\n            __syncthreads();\n"
    "            if (i == 0) goto next;\n            a[i]++;\n        }\n    next:;\n    }",
}


@pytest.mark.parametrize("name", LEFT_SIDEWAYS)
def test_a_statement_that_is_left_sideways_is_none_that_was_passed(name):
    """All threads meet every barrier: who leaves behind one has missed none."""
    launch(gpuops.compile(kernel(LEFT_SIDEWAYS[name])))
