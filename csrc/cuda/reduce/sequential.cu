/*
 * sequential.cu - reduce: threads add neighbouring words.
 *
 * The second half is added to the first: whole warps retire, and there are no bank conflicts.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_sequential_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + t;
    sum[t] = i < n ? R(a[i]) : R(0);
    __syncthreads();
    fold_sequential(sum, t, 0);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T>
static gop_status reduce_sequential(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_sequential_kernel<T, R>), (reduce_sequential_kernel<R, R>), BLOCK);
}

static gop_status reduce_sequential_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, BLOCK, GRID_LIMIT, plan);
}

extern const gop_row reduce_sequential_row = {
    .name = "sequential",
    .note = "the words that are added are neighbours: every bank answers once",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "parallel reduction",
    .launch = GOP_LAUNCH_TEACHING(reduce_sequential),
    .plan = reduce_sequential_plan,
};
