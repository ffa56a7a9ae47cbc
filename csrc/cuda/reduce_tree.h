/*
 * reduce_tree.h - the kernels that fold any array as tree/v1: rows, columns, leaves.
 *
 * They are templates over a map M: its element type T, its fold F, and turn(x, k, twist), which
 * makes an accumulator of element x at position k. Partial results stand output by output, leaf
 * by leaf, so that one kernel folds those of both others.
 */
#ifndef GOP_CUDA_REDUCE_TREE_H
#define GOP_CUDA_REDUCE_TREE_H

#include "cuda/reduce_finish.h"
#include "cuda/reduce_warp.h"

template <typename G, typename R>
GOP_DEVICE void conclude(const reduce_args_of<G> &r, int64_t o, int64_t leaf, R value)
{
    if (r.leaves == 1) finish(r, o, value);
    else static_cast<R *>(r.partial)[o * r.leaves + leaf] = value;
}

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
        const R value = M::turn(a[e.in], k, r.twist);
        /* The others fold with nothing: an index that varies would not leave acc in registers.
         */
#pragma unroll
        for (int i = 0; i < (F::ORDERED ? OWN : 1); i++)
            acc[i] = F::fold(acc[i], !F::ORDERED || i == l % OWN ? value : F::none());
    }
}

/* All of a whole leaf along one axis, with the loads of a row of lanes under way. */
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
            lane = F::fold(lane, M::turn(a[k * stride], k0 + k, r.twist));
        }
}

/* A thread's part of a leaf: its lanes are first, first + STEP, .. below 128, OWN of them, each
 * with an accumulator; or one for all where order does not matter. It walks along the innermost
 * axis and now and then goes on to the next line; BATCH loads are under way, masked elements'
 * too. */
template <typename M, int OWN, int STEP, typename R>
GOP_DEVICE void fold_part(const reduce_args &r, int64_t o, int64_t leaf, int first, R *acc)
{
    typedef typename M::F F;
    enum { BATCH = 8, TURN = OWN > BATCH ? OWN : BATCH };
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
    /* From beyond the end of a line to its place on the next. */
    const int64_t turn = above - g.extent[inner] * g.in[inner];
    const int64_t mask_turn = mask_above - g.extent[inner] * g.where[inner];
    const int extent = (int)(g.extent[inner] < 2 * LEAF ? g.extent[inner] : 2 * LEAF);
    int left = (int)(g.extent[inner] - x < 2 * LEAF ? g.extent[inner] - x : 2 * LEAF);
#pragma unroll 1
    for (int l = 0; l < n; l += TURN * STEP)
#pragma unroll
        for (int from = 0; from < TURN; from += BATCH) {
            typename M::T v[BATCH];
            bool in[BATCH];
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                in[b] = l + (from + b) * STEP < n;
                if (in[b]) v[b] = *a;
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
                if (in[b]) lane = F::fold(lane, M::turn(v[b], k, r.twist));
            }
        }
}

/* ---- tree, rows: r.width threads to a leaf ----------------------------------------------
 * Thread t of 32 owns lanes t, t + 32, t + 64, t + 96: a warp reads 32 neighbours. An output of
 * fewer than 32 elements gets as few threads, so that a warp still reads 32 neighbours where
 * outputs follow each other. Where outputs lie between each other's elements, the warps of a
 * block take the same leaf of several, so that a line is read from memory once. */

template <typename M> __global__ void __launch_bounds__(256, sizeof(typename M::T) > 4 ? 2 : 4)
    reduce_tree_row_kernel(reduce_args r)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { KEEP = F::ORDERED ? 4 : 1 };
    const int t = threadIdx.x % r.width;
    const int per_block = blockDim.x / r.width;
    const int64_t items = r.g.outputs * r.leaves;
    for (int64_t first = blockIdx.x * (int64_t)per_block; first < items;
         first += gridDim.x * (int64_t)per_block) {
        const int64_t item = first + threadIdx.x / r.width;
        const int64_t per_turn = r.by_leaf ? r.g.outputs : r.leaves;
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
        if (item < items && t == 0) conclude(r, o, leaf, acc[0]);
    }
}

/* ---- tree, columns: a thread to an output, or eight -------------------------------------
 * For outputs that are neighbours in memory. Thread y of eight owns the lanes y, y + 8, ..,
 * sixteen of them; they fold in registers down to eight lanes, and those through shared memory.
 * With fewer than eight elements to an output there are as few threads. */

template <typename M> __global__ void __launch_bounds__(256)
    reduce_tree_column_kernel(reduce_args r)
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
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
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

/* ---- tree, leaves: neighbours fold ------------------------------------------------------
 * A thread folds 32 bytes of neighbours, then a warp what its threads have, then a block what
 * its warps have. Where one warp is enough for an output a block has eight outputs. */

template <typename F> constexpr int leaves_of_thread = SLOT / sizeof(typename F::acc);

template <typename F, typename G> __global__ void __launch_bounds__(1024)
    reduce_tree_leaves_kernel(const __grid_constant__ reduce_args_of<G> r,
                              const typename F::acc *leaf, int64_t leaves, int warps)
{
    typedef typename F::acc R;
    enum { OWN = leaves_of_thread<F> };
    __shared__ R node[32];
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool together = warps > 1;
    const int64_t item = together ? blockIdx.x : blockIdx.x * (int64_t)(blockDim.x / 32) + warp;
    const int64_t o = r.leaves == 1 ? item : item / r.leaves; /* r.leaves: after this fold */
    const int64_t part = item - o * r.leaves;
    const int64_t from = ((together ? part * warps + warp : part) * 32 + t) * OWN;
    const int64_t left = item < r.g.outputs * r.leaves ? leaves - from : 0;
    const int n = left < OWN ? (int)left : OWN;
    const R *own = leaf + o * leaves + from;
    R value[OWN];
    gop_wait_for_kernel_before();
#pragma unroll
    for (int i = 0; i < OWN; i++) value[i] = i < n ? own[i] : F::none();
    fold_neighbours<F, OWN>(value);
    R mine = value[0];
    for (int d = 1; d < 32; d *= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
    if (together) {
        if (t == 0) node[warp] = mine;
        __syncthreads();
        if (warp > 0) return;
        mine = t < warps ? node[t] : F::none();
        for (int d = 1; d < 32; d *= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
    }
    if (t == 0 && n > 0) conclude(r, o, part, mine);
}

/* ---- tree, launching: rows or columns, then leaves ---- */

static inline int64_t reduce_magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Outputs side by side, if they are closer in memory than the elements of each. */
static inline int reduce_by_columns(const gop_reduction &g)
{
    if (g.kept == 0 || g.reduced == 0 || g.extent[g.kept - 1] < 8) return 0;
    return reduce_magnitude(g.in[g.kept - 1]) < reduce_magnitude(g.in[g.kept + g.reduced - 1]);
}

/* Folds r.leaves leaves to an output, which stand in r.partial, into the outputs. */
template <typename F, typename G>
static gop_status reduce_fold_leaves(gop_ctx *ctx, reduce_args_of<G> r)
{
    enum { OF_WARP = 32 * leaves_of_thread<F> };
    char *const scratch[2] = {(char *)r.partial,
                              (char *)r.partial + r.g.outputs * r.leaves * SLOT};
    for (int from = 0; r.leaves > 1; from ^= 1) {
        const int64_t leaves = r.leaves;
        const int warps = leaves < 32 * OF_WARP ? (int)blocks_for(leaves, OF_WARP) : 32;
        r.leaves = blocks_for(leaves, warps * OF_WARP);
        r.partial = scratch[from ^ 1];
        const int64_t items = r.g.outputs * r.leaves;
        GOP_TRY(GOP_LAUNCH_EARLY(ctx, (reduce_tree_leaves_kernel<F, G>),
                                 dim3((unsigned)blocks_for(items, warps == 1 ? 8 : 1)),
                                 dim3(warps == 1 ? 256 : 32 * warps), 0, r,
                                 (const typename F::acc *)scratch[from], leaves, warps));
    }
    return GOP_OK;
}

template <typename M> static gop_status reduce_tree_launch(gop_ctx *ctx, reduce_args r)
{
    const gop_reduction &g = r.g;
    r.by_leaf =
        g.kept > 0 && g.reduced > 0 &&
        reduce_magnitude(g.in[g.kept - 1]) < reduce_magnitude(g.in[g.kept + g.reduced - 1]);
    if (reduce_by_columns(r.g)) {
        int rows = 1;
        while (rows < 8 && rows < r.g.count) rows *= 2;
        const int columns = 256 / rows;
        const int64_t line = r.g.extent[r.g.kept - 1];
        const int64_t blocks = r.g.outputs / line * blocks_for(line, columns) * r.leaves;
        GOP_TRY(GOP_LAUNCH(ctx, reduce_tree_column_kernel<M>,
                           dim3((unsigned)blocks_for(blocks, 1)), dim3(columns, rows), 0, r));
    } else {
        r.width = 1;
        while (r.width < 32 && r.width < r.g.count) r.width *= 2;
        GOP_TRY(GOP_LAUNCH(ctx, reduce_tree_row_kernel<M>,
                           dim3((unsigned)blocks_for(r.g.outputs * r.leaves, 256 / r.width)),
                           dim3(256), 0, r));
    }
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

template <typename M>
static gop_status reduce_tree_task(gop_ctx *ctx, const gop_task *task, int64_t)
{
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    return reduce_tree_launch<M>(ctx, r);
}

#endif
