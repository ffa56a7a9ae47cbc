/*
 * column.cu - jacobi_step of a dense A whose columns, not rows, are contiguous.
 *
 * Neighbours in memory are neighbouring rows, so a block takes the rows of 128 bytes of a
 * column at a time, and its threads share the lanes of these rows. A leaf's lanes fold inside a
 * thread, inside a warp, and in shared memory at last, in the tree's own order: halves first.
 */
#include "cuda/jacobi_step/tree.h"

enum { THREADS = 1024, WARPS = THREADS / WARP, LEVELS = 40 };

/* ACROSS threads of a warp stand side by side on WIDE rows each; a thread has OWN lanes. */
template <int ACROSS, int WIDE> struct column_shape {
    enum {
        ROWS = ACROSS * WIDE,
        DOWN = WARP / ACROSS,      /* lanes of a warp, WARPS apart */
        GROUPS = WARPS * DOWN,     /* lanes of a block, next to each other */
        OWN = LANES / GROUPS,      /* lanes of a thread, GROUPS apart */
        CHUNKS = OWN == 1 ? 8 : 4, /* loaded at once */
    };
};

/* The lanes of one leaf, of rows at `a`. */
template <typename T, int ACROSS, int WIDE, int COLS>
GOP_DEVICE void column_leaf(const gop_jacobi &g, const T *a, const T *x, int columns,
                            int64_t begin, int group,
                            T (&lane)[COLS][column_shape<ACROSS, WIDE>::OWN][WIDE])
{
    typedef column_shape<ACROSS, WIDE> shape;
    const int64_t end = g.n - begin < LEAF ? g.n : begin + LEAF;
    int64_t k = begin + group;
    for (; k - group + shape::CHUNKS * LANES <= end; k += shape::CHUNKS * LANES) {
        T row[shape::CHUNKS][shape::OWN][WIDE];
#pragma unroll
        for (int u = 0; u < shape::CHUNKS; u++)
#pragma unroll
            for (int l = 0; l < shape::OWN; l++)
                stream_lanes<T, WIDE>(row[u][l],
                                      a + (k + u * LANES + l * shape::GROUPS) * g.a_col);
#pragma unroll
        for (int u = 0; u < shape::CHUNKS; u++)
#pragma unroll
            for (int l = 0; l < shape::OWN; l++)
#pragma unroll
                for (int c = 0; c < COLS; c++) {
                    if (COLS > 1 && c >= columns) continue;
                    const T of_x =
                        x[(k + u * LANES + l * shape::GROUPS) * g.x_row + c * g.x_col];
#pragma unroll
                    for (int r = 0; r < WIDE; r++)
                        lane[c][l][r] = multiply_add(row[u][l][r], of_x, lane[c][l][r]);
                }
    }
    for (; k < end; k += LANES)
#pragma unroll
        for (int l = 0; l < shape::OWN; l++) {
            const int64_t at = k + l * shape::GROUPS;
            T row[WIDE];
            if (at >= end) continue;
            stream_lanes<T, WIDE>(row, a + at * g.a_col);
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                if (COLS > 1 && c >= columns) continue;
                const T of_x = x[at * g.x_row + c * g.x_col];
#pragma unroll
                for (int r = 0; r < WIDE; r++)
                    lane[c][l][r] = multiply_add(row[r], of_x, lane[c][l][r]);
            }
        }
}

/* The trees over the leaves of a row: node[j] is the full subtree of 2^j where bit j is set. */
template <typename T> struct thread_tree {
    T node[LEVELS];
    int64_t leaves;
};

template <typename T> GOP_DEVICE void thread_push(thread_tree<T> &tree, T leaf)
{
    int level = 0;
    for (int64_t n = tree.leaves++; n & 1; n >>= 1, level++)
        leaf = plus(tree.node[level], leaf);
    tree.node[level] = leaf;
}

/* What is left folds lowest first. */
template <typename T> GOP_DEVICE T thread_root(const thread_tree<T> &tree)
{
    int level = 0;
    while (!(tree.leaves >> level & 1)) level++;
    T sum = tree.node[level];
    for (level++; tree.leaves >> level; level++)
        if (tree.leaves >> level & 1) sum = plus(tree.node[level], sum);
    return sum;
}

template <typename T, int ACROSS, int WIDE, int COLS>
__global__ void __launch_bounds__(THREADS, 1) jacobi_step_column_kernel(jacobi_system<T> s)
{
    typedef column_shape<ACROSS, WIDE> shape;
    __shared__ T part[2][WARPS][COLS][shape::ROWS];
    const gop_jacobi &g = s.g;
    const int thread = threadIdx.x, warp = thread / WARP, down = thread % WARP / ACROSS;
    const int across = thread % ACROSS * WIDE, group = warp + WARPS * down;
    const int64_t i0 = s.first + blockIdx.x * (int64_t)shape::ROWS;
    /* Threads past the last row compute the last ones again. */
    const int64_t i = i0 + across < s.last ? i0 + across : s.last - WIDE;
    const int64_t row = i0 + thread % shape::ROWS; /* that this thread folds and writes */
    const int column = thread / shape::ROWS;
    for (int64_t c0 = 0; c0 < g.k; c0 += COLS) {
        const int columns = g.k - c0 < COLS ? (int)(g.k - c0) : COLS;
        thread_tree<T> tree;
        tree.leaves = 0;
        for (int64_t begin = 0, odd = 0; begin < g.n; begin += LEAF, odd ^= 1) {
            T lane[COLS][shape::OWN][WIDE];
#pragma unroll
            for (int l = 0; l < COLS * shape::OWN * WIDE; l++)
                lane[l / (shape::OWN * WIDE)][l / WIDE % shape::OWN][l % WIDE] =
                    negative_zero<T>();
            column_leaf<T, ACROSS, WIDE, COLS>(g, s.a + i * g.a_row, s.x + c0 * g.x_col,
                                               columns, begin, group, lane);
#pragma unroll
            for (int c = 0; c < COLS; c++)
#pragma unroll
                for (int r = 0; r < WIDE; r++) {
#pragma unroll
                    for (int d = shape::OWN / 2; d > 0; d /= 2)
#pragma unroll
                        for (int l = 0; l < d; l++)
                            lane[c][l][r] = plus(lane[c][l][r], lane[c][l + d][r]);
                    T sum = lane[c][0][r];
#pragma unroll
                    for (int d = shape::DOWN / 2; d > 0; d /= 2)
                        sum = plus(sum, shuffle_down(sum, d * ACROSS));
                    if (down == 0) part[odd][warp][c][across + r] = sum;
                }
            __syncthreads();
            if (column < columns) {
                T(&of)[WARPS][COLS][shape::ROWS] = part[odd];
                const int r = thread % shape::ROWS;
                for (int d = WARPS / 2; d > 0; d /= 2)
                    for (int w = 0; w < d; w++)
                        of[w][column][r] = plus(of[w][column][r], of[w + d][column][r]);
                thread_push(tree, of[0][column][r]);
            }
        }
        if (column < columns && row < s.last)
            jacobi_update(s, row, c0 + column, thread_root(tree), dense_diagonal(s, row));
        __syncthreads();
    }
}

template <typename T, int ACROSS, int WIDE, int COLS>
static gop_status jacobi_step_column(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    enum { ROWS = column_shape<ACROSS, WIDE>::ROWS };
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    return GOP_LAUNCH(ctx, (jacobi_step_column_kernel<T, ACROSS, WIDE, COLS>),
                      dim3((unsigned)blocks_for(s.last - s.first, ROWS)), dim3(THREADS), 0, s);
}

/* 128-bit loads need every column of A to start at a multiple of 16, and whole vectors. */
template <typename T> static gop_launch launch_for(const gop_task *task, int64_t steps)
{
    enum { N = vec128<T>::N };
    const gop_jacobi &g = task->geometry.jacobi;
    const int is_wide =
        g.a_col % N == 0 && g.n % N == 0 && (uintptr_t)task->in[0].data % 16 == 0 && steps == 1;
    if (!is_wide) return jacobi_step_column<T, WARP, 1, 1>;
    return g.k == 1 ? jacobi_step_column<T, 8, N, 1> : jacobi_step_column<T, 8, N, 4>;
}

static gop_status jacobi_step_column_plan(const gop_ctx *ctx, const gop_task *task,
                                          gop_plan *plan)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    if (task->call->params.jacobi_step.csr || g->a_row != 1 || g->a_col == 1)
        return gop_fail(GOP_REFUSED,
                        "jacobi_step: the column kernel takes a dense A with "
                        "contiguous columns (Fortran order); the warp kernel takes all");
    GOP_TRY(jacobi_plan_slices(ctx, task, plan));
    plan->launch = JACOBI_BY_DTYPE(task->in[0].dtype, launch_for)(task, plan->steps);
    return GOP_OK;
}

extern const gop_row jacobi_step_column_row = {
    .name = "column",
    .note = "contiguous columns: neighbouring threads take neighbouring rows, and those of a "
            "block share their lanes",
    .role = GOP_CONFORMING,
    .plan = jacobi_step_column_plan,
    .dtypes = JACOBI_DTYPES,
};
