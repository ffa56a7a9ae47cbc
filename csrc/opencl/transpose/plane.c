/*
 * plane.c - what the rows of transpose share: the plane of two axes, options, operands.
 */
#include "opencl/transpose/plane.h"

#include <stdio.h>
#include <string.h>

static uint64_t magnitude(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

gop_status gop_cl_transpose_tiles(const char *kernel, const gop_task *task, int side_x,
                                  int side_y, gop_cl_tiling *t)
{
    const gop_permutation *g = &task->geometry.permutation;
    const int y = g->rank - 1;
    int x = y;
    for (int axis = 0; axis < g->rank; axis++)
        if (magnitude(g->in[axis]) < magnitude(g->in[x])) x = axis;
    if (x == y)
        return gop_fail(
            GOP_REFUSED,
            "transpose: kernel '%s' is for permutations that move the fastest axis, "
            "expected another axis to become the last one in memory",
            kernel);
    if (g->rank - 2 > GOP_CL_AXES)
        return gop_fail(GOP_REFUSED,
                        "transpose: kernel '%s' takes %d axes that cannot be merged, this call "
                        "has %d",
                        kernel, GOP_CL_AXES + 2, g->rank);
    gop_cl_plane *const p = &t->plane;
    *p = (gop_cl_plane){g->extent[x],
                        g->extent[y],
                        g->in[x],
                        g->in[y],
                        g->out[x],
                        g->out[y],
                        (g->extent[x] + side_x - 1) / side_x,
                        (g->extent[y] + side_y - 1) / side_y,
                        0};
    gop_cl_axes *const b = &t->batch;
    memset(b, 0, sizeof *b);
    b->size = 1;
    for (int axis = 0; axis < g->rank; axis++) {
        if (axis == x || axis == y) continue;
        b->extent[b->rank] = g->extent[axis];
        b->stride[0][b->rank] = g->out[axis];
        b->stride[1][b->rank++] = g->in[axis];
        b->size *= g->extent[axis];
    }
    if (b->rank == 0) b->extent[b->rank++] = 1;
    p->tiles = p->across * p->up * b->size;
    t->side_x = side_x;
    t->side_y = side_y;
    return GOP_OK;
}

void gop_cl_transpose_axes(const gop_permutation *g, gop_cl_axes *axes)
{
    const int skipped = g->rank > GOP_CL_AXES ? g->rank - GOP_CL_AXES : 0;
    axes->rank = g->rank - skipped;
    axes->size = 1;
    for (int axis = 0; axis < axes->rank; axis++) {
        axes->extent[axis] = g->extent[skipped + axis];
        axes->size *= axes->extent[axis];
        axes->stride[0][axis] = g->out[skipped + axis];
        axes->stride[1][axis] = g->in[skipped + axis];
    }
}

void gop_cl_transpose_options(const gop_task *task, const char *more,
                              char options[GOP_CL_OPTIONS])
{
    snprintf(options, GOP_CL_OPTIONS, "-DBYTES=%d -DINDEX=%s%s",
             (int)gop_cl_item(task->in[0].dtype),
             task->geometry.permutation.size < INT64_C(1) << 31 ? "uint" : "ulong", more);
}

void gop_cl_transpose_operands(const gop_task *task, gop_cl_launch *launch)
{
    launch->operands = 2;
    launch->operand[0] = (gop_cl_operand){&task->out[0], 1};
    launch->operand[1] = (gop_cl_operand){&task->in[0], 0};
}

gop_status gop_cl_transpose_launch(gop_ctx *ctx, const gop_task *task, gop_cl_launch *launch,
                                   const gop_cl_axes *axes)
{
    const gop_permutation *g = &task->geometry.permutation;
    const int64_t times = g->size / axes->size;
    for (int64_t t = 0; t < times; t++) {
        int64_t rest = t;
        launch->shift[0] = launch->shift[1] = 0;
        for (int axis = g->rank - (int)axes->rank - 1; axis >= 0; axis--) {
            launch->shift[0] += rest % g->extent[axis] * g->out[axis];
            launch->shift[1] += rest % g->extent[axis] * g->in[axis];
            rest /= g->extent[axis];
        }
        GOP_TRY(gop_cl_run(ctx, launch));
    }
    return GOP_OK;
}

/* ---- tiles in local memory ---- */

gop_status gop_cl_transpose_grouped(gop_ctx *ctx, const gop_task *task, const char *source,
                                    const char *kernel, int64_t wide, int64_t high)
{
    const gop_cl_tiling *const t = GOP_OWN(const gop_cl_tiling, task->plan);
    gop_cl_launch launch = {
        .source = source,
        .kernel = kernel,
        .options = t->options,
        .values = 2,
        .value = {{sizeof t->plane, &t->plane}, {sizeof t->batch, &t->batch}},
        .dimensions = 2,
        .global = {(size_t)(wide * t->plane.tiles), (size_t)high},
        .local = {(size_t)wide, (size_t)high},
    };
    gop_cl_transpose_operands(task, &launch);
    return gop_cl_run(ctx, &launch);
}

gop_status gop_cl_transpose_grouped_plan(const gop_ctx *ctx, const gop_task *task,
                                         const char *kernel, int padding, gop_plan *plan)
{
    gop_cl_tiling *const t = GOP_OWN(gop_cl_tiling, plan);
    const int side = (int)task->tune[0], item = (int)gop_cl_item(task->in[0].dtype);
    char more[64];
    if (side * task->tune[1] > gop_cl_most_in_group(ctx))
        return gop_fail(GOP_REFUSED,
                        "transpose: kernel '%s' takes work-groups of %lld work-items here, but "
                        "%s has at most %lld",
                        kernel, (long long)(side * task->tune[1]), gop_cl_device_name(ctx),
                        (long long)gop_cl_most_in_group(ctx));
    const int64_t local = (int64_t)side * (side + padding * (item < 4 ? 4 / item : 1)) * item;
    if (local > ctx->info.shared_per_block)
        return gop_fail(GOP_REFUSED,
                        "transpose: kernel '%s' takes %lld bytes of local memory here, but %s "
                        "has %lld",
                        kernel, (long long)local, gop_cl_device_name(ctx),
                        (long long)ctx->info.shared_per_block);
    GOP_TRY(gop_cl_transpose_tiles(kernel, task, side, side, t));
    snprintf(more, sizeof more, " -DSIDE=%d -DROWS=%d", side, (int)task->tune[1]);
    gop_cl_transpose_options(task, more, t->options);
    return GOP_OK;
}
