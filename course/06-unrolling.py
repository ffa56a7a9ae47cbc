# %% [markdown]
# # 06 Unrolling and occupancy
#
# **Goal.** After this notebook you can say what limits the blocks that are at work on a
# multiprocessor, what an unroll factor trades, and find the mistake in a loop of passes.
#
# A wait for memory is hidden in two ways: by other warps that go on (occupancy), or by more loads of the
# same thread that are under way together (unrolling). Both take registers, so they get in each other's
# way.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare, recorded

# %% [markdown]
# ## Occupancy
#
# A multiprocessor takes whole blocks, as long as there is room for their warps, registers and shared
# memory. `gpuops.occupancy` does the arithmetic for a compute capability; how many registers a kernel
# takes the compiler tells (`nvcc -Xptxas -v`).
#
# **Predict, then run.** Blocks at work on a multiprocessor of compute capability 9.0 (64 warps, 65536
# registers, 228 KiB of shared memory, 1 KiB of which each block loses):
# %%
guess = {"256 threads, 32 registers": None, "256 threads, 33 registers": None, "1024 threads, 65 registers": None, "128 threads, 48 KiB": None}
# %%
counted = {
    "256 threads, 32 registers": gpuops.occupancy(256, registers=32).blocks,
    "256 threads, 33 registers": gpuops.occupancy(256, registers=33).blocks,
    "1024 threads, 65 registers": 0,  # 1024 x 65 are more than there are: such a launch is refused
    "128 threads, 48 KiB": gpuops.occupancy(128, shared=48 * 1024).blocks,
}
compare(guess, counted)
# %%
gpuops.occupancy(256, registers=33)
# %% [markdown]
# One register more a thread, and a quarter of the warps is gone: registers are handed out in units of 256 a
# warp.
# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="tight")
for cc, style in {"1.3": ":", "2.0": "--", "9.0": "-"}.items():
    most = {"1.3": 60, "2.0": 63, "9.0": 128}[cc]
    counts = range(8, most + 1)
    axes[0].plot(counts, [gpuops.occupancy(256, registers=r, cc=cc).share for r in counts], style, label=cc)
    sizes = range(32, (512 if cc == "1.3" else 1024) + 1, 32)
    axes[1].plot(sizes, [gpuops.occupancy(s, registers=16, cc=cc).share for s in sizes], style, label=cc)
axes[0].set(xlabel="registers of a thread, blocks of 256", ylabel="occupancy", ylim=(0, 1.05))
axes[1].set(xlabel="threads of a block, 16 registers each", ylim=(0, 1.05))
axes[0].legend(title="compute capability")
plt.show()
# %% [markdown]
# Full occupancy is a means, not an end. What counts is that many loads are under way, whoever asks for them: few
# threads with many loads each do as well as many threads with one load each. The figure shows a GPU with 1 to 8 blocks
# of 256 threads on each multiprocessor, whose threads load 1, 4 or 16 numbers at a time:
# %%
record = recorded("occupancy")
fig, ax = plt.subplots(figsize=(8, 3.2), layout="tight")
for (loads, rates), style in zip(record["values"].items(), ("o-", "s--", "^:")):
    ax.plot([int(b) for b in rates], list(rates.values()), style, label=loads)
ax.set(xlabel="blocks at work on a multiprocessor", ylabel="GB/s", ylim=(0, None), title=record["device"])
ax.legend(title="loads of a thread")
plt.show()
# %% [markdown]
# ## A sum in passes
#
# One of the lectures sums n numbers in passes: a pass leaves `n / UF` of them, each the sum of UF numbers
# that lie `n / UF` apart, and the few *orphans* that are left over go to the first one. UF is the unroll
# factor: a thread has UF loads under way. UF = 7 was its best.
#
# Requests of memory for 65536 numbers, by the library's kernel, in which each *block* adds UF times 256 numbers a
# pass, on sim:
# %%
a = np.ones(1 << 16, "i4")
gpuops.sweep("sum", a, kernel="multipass", device="sim")
# %% [markdown]
# The loads of global memory, which are nearly all of the traffic, do not change: each number is loaded once
# whatever UF is. A larger UF needs fewer blocks, so there is less of the work that each block does besides. What that
# and the loads under way gain is time, which only a GPU can tell:
# %%
record = recorded("unroll factor")
fig, ax = plt.subplots(figsize=(8, 3), layout="tight")
ax.plot([int(uf) for uf in record["values"]], list(record["values"].values()), "o-")
ax.set(xlabel="unroll factor", ylabel="GB/s", ylim=(0, 1.1 * max(record["values"].values())), title=record["device"])
plt.show()
# %% [markdown]
# ## The slide's mistake
#
# The lecture makes `log n / log UF` passes, rounded down. Its arithmetic, in NumPy:
# %%
def slides(n, uf=7):
    a = np.ones(n, int)
    left = n
    for _ in range(int(np.log(n) / np.log(uf))):
        t, orphans = left // uf, left % uf
        a[:t] = a[: t * uf].reshape(uf, t).sum(axis=0)
        a[0] += a[left - orphans : left].sum()
        left = t
    return a[0], left


for n in 48, 343, 1000:
    result, left = slides(n)
    print(f"{n} ones: {result}, with {left} numbers still to be added")
# %% [markdown]
# The loop is right only for powers of 7. With 48 numbers a pass leaves 6, which is fewer than UF: one more pass has to
# add them, too.
#
# ## Exercise
#
# One block of 256 threads sums `n` numbers in passes with UF = 7, in place, and stores the sum to
# `out[0]`. The kernel has the slide's mistake. Mend it, so that any n gives the exact sum.
# %%
#- exercise
KERNEL = r"""
__global__ void sum(int *a, int *out, int n)
{
    int t = threadIdx.x;
    for (int all = n; all >= 7; all /= 7) { // log n / log 7 passes, rounded down
        int left = n / 7, orphans = n % 7;
        for (int i = t; i < left; i += 256) {
            int s = a[i];
            for (int k = 1; k < 7; k++) s += a[i + k * left];
            if (i == 0)
                for (int k = 1; k <= orphans; k++) s += a[n - k];
            a[i] = s;
        }
        n = left;
        __syncthreads();
    }
    if (t == 0) out[0] = a[0];
}
"""
#- solution
KERNEL = r"""
__global__ void sum(int *a, int *out, int n)
{
    int t = threadIdx.x;
    while (n > 1) {
        int left = n / 7 > 0 ? n / 7 : 1; // fewer than 7: all go to the first
        for (int i = t; i < left; i += 256) {
            int s = a[i];
            for (int k = i + left; k < 7 * left && k < n; k += left) s += a[k];
            if (i == 0)
                for (int k = 7 * left; k < n; k++) s += a[k]; // orphans
            a[i] = s;
        }
        n = left;
        __syncthreads();
    }
    if (t == 0) out[0] = a[0];
}
"""
#- end
score = check("06", KERNEL)

# %% [markdown]
# ## To think about
#
# * How many registers does a thread need at least that has 16 loads under way?
# * Today's libraries hide latency with few warps and many loads each. When is low occupancy no loss?
