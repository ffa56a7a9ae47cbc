/*
 * padded.c - the row of padded.cl.
 */
#include "opencl/transpose/plane.h"

static gop_status transpose_padded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_transpose_grouped(ctx, task, "transpose/padded", "transpose_padded_kernel",
                                    task->tune[0], task->tune[1]);
}

static gop_status transpose_padded_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    plan->launch = transpose_padded;
    return gop_cl_transpose_grouped_plan(ctx, task, "padded", 1, plan);
}

extern const gop_row transpose_padded_row;
const gop_row transpose_padded_row = {
    .name = "padded",
    .note = "one word more per row of the tile: a column lies in different banks",
    .role = GOP_CONFORMING,
    .lecture = "opencl",
    .tunables = {TRANSPOSE_SIDES, TRANSPOSE_ROWS},
    .plan = transpose_padded_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
