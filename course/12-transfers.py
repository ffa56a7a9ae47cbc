# %% [markdown]
# # 12 Transfers
#
# **Goal.** After this notebook you can say what it costs to bring an array to a GPU and back, hide part of
# that cost, and tell from a handful of figures for which sizes a GPU loses.
#
# A GPU works on memory of its own. An array of the host goes there over a bus that is far slower than
# either memory, and results come back the same way. All times below are those of a GPU: of yours if this
# machine has one, else recorded on one, whose name stands above each figure.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare, recorded

transfers = recorded("transfers")
seconds = {how: {int(size): s for size, s in row.items()} for how, row in transfers["values"].items()}
transfers["device"]
# %% [markdown]
# ## A start, then a rate
#
# A transfer takes some microseconds whatever its size, and then goes at a rate. So its time is near
# `start + size / rate`, and half of the rate is reached at the size that takes as long as the start:
# `start * rate`. **Predict** that size for pinned memory on its way up: from the time of 1 KiB and the rate of
# 256 MiB, in KiB.
# %%
up = seconds["pinned up"]
print(f"1 KiB takes {min(up.values()) * 1e6:.0f} µs, 256 MiB go at {2**28 / up[2**28] / 1e9:.0f} GB/s")
guess = {"half of the rate, from KiB": None}
# %%
half = next(size for size, s in up.items() if size / s > 0.5 * 2**28 / up[2**28])
print(f"by start * rate: {min(up.values()) * 2**28 / up[2**28] / 1024:.0f} KiB")
compare(guess, {"half of the rate, from KiB": half // 1024})
# %% [markdown]
# Each size that was tried is four times the one before, so the count is the next of these sizes. Below it the start is most of what
# you pay: ten small arrays are better sent as one.
#
# ## Pageable and pinned
#
# The system may move a page of plain host memory at any time, or put it on a disk. A bus that reads by itself,
# without the CPU, cannot follow. So plain memory is first copied to a place that stays where it is, by the CPU,
# piece by piece. *Pinned* memory stays where it is: the GPU fetches it at the bus's full rate. One of the
# lectures says only that it makes transfers faster. How much:
# %%
fig, ax = plt.subplots(figsize=(9, 3.6), layout="tight")
for (how, row), style in zip(seconds.items(), ("o--", "s--", "o-", "s-")):
    ax.loglog(list(row), [size / s / 1e9 for size, s in row.items()], style, label=how, markersize=4)
ax.set(xlabel="bytes", ylabel="GB/s", title=transfers["device"])
ax.legend()
plt.show()
# %% [markdown]
# Pinned memory is not for free: it takes time to make, and what is pinned nobody else can use. gpuops never
# pins your arrays; they pass through a small pinned ring of its own, while the CPU copies the next piece.
#
# ## Chunks
#
# The bus goes both ways at once, and the GPU computes meanwhile. In one piece an array goes up, is computed,
# and comes down, one after the other. In chunks, each on a *stream* (a queue of its own), chunk 2 goes up while
# chunk 1 is computed.
#
# **Predict, then run.** Let each of the three take 1 for the whole array. How long do 1, 2, 4 and 1000 chunks
# take in all, if nothing else costs anything?
# %%
guess = {"1 chunk": None, "2 chunks": None, "4 chunks": None, "1000 chunks": None}
# %%
counted = {}
for chunks in 1, 2, 4, 1000:
    done = [0.0, 0.0, 0.0]  # when the bus up, the GPU, and the bus down are free again
    for _ in range(chunks):
        ready = 0.0
        for stage in range(3):
            ready = done[stage] = max(ready, done[stage]) + 1 / chunks
    counted[f"{chunks} chunk{'s' * (chunks > 1)}"] = round(ready, 3)
compare(guess, counted)
# %% [markdown]
# At any time at least one of the three is at work, which takes 1 for the whole array. The first chunk and the last one
# add a stage each: `1 + 2 / chunks`.
# On a GPU, 256 MiB, with a kernel that takes as long as the upload:
# %%
overlap = recorded("overlap")
alone, lasted = overlap["values"]["alone"], overlap["values"]["seconds"]
COLOURS = {"upload": "#0072b2", "kernel": "#e69f00", "download": "#009e73"}
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.4), layout="tight", width_ratios=(3, 2))
for what, chunk, first, last in overlap["values"]["timeline"]:
    row = list(COLOURS).index(what)
    left.broken_barh([(1e3 * first, 1e3 * (last - first))], (row - 0.4, 0.8), color=COLOURS[what], edgecolor="white")
    left.text(500 * (first + last), row, chunk, ha="center", va="center", color="white")
left.set_yticks(range(3), list(COLOURS))
left.invert_yaxis()
left.set(xlabel="ms", title="four chunks, by number")
chunks = [int(c) for c in lasted]
right.semilogx(chunks, [1e3 * s for s in lasted.values()], "o-", base=2, label="measured")
most = max(alone.values())
ideal = [1e3 * (most + (sum(alone.values()) - most) / c) for c in chunks]
right.semilogx(chunks, ideal, ":", base=2, label="if chunks cost nothing")
right.set(xlabel="chunks", ylabel="ms", ylim=(0, None))
right.legend()
fig.suptitle(overlap["device"], fontsize=10)
plt.show()
# %% [markdown]
# Few chunks overlap little. Very many are worse again: each pays its start three times, and small
# ones do not reach the bus's rate. The two ways of the bus also disturb each other somewhat.
#
# ## When a GPU loses
#
# The same call on arrays of the host, by the CPU and by the GPU with its transfers; and on arrays that are on
# the GPU already. A library cannot know which of these your program needs. You do.
# %%
crossover = recorded("crossover")
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="tight")
for ax, (name, rows) in zip(axes, crossover["values"].items()):
    for (where, row), style in zip(rows.items(), ("o-", "s-", "^:")):
        ax.loglog([int(n) for n in row], [1e6 * s for s in row.values()], style, label=where, markersize=4)
    ax.set(title=name, xlabel="n of n x n" if name == "matmul" else "elements")
axes[0].set_ylabel("µs")
axes[0].legend()
fig.suptitle(crossover["device"], fontsize=10)
plt.show()
# %% [markdown]
# An addition is one operation for 12 bytes over the bus. Where the bus brings a number later than the CPU would
# have added it, the GPU loses at every size. A matrix product has 2 n^3 operations for 12 n^2 bytes: from some
# n on the GPU wins, transfers and all.
#
# **Predict** that n within 20 %. What you need is below: what 512 x 512 takes, each part alone.
# %%
product = crossover["values"]["matmul"]
cpu, gpu, there = ({int(n): s for n, s in row.items()} for row in product.values())
work, moved = 2 * 512**3, 12 * 512**2
print(f"CPU: {work / cpu[512] / 1e9:.0f} GFLOP/s; GPU, its own arrays: {work / there[512] / 1e9:.0f} GFLOP/s")
print(f"there and back: {moved / (gpu[512] - there[512]) / 1e9:.1f} GB/s")
guess = {"n": None}
# %%
sizes = np.arange(32, 2049)
both = np.interp(np.log(sizes), np.log(list(cpu)), np.log(list(cpu.values())) - np.log(list(gpu.values())))
lost = max(sizes[both <= 0], default=31)  # small ones may win by chance: from the last that loses on
measured = int(lost) + 1 if lost < sizes[-1] else 0
near = guess["n"] is not None and abs(guess["n"] - measured) <= 0.2 * measured
print(f"measured: {measured or 'the GPU never wins'}" + (", predicted within 20 %" if near else ""))
# %% [markdown]
# The curves of a CPU are not smooth lines: caches, threads that have to wake up. That is why 20 % are good.
#
# ## Exercise
#
# A kernel that predicts. Thread `i` reads the six figures of machine `i`, `machine[6 * i]` onwards:
#
# | | |
# |---|---|
# | 0 | ns that a call to the GPU takes, whatever its size |
# | 1, 2 | bytes an element that go up, and that come back |
# | 3 | GB/s of the bus, either way (a GB/s is a byte a nanosecond) |
# | 4, 5 | ns an element on the CPU, and of the kernel on the GPU |
#
# It stores to `size[i]` from how many elements on the GPU is faster, or 0 if it never is. Transfers and kernel do not
# overlap. 20 % off is near enough. As it stands, the kernel is right for arrays that are on the GPU already.
# %%
#- exercise
KERNEL = r"""
__global__ void crossover(const float *machine, float *size, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float *m = machine + 6 * i;
    float wait = m[0], cpu = m[4], gpu = m[5];
    size[i] = wait / (cpu - gpu);
}
"""
#- solution
KERNEL = r"""
__global__ void crossover(const float *machine, float *size, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float *m = machine + 6 * i;
    float wait = m[0], up = m[1], down = m[2], bus = m[3], cpu = m[4], gpu = m[5];
    float gain = cpu - gpu - (up + down) / bus; // of each element
    size[i] = gain > 0 ? wait / gain : 0;
}
"""
#- end
score = check("12", KERNEL)
# %% [markdown]
# Your kernel on figures of the `add` above: what does it say, and what do the curves?
# %%
adds = {where: {int(n): s for n, s in row.items()} for where, row in crossover["values"]["add"].items()}
last = max(adds["cpu"])
figures = [1e9 * min(adds["gpu"].values()), 8, 4, 2**28 / up[2**28] / 1e9]
figures += [1e9 * adds[where][last] / last for where in ("cpu", "gpu, its own arrays")]
size = np.zeros(1, "f4")
gpuops.compile(KERNEL, device="sim")[1, 32](np.array(figures, "f4"), size, 1)
print("the GPU wins from", f"{size[0]:.0f} elements on" if size[0] > 0 else "no size on: it loses")

# %% [markdown]
# ## To think about
#
# * Ten additions in a row of arrays that stay on the GPU: what is the crossover now?
# * The rows of the array go up in chunks. What if the kernel is a transpose?
