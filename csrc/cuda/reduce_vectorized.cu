/*
 * reduce_vectorized.cu - sums and means of float32 and float64 that lie in memory in order.
 *
 * The tree's neighbouring lanes are neighbours in memory, so a thread may load 16 bytes of them
 * at once: a quarter of the load instructions for the same bytes in flight.
 */
#include "cuda/reduce_tree.h"

enum { GROUP = 64 /* leaves that a block folds: a whole subtree */ };

/* ---- vectorized: 16 bytes a load --------------------------------------------------------
 * Thread t owns N neighbouring lanes of each 32 N: all 128 of a leaf in 4 / N pieces. They fold
 * piece by piece, then across threads, then inside one: d = 64, 32, .., 1 in this order. */
template <typename T> GOP_DEVICE T vectorized_leaf(const T *leaf, int t)
{
    enum { N = vec128<T>::N, PIECES = 4 / N };
    T acc[PIECES * N];
#pragma unroll
    for (int i = 0; i < PIECES * N; i++) acc[i] = T(-0.0);
#pragma unroll 4
    for (int j = 0; j < LEAF; j += LANES)
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const vec128<T> v = load128_stream(leaf + j + p * 32 * N + t * N);
#pragma unroll
            for (int i = 0; i < N; i++) acc[p * N + i] += v.at[i];
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

/* A leaf that the end of the output cuts short: its lanes one element at a time. */
template <typename T> GOP_DEVICE T vectorized_part(const T *leaf, int n, int t)
{
    T acc[4] = {T(-0.0), T(-0.0), T(-0.0), T(-0.0)};
    for (int j = 0; j < n; j += LANES)
#pragma unroll
        for (int q = 0; q < 4; q++)
            if (j + q * 32 + t < n) acc[q] += leaf[j + q * 32 + t];
    acc[0] = (acc[0] + acc[2]) + (acc[1] + acc[3]);
    for (int d = 16; d > 0; d /= 2) acc[0] += shuffle_down(acc[0], d, 32);
    return acc[0];
}

/* r.leaves counts groups here. Eight warps take eight leaves each; the first warp folds 64. */
template <typename T> __global__ void __launch_bounds__(256)
    reduce_vectorized_kernel(reduce_args r)
{
    __shared__ T node[GROUP];
    const gop_reduction &g = r.g;
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t items = g.outputs * r.leaves;
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        const int64_t o = item / r.leaves, group = item % r.leaves;
        const T *a = static_cast<const T *>(r.a) + place_of(g, 0, g.kept, o).in;
        for (int l = warp; l < GROUP; l += 8) {
            const int64_t k0 = (group * GROUP + l) * LEAF;
            const int64_t left = g.count - k0;
            T value = T(-0.0);
            if (left >= LEAF) value = vectorized_leaf(a + k0, t);
            else if (left > 0) value = vectorized_part(a + k0, (int)left, t);
            if (t == 0) node[l] = value;
        }
        __syncthreads();
        if (warp == 0) {
            T value = node[2 * t] + node[2 * t + 1];
            for (int d = 1; d < 32; d *= 2) value += shuffle_down(value, d, 32);
            if (t == 0) conclude(r, o, group, value);
        }
        __syncthreads();
    }
}

template <typename T> static gop_status reduce_vectorized_sum(gop_ctx *ctx, reduce_args r)
{
    r.leaves = blocks_for(r.leaves, GROUP);
    GOP_TRY(GOP_LAUNCH(ctx, reduce_vectorized_kernel<T>,
                       dim3((unsigned)blocks_for(r.g.outputs * r.leaves, 1)), dim3(256), 0, r));
    return reduce_fold_leaves<sum_fold<T>>(ctx, r);
}

gop_status reduce_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    return task->in[0].dtype == GOP_FLOAT32 ? reduce_vectorized_sum<float>(ctx, r)
                                            : reduce_vectorized_sum<double>(ctx, r);
}

gop_status reduce_vectorized_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    if ((params.op != GOP_SUM && params.op != GOP_MEAN) || params.has_where)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes sums and means without where");
    const int64_t bytes = task->in[0].dtype == GOP_FLOAT32 ? 4 : 8;
    int aligned = (uintptr_t)task->in[0].data % 16 == 0;
    for (int d = 0; d < g.kept; d++) aligned &= g.in[d] * bytes % 16 == 0;
    if (g.reduced != 1 || g.in[g.kept] != 1 || !aligned)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs the elements of an output side "
                                     "by side, from an address that is a multiple of 16");
    if (g.count < 8 * LEAF)
        return gop_fail(
            GOP_REFUSED,
            "reduce: this kernel needs %d elements to an output, to give eight warps "
            "a leaf each, got %lld",
            8 * LEAF, (long long)g.count);
    return GOP_OK;
}
