/*
 * reduce_columns.cu - sums and means of floats where neighbouring outputs are neighbours in
 * memory, as along axis 0 of a C-contiguous matrix.
 */
#include "cuda/reduce_tree.h"

enum {
    COLUMNS = 32, /* of a block: a line of 128 bytes in float32 */
    WARPS = 8,
    OWN = LANES / WARPS,   /* lanes of a thread */
    FOLDED = WARPS * WARPS /* leaves that a block folds once they are sums */
};

/* How blocks cover the array: by column blocks, then leaves, then the outer kept axes. */
struct columns_plan {
    int64_t line;    /* columns side by side */
    unsigned across; /* blocks to a line */
    unsigned leaves; /* that the launch reads, or makes from elements */
};

/* Warp w ends with the value of columns' subtree w of eight; the sum is warp 0's. */
template <typename R, bool NEIGHBOURS>
GOP_DEVICE R columns_meet(R (*shared)[COLUMNS], int warp, int x, R value)
{
    shared[warp][x] = value;
    __syncthreads();
    if (warp == 0) {
        R v[WARPS];
#pragma unroll
        for (int w = 0; w < WARPS; w++) v[w] = shared[w][x];
#pragma unroll
        for (int d = 1; d < WARPS; d *= 2) {
            /* Leaves fold with their neighbours first, lanes with those farthest away. */
            const int apart = NEIGHBOURS ? d : WARPS / 2 / d;
#pragma unroll
            for (int w = 0; w + apart < WARPS; w++)
                if (NEIGHBOURS ? w % (2 * d) == 0 : w < apart) v[w] = add(v[w], v[w + apart]);
        }
        value = v[0];
    }
    return value;
}

template <typename R> GOP_DEVICE void columns_conclude(const reduce_args &r, int64_t line,
                                                       int64_t outer, int64_t leaf,
                                                       int64_t column, R value)
{
    if (r.leaves == 1) finish(r, outer * line + column, value);
    else static_cast<R *>(r.partial)[(outer * r.leaves + leaf) * line + column] = value;
}

/* ---- columns: a column a thread, eight warps to a leaf ----------------------------------
 * Warp w owns the lanes w, w + 8, .., sixteen of them, all loaded at once. They fold in
 * registers for d = 64, 32, 16, 8; what is left meets in shared memory. */
template <typename T> __global__ void __launch_bounds__(WARPS *COLUMNS)
    reduce_columns_kernel(reduce_args r, columns_plan plan)
{
    typedef typename sum_of<T>::type R;
    __shared__ R shared[WARPS][COLUMNS];
    const gop_reduction &g = r.g;
    const int x = threadIdx.x % COLUMNS, warp = threadIdx.x / COLUMNS;
    const unsigned row = blockIdx.x / plan.across;
    const unsigned outer = row / plan.leaves, leaf = row % plan.leaves;
    const int64_t column = (int64_t)(blockIdx.x % plan.across) * COLUMNS + x;
    const int64_t stride = g.in[g.kept], left = g.count - (int64_t)leaf * LEAF;
    R acc[OWN];
#pragma unroll
    for (int i = 0; i < OWN; i++) acc[i] = constant<R>::zero();
    if (column < plan.line) {
        const T *a = static_cast<const T *>(r.a) + place_of(g, 0, g.kept - 1, outer).in +
                     column + ((int64_t)leaf * LEAF + warp) * stride;
        const int64_t step = WARPS * stride;
        if (left >= LEAF)
#pragma unroll 1
            for (int j = 0; j < LEAF; j += LANES, a += LANES * stride)
#pragma unroll
                for (int i = 0; i < OWN; i++) acc[i] = add(acc[i], widen(a[i * step]));
        else
#pragma unroll 1
            for (int j = warp; j < left; j += LANES, a += LANES * stride)
#pragma unroll
                for (int i = 0; i < OWN; i++)
                    acc[i] = add(acc[i], j + i * WARPS < left ? widen(a[i * step])
                                                              : constant<R>::zero());
    }
    fold_own<sum_fold<R>, OWN>(acc);
    const R value = columns_meet<R, false>(shared, warp, x, acc[0]);
    if (warp == 0 && column < plan.line)
        columns_conclude(r, plan.line, outer, leaf, column, value);
}

/* ---- columns, leaves: a block folds 64 sums of each of 32 columns -----------------------
 * Eight neighbours in a thread, then the eight warps. */
template <typename R> __global__ void __launch_bounds__(WARPS *COLUMNS)
    reduce_columns_leaves_kernel(reduce_args r, columns_plan plan, const R *from)
{
    __shared__ R shared[WARPS][COLUMNS];
    const int x = threadIdx.x % COLUMNS, warp = threadIdx.x / COLUMNS;
    const unsigned row = blockIdx.x / plan.across;
    const int64_t outer = row / (unsigned)r.leaves, part = row % (unsigned)r.leaves;
    const int64_t column = (int64_t)(blockIdx.x % plan.across) * COLUMNS + x;
    const int64_t leaf = part * FOLDED + warp * WARPS;
    R v[WARPS];
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        v[i] = column < plan.line && leaf + i < plan.leaves
                   ? from[(outer * plan.leaves + leaf + i) * plan.line + column]
                   : constant<R>::zero();
#pragma unroll
    for (int d = 1; d < WARPS; d *= 2)
#pragma unroll
        for (int i = 0; i < WARPS; i += 2 * d) v[i] = add(v[i], v[i + d]);
    const R value = columns_meet<R, true>(shared, warp, x, v[0]);
    if (warp == 0 && column < plan.line)
        columns_conclude(r, plan.line, outer, part, column, value);
}

static int64_t columns_blocks(const gop_reduction &g)
{
    const int64_t line = g.extent[g.kept - 1];
    return g.outputs / line * blocks_for(line, COLUMNS) * blocks_for(g.count, LEAF);
}

size_t reduce_columns_scratch(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const int64_t leaves = blocks_for(g.count, LEAF);
    return leaves == 1
               ? 0
               : (size_t)(g.outputs * (leaves + blocks_for(leaves, FOLDED))) * sizeof(double);
}

template <typename T> static gop_status reduce_columns_sum(gop_ctx *ctx, reduce_args r)
{
    typedef typename sum_of<T>::type R;
    const int64_t line = r.g.extent[r.g.kept - 1], outer = r.g.outputs / line;
    columns_plan plan = {line, (unsigned)blocks_for(line, COLUMNS), (unsigned)r.leaves};
    const dim3 block(WARPS * COLUMNS);
    R *const half[2] = {static_cast<R *>(r.partial),
                        static_cast<R *>(r.partial) + r.g.outputs * r.leaves};
    GOP_TRY(GOP_LAUNCH(ctx, reduce_columns_kernel<T>,
                       dim3((unsigned)(outer * plan.across * r.leaves)), block, 0, r, plan));
    for (int from = 0; r.leaves > 1; from ^= 1) {
        plan.leaves = (unsigned)r.leaves;
        r.leaves = blocks_for(r.leaves, FOLDED);
        r.partial = half[from ^ 1];
        GOP_TRY(GOP_LAUNCH(ctx, reduce_columns_leaves_kernel<R>,
                           dim3((unsigned)(outer * plan.across * r.leaves)), block, 0, r, plan,
                           (const R *)half[from]));
    }
    return GOP_OK;
}

gop_status reduce_columns(gop_ctx *ctx, const gop_task *task, int64_t)
{
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    switch (task->in[0].dtype) {
    case GOP_FLOAT16:
        return reduce_columns_sum<float16>(ctx, r);
    case GOP_BFLOAT16:
        return reduce_columns_sum<bfloat16>(ctx, r);
    case GOP_FLOAT32:
        return reduce_columns_sum<float>(ctx, r);
    default:
        return reduce_columns_sum<double>(ctx, r);
    }
}

gop_status reduce_columns_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    if ((params.op != GOP_SUM && params.op != GOP_MEAN) || params.has_where)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes sums and means without where");
    if (g.kept == 0 || g.in[g.kept - 1] != 1 || g.extent[g.kept - 1] < COLUMNS)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs outputs whose elements are neighbours in "
                        "memory, in lines of %d or more",
                        COLUMNS);
    if (g.reduced != 1 || g.in[g.kept] == 1 || g.count < WARPS)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs at least %d elements to an output, one "
                        "distance apart",
                        WARPS);
    if (g.outputs == 0 || columns_blocks(g) > 0x7fffffff)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs 1 to 2^31 - 1 blocks");
    return GOP_OK;
}
