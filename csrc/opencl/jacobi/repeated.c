/*
 * repeated.c - jacobi by the best steps that take the system.
 */
#include "opencl/jacobi/solve.h"

static gop_status jacobi_repeated(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_solve(ctx, task);
}

static gop_status jacobi_repeated_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    plan->launch = jacobi_repeated;
    return gop_cl_solve_plan(ctx, task, NULL, plan);
}

extern const gop_row jacobi_repeated_row;
const gop_row jacobi_repeated_row = {
    .name = "repeated",
    .note = "the best steps that take the system, on the device; the host judges a few numbers "
            "at each check",
    .role = GOP_CONFORMING,
    .plan = jacobi_repeated_plan,
    .dtypes = SOLVE_DTYPES,
};
