/*
 * reduce_vectorized.h - the kernels that fold what lies in memory in order.
 *
 * The tree's neighbouring lanes are neighbours in memory, so a thread may load 16 bytes of them
 * at once: a quarter of the load instructions for the same bytes in flight. Where there are too
 * few leaves to fill the device with a warp each, what counts is how soon all loads are under
 * way: there a leaf has as many threads as lanes.
 */
#ifndef GOP_CUDA_REDUCE_VECTORIZED_H
#define GOP_CUDA_REDUCE_VECTORIZED_H

#include "cuda/reduce_tree.h"

enum {
    GROUP = 64, /* leaves of an output that a block folds at most */
    TEAMS = 8,  /* warps of a block, or leaves of one with a thread a lane */
    FEW = 1024, /* leaves too few to fill a device with a warp each */
    PART = 16   /* leaves of a longer output: with more, the last blocks run long alone */
};

/* How leaves meet in blocks. 2^levels leaves are a subtree of one output; a block has `slots`
 * leaves: a subtree of an output that has several, or of several outputs their only one. */
struct vectorized_plan {
    int levels, slots;
    int64_t subtrees; /* of all outputs; r.leaves of each */
};

/* ---- a whole leaf, by a warp ---- */

/* By a thread of its own elements, where order does not matter. */
template <typename M> GOP_DEVICE typename M::F::acc gathered_leaf(const typename M::T *leaf,
                                                                  int64_t k0, int t, int twist)
{
    typedef gather_of<M> G;
    typedef vec128<typename M::T> V;
    enum { LOADS = LEAF / 32 / V::N };
    typename G::acc acc = G::none();
#pragma unroll(LOADS < 8 ? LOADS : 8)
    for (int j = 0; j < LOADS; j++) {
        const int at = (j * 32 + t) * V::N;
        const V v = load128(leaf + at);
#pragma unroll
        for (int i = 0; i < V::N; i++) G::add(acc, v.at[i], at + i, twist);
    }
    typename M::F::acc root = G::root(acc, k0, twist);
    for (int d = 16; d > 0; d /= 2) root = M::F::fold(root, shuffle_down(root, d, 32));
    return root;
}

/* Thread t owns N neighbouring lanes of each 32 N: all 128 of a leaf in 4 / N pieces. They fold
 * piece by piece, then across threads, then inside one: d = 64, 32, .., 1 in this order. */
template <typename M>
GOP_DEVICE typename M::F::acc ordered_leaf(const typename M::T *leaf, int t, int twist)
{
    typedef typename M::F F;
    typedef lanes_of<typename M::T> V;
    enum { N = V::N, PIECES = 4 / N, AHEAD = sizeof(typename M::T) <= 4 ? 8 : 4 };
    typename F::acc acc[PIECES * N];
#pragma unroll
    for (int i = 0; i < PIECES * N; i++) acc[i] = F::none();
#pragma unroll(AHEAD)
    for (int j = 0; j < LEAF; j += LANES)
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const V v = load_group<V>(leaf + j + (p * 32 + t) * N);
#pragma unroll
            for (int i = 0; i < N; i++)
                acc[p * N + i] = F::fold(acc[p * N + i], M::turn(v.at[i], 0, twist));
        }
#pragma unroll
    for (int d = PIECES / 2; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < d * N; i++) acc[i] = F::fold(acc[i], acc[i + d * N]);
    for (int d = 16; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < N; i++) acc[i] = F::fold(acc[i], shuffle_down(acc[i], d, 32));
    fold_own<F, N>(acc);
    return acc[0];
}

/* A leaf that ends early, or starts anywhere: its lanes one element at a time. */
template <typename M> GOP_DEVICE typename M::F::acc
part_of_leaf(const typename M::T *leaf, int64_t k0, int n, int t, int twist)
{
    typedef typename M::F F;
    enum { KEEP = F::ORDERED ? 4 : 1, AHEAD = 8 };
    typename F::acc acc[KEEP];
#pragma unroll
    for (int i = 0; i < KEEP; i++) acc[i] = F::none();
#pragma unroll 1
    for (int j = t; j < n + t; j += 32 * AHEAD) {
        typename M::T v[AHEAD];
#pragma unroll
        for (int b = 0; b < AHEAD; b++)
            if (j + b * 32 < n) v[b] = leaf[j + b * 32];
#pragma unroll
        for (int b = 0; b < AHEAD; b++)
            if (j + b * 32 < n)
                acc[b % KEEP] = F::fold(acc[b % KEEP], M::turn(v[b], k0 + j + b * 32, twist));
    }
    fold_own<F, KEEP>(acc);
    for (int d = 16; d > 0; d /= 2) acc[0] = F::fold(acc[0], shuffle_down(acc[0], d, 32));
    return acc[0];
}

/* The accumulator of a leaf of output o, in thread 0 of the warp. */
template <typename M> GOP_DEVICE typename M::F::acc
vectorized_leaf(const reduce_brief &r, int64_t o, int64_t leaf, int t)
{
    const int64_t k0 = leaf * LEAF, left = r.g.count - k0;
    const typename M::T *a =
        static_cast<const typename M::T *>(r.a) + place_of(r.g, 0, r.g.kept, o).in + k0;
    if (left < LEAF || (uintptr_t)a % 16 != 0)
        return part_of_leaf<M>(a, k0, left < LEAF ? (int)left : LEAF, t, r.twist);
    if constexpr (M::F::ORDERED) return ordered_leaf<M>(a, t, r.twist);
    else return gathered_leaf<M>(a, k0, t, r.twist);
}

/* The root of 2^levels neighbours, in thread 0 of the warp. */
template <typename F>
GOP_DEVICE typename F::acc fold_nodes(const typename F::acc *node, int levels, int t)
{
    const int pairs = (1 << levels) / 2;
    if (pairs == 0) return node[0];
    typename F::acc value = t < pairs ? F::fold(node[2 * t], node[2 * t + 1]) : F::none();
    for (int d = 1; d < pairs; d *= 2) value = F::fold(value, shuffle_down(value, d, 32));
    return value;
}

/* Blocks that a processor should hold: as registers allow without going to memory. */
template <typename M> constexpr int vectorized_blocks()
{
    if (sizeof(typename M::F::acc) > 8 && sizeof(typename M::T) > 8) return 2;
    return sizeof(typename M::F::acc) > 8 || sizeof(typename M::T) == 8 ? 3 : 4;
}

/* ---- vectorized: a warp to a leaf, 16 bytes a load --------------------------------------
 * Warps take a leaf each until the block has `slots`; then they fold a subtree each. */
template <typename M> __global__ void __launch_bounds__(TEAMS * 32, vectorized_blocks<M>())
    reduce_vectorized_kernel(const __grid_constant__ reduce_brief r, vectorized_plan plan)
{
    typedef typename M::F F;
    __shared__ typename F::acc node[GROUP];
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int span = 1 << plan.levels, per_block = plan.slots >> plan.levels;
    const int64_t first = blockIdx.x * (int64_t)per_block;
    const int64_t o = first / r.leaves, part = first - o * r.leaves;
    for (int l = warp; l < plan.slots; l += TEAMS) {
        const int q = l >> plan.levels;
        const int64_t leaf = part * span + (l & (span - 1));
        typename F::acc value = F::none();
        if (first + q < plan.subtrees && leaf * LEAF < r.g.count)
            value = vectorized_leaf<M>(r, o + q, leaf, t);
        if (t == 0) node[l] = value;
    }
    __syncthreads();
    if (warp >= per_block || first + warp >= plan.subtrees) return;
    const typename F::acc root = fold_nodes<F>(node + (warp << plan.levels), plan.levels, t);
    if (t == 0) conclude(r, o + warp, part, root);
}

/* ---- vectorized, launching ---- */

template <typename M>
static gop_status reduce_vectorized_task(gop_ctx *ctx, const gop_task *task, int64_t)
{
    reduce_brief r;
    GOP_TRY(reduce_prepare_brief(ctx, task, &r));
    int span = 1;
    vectorized_plan plan = {0, TEAMS, 0};
    /* Outputs of GROUP leaves end in this launch. */
    for (; span < (r.leaves <= GROUP ? r.leaves : PART); span *= 2) plan.levels++;
    r.leaves = blocks_for(r.leaves, span);
    if (plan.slots < span) plan.slots = span;
    plan.subtrees = r.g.outputs * r.leaves;
    GOP_TRY(GOP_LAUNCH(ctx, reduce_vectorized_kernel<M>,
                       dim3((unsigned)blocks_for(plan.subtrees, plan.slots / span)),
                       dim3(TEAMS * 32), 0, r, plan));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

/* ---- few: a thread to a lane -------------------------------------------------------------
 * For a few leaves, from any address: sixteen loads of each thread are under way at once. A
 * block has a subtree of `span` leaves. */
template <typename M> __global__ void __launch_bounds__(TEAMS *LANES)
    reduce_few_kernel(const __grid_constant__ reduce_brief r, int span)
{
    typedef typename M::T T;
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { ROWS = LEAF / LANES, AHEAD = sizeof(T) > 8 ? ROWS / 2 : ROWS };
    __shared__ R lane[TEAMS][LANES], node[TEAMS];
    const int t = threadIdx.x % LANES, l = threadIdx.x / LANES;
    const int64_t o = blockIdx.y, part = blockIdx.x;
    const int64_t k0 = (part * span + l) * LEAF + t;
    const int left = (int)(r.g.count - k0 < LEAF ? r.g.count - k0 : LEAF);
    const T *a = static_cast<const T *>(r.a) + place_of(r.g, 0, r.g.kept, o).in + k0;
    R mine = F::none();
#pragma unroll
    for (int from = 0; from < ROWS; from += AHEAD) {
        T v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if ((from + j) * LANES < left) v[j] = a[(from + j) * LANES];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if ((from + j) * LANES < left)
                mine = F::fold(mine, M::turn(v[j], k0 + (from + j) * LANES, r.twist));
    }
    if (t >= 32) lane[l][t] = mine;
    __syncthreads();
    if (t < 32) {
        mine =
            F::fold(F::fold(mine, lane[l][64 + t]), F::fold(lane[l][32 + t], lane[l][96 + t]));
        for (int d = 16; d > 0; d /= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
        if (t == 0) node[l] = mine;
    }
    if (span > 1) {
        __syncthreads();
        if (threadIdx.x < 32) {
            mine = t < span ? node[t] : F::none();
            for (int d = 1; d < span; d *= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
        }
    }
    if (threadIdx.x == 0) conclude(r, o, part, mine);
}

/* At most an element to a lane: a warp to an output, and no code but for that, as a short
 * kernel waits for its code more than for anything else. */
template <typename M> __global__ void __launch_bounds__(32)
    reduce_lanes_kernel(const __grid_constant__ reduce_brief r)
{
    typedef typename M::T T;
    typedef typename M::F F;
    enum { ROWS = LANES / 32 };
    const int t = threadIdx.x, left = (int)r.g.count - t;
    const int64_t o = blockIdx.x;
    const T *a = static_cast<const T *>(r.a) + place_of(r.g, 0, r.g.kept, o).in + t;
    T v[ROWS];
    typename F::acc lane[ROWS];
#pragma unroll
    for (int j = 0; j < ROWS; j++)
        if (j * 32 < left) v[j] = a[j * 32];
#pragma unroll
    for (int j = 0; j < ROWS; j++)
        lane[j] =
            j * 32 < left ? F::fold(F::none(), M::turn(v[j], t + j * 32, r.twist)) : F::none();
    fold_own<F, ROWS>(lane);
    for (int d = 16; d > 0; d /= 2) lane[0] = F::fold(lane[0], shuffle_down(lane[0], d, 32));
    if (t == 0) finish(r, o, lane[0]);
}

template <typename M>
static gop_status reduce_few_task(gop_ctx *ctx, const gop_task *task, int64_t)
{
    reduce_brief r;
    GOP_TRY(reduce_prepare_brief(ctx, task, &r));
    if (r.g.count <= LANES)
        return GOP_LAUNCH(ctx, reduce_lanes_kernel<M>, dim3((unsigned)r.g.outputs), dim3(32), 0,
                          r);
    int span = 1;
    if (r.leaves <= TEAMS) /* outputs end in this launch */
        while (span < r.leaves) span *= 2;
    r.leaves = blocks_for(r.leaves, span);
    GOP_TRY(GOP_LAUNCH(ctx, reduce_few_kernel<M>,
                       dim3((unsigned)r.leaves, (unsigned)r.g.outputs), dim3(span * LANES), 0,
                       r, span));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

#endif
