/*
 * interleaved.c - the row of interleaved.cl.
 */
#include "opencl/reduce/lecture.h"

static gop_status reduce_interleaved(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_lecture_run(ctx, task, "reduce/interleaved", "reduce_interleaved_kernel");
}

static gop_status reduce_interleaved_plan(const gop_ctx *ctx, const gop_task *task,
                                          gop_plan *plan)
{
    plan->launch = reduce_interleaved;
    return gop_cl_lecture_plan(ctx, task, 0, INT64_MAX, plan);
}

extern const gop_row reduce_interleaved_row;
const gop_row reduce_interleaved_row = {
    .name = "interleaved",
    .note = "a work-group meets in local memory: many levels a launch, but a GPU runs "
            "on for a few work-items",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "opencl",
    .tunables = {GOP_CL_GROUP},
    .plan = reduce_interleaved_plan,
    .dtypes = LECTURE_DTYPES,
};
