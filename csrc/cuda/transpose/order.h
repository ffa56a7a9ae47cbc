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

template <typename T, typename I>
__global__ void transpose_naive_kernel(T *out, const T *in, gop_permutation p)
{
    const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (I)p.size) return;
    int64_t to, from;
    place(p, i, &to, &from);
    out[to] = in[from];
}

template <typename T, typename I>
static gop_status launch_in_order(gop_ctx *ctx, const gop_task *task, const gop_permutation &p)
{
    const dim3 grid((unsigned)blocks_for(p.size, 256));
    return GOP_LAUNCH(ctx, (transpose_naive_kernel<T, I>), grid, 256, 0, (T *)task->out[0].data,
                      (const T *)task->in[0].data, p);
}

/* The launch f<item, index> for a task. */
#define TRANSPOSE_IN_ORDER(task, f)                                                            \
    (fits_32_bits((task)->geometry.permutation.size)                                           \
         ? TRANSPOSE_BY_ITEM(transpose_item(task), f, uint32_t)                                \
         : TRANSPOSE_BY_ITEM(transpose_item(task), f, uint64_t))

#endif
