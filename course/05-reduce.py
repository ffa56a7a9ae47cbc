# %% [markdown]
# # 05 Reduce
#
# **Goal.** After this notebook you know the seven steps of the classic reduction, what each of them
# removes, and which mistakes the slides contain that teach them.
#
# A sum of n numbers takes n - 1 additions. One after the other, each waits for the one before. In a tree they do
# not: first neighbours are added in pairs, then the pairs in pairs, in log2 n rounds. A block of 256 threads adds 256 numbers in
# shared memory in eight rounds, and then the blocks' sums are left. One of the lectures measured on a
# GTX 280, where a copy reaches 112.4 GB/s:
#
# | step | name here | what it changes | GB/s |
# |---|---|---|---|
# | 1 | interleaved | every second, then every fourth ... thread adds its neighbour | 3.77 |
# | 2 | strided | the first threads work, so that whole warps are done | 8.33 |
# | 3 | sequential | they add words that are neighbours: no bank is met twice | 16.34 |
# | 4 | loaded | each thread adds two numbers while loading | 27.16 |
# | 5 | unrolled | the last warp does without barriers | 37.68 |
# | 6 | complete | the rounds are unrolled, for a block size known to the compiler | 50.64 |
# | 7 | cascaded | each thread adds many numbers first | 77.21 |
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare, recorded

SUM = """
__global__ void sum(const int *v, int *part)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = v[blockIdx.x * 256 + t];
    __syncthreads();
    ROUNDS
    if (t == 0) part[blockIdx.x] = s[0];
}
"""
ROUNDS = {
    "1 interleaved": """for (int d = 1; d < 256; d *= 2) {
        if (t % (2 * d) == 0) s[t] += s[t + d];
        __syncthreads();
    }""",
    "2 strided": """for (int d = 1; d < 256; d *= 2) {
        int i = 2 * d * t;
        if (i < 256) s[i] += s[i + d];
        __syncthreads();
    }""",
    "3 sequential": """for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }""",
}
STEPS = {name: SUM.replace("ROUNDS", rounds) for name, rounds in ROUNDS.items()}
v, part = np.arange(1024, dtype="i4"), np.zeros(4, "i4")


def profiled(source):
    kernel = gpuops.compile(source, device="sim")
    p = gpuops.profile(lambda: kernel[4, 256](v, part)).kernels[0]
    assert part.sum() == v.sum()
    return p


# %% [markdown]
# ## Predict, then run
#
# Requests that the warps of *one* block make to load from shared memory. 8 warps; in step 1 all of them
# work for five rounds, each adds two words (two loads), and thread 0 loads the result once.
# %%
guess = {name: None for name in STEPS}
# %%
loads = {name: profiled(source).counts("shared", "load") for name, source in STEPS.items()}
compare(guess, {name: c.requests / 4 for name, c in loads.items()})
# %% [markdown]
# Steps 2 and 3 make as many requests. They differ in the banks:
# %%
for name, c in loads.items():
    print(f"{name:15} {c.active:4.1f} of 32 lanes active, {c.per_request:.2f} wavefronts a request")
# %% [markdown]
# ## The staircase
#
# All 8 warps of a block, lanes down, steps of the code to the right. Blue: the thread goes along; grey: it waits;
# white: its warp is done. In step 1 of the reduction every warp is split at least five times, with fewer and
# fewer lanes at work; in step 3 whole warps skip the additions and are done earlier, and only warp 0 is split.
# %%
fig, axes = plt.subplots(1, 2, figsize=(11, 6), layout="tight")
for ax, name in zip(axes, ("1 interleaved", "3 sequential")):
    profiled(STEPS[name]).timeline(None, ax=ax)
    ax.set_title(name, loc="left")
    ax.set_xlabel("steps of the code, as each warp takes them")
plt.show()
# %% [markdown]
# ## Mistakes in the slides
#
# **No barrier in the last warp** (step 5). "32 threads of a warp run together anyway": on the GPUs of that
# time they did, where `s` was declared `volatile`, so that the compiler kept each load and store. Since compute
# capability 7.0 each thread goes its own way, and a thread may read `s[t + 16]` before it is stored. At `__syncwarp()`
# the threads of a warp meet.
# %%
LAST_WARP = SUM.replace("ROUNDS", """for (int d = 128; d > 32; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t < 32) {
        s[t] += s[t + 32];
        s[t] += s[t + 16];
        s[t] += s[t + 8];
        s[t] += s[t + 4];
        s[t] += s[t + 2];
        s[t] += s[t + 1];
    }""")


def mistake(source, place, *args):
    try:
        gpuops.compile(source, device="sim")[place](*args)
    except gpuops.DeviceError as found:
        print(found)
    else:
        raise AssertionError("no mistake was found")


mistake(LAST_WARP, (4, 256), v, part)
# %% [markdown]
# With the checks off the kernel runs to its end. Its sum is right in lockstep, the order of those GPUs, and wrong in
# other orders.
# %%
kernel = gpuops.compile(LAST_WARP, device="sim")
for turns in "lockstep", "forward", "reversed":
    with gpuops.schedule(turns, checks=False):
        kernel[4, 256](v, part)
    print(f"{turns:10} {part.sum():8}   right: {v.sum()}")
# %% [markdown]
# **The result in the array that is read** (steps 1 to 7). The slides store a block's sum to
# `v[blockIdx.x]`. Block 1 may overwrite `v[1]` before block 0 has read it: nothing orders blocks. The cure is a second
# array. sim also names tickets: the last exercise explains them.
# %%
IN_PLACE = STEPS["3 sequential"].replace("const int *v, int *part", "int *v").replace("part[", "v[")
mistake(IN_PLACE, (4, 256), v.copy())
# %% [markdown]
# **Reading past the end** (step 7). A thread adds `v[i] + v[i + 256]` while `i < n`; where n is no multiple
# of 512 the second one may lie past the end of the array. (`atomicAdd(&x, s)` adds `s` to `x`, and no other thread comes
# between its load and its store.)
# %%
GREEDY = """
__global__ void sum(const int *v, int *part, int n)
{
    int s = 0;
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n; i += 512 * gridDim.x) s += v[i] + v[i + 256];
    atomicAdd(&part[blockIdx.x], s);
}
"""
mistake(GREEDY, (2, 256), v[:1000].copy(), np.zeros(2, "i4"), 1000)

# %% [markdown]
# ## What each step asks of memory
#
# The library's own kernels are these steps, without the mistakes. The counts are by today's rules, the
# rates the lecture's.
# %%
LECTURE = {"interleaved": 3.77, "strided": 8.33, "sequential": 16.34, "loaded": 27.16,
           "unrolled": 37.68, "complete": 50.64, "cascaded": 77.21}  # fmt: skip
many = np.ones(1 << 16, "i4")
turns = []
for step in LECTURE:
    kernels = gpuops.profile("sum", many, kernel=step).kernels
    turns.append(sum(k.counts("shared", kind).parts for k in kernels for kind in ("load", "store")))
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="tight", sharey=True)
left.barh(list(LECTURE), turns, color="#e69f00")
left.set(xlabel="wavefronts of shared memory for 65536 numbers (counted)")
right.barh(list(LECTURE), LECTURE.values(), color="#0072b2")
right.set(xlabel="GB/s on a GTX 280 (the lecture's); dashed: a copy")
right.axvline(112.4, color="black", linewidth=0.8, linestyle="--")
left.invert_yaxis()
plt.show()
# %% [markdown]
# *unrolled* takes more turns than *loaded*: all 32 threads of the last warp add in each of its rounds, also those whose
# sums nobody needs, which costs less than to ask who works. From *unrolled* to *complete* the counts do not change: the
# step saves instructions and barriers, which are not counted here.
#
# And on a GPU of today, 2^22 numbers: what does each step still bring, as a multiple of the first?
# %%
record = recorded("rungs")
today = record["values"]["sum"]
fig, ax = plt.subplots(figsize=(9, 3), layout="tight")
for rates, style, name in ((LECTURE, "o-", "GTX 280"), (today, "s--", record["device"])):
    ax.plot(list(LECTURE), [rates[step] / rates["interleaved"] for step in LECTURE], style, label=name)
ax.set(ylabel="rate over step 1's", ylim=(0, None))
ax.legend()
plt.show()
# %% [markdown]
# ## Exercise
#
# Sum `n` numbers, any `n`. The kernel is launched with 16 blocks of 256 threads, however many numbers
# there are. Block `b` adds some of them, which ones you decide, and stores that sum to `part[b]`. Store it, do not add
# it there: what `part` holds at the start is not 0. Checked:
#
# * the sum of the parts, in every order of turns, exact: some numbers are larger than 2^24
# * no race
# * one request of global memory for 32 elements, no sector beyond the fewest
# * at most 48 requests of shared memory a block: a store by each of 8 warps, then 4, 2, 1, 1, 1, 1, 1 and 1 warps in eight
#   rounds, each with two loads and a store, and the load of the result are 45
# * no request with two words of one bank
# * atomics, if any, by one thread a warp
# %%
#- exercise
KERNEL = r"""
__global__ void sum(const int *v, int *part, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = v[i];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        if (t % (2 * d) == 0) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) part[blockIdx.x] = s[0];
}
"""
#- solution
KERNEL = r"""
__global__ void sum(const int *v, int *part, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x, mine = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) mine += v[i];
    s[t] = mine;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) part[blockIdx.x] = s[0];
}
"""
#- end
score = check("05", KERNEL)
# %% [markdown]
# ## Exercise: one launch
#
# The parts still have to be added, and a second launch costs microseconds. Let the *last block to be done*
# do it. Each block
#
# 1. stores its part,
# 2. calls `__threadfence()`, a *fence*: another thread that sees a store made after it also sees the stores made
#    before it. So the part is there before the ticket is,
# 3. draws a ticket, `atomicAdd(ticket, 1)`, which gives the number that was there before.
# 4. The block with the last ticket calls `__threadfence()` again, or meets at a barrier, before it reads the parts. So
#    it reads what was there when it drew.
#
# `ticket[0]` is 0 at the start; the sum goes to `out[0]`. The kernel below adds up each block's numbers slowly: put
# your rounds of the first exercise in.
# %%
#- exercise
ONE_LAUNCH = r"""
__global__ void sum(const int *v, int *part, unsigned *ticket, int *out, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x, mine = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) mine += v[i];
    s[t] = mine;
    __syncthreads();
    if (t == 0) {
        for (int k = 1; k < 256; k++) s[0] += s[k];
        part[blockIdx.x] = s[0];
        if (atomicAdd(ticket, 1) == gridDim.x - 1) {
            int all = 0;
            for (int b = 0; b < gridDim.x; b++) all += part[b];
            out[0] = all;
        }
    }
}
"""
#- solution
ONE_LAUNCH = r"""
__global__ void sum(const int *v, int *part, unsigned *ticket, int *out, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x, mine = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) mine += v[i];
    s[t] = mine;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence(); // my part is there before my ticket is
        if (atomicAdd(ticket, 1) == gridDim.x - 1) {
            __threadfence(); // and I read the parts after I drew it
            int all = 0;
            for (int b = 0; b < gridDim.x; b++) all += part[b];
            out[0] = all;
        }
    }
}
"""
#- end
score = check("05b", ONE_LAUNCH)

# %% [markdown]
# ## To think about
#
# * Why is the sum of floats by tickets the same in every order of turns, and one by `atomicAdd` of floats
#   not?
# * With shuffles a warp adds its 32 numbers without shared memory. How few requests would do then?
