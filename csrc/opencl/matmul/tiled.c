/*
 * tiled.c - the row of tiled.cl.
 */
#include "opencl/matmul/product.h"

#include <stdio.h>

static gop_status matmul_tiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return gop_cl_matmul_run(ctx, task, step, "matmul/tiled", "matmul_tiled_kernel", 2);
}

static gop_status matmul_tiled_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { SLOWER = 32 }; /* than the best kernel, cautiously */
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    const int tile = (int)task->tune[0];
    char more[32];
    if (tile * tile > gop_cl_most_in_group(ctx))
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'tiled' takes work-groups of %d work-items here, but %s "
            "has at most %lld",
            tile * tile, gop_cl_device_name(ctx), (long long)gop_cl_most_in_group(ctx));
    plan->launch = matmul_tiled;
    own->group = own->down = own->across = tile;
    snprintf(more, sizeof more, " -DTILE=%d", tile);
    return gop_cl_matmul_plan(ctx, task, "tiled", gop_cl_matmul_parts(task->in[0].dtype),
                              gop_cl_matmul_work(ctx, SLOWER), more, plan);
}

extern const gop_row matmul_tiled_row;
const gop_row matmul_tiled_row = {
    .name = "tiled",
    .note = "tiles of a and b pass through local memory: a number is fetched once for a whole "
            "row or column of work-items",
    .role = GOP_CONFORMING,
    .lecture = "opencl",
    .tunables = {{"tile", 2, {16, 8}}},
    .plan = matmul_tiled_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
