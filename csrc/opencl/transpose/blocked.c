/*
 * blocked.c - the row of blocked.cl.
 */
#include "opencl/transpose/plane.h"

#include <stdio.h>

enum {
    LINE = 64, /* bytes of a line of the caches */
    SIDE_Y = 256,
    CHUNKS_PER_UNIT = 16, /* so that a processor that comes late takes fewer */
};

/* Items of a block that is turned in registers; 1: each by itself. */
static int lanes_of(int64_t item)
{
    return item == 16 ? 1 : item == 8 ? 4 : item == 1 ? 16 : 8;
}

static gop_status transpose_blocked(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_tiling *const t = GOP_OWN(const gop_cl_tiling, task->plan);
    gop_cl_launch launch = {
        .source = "transpose/blocked",
        .kernel = "transpose_blocked_kernel",
        .options = t->options,
        .values = 3,
        .value = {{sizeof t->plane, &t->plane},
                  {sizeof t->batch, &t->batch},
                  {sizeof t->chunk, &t->chunk}},
        .dimensions = 1,
        .global = {(size_t)((t->plane.tiles + t->chunk - 1) / t->chunk)},
        .local = {1},
    };
    (void)step;
    gop_cl_transpose_operands(task, &launch);
    return gop_cl_run(ctx, &launch);
}

static gop_status transpose_blocked_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    static const char *const words[] = {"uchar", "ushort", "uint", "ulong", "ulong2"};
    gop_cl_tiling *const t = GOP_OWN(gop_cl_tiling, plan);
    const int64_t item = gop_cl_item(task->in[0].dtype);
    const int64_t wanted = (int64_t)ctx->info.processors * CHUNKS_PER_UNIT;
    const int side_x = (int)(LINE / item);
    char more[128];
    GOP_TRY(gop_cl_transpose_tiles("blocked", task, side_x, SIDE_Y, t));
    t->chunk = (t->plane.tiles + wanted - 1) / wanted;
    snprintf(more, sizeof more, " -DBASE=%s -DLANES=%d -DSIDE_X=%d -DSIDE_Y=%d",
             words[__builtin_ctz((unsigned)item)], lanes_of(item), side_x, SIDE_Y);
    gop_cl_transpose_options(task, more, t->options);
    plan->launch = transpose_blocked;
    return GOP_OK;
}

extern const gop_row transpose_blocked_row;
const gop_row transpose_blocked_row = {
    .name = "blocked",
    .note = "tiles a work-item without local memory, blocks turned in a CPU's registers: each "
            "line of the caches is used up while it is there",
    .role = GOP_CONFORMING,
    .plan = transpose_blocked_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
