/*
 * group.c - the row of group.cl.
 */
#include "opencl/jacobi_step/system.h"

#include <stdio.h>

static gop_status jacobi_step_group(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return gop_cl_step_run(ctx, task, step, "jacobi_step/group", "jacobi_step_group_kernel");
}

static gop_status jacobi_step_group_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    gop_cl_step *const own = GOP_OWN_OF_STEP(gop_cl_step, plan);
    char more[32];
    if (task->call->params.jacobi_step.grid.axes)
        return gop_fail(GOP_REFUSED,
                        "jacobi_step: kernel 'group' takes a matrix, got a stencil; "
                        "kernel 'rows' takes those");
    own->group = gop_cl_group(ctx, (int)task->tune[0]);
    own->each = own->together = 1;
    snprintf(more, sizeof more, " -DGROUP=%d", own->group);
    GOP_TRY(gop_cl_step_plan(ctx, task, more, plan));
    plan->launch = jacobi_step_group;
    return GOP_OK;
}

extern const gop_row jacobi_step_group_row;
const gop_row jacobi_step_group_row = {
    .name = "group",
    .note = "a work-group per row, which reads neighbours, and folds its lanes in local memory",
    .role = GOP_CONFORMING,
    .tunables = {{"group", 3, {64, 32, 128}}},
    .plan = jacobi_step_group_plan,
    .dtypes = JACOBI_DTYPES,
};
