# %% [markdown]
# # 14 Capstone: repair
#
# **Goal.** Four kernels as a hasty reader copies them from slides, with the mistakes that stand there. Repair them
# with what the notebooks before this one taught; `check` says what is still wrong.
#
# Work as one does with a kernel of someone else's: first make it right (bits, no mistake that sim finds), then make
# it ask memory for no more than it must. **Predict** first: read each kernel and write down which mistakes you see,
# then run its cell; what `check` says and is not on your list, you missed.
# %%
import matplotlib.pyplot as plt

from gpuops.course import check

scores = {}
# %% [markdown]
# ## A transpose
#
# It goes through a tile in shared memory, for any n, with blocks of 32 x 8 threads. In the end neither global nor shared
# memory may be asked for more than the fewest sectors and wavefronts.
# %%
#- exercise
TRANSPOSE = r"""
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.x;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < height) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
#- solution
TRANSPOSE = r"""
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
#- end
scores["transpose"] = check("14a", TRANSPOSE)
# %% [markdown]
# ## A sum
#
# 16 blocks of 256 threads sum any n numbers, and each block stores its part to `part`. The kernel has all seven steps of
# the lecture at once; its last rounds are left to one warp.
# %%
#- exercise
SUM = r"""
__global__ void sum(const int *v, int *part, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = 0;
    for (int i = blockIdx.x * 512 + t; i < n; i += 512 * gridDim.x) s[t] += v[i] + v[i + 256];
    __syncthreads();
    for (int d = 128; d > 32; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t < 32) {
        s[t] += s[t + 32];
        s[t] += s[t + 16];
        s[t] += s[t + 8];
        s[t] += s[t + 4];
        s[t] += s[t + 2];
        s[t] += s[t + 1];
    }
    if (t == 0) part[blockIdx.x] = s[0];
}
"""
#- solution
SUM = r"""
__global__ void sum(const int *v, int *part, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x, mine = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) mine += v[i];
    s[t] = mine;
    __syncthreads();
    for (int d = 128; d > 32; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t < 32) {
        mine = s[t] + s[t + 32];
        for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(0xffffffff, mine, d);
        if (t == 0) part[blockIdx.x] = mine;
    }
}
"""
#- end
scores["sum"] = check("14b", SUM)
# %% [markdown]
# ## A step of the simple iteration
#
# `x1 = x0 + alpha (A x0 - f)`, a thread a row, entries added in their order, any n.
# %%
#- exercise
STEP = r"""
__global__ void step(const float *a, const float *f, float alpha, const float *x0, float *x1, int n)
{
    int i = blockIdx.x * blockDim.x + threadId.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += a[n * i + k] * x0[k];
    x1[i] = x0[i] - alpha * (sum - f[i]);
}
"""
#- solution
STEP = r"""
__global__ void step(const float *a, const float *f, float alpha, const float *x0, float *x1, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += a[n * i + k] * x0[k];
    x1[i] = x0[i] + alpha * (sum - f[i]);
}
"""
#- end
scores["iteration"] = check("14c", STEP)
# %% [markdown]
# ## Distances of pairs
#
# Thread i pairs point i with point i + d for d = 1, 2, ..., so that all threads have equally much to do; after the last
# point comes the first again. For even n the distance n / 2 would meet each pair twice, so only half of the threads take
# it. Each block counts in a histogram of its own.
# %%
#- exercise
PAIRS = r"""
__global__ void pairs(const float *p, int *h, int n, float width)
{
    __shared__ int mine[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int d = 1; d < n / 2; d++) {
        int j = (i + d) % n;
        float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1];
        float dz = p[3 * j + 2] - p[3 * i + 2];
        int bin = (int)(sqrtf(dx * dx + dy * dy + dz * dz) / width);
        if (bin < 64) mine[bin]++;
    }
    __syncthreads();
    if (threadIdx.x < 64) h[threadIdx.x] += mine[threadIdx.x];
}
"""
#- solution
PAIRS = r"""
__global__ void pairs(const float *p, int *h, int n, float width)
{
    __shared__ int mine[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 64) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int d = 1; i < n && d <= n / 2; d++) {
        if (2 * d == n && i >= d) break; // the other half of these pairs
        int j = i + d < n ? i + d : i + d - n;
        float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1];
        float dz = p[3 * j + 2] - p[3 * i + 2];
        int bin = (int)(sqrtf(dx * dx + dy * dy + dz * dz) / width);
        if (bin < 64) atomicAdd(&mine[bin], 1);
    }
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&h[threadIdx.x], mine[threadIdx.x]);
}
"""
#- end
scores["pairs"] = check("14d", PAIRS)
# %% [markdown]
# ## The score sheet
# %%
fig, ax = plt.subplots(figsize=(8, 2.6), layout="tight")
colours = {"bits": "#0072b2", "errors": "#56b4e9", "counters": "#e69f00"}
for row, score in enumerate(scores.values()):
    left = 0
    for part in score.parts:
        ax.barh(row, part.points, left=left, color=colours[part.kind])
        left += part.points
ax.set_yticks(range(len(scores)), [f"{name}, {score.points:g} of 100" for name, score in scores.items()])
ax.invert_yaxis()
ax.set(xlim=(0, 100), xlabel="points: bits (dark), no mistake (light), counters (orange)")
plt.show()
# %% [markdown]
# ## To think about
#
# * Which of these mistakes would a test on a GPU, with n = 1024, have shown?
