/*
 * threaded.c - the streaming kernel's tiles and rows on all cores.
 *
 * One core cannot keep enough loads in flight to saturate memory. Rows are assigned by whole
 * pages of the output, so that no two threads zero the same page of fresh memory. A tile
 * touches many pages, so these are populated before.
 */
#ifdef D

static gop_status FN(transpose_threaded)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return threaded(task, FN(line), FN(turned));
}

#else
#include "cpu/transpose/lines.h"

/* Runs pieces on threads. If the work takes milliseconds, sleeping threads are woken at once.
 */
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
    LEAST_PIECE = 1 << 16,  /* bytes of rows that are worth a thread */
    LEAST_TURNED = 3 << 20, /* bytes of tiles: threads share cache lines */
    MOVED = 8,              /* bytes whose copy takes as long as transposing an element */
};

/* Chooses the number of threads and the size of a piece. Each thread gets several pieces on
 * average, so that a late thread takes fewer. */
static void share_out(const gop_task *task, int64_t threads, tiling *t)
{
    const int64_t size = task->geometry.permutation.size;
    const int turns = t->tiled || t->blocks.count;
    const int64_t weight = t->item + (turns ? MOVED : 0);
    const int64_t least = turns ? LEAST_TURNED : 2 * LEAST_PIECE;
    t->workers = size * weight < least ? 1 : (int)threads;
    t->piece = gop_smaller(LEAST_PIECE / weight + size / (16 * threads), GOP_HEAR);
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
