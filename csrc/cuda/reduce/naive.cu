/*
 * naive.cu - reduce: neighbours in pairs, a launch per level.
 *
 * The sum is a tournament. Every level goes through global memory and waits for a launch.
 */
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_naive_kernel(const T *a, int64_t n, R *out)
{
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (2 * i + 1 < n) out[i] = R(a[2 * i]) + R(a[2 * i + 1]);
    else if (2 * i < n) out[i] = R(a[2 * i]);
}

template <typename T>
static gop_status reduce_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef lecture_sum_t<T> R;
    lecture_level<R> l = lecture_first<R>(task);
    GOP_TRY(GOP_LAUNCH(ctx, (reduce_naive_kernel<T, R>),
                       dim3((unsigned)blocks_for(l.left, BLOCK)), dim3(BLOCK), 0,
                       lecture_input<T>(task), l.n, l.to));
    while (lecture_next(&l))
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_naive_kernel<R, R>),
                           dim3((unsigned)blocks_for(l.left, BLOCK)), dim3(BLOCK), 0, l.from,
                           l.n, l.to));
    return GOP_OK;
}

static gop_status reduce_naive_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, 2, INT64_MAX, plan);
}

extern const gop_row reduce_naive_row = {
    .name = "naive",
    .note = "neighbours in pairs, a launch per level: every level goes through global memory",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "parallel reduction",
    .launch = GOP_LAUNCH_TEACHING(reduce_naive),
    .plan = reduce_naive_plan,
};
