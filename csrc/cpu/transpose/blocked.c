/*
 * blocked.c - transpose tile by tile, one element at a time.
 *
 * A tile fits in the L1 cache: the cache lines that it touches on its strided side stay there
 * until all their elements are used.
 */
#ifdef D /* an item of u8 u16 u32 u64 u128 */

/* Transposes a tile element by element: reads and writes stay within cached lines. */
static void FN(tile)(const tiling *t, const tile *at)
{
    T *restrict const to = at->to;
    const T *restrict const from = at->from;
    for (int64_t x = 0; x < at->nx; x++)
        for (int64_t y = 0; y < at->ny; y++)
            to[at->out_x[x] + y * t->y.near] = from[x * t->x.near + at->in_y[y]];
}

static gop_status FN(transpose_blocked)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return alone(task, FN(line), FN(tile));
}

#else
#include "cpu/transpose/lines.h"

#define GOP_TPL "cpu/transpose/blocked.c"
#include "cpu/transpose/each_item.inc"

static const gop_row transpose_blocked_row = {
    .name = "blocked",
    .note = "tile by tile: the lines of a tile stay in the first-level cache until they are "
            "used up",
    .role = GOP_CONFORMING,
    .launch = BY_SIZE(transpose_blocked),
    .plan = plan_alone,
};

#endif
