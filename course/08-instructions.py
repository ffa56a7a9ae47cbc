# %% [markdown]
# # 08 Instructions
#
# **Goal.** After this notebook you know which instructions cost many times an addition, and can
# compute an index without a remainder.
#
# A multiprocessor adds and multiplies floats, and adds integers, at its full rate. It has no instruction
# that divides: `/` and `%` of integers take some twenty others, a float division and `sqrtf` about ten. For
# `sinf`, `expf` and others it has units that are fast and less exact, `__sinf`, `__expf`.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, recorded

# %% [markdown]
# ## What they cost
#
# Only a GPU can tell what they cost. A thread repeats an operation, each time with the result of the time before. The
# figure shows its time over that of an addition. x and c are floats, k and j integers. **Predict** the order, then run.
# %%
record = recorded("instructions")
fig, ax = plt.subplots(figsize=(8, 3), layout="tight")
bars = ax.barh(list(record["values"]), list(record["values"].values()), color="#0072b2")
ax.bar_label(bars, fmt=" %.1f")
ax.invert_yaxis()
ax.set(xlabel="time over an addition's", title=record["device"], xlim=(0, 1.1 * max(record["values"].values())))
plt.show()
# %% [markdown]
# ## What they are worth
#
# The fast functions give fewer right bits. sim computes `__sinf` exactly, so the figure shows what CUDA's guide
# promises for a GPU: `__sinf` is off by at most 2^-21.41 between -pi and pi, however small the sine is, and `sinf` by
# at most 2 ulp.
# %%
x = np.linspace(1e-4, 3.14, 2000)
ulp = 2.0 ** (np.floor(np.log2(np.sin(x))) - 23)
fig, ax = plt.subplots(figsize=(9, 3.2), layout="tight")
ax.semilogy(x, np.full_like(x, 2.0), "--", label="sinf")
ax.semilogy(x, 2**-21.41 / ulp, label="fast: __sinf")
ax.set(xlabel="x", ylabel="bound of the error, ulp of sin(x)")
ax.legend()
plt.show()
# %% [markdown]
# That is harmless in the middle. But it is thousands of ulp where the sine is near 0.
#
# ## Constant memory, and loops
#
# Two more slides. *Constant memory* is as fast as a register if all threads of a warp read the same word, and
# takes one more turn for each further word. *Short loops* spend instructions on counting and jumping; `#pragma unroll`
# writes them out. Neither changes what is asked of global memory:
# %%
POLYNOMIAL = """
__constant__ float c[4] = {1, 2, 3, 4};
__global__ void polynomial(const float *x, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    PRAGMA
    for (int k = 0; k < 4; k++) s = s * x[i] + c[k];
    out[i] = s;
}
"""
x, out = np.ones(256, "f4"), np.zeros(256, "f4")
for name, pragma in {"a loop": "", "unrolled": "#pragma unroll"}.items():
    kernel = gpuops.compile(POLYNOMIAL.replace("PRAGMA", pragma), device="sim")
    p = gpuops.profile(lambda: kernel[1, 256](x, out)).kernels[0]
    assert (out == 10).all()
    print(f"{name:9} {p.counts('global', 'load').requests} loads, {p.counts('global', 'store').requests} stores")
# %% [markdown]
# ## Exercise
#
# Element i gets the sum of 16 elements. The first lies d places after it, and after the last element of the array comes the
# first again: `a[(i + d + k) % n]` for k from 0 to 15, as in the lecture's histogram of pairs, with 0 <= d < n and
# n >= 16. Remove the remainder: the same bits, no `%`, no `/`.
# %%
#- exercise
KERNEL = r"""
__global__ void around(const int *a, int *out, int n, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int s = 0;
    for (int k = 0; k < 16; k++) s += a[(i + d + k) % n];
    out[i] = s;
}
"""
#- solution
KERNEL = r"""
__global__ void around(const int *a, int *out, int n, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = i + d, s = 0;
    if (at >= n) at -= n; // below 2 n
    for (int k = 0; k < 16; k++) {
        s += a[at];
        at++;
        if (at == n) at = 0;
    }
    out[i] = s;
}
"""
#- end
score = check("08", KERNEL)

# %% [markdown]
# ## To think about
#
# * `i % 32` costs nothing. Why? And `i % n` where the compiler knows n?
# * Does the `if` of the solution split warps?
