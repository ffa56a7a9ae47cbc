/*
 * reduce_short.h - many outputs of at most 128 elements: each lane of the tree has one element.
 *
 * A warp or a block to an output would have little to load and much to wait for. Here a block
 * brings the elements of many outputs to shared memory, all loads at once, and folds them
 * there.
 */
#ifndef GOP_CUDA_REDUCE_SHORT_H
#define GOP_CUDA_REDUCE_SHORT_H

#include "cuda/reduce_finish.h"

enum {
    SHORT_TILE = 16 * 1024, /* bytes of accumulators in a block */
    SHORT_BATCH = 8,        /* loads under way a thread */
    SHORT_ENOUGH = 1 << 14  /* outputs that keep a device busy this way */
};

static inline bool reduce_is_short(const reduce_args &r)
{
    return r.g.kept == 1 && r.g.reduced == 1 && !r.where && r.g.count <= LANES &&
           r.g.outputs >= SHORT_ENOUGH;
}

/* How a block's work is laid out; all but the pitch as powers of two. */
struct short_plan {
    int columns; /* log2 of the elements of an output, rounded up */
    int rows;    /* log2 of the outputs of a block */
    int pitch;   /* accumulators from output to output: odd, so that their banks differ */
    int across;  /* neighbouring threads take neighbouring outputs, not neighbouring elements */
};

struct short_place {
    int row, k;
};

/* Where item i of a block is: beyond the last row if i is beyond the last item. */
GOP_DEVICE short_place place_in(const short_plan &plan, int i)
{
    const int inner = plan.across ? plan.rows : plan.columns;
    const int near = i & ((1 << inner) - 1), far = i >> inner;
    if (plan.across) return {near, far};
    return {far, near};
}

/* ---- tree, short: a block takes many outputs --------------------------------------------
 * The threads walk over outputs or over elements, whichever are neighbours in memory. Then the
 * lanes of all outputs fold level by level, d = 64, 32, .., 1: what is not there changes
 * nothing and is skipped. */
template <typename M> __global__ void __launch_bounds__(256, 4)
    reduce_tree_short_kernel(reduce_args r, short_plan plan)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    __shared__ R tile[SHORT_TILE / sizeof(R)];
    const int count = (int)r.g.count, rows = 1 << plan.rows;
    const int64_t row_stride = r.g.in[0], stride = r.g.in[1];
    const int items = 1 << (plan.rows + plan.columns);
    for (int64_t first = blockIdx.x * (int64_t)rows; first < r.g.outputs;
         first += gridDim.x * (int64_t)rows) {
        const int64_t left = r.g.outputs - first;
        const int last = left < rows ? (int)left : rows;
        const typename M::T *a = static_cast<const typename M::T *>(r.a) + first * row_stride;
        for (int i0 = threadIdx.x; i0 < items; i0 += 256 * SHORT_BATCH) {
            typename M::T v[SHORT_BATCH];
#pragma unroll
            for (int b = 0; b < SHORT_BATCH; b++) {
                const short_place p = place_in(plan, i0 + b * 256);
                if (p.row < last && p.k < count) v[b] = a[p.row * row_stride + p.k * stride];
            }
#pragma unroll
            for (int b = 0; b < SHORT_BATCH; b++) {
                const short_place p = place_in(plan, i0 + b * 256);
                if (p.row < last && p.k < count)
                    tile[p.row * plan.pitch + p.k] = M::turn(v[b], p.k, r.twist);
            }
        }
        __syncthreads();
        for (int level = plan.columns - 1; level >= 0; level--) {
            const int d = 1 << level;
            for (int i = threadIdx.x; i < rows << level; i += 256) {
                R *lane = tile + (i >> level) * plan.pitch + (i & (d - 1));
                if ((i & (d - 1)) + d < count && (i >> level) < last)
                    lane[0] = F::fold(lane[0], lane[d]);
            }
            __syncthreads();
        }
        for (int row = threadIdx.x; row < last; row += 256)
            finish(r, first + row, count > 0 ? tile[row * plan.pitch] : F::none());
        __syncthreads();
    }
}

template <typename M> static gop_status reduce_short_launch(gop_ctx *ctx, reduce_args r)
{
    const int most = SHORT_TILE / (int)sizeof(typename M::F::acc);
    short_plan plan = {0, 0, (int)r.g.count | 1, r.g.in[0] == 1};
    while (1 << plan.columns < r.g.count) plan.columns++;
    while ((2 << plan.rows) * plan.pitch <= most && (2 << plan.rows) <= 1024) plan.rows++;
    return GOP_LAUNCH(ctx, reduce_tree_short_kernel<M>,
                      dim3((unsigned)blocks_for(r.g.outputs, 1 << plan.rows)), dim3(256), 0, r,
                      plan);
}

#endif
