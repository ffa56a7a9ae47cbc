/*
 * dense.h - what the yardsticks of transpose take: they copy the same bytes, not permuted.
 *
 * Each does one thing that a transpose has to do too, so that the distance from one to the next
 * is the price of that one thing.
 */
#ifndef GOP_CUDA_TRANSPOSE_DENSE_H
#define GOP_CUDA_TRANSPOSE_DENSE_H

#include "cuda/transpose/index.h"

static inline gop_status transpose_is_dense(const gop_task *task)
{
    const gop_permutation &p = task->geometry.permutation;
    int64_t in = 1, out = 1; /* elements from the first to the last */
    for (int axis = 0; axis < p.rank; axis++) {
        if (p.in[axis] < 0 || p.out[axis] < 0) in = -1;
        in += (p.extent[axis] - 1) * p.in[axis];
        out += (p.extent[axis] - 1) * p.out[axis];
    }
    if (p.size == 0 || (in == p.size && out == p.size)) return GOP_OK;
    return gop_fail(GOP_REFUSED, "transpose: a copy as a yardstick takes arrays without gaps, "
                                 "but an array of this call has some");
}

#endif
