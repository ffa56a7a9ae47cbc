/*
 * tiled.c - the row of tiled.cl.
 */
#include "opencl/transpose/plane.h"

static gop_status transpose_tiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_transpose_grouped(ctx, task, "transpose/tiled", "transpose_tiled_kernel",
                                    task->tune[0], task->tune[1]);
}

static gop_status transpose_tiled_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    plan->launch = transpose_tiled;
    return gop_cl_transpose_grouped_plan(ctx, task, "tiled", 0, plan);
}

extern const gop_row transpose_tiled_row;
const gop_row transpose_tiled_row = {
    .name = "tiled",
    .note = "a tile through local memory: both sides have neighbours, but a column is one bank",
    .role = GOP_CONFORMING,
    .lecture = "opencl",
    .tunables = {TRANSPOSE_SIDES, TRANSPOSE_ROWS},
    .plan = transpose_tiled_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
