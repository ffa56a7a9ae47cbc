/*
 * threaded.c - the simd kernel on all threads: each packs and multiplies its own tiles.
 *
 * Threads share nothing, so the bits do not depend on their number.
 */
#include "cpu/matmul/tiles.h"

static gop_status matmul_threaded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return product_run(task);
}

static gop_status matmul_threaded_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return plan_product(task, &PACKINGS[task->out[0].dtype], ctx->info.processors, plan);
}

static const gop_row matmul_threaded_row = {
    .name = "threaded",
    .note = "each thread packs and multiplies its own tiles of the output; nothing is "
            "shared, so the bits do not depend on how many threads there are",
    .role = GOP_CONFORMING,
    .launch = GOP_FN_EVERY(matmul_threaded),
    .plan = matmul_threaded_plan,
};
