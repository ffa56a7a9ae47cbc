"""What once ended Python: sim says which thread did it, and where."""

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from sim_kernels import caught, needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

KERNEL = "__global__ void k(int *a, int n)\n{\n    int i = threadIdx.x;\n    %s\n}\n"
# The source, the launch, where the mistake is, and what is said of it.
FAULTS = {
    "division by zero": (
        KERNEL % "a[i] = a[i] / (n - i); // here",
        "k[1, 32](np.ones(32, 'i4'), 7)",
        "thread (7, 0, 0)",
        "divides an integer by 0",
    ),
    "remainder of long long": (
        KERNEL % "a[i] = (int)(0x100000000 % (long long)n); // here",
        "k[1, 32](np.ones(32, 'i4'), 0)",
        "thread (0, 0, 0)",
        "divides an integer by 0",
    ),
    "lowest by -1": (
        KERNEL % "a[i] = a[i] / n; // here",
        "k[1, 32](np.full(32, -(2**31), 'i4'), -1)",
        "thread (0, 0, 0)",
        "divides the lowest integer by 0 or -1",
    ),
    "shared memory": (
        KERNEL % "__shared__ int s[12289]; s[i] = n; a[i] = s[i]; // here",
        "k[1, 32](np.ones(32, 'i4'), 0)",
        "thread (0, 0, 0)",
        "declares shared memory of 49156 bytes, 49156 in all, expected at most 49152",
    ),
    "recursion": (
        "__device__ __noinline__ int f(int n) { return f(n - 1) ^ f(n - 2); } // here\n"
        + KERNEL % "a[i] = f(n);",
        "k[1, 64](np.ones(64, 'i4'), 1)",
        "thread (0, 0, 0)",
        "has used up the 64 KiB of its stack",
    ),
    "recursion with large frames": (
        "__device__ __noinline__ int f(int n)\n{\n    volatile int b[9000]; // here\n"
        "    for (int i = 0; i < 9000; i++) b[i] = n;\n"
        "    return f(n - 1) ^ b[n & 31];\n}\n" + KERNEL % "__syncthreads(); a[i] = f(n);",
        "k[1, 64](np.ones(64, 'i4'), 1)",
        "thread (0, 0, 0)",
        "has used up the 64 KiB of its stack",
    ),
    "local array": (
        KERNEL % "int b[4]; for (int j = 0; j < n; j++) b[j] = a[j]; a[i] = b[n & 3]; // here",
        "k[1, 1](np.ones(4000, 'i4'), 2000)",
        "thread (0, 0, 0)",
        "takes element 4 of an array of type int [4]",
    ),
    "local array, by a pointer": (
        "__device__ __noinline__ void fill(int *b, int n)\n"
        "{\n    for (int j = 0; j < n; j++) b[j] = 1 << 20;\n}\n"
        "__global__ void k(int *a, int n)\n{\n    int b[4];\n    fill(b, n);\n"
        "    a[0] = b[2];\n} // here\n",
        "k[1, 1](np.ones(4000, 'i4'), 40)",
        "thread (0, 0, 0)",
        "has stored past the end of an array of its own",
    ),
    "assert": (
        "#include <cassert>\n" + KERNEL % "assert(a[i] < n); // here",
        "k[1, 32](np.arange(32, dtype='i4'), 30)",
        "thread (30, 0, 0)",
        "asserts `a[i] < n`, which is false",
    ),
    "abort": (
        "#include <stdlib.h>\n" + KERNEL % "if (i == n) abort(); // here",
        "k[1, 32](np.ones(32, 'i4'), 30)",
        "thread (30, 0, 0)",
        "ends the kernel",
    ),
    **{
        f"{word}, which no GPU has": (
            "#include <cstdlib>\n" + KERNEL % f"if (i == n) {word}(3); // here",
            "k[1, 32](np.ones(32, 'i4'), 30)",
            "thread (30, 0, 0)",
            "ends the kernel",
        )
        for word in ("exit", "std::exit", "_Exit", "std::quick_exit")
    },
    "memset": (
        "#include <string.h>\n" + KERNEL % "memset(a, 0, n); // here",
        "k[1, 1](np.ones(31, 'i4'), 1 << 28)",
        "thread (0, 0, 0)",
        "stores 16 bytes from a[28], past the end of a, which has 31 elements",
    ),
    "memcpy": (
        "#include <cstring>\n" + KERNEL % "std::memcpy(a, a + 64, n); // here",
        "k[1, 1](np.ones(128, 'i4'), 1 << 28)",
        "thread (0, 0, 0)",
        "loads 16 bytes from a[128], past the end of a, which has 128 elements",
    ),
    "a pointer of no function": (
        KERNEL % "((void (*)())(size_t)n)(); a[i] = 1; // here",
        "k[1, 1](np.ones(1, 'i4'), 64)",
        "thread (0, 0, 0)",
        "touches memory that is not there, at address 0x40",
    ),
}
SCRIPT = """
import numpy as np, gpuops
k = gpuops.compile({source!r}, 'sim')
for _ in range(2):
    try:
        {launch}
    except gpuops.DeviceError as error:
        print(str(error).partition('\\n')[0])
one = '__global__ void one(int *a) {{ __syncthreads(); a[threadIdx.x] = 1; }}'
a = np.zeros(999, 'i4')
gpuops.compile(one, 'sim')[1, 999](a)
print(a.sum())
"""


def run(script, **environment):
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_an_exception(name):
    source, launch, who, words = FAULTS[name]
    done = run(SCRIPT.format(source=source, launch=launch))
    assert done.returncode == 0, done.stderr
    first, second, ones = done.stdout.splitlines()
    assert first == second, "the kernel fails as before"
    assert ones == "999", "the next one works"
    assert first.startswith("sim: k: block (0, 0, 0), " + who)
    assert words in first
    if shutil.which("addr2line"):
        at = source[: source.index("// here")].count("\n") + 1
        assert f"kernel.cu:{at} " in first


def test_wild_addresses_without_checks_are_exceptions_too():
    source = KERNEL % "a[(long long)n << 10] = i;"
    script = SCRIPT.format(source=source, launch="k[1, 1](np.ones(1, 'i4'), 1 << 30)")
    done = run(script, GPUOPS_SIM_CHECKS="0")
    assert done.returncode == 0, done.stderr
    assert "touches memory that is not there" in done.stdout


def test_signals_that_no_kernel_caused_go_to_who_had_them():
    """During a launch as well as after it: faulthandler's, and the default."""
    script = """
import faulthandler, os, signal, sys, threading
import numpy as np, gpuops
if sys.argv[1] == 'handler': faulthandler.enable()
k = gpuops.compile('__global__ void k(int *a, int n) { while (n) { } a[0] = 1; }', 'sim')
k[1, 1](np.ones(1, 'i4'), 0)
if sys.argv[2] == 'during':
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGFPE)).start()
    k[1, 1](np.ones(1, 'i4'), 1)
os.kill(os.getpid(), signal.SIGFPE)
"""
    for handler in ("handler", "default"):
        for when in ("during", "after"):
            done = subprocess.run(
                [sys.executable, "-c", script, handler, when],
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == -signal.SIGFPE, done.stderr
            assert ("Fatal Python error" in done.stderr) == (handler == "handler")


def test_indices_up_to_the_end_of_local_arrays_are_right():
    k = gpuops.compile(KERNEL % "int b[4]; for (int j = 0; j < n; j++) b[j] = j; a[i] = b[i];")
    a = np.zeros(4, "i4")
    k[1, 4](a, 4)
    assert (a == range(4)).all()
    words = r"kernel.cu:4 takes element -1 of an array of type int \[4\]"
    if shutil.which("addr2line"):
        with pytest.raises(gpuops.DeviceError, match=words):
            gpuops.compile(KERNEL % "int b[4] = {n, i}; a[i] = b[i - 1];")[1, 4](a, 4)


def test_many_shared_variables():
    """On a GPU there may be any number; here once 32, of 8 names each."""
    names = [f"s{i}" for i in range(100)]
    lines = [
        "__global__ void k(const int *a, int *out) {",
        *(f"__shared__ int s{i}; if (!threadIdx.x) s{i} = a[{i}];" for i in range(100)),
        "__shared__ int " + ", ".join(f"t{i}" for i in range(20)) + ";",
        *(f"if (!threadIdx.x) t{i} = 1;" for i in range(20)),
        f"if (!threadIdx.x) out[blockIdx.x] = {' + '.join(names)} + t0 + t19;",
        "}",
    ]
    out = np.zeros(2, "i4")
    gpuops.compile("\n".join(lines))[2, 33](np.arange(100, dtype="i4"), out)
    assert (out == 99 * 100 // 2 + 2).all()


def test_memset_and_its_like_are_accesses():
    k = gpuops.compile("""
#include <string.h>
__global__ void move(char *a, char *b, int n)
{
    char mine[64];
    memset(a, 7, n);
    memcpy(b + 3, a, n - 3);
    memmove(b + 1, b, n - 1);
    memmove(b, b + 2, n - 2);
    memcpy(mine, b, 5);
    b[n - 1] = mine[4];
}
""")
    a, b = np.zeros(61, "i1"), np.arange(61, dtype="i1")
    right = b.copy()
    k[1, 1](a, b, 61)
    right[3:] = 7
    right[1:] = right[:-1].copy()
    right[:-2] = right[2:].copy()
    right[60] = right[4]
    assert (a == 7).all()
    assert (b == right).all()
    p = gpuops.profile(lambda: k[1, 1](a, b, 61))
    assert p["move"].counts("global", "store").bytes == 61 + 58 + 60 + 59 + 1
    assert p["move"].counts("global", "load").bytes == 58 + 60 + 59 + 5


def test_a_race_in_memset():
    source = """
#include <string.h>
__global__ void both(int *a)
{
    memset(a, threadIdx.x, 64); // here
}
"""
    words = r"stores something else to.* a race"
    caught(source, lambda k: k[1, 2](np.zeros(16, "i4")), words, "memset(a")


# ---- updates ----


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("turns", ["forward", "lockstep", "reversed", "random"])
@pytest.mark.parametrize(("grid", "block"), [(1, 64), (64, 1), (2, 64)])
@pytest.mark.parametrize("update", ["c[b[i]]++", "c[b[i]] += 3", "c[b[i]] = c[b[i]] + i"])
def test_many_threads_that_count_are_told_of_atomics(turns, grid, block, update):
    source = f"""
__global__ void count(int *c, const int *b)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {update};
}}
"""
    with gpuops.schedule(turns):
        said = caught(
            source,
            lambda k: k[grid, block](np.zeros(8, "i4"), np.arange(128, dtype="i4") % 3),
            "a race; both load it, change it and store it",
            update,
        )
    assert "use an atomic, as atomicAdd" in said
    assert "barrier" not in said
    assert "__syncthreads" not in said


def test_shared_counters_too_but_a_missing_barrier_is_one():
    source = """
__global__ void count(int *out, const int *b)
{
    __shared__ int c[8];
    if (threadIdx.x < 8) c[threadIdx.x] = 0;
    __syncthreads();
    c[b[threadIdx.x]]++;
    __syncthreads();
    if (threadIdx.x < 8) out[threadIdx.x] = c[threadIdx.x];
}
"""
    launch = lambda k: k[1, 64](np.zeros(8, "i4"), np.zeros(64, "i4"))  # noqa: E731
    assert "atomicAdd" in caught(source, launch, "shared memory .* a race", "c[b[")
    early = source.replace(
        "    __syncthreads();\n    c[b[threadIdx.x]]++",
        "    if (threadIdx.x & 1) c[threadIdx.x / 8 * 2]++",
    )
    assert "put __syncthreads()" in caught(early, launch, "a race", "if (threadIdx.x & 1)")
