/*
 * threaded.c - jacobi with the step kernel that jacobi_step chooses, on all threads.
 */
#include "cpu/jacobi/solve.h"

static gop_status jacobi_threaded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return solve(ctx, task);
}

static gop_status jacobi_threaded_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return solve_plan(ctx, task, NULL, plan);
}

static const gop_row jacobi_threaded_row = {
    .name = "threaded",
    .note = "the best steps that take the system: one core cannot draw all that the memory "
            "gives",
    .role = GOP_CONFORMING,
    .launch = SOLVE_LAUNCHES(jacobi_threaded),
    .plan = jacobi_threaded_plan,
};
