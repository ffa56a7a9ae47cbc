# %% [markdown]
# # 10 Iteration
#
# **Goal.** After this notebook you can tell for which step a simple iteration converges, and give a sparse
# matrix's rows to warps.
#
# One of the lectures solves A x = f by x' = x + alpha (A x - f), again and again. If that converges at all, it
# converges to the solution. The lecture says that it does if alpha is small enough. That is true for one sign of alpha.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare

n = 31
A = 5 * np.eye(n) - 1.5 * np.eye(n, k=1) - 1.5 * np.eye(n, k=-1)  # positive definite
f = np.random.default_rng(0).normal(size=n)
exact = np.linalg.solve(A, f)


def errors(alpha, steps=60):
    x, found = np.zeros(n), []
    for _ in range(steps):
        x = x + alpha * (A @ x - f)
        found.append(np.abs(x - exact).max())
    return found


# %% [markdown]
# ## Predict, then run
#
# The eigenvalues of A lie between 2 and 8. For which alpha does the error shrink? (1: it does, 0: it does not)
# %%
guess = {"0.1": None, "-0.1": None, "-0.24": None, "-0.26": None}
# %%
shrinks = {alpha: int(errors(float(alpha), 400)[-1] < errors(float(alpha), 400)[0]) for alpha in guess}
compare(guess, shrinks)
# %% [markdown]
# Each step multiplies the error's part along an eigenvector by `1 + alpha lambda`. For positive definite A that
# is above 1 for every positive alpha, however small: alpha has to be negative, and above -2 / 8.
# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="tight")
for alpha, style in ((-0.24, "-"), (-0.2, ":"), (-0.26, "--"), (0.02, "-.")):
    left.semilogy(errors(alpha), style, label=f"alpha = {alpha}")
left.set(xlabel="step", ylabel="largest error", ylim=(1e-5, 1e6))
left.legend()
modes = np.linalg.eigvalsh(A)
for alpha, style in ((-0.24, "-"), (-0.2, ":"), (-0.26, "--")):
    right.plot(modes, np.abs(1 + alpha * modes), style, label=f"alpha = {alpha}")
right.axhline(1, color="black", linewidth=0.8)
right.set(xlabel="eigenvalue", ylabel="a step multiplies its mode by", ylim=(0, 1.6))
right.legend(loc="upper center")
plt.show()
# %% [markdown]
# The best alpha, -2 / (2 + 8), makes the factors of both ends equally large: each step leaves 0.6 of the error. Where the lowest
# eigenvalue is near 0, as in large grids, no alpha damps its mode, which is why solvers take several grids.
#
# ## Dense and sparse
#
# This A has three entries in each row that are not 0. A dense kernel loads the zeros, too. CSR keeps what is not 0: `value` and
# `column` of each entry, and where each row begins, `start`. Bytes that one step moves, with the library's
# kernels:
# %%
from scipy import sparse

size = 256
dense = np.array(4 * np.eye(size) - 2 * np.eye(size, k=1) - 2 * np.eye(size, k=-1), "f4")
x, g = np.ones(size, "f4"), np.ones(size, "f4")
for name, matrix in {"dense": dense, "CSR": sparse.csr_matrix(dense)}.items():
    p = gpuops.profile("jacobi_step", matrix, x, g)
    moved = sum(k.counts("global", kind).moved for k in p.kernels for kind in ("load", "store"))
    print(f"{name:6} {p.kernels[0].name:24} {moved:7} bytes")
# %% [markdown]
# ## Exercise
#
# One step `next = x + alpha (A x - f)` with A in CSR, a *warp* a row: row `(blockIdx.x * 256 + threadIdx.x) / 32`.
# As it stands a thread has a row, and neighbouring threads load entries that are a row apart. Bits are
# prescribed: lane l begins with 0 and adds the products of entries l, l + 32, ... of its row in order; then
# each lane adds the sum of the lane 16 further on, then 8, 4, 2, 1 (`__shfl_down_sync(0xffffffff, sum, d)`);
# lane 0 stores `x[row] + alpha * (sum - f[row])`.
# %%
#- exercise
KERNEL = r"""
__global__ void step(const float *value, const int *column, const int *start, const float *x,
                     const float *f, float *next, float alpha, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int k = start[row]; k < start[row + 1]; k++) sum += value[k] * x[column[k]];
    next[row] = x[row] + alpha * (sum - f[row]);
}
"""
#- solution
KERNEL = r"""
__global__ void step(const float *value, const int *column, const int *start, const float *x,
                     const float *f, float *next, float alpha, int n)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return; // the whole warp
    int end = start[row + 1];
    float sum = 0;
    for (int k = start[row] + lane; k < end; k += 32) sum += value[k] * x[column[k]];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0) next[row] = x[row] + alpha * (sum - f[row]);
}
"""
#- end
score = check("10", KERNEL)

# %% [markdown]
# ## To think about
#
# * With three entries in a row 29 lanes of a warp have nothing to do. What else could a warp take?
# * `x[column[k]]` goes wherever the columns lie. When is that cheap?
