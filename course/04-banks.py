# %% [markdown]
# # 04 Banks
#
# **Goal.** After this notebook you can tell from an index which bank of shared memory a word lies in,
# how many turns a request takes, and how to avoid bank conflicts without an extra word of memory.
#
# Shared memory has 32 *banks* (16 before compute capability 2.0). Neighbouring words of 4 bytes lie in
# neighbouring banks, word 32 in bank 0 again. In a turn, a *wavefront*, each bank hands out one word
# to all threads that want it. A request whose words lie in 32 banks takes one turn; two different words of one
# bank take two.
# %%
import textwrap

import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare

LOAD = """
__global__ void load(TYPE *out, int c)
{
    __shared__ TYPE s[2048];
    int t = threadIdx.x;
    for (int k = t; k < 2048; k += 32) s[k] = k;
    __syncthreads();
    out[t] = s[WHERE];
}
"""


def profiled(where, device="sim", dtype="f4", c=1):
    kind = {"f4": "float", "f8": "double"}[dtype]
    kernel = gpuops.compile(LOAD.replace("TYPE", kind).replace("WHERE", where), device="sim")
    return gpuops.profile(lambda: kernel[1, 32](np.zeros(32, dtype), c), device=device).kernels[0]


def wavefronts(where, device="sim", dtype="f4", c=1):
    return profiled(where, device, dtype, c).counts("shared", "load").parts


# %% [markdown]
# ## Predict, then run
#
# Wavefronts of one load of a warp, today, where thread `t` takes `s[...]`:
# %%
guess = {"t": None, "t + 5": None, "2 * t": None, "3 * t": None, "32 * t": None, "33 * t": None, "t / 4": None, "7": None}
# %%
compare(guess, {where: wavefronts(where) for where in guess})
# %% [markdown]
# An offset costs nothing, nor does an odd stride: its multiples meet all banks before they come to the
# first one again. A stride of `c` takes as many turns as the largest number that divides both `c` and 32. Several threads that
# want the *same word* are served together.
# %%
for where in "2 * t", "3 * t":
    profiled(where).draw(line=8).set_title(f"s[{where}], wavefronts a request: {wavefronts(where)}", loc="left")
    plt.show()
# %% [markdown]
# ## 16 banks, and words of 8 bytes
#
# On compute capability 1.x half a warp is served at a time, by 16 banks, and in each turn only one of the words
# may go to several threads. Words of 8 bytes are two banks wide: today a warp's request for them is served by half
# warps.
# %%
strides = range(1, 34)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.2), layout="tight", sharey=True)
for device, label, style in (("sim", "32 banks, today", "-"), ("sim:cc13", "16 banks, cc 1.3", ":")):
    axes[0].step(strides, [wavefronts("t * c", device, c=c) for c in strides], style, where="mid", label=label)
axes[0].set(xlabel="stride c: thread t loads s[t * c]", ylabel="wavefronts", ylim=(0, 34), title="words of 4 bytes")
axes[0].legend()
axes[1].step(strides, [wavefronts("t * c", dtype="f8", c=c) for c in strides], where="mid")
axes[1].set(xlabel="stride c: thread t loads s[t * c]", title="words of 8 bytes, today")
plt.show()
# %%
for where in "t / 2", "t / 4", "t / 16":
    print(f"s[{where}]".ljust(10), "today", wavefronts(where), "  cc 1.3", wavefronts(where, "sim:cc13"))
# %% [markdown]
# Today `s[t / c]` takes no more than one turn. On 1.3 this is so only where all 16 threads of a half warp want the
# same word.
#
# ## The tile of a transpose
#
# A tile of 32 rows of 32 words is filled by rows and read by columns. A column lies in one bank.
# %%
TILED = """
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][WIDTH];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
n = 64
a, out = np.arange(n * n, dtype="f4").reshape(n, n), np.zeros((n, n), "f4")


def tile(source):
    kernel = gpuops.compile(source, device="sim")
    return gpuops.profile(lambda: kernel[(n // 32, n // 32), (32, 8)](a, out, n)).kernels[0]


fig, axes = plt.subplots(2, 1, figsize=(10, 5.2), layout="tight")
for ax, width in zip(axes, ("32", "33")):
    p = tile(TILED.replace("WIDTH", width))
    p.draw(kind="load", line=9, ax=ax)
    load = p.counts("shared", "load")
    ax.set_title(f"rows of {width} words, wavefronts a request: {load.per_request:.0f}", loc="left")
    print(f"rows of {width} words: {p.shared} bytes, excess {load.excess}")
plt.show()
# %% [markdown]
# One word more a row, *padding*, moves each row on by a bank. It costs 128 bytes a tile, and rows no
# longer begin at multiples of 16 bytes, so that they cannot be moved four words at a time.
#
# ## Exercise
#
# Do it without the extra column: a *swizzle*. Let element (row, column) of the tile lie at
# `column ^ row` of its row (`^` is exclusive or). Then the words of a row are merely in another order,
# and the words of a column lie in 32 banks. The kernel below also lacks the checks for an n that
# is no multiple of 32; your kernel of 03 has them. `check` tries several n. It asks for the right bits, for 4096 bytes
# of shared memory, and for the fewest wavefronts and sectors that are possible.
# %%
#- exercise
KERNEL = r"""
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
#- solution
KERNEL = r"""
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * 32 + tx, y = blockIdx.y * 32 + ty;
    for (int j = 0; j < 32; j += 8) {
        int row = ty + j;
        if (x < n && y + j < n) tile[row][tx ^ row] = in[(y + j) * n + x];
    }
    __syncthreads();
    x = blockIdx.y * 32 + tx, y = blockIdx.x * 32 + ty;
    for (int j = 0; j < 32; j += 8) {
        int column = ty + j; // of row tx
        if (x < n && y + j < n) out[(y + j) * n + x] = tile[tx][column ^ tx];
    }
}
"""
#- end
score = check("04", KERNEL)

# %% [markdown]
# Before and after, lanes to banks, with your kernel as it is now:
# %%
fig, axes = plt.subplots(2, 1, figsize=(10, 5.2), layout="tight")
for ax, source in zip(axes, (TILED.replace("WIDTH", "32"), KERNEL)):
    try:
        kernel = tile(source)
    except gpuops.Error as mistake:
        ax.set_title(textwrap.fill(str(mistake).partition("\n")[0], 96), loc="left", fontsize="medium")
        ax.set_axis_off()
        continue
    line = max(i.line for i in kernel.accesses if (i.space, i.kind) == ("shared", "load"))
    kernel.draw(line=line, kind="load", ax=ax)
plt.show()

# %% [markdown]
# ## To think about
#
# * For a tile of 16 x 16 words and 32 banks, is `column ^ row` enough?
# * The points of notebook 02 were read from shared memory at `3 * t`. How many wavefronts is that?
