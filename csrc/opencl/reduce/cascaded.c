/*
 * cascaded.c - the row of cascaded.cl.
 */
#include "opencl/reduce/lecture.h"

static gop_status reduce_cascaded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_lecture_run(ctx, task, "reduce/cascaded", "reduce_cascaded_kernel");
}

static gop_status reduce_cascaded_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    plan->launch = reduce_cascaded;
    return gop_cl_lecture_plan(ctx, task, 4096, gop_cl_lecture_resident(ctx), plan);
}

extern const gop_row reduce_cascaded_row;
const gop_row reduce_cascaded_row = {
    .name = "cascaded",
    .note = "a grid that fits the device: a work-item adds many numbers before a group "
            "meets",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "opencl",
    .tunables = {GOP_CL_GROUP},
    .plan = reduce_cascaded_plan,
    .dtypes = LECTURE_DTYPES,
};
