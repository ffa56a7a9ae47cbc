/*
 * ladder.c - matmul on OpenCL: plans and launches, rows, candidates.
 *
 * Floor: 2 m n k operations. What makes it hard: each needs two numbers, which have to come
 * from nearer than memory. On a GPU that is local memory and then private memory, on a CPU
 * caches and registers.
 */
#include <string.h>

#include "opencl/opencl.h"

enum { VECTOR = 64 }; /* bytes of a vector of sums on a CPU */

/* The plan: the product in parts, which are steps. */
typedef struct multiplying {
    gop_cl_build build;
    struct product part;     /* the first one, which is the largest */
    int64_t m, n, batches;   /* of all */
    int group, down, across; /* work-items of a group; rows and columns of its outputs */
    int is_turned;           /* out^T = b^T a^T: what a is in the kernel is the second input */
} multiplying;

static int64_t sum_bytes(gop_dtype dtype)
{
    return gop_cl_kinds[dtype].bytes == 8 ? 8 : 4;
}

/* ---- parts ---- */

/* The larger side in halves, to whole tiles. */
static void cut(struct product *p, double work)
{
    enum { LEAST = 384 }; /* whole tiles of every kernel */
    while ((double)p->m * (double)p->n * (double)p->k > work) {
        long *const side = p->m > p->n ? &p->m : &p->n;
        if (*side <= LEAST) return;
        *side = gop_ceil(*side / 2, LEAST) * LEAST;
    }
}

static int64_t steps_of(const multiplying *own)
{
    return gop_ceil(own->batches, own->part.batches) * gop_ceil(own->m, own->part.m) *
           gop_ceil(own->n, own->part.n);
}

/* A step's, and how many numbers behind their begin out, a and b begin for it. */
static struct product part_of(const multiplying *own, int64_t step, int64_t shift[3])
{
    const int64_t across = gop_ceil(own->n, own->part.n);
    const int64_t down = gop_ceil(own->m, own->part.m);
    struct product p = own->part;
    const int64_t row = step / across % down * p.m, column = step % across * p.n;
    p.first = step / (across * down) * p.batches;
    p.m = gop_smaller(p.m, own->m - row);
    p.n = gop_smaller(p.n, own->n - column);
    p.batches = gop_smaller(p.batches, own->batches - p.first);
    shift[0] = row * p.out_row + column * p.out_col;
    shift[1] = row * p.a_row;
    shift[2] = column * p.b_col;
    return p;
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const multiplying *const own = GOP_OWN(const multiplying, task->plan);
    int64_t shift[3];
    const struct product p = part_of(own, step, shift);
    const int64_t tiles = p.batches * gop_ceil(p.m, own->down) * gop_ceil(p.n, own->across);
    const int has_tile = own->down > 1; /* else groups are work-items */
    return GOP_CL_RUN(ctx, .build = &own->build, .items = has_tile ? tiles * own->group : tiles,
                      .group = own->group,
                      .operand = {GOP_CL_AT(&task->out[0], shift[0]),
                                  GOP_CL_AT(&task->in[own->is_turned], shift[1]),
                                  GOP_CL_AT(&task->in[!own->is_turned], shift[2])},
                      .value = {GOP_CL_VALUE_OF_AXES(3, p)});
}

/* ---- plans ---- */

/* Fills the plan of groups that have `down` by `across` outputs, in vectors of so many numbers,
 * cut into parts that take about 100 ms of a kernel so many times slower than the best. */
static gop_status begin(const gop_ctx *ctx, const gop_task *task, int is_turned, int lanes,
                        double slower, gop_plan *plan)
{
    const double work =
        (gop_cl_has(ctx, GOP_CL_CPU) ? 2e9 : 3e9 * ctx->info.processors) / slower;
    multiplying *const own = GOP_OWN(multiplying, plan);
    const gop_gemm *const g = &task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    struct product *const p = &own->part;
    const int64_t *const stride[] = {g->out, is_turned ? g->b : g->a, is_turned ? g->a : g->b};
    GOP_TRY(gop_cl_begin(ctx, "matmul", dtype, GOP_CL_WRAP, &own->build));
    own->is_turned = is_turned;
    plan->launch = launch;
    gop_cl_define(&own->build, " -DSUM=%s -DLANES=%d", gop_cl_kinds[dtype].sum, lanes);
    memcpy(p, g, offsetof(gop_gemm, batch_rank)); /* these have the same order */
    if (is_turned) /* so has the product with rows and columns in each other's place */
        *p = (struct product){g->n,     g->m,       g->k,       g->b_col, g->b_row, g->a_col,
                              g->a_row, g->out_col, g->out_row, 0,        1,        {0}};
    GOP_TRY(
        gop_cl_set_axes(&own->build, "batch ", g->batch_rank, g->extent, 3, stride, &p->batch));
    own->m = p->m;
    own->n = p->n;
    own->batches = g->batches;
    cut(p, work);
    p->first = 0;
    p->batches = 1;
    const double one = (double)g->m * (double)g->n * (double)gop_larger(g->k, 1);
    while (p->batches < g->batches && 2.0 * (double)p->batches * one <= work) p->batches *= 2;
    p->batches = gop_smaller(p->batches, g->batches);
    plan->steps = steps_of(own);
    return GOP_OK;
}

/* An output a work-item, of groups of so many or of tiles. Tunable "group" or "tile". */
static gop_status by_items(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    multiplying *const own = GOP_OWN(multiplying, plan);
    own->group = gop_cl_group(ctx, task->tune[0]);
    own->down = own->across = 1;
    return begin(ctx, task, 0, gop_cl_kinds[task->in[0].dtype].parts, 64, plan);
}

static gop_status by_tiles(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    multiplying *const own = GOP_OWN(multiplying, plan);
    own->down = own->across = (int)task->tune[0];
    own->group = own->down * own->across;
    GOP_TRY(gop_cl_need_group(ctx, &own->build, own->group, 0));
    gop_cl_define(&own->build, "-DTILE=%d ", own->down);
    return begin(ctx, task, 0, gop_cl_kinds[task->in[0].dtype].parts, 32, plan);
}

/* Whether neighbours of an operand are terms of a sum. */
static int is_along(int64_t line_apart, int64_t l_apart)
{
    return gop_magnitude(l_apart) < gop_magnitude(line_apart);
}

/* Whether an operand has no gaps and consists of whole vectors of `wide` numbers. */
static int is_whole(const gop_array *array, int batch_rank, const int64_t *batch, int64_t lines,
                    int64_t line_apart, int64_t terms, int64_t l_apart, int wide)
{
    const int along = is_along(line_apart, l_apart);
    int64_t numbers = along ? terms | line_apart : lines | l_apart;
    for (int axis = 0; axis < batch_rank; axis++) numbers |= batch[axis];
    return (along ? l_apart : line_apart) == 1 && numbers % wide == 0 &&
           (uintptr_t)array->data % (uintptr_t)(wide * gop_cl_item(array->dtype)) == 0;
}

/* Of 16 work-items across, and as many down if such tiles are enough for the device, else half.
 * Sums of 16 bytes are half as many a side. Tunables "side", and "rows": 0 finds it. */
static gop_status by_private_tiles(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { ACROSS = 16 };
    multiplying *const own = GOP_OWN(multiplying, plan);
    const gop_gemm *const g = &task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    const int parts = gop_cl_kinds[dtype].parts;
    const int64_t bytes = sum_bytes(dtype) * parts;
    const int side = bytes > 8 ? 4 : (int)task->tune[0], depth = bytes > 4 ? 8 : 16;
    const int64_t tiles =
        gop_ceil(g->m, side * ACROSS) * gop_ceil(g->n, side * ACROSS) * g->batches;
    const int down = task->tune[1]                               ? (int)task->tune[1]
                     : tiles < 2 * (int64_t)ctx->info.processors ? 8
                                                                 : 16;
    const int quad = (int)(16 / sum_bytes(dtype)), wide = quad / parts;
    const int whole =
        is_whole(&task->in[0], g->batch_rank, g->a, g->m, g->a_row, g->k, g->a_col, wide) &&
        is_whole(&task->in[1], g->batch_rank, g->b, g->n, g->b_col, g->k, g->b_row, wide);
    own->group = down * ACROSS;
    own->down = side * down;
    own->across = side * ACROSS;
    GOP_TRY(gop_cl_need_group(ctx, &own->build, own->group,
                              2 * depth * ((own->down + own->across) * bytes + 32)));
    GOP_TRY(begin(ctx, task, 0, parts, 1, plan));
    gop_cl_define(&own->build,
                  " -DSIDE=%d -DDOWN=%d -DACROSS=%d -DDEPTH=%d -DQUAD=%d -DA_ALONG=%d "
                  "-DB_ALONG=%d -DWHOLE=%d%s",
                  side, down, ACROSS, depth, quad, is_along(g->a_row, g->a_col),
                  is_along(g->b_col, g->b_row), whole,
                  bytes == 4 && gop_cl_has(ctx, GOP_CL_REGISTERS) ? " -cl-nv-maxrregcount=128"
                                                                  : "");
    return GOP_OK;
}

/* Few rows, or few columns. */
static gop_status thin(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    /* Rows or columns; vectors of a work-item, and where those would be too few. */
    enum { MOST = 3, STRIP = 64, SHORT = 8 };
    multiplying *const own = GOP_OWN(multiplying, plan);
    const gop_gemm *const g = &task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    const int is_high = g->m > g->n;
    const int is_along = (is_high ? g->a_row : g->b_col) == 1;
    const int is_across = !is_along && (is_high ? g->a_col : g->b_row) == 1;
    const int lanes = is_along ? (int)(VECTOR / sum_bytes(dtype)) : gop_cl_block(dtype);
    const int64_t rows = gop_smaller(g->m, g->n), columns = gop_larger(g->m, g->n);
    int strip = STRIP;
    if (rows > MOST || gop_cl_kinds[dtype].parts == 2)
        return gop_cl_refuse(&own->build,
                             "is for products of real numbers with at most %d rows or columns",
                             MOST);
    while (strip > SHORT && g->batches * rows * gop_ceil(columns, strip * lanes) <
                                2 * (int64_t)ctx->info.processors)
        strip /= 2;
    own->group = own->down = 1;
    own->across = strip * lanes;
    GOP_TRY(begin(ctx, task, is_high, lanes, 16, plan));
    gop_cl_define(&own->build, " -DSTRIP=%d -DALONG=%d -DACROSS=%d", strip, is_along,
                  is_across);
    return GOP_OK;
}

/* ---- packed panels ---- */

enum {
    PIECE = 256,    /* terms */
    BLOCK = 16,     /* panels of a */
    PANEL = 6,      /* rows of a panel of a; of complex numbers half as many */
    LEAST = 4,      /* rows and columns that are worth a panel */
    ROOM = 1 << 26, /* bytes of panels, unless one product takes more */
};

/* Lines of a panel. */
static int64_t width_of(gop_dtype dtype, int is_b)
{
    return is_b ? VECTOR / sum_bytes(dtype) : PANEL / gop_cl_kinds[dtype].parts;
}

/* Parts of sums in the panels of one product. */
static int64_t panel_parts(gop_dtype dtype, const struct product *p, int is_b)
{
    const int64_t width = width_of(dtype, is_b);
    return gop_ceil(is_b ? p->n : p->m, width) * width * gop_cl_kinds[dtype].parts * p->k;
}

static gop_status launch_packed(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const multiplying *const own = GOP_OWN(const multiplying, task->plan);
    int64_t shift[3], to = 0;
    const struct product p = part_of(own, step, shift);
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t blocks = gop_ceil(gop_ceil(p.m, width_of(dtype, 0)), BLOCK);
    const int64_t sum = sum_bytes(dtype);
    const gop_array room =
        gop_cl_in_scratch(task->scratch, 0, sum == 4 ? GOP_FLOAT32 : GOP_FLOAT64,
                          (int64_t)task->plan->scratch / sum);
    for (int is_b = 0; is_b < 2 && p.k > 0; is_b++) {
        const int64_t panels = gop_ceil(is_b ? p.n : p.m, width_of(dtype, is_b));
        GOP_TRY(GOP_CL_RUN(
            ctx, .build = &own->build, .items = p.batches * panels * gop_ceil(p.k, PIECE),
            .group = 1, .kernel = "matmul_pack_kernel",
            .operand = {GOP_CL_AT(&room, to), GOP_CL_AT(&task->in[is_b], shift[1 + is_b])},
            .value = {GOP_CL_VALUE_OF_AXES(3, p), GOP_CL_VALUE(is_b)}));
        to += p.batches * panel_parts(dtype, &p, 0);
    }
    return GOP_CL_RUN(ctx, .build = &own->build,
                      .items = p.batches * blocks * gop_ceil(p.n, width_of(dtype, 1)),
                      .group = 1,
                      .operand = {GOP_CL_AT(&task->out[0], shift[0]), GOP_CL_OF(&room)},
                      .value = {GOP_CL_VALUE_OF_AXES(3, p)});
}

static gop_status packed(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    multiplying *const own = GOP_OWN(multiplying, plan);
    struct product *const p = &own->part;
    const gop_gemm *const g = &task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    if (g->m < LEAST || g->n < LEAST)
        return gop_cl_refuse(
            &own->build,
            "is for products of %d rows and columns or more, this one has %lld "
            "and %lld",
            LEAST, (long long)g->m, (long long)g->n);
    GOP_TRY(begin(ctx, task, 0, (int)width_of(dtype, 1), 1, plan));
    gop_cl_define(&own->build, " -DROWS=%d -DPIECE=%d -DBLOCK=%d", (int)width_of(dtype, 0),
                  PIECE, BLOCK);
    const int64_t each = panel_parts(dtype, p, 0) + panel_parts(dtype, p, 1);
    const int64_t bytes = gop_larger(each, 1) * sum_bytes(dtype);
    if (p->batches * bytes > ROOM) p->batches = gop_larger(ROOM / bytes, 1);
    plan->steps = steps_of(own);
    plan->scratch = (size_t)(p->batches * bytes);
    plan->launch = launch_packed;
    return GOP_OK;
}

/* ---- rows, and which of them runs ---- */

static int is_wide(const gop_ctx *ctx, const gop_task *task)
{
    enum { WIDE = 16 }; /* with fewer a tile would mostly be empty */
    (void)ctx;
    return task->geometry.gemm.m >= WIDE && task->geometry.gemm.n >= WIDE;
}

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, by_items, \
        .note = "an output a work-item, neighbours in a row: two loads for every multiply-add", \
        .lecture = "opencl", .tunables = {GOP_CL_GROUP}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, tiled, by_tiles, \
        .note = "tiles of a and b pass through local memory: a number is fetched once for a " \
                "whole row or column of work-items", \
        .lecture = "opencl", .tunables = {{"tile", 2, {16, 8}}}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, blocktiled, by_private_tiles, \
        .note = "a work-item keeps 8 x 8 outputs in private memory: 4 vectors from local " \
                "memory feed 64 multiply-adds, and the next tile is on its way meanwhile", \
        .tunables = {{"side", 2, {8, 4}}, {"rows", 3, {0, 16, 8}}}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, thin, thin, \
        .note = "few rows or columns: the long operand is read as it lies, in vectors of " \
                "outputs, or in blocks that are transposed in registers", \
        .dtypes = GOP_EVERY_DTYPE & ~GOP_CL_COMPLEXES) \
    ROW(op, stem, packed, packed, \
        .note = "panels of a and b, packed as they are multiplied: 6 vectors of sums in a " \
                "CPU's registers, and a panel of b in its first cache", \
        .dtypes = GOP_EVERY_DTYPE)
#define CANDIDATES(op) \
    {.row = &op##_packed_row, .suits = gop_cl_suits_cpu, .when = "CPU devices", \
     .why = "1024 float32 0.87 to 1.01 of the cpu backend's speed in three runs: PoCL 3.1 on " \
            "two cores of an AMD EPYC, 2026-11-28"}, \
    {.row = &op##_thin_row, .suits = gop_cl_suits_cpu, .when = "CPU devices", \
     .why = "4096 x 4096 float32 times a vector 0.74 of the cpu backend's speed, with " \
            "contiguous columns 0.71: PoCL 3.1 on two cores of an AMD EPYC, 2026-11-29"}, \
    {.row = &op##_blocktiled_row, .suits = is_wide, .when = "16 rows and columns or more", \
     .why = "few loads for each multiply-add; 4096² float32 0.91 of cuBLAS, 2048² 0.99, 1.46 " \
            "and 2.2 times as fast as CLBlast: NVIDIA's OpenCL on an H200, 2026-11-29"}, \
    {.row = &op##_naive_row, .why = "takes all that is left: thin products"},

GOP_CL_LADDER(matmul, matmul, ROWS, CANDIDATES);
