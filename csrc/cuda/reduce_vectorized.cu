/*
 * reduce_vectorized.cu - sums and means of floats that lie in memory in order.
 *
 * The tree's neighbouring lanes are neighbours in memory, so a thread may load 16 bytes of them
 * at once: a quarter of the load instructions for the same bytes in flight.
 */
#include "cuda/reduce_tree.h"

enum {
    GROUP = 64,   /* leaves that a block folds at most: a whole subtree */
    FEW = 1024,   /* outputs too few to care for idle threads */
    ENOUGH = 8192 /* blocks that keep a device busy: more only make more to fold later */
};

/* How leaves meet in blocks. 2^levels leaves are a subtree of one output; a block has `slots`
 * leaves: a subtree of an output that has several, or of several outputs their only one. */
struct vectorized_plan {
    int levels, slots;
    int64_t subtrees; /* of all outputs; r.leaves of each */
};

/* What a thread loads at once: neighbouring lanes, 16 bytes of them, or four of a half type. */
template <typename T> struct alignas(sizeof(T) < 4 ? 8 : 16) piece {
    enum { N = sizeof(T) < 4 ? 4 : 16 / sizeof(T) };
    T at[N];
};
template <int BYTES> struct piece_word;
template <> struct piece_word<8> {
    typedef uint2 type;
};
template <> struct piece_word<16> {
    typedef uint4 type;
};

template <typename T> GOP_DEVICE piece<T> load_piece(const T *address)
{
    typedef typename piece_word<sizeof(piece<T>)>::type word_t;
    piece<T> v;
    const word_t word = *reinterpret_cast<const word_t *>(address);
    __builtin_memcpy(&v, &word, sizeof v);
    return v;
}

/* ---- vectorized: 16 bytes a load --------------------------------------------------------
 * Thread t owns N neighbouring lanes of each 32 N: all 128 of a leaf in 4 / N pieces. They fold
 * piece by piece, then across threads, then inside one: d = 64, 32, .., 1 in this order. */
template <typename T, int AHEAD>
GOP_DEVICE typename sum_of<T>::type vectorized_leaf(const T *leaf, int t)
{
    typedef typename sum_of<T>::type R;
    enum { N = piece<T>::N, PIECES = 4 / N };
    R acc[PIECES * N];
#pragma unroll
    for (int i = 0; i < PIECES * N; i++) acc[i] = R(-0.0);
#pragma unroll(AHEAD)
    for (int j = 0; j < LEAF; j += LANES)
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const piece<T> v = load_piece(leaf + j + p * 32 * N + t * N);
#pragma unroll
            for (int i = 0; i < N; i++) acc[p * N + i] += widen(v.at[i]);
        }
    if (PIECES == 2)
#pragma unroll
        for (int i = 0; i < N; i++) acc[i] += acc[(PIECES - 1) * N + i];
    for (int d = 16; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < N; i++) acc[i] += shuffle_down(acc[i], d, 32);
#pragma unroll
    for (int d = N / 2; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < d; i++) acc[i] += acc[i + d];
    return acc[0];
}

/* A leaf that the end of the output cuts short: its lanes one element at a time. What is not
 * there counts as -0.0, which changes nothing, so that loads need not wait for each other. */
template <typename T>
GOP_DEVICE typename sum_of<T>::type vectorized_part(const T *leaf, int n, int t)
{
    typedef typename sum_of<T>::type R;
    R acc[4] = {R(-0.0), R(-0.0), R(-0.0), R(-0.0)};
#pragma unroll 4
    for (int j = 0; j < LEAF; j += LANES)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int k = j + q * 32 + t;
            acc[q] += k < n ? widen(leaf[k]) : R(-0.0);
        }
    acc[0] = (acc[0] + acc[2]) + (acc[1] + acc[3]);
    for (int d = 16; d > 0; d /= 2) acc[0] += shuffle_down(acc[0], d, 32);
    return acc[0];
}

/* Warps take a leaf each until the block has `slots`; the first warp folds the subtrees. Where
 * there are few blocks nothing hides how long a load takes: up to 32 warps, one for each slot
 * as far as they go, with twice the loads ahead. */
template <typename T, int WARPS>
__global__ void __launch_bounds__(WARPS * 32, WARPS == 8 ? 4 : 1)
    reduce_vectorized_kernel(reduce_args r, vectorized_plan plan)
{
    typedef typename sum_of<T>::type R;
    enum { AHEAD = (WARPS == 8 ? 4 : 8) * (sizeof(T) < 4 ? 2 : 1) };
    __shared__ R node[GROUP];
    const gop_reduction &g = r.g;
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int span = 1 << plan.levels, per_block = plan.slots >> plan.levels;
    for (int64_t first = blockIdx.x * (int64_t)per_block; first < plan.subtrees;
         first += gridDim.x * (int64_t)per_block) {
        const int64_t o = quotient(first, r.leaves), part = first - o * r.leaves;
        for (int l = warp; l < plan.slots; l += WARPS) {
            const int64_t leaf = part * span + (l & (span - 1));
            const int64_t left = g.count - leaf * LEAF;
            R value = R(-0.0);
            if (first + (l >> plan.levels) < plan.subtrees && left > 0) {
                const T *a = static_cast<const T *>(r.a) + leaf * LEAF +
                             place_of(g, 0, g.kept, o + (l >> plan.levels)).in;
                if (left >= LEAF) value = vectorized_leaf<T, AHEAD>(a, t);
                else value = vectorized_part(a, (int)left, t);
            }
            if (t == 0) node[l] = value;
        }
        __syncthreads();
        if (warp == 0) {
            /* Thread t has two neighbours of a subtree, or a whole output of one leaf. */
            const int at = span > 1 ? 2 * t : t;
            R value = at < plan.slots ? node[at] : R(-0.0);
            if (span > 1 && at < plan.slots) value += node[at + 1];
            for (int d = 1; d < span / 2; d *= 2) value += shuffle_down(value, d, 32);
            const int q = at >> plan.levels;
            if (at < plan.slots && at == q << plan.levels && first + q < plan.subtrees)
                conclude(r, o + q, part, value);
        }
        __syncthreads();
    }
}

template <typename T> static gop_status reduce_vectorized_sum(gop_ctx *ctx, reduce_args r)
{
    int span = 1;
    vectorized_plan plan = {0, 8, 0};
    if (r.leaves <= GROUP) /* outputs end in this launch */
        for (; span < r.leaves; span *= 2) plan.levels++;
    else
        for (; span < GROUP && (span < 8 || r.leaves / span > ENOUGH / r.g.outputs); span *= 2)
            plan.levels++;
    r.leaves = blocks_for(r.leaves, span);
    if (plan.slots < span) plan.slots = span;
    plan.subtrees = r.g.outputs * r.leaves;
    const int64_t blocks = blocks_for(plan.subtrees, plan.slots / span);
    const int warps = plan.slots < 32 ? plan.slots : 32;
    if (blocks < FEW)
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_vectorized_kernel<T, 32>), dim3((unsigned)blocks),
                           dim3(32 * warps), 0, r, plan));
    else
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_vectorized_kernel<T, 8>), dim3((unsigned)blocks),
                           dim3(256), 0, r, plan));
    return reduce_fold_leaves<sum_fold<typename sum_of<T>::type>>(ctx, r);
}

gop_status reduce_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    switch (task->in[0].dtype) {
    case GOP_FLOAT16:
        return reduce_vectorized_sum<float16>(ctx, r);
    case GOP_BFLOAT16:
        return reduce_vectorized_sum<bfloat16>(ctx, r);
    case GOP_FLOAT32:
        return reduce_vectorized_sum<float>(ctx, r);
    default:
        return reduce_vectorized_sum<double>(ctx, r);
    }
}

gop_status reduce_vectorized_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    if ((params.op != GOP_SUM && params.op != GOP_MEAN) || params.has_where)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes sums and means without where");
    const gop_dtype dtype = task->in[0].dtype;
    const int bytes = dtype == GOP_FLOAT64 ? 8 : dtype == GOP_FLOAT32 ? 4 : 2;
    const int together = bytes < 4 ? 8 : 16; /* bytes of a load */
    int aligned = (uintptr_t)task->in[0].data % together == 0;
    for (int d = 0; d < g.kept; d++) aligned &= g.in[d] * bytes % together == 0;
    if (g.reduced != 1 || g.in[g.kept] != 1 || !aligned)
        return gop_fail(
            GOP_REFUSED,
            "reduce: this kernel needs the elements of an output side by side, from "
            "an address that is a multiple of %d",
            together);
    if (g.outputs == 0 || g.count == 0)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs an array that is not empty");
    if (g.count < LEAF && g.outputs > FEW)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs %d elements to an output where there are "
                        "more than %d outputs, got %lld",
                        LEAF, FEW, (long long)g.count);
    return GOP_OK;
}
