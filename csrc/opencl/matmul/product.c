/*
 * product.c - what the rows of matmul share: the product, its parts, options, operands.
 */
#include "opencl/matmul/product.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *base, *kind, *sum;
    int parts, sum_bytes;
} kinds[GOP_NDTYPES] = {
    [GOP_BOOL] = {"uchar", "BOOLEAN", "uint", 1, 4},
    [GOP_INT8] = {"uchar", "INTEGER", "uint", 1, 4},
    [GOP_INT16] = {"ushort", "INTEGER", "uint", 1, 4},
    [GOP_INT32] = {"uint", "INTEGER", "uint", 1, 4},
    [GOP_INT64] = {"ulong", "INTEGER", "ulong", 1, 8},
    [GOP_UINT8] = {"uchar", "INTEGER", "uint", 1, 4},
    [GOP_UINT16] = {"ushort", "INTEGER", "uint", 1, 4},
    [GOP_UINT32] = {"uint", "INTEGER", "uint", 1, 4},
    [GOP_UINT64] = {"ulong", "INTEGER", "ulong", 1, 8},
    [GOP_FLOAT16] = {"ushort", "HALF", "float", 1, 4},
    [GOP_BFLOAT16] = {"ushort", "BFLOAT", "float", 1, 4},
    [GOP_FLOAT32] = {"float", "FLOAT", "float", 1, 4},
    [GOP_FLOAT64] = {"double", "FLOAT -DDOUBLE", "double", 1, 8},
    [GOP_COMPLEX64] = {"float", "COMPLEX", "float", 2, 4},
    [GOP_COMPLEX128] = {"double", "COMPLEX -DDOUBLE", "double", 2, 8},
};

int64_t gop_cl_matmul_sum(gop_dtype dtype)
{
    return kinds[dtype].sum_bytes;
}

int gop_cl_matmul_parts(gop_dtype dtype)
{
    return kinds[dtype].parts;
}

/* The larger side in halves, to whole tiles. */
static void cut(gop_cl_product_part *part, double k, double work)
{
    enum { LEAST = 192 };
    while ((double)part->rows * (double)part->columns * k > work) {
        int64_t *const side = part->rows > part->columns ? &part->rows : &part->columns;
        if (*side <= LEAST) return;
        *side = gop_cl_ceil(*side / 2, LEAST) * LEAST;
    }
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_multiplying *const own = GOP_OWN(const gop_cl_multiplying, task->plan);
    const gop_cl_product_part part = gop_cl_matmul_part(own, step);
    const int64_t groups = part.batches * gop_cl_ceil(part.rows, own->down) *
                           gop_cl_ceil(part.columns, own->across);
    const int has_tile = own->down > 1; /* else groups are work-items */
    const gop_cl_launch l =
        gop_cl_matmul_launch(task, &part, has_tile ? groups * own->group : groups);
    return gop_cl_run(ctx, &l);
}

gop_status gop_cl_matmul_plan(const gop_ctx *ctx, const gop_task *task,
                              const gop_cl_names *names, int lanes, double slower,
                              const char *more, gop_plan *plan)
{
    const double work = (gop_cl_is_cpu(ctx) ? 2e9 : 4e11) / slower;
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    const gop_gemm *const g = &task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    if (g->batch_rank > MATMUL_AXES)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel '%s' takes %d batch axes that cannot be merged, this "
                        "call has %d",
                        names->row, MATMUL_AXES, g->batch_rank);
    if (dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128)
        GOP_TRY(gop_cl_need_double(ctx, "matmul", dtype));
    own->names = names;
    plan->launch = launch;
    snprintf(own->options, sizeof own->options, "-DBASE=%s -D%s -DSUM=%s -DLANES=%d%s",
             kinds[dtype].base, kinds[dtype].kind, kinds[dtype].sum, lanes, more);
    memset(&own->product, 0, sizeof own->product);
    own->product = (gop_cl_product){.m = g->m,
                                    .n = g->n,
                                    .k = g->k,
                                    .a_row = g->a_row,
                                    .a_col = g->a_col,
                                    .b_row = g->b_row,
                                    .b_col = g->b_col,
                                    .out_row = g->out_row,
                                    .out_col = g->out_col,
                                    .rank = g->batch_rank};
    for (int d = 0; d < g->batch_rank; d++) {
        own->product.extent[d] = g->extent[d];
        own->product.a[d] = g->a[d];
        own->product.b[d] = g->b[d];
        own->product.out[d] = g->out[d];
    }
    gop_cl_product_part *const part = &own->part;
    *part = (gop_cl_product_part){.batches = 1, .rows = g->m, .columns = g->n};
    cut(part, (double)g->k, work);
    own->batches = g->batches;
    const double one = (double)g->m * (double)g->n * (double)(g->k ? g->k : 1);
    while (part->batches < g->batches && 2.0 * (double)part->batches * one <= work)
        part->batches *= 2;
    if (part->batches > g->batches) part->batches = g->batches;
    plan->steps = gop_cl_ceil(g->batches, part->batches) * gop_cl_ceil(g->m, part->rows) *
                  gop_cl_ceil(g->n, part->columns);
    return GOP_OK;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

gop_cl_product_part gop_cl_matmul_part(const gop_cl_multiplying *own, int64_t step)
{
    const gop_cl_product_part *const p = &own->part;
    const int64_t across = gop_cl_ceil(own->product.n, p->columns);
    const int64_t down = gop_cl_ceil(own->product.m, p->rows);
    gop_cl_product_part part = *p;
    part.column = step % across * p->columns;
    part.row = step / across % down * p->rows;
    part.batch = step / (across * down) * p->batches;
    part.columns = smaller(p->columns, own->product.n - part.column);
    part.rows = smaller(p->rows, own->product.m - part.row);
    part.batches = smaller(p->batches, own->batches - part.batch);
    return part;
}

gop_cl_launch gop_cl_matmul_launch(const gop_task *task, const gop_cl_product_part *part,
                                   int64_t items)
{
    const gop_cl_multiplying *const own = GOP_OWN(const gop_cl_multiplying, task->plan);
    gop_cl_launch l = {
        .source = own->names->source,
        .kernel = own->names->kernel,
        .options = own->options,
        .dimensions = own->dimensions,
        .global = {(size_t)items, (size_t)own->group},
        .local = {(size_t)own->group, (size_t)own->group},
    };
    gop_cl_give(&l, &task->out[0], 1);
    gop_cl_give(&l, &task->in[0], 0);
    gop_cl_give(&l, &task->in[1], 0);
    GOP_CL_SAY(&l, own->product);
    GOP_CL_SAY(&l, *part);
    return l;
}

/* ---- the plans of rows ---- */

gop_status gop_cl_matmul_by_items(const gop_ctx *ctx, const gop_task *task,
                                  const gop_cl_names *names, gop_plan *plan)
{
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    own->group = gop_cl_group(ctx, (int)task->tune[0]);
    own->dimensions = own->down = own->across = 1;
    return gop_cl_matmul_plan(ctx, task, names, gop_cl_matmul_parts(task->in[0].dtype), 64, "",
                              plan);
}

gop_status gop_cl_matmul_by_tiles(const gop_ctx *ctx, const gop_task *task,
                                  const gop_cl_names *names, gop_plan *plan)
{
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    const int tile = (int)task->tune[0];
    char more[32];
    if (tile * tile > gop_cl_most_in_group(ctx))
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel '%s' takes work-groups of %d work-items here, but %s has at most "
            "%lld",
            names->row, tile * tile, gop_cl_device_name(ctx),
            (long long)gop_cl_most_in_group(ctx));
    own->dimensions = 2;
    own->group = own->down = own->across = tile;
    snprintf(more, sizeof more, " -DTILE=%d", tile);
    return gop_cl_matmul_plan(ctx, task, names, gop_cl_matmul_parts(task->in[0].dtype), 32,
                              more, plan);
}

/* Of 16 x 16 work-items; sums of 8 and 16 bytes are half as many a side. */
gop_status gop_cl_matmul_by_private_tiles(const gop_ctx *ctx, const gop_task *task,
                                          const gop_cl_names *names, gop_plan *plan)
{
    enum { DEPTH = 8, ACROSS = 16 };
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    const gop_dtype dtype = task->in[0].dtype;
    const int parts = gop_cl_matmul_parts(dtype), down = (int)task->tune[1];
    const int64_t bytes = gop_cl_matmul_sum(dtype) * parts;
    const int columns = bytes > 4 ? 4 : (int)task->tune[0];
    const int rows = bytes > 8 ? 4 : (int)task->tune[0];
    char more[128];
    own->dimensions = 1;
    own->group = down * ACROSS;
    own->down = rows * down;
    own->across = columns * ACROSS;
    const int64_t local = DEPTH * (own->down + own->across + 2) * bytes;
    if (own->group > gop_cl_most_in_group(ctx) || local > ctx->info.shared_per_block)
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel '%s' takes work-groups of %d work-items and %lld bytes of local "
            "memory here, but %s has at most %lld and %lld",
            names->row, own->group, (long long)local, gop_cl_device_name(ctx),
            (long long)gop_cl_most_in_group(ctx), (long long)ctx->info.shared_per_block);
    snprintf(more, sizeof more, " -DROWS=%d -DCOLUMNS=%d -DDOWN=%d -DACROSS=%d -DDEPTH=%d",
             rows, columns, down, ACROSS, DEPTH);
    return gop_cl_matmul_plan(ctx, task, names, parts, 8, more, plan);
}
