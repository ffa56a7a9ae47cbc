/*
 * complete.cu - reduce: the compiler knows the size of the block.
 *
 * The number of threads is a template argument, so the loop is unrolled into its additions: no
 * counter, no comparison, no jump.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R, int THREADS>
__global__ void reduce_complete_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[THREADS];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)(2 * THREADS) + t;
    sum[t] = load_two<T, R>(a, n, i, THREADS);
    __syncthreads();
    fold_complete<THREADS>(sum, t);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T, int THREADS>
static gop_status reduce_complete(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_complete_kernel<T, R, THREADS>),
                   (reduce_complete_kernel<R, R, THREADS>), THREADS);
}

template <typename T> static gop_launch complete_of(int64_t threads)
{
    return threads == 64    ? reduce_complete<T, 64>
           : threads == 128 ? reduce_complete<T, 128>
           : threads == 256 ? reduce_complete<T, 256>
                            : reduce_complete<T, 512>;
}

static gop_status reduce_complete_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    plan->launch = LECTURE_OF_DTYPE(task, complete_of)(task->tune[0]);
    return lecture_plan(task, 2 * (int)task->tune[0], GRID_LIMIT, plan);
}

extern const gop_row reduce_complete_row = {
    .name = "complete",
    .note = "the size of the block is a template argument: no loop is left, only additions",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "parallel reduction",
    .tunables = {{"threads", 4, {256, 64, 128, 512}}},
    .plan = reduce_complete_plan,
    .dtypes = LECTURE_DTYPES,
};
