# %% [markdown]
# # 03 Transpose
#
# **Goal.** After this notebook you can carry a tile through shared memory so that both sides of a
# kernel coalesce, and you measure by the right yardstick: a copy of the same bytes.
#
# A transpose computes nothing. Each element is loaded once and stored once, so it can be as fast as a
# copy and no faster. If it is slower than a copy, only the order of its accesses can be the reason. One of the lectures
# from which this course grew measured its steps on a GeForce GTX 280 (compute capability 1.3), 4000 x 4000 elements of 4
# bytes: 2.7 GB/s with strides on both sides, 5.3 for the plain kernel, 112.4 for a copy.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare, recorded

n = 128
a, out = np.arange(n * n, dtype="f4").reshape(n, n), np.zeros((n, n), "f4")
PLACE = (n // 32, n // 32), (32, 8)  # blocks of 32 x 8 threads, a tile of 32 x 32 each


def profiled(source, device="sim"):
    kernel = gpuops.compile(source, device="sim")
    return gpuops.profile(lambda: kernel[PLACE](a, out, n), device=device).kernels[0]


# %% [markdown]
# ## The yardstick and the plain kernel
# %%
COPY = """
__global__ void copy(const float *in, float *out, int n)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = in[(y + j) * n + x];
}
"""
PLAIN = COPY.replace("out[(y + j) * n + x]", "out[x * n + y + j]")
STRIDED = PLAIN.replace("in[(y + j) * n + x]", "in[x * n + y + j]")
# %% [markdown]
# **Predict, then run.** Sectors that a request takes, on the load's side and on the store's side:
# %%
guess = {"copy load": None, "copy store": None, "plain load": None, "plain store": None}
# %%
counted = {}
for name, source in {"copy": COPY, "plain": PLAIN}.items():
    p = profiled(source)
    counted |= {f"{name} {k}": p.counts("global", k).per_request for k in ("load", "store")}
compare(guess, counted)
# %% [markdown]
# In the plain kernel a warp loads along a row, four sectors; and stores down a column, where each
# element has a sector to itself, 28 of whose 32 bytes nobody asked for:
# %%
profiled(PLAIN).draw(kind="store")
plt.show()
# %% [markdown]
# ## The rungs
#
# The library's own ladder has the lecture's steps; a sentence each:
#
# * *strided*: a stride on both sides: the worst case, as a measure; it is no transpose
# * *copy*: the yardstick
# * *staged*: a copy through a tile in shared memory, the yardstick of what comes next
# * *reads*: the plain kernel, which reads rows and writes columns
# * *tiled*: through a tile that is stored by rows and read by columns
# * *padded*: a tile with a row of 33 words, which notebook 04 is about
#
# The rates are the lecture's, on a GTX 280; the counts are ours, by the rules of that GPU and of today's.
# %%
LECTURE = {"strided": 2.7, "copy": 112.4, "staged": 94.9, "reads": 5.3, "tiled": 75.1, "padded": 93.4}
big = np.ones((256, 256), "f4")
print("            GB/s in   bytes moved / needed     turns that shared memory takes")
print("            2009      cc 1.3      today        for a load, today (04 explains)")
ladders = [gpuops.ladder("transpose", big, device=d, only="lecture") for d in ("sim:cc13", "sim")]
moved = []
for step, rate in LECTURE.items():
    then, now = (ladder[step].profile.kernels[0] for ladder in ladders)
    both = [sum(k.counts("global", kind).moved for kind in ("load", "store")) for k in (then, now)]
    shared = now.counts("shared", "load").per_request
    moved.append(both[0] / (2 * big.nbytes))
    print(f"{step:10}{rate:9}{moved[-1]:12.2f}{both[1] / (2 * big.nbytes):11.2f}{shared:12.0f}")
# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="tight", sharey=True)
left.barh(list(LECTURE), moved, color="#e69f00")
left.set(xlabel="bytes moved for each that is needed, cc 1.3 (counted)")
left.axvline(1, color="black", linewidth=0.8)
right.barh(list(LECTURE), LECTURE.values(), color="#0072b2")
right.set(xlabel="GB/s on a GTX 280 (the lecture's); dashed: a copy")
right.axvline(112.4, color="black", linewidth=0.8, linestyle="--")
left.invert_yaxis()
plt.show()
# %% [markdown]
# *tiled* moves no byte too many, and still reached only two thirds of the copy's rate, because each column of its
# tile lies in one bank of shared memory. So the lecture mended the traffic first, then the banks. The other way round
# it would have gained nothing.
#
# The same kernels and the same 4000 x 4000 on a GPU of today, yours or one that was recorded, each as a share
# of the copy on the same GPU:
# %%
record = recorded("rungs")
today = record["values"]["transpose"]
fig, ax = plt.subplots(figsize=(9, 3.2), layout="tight")
place = np.arange(len(LECTURE))
ax.barh(place - 0.2, [100 * rate / 112.4 for rate in LECTURE.values()], 0.4, color="#0072b2", label="GTX 280")
ax.barh(place + 0.2, [100 * today[step] / today["copy"] for step in LECTURE], 0.4, color="#009e73", label=record["device"])
ax.set_yticks(place, list(LECTURE))
ax.set(xlabel=f"% of a copy (112.4 and {today['copy']:.0f} GB/s)", xlim=(0, 145))
ax.invert_yaxis()
ax.legend()
plt.show()
# %% [markdown]
# ## 4000 and 4096
#
# The memory of those GPUs was divided into partitions: every 256 bytes the next one began. Rows of 4096 floats
# all begin in the same partition, and blocks that work at the same time write to the same columns. So 4096 x 4096
# was much slower than 4000 x 4000, and to mend the banks did not help there. Below, 100 % means that all eight partitions get
# the same share, and 12 % that one of them gets everything. It is counted over the blocks that such a GPU has at work
# together:
# %%
for size in 4000, 4096:
    square = np.ones((size, size), "f4")
    p = gpuops.profile("transpose", square, kernel="padded", device="sim:cc13", blocks=90)
    print(size, f"stores fall evenly to {p['transpose_padded'].balance('store'):.0%}")

# %% [markdown]
# ## Exercise
#
# Transpose `n` x `n` floats for any `n`, with blocks of 32 x 8 threads and a grid of as many tiles of
# 32 x 32 as cover the square. Both loads and stores have to go along rows: no sector beyond the fewest
# for n = 1000. Each thread carries four elements of its tile: it stores them to a `__shared__` tile, all threads
# meet at `__syncthreads()` (notebook 02 has both), and each loads four others.
#
# One published slide takes both the row and the column of the tile from `threadIdx.x`. Do not copy that mistake.
# %%
#- exercise
KERNEL = r"""
__global__ void transpose(const float *in, float *out, int n)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) out[x * n + y + j] = in[(y + j) * n + x];
}
"""
#- solution
KERNEL = r"""
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y; // the tile's new place
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
#- end
score = check("03", KERNEL)

# %% [markdown]
# ## To think about
#
# * Why does the barrier stand outside of every `if`?
# * With n = 1001 even the best kernel takes sectors beyond the fewest. Which ones?
