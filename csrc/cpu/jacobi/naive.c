/*
 * naive.c - jacobi with the naive step: row by row, term by term.
 */
#include "cpu/jacobi/solve.h"

static gop_status jacobi_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return solve(ctx, task);
}

static gop_status jacobi_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return solve_plan(ctx, task, "naive", plan);
}

static const gop_row jacobi_naive_row = {
    .name = "naive",
    .note = "the naive steps, one row after the other, and a norm after each",
    .role = GOP_CONFORMING,
    .lecture = "simple iteration",
    .launch = SOLVE_LAUNCHES(jacobi_naive),
    .plan = jacobi_naive_plan,
};
