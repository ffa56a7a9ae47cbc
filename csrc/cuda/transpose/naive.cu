/*
 * naive.cu - transpose, one item a thread in the output's order.
 *
 * Neighbouring threads write neighbours, so writes coalesce. What they read lies far apart:
 * each read is a memory transaction of its own, but one that the caches may still answer.
 */
#include "cuda/transpose/order.h"

template <typename T, typename I>
static gop_status transpose_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return launch_in_order<T, I>(ctx, task, task->geometry.permutation);
}

static gop_status transpose_naive_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    plan->launch = TRANSPOSE_IN_ORDER(task, transpose_naive);
    return GOP_OK;
}

extern const gop_row transpose_naive_row = {
    .name = "naive",
    .note = "one element a thread in the output's order: writes coalesce, reads at least are "
            "cached",
    .role = GOP_CONFORMING,
    .lecture = TRANSPOSE_LECTURE,
    .plan = transpose_naive_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
