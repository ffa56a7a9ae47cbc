/*
 * block.cu - jacobi_step of a dense A, a block per few rows.
 *
 * Up to 8 warps split the leaves of ROWS rows, each a whole subtree of them, and a thread's
 * loads are 128 bits wide: enough bytes in flight to fill the memory's latency. The rows share
 * what is loaded of x; COLS right-hand sides share what is loaded of A.
 */
#include "cuda/jacobi_step/tree.h"

enum { WARPS = 8 };

/* N neighbours by one load. What is streamed will not be read again: it leaves the cache to x.
 */
template <typename T, int N> GOP_DEVICE void load_lanes(T *to, const T *from)
{
    if (N == 1) {
        to[0] = from[0];
        return;
    }
    const vec128<T> v = load128(from);
    for (int j = 0; j < N; j++) to[j] = v.at[j];
}

template <typename T, int N> GOP_DEVICE void stream_lanes(T *to, const T *from)
{
    if (N == 1) {
        to[0] = from[0];
        return;
    }
    const vec128<T> v = load128_stream(from);
    for (int j = 0; j < N; j++) to[j] = v.at[j];
}

/* Adds one leaf of ROWS rows to their trees. With N > 1 the extents are multiples of N. */
template <typename T, int N, int ROWS, int COLS>
GOP_DEVICE void block_leaf(const jacobi_system<T> &s, const T *const (&a)[ROWS], const T *x,
                           int64_t begin, int columns, warp_tree<T> (&tree)[ROWS][COLS])
{
    const gop_jacobi &g = s.g;
    const int64_t end = g.n - begin < LEAF ? g.n : begin + LEAF;
    T lane[ROWS][COLS][PER_THREAD];
#pragma unroll
    for (int l = 0; l < ROWS * COLS * PER_THREAD; l++)
        lane[l / (COLS * PER_THREAD)][l / PER_THREAD % COLS][l % PER_THREAD] =
            negative_zero<T>();
#pragma unroll 2
    for (int64_t chunk = begin + threadIdx.x * N; chunk < end; chunk += LANES)
#pragma unroll
        for (int v = 0; v < PER_THREAD / N; v++) {
            const int64_t k = chunk + v * WARP * N;
            T row[ROWS][N], column[COLS][N];
            if (k >= end) break;
            for (int r = 0; r < ROWS; r++) stream_lanes<T, N>(row[r], a[r] + k * g.a_col);
            for (int c = 0; c < COLS; c++)
                if (c < columns) load_lanes<T, N>(column[c], x + k * g.x_row + c * g.x_col);
            for (int r = 0; r < ROWS; r++)
                for (int c = 0; c < COLS; c++)
                    for (int j = 0; c < columns && j < N; j++)
                        lane[r][c][v * N + j] =
                            multiply_add(row[r][j], column[c][j], lane[r][c][v * N + j]);
        }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (c < columns) tree_push(tree[r][c], fold_lanes<T, N>(lane[r][c]));
}

/* Rows [i0, i0 + ROWS) and columns [c0, c0 + columns) by one block of up to WARPS warps. */
template <typename T, int N, int ROWS, int COLS>
GOP_DEVICE void block_rows(const jacobi_system<T> &s, int64_t i0, int64_t c0, int columns,
                           int64_t leaves_per_warp, T (&part)[WARPS][ROWS][COLS])
{
    const gop_jacobi &g = s.g;
    warp_tree<T> tree[ROWS][COLS];
    const T *a[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) { /* rows past the last repeat it and are not written */
        a[r] = s.a + (i0 + r < s.last ? i0 + r : s.last - 1) * g.a_row;
        for (int c = 0; c < COLS; c++) tree[r][c] = {0, negative_zero<T>()};
    }
    const int64_t first = threadIdx.y * leaves_per_warp * LEAF;
    for (int64_t l = 0; l < leaves_per_warp && first + l * LEAF < g.n; l++)
        block_leaf<T, N, ROWS, COLS>(s, a, s.x + c0 * g.x_col, first + l * LEAF, columns, tree);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const T root = tree_root(tree[r][c], negative_zero<T>());
            if (threadIdx.x == 0) part[threadIdx.y][r][c] = root;
        }
    __syncthreads();
    const int item = threadIdx.y * WARP + threadIdx.x, r = item / COLS, c = item % COLS;
    if (r < ROWS && c < columns && i0 + r < s.last) {
        for (int step = 1; step < (int)blockDim.y; step *= 2) /* the top of the tree */
            for (int w = 0; w < (int)blockDim.y; w += 2 * step)
                part[w][r][c] = plus(part[w][r][c], part[w + step][r][c]);
        jacobi_update(s, i0 + r, c0 + c, part[0][r][c], dense_diagonal(s, i0 + r));
    }
    __syncthreads();
}

template <typename T, int N, int ROWS, int COLS> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_step_block_kernel(jacobi_system<T> s, int64_t leaves_per_warp)
{
    __shared__ T part[WARPS][ROWS][COLS];
    for (int64_t i = s.first + blockIdx.x * (int64_t)ROWS; i < s.last;
         i += gridDim.x * (int64_t)ROWS)
        for (int64_t c = 0; c < s.g.k; c += COLS)
            block_rows<T, N, ROWS, COLS>(s, i, c, s.g.k - c < COLS ? (int)(s.g.k - c) : COLS,
                                         leaves_per_warp, part);
}

struct block_leaves {
    int64_t per_warp;
    unsigned warps;
};

template <typename T, int N, int ROWS, int COLS>
static gop_status jacobi_step_block(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    const block_leaves &leaves = *GOP_OWN(const block_leaves, task->plan);
    return GOP_LAUNCH(ctx, (jacobi_step_block_kernel<T, N, ROWS, COLS>),
                      dim3((unsigned)blocks_for(s.last - s.first, ROWS)),
                      dim3(WARP, leaves.warps), 0, s, leaves.per_warp);
}

/* 128-bit loads need every row of A and every column of x to start at a multiple of 16. */
template <typename T> static gop_launch launch_for(const gop_task *task)
{
    enum { N = vec128<T>::N };
    const gop_jacobi &g = task->geometry.jacobi;
    const uintptr_t places = (uintptr_t)task->in[0].data | (uintptr_t)task->in[2].data;
    if (g.k > 1) return jacobi_step_block<T, 1, 2, 4>;
    if (g.a_col == 1 && g.x_row == 1 && g.n % N == 0 && g.a_row % N == 0 && places % 16 == 0)
        return jacobi_step_block<T, N, 4, 1>;
    return jacobi_step_block<T, 1, 4, 1>;
}

static gop_status jacobi_step_block_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    block_leaves &own = *GOP_OWN(block_leaves, plan);
    const gop_dtype dtype = task->in[0].dtype;
    GOP_TRY(jacobi_plan_dense(ctx, task, plan));
    int64_t leaves = 1; /* of the padded tree: a power of two */
    while (leaves < (task->geometry.jacobi.n + LEAF - 1) / LEAF) leaves *= 2;
    own.warps = leaves < WARPS ? (unsigned)leaves : (unsigned)WARPS;
    own.per_warp = leaves / own.warps;
    plan->launch = dtype == GOP_FLOAT32     ? launch_for<float>(task)
                   : dtype == GOP_FLOAT64   ? launch_for<double>(task)
                   : dtype == GOP_COMPLEX64 ? launch_for<complex64>(task)
                                            : launch_for<complex128>(task);
    return GOP_OK;
}

extern const gop_row jacobi_step_block_row = {
    .name = "block",
    .note = "8 warps for 4 rows that share x, 128-bit loads: more bytes in flight for each "
            "warp",
    .role = GOP_CONFORMING,
    .plan = jacobi_step_block_plan,
    .dtypes =
        1u << GOP_FLOAT32 | 1u << GOP_FLOAT64 | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128,
};
