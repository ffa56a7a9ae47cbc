/*
 * block.cu - jacobi_step of a dense A, a warp per row by wide loads.
 *
 * A thread's loads are 128 bits wide and four of them are under way before the
 * first is used: enough bytes in flight to fill the memory's latency. COLS
 * right-hand sides share what is loaded of A.
 */
#include "cuda/jacobi_step/tree.h"

enum { WARPS = 8 };

/* N items of a column of x, by one load where they are neighbours. */
template <typename T, int N>
GOP_DEVICE void load_lanes(T (&to)[N], const T *from, int64_t step, int are_neighbours)
{
    if (N > 1 && are_neighbours) {
        const vec128<T> v = load128(from);
        for (int j = 0; j < N; j++) to[j] = v.at[j];
        return;
    }
    for (int j = 0; j < N; j++) to[j] = from[j * step];
}

/* What a launch knows of its row and columns. */
template <typename T> struct block_row {
    const T *a, *x;
    int64_t a_col, x_row, x_col;
    int columns, are_neighbours; /* items of a column of x */
};

/* 128 terms from k on, one for each lane. */
template <typename T, int N, int COLS>
GOP_DEVICE void add_chunk(const block_row<T> &row, int64_t k, T (&lane)[COLS][PER_THREAD])
{
#pragma unroll
    for (int v = 0; v < PER_THREAD / N; v++) {
        const int64_t at = k + (v * WARP + threadIdx.x) * N;
        T a[N], x[COLS][N];
        stream_lanes<T, N>(a, row.a + at * row.a_col);
#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (COLS == 1 || c < row.columns)
                load_lanes<T, N>(x[c], row.x + at * row.x_row + c * row.x_col, row.x_row,
                                 row.are_neighbours);
#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int j = 0; j < N; j++)
                if (COLS == 1 || c < row.columns)
                    lane[c][v * N + j] = multiply_add(a[j], x[c][j], lane[c][v * N + j]);
    }
}

/* The same, of which only those before `end` are there. */
template <typename T, int N, int COLS> GOP_DEVICE void
add_rest(const block_row<T> &row, int64_t k, int64_t end, T (&lane)[COLS][PER_THREAD])
{
#pragma unroll
    for (int v = 0; v < PER_THREAD / N; v++)
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int64_t at = k + (v * WARP + threadIdx.x) * N + j;
            if (at >= end) continue;
            const T a = row.a[at * row.a_col];
#pragma unroll
            for (int c = 0; c < COLS; c++)
                if (COLS == 1 || c < row.columns)
                    lane[c][v * N + j] = multiply_add(a, row.x[at * row.x_row + c * row.x_col],
                                                      lane[c][v * N + j]);
        }
}

template <typename T, int N, int COLS> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_step_block_kernel(jacobi_system<T> s, int are_neighbours)
{
    const gop_jacobi &g = s.g;
    const int64_t i = s.first + blockIdx.x * (int64_t)WARPS + threadIdx.y;
    if (i >= s.last) return;
    for (int64_t c0 = 0; c0 < g.k; c0 += COLS) {
        const block_row<T> row = {s.a + i * g.a_row,
                                  s.x + c0 * g.x_col,
                                  N > 1 ? 1 : g.a_col,
                                  g.x_row,
                                  g.x_col,
                                  g.k - c0 < COLS ? (int)(g.k - c0) : COLS,
                                  are_neighbours};
        warp_tree<T> tree[COLS];
#pragma unroll
        for (int c = 0; c < COLS; c++) tree[c] = {0, negative_zero<T>()};
        for (int64_t begin = 0; begin < g.n; begin += LEAF) {
            const int terms = g.n - begin < LEAF ? (int)(g.n - begin) : (int)LEAF;
            T lane[COLS][PER_THREAD];
#pragma unroll
            for (int l = 0; l < COLS * PER_THREAD; l++)
                lane[l / PER_THREAD][l % PER_THREAD] = negative_zero<T>();
            int k = 0;
#pragma unroll 4
            for (; k + LANES <= terms; k += LANES) add_chunk<T, N, COLS>(row, begin + k, lane);
            if (k < terms) add_rest<T, N, COLS>(row, begin + k, g.n, lane);
#pragma unroll
            for (int c = 0; c < COLS; c++)
                if (COLS == 1 || c < row.columns) tree_push(tree[c], fold_lanes<T, N>(lane[c]));
        }
        const T diagonal = dense_diagonal(s, i);
#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (COLS == 1 || c < row.columns) {
                const T sum = tree_root(tree[c], negative_zero<T>());
                if (threadIdx.x == 0) jacobi_update(s, i, c0 + c, sum, diagonal);
            }
    }
}

template <typename T, int N, int COLS>
static gop_status jacobi_step_block(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    const int are_neighbours =
        s.g.x_row == 1 && (s.g.k == 1 || s.g.x_col % N == 0) && (uintptr_t)s.x % 16 == 0;
    return GOP_LAUNCH(ctx, (jacobi_step_block_kernel<T, N, COLS>),
                      dim3((unsigned)blocks_for(s.last - s.first, WARPS)), dim3(WARP, WARPS), 0,
                      s, are_neighbours);
}

template <typename T, int N> static gop_launch launch_of(int64_t k)
{
    return k == 1   ? jacobi_step_block<T, N, 1>
           : k <= 4 ? jacobi_step_block<T, N, 4>
                    : jacobi_step_block<T, N, 8>;
}

/* 128-bit loads need every row of A to start at a multiple of 16. */
template <typename T> static gop_launch launch_for(const gop_task *task)
{
    enum { N = vec128<T>::N };
    const gop_jacobi &g = task->geometry.jacobi;
    const int is_wide =
        g.a_col == 1 && g.a_row % N == 0 && (uintptr_t)task->in[0].data % 16 == 0;
    return is_wide ? launch_of<T, N>(g.k) : launch_of<T, 1>(g.k);
}

static gop_status jacobi_step_block_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    const gop_dtype dtype = task->in[0].dtype;
    GOP_TRY(jacobi_plan_dense(ctx, task, plan));
    plan->launch = dtype == GOP_FLOAT32     ? launch_for<float>(task)
                   : dtype == GOP_FLOAT64   ? launch_for<double>(task)
                   : dtype == GOP_COMPLEX64 ? launch_for<complex64>(task)
                                            : launch_for<complex128>(task);
    return GOP_OK;
}

extern const gop_row jacobi_step_block_row = {
    .name = "block",
    .note = "128-bit loads, four of a thread under way at once; right-hand "
            "sides share a read "
            "of A",
    .role = GOP_CONFORMING,
    .plan = jacobi_step_block_plan,
    .dtypes =
        1u << GOP_FLOAT32 | 1u << GOP_FLOAT64 | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128,
};
