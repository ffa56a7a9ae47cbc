# %% [markdown]
# # 01 Warp
#
# **Goal.** After this notebook you know what a warp is, can tell which branches split one, and can
# rearrange work so that none is split.
#
# A *multiprocessor* is the part of a GPU that runs blocks. It does not run their threads one by one: 32 neighbours
# of a block are a *warp* and share each instruction. If threads of a warp decide differently at a branch, the warp goes
# both ways, one after the other. On each way those threads wait that go the other way. If each warp decides as a
# whole, the branch costs nothing.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare

# %% [markdown]
# ## Two ways to be odd
#
# Half of the threads do one thing, half of them another. Which half differs.
# %%
SPLIT = """
__global__ void split(float *a)
{
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float x = a[i];
    if (ODD) {
        for (int k = 0; k < 3; k++) x = x * x + 1.0f;
    } else {
        for (int k = 0; k < 3; k++) x = x * 0.5f - 1.0f;
    }
    a[i] = x;
}
"""


def profiled(odd, threads=256):
    kernel = gpuops.compile(SPLIT.replace("ODD", odd), device="sim")
    a = np.ones(threads, "f4")
    return gpuops.profile(lambda: kernel[1, threads](a))


def divergent(profile, line=6):
    """Warps that the branch in a line of the source split."""
    return sum(b.divergent for b in profile.kernels[0].branches if b.line == line)


# %% [markdown]
# **Predict, then run.** A block of 256 threads has 8 warps. How many of them are split by the `if`?
# %%
guess = {"t % 2": None, "t / 32 % 2": None, "t < 100": None, "t % 64 < 32": None}
# %%
compare(guess, {odd: divergent(profiled(odd)) for odd in guess})
# %% [markdown]
# `t % 2` splits every warp, `t / 32 % 2` is the same for all 32 threads of a warp and splits none.
# `t < 100` splits the one warp in which 100 lies.
#
# ## What it looks like
#
# Lanes are the threads of a warp, from the top down; a step is a piece of code without a branch. Blue: the
# thread goes along; grey: it waits.
# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.2), layout="tight")
for ax, odd in zip(axes, ("t % 2", "t / 32 % 2")):
    profiled(odd).timeline(ax=ax)
    ax.set_title(odd, loc="left")
plt.show()
# %% [markdown]
# On the left, half of the lanes wait while the others do their loop, and then the other way round: the
# warp takes both ways. On the right it takes one.
#
# ## How many threads keep a multiprocessor busy?
#
# A warp that waits for memory, some hundreds of cycles, costs nothing as long as another one can go
# on: that is why a GPU wants far more threads than it has arithmetic units. The lectures' own figures:
# to hide the wait for a register that was just written, 192 threads a multiprocessor on compute
# capability 1.x and 768 on 2.x. How many fit depends on the block's size, because only whole blocks fit.
# %%
LIMITS = {"1.0": (768, 8, 512), "1.3": (1024, 8, 512), "2.0": (1536, 8, 1024), "9.0": (2048, 32, 1024)}
sizes = range(32, 1025, 32)
fig, ax = plt.subplots(figsize=(9, 4), layout="tight")
for (cc, (threads, blocks, most)), style in zip(LIMITS.items(), ("-", "--", ":", "-.")):
    fit = [min(blocks, threads // size) * size if size <= most else np.nan for size in sizes]
    ax.plot(sizes, fit, style, label=f"compute capability {cc}", drawstyle="steps-mid")
ax.set(xlabel="threads of a block", ylabel="threads at work on a multiprocessor", ylim=(0, 2150))
ax.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8)
ax.set_title("As many whole blocks as there is room for; registers and shared memory may allow fewer")
plt.show()

# %% [markdown]
# ## Exercise
#
# Elements with an even number get `x * x + 0.25` four times over, those with an odd one
# `x * 0.5 - 1`. As it stands every warp is split. Mend it: the same elements get the same values, and
# no warp is split. Blocks have 256 threads, the grid `n / 256` blocks, and `n` is a multiple of 256.
#
# Hint: thread `t` need not take element `t`.
# %%
#- exercise
KERNEL = r"""
__global__ void two_ways(const float *a, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    if (i % 2 == 0) {
        for (int k = 0; k < 4; k++) x = x * x + 0.25f;
    } else {
        for (int k = 0; k < 4; k++) x = x * 0.5f - 1.0f;
    }
    out[i] = x;
}
"""
#- solution
KERNEL = r"""
__global__ void two_ways(const float *a, float *out, int n)
{
    int t = threadIdx.x, odd = t / 128; // the first four warps take even elements
    int i = blockIdx.x * 256 + t % 128 * 2 + odd;
    float x = a[i];
    if (odd == 0) {
        for (int k = 0; k < 4; k++) x = x * x + 0.25f;
    } else {
        for (int k = 0; k < 4; k++) x = x * 0.5f - 1.0f;
    }
    out[i] = x;
}
"""
#- end
score = check("01", KERNEL)

# %% [markdown]
# ## To think about
#
# * The solution loads every second element. What does that do to the sectors of memory? (Notebook 02.)
# * Is a loop whose length differs from thread to thread a divergent branch?
