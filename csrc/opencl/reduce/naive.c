/*
 * naive.c - the row of naive.cl.
 */
#include "opencl/reduce/lecture.h"

static gop_status reduce_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_lecture_run(ctx, task, "reduce/naive", "reduce_naive_kernel");
}

static gop_status reduce_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    plan->launch = reduce_naive;
    return gop_cl_lecture_plan(ctx, task, 2, INT64_MAX, plan);
}

extern const gop_row reduce_naive_row;
const gop_row reduce_naive_row = {
    .name = "naive",
    .note = "neighbours in pairs, a launch a level: every level goes through global "
            "memory",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "opencl",
    .tunables = {GOP_CL_GROUP},
    .plan = reduce_naive_plan,
    .dtypes = LECTURE_DTYPES,
};
