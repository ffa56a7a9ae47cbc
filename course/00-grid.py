# %% [markdown]
# # 00 Grid
#
# **Goal.** After this notebook you can say which thread of a launch works on which element, choose a
# grid for an array of any size, and tell what happens at its edges.
#
# A kernel is one function that very many threads run; the word `__global__` marks it. Threads come in *blocks*, blocks in
# a *grid*. A thread finds its place in its block in `threadIdx`, and its block's place in the grid in `blockIdx`.
# Everything here runs without a GPU: `device="sim"` imitates one on the CPU and says what is wrong with a kernel. sim
# counts what a GPU would do, but cannot say how long a GPU would take.
# %%
import matplotlib.pyplot as plt
import numpy as np

import gpuops
from gpuops.course import check, compare

# %% [markdown]
# ## An element a thread
#
# The first kernel of every course. `i` counts through all blocks.
# %%
ADD = """
__global__ void add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
add = gpuops.compile(ADD, device="sim")
n = 1000
a, b = np.arange(n, dtype="f4"), np.ones(n, "f4")
out = np.full(n, np.nan, "f4")
add[4, 256](a, b, out, n)  # [blocks, threads of a block](arguments)
assert (out == a + b).all()

# %% [markdown]
# ## Predict, then run
#
# How many elements of `out` are written with 3, 4 and 5 blocks of 256 threads? Write your numbers in
# place of `None`, then run the next cell.
# %%
guess = {"3 blocks": None, "4 blocks": None, "5 blocks": None}
# %%
counted = {}
for blocks in 3, 4, 5:
    out = np.full(n, np.nan, "f4")
    add[blocks, 256](a, b, out, n)
    counted[f"{blocks} blocks"] = int(np.isfinite(out).sum())
compare(guess, counted)
# %% [markdown]
# If the grid is too small, nobody reports an error: the rest of the array is simply not computed. A grid that is too
# large does no harm as long as the kernel asks `if (i < n)`. What happens without it?
# %%
careless = gpuops.compile(ADD.replace("if (i < n) ", ""), device="sim")
try:
    careless[4, 256](a, b, np.empty_like(a), n)
except gpuops.DeviceError as mistake:
    print(mistake)
# %% [markdown]
# `kernel.cu:5` is line 5 of the source: count from the line of `ADD = """`, or let JupyterLab do it (View,
# Show Line Numbers). The last block has 1024 - 1000 = 24 threads too many. On a GPU they read and write what lies after
# the arrays, and mostly nobody notices until much later. So the number of blocks is `n` divided by the
# block's size, *rounded up*, and the kernel has its bounds check.
#
# ## Two axes
#
# Grids and blocks have up to three sizes. For an array in rows, `x` runs along a row (neighbours in
# memory), `y` counts rows. This kernel writes down who works where.
# %%
OWNER = """
__global__ void owner(int *block, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        block[row * columns + column] = blockIdx.y * gridDim.x + blockIdx.x;
}
"""
rows, columns = 37, 100
block = np.full((rows, columns), -1, "i4")
grid = (-(-columns // 16), -(-rows // 16))  # rounded up; x first
gpuops.compile(OWNER, device="sim")[grid, (16, 16)](block, rows, columns)
assert (block >= 0).all()

fig, ax = plt.subplots(figsize=(9, 4.2), layout="tight")
across, down = 16 * grid[0], 16 * grid[1]
ax.add_patch(plt.Rectangle((-0.5, -0.5), across, down, facecolor="#e8e8e8", zorder=0))
ax.imshow(block * 5 % 12, cmap="Paired", interpolation="nearest", zorder=1)
for y in range(grid[1]):
    for x in range(grid[0]):
        ax.add_patch(plt.Rectangle((16 * x - 0.5, 16 * y - 0.5), 16, 16, fill=False, linewidth=0.5))
        ax.text(16 * x + 7.5, 16 * y + 7.5, f"({x}, {y})", ha="center", va="center", fontsize=8, bbox={"color": "white", "alpha": 0.6, "pad": 1})
ax.set(xlim=(-1, across), ylim=(down, -1), xlabel="column, x", ylabel="row, y")
ax.set_title(f"{rows} x {columns} elements by their block (x, y); grey: threads without an element")
plt.show()

# %% [markdown]
# ## Exercise
#
# Add two arrays of `rows` rows and `columns` columns. Your kernel is launched with blocks of 16 x 16
# threads, as many as cover the array, `x` along a row: so `1000 x 37` gets a grid of `(3, 63)`.
# `check` runs it on other shapes too. sim lets threads take turns in several orders (schedules), as a GPU
# promises no order. Change the kernel below, run the cell and read what `check` says, until you have all points.
# Lines count from `KERNEL = r"""`, the cell's first. A check takes some seconds; a loop without an end is
# stopped after 15. `printf` works in kernels: `printf("%d\n", i);` of a few threads says what they see.
#
# `gpuops.course.watch(KERNEL, n=8)` shows a small launch step by step. `score.draw()` shows which elements are
# right, wrong or never written. `gpuops.course.hint("00")` helps in three steps, `gpuops.course.solution("00")`
# shows a solution once you have all points, and `gpuops.course.progress()` shows what you have done.
# %%
#- exercise
KERNEL = r"""
__global__ void add(const float *a, const float *b, float *out, int rows, int columns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; // this covers one row: take all of them
    out[i] = a[i] + b[i];
}
"""
#- solution
KERNEL = r"""
__global__ void add(const float *a, const float *b, float *out, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        int i = row * columns + column;
        out[i] = a[i] + b[i];
    }
}
"""
#- end
score = check("00", KERNEL)

# %% [markdown]
# ## To think about
#
# * With `i = row * columns + column`, one comparison, `if (i < rows * columns)`, is enough. Which elements are then
#   added twice, and why does nobody notice?
# * How many threads have nothing to do for 1000 x 37 in blocks of 16 x 16? In blocks of 32 x 8?
# * A grid may have at most 65535 blocks in `y`. How would a kernel take an array of ten million rows?
