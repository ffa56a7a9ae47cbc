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

/* Pieces to threads: those that sleep are woken at once where it takes milliseconds. */
static gop_status by_threads(const tiling *t, int64_t bytes, int64_t items, int64_t grain,
                             gop_body body, void *argument)
{
    if (bytes >= HUGE_FROM) return gop_parallel_by(t->workers, items, grain, body, argument);
    return gop_parallel_brief(t->workers, items, grain, body, argument);
}

static gop_status threaded(const gop_task *task, line_fn line, tile_fn copy)
{
    const tiling *const t = GOP_OWN(const tiling, task->plan);
    if (t->one) {
        copy_one(task, copy);
        return GOP_OK;
    }
    const int64_t bytes = gop_array_bytes(&task->out[0]);
    const int fresh = gop_is_fresh(task->out[0].data, bytes);
    if (t->tiled) {
        tiles call = tiles_of(task, copy);
        split(&call);
        if (fresh) GOP_TRY(gop_populate(task->out[0].data, bytes));
        return by_threads(t, bytes, call.count, 1 + t->piece / (t->x.tile * t->y.tile),
                          walk_tiles, &call);
    }
    lines l = lines_of(task, line);
    l.stream = t->stream && !fresh;
    const int64_t piece = bytes < HUGE_FROM ? t->piece : HUGE_PAGE / t->item;
    if (t->blocks.count)
        return by_threads(t, bytes, t->blocks.count,
                          1 + piece / (t->blocks.rows * t->blocks.within), walk_blocks, &l);
    return by_threads(t, bytes, l.p->size, piece, walk_lines, &l);
}

#define GOP_TPL "cpu/transpose/threaded.c"
#include "cpu/transpose/each_item.inc"

enum {
    LEAST_PIECE = 1 << 16,  /* bytes of lines that are worth handing to a thread */
    LEAST_TURNED = 3 << 20, /* of what is turned: threads write parts of the same cache lines */
    MOVED = 8,              /* bytes that take as long to copy as an element does to turn */
};

/* How many threads, and pieces: several for each, so that one that comes late takes fewer. */
static void share_out(const gop_task *task, int64_t threads, tiling *t)
{
    const int64_t size = task->geometry.permutation.size;
    const int turns = t->tiled || t->blocks.count;
    const int64_t weight = t->item + (turns ? MOVED : 0);
    const int64_t least = turns ? LEAST_TURNED : 2 * LEAST_PIECE;
    t->workers = size * weight < least ? 1 : (int)threads;
    t->piece = gop_smaller(LEAST_PIECE / weight + size / (16 * threads), HEAR);
}

static gop_status transpose_threaded_plan(const gop_ctx *ctx, const gop_task *task,
                                          gop_plan *plan)
{
    tiling *const t = GOP_OWN(tiling, plan);
    plan_tiles(task, ctx->info.processors, 1, plan);
    share_out(task, ctx->info.processors, t);
    if (t->tiled) plan->scratch = t->one ? 0 : (size_t)t->workers * sizeof(room);
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
