/*
 * cascaded.cu - reduce: many elements a thread.
 *
 * A grid of one wave strides over the array: a thread adds many elements in a register first,
 * so that the log n steps across threads are paid once for all of them.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_cascaded_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    R mine = 0;
#pragma unroll 1
    for (int64_t i = blockIdx.x * (int64_t)(2 * BLOCK) + t; i < n;
         i += gridDim.x * (int64_t)(2 * BLOCK))
        mine += load_two<T, R>(a, n, i, BLOCK);
    sum[t] = mine;
    __syncthreads();
    fold_complete<BLOCK>(sum, t);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T>
static gop_status reduce_cascaded(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_cascaded_kernel<T, R>), (reduce_cascaded_kernel<R, R>), BLOCK);
}

static gop_status reduce_cascaded_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    /* A thread adds about 16 elements, or more if the blocks then would not all be resident. */
    return lecture_plan(task, 16 * BLOCK, resident_blocks(ctx, BLOCK), plan);
}

extern const gop_row reduce_cascaded_row = {
    .name = "cascaded",
    .note = "a grid that fits the device: a thread adds many elements before a block meets",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "parallel reduction",
    .launch = GOP_LAUNCH_TEACHING(reduce_cascaded),
    .plan = reduce_cascaded_plan,
};
