/*
 * chained.cu - jacobi, its norms by all of the device.
 *
 * A warp per leaf sums the squares of the residual; a block per column folds them to the norm
 * and checks it. So a norm costs what reading the residual costs.
 */
#define GOP_JACOBI_CHAINED
#include "cuda/jacobi/chain.h"

JACOBI_CHAINED()

template <typename T>
static gop_status jacobi_chained(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return jacobi_chain<T, 0>(ctx, task);
}

static gop_status jacobi_chained_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return jacobi_chain_plan(ctx, task, nullptr, plan);
}

extern const gop_row jacobi_chained_row = {
    .name = "chained",
    .note = "the best steps, norms by a warp per leaf: all of the device reads the residual",
    .role = GOP_CONFORMING,
    .launch = JACOBI_LAUNCHES(jacobi_chained),
    .plan = jacobi_chained_plan,
};
