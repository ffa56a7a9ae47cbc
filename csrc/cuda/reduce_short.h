/*
 * reduce_short.h - outputs of few elements, each lane of the tree with one at most.
 *
 * A warp to an output would have little to load and much to wait for. Here every thread has
 * loads of several outputs under way.
 */
#ifndef GOP_CUDA_REDUCE_SHORT_H
#define GOP_CUDA_REDUCE_SHORT_H

#include "cuda/reduce_finish.h"
#include "cuda/reduce_warp.h"

enum { STACKED = 8 }; /* elements that may lie farther apart than outputs do */

/* ---- short: outputs whose elements are neighbours ---------------------------------------
 * r.width threads share an output; a thread has elements of GROUPS outputs. Where threads t and
 * t + d fold, each sends half of its values and keeps the other half: so one shuffle folds two
 * outputs, and there are half as many values after each level. */

/* What is left of a thread's values once the threads d, d / 2, .., 1 apart have folded: `left`
 * values, of the outputs from group `first` on; threads with t & spare have copies. */
struct short_rest {
    int first, left, spare;
};

template <typename F, int N, typename R>
GOP_DEVICE short_rest fold_groups(R *value, int d, int t, int first)
{
    if (d == 0) return {first, N, 0};
    if constexpr (N > 1) {
        const bool upper = t & d;
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            const R keep = upper ? value[i + N / 2] : value[i];
            const R send = upper ? value[i] : value[i + N / 2];
            value[i] = F::fold(keep, shuffle_xor(send, d));
        }
        return fold_groups<F, N / 2>(value, d / 2, t, upper ? first + N / 2 : first);
    } else {
        const int spare = 2 * d - 1;
        for (; d > 0; d /= 2) value[0] = F::fold(value[0], shuffle_xor(value[0], d));
        return {first, 1, spare};
    }
}

template <typename M> __global__ void __launch_bounds__(256) reduce_short_kernel(reduce_args r)
{
    typedef typename M::T T;
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { GROUPS = sizeof(T) <= 4 ? 8 : 32 / sizeof(T), ROWS = LANES / 32 };
    const int t = threadIdx.x % 32, k = t % r.width, across = 32 / r.width;
    const int count = (int)r.g.count;
    const int64_t warp = blockIdx.x * (int64_t)8 + threadIdx.x / 32;
    const int64_t o = warp * (GROUPS * across) + t / r.width;
    const int64_t stride = r.g.reduced ? r.g.in[1] : 0, jump = across * r.g.in[0];
    const T *a = static_cast<const T *>(r.a) + o * r.g.in[0] + k * stride;
    T v[ROWS][GROUPS];
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
        if (q * 32 >= count) break;
#pragma unroll
        for (int b = 0; b < GROUPS; b++)
            if (q * 32 + k < count && o + b * across < r.g.outputs)
                v[q][b] = a[b * jump + q * 32 * stride];
    }
    R value[GROUPS];
#pragma unroll
    for (int b = 0; b < GROUPS; b++) {
        R lane[ROWS];
#pragma unroll
        for (int q = 0; q < ROWS; q++)
            lane[q] = q * 32 + k < count && o + b * across < r.g.outputs
                          ? M::turn(v[q][b], q * 32 + k, r.twist)
                          : F::none();
        value[b] = F::fold(F::fold(lane[0], lane[2]), F::fold(lane[1], lane[3]));
    }
    const short_rest rest = fold_groups<F, GROUPS>(value, r.width / 2, t, 0);
    if (t & rest.spare) return;
#pragma unroll 1
    for (int i = 0; i < rest.left; i++) {
        const int64_t output = o + (rest.first + i) * across;
        if (output < r.g.outputs) finish(r, output, pick<GROUPS>(value, i));
    }
}

template <typename M>
static gop_status reduce_short_task(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef typename M::T T;
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    r.width = 1;
    while (r.width < 32 && r.width < r.g.count) r.width *= 2;
    const int64_t outputs = 8 * (sizeof(T) <= 4 ? 8 : 32 / sizeof(T)) * (32 / r.width);
    return GOP_LAUNCH(ctx, reduce_short_kernel<M>,
                      dim3((unsigned)blocks_for(r.g.outputs, outputs)), dim3(256), 0, r);
}

#endif
