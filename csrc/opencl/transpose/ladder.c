/*
 * ladder.c - transpose on OpenCL: plans and launch, rows, candidates.
 *
 * Floor: every item read once and written once.
 */
#include "core/arrays/widen.h"
#include "opencl/opencl.h"

/* The plan of every row. */
typedef struct planned {
    gop_cl_build build;
    struct plane plane;        /* of kernels that have tiles */
    struct axes axes;          /* all, or those around the plane */
    gop_dtype dtype;           /* of as many bytes as an item of the kernel */
    int64_t chunk;             /* tiles or items of a work-item; 0: it is not told */
    int has_plane, wide, high; /* work-items of a group, which has a tile without a chunk */
} planned;

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const planned *const own = GOP_OWN(const planned, task->plan);
    const int64_t pieces = own->has_plane ? own->plane.tiles : own->axes.size;
    gop_array out = task->out[0], in = task->in[0];
    (void)step;
    out.dtype = in.dtype = own->dtype;
    return GOP_CL_RUN(
        ctx, .build = &own->build,
        .items = own->chunk       ? gop_ceil(pieces, own->chunk)
                 : own->has_plane ? pieces * own->wide
                                  : pieces,
        .group = own->wide, .rows = own->high, .operand = {GOP_CL_OF(&out), GOP_CL_OF(&in)},
        .value = {GOP_CL_VALUE_IF(own->has_plane, own->plane),
                  GOP_CL_VALUE_OF_AXES(2, own->axes), GOP_CL_VALUE_IF(own->chunk, own->chunk)});
}

/* What plans have in common, for items of so many bytes in vectors of so many. */
static planned *begin(const gop_task *task, int bytes, int lanes, gop_plan *plan)
{
    static const char *const words[] = {"uchar", "ushort", "uint", "ulong", "ulong2"};
    static const gop_dtype dtypes[] = {GOP_UINT8, GOP_UINT16, GOP_UINT32, GOP_UINT64,
                                       GOP_COMPLEX128};
    planned *const own = GOP_OWN(planned, plan);
    const int log2 = __builtin_ctz((unsigned)bytes);
    gop_cl_define(&own->build, "-DBYTES=%d -DBASE=%s -DLANES=%d -DINDEX=%s -DOPERANDS_TOLD=2",
                  bytes, words[log2], lanes, gop_cl_index(task->geometry.permutation.size));
    own->dtype = dtypes[log2];
    own->chunk = own->has_plane = 0;
    own->wide = own->high = 1;
    plan->launch = launch;
    return own;
}

/* Tells a kernel all axes. */
static gop_status set_axes(const gop_permutation *g, gop_plan *plan)
{
    planned *const own = GOP_OWN(planned, plan);
    const int64_t *const stride[] = {g->out, g->in};
    return gop_cl_set_axes(&own->build, "", g->rank, g->extent, 2, stride, &own->axes);
}

/* Tunable "group". */
static gop_status by_items(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    int bytes = (int)gop_cl_item(task->in[0].dtype);
    gop_permutation g = task->geometry.permutation;
    if (!(ctx->backend->facts & GOP_HOST_MEMORY)) /* a GPU then has fewer divisions */
        bytes = gop_permutation_widen(&task->out[0], &task->in[0], bytes, &g);
    GOP_TRY(set_axes(&g, plan));
    begin(task, bytes, 1, plan)->wide = gop_cl_group(ctx, task->tune[0]);
    return GOP_OK;
}

/* ---- tiles ---- */

/* Finds the plane of the input's fastest axis, x, and the output's, y; all others are a batch.
 * Where they are one axis, y is the longest of the others if lines may stay lines. Refuses what
 * has no such plane, or more axes than a kernel is told of. */
static gop_status find_plane(const gop_task *task, int takes_lines, gop_plan *plan)
{
    planned *const own = GOP_OWN(planned, plan);
    const gop_permutation *g = &task->geometry.permutation;
    struct axes *const b = &own->axes;
    int y = g->rank - 1, x = y, other = -1;
    for (int axis = 0; axis < g->rank; axis++) {
        if (gop_magnitude(g->in[axis]) < gop_magnitude(g->in[x])) x = axis;
        if (axis < y && (other < 0 || g->extent[axis] > g->extent[other])) other = axis;
    }
    if (x == y) y = takes_lines ? other : -1;
    if (y < 0)
        return gop_cl_refuse(&own->build,
                             "is for permutations that move the fastest axis, expected another "
                             "axis to become the last one in memory");
    GOP_TRY(set_axes(g, plan));
    b->rank = 0;
    for (int axis = 0; axis < g->rank; axis++) {
        if (axis == x || axis == y) continue;
        b->extent[b->rank] = g->extent[axis];
        b->stride[0][b->rank] = g->out[axis];
        b->stride[1][b->rank++] = g->in[axis];
    }
    b->size /= g->extent[x] * g->extent[y];
    own->plane = (struct plane){
        g->extent[x], g->extent[y], g->in[x], g->in[y], g->out[x], g->out[y], 0, 0, 0};
    own->has_plane = 1;
    return GOP_OK;
}

/* Tiles of so many items; the build is told how many axes the batch has. */
static void lay_tiles(planned *own, int side_x, int side_y)
{
    struct plane *const p = &own->plane;
    p->across = gop_ceil(p->nx, side_x);
    p->up = gop_ceil(p->ny, side_y);
    p->tiles = p->across * p->up * own->axes.size;
    gop_cl_define(&own->build, " -DBATCH=%d", (int)own->axes.rank);
}

/* A work-group a tile; tunables "side", in items, and "rows". */
static gop_status by_tiles(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const int side = (int)task->tune[0], item = (int)gop_cl_item(task->in[0].dtype);
    planned *const own = begin(task, item, 1, plan);
    own->wide = side;
    own->high = (int)task->tune[1];
    GOP_TRY(find_plane(task, 0, plan));
    lay_tiles(own, side, side);
    gop_cl_define(&own->build, " -DSIDE=%d -DROWS=%d", side, own->high);
    return gop_cl_need_group(ctx, &own->build, side * own->high, (side + 4) * side * item);
}

/* Bytes of the longest vectors that both arrays' rows are whole of; 0 where rows have gaps. */
static int vector_of(const gop_task *task, const planned *own)
{
    enum { MOST = 16 };
    const struct plane *const p = &own->plane;
    int64_t items = p->nx | p->ny | p->in_y | p->out_x;
    if (p->in_x != 1 || p->out_y != 1) return 0;
    for (int axis = 0; axis < own->axes.rank; axis++)
        items |= own->axes.stride[0][axis] | own->axes.stride[1][axis];
    const int64_t bits = items * gop_cl_item(task->in[0].dtype) | (int64_t)task->in[0].data |
                         (int64_t)task->out[0].data | MOST;
    return (int)(bits & -bits);
}

/* A work-group a tile of `side` by `side` squares of vectors, fewer where the device has no
 * local memory for them. Tunables "side" and "group". */
static gop_status by_vectors(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const char *const words[] = {[4] = "uint", [8] = "uint2", [16] = "uint4"};
    const int item = (int)gop_cl_item(task->in[0].dtype);
    planned *const own = begin(task, item, 1, plan);
    GOP_TRY(find_plane(task, 0, plan));
    const int vector = vector_of(task, own), items = vector / item;
    if (vector < 4)
        return gop_cl_refuse(&own->build,
                             "takes rows without gaps that begin and end at multiples of 4 "
                             "bytes, in the input and in the output");
    int side = (int)task->tune[0] * (vector < 16 ? 2 : 1);
    while (side > 8 && (int64_t)side * side * items * vector > ctx->info.shared_per_block)
        side /= 2;
    own->wide = (int)gop_smaller(side * side, task->tune[1]);
    lay_tiles(own, side * items, side * items);
    gop_cl_define(&own->build, " -DVECTOR=%s -DSIDE=%d -DGROUP=%d", words[vector], side,
                  own->wide);
    return gop_cl_need_group(ctx, &own->build, own->wide,
                             (int64_t)side * side * items * vector);
}

/* A chunk of tiles a work-item: blocks of them, or lines that stay lines. */
static gop_status by_blocks(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { WIDE = 256, HIGH = 512, BYTES = 128 }; /* of lines of a tile; the same of bytes */
    enum { LONG = 1 << 15, LINES = 8 };           /* the same of lines that stay; and lines */
    const gop_permutation *g = &task->geometry.permutation;
    const int item = (int)gop_cl_item(task->in[0].dtype);
    const int lanes = item == 16 ? 1 : gop_cl_block(task->in[0].dtype);
    planned *const own = begin(task, item, lanes, plan);
    GOP_TRY(gop_cl_need_cpu(ctx, &own->build));
    GOP_TRY(find_plane(task, 1, plan));
    const int are_lines = own->plane.out_x == g->out[g->rank - 1];
    const int side_x = are_lines ? LONG / item : item > 1 ? WIDE / item : BYTES;
    const int side_y = are_lines ? LINES : HIGH / item;
    lay_tiles(own, side_x, side_y);
    gop_cl_define(&own->build, " -DSIDE_X=%d -DSIDE_Y=%d%s", side_x, side_y,
                  gop_cl_streamed(ctx, g->size * item));
    own->chunk = gop_cl_chunk(ctx, own->plane.tiles, (int64_t)side_x * side_y);
    return GOP_OK;
}

/* clang-format off */
#define TILES {"side", 3, {32, 16, 64}}, {"rows", 4, {2, 4, 8, 16}}
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, by_items, \
        .note = "one element a work-item in the output's order: neighbours are written, reads " \
                "at least are cached; on a GPU those that stay together go together", \
        .lecture = "opencl", .tunables = {GOP_CL_GROUP}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, tiled, by_tiles, \
        .note = "a tile through local memory: both sides have neighbours, but a column is one " \
                "bank", \
        .lecture = "opencl", .tunables = {TILES}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, padded, by_tiles, \
        .note = "one item more per row of the tile: a column lies in different banks", \
        .lecture = "opencl", .tunables = {TILES}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, vectorized, by_vectors, \
        .note = "vectors of 16 bytes in memory and in local memory: a work-item turns a " \
                "square of items in private memory", \
        .tunables = {{"side", 3, {16, 8, 32}}, GOP_CL_GROUP}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, blocked, by_blocks, \
        .note = "tiles a work-item, blocks transposed in a CPU's registers: each line of the " \
                "caches is used up while it is there; lines that stay lines are copied", \
        .dtypes = GOP_EVERY_DTYPE)
#define CANDIDATES(op) \
    {.row = &op##_blocked_row, .suits = gop_cl_suits_cpu, .when = "CPU devices", \
     .why = "64 MiB float32: 0.6 to 0.8 of the cpu backend's speed, bytes 0.5: PoCL 3.1 on " \
            "two cores of an Intel Xeon, 2026-11-29"}, \
    {.row = &op##_vectorized_row, \
     .why = "16384² float32 0.97 of a copy, 8192² of 1, 2, 8 and 16 bytes 0.92 to 0.98, " \
            "padded 0.60 to 0.83: NVIDIA's OpenCL on an H200, 2026-11-29"}, \
    {.row = &op##_padded_row, \
     .why = "rows with gaps, or unaligned"}, \
    {.row = &op##_naive_row, \
     .why = "takes all that is left: where the fastest axis stays"},

GOP_CL_LADDER(transpose, transpose, ROWS, CANDIDATES);
