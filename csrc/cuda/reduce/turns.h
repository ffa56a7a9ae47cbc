/*
 * turns.h - which end of a long array a call reads first.
 *
 * An array longer than the second-level cache, read from end to end again and again, drives out
 * its own begin each time. So every other call of long ones goes the other way, and meets first
 * what the call before left. The first one begins at the end, which whoever wrote the array has
 * left in the cache.
 */
#ifndef GOP_CUDA_REDUCE_TURNS_H
#define GOP_CUDA_REDUCE_TURNS_H

#include "cuda/device.h"

static inline int64_t item_of(const gop_task *task)
{
#define X(enumerator, word, bytes) bytes,
    static const int64_t bytes_of[] = {GOP_DTYPES(X)};
#undef X
    return bytes_of[task->in[0].dtype];
}

/* Whether from the first element to the last it is more than two thirds of the cache. */
static inline bool takes_turns(const gop_ctx *ctx, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    int64_t far = 1;
    for (int d = 0; d < g.kept + g.reduced; d++)
        far += gop_magnitude(g.in[d]) * (g.extent[d] - 1);
    return far * item_of(task) > ctx->info.l2 / 3 * 2;
}

/* For the launch of a long one: all kernels of a thread take turns. */
inline int reduce_from_end(void)
{
    static __thread unsigned calls;
    return ++calls % 2;
}

GOP_DEVICE unsigned block_of_turn(int from_end)
{
    return from_end ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
}

#endif
