# %% [markdown]
# # 11 Histogram of pairs
#
# **Goal.** After this notebook you know what a counter costs that all threads use, and how a histogram for each
# block takes that cost away.
#
# How are particles arranged? Count the distances of all pairs in bins, divide by what a gas without order would
# give, and the result is the radial distribution function g(r). One of the lectures did this for 44,028
# particles: 58.23 s on one core; 16.3 s on a GPU with counters in global memory; 1.9 s with counters in shared
# memory; below 1 s with the whole problem in one launch.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops import demo
from gpuops.course import check, compare, recorded

# %% [markdown]
# ## What is counted
#
# Points of a crystal that shake a little, against points without any order, with the library's `rdf`. Then the
# oxygens of water, from a simulation that `pip install MDAnalysisTests` brings (without it there is only
# one picture): each has its first neighbours at 0.28 nm, further ones less and less sharply, and no order beyond a
# nanometre. The points without order have wiggles at small distances, as few pairs are so near.
# %%
rng = np.random.default_rng(0)
side = 8
grid = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3) + 0.5
sets = {"a crystal that shakes": grid + rng.normal(0, 0.08, grid.shape), "no order": rng.uniform(0, side, grid.shape)}
path = demo.find_water()
fig, axes = plt.subplots(1, 2 if path else 1, figsize=(10, 3.4), layout="tight", squeeze=False)
for (name, points), style in zip(sets.items(), ("-", ":")):
    result = gpuops.rdf(points.astype("f4") % side, 3.5, 70, box=[side] * 3)
    axes[0, 0].plot(result.r, result.g, style, label=name)
axes[0, 0].set(xlabel="distance, in lattice constants", ylabel="g(r)")
axes[0, 0].legend()
if path:
    frame = demo.read_gro(path)
    oxygens = frame.points[frame.names == "OW"]
    result = gpuops.rdf(oxygens, 1.2, 120, box=frame.box)
    axes[0, 1].plot(result.r, result.g)
    axes[0, 1].set(xlabel="distance, nm", ylabel="g(r)", title=f"{len(oxygens)} oxygens of water", xlim=(0.1, 1.2))
plt.show()
# %% [markdown]
# ## Counters that all threads use
#
# A pair's bin depends on the data, so two threads may want one counter at a time, and `h[bin]++` loses counts:
# load, add, store, and another thread in between. sim says so:
# %%
PAIRS = """
__global__ void pairs(const float *p, int *h, int n, float width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int j = i + 1; j < n; j++) {
        float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1], dz = p[3 * j + 2] - p[3 * i + 2];
        int bin = (int)(sqrtf(dx * dx + dy * dy + dz * dz) / width);
        if (bin < 64) COUNT;
    }
}
"""
n = 300
p = rng.uniform(0, 1, (n, 3)).astype("f4")
try:
    gpuops.compile(PAIRS.replace("COUNT", "h[bin]++"), device="sim")[3, 128](p, np.zeros(64, "i4"), n, 1 / 64)
except gpuops.DeviceError as mistake:
    print(mistake)
# %% [markdown]
# With the checks off the kernel runs to its end, and loses counts:
# %%
for way in "h[bin]++", "atomicAdd(&h[bin], 1)":
    h = np.zeros(64, "i4")
    with gpuops.schedule("random", seed=1, checks=False):
        gpuops.compile(PAIRS.replace("COUNT", way), device="sim")[3, 128](p, h, n, 1 / 64)
    near = int((np.linalg.norm(p[:, None] - p, axis=-1)[np.triu_indices(n, 1)] < 1).sum())
    print(f"{way:22} {h.sum()} of {near} pairs nearer than 64 bins")
# %% [markdown]
# ## What atomics cost
#
# With atomics the counts are right, but each atomic goes to global memory and back. **Predict** the additions to global memory for 300
# points in blocks of 128, which are 3 blocks. First with the counters in global memory. Then with 64 counters of each
# block's own in shared memory, which the block adds to global memory once; that number is computed, not counted.
# %%
guess = {"counters in global memory": None, "counters of each block's own": None}
# %%
kernel = gpuops.compile(PAIRS.replace("COUNT", "atomicAdd(&h[bin], 1)"), device="sim")
q = gpuops.profile(lambda: kernel[3, 128](p, np.zeros(64, "i4"), n, 1 / 64)).kernels[0]
compare(guess, {"counters in global memory": q.counts("global", "atomic").lanes, "counters of each block's own": 3 * 64})
# %% [markdown]
# ## The library's kernels
#
# The lecture's two GPU steps and what came after, for 512 points on sim:
# %%
points = rng.uniform(0, 1, (512, 3)).astype("f4")
steps = {}
for kernel in "naive", "shared", "persistent":
    q = gpuops.profile("rdf", points, 0.5, 64, kernel=kernel)
    steps[kernel] = sum(k.counts("global", "atomic").lanes for k in q.kernels)
    print(f"{kernel:11} {steps[kernel]:7} additions to global memory")
# %% [markdown]
# *naive* adds once for each of the 130816 pairs that is nearer than 0.5. *shared* adds once for each block, of which
# there are two, and each bin that is not empty; *persistent* once for each of those bins.
#
# Pairs a second, the lecture's for its 969,210,378 pairs, and as many on a GPU of today. *cells* sorts the points by
# place and looks only at near ones. Here near is a quarter of the box, which is hardly worth the sorting.
# %%
LECTURE = {"one core": 58.23, "GPU, global counters": 16.3, "GPU, shared counters": 1.9, "GPU, one launch (below 1 s)": 1.0}
record = recorded("pairs")
fig, ax = plt.subplots(figsize=(9, 3.4), layout="tight")
ax.barh(list(LECTURE), [969210378 / s / 1e6 for s in LECTURE.values()], color="#0072b2", label="the lecture's, 2010")
ax.barh(list(record["values"]), list(record["values"].values()), color="#009e73", label=record["device"])
ax.invert_yaxis()
ax.set(xlabel="million pairs a second", xscale="log")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
plt.show()
# %% [markdown]
# ## Exercise
#
# Count the distances of all pairs i < j of n points, 64 bins of `width`, in blocks of 128 threads. Some pairs lie
# beyond the last bin: leave them out. `h` is 0 at the start. Give each block a histogram in shared memory and add that to `h` at the end: exact counts in every order
# of turns, and no more additions to global memory than bins times blocks.
# %%
#- exercise
KERNEL = r"""
__global__ void pairs(const float *p, int *h, int n, float width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int j = i + 1; j < n; j++) {
        float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1];
        float dz = p[3 * j + 2] - p[3 * i + 2];
        int bin = (int)(sqrtf(dx * dx + dy * dy + dz * dz) / width);
        if (bin < 64) atomicAdd(&h[bin], 1);
    }
}
"""
#- solution
KERNEL = r"""
__global__ void pairs(const float *p, int *h, int n, float width)
{
    __shared__ int mine[64];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 64) mine[t] = 0;
    __syncthreads();
    if (i < n) // no return: every thread comes to the barrier
        for (int j = i + 1; j < n; j++) {
            float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1];
            float dz = p[3 * j + 2] - p[3 * i + 2];
            int bin = (int)(sqrtf(dx * dx + dy * dy + dz * dz) / width);
            if (bin < 64) atomicAdd(&mine[bin], 1);
        }
    __syncthreads();
    if (t < 64) atomicAdd(&h[t], mine[t]);
}
"""
#- end
score = check("11", KERNEL)

# %% [markdown]
# ## To think about
#
# * Thread 0 has n - 1 pairs, thread n - 1 none. How would you share the work out evenly?
# * The lecture counts distances d from 1 below n / 2. Which pairs does that drop?
