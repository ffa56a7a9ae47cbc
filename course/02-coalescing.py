# %% [markdown]
# # 02 Coalescing
#
# **Goal.** After this notebook you can predict how many bytes a warp's load moves, by the rules of
# today's GPUs and of those the first CUDA lectures spoke of, and lay data out so that little more is
# moved than asked for.
#
# Memory does not hand out single words. All that the threads of a warp ask for in one instruction is a
# *request*. It is served in *transactions*, today in sectors of 32 bytes. All words of a transaction together
# cost as much as one of them. The rules changed with every generation (*compute capability*):
#
# | | who is served together | what is moved |
# |---|---|---|
# | 1.0, 1.1 | half warps | 64 bytes, if the k-th thread asks for the k-th word of an aligned place; otherwise every thread of the half warp gets 32 bytes of its own |
# | 1.2, 1.3 | half warps | each aligned 128 bytes that are touched, halved while only one half is used |
# | 2.x | warps | lines of 128 bytes |
# | 3.x to 6.x | warps | between the two: lines of 128 bytes where a cache keeps them, else sectors of 32 |
# | 7.0 and later | warps | sectors of 32 bytes |
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare, watch

RULES = {"1.0": "sim:cc10", "1.3": "sim:cc13", "2.0": "sim:cc20", "today": "sim"}
READ = """
__global__ void read(const float *a, float *out, int c)
{
    int t = threadIdx.x;
    out[t] = a[WHERE];
}
"""
a, out = np.ones(4096, "f4"), np.zeros(32, "f4")


def profiled(where, device="sim", c=0):
    kernel = gpuops.compile(READ.replace("WHERE", where), device="sim")
    return gpuops.profile(lambda: kernel[1, 32](a, out, c), device=device)


def loads(where, device="sim", c=0):
    return profiled(where, device, c).kernels[0].counts("global", "load")


# %% [markdown]
# ## One warp, one word each
#
# In order, beginning where a sector begins: 32 floats are 128 bytes, four sectors, nothing else moves.
# %%
profiled("t").draw(line=5, kind="load")
plt.show()
# %% [markdown]
# **Predict, then run.** How many sectors does a warp's request touch today, if thread `t` loads ...
# %%
guess = {"t + 1": None, "2 * t": None, "8 * t": None, "31 - t": None, "t ^ 5": None, "t / 2": None, "7": None}
# %%
compare(guess, {where: loads(where).parts for where in guess})
# %% [markdown]
# Today it matters which sectors are touched, not which thread touches them. So it costs nothing to go backwards or
# in another order, and a word that several threads want comes once. An offset of one word costs one sector
# more, a stride of two doubles the traffic, and from a stride of eight on each thread needs a sector of its own.
# %%
profiled("2 * t").draw(line=5, kind="load")
plt.show()
# %% [markdown]
# ## The same on older GPUs
#
# The rules of the table above, on the same source. Bytes that move for the 128 that are asked for:
# %%
print(f"{'thread t loads':18}" + "".join(f"{cc:>8}" for cc in RULES))
for where in "t", "t + 1", "t + 8", "31 - t", "t ^ 1", "2 * t", "8 * t", "32 * t":
    moved = [loads(where, device).moved for device in RULES.values()]
    print(f"a[{where}]".ljust(18) + "".join(f"{m:8}" for m in moved))
# %% [markdown]
# On 1.0 an offset of one word, or two neighbours that change places, cost eight times the traffic; 1.3
# mended that. The lectures draw it as arrows from threads to addresses:
# %%
fig, axes = plt.subplots(3, 1, figsize=(10, 7.8), layout="tight")
for ax, cc in zip(axes, ("1.0", "1.3", "today")):
    profiled("t + 1", RULES[cc]).draw(line=5, kind="load", ax=ax)
plt.show()
# %% [markdown]
# And over all offsets:
# %%
offsets = range(0, 33)
fig, ax = plt.subplots(figsize=(9, 3.6), layout="tight")
for (cc, device), style in zip(RULES.items(), ("-", "--", ":", "-.")):
    moved = [loads("t + c", device, o).moved for o in offsets]
    ax.step(offsets, moved, style, where="mid", label=cc)
ax.axhline(128, color="black", linewidth=0.8)
ax.set(xlabel="offset in words: thread t loads a[t + offset]", ylabel="bytes moved", yscale="log")
ax.set_yticks([128, 256, 512, 1024], ["128, asked for", "256", "512", "1024"])
ax.minorticks_off()
ax.legend(title="compute capability", ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
plt.show()
# %% [markdown]
# ## Wider words, narrower words
#
# A thread may load 1, 2, 4, 8 or 16 bytes at once. The rule is the same: a request of 16 bytes a thread takes 16
# sectors, as many as four requests for floats. Below, `float4` is CUDA's word for four floats side by
# side, `x`, `y`, `z` and `w`, and `__device__` stands before a function that kernels call.
# %%
for kind in "unsigned char", "short", "float", "double", "float4":
    source = READ.replace("out[t] = a[WHERE];", f"volatile_sink(((const {kind} *)a)[t], out + t);")
    plain = "(float)v" if kind != "float4" else "v.x + v.y + v.z + v.w"
    source = f"__device__ void volatile_sink({kind} v, float *to) {{ *to = {plain}; }}\n" + source
    kernel = gpuops.compile(source, device="sim")
    found = gpuops.profile(lambda: kernel[1, 32](a, out, 0)).kernels[0].counts("global", "load")
    print(f"{kind:14} {found.bytes:4} bytes asked for, {found.parts:2} sectors")
# %% [markdown]
# ## Structures
#
# Points with three coordinates, 12 bytes each, as an array of structures (x y z x y z ...): thread `t`
# loads the x of point `t`, then y, then z. Or three arrays, a structure of arrays. Or 16 bytes a point,
# the last four unused, loaded at once. (CUDA's `float3` is three words and three loads, as in the first way.)
# %%
WAYS = {
    "array of structures": "p[3 * t] + p[3 * t + 1] + p[3 * t + 2]",
    "structure of arrays": "p[t] + p[t + 32] + p[t + 64]",
    "16 bytes, aligned": "((const float4 *)p)[t].x + ((const float4 *)p)[t].y + ((const float4 *)p)[t].z",
    "16 bytes at once": "sum(((const float4 *)p)[t])",
}
HEAD = "__device__ float sum(float4 v) { return v.x + v.y + v.z; }\n"
print(f"{'moved over used':24}" + "".join(f"{cc:>8}" for cc in RULES))
for name, what in WAYS.items():
    source = HEAD + READ.replace("*a", "*p").replace("a[WHERE]", what)
    kernel = gpuops.compile(source, device="sim")
    moved = []
    for device in RULES.values():
        p = gpuops.profile(lambda: kernel[1, 32](a, out, 0), device=device).kernels[0]
        moved.append(p.counts("global", "load").moved / (32 * 12))
    print(f"{name:24}" + "".join(f"{m:8.2f}" for m in moved))

# %% [markdown]
# Loaded at once, 16 bytes where 12 are needed are 4/3 of the bytes, by all four rules. The array of structures
# moves three times the bytes and more: each of its three loads touches every sector, and where no cache keeps
# the sectors, they come three times.
#
# ## Shared memory, and waiting for each other
#
# The exercise needs both. The threads of a block have a small, fast memory together. An array in it is declared
# with the word `__shared__`: there is one for each block, its size is a constant, and nothing is in it at the start.
# A thread stores to it, waits for all threads of its block with `__syncthreads()`, the *barrier*, and then loads what
# others have stored. Without the barrier it may come too early, since threads take turns in no promised order. Here
# each block turns its 256 numbers around; below, what sim says where the barrier is missing.
# %%
TURN = """
__global__ void turn(const float *a, float *out)
{
    __shared__ float s[256];              // one array for the whole block
    int t = threadIdx.x, first = blockIdx.x * 256;
    s[t] = a[first + t];                  // each thread stores one number
    __syncthreads();                      // all threads of the block meet
    out[first + t] = s[255 - t];          // each loads what another one stored
}
"""
b, turned = np.arange(512, dtype="f4"), np.zeros(512, "f4")
gpuops.compile(TURN, device="sim")[2, 256](b, turned)
print(turned[:3], turned[256:259])
try:
    gpuops.compile(TURN.replace("__syncthreads();", ""), device="sim")[2, 256](b, turned)
except gpuops.DeviceError as mistake:
    print(mistake)
# %% [markdown]
# Step by step, the first block: move the slider. Arrows go from an element to the thread that loads it (blue), and from a
# thread to the element that it stores (orange).
# %%
watch(gpuops.compile(TURN, device="sim")[2, 256], b, turned)
# %% [markdown]
# Two rules. Every thread of the block has to come to the barrier, so it stands outside of any `if` that only some
# threads take. And two threads at one place, one of which stores, need a barrier between them; without one that is a
# *race*, and nobody knows the result.
#
# ## Exercise
#
# `n` points lie as an array of structures, `p[3 * i]`, `p[3 * i + 1]`, `p[3 * i + 2]`, and that cannot
# be changed. Compute `x * x + y * y + z * z` of each, rounded in that order, with blocks of 256
# threads, as many as cover the points. Mend the kernel: by the rules of 1.0, 1.3, 2.0 and today, loads and stores
# may move at most 4/3 of the bytes that are needed. A thread need not load its own three numbers. Let
# the block load its 768 in the order in which they lie in memory, and put them into a `__shared__` array. All threads
# meet at `__syncthreads()`, and then each takes its three from there.
# %%
#- exercise
KERNEL = r"""
__global__ void lengths(const float *p, float *out, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        float x = p[3 * i], y = p[3 * i + 1], z = p[3 * i + 2];
        out[i] = x * x + y * y + z * z;
    }
}
"""
#- solution
KERNEL = r"""
__global__ void lengths(const float *p, float *out, int n)
{
    __shared__ float s[768];
    int t = threadIdx.x, first = blockIdx.x * 768;
    for (int k = t; k < 768; k += 256)
        if (first + k < 3 * n) s[k] = p[first + k];
    __syncthreads();
    int i = blockIdx.x * 256 + t;
    if (i < n) {
        float x = s[3 * t], y = s[3 * t + 1], z = s[3 * t + 2];
        out[i] = x * x + y * y + z * z;
    }
}
"""
#- end
score = check("02", KERNEL)

# %% [markdown]
# ## To think about
#
# * Threads `3 * t` apart in shared memory: do their words lie in different banks? (Notebook 04.)
# * A kernel on today's GPUs has a cache. Which of the figures above does it mend, and which not?
