/*
 * sequential.c - the row of sequential.cl.
 */
#include "opencl/reduce/lecture.h"

static gop_status reduce_sequential(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_lecture_run(ctx, task, "reduce/sequential", "reduce_sequential_kernel");
}

static gop_status reduce_sequential_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    plan->launch = reduce_sequential;
    return gop_cl_lecture_plan(ctx, task, 0, INT64_MAX, plan);
}

extern const gop_row reduce_sequential_row;
const gop_row reduce_sequential_row = {
    .name = "sequential",
    .note = "the words that are added are neighbours: every bank answers once",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "opencl",
    .tunables = {GOP_CL_GROUP},
    .plan = reduce_sequential_plan,
    .dtypes = LECTURE_DTYPES,
};
