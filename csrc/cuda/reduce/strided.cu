/*
 * strided.cu - reduce: the threads that work are the first ones.
 *
 * No warp runs for a few threads any more. But thread t now reads word 2*d*t: with d = 16 all
 * threads of a warp read from one bank, a 32-way conflict.
 */
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_strided_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + t;
    sum[t] = i < n ? R(a[i]) : R(0);
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        const int at = 2 * d * t;
        if (at < blockDim.x) sum[at] += sum[at + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T>
static gop_status reduce_strided(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_strided_kernel<T, R>), (reduce_strided_kernel<R, R>), BLOCK);
}

static gop_status reduce_strided_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, BLOCK, GRID_LIMIT, plan);
}

extern const gop_row reduce_strided_row = {
    .name = "strided",
    .note = "the first threads work: whole warps retire, but their words lie in one bank",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "parallel reduction",
    .launch = GOP_LAUNCH_TEACHING(reduce_strided),
    .plan = reduce_strided_plan,
};
