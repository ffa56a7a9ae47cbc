/*
 * atomic.cu - reduce: blocks add to one number.
 *
 * There is no second pass over partial sums: each block adds its own to the result atomically.
 * The blocks finish in any order, so the last bits may change from run to run.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

GOP_DEVICE void atomic_add(float *sum, float value)
{
    atomicAdd(sum, value);
}
GOP_DEVICE void atomic_add(double *sum, double value)
{
    atomicAdd(sum, value);
}
GOP_DEVICE void atomic_add(int64_t *sum, int64_t value)
{
    atomicAdd(reinterpret_cast<unsigned long long *>(sum), (unsigned long long)value);
}

template <typename T, typename R>
__global__ void reduce_atomic_kernel(const T *a, int64_t n, R *out)
{
    const R sum = fold_block(add_own_wide<R>(a, n));
    if (threadIdx.x == 0) atomic_add(out, sum);
}

template <typename T>
static gop_status reduce_atomic(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef lecture_sum_t<T> R;
    const lecture_level<R> l = lecture_first<R>(task);
    GOP_TRY(GOP_LAUNCH(ctx, reduce_atomic_clear_kernel<R>, dim3(1), dim3(1), 0, l.out));
    return GOP_LAUNCH(ctx, (reduce_atomic_kernel<T, R>), dim3((unsigned)l.left), dim3(BLOCK), 0,
                      lecture_input<T>(task), l.n, l.out);
}

static gop_status reduce_atomic_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, 16 * BLOCK, resident_blocks(ctx, BLOCK), plan);
}

extern const gop_row reduce_atomic_row = {
    .name = "atomic",
    .note = "blocks add to one number in the L2 cache: no second pass",
    .role = GOP_TEACHING,
    .caveat = LECTURE_NO_ORDER,
    .launch = GOP_LAUNCH_TEACHING(reduce_atomic),
    .plan = reduce_atomic_plan,
};
