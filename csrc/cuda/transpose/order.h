/*
 * order.h - one item a thread, in an order of axes that the host chooses.
 */
#ifndef GOP_CUDA_TRANSPOSE_ORDER_H
#define GOP_CUDA_TRANSPOSE_ORDER_H

#include "cuda/transpose/index.h"

/* Offsets of the i-th item in the order of the axes. The index type I is 32 bits wide where
 * the size allows: a division then takes a quarter of the instructions. */
template <typename I>
GOP_DEVICE void place(const gop_permutation &p, I i, int64_t *to, int64_t *from)
{
    *to = *from = 0;
    for (int axis = p.rank - 1; axis > 0; axis--) {
        const I extent = (I)p.extent[axis];
        const I outer = i / extent;
        const I at = i - outer * extent;
        *to += (int64_t)at * p.out[axis];
        *from += (int64_t)at * p.in[axis];
        i = outer;
    }
    *to += (int64_t)i * p.out[0];
    *from += (int64_t)i * p.in[0];
}

/* naive.cu: enqueues its kernel for the axes in this order. */
gop_status transpose_in_order(gop_ctx *ctx, const gop_task *task, const gop_permutation &p);

#endif
