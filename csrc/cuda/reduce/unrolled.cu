/*
 * unrolled.cu - reduce: the last warp needs no barrier of the block.
 *
 * In the lecture as printed, warps ran in lockstep and needed no barrier. With independent
 * thread scheduling, all must have read before any writes, and have written before any reads:
 * two __syncwarp, which cost a few cycles.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_unrolled_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (2 * (int64_t)blockDim.x) + t;
    sum[t] = load_two<T, R>(a, n, i, blockDim.x);
    __syncthreads();
    fold_sequential(sum, t, 32);
    if (t < 32) fold_last_warp(sum, t);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T>
static gop_status reduce_unrolled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_unrolled_kernel<T, R>), (reduce_unrolled_kernel<R, R>), BLOCK);
}

static gop_status reduce_unrolled_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, 2 * BLOCK, GRID_LIMIT, plan);
}

extern const gop_row reduce_unrolled_row = {
    .name = "unrolled",
    .note = "the last warp meets by itself: six barriers of the block less",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "parallel reduction",
    .launch = GOP_LAUNCH_TEACHING(reduce_unrolled),
    .plan = reduce_unrolled_plan,
};
