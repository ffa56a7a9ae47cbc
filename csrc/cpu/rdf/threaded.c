/*
 * threaded.c - the simd kernel on all cores: threads take pairs of tiles.
 *
 * Each thread has a slot with its own histogram, so that no increment waits for another core.
 * The integers are added at the end, in any order.
 */
#include "cpu/rdf/tiles.h"

static gop_status rdf_threaded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return count_all(task);
}

static gop_status rdf_threaded_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return plan_tiles(task, ctx->info.processors, plan);
}

static const gop_row rdf_threaded_row = {
    .name = "threaded",
    .note = "all cores take pairs of tiles, each with a histogram of its own",
    .role = GOP_CONFORMING,
    .launch = {[GOP_FLOAT32] = rdf_threaded, [GOP_FLOAT64] = rdf_threaded},
    .plan = rdf_threaded_plan,
};
