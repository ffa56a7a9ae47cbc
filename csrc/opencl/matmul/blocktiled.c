/*
 * blocktiled.c - the row of blocktiled.cl.
 */
#include "opencl/matmul/product.h"

#include <stdio.h>

enum { DEPTH = 8, ACROSS = 16 };

static gop_status matmul_blocktiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return gop_cl_matmul_run(ctx, task, step, "matmul/blocktiled", "matmul_blocktiled_kernel",
                             1);
}

/* Of 16 x 16 work-items; sums of 8 and 16 bytes are half as many a side. */
static gop_status matmul_blocktiled_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    enum { SLOWER = 8 }; /* than the best kernel on CPUs, cautiously */
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    const gop_dtype dtype = task->in[0].dtype;
    const int parts = gop_cl_matmul_parts(dtype);
    const int64_t bytes = gop_cl_matmul_sum(dtype) * parts;
    const int down = (int)task->tune[1];
    const int columns = bytes > 4 ? 4 : (int)task->tune[0];
    const int rows = bytes > 8 ? 4 : (int)task->tune[0];
    const int height = rows * down, width = columns * ACROSS;
    const int64_t local = DEPTH * (height + width + 2) * bytes;
    char more[128];
    if (down * ACROSS > gop_cl_most_in_group(ctx) || local > ctx->info.shared_per_block)
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'blocktiled' takes work-groups of %d work-items and %lld "
            "bytes of local memory here, but %s has at most %lld and %lld",
            down * ACROSS, (long long)local, gop_cl_device_name(ctx),
            (long long)gop_cl_most_in_group(ctx), (long long)ctx->info.shared_per_block);
    plan->launch = matmul_blocktiled;
    own->group = down * ACROSS;
    own->down = height;
    own->across = width;
    snprintf(more, sizeof more, " -DROWS=%d -DCOLUMNS=%d -DDOWN=%d -DACROSS=%d -DDEPTH=%d",
             rows, columns, down, ACROSS, DEPTH);
    return gop_cl_matmul_plan(ctx, task, "blocktiled", parts, gop_cl_matmul_work(ctx, SLOWER),
                              more, plan);
}

extern const gop_row matmul_blocktiled_row;
const gop_row matmul_blocktiled_row = {
    .name = "blocktiled",
    .note =
        "a work-item keeps 8 x 8 outputs in private memory: 16 numbers from local memory feed "
        "64 multiply-adds, and the next tile is on its way meanwhile",
    .role = GOP_CONFORMING,
    .tunables = {{"side", 2, {8, 4}}, {"rows", 2, {16, 8}}},
    .plan = matmul_blocktiled_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
