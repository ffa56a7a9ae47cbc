/*
 * naive.cu - jacobi by steps of a warp per row, the norm of a column by one block.
 *
 * While that block reads the residual, the rest of the device is idle.
 */
#include "cuda/jacobi/chain.h"

template <typename T>
static gop_status jacobi_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return jacobi_chain<T, 1>(ctx, task);
}

static gop_status jacobi_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return jacobi_chain_plan(ctx, task, "warp", plan);
}

extern const gop_row jacobi_naive_row = {
    .name = "naive",
    .note = "steps of a warp per row, and after each one block sums the residual's squares",
    .role = GOP_CONFORMING,
    .lecture = "simple iteration",
    .launch = JACOBI_LAUNCHES(jacobi_naive),
    .plan = jacobi_naive_plan,
};
