/*
 * loaded.cu - reduce: the first addition happens while loading.
 *
 * Half of the threads only loaded. Now every thread adds two elements on the way into shared
 * memory: half the blocks, and two loads in flight instead of one.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_loaded_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (2 * (int64_t)blockDim.x) + t;
    sum[t] = load_two<T, R>(a, n, i, blockDim.x);
    __syncthreads();
    fold_sequential(sum, t, 0);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T>
static gop_status reduce_loaded(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_loaded_kernel<T, R>), (reduce_loaded_kernel<R, R>), BLOCK);
}

static gop_status reduce_loaded_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, 2 * BLOCK, GRID_LIMIT, plan);
}

extern const gop_row reduce_loaded_row = {
    .name = "loaded",
    .note = "the first addition while loading: half the blocks, two loads under way a thread",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "parallel reduction",
    .launch = GOP_LAUNCH_TEACHING(reduce_loaded),
    .plan = reduce_loaded_plan,
};
