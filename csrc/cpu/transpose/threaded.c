/*
 * threaded.c - the streaming kernel's tiles and lines, dealt to all cores.
 *
 * One core cannot keep enough loads in flight to fill the memory bus. Lines are dealt by whole
 * pages of the output, so that no two threads clear the same page of fresh memory. A tile
 * touches many pages: they are cleared before.
 */
#ifdef D

static gop_status FN(transpose_threaded)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return threaded(task, FN(line), FN(turned));
}

#else
#include "cpu/transpose/lines.h"

static gop_status threaded(const gop_task *task, line_fn line, tile_fn copy)
{
    const tiling *const t = GOP_OWN(const tiling, task->plan);
    const int64_t bytes = gop_array_bytes(&task->out[0]);
    const int fresh = gop_is_fresh(task->out[0].data, bytes);
    if (t->tiled) {
        tiles call = tiles_of(task, copy);
        if (fresh) GOP_TRY(gop_populate(task->out[0].data, bytes));
        return gop_parallel_by(t->workers, call.count, 1 + HEAR / (t->x.tile * t->y.tile),
                               walk_tiles, &call);
    }
    lines l = lines_of(task, line);
    l.stream = t->stream && !fresh;
    if (t->blocks.count) {
        const int64_t size = t->blocks.rows * t->blocks.within;
        const int64_t piece = bytes < HUGE_FROM ? HEAR : HUGE_PAGE / t->item;
        return gop_parallel(t->blocks.count, 1 + piece / size, walk_blocks, &l);
    }
    return gop_parallel(l.p->size, bytes < HUGE_FROM ? HEAR : HUGE_PAGE / t->item, walk_lines,
                        &l);
}

#define GOP_TPL "cpu/transpose/threaded.c"
#include "cpu/transpose/each_item.inc"

/* Threads, and no more than there are pieces. */
static gop_status transpose_threaded_plan(const gop_ctx *ctx, const gop_task *task,
                                          gop_plan *plan)
{
    const int64_t pieces = task->geometry.permutation.size / HEAR + 1;
    plan_tiles(task, (int)gop_smaller(pieces, ctx->info.processors), 1, plan);
    return GOP_OK;
}

static const gop_row transpose_threaded_row = {
    .name = "threaded",
    .note = "tiles dealt to all cores: one core alone cannot fill the memory bus",
    .role = GOP_CONFORMING,
    .launch = BY_SIZE(transpose_threaded),
    .plan = transpose_threaded_plan,
};

#endif
