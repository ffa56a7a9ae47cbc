# %% [markdown]
# # 07 Rounding
#
# **Goal.** After this notebook you know where two programs that compute the same get different bits, and
# can write a sum that always gives the same bits.
#
# A float32 has 24 bits, and each operation rounds to the nearest one. Three things change bits without any
# mistake: *fused multiply-add*, which rounds a product and a sum once instead of twice; the *order* of
# additions; and, long ago, GPUs that cut the product off instead of rounding it.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare

rng = np.random.default_rng(1)
n = 4096
a, b, c = (rng.uniform(-1, 1, n).astype("f4") for _ in range(3))
WAYS = {
    "two roundings": "__fadd_rn(__fmul_rn(a[i], b[i]), c[i])",
    "fused": "fmaf(a[i], b[i], c[i])",
    "cut off, then rounded": "__fadd_rn(__fmul_rz(a[i], b[i]), c[i])",
}
MAD = """
__global__ void mad(const float *a, const float *b, const float *c, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = WAY;
}
"""


def computed(way):
    out = np.empty(n, "f4")
    gpuops.compile(MAD.replace("WAY", WAYS[way]), device="sim")[n // 256, 256](a, b, c, out, n)
    return out


# %% [markdown]
# ## Three ways to multiply and add
#
# GPUs of compute capability 1.x cut off the product of a float multiply-add ("mad"). IEEE 754 rounds the product and
# the sum, or rounds once if the two are fused. **Predict:** in how many of 100 random a b + c do the bits differ from two roundings?
# %%
guess = {"fused": None, "cut off, then rounded": None}
# %%
results = {way: computed(way) for way in WAYS}
plain = results["two roundings"]
compare(guess, {way: round(100 * np.mean(results[way] != plain)) for way in guess})
# %% [markdown]
# The figure shows how far each result is off, in units in the last place (ulp) of the exact one. To the left of 0 are
# results that have too little of the product a b. A few more lie beyond 2:
# %%
exact = a.astype("f8") * b.astype("f8") + c.astype("f8")
fig, ax = plt.subplots(figsize=(9, 3.4), layout="tight")
edges = np.linspace(-2, 2, 81)
for (way, out), style in zip(results.items(), ("-", "--", ":")):
    ulps = (out - exact) / np.spacing(np.abs(exact).astype("f4")) * np.sign(a * b)
    ax.hist(ulps, edges, histtype="step", linestyle=style, linewidth=1.6, label=f"{way}: at most {abs(ulps).max():.2f} ulp")
ax.set(xlabel="error in ulp, negative: too little of a b", ylabel="how many of 4096 results")
ax.legend(loc="upper right", fontsize=8)
plt.show()
# %% [markdown]
# The fused result is never off by more than half an ulp. Two roundings are off by more where a b and c cancel. If the
# product is cut off, large errors are more frequent, and they go to one side: a b is always too small in magnitude.
#
# ## The order of additions
#
# An atomic addition of floats rounds in the order of arrival. sim plays other orders:
# %%
ATOMIC = """
__global__ void sum(const float *a, float *out)
{
    atomicAdd(out, a[blockIdx.x * 256 + threadIdx.x]);
}
"""
kernel = gpuops.compile(ATOMIC, device="sim")
for seed in range(5):
    out = np.zeros(1, "f4")
    with gpuops.schedule("random", seed=seed):
        kernel[4, 256](a, out)
    print(f"order {seed}: {out[0]:.9g}")
print(f"exact:   {a[:1024].astype('f8').sum():.9g}")
# %% [markdown]
# All of them are right to within rounding, and no two runs need agree. Where bits count (a test, a restart, a
# comparison of devices) the order has to be part of the program.
#
# ## Exercise
#
# The dot product of two arrays of n floats, by one block of 256 threads, with the same bits in 20 orders of
# turns. The order is prescribed: thread t begins with 0 and adds the products of elements t, t + 256, ... in
# order, each product rounded before it is added; then thread t adds the sum of thread t + d, for d = 128, 64,
# ..., 1. Products and sums are rounded one by one here unless you write `fma`.
# %%
#- exercise
KERNEL = r"""
__global__ void dot(const float *a, const float *b, float *out, int n)
{
    if (threadIdx.x == 0) out[0] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256) atomicAdd(out, a[i] * b[i]);
}
"""
#- solution
KERNEL = r"""
__global__ void dot(const float *a, const float *b, float *out, int n)
{
    __shared__ float s[256];
    int t = threadIdx.x;
    float mine = 0;
    for (int i = t; i < n; i += 256) mine += a[i] * b[i];
    s[t] = mine;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) out[0] = s[0];
}
"""
#- end
score = check("07", KERNEL)

# %% [markdown]
# ## To think about
#
# * Which is nearer to the exact sum of a million positive floats, a loop or a tree, and why?
# * `gpuops.sum` has an order of its own (docs/numerics.md). What does that make possible?
