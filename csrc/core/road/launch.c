/*
 * launch.c - a task whose arrays are on the device and whose kernel is chosen: its scratch
 * memory, and its launches one after the other.
 */
#include "core/road/road.h"

gop_status gop_acquire_scratch(gop_ctx *ctx, gop_task *task, const gop_row **row,
                               gop_plan *plan, int in_order, int may_change)
{
    task->scratch = NULL;
    for (;;) {
        /* A call without results runs no kernel. */
        if (plan->scratch == 0 || gop_array_size(&task->out[0]) == 0) return GOP_OK;
        const gop_status status =
            gop_scratch_take(ctx, plan->scratch, in_order, &task->scratch);
        if (!gop_lacks_memory(status) || !may_change) return status;
        if (gop_choose_before(ctx, task, row, plan) != GOP_OK) return status;
    }
}

gop_status gop_launch_steps(gop_ctx *ctx, const gop_task *task)
{
    const gop_plan *const plan = task->plan;
    if (gop_array_size(&task->out[0]) == 0) return GOP_OK; /* a kernel never sees such a call */
    for (int64_t s = 0; s < plan->steps; s++) {
        GOP_TRY(plan->launch(ctx, task, s));
        if (plan->steps > 1) GOP_TRY(ctx->backend->sync(ctx)); /* so that Ctrl-C is heard */
    }
    return GOP_OK;
}
