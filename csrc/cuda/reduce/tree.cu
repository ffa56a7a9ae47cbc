/*
 * tree.cu - reduce: every reduction of every array, with the bits of tree/v1.
 *
 * A warp has a leaf of 2048 elements, four lanes a thread; if outputs are neighbours, one or
 * eight threads have an output. Then warps fold the leaves, which are stored output by output.
 */
#include "cuda/reduce/nodes.h"
#include "cuda/reduce/plan.h"
#include "cuda/reduce/root.h"
#include "cuda/common/l2_policy.h"

enum {
    MANY = 64
}; /* leaves of an output from which on a block folds as many as it has warps */

/* Element by element, by division: any axes at all. */
template <typename M, int OWN, int STEP, typename R>
GOP_DEVICE void fold_anywhere(const reduce_args &r, int64_t o, int64_t k0, int n, R *acc)
{
    typedef typename M::F F;
    const gop_reduction &g = r.g;
    const reduce_place at = place_of(g, 0, g.kept, o);
    const typename M::T *a = static_cast<const typename M::T *>(r.a) + at.in;
#pragma unroll 1
    for (int l = 0; l * STEP < n; l++) {
        const int64_t k = k0 + l * STEP;
        const reduce_place e = place_of(g, g.kept, g.kept + g.reduced, k);
        if (r.where && !r.where[at.where + e.where]) continue;
        const R value = M::of(a[e.in], k, r.key_flags);
        /* The other lanes add nothing: a variable index would move acc out of registers. */
#pragma unroll
        for (int i = 0; i < (F::ORDERED ? OWN : 1); i++)
            acc[i] = F::fold(acc[i], !F::ORDERED || i == l % OWN ? value : F::none());
    }
}

/* A whole leaf along one axis, with the loads of a row of lanes in flight. */
template <typename M, int OWN, int STEP, typename R>
GOP_DEVICE void fold_whole(const reduce_args &r, int64_t o, int64_t k0, R *acc)
{
    typedef typename M::F F;
    const gop_reduction &g = r.g;
    const int64_t stride = g.in[g.kept];
    const typename M::T *a =
        static_cast<const typename M::T *>(r.a) + place_of(g, 0, g.kept, o).in + k0 * stride;
#pragma unroll(OWN > 4 ? 1 : 4)
    for (int j = 0; j < LEAF; j += LANES)
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            R &lane = acc[F::ORDERED ? i : 0];
            const int k = j + i * STEP;
            lane = F::fold(lane, M::of(a[k * stride], k0 + k, r.key_flags));
        }
}

/* A thread's part of a leaf: its lanes are first, first + STEP, .. below 128, OWN of them, each
 * with an accumulator; or one for all where order does not matter. It walks along the innermost
 * axis from line to line; BATCH loads are in flight, also those of masked elements. */
template <typename M, int OWN, int STEP, typename R>
GOP_DEVICE void fold_part(const reduce_args &r, int64_t o, int64_t leaf, int first, R *acc)
{
    typedef typename M::F F;
    enum {
        BATCH = 8,
        TURN = OWN > BATCH ? OWN : BATCH,
        AGAIN = reading<typename M::T>::ALWAYS /* the first one */
    };
    const gop_reduction &g = r.g;
    const int64_t k0 = leaf * LEAF + first;
    const int n = (int)(g.count - k0 < LEAF - first ? g.count - k0 : LEAF - first);
    const int inner = g.kept + g.reduced - 1;
    const bool one = g.reduced == 1;
    if (!one && (g.reduced != 2 || g.extent[inner] < STEP))
        return fold_anywhere<M, OWN, STEP>(r, o, k0, n, acc);
    if (one && n == LEAF - first && !r.where) return fold_whole<M, OWN, STEP>(r, o, k0, acc);
    const int64_t line = one ? 0 : k0 / g.extent[inner];
    const int64_t x = k0 - line * g.extent[inner], above = one ? 0 : g.in[inner - 1];
    const int64_t mask_above = one ? 0 : g.where[inner - 1];
    const reduce_place at = place_of(g, 0, g.kept, o);
    const typename M::T *a =
        static_cast<const typename M::T *>(r.a) + at.in + line * above + x * g.in[inner];
    const uint8_t *where =
        r.where ? r.where + at.where + line * mask_above + x * g.where[inner] : nullptr;
    const int64_t step = STEP * g.in[inner], mask_step = STEP * g.where[inner];
    /* The step from the end of a line to the next one. */
    const int64_t turn = above - g.extent[inner] * g.in[inner];
    const int64_t mask_turn = mask_above - g.extent[inner] * g.where[inner];
    const int extent = (int)(g.extent[inner] < 2 * LEAF ? g.extent[inner] : 2 * LEAF);
    int left = (int)(g.extent[inner] - x < 2 * LEAF ? g.extent[inner] - x : 2 * LEAF);
    const typename M::T *const begin = a;
#pragma unroll 1
    for (int l = 0; l < n; l += TURN * STEP)
#pragma unroll
        for (int from = 0; from < TURN; from += BATCH) {
            typename M::T v[BATCH];
            bool in[BATCH];
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                in[b] = l + (from + b) * STEP < n;
                if (AGAIN || in[b]) v[b] = *(in[b] ? a : begin);
                if (in[b] && r.where) in[b] = *where;
                a += step;
                where += mask_step;
                left -= STEP;
                if (left <= 0) {
                    a += turn;
                    where += mask_turn;
                    left += extent;
                }
            }
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                R &lane = acc[F::ORDERED ? (from + b) % OWN : 0];
                const int64_t k = k0 + l + (from + b) * STEP;
                if (in[b]) lane = F::fold(lane, M::of(v[b], k, r.key_flags));
            }
        }
}

/* Rows: r.width threads to a leaf. Thread t of 32 owns lanes t, t + 32, t + 64, t + 96: a warp
 * reads 32 neighbours. An output of fewer than 32 elements gets as few threads, so that a warp
 * still reads 32 neighbours where outputs follow each other. Where outputs lie between each
 * other's elements, the warps of a block take the same leaf of several, so that a line is read
 * from memory once. If outputs have many leaves, a block folds 2^levels of them, as many as it
 * has warps. */

template <typename M> __global__ void __launch_bounds__(256, sizeof(typename M::T) > 4 ? 2 : 4)
    reduce_tree_row_kernel(reduce_args r, int levels, int reverse)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { KEEP = F::ORDERED ? 4 : 1 };
    __shared__ R node[TEAMS];
    const int t = threadIdx.x % r.width;
    const int per_block = blockDim.x / r.width;
    const int64_t leaves = r.leaves << levels, items = r.g.outputs * leaves;
    const int64_t last = (items - 1) / per_block * per_block;
    grid_dependency_sync();
    for (int64_t begin = blockIdx.x * (int64_t)per_block; begin <= last;
         begin += gridDim.x * (int64_t)per_block) {
        const int64_t first = reverse ? last - begin : begin;
        const int64_t item = first + threadIdx.x / r.width;
        const int64_t per_turn = r.by_leaf ? r.g.outputs : leaves;
        const int64_t turn = item / per_turn, rest = item - turn * per_turn;
        const int64_t o = r.by_leaf ? rest : turn, leaf = r.by_leaf ? turn : rest;
        R acc[KEEP];
#pragma unroll
        for (int i = 0; i < KEEP; i++) acc[i] = F::none();
        if (item < items && leaf * LEAF + t < r.g.count)
            fold_part<M, 4, 32>(r, o, leaf, t, acc);
        fold_own<F, KEEP>(acc);
        for (int d = r.width / 2; d > 0; d /= 2)
            acc[0] = F::fold(acc[0], shuffle_down(acc[0], d, r.width));
        if (levels > 0) {
            if (t == 0) node[threadIdx.x / 32] = acc[0];
            __syncthreads();
            acc[0] = fold_nodes<F>(node, levels, t);
            __syncthreads();
        }
        if (levels > 0 ? threadIdx.x == 0 : item < items && t == 0)
            conclude(r, o, leaf >> levels, acc[0]);
    }
}

/* Columns: a thread to an output, or eight. For outputs that are neighbours in memory. Thread y
 * of eight owns the lanes y, y + 8, .., sixteen of them; they fold in registers down to eight
 * lanes, and those through shared memory. With fewer than eight elements to an output there are
 * as few threads. */

template <typename M> __global__ void __launch_bounds__(256)
    reduce_tree_column_kernel(reduce_args r, int reverse)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { KEEP = F::ORDERED ? LANES / 8 : 1 };
    __shared__ R shared[256];
    const gop_reduction &g = r.g;
    const int x = threadIdx.x, y = threadIdx.y, columns = blockDim.x, rows = blockDim.y;
    const int64_t line = g.extent[g.kept - 1];
    const int64_t blocks = (line + columns - 1) / columns;
    const int64_t items = g.outputs / line * blocks * r.leaves;
    grid_dependency_sync();
    for (int64_t begin = blockIdx.x; begin < items; begin += gridDim.x) {
        const int64_t item = reverse ? items - 1 - begin : begin;
        const int64_t leaf = item / blocks % r.leaves;
        const int64_t column = item % blocks * columns + x;
        const int64_t o = item / blocks / r.leaves * line + column;
        R acc[KEEP];
#pragma unroll
        for (int i = 0; i < KEEP; i++) acc[i] = F::none();
        if (column < line && leaf * LEAF + y < g.count)
            fold_part<M, LANES / 8, 8>(r, o, leaf, y, acc);
        fold_own<F, KEEP>(acc);
        shared[y * columns + x] = acc[0];
        __syncthreads();
        for (int d = rows / 2; d > 0; d /= 2) {
            if (y < d)
                shared[y * columns + x] =
                    F::fold(shared[y * columns + x], shared[(y + d) * columns + x]);
            __syncthreads();
        }
        if (y == 0 && column < line) conclude(r, o, leaf, shared[x]);
        __syncthreads();
    }
}

struct tree_grid {
    int by_columns, by_leaf, width, levels;
    unsigned blocks, columns, rows;
};
struct tree_launch {
    reduce_args r;
    tree_grid grid, mask; /* mask: for the counts of a mean */
    size_t counts;        /* bytes */
    bool alternates;
};

template <typename M> static gop_status launch_tree(gop_ctx *ctx, const gop_task *task,
                                                    reduce_args r, const tree_grid &grid,
                                                    int reverse)
{
    r.by_leaf = grid.by_leaf;
    r.width = grid.width;
    r.leaves = blocks_for(r.leaves, 1 << grid.levels);
    const dim3 block(grid.columns, grid.rows);
    if (grid.by_columns)
        GOP_TRY(GOP_LAUNCH_FIRST(ctx, task, r.leaves > 1, reduce_tree_column_kernel<M>,
                                 dim3(grid.blocks), block, 0, r, reverse));
    else
        GOP_TRY(GOP_LAUNCH_FIRST(ctx, task, r.leaves > 1, reduce_tree_row_kernel<M>,
                                 dim3(grid.blocks), block, 0, r, grid.levels, reverse));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

/* Counts the elements that r.where selects for each output into r.counts: a sum over the mask,
 * with its strides. */
static void count_mask(reduce_args *r)
{
    gop_reduction &g = r->g;
    int64_t stride = 1;
    for (int d = g.kept + g.reduced - 1; d >= 0; d--) g.in[d] = g.where[d];
    for (int d = g.kept - 1; d >= 0; stride *= g.extent[d--]) g.out[d] = stride;
    r->a = r->where;
    r->where = nullptr;
    r->out = const_cast<int64_t *>(r->counts);
    r->op = GOP_SUM;
    r->key_flags = TRUTH | UNSIGNED;
    r->dtype = GOP_BOOL;
    r->out_dtype = GOP_INT64;
}

template <typename M> static gop_status reduce_tree(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const tree_launch &own = *GOP_OWN(const tree_launch, task->plan);
    reduce_args r = reduce_addressed(task, own.r);
    if (task->call->params.reduce.has_where)
        r.where = static_cast<const uint8_t *>(task->in[1].data);
    if (own.counts > 0) {
        r.counts = static_cast<const int64_t *>(task->scratch);
        r.partial = static_cast<char *>(task->scratch) + own.counts;
        reduce_args count = r;
        count_mask(&count);
        GOP_TRY(launch_tree<sum_map<uint8_t>>(ctx, task, count, own.mask, 0));
    }
    return launch_tree<M>(ctx, task, r, own.grid,
                          own.alternates ? l2_reverse<GOP_OP_reduce>() : 0);
}

/* Outputs go by columns if they are closer in memory than the elements of each. */
static tree_grid grid_of(const gop_reduction &g, const int64_t *in, int64_t leaves)
{
    const bool closer =
        g.kept > 0 && g.reduced > 0 &&
        gop_magnitude(in[g.kept - 1]) < gop_magnitude(in[g.kept + g.reduced - 1]);
    tree_grid grid = {closer && g.extent[g.kept - 1] >= 8, closer, 1, 0, 0, 256, 1};
    if (grid.by_columns) {
        while (grid.rows < 8 && grid.rows < g.count) grid.rows *= 2;
        grid.columns = 256 / grid.rows;
        const int64_t line = g.extent[g.kept - 1];
        const int64_t blocks = g.outputs / line * blocks_for(line, grid.columns) * leaves;
        grid.blocks = (unsigned)blocks_for(blocks, 1);
    } else {
        while (grid.width < 32 && grid.width < g.count) grid.width *= 2;
        if (!closer && leaves >= MANY) {
            grid.levels = 3; /* of TEAMS leaves */
            leaves = (leaves + TEAMS - 1) / TEAMS * TEAMS;
        }
        grid.blocks = (unsigned)blocks_for(g.outputs * leaves, 256 / grid.width);
    }
    return grid;
}

static const reduce_by_map<gop_launch> launches = REDUCE_EVERY_MAP(reduce_tree);

static gop_status reduce_tree_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    tree_launch &own = *GOP_OWN(tree_launch, plan);
    plan->launch = reduce_of_call(launches, task);
    reduce_arguments(task, &own.r, plan);
    own.grid = grid_of(g, g.in, own.r.leaves);
    own.alternates = reduce_exceeds_l2(ctx, task);
    own.counts = 0;
    if (params.op != GOP_MEAN || !params.has_where) return GOP_OK;
    own.mask = grid_of(g, g.where, own.r.leaves);
    own.counts = ((size_t)g.outputs * sizeof(int64_t) + 255) / 256 * 256;
    plan->scratch += own.counts;
    return GOP_OK;
}

extern const gop_row reduce_tree_row = {
    .name = "tree",
    .note = "a warp to a leaf, four lanes a thread: shuffles instead of shared memory, sixteen "
            "loads in flight, and an order that no grid can change",
    .role = GOP_CONFORMING,
    .plan = reduce_tree_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
