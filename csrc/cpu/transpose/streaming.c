/*
 * streaming.c - the simd kernel with streaming stores for large outputs.
 *
 * A plain store first reads from memory the cache line that it overwrites: three transfers
 * instead of two. A streaming store of whole lines does not.
 */
#ifdef D

static gop_status FN(transpose_streaming)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return alone(task, FN(line), FN(turned));
}

#else
#include "cpu/transpose/lines.h"

#define GOP_TPL "cpu/transpose/streaming.c"
#include "cpu/transpose/each_item.inc"

static gop_status transpose_streaming_plan(const gop_ctx *ctx, const gop_task *task,
                                           gop_plan *plan)
{
    (void)ctx;
    plan_tiles(task, 1, 1, plan);
    return GOP_OK;
}

static const gop_row transpose_streaming_row = {
    .name = "streaming",
    .note = "large outputs past the caches: a plain store would first read the line that "
            "it overwrites",
    .role = GOP_CONFORMING,
    .launch = BY_SIZE(transpose_streaming),
    .plan = transpose_streaming_plan,
};

#endif
