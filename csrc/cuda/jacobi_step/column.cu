/*
 * column.cu - jacobi_step of a dense A whose columns, not rows, are contiguous.
 *
 * Neighbours in memory are neighbouring rows, so a warp works on 32 rows at a time, a thread
 * per row, and each row has 128 lanes to keep. Warp w keeps lanes 16 w to 16 w + 15 of 32 rows,
 * 16 sums a thread in registers. After each leaf the upper half of the warps hands its lanes to
 * the lower half through shared memory, which is the tree's own fold by 64, 32 and 16; the last
 * 16 lanes fold inside a thread.
 */
#include "cuda/jacobi_step/tree.h"

enum { WARPS = 8, OWN = LANES / WARPS, LEVELS = 40 };

/* One leaf of row i; the result is in the threads of warp 0. */
template <typename T> GOP_DEVICE T column_leaf(const jacobi_system<T> &s, const T *a,
                                               const T *x, int64_t begin,
                                               T (&upper)[WARPS / 2][OWN][WARP])
{
    const gop_jacobi &g = s.g;
    const int64_t end = g.n - begin < LEAF ? g.n : begin + LEAF;
    T lane[OWN];
#pragma unroll
    for (int l = 0; l < OWN; l++) lane[l] = negative_zero<T>();
    for (int64_t k = begin + threadIdx.y * OWN; k < end; k += LANES) {
        const int count = end - k < OWN ? (int)(end - k) : OWN;
#pragma unroll
        for (int l = 0; l < OWN; l++)
            if (l < count)
                lane[l] = multiply_add(a[(k + l) * g.a_col], x[(k + l) * g.x_row], lane[l]);
    }
    for (int half = WARPS / 2; half > 0; half /= 2) {
        const int w = threadIdx.y;
        if (w >= half && w < 2 * half)
#pragma unroll
            for (int l = 0; l < OWN; l++) upper[w - half][l][threadIdx.x] = lane[l];
        __syncthreads();
        if (w < half)
#pragma unroll
            for (int l = 0; l < OWN; l++) lane[l] = plus(lane[l], upper[w][l][threadIdx.x]);
        __syncthreads();
    }
#pragma unroll
    for (int d = OWN / 2; d > 0; d /= 2)
#pragma unroll
        for (int l = 0; l < d; l++) lane[l] = plus(lane[l], lane[l + d]);
    return lane[0];
}

template <typename T> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_step_column_kernel(jacobi_system<T> s)
{
    __shared__ T upper[WARPS / 2][OWN][WARP];
    const gop_jacobi &g = s.g;
    const int64_t i = s.first + blockIdx.x * (int64_t)WARP + threadIdx.x;
    const int64_t row = i < s.last ? i : s.last - 1; /* threads past the last row help along */
    for (int64_t c = 0; c < g.k; c++) {
        T node[LEVELS]; /* node[j]: the full subtree of 2^j leaves where bit j is set */
        int64_t leaves = 0;
        for (int64_t begin = 0; begin < g.n; begin += LEAF) {
            T leaf = column_leaf(s, s.a + row * g.a_row, s.x + c * g.x_col, begin, upper);
            int level = 0;
            for (int64_t n = leaves++; n & 1; n >>= 1, level++) leaf = plus(node[level], leaf);
            node[level] = leaf;
        }
        int level = 0;
        while (!(leaves >> level & 1)) level++;
        T sum = node[level]; /* what is left folds lowest first */
        for (level++; leaves >> level; level++)
            if (leaves >> level & 1) sum = plus(node[level], sum);
        if (threadIdx.y == 0 && i < s.last) jacobi_update(s, i, c, sum, dense_diagonal(s, i));
    }
}

template <typename T>
static gop_status jacobi_step_column(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    return GOP_LAUNCH(ctx, jacobi_step_column_kernel<T>,
                      dim3((unsigned)blocks_for(s.last - s.first, WARP)), dim3(WARP, WARPS), 0,
                      s);
}

static gop_status jacobi_step_column_plan(const gop_ctx *ctx, const gop_task *task,
                                          gop_plan *plan)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    if (!task->call->params.jacobi_step.csr && g->a_row == 1 && g->a_col != 1)
        return jacobi_plan_slices(ctx, task, plan);
    return gop_fail(GOP_REFUSED,
                    "jacobi_step: the column kernel takes a dense A with "
                    "contiguous columns (Fortran order); the warp kernel takes all");
}

extern const gop_row jacobi_step_column_row = {
    .name = "column",
    .note = "contiguous columns: a thread per row again, since neighbouring rows are "
            "neighbours in memory; 8 warps share the lanes",
    .role = GOP_CONFORMING,
    .launch = JACOBI_LAUNCHES(jacobi_step_column),
    .plan = jacobi_step_column_plan,
};
