# %% [markdown]
# # 09 Matrix product
#
# **Goal.** After this notebook you can count how often a product of matrices loads each element, cut that by
# the side of a tile, and place a kernel under a roofline.
#
# c = a b of n x n matrices: n^3 products and sums on n^2 numbers. Each number is wanted n times; where it
# comes from each time decides everything.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare

RULES = {"1.0": "sim:cc10", "1.3": "sim:cc13", "2.0": "sim:cc20", "today": "sim"}
PLAIN = """
__global__ void multiply(const float *a, const float *b, float *c, int n)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++) {
        float x = a[row * n + k];
        float y = b[k * n + column];
        sum += x * y;
    }
    c[row * n + column] = sum;
}
"""
n = 64
rng = np.random.default_rng(0)
a, b, c = rng.random((n, n), "f4"), rng.random((n, n), "f4"), np.zeros((n, n), "f4")


def profiled(source, device="sim"):
    kernel = gpuops.compile(source, device="sim")
    p = gpuops.profile(lambda: kernel[(n // 16, n // 16), (16, 16)](a, b, c, n), device=device)
    assert np.allclose(c, a @ b, rtol=1e-4)
    return p


# %% [markdown]
# ## A thread an element
#
# A warp is two rows of 16 threads here. **Predict:** how many sectors do its loads of `a` and of `b` take, in
# each turn of the loop? (`a[row * n + k]`: 16 threads want the same word.)
# %%
guess = {"a": None, "b": None}
# %%
kernel = profiled(PLAIN).kernels[0]
loads = {i.line: i.counts.per_request for i in kernel.accesses if i.kind == "load"}
compare(guess, {"a": loads[7], "b": loads[8]})  # by their lines
# %%
fig, axes = plt.subplots(2, 1, figsize=(10, 5.2), layout="tight")
for ax, line in zip(axes, (7, 8)):
    kernel.draw(line, ax=ax)
plt.show()
# %% [markdown]
# Each load takes few sectors. But there are two loads for each multiplication, and all of them go to global memory. By
# the rules of four GPUs, so many bytes are moved for each flop, a multiplication or a sum:
# %%
flops = 2 * n**3
for cc, device in RULES.items():
    k = profiled(PLAIN, device).kernels[0]
    print(f"{cc:6} {k.counts('global', 'load').moved / flops:6.2f} bytes a flop")
# %% [markdown]
# On 1.0 the words of `a`, the same for a whole half warp, cost a transaction for each thread.
#
# ## Tiles
#
# A block loads a tile of 16 x 16 of `a` and one of `b` to shared memory and uses each of their elements 16
# times. So global memory is asked a sixteenth as often; with tiles of 32 x 32, a thirty-second.
#
# gpuops' ladder goes on from there. `strided` is the plain kernel with a warp down a column of c, `naive` along
# a row. `tiled` has tiles of 32 x 32. In `strips` a thread keeps eight elements of a column in registers, in
# `patches` 8 x 8. **Predict:** which of these steps ask global memory for less than the one before, and from which
# on is shared memory asked for less, too?
# %%
A = rng.random((128, 128), "f4")
for kernel in "strided", "naive", "tiled", "strips", "patches":
    k = gpuops.profile("matmul", A, A, kernel=kernel).kernels[0]
    moved = sum(k.counts("global", kind).moved for kind in ("load", "store"))
    words = 32 * k.counts("shared", "load").requests
    flops = 2 * 128**3
    print(f"{kernel:8} {moved / flops:7.3f} bytes of global memory, {words / flops:6.3f} words of shared memory a flop")
# %% [markdown]
# Shared memory serves a warp a clock, the arithmetic units of a multiprocessor four warps (where it has 128 of
# them): a kernel that loads two words for each multiplication and sum keeps them waiting seven eighths of the time.
#
# ## The roofline
#
# A device has a rate of memory and a rate of arithmetic. A kernel that moves so many bytes a flop cannot be
# faster than the lower of `flops a byte x bytes a second` and the arithmetic. For the GTX 280 of the lectures:
# 112.4 GB/s (its measured copy), and 622 GFLOP/s of multiply-adds by its data sheet (240 units, 1.296 GHz, 2 a
# clock).
# %%
copy, peak = 112.4, 240 * 1.296 * 2
intensity = {}
for name, kernel in {"a thread an element": "naive", "tiles": "tiled", "tiles in registers": "blocktiled"}.items():
    k = gpuops.profile("matmul", A, A, kernel=kernel).kernels[0]
    moved = sum(k.counts("global", kind).moved for kind in ("load", "store"))
    intensity[name] = 2 * 128**3 / moved
ax = gpuops.roofline(copy, peak, intensity)
ax.set_title("What memory and arithmetic of a GTX 280 allow: bounds, no measurements")
plt.show()

# %% [markdown]
# ## Exercise
#
# Compute `c = a b` of n x n matrices for any n. Blocks have 16 x 16 threads, and there are as many as cover c. Loads may
# take no more sectors than a kernel with tiles of 16 x 16 needs. The error may be as large as n products and sums
# explain, each rounded once. Tiles hang over the edges: what lies outside counts as 0.
# %%
#- exercise
KERNEL = r"""
__global__ void multiply(const float *a, const float *b, float *c, int n)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
"""
#- solution
KERNEL = r"""
__global__ void multiply(const float *a, const float *b, float *c, int n)
{
    __shared__ float s[16][16], t[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        s[y][x] = row < n && k + x < n ? a[row * n + k + x] : 0;
        t[y][x] = k + y < n && column < n ? b[(k + y) * n + column] : 0;
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += s[y][j] * t[j][x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
"""
#- end
score = check("09", KERNEL)

# %% [markdown]
# ## To think about
#
# * Why two barriers in the loop? What goes wrong without the second one?
# * Your kernel still asks shared memory twice for each multiplication. How many outputs must a thread keep so that it
#   waits for the arithmetic, and not for shared memory?
