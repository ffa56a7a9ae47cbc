/*
 * plan.c - the plans of transpose, and their launch.
 */
#include "opencl/transpose/plan.h"

#include <stdio.h>
#include <string.h>

/* The struct that plane.cl declares for kernels. */
typedef struct gop_cl_plane {
    int64_t nx, ny, in_x, in_y, out_x, out_y;
    int64_t across, up, tiles;
} gop_cl_plane;

/* The plan of every row. */
typedef struct planned {
    const gop_cl_names *names;
    char options[GOP_CL_OPTIONS];
    gop_cl_plane plane;        /* of kernels that have tiles */
    gop_cl_axes axes;          /* all, or those around the plane */
    int64_t chunk;             /* tiles or items of a work-item; 0: it is not told */
    int has_plane, wide, high; /* work-items of a group, which has a tile without a chunk */
} planned;

static gop_cl_walk walk_of(const gop_permutation *g)
{
    return (gop_cl_walk){g->rank, 2, g->extent, {g->out, g->in}};
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const planned *const own = GOP_OWN(const planned, task->plan);
    const gop_cl_walk walk = walk_of(&task->geometry.permutation);
    const int64_t pieces = own->has_plane ? own->plane.tiles : own->axes.size;
    gop_cl_launch l = {
        .source = own->names->source,
        .kernel = own->names->kernel,
        .options = own->options,
        .dimensions = own->high > 1 ? 2 : 1,
        .global = {(size_t)(own->chunk       ? gop_cl_ceil(pieces, own->chunk)
                            : own->has_plane ? pieces * own->wide
                                             : pieces),
                   (size_t)own->high},
        .local = {(size_t)own->wide, (size_t)own->high},
    };
    (void)step;
    gop_cl_give(&l, &task->out[0], 1);
    gop_cl_give(&l, &task->in[0], 0);
    if (own->has_plane) GOP_CL_SAY(&l, own->plane);
    GOP_CL_SAY(&l, own->axes);
    if (own->chunk) GOP_CL_SAY(&l, own->chunk);
    return own->has_plane ? gop_cl_run(ctx, &l) : gop_cl_run_axes(ctx, &walk, &l);
}

/* What plans have in common; `more` is what a build defines besides. */
static planned *begin(const gop_task *task, const gop_cl_names *names, const char *more,
                      gop_plan *plan)
{
    planned *const own = GOP_OWN(planned, plan);
    const gop_cl_walk walk = walk_of(&task->geometry.permutation);
    snprintf(own->options, GOP_CL_OPTIONS, "-DBYTES=%d -DINDEX=%s%s",
             (int)gop_cl_item(task->in[0].dtype),
             task->geometry.permutation.size < INT64_C(1) << 31 ? "uint" : "ulong", more);
    own->names = names;
    own->chunk = own->has_plane = 0;
    own->wide = own->high = 1;
    gop_cl_set_axes(&walk, &own->axes);
    plan->launch = launch;
    return own;
}

/* ---- axes in any order ---- */

gop_status gop_cl_transpose_by_items(const gop_ctx *ctx, const gop_task *task,
                                     const gop_cl_names *names, gop_plan *plan)
{
    begin(task, names, "", plan)->wide = gop_cl_group(ctx, (int)task->tune[0]);
    return GOP_OK;
}

gop_status gop_cl_transpose_by_chunks(const gop_ctx *ctx, const gop_task *task,
                                      const gop_cl_names *names, gop_plan *plan)
{
    planned *const own = begin(task, names, "", plan);
    own->chunk = gop_cl_chunk(ctx, own->axes.size, 1);
    return GOP_OK;
}

/* ---- tiles ---- */

static uint64_t magnitude(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

/* Lays tiles over the plane of the input's fastest axis, x, and the output's, y; all others are
 * a batch. Refuses where they are one axis, or there are more around than a kernel is told of.
 */
static gop_status lay_tiles(const gop_task *task, int side_x, int side_y, planned *own)
{
    const char *const kernel = own->names->row;
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
    gop_cl_plane *const p = &own->plane;
    *p = (gop_cl_plane){g->extent[x],
                        g->extent[y],
                        g->in[x],
                        g->in[y],
                        g->out[x],
                        g->out[y],
                        (g->extent[x] + side_x - 1) / side_x,
                        (g->extent[y] + side_y - 1) / side_y,
                        0};
    gop_cl_axes *const b = &own->axes;
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
    own->has_plane = 1;
    return GOP_OK;
}

/* Groups of so many work-items and so much local memory. */
static gop_status need_group(const gop_ctx *ctx, planned *own, int wide, int high,
                             int64_t local)
{
    own->wide = wide;
    own->high = high;
    if (wide * high <= gop_cl_most_in_group(ctx) && local <= ctx->info.shared_per_block)
        return GOP_OK;
    return gop_fail(
        GOP_REFUSED,
        "transpose: kernel '%s' takes work-groups of %d work-items and %lld bytes of "
        "local memory here, but %s has at most %lld and %lld",
        own->names->row, wide * high, (long long)local, gop_cl_device_name(ctx),
        (long long)gop_cl_most_in_group(ctx), (long long)ctx->info.shared_per_block);
}

static gop_status by_tiles(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                           int64_t padding, gop_plan *plan)
{
    const int side = (int)task->tune[0], rows = (int)task->tune[1];
    const int64_t item = gop_cl_item(task->in[0].dtype);
    char more[64];
    snprintf(more, sizeof more, " -DSIDE=%d -DROWS=%d", side, rows);
    planned *const own = begin(task, names, more, plan);
    GOP_TRY(need_group(ctx, own, side, rows, side * (side * item + padding)));
    return lay_tiles(task, side, side, own);
}

gop_status gop_cl_transpose_by_tiles(const gop_ctx *ctx, const gop_task *task,
                                     const gop_cl_names *names, gop_plan *plan)
{
    return by_tiles(ctx, task, names, 0, plan);
}

gop_status gop_cl_transpose_by_padded_tiles(const gop_ctx *ctx, const gop_task *task,
                                            const gop_cl_names *names, gop_plan *plan)
{
    const int64_t item = gop_cl_item(task->in[0].dtype);
    return by_tiles(ctx, task, names, item < 4 ? 4 : item, plan);
}

/* Whether all that a work-item reads or writes is a whole word. */
static int are_whole(const gop_task *task, const planned *own, int64_t wide)
{
    const gop_cl_plane *const p = &own->plane;
    int64_t items = p->nx | p->ny | p->in_y | p->out_x;
    for (int axis = 0; axis < own->axes.rank; axis++)
        items |= own->axes.stride[0][axis] | own->axes.stride[1][axis];
    return p->in_x == 1 && p->out_y == 1 && items % wide == 0 &&
           ((uintptr_t)task->in[0].data | (uintptr_t)task->out[0].data) % 4 == 0;
}

gop_status gop_cl_transpose_by_words(const gop_ctx *ctx, const gop_task *task,
                                     const gop_cl_names *names, gop_plan *plan)
{
    enum { WORDS = 32, ROWS = 8 }; /* work-items of a group, side by side and in rows */
    const int wide = (int)(4 / gop_cl_item(task->in[0].dtype));
    char more[32];
    snprintf(more, sizeof more, " -DROWS=%d", ROWS);
    planned *const own = begin(task, names, more, plan);
    GOP_TRY(lay_tiles(task, WORDS * wide, WORDS * wide, own));
    if (!are_whole(task, own, wide))
        return gop_fail(
            GOP_REFUSED,
            "transpose: kernel '%s' takes rows of whole words, of which each starts "
            "at a multiple of 4 bytes, got others",
            names->row);
    return need_group(ctx, own, WORDS, ROWS, WORDS * wide * (WORDS + 1) * 4);
}

gop_status gop_cl_transpose_by_blocks(const gop_ctx *ctx, const gop_task *task,
                                      const gop_cl_names *names, gop_plan *plan)
{
    enum { LINE = 64, SIDE_Y = 256 }; /* bytes of a line of the caches; items */
    static const char *const words[] = {"uchar", "ushort", "uint", "ulong", "ulong2"};
    const int item = (int)gop_cl_item(task->in[0].dtype);
    char more[128];
    snprintf(more, sizeof more, " -DBASE=%s -DLANES=%d -DSIDE_X=%d -DSIDE_Y=%d",
             words[__builtin_ctz((unsigned)item)],
             item == 16 ? 1 : gop_cl_block(task->in[0].dtype), LINE / item, SIDE_Y);
    planned *const own = begin(task, names, more, plan);
    GOP_TRY(lay_tiles(task, LINE / item, SIDE_Y, own));
    own->chunk = gop_cl_chunk(ctx, own->plane.tiles, LINE / item * SIDE_Y);
    return GOP_OK;
}
