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
# | `__syncthreads()` | `barrier(CLK_LOCAL_MEM_FENCE)` | OpenCL's orders local memory; CUDA's also global, as `CLK_LOCAL_MEM_FENCE \| CLK_GLOBAL_MEM_FENCE` does |
# | `f<<<blocks, threads>>>(a)` | `clSetKernelArg`, `clEnqueueNDRangeKernel` | |
# | stream | command queue | |
# | compiled with the program | compiled at run time, from a string | C, no C++ |
# %%
import time

import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare
from gpuops.course.opencl import as_cuda, missing

if missing():
    print(f"{missing()}. Cells that run OpenCL do nothing here, all others run.")
else:
    import pyopencl as cl

    device = next(d for p in cl.get_platforms() for d in p.get_devices())
    print(f"{device.name.strip()}: {device.max_compute_units} compute units,")
    print(f"work-groups of up to {device.max_work_group_size}, by {device.platform.name}")
# %% [markdown]
# ## The dictionary at work
#
# The words translate one by one, so sim can play OpenCL's kernels too, with all that it finds and counts:
# %%
TRIAD = """
__kernel void triad(__global const float *a, __global const float *b, __global float *out)
{
    int i = get_global_id(0);
    out[i] = a[i] + 2 * b[i];
}
"""
print(as_cuda(TRIAD))
# %% [markdown]
# ## What a host program does
#
# CUDA's runtime hides most of these steps, OpenCL shows all of them: choose a platform and a device; make a
# context and a queue; make buffers, and fill them; compile; make a kernel *by its name*; set its arguments;
# enqueue it; read the result back. In Python (pyopencl), each is a line:
# %%
n = 1 << 20
a, b, out = np.arange(n, dtype="f4"), np.ones(n, "f4"), np.zeros(n, "f4")
if not missing():
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    READ, WRITE, COPY = cl.mem_flags.READ_ONLY, cl.mem_flags.WRITE_ONLY, cl.mem_flags.COPY_HOST_PTR
    there = [cl.Buffer(context, READ | COPY, hostbuf=x) for x in (a, b)]
    there.append(cl.Buffer(context, WRITE, out.nbytes))
    program = cl.Program(context, TRIAD).build()
    triad = cl.Kernel(program, "triad")
    triad(queue, (n,), (64,), *there)  # n items in groups of 64: not n / 64
    cl.enqueue_copy(queue, out, there[2])  # waits for the kernel: the queue is in order
    assert (out == a + 2 * b).all()
# %% [markdown]
# A slide of one of the lectures has three mistakes in these steps, each of which costs an afternoon: the kernel
# is created by a name that the source does not have, the buffers get the host's arrays without the flag that
# copies them, and nothing is read back. The first one is told at once, the others are silent: **predict** how
# many elements of `out` are right.
# %%
guess = {"no read-back": None}
# %%
counted = {}
if not missing():
    try:
        cl.Kernel(program, "vecadd")
    except cl.Error as mistake:
        print(mistake)
    out[:] = 0
    triad(queue, (n,), (64,), *there)
    queue.finish()
    counted["no read-back"] = int((out == a + 2 * b).sum())
compare(guess, counted) if counted else print("not counted: no OpenCL runs here")
# %% [markdown]
# ## Compiled at run time
#
# The source is a string when the program runs, so it may have sizes and choices of this very run written into
# it as constants, which the compiler then unrolls and folds. The price is paid at each start:
# %%
POWER = """
__kernel void power(__global float *a)
{
    int i = get_global_id(0);
    float x = a[i], y = 1;
    for (int k = 0; k < POWER; k++) y *= x;
    a[i] = y;
}
"""
if not missing():
    for power in 3, 16:
        start = time.perf_counter()
        made = cl.Kernel(cl.Program(context, POWER).build([f"-DPOWER={power}"]), "power")
        x = cl.Buffer(context, READ | COPY, hostbuf=np.full(64, 2, "f4"))
        made(queue, (64,), (64,), x)
        found = np.zeros(64, "f4")
        cl.enqueue_copy(queue, found, x)
        print(f"2^{power} = {found[0]:.0f}, compiled and run in {1e3 * (time.perf_counter() - start):.0f} ms")
# %% [markdown]
# (Drivers keep what they compiled: run the cell again, and it is quicker.)
#
# ## The size of a work-group
#
# On a GPU a work-group should be a multiple of a warp, or lanes stay idle, and there must be enough of them. On a CPU a work-group
# is a piece of work of one core: its items become a loop, several of them at a time in vector registers. One
# item a group wastes both; beyond some dozens it hardly matters, unless there are barriers: there the loop is
# cut in two, and what items hold has to be kept in between.
#
# Not a GPU's times but this machine's, by its driver:
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


def fastest(kernel, size, group, *args):
    """Seconds of the fastest of thirty runs, after a first one that compiles."""
    found = []
    for _ in range(31):
        start = time.perf_counter()
        kernel(queue, (size,), (group,), *args)
        queue.finish()
        found.append(time.perf_counter() - start)
    return min(found[1:])


if not missing():
    turned = cl.Kernel(cl.Program(context, TURNED).build(), "turned")
    groups = [g for g in (1, 4, 16, 64, 256, 1024) if g <= device.max_work_group_size]
    curves = {
        "a + 2 b": [12 * n / fastest(triad, n, g, *there) / 1e9 for g in groups],
        "with a barrier": [8 * n / fastest(turned, n, g, there[0], there[2]) / 1e9 for g in groups],
    }
    fig, ax = plt.subplots(figsize=(8, 3.2), layout="tight")
    for (name, rates), style in zip(curves.items(), ("o-", "s--")):
        ax.loglog(groups, rates, style, label=name)
    ax.set(xlabel="items of a work-group", ylabel="GB/s", title=device.name.strip())
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
COPIES = {
    "scalar": "__kernel void copy(__global const float *a, __global float *out)\n"
    "{ out[get_global_id(0)] = a[get_global_id(0)]; }",
    "float4": "__kernel void copy(__global const float *a, __global float *out)\n"
    "{ ((__global float4 *)out)[get_global_id(0)] = ((__global const float4 *)a)[get_global_id(0)]; }",
}
counted = {}
x, y = np.arange(1024, dtype="f4"), np.zeros(1024, "f4")
for name, source in COPIES.items():
    items = 1024 // (4 if name == "float4" else 1)
    copy = gpuops.compile(as_cuda(source), device="sim")
    p = gpuops.profile(lambda: copy[items // 64, 64](x, y)).kernels[0].counts("global", "load")
    assert (y == x).all()
    counted |= {f"{name} requests": p.requests, f"{name} sectors": p.parts}
compare(guess, counted)
# %%
if not missing():
    for name, source in COPIES.items():
        copy = cl.Kernel(cl.Program(context, source).build(), "copy")
        items = n // (4 if name == "float4" else 1)
        print(f"{name}: {8 * n / fastest(copy, items, groups[-1], there[0], there[2]) / 1e9:.1f} GB/s here")
# %% [markdown]
# The same bytes in a quarter of the requests. (Here the groups are large, so that what each group costs does not
# count.) A compiler for CPUs puts neighbouring items into one vector
# register by itself, and there `float4` gains little.
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
    loop = gpuops.compile(as_cuda(source), device="sim")
    p = gpuops.profile(lambda: loop[4, 64](x, y, len(x))).kernels[0]
    said = f"{p.counts('global', 'load').per_request:.0f} sectors a request on a GPU"
    if not missing():
        loop = cl.Kernel(cl.Program(context, source).build(), "loop")
        rate = 8 * n / fastest(loop, 256, 64, there[0], there[2], np.int32(n)) / 1e9
        said += f", {rate:.1f} GB/s here"
    print(f"{name:20} {said}")
# %% [markdown]
# A core that takes every 256th element uses 4 bytes of each cache line of 64 that it fetches, and its vector registers,
# which want neighbours, stay empty: hence the factor.
#
# ## Exercise
#
# The transpose of notebook 03, ported: `n` x `n` floats for any `n`, work-groups of 32 x 8 items, a tile of
# 32 x 32 each, no sector beyond the fewest for n = 1000, and the same bits. It is checked on sim, whose words
# are CUDA's (a `__syncthreads()` is your `barrier`), and runs by OpenCL as well where that is installed.
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
