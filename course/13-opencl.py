# %% [markdown]
# # 13 OpenCL
#
# **Goal.** After this notebook you can read a kernel of OpenCL's and write one, name the steps of a host
# program, and say what stays when a kernel moves to another kind of processor, and what does not.
#
# CUDA is one company's. OpenCL is a standard: the same kernel runs on GPUs of several makers and on CPUs. Its
# abstraction is nearly CUDA's, under other names:
#
# | CUDA | OpenCL | |
# |---|---|---|
# | thread, block, grid | work-item, work-group, ND-range | a range counts *items*, a grid counts *blocks* |
# | multiprocessor | compute unit | on a CPU: a core |
# | shared memory | local memory | on a CPU: plain memory, in a cache |
# | local memory, registers | private memory | |
# | `__global__ void f(float *a)` | `__kernel void f(__global float *a)` | pointers say where they point |
# | `__shared__ float s[64]` | `__local float s[64]` | |
# | `threadIdx.x`, `blockIdx.x`, `blockDim.x` | `get_local_id(0)`, `get_group_id(0)`, `get_local_size(0)` | |
# | `blockIdx.x * blockDim.x + threadIdx.x` | `get_global_id(0)` | |
# | `__syncthreads()` | `barrier(CLK_LOCAL_MEM_FENCE \| CLK_GLOBAL_MEM_FENCE)` | one flag orders that memory only |
# | `f<<<blocks, threads>>>(a)` | `clSetKernelArg`, `clEnqueueNDRangeKernel` | |
# | stream | command queue | |
# | compiled with the program | compiled at run time, from a string | C, no C++ |
# %%
import time

import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare
from gpuops.course.opencl import missing, steps

if missing():
    print(f"{missing()}\nCells that run OpenCL do nothing here, all others run.")
# %% [markdown]
# ## Platforms and devices
#
# A *platform* is one maker's driver. A machine may have several, each with devices of its own: a GPU, the CPU,
# both. gpuops numbers them all, GPUs first: `"opencl"` is the first, `"opencl:cpu"` the first CPU, `"opencl:pocl"`
# the first whose name or platform has that word.
# %%
if not missing():
    for device in gpuops.devices("opencl"):
        print(f"{device.device}: {device.name}, {device.processors} compute units")
        print(f"    {device.detail}")
        print(f"    work-groups of up to {device.max_threads_per_block} items")
# %% [markdown]
# ## The dictionary at work
#
# The words translate one by one, so sim runs OpenCL's kernels, too, and finds and counts the same things. The call is
# the same as for CUDA, work-groups and the items of each:
# %%
TRIAD = """
__kernel void triad(__global const float *a, __global const float *b, __global float *out)
{
    int i = get_global_id(0);
    out[i] = a[i] + 2 * b[i];
}
"""
n = 1 << 20
a, b, out = np.arange(n, dtype="f4"), np.ones(n, "f4"), np.zeros(n, "f4")
triad = gpuops.compile(TRIAD, device="sim")
triad[16, 64](a[:1024], b[:1024], out[:1024])
assert (out[:1024] == a[:1024] + 2).all()
# %% [markdown]
# The barrier is missing here. What will sim say? **Read** the kernel first.
# %%
TURNED = """
__kernel void turned(__global const float *a, __global float *out)
{
    __local float s[1024];
    int t = get_local_id(0), size = get_local_size(0);
    s[t] = a[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = s[size - 1 - t];
}
"""
without = gpuops.compile(TURNED.replace("    barrier(CLK_LOCAL_MEM_FENCE);\n", ""), device="sim")
try:
    without[1, 64](a[:64], out[:64])
except gpuops.DeviceError as mistake:
    print(mistake)
# %% [markdown]
# ## What a host program does
#
# CUDA's runtime hides most of the steps, OpenCL shows all of them: choose a platform and a device; make a context
# and a queue; compile; make a kernel *by its name*; make buffers; set the arguments; enqueue the kernel; wait, or
# read the result back. These are the calls that gpuops makes for the two lines below, in order:
# %%
if not missing():
    def both():
        k = gpuops.compile(TRIAD, device="opencl")
        k[n // 64, 64](a, b, out)

    print("\n".join(steps(both)))
    assert (out == a + 2 * b).all()
# %% [markdown]
# A slide of one of the lectures has three mistakes in these steps, each of which costs an afternoon: the kernel
# is created by a name that the source does not have, the buffers get the host's arrays without the flag that
# copies them, and nothing is read back. OpenCL reports the first mistake at once, and not the others. Which of the calls
# above would be wrong, and which would be missing? (On a CPU nothing is copied: a buffer is made of the memory that
# is there, `CL_MEM_USE_HOST_PTR`.)
#
# ## Compiled at run time
#
# The source is a string when the program runs, so it may have sizes and choices of this very run written into
# it as constants, which the compiler then unrolls and folds. The price is paid once: drivers keep what they
# compiled, and gpuops keeps the programs of its own kernels. PoCL compiles once more for each size of a work-group,
# when it is first launched:
# %%
POWER = """
__kernel void power(__global float *a)
{
    int i = get_global_id(0);
    float x = a[i], y = 1;
    for (int k = 0; k < TIMES; k++) y *= x;
    a[i] = y + SALT;
}
"""


def milliseconds(call):
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


if not missing():
    salt = time.time_ns() % 1_000_000  # a source that nobody has compiled before
    source = f"#define TIMES 16\n#define SALT {salt}\n" + POWER
    x = gpuops.to_device(np.full(64, 2, "f4"), "opencl")
    for turn in "first", "second":
        made = milliseconds(lambda: gpuops.compile(source, device="opencl"))
        power = gpuops.compile(source, device="opencl")
        launched = milliseconds(lambda power=power: power[1, 64](x))
        print(f"{turn} time: compiled in {made:.1f} ms, launched and done in {launched:.1f} ms")
# %% [markdown]
# ## The size of a work-group
#
# On a GPU a work-group should be a multiple of a warp, else lanes idle, and there must be enough of them. On a CPU a work-group
# is a piece of work of one core: its items become a loop, several of them at a time in vector registers. One
# item a group wastes both; beyond some dozens it hardly matters, unless there are barriers: then the loop is
# cut in two, and the values that items hold have to be kept in between.
#
# Not a GPU's times but this machine's, by its driver:
# %%
def fastest(kernel, size, group, *args):
    """Seconds of the fastest of thirty runs, after a first one that compiles."""
    found = []
    for _ in range(31):
        start = time.perf_counter()
        kernel[size // group, group](*args)
        found.append(time.perf_counter() - start)
    return min(found[1:])


if not missing():
    there = [gpuops.to_device(x, "opencl") for x in (a, b, out)]
    triad, turned = (gpuops.compile(s, device="opencl") for s in (TRIAD, TURNED))
    most = gpuops.Device("opencl").info.max_threads_per_block
    groups = [g for g in (1, 4, 16, 64, 256, 1024) if g <= most]
    curves = {
        "a + 2 b": [12 * n / fastest(triad, n, g, *there) / 1e9 for g in groups],
        "with a barrier": [8 * n / fastest(turned, n, g, there[0], there[2]) / 1e9 for g in groups],
    }
    fig, ax = plt.subplots(figsize=(8, 3.2), layout="tight")
    for (name, rates), style in zip(curves.items(), ("o-", "s--")):
        ax.loglog(groups, rates, style, label=name)
    ax.set(xlabel="items of a work-group", ylabel="GB/s", title=gpuops.Device("opencl").info.name)
    ax.set_xticks(groups, groups)
    ax.yaxis.set_major_locator(plt.LogLocator(10, (1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend()
    plt.show()
# %% [markdown]
# ## Scalar and float4
#
# A `float4` is four floats that one item loads at once. The GPUs of the lecture's time executed four or five
# operations of an item together and needed such types: a copy on a Radeon HD 5870 went at 96 GB/s by floats and
# at 122 by `float4`. By the rules of today's GPUs, **predict** requests and sectors of the loads of 1024 floats:
# %%
guess = {"scalar requests": None, "scalar sectors": None, "float4 requests": None, "float4 sectors": None}
# %%
COPY = """
__kernel void copy(__global const TYPE *a, __global TYPE *out)
{
    out[get_global_id(0)] = a[get_global_id(0)];
}
"""
WIDTHS = {"scalar": ("float", 1), "float4": ("float4", 4), "float16": ("float16", 16)}
counted = {}
x, y = np.arange(1024, dtype="f4"), np.zeros(1024, "f4")
for name in "scalar", "float4":
    kind, width = WIDTHS[name]
    copy = gpuops.compile(f"#define TYPE {kind}\n" + COPY, device="sim")
    p = gpuops.profile(lambda: copy[1024 // width // 64, 64](x, y)).kernels[0].counts("global", "load")
    assert (y == x).all()
    counted |= {f"{name} requests": p.requests, f"{name} sectors": p.parts}
compare(guess, counted)
# %% [markdown]
# The same bytes in a quarter of the requests. On this machine, with few large groups, so that what each costs does
# not count:
# %%
if not missing():
    for name, (kind, width) in WIDTHS.items():
        copy = gpuops.compile(f"#define TYPE {kind}\n" + COPY, device="opencl")
        rate = 8 * n / fastest(copy, n // width, groups[-1], there[0], there[2]) / 1e9
        print(f"{name:8} {rate:5.1f} GB/s here")
# %% [markdown]
# A compiler for CPUs puts neighbouring items into one vector register by itself, so that vectors gain little where
# it can, and much where it cannot: in a loop whose order is fixed, as that of a sum.
#
# ## One kernel for all?
#
# It runs everywhere and gives the same results. It is not fast everywhere. A GPU wants neighbouring items to
# load neighbouring elements, so that an item that has many elements takes every `get_global_size(0)`-th. A core
# runs one item after the other, and wants each of them to walk along memory:
# %%
STRIDES = {
    "every 256th": "for (int i = get_global_id(0); i < n; i += 256)",
    "a run of neighbours": "for (int i = get_global_id(0) * (n / 256); i < (get_global_id(0) + 1) * (n / 256); i++)",
}
LOOP = """
__kernel void loop(__global const float *a, __global float *out, int n)
{
    EACH out[i] = 2 * a[i];
}
"""
x, y = np.arange(4096, dtype="f4"), np.zeros(4096, "f4")
for name, each in STRIDES.items():
    source = LOOP.replace("EACH", each)
    loop = gpuops.compile(source, device="sim")
    p = gpuops.profile(lambda: loop[4, 64](x, y, len(x))).kernels[0]
    said = f"{p.counts('global', 'load').per_request:.0f} sectors a request on a GPU"
    if not missing():
        loop = gpuops.compile(source, device="opencl")
        said += f", {8 * n / fastest(loop, 256, 64, there[0], there[2], n) / 1e9:.1f} GB/s here"
    print(f"{name:20} {said}")
# %% [markdown]
# So gpuops has kernels for GPUs and kernels for CPUs, in one ladder. Which are which? Their times here tell, and
# `gpuops.source("transpose", "blocked", "opencl")` shows one:
# %%
if not missing():
    m = gpuops.to_device(np.ones((1024, 1024), "f4"), "opencl")
    print(gpuops.ladder("transpose", m, device="opencl", n_repeat=5))
# %% [markdown]
# ## Tuned for one device
#
# A kernel's sizes are options of its build, so each device may have its own. `sweep` times all values of one
# kernel's *tunables*; what is best here is not best elsewhere. `python -m gpuops.tune` does so for every kernel and
# keeps the best for this machine.
# %%
if not missing():
    table = gpuops.sweep("transpose", m, kernel="padded", device="opencl", n_repeat=5)
    print(table)
    print("best here:", table.best.params)
# %% [markdown]
# ## Exercise
#
# The transpose of notebook 03, ported: `n` x `n` floats for any `n`, work-groups of 32 x 8 items, a tile of
# 32 x 32 each, no sector beyond the fewest for n = 1000, and the same bits. It is checked on sim, and runs on an
# OpenCL device as well where there is one.
# %%
#- exercise
KERNEL = r"""
__kernel void transpose(__global const float *in, __global float *out, int n)
{
    int x = get_group_id(0) * 32 + get_local_id(0), y = get_group_id(1) * 32 + get_local_id(1);
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) out[x * n + y + j] = in[(y + j) * n + x];
}
"""
#- solution
KERNEL = r"""
__kernel void transpose(__global const float *in, __global float *out, int n)
{
    __local float tile[32][33];
    int column = get_local_id(0), row = get_local_id(1);
    int x = get_group_id(0) * 32 + column, y = get_group_id(1) * 32 + row;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) tile[row + j][column] = in[(y + j) * n + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    x = get_group_id(1) * 32 + column, y = get_group_id(0) * 32 + row; // the tile's new place
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) out[(y + j) * n + x] = tile[column][row + j];
}
"""
#- end
score = check("13", KERNEL)

# %% [markdown]
# ## To think about
#
# * What is a warp's counterpart in OpenCL, and why is there none in the dictionary?
# * `local` memory on a CPU is plain memory. When does a tile pay there all the same?
