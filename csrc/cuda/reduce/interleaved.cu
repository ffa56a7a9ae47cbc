/*
 * interleaved.cu - reduce: a block folds in shared memory.
 *
 * A launch does eight levels. The threads that still work are 2, 4, 8, .. apart: every warp
 * keeps running with most of its threads idle.
 */
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_interleaved_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + t;
    sum[t] = i < n ? R(a[i]) : R(0);
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        if (t % (2 * d) == 0) sum[t] += sum[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T>
static gop_status reduce_interleaved(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_interleaved_kernel<T, R>), (reduce_interleaved_kernel<R, R>), BLOCK);
}

static gop_status reduce_interleaved_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, BLOCK, GRID_LIMIT, plan);
}

extern const gop_row reduce_interleaved_row = {
    .name = "interleaved",
    .note = "a block meets in shared memory: eight levels a launch, but warps run for a few of "
            "their threads",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "parallel reduction",
    .launch = GOP_LAUNCH_TEACHING(reduce_interleaved),
    .plan = reduce_interleaved_plan,
};
