/*
 * naive.c - jacobi by steps of one kernel, whatever the system.
 */
#include "opencl/jacobi/solve.h"

static gop_status jacobi_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_solve(ctx, task);
}

static gop_status jacobi_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    plan->launch = jacobi_naive;
    return gop_cl_solve_plan(ctx, task, "group", plan);
}

extern const gop_row jacobi_naive_row;
const gop_row jacobi_naive_row = {
    .name = "naive",
    .note = "the steps of a work-group per row, and a norm after each",
    .role = GOP_CONFORMING,
    .lecture = "simple iteration",
    .plan = jacobi_naive_plan,
    .dtypes = SOLVE_DTYPES,
};
