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

double gop_cl_matmul_work(const gop_ctx *ctx, double slower)
{
    return (gop_cl_is_cpu(ctx) ? 2e9 : 4e11) / slower;
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

gop_status gop_cl_matmul_plan(const gop_ctx *ctx, const gop_task *task, const char *kernel,
                              int lanes, double work, const char *more, gop_plan *plan)
{
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    const gop_gemm *const g = &task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    if (g->batch_rank > MATMUL_AXES)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel '%s' takes %d batch axes that cannot be merged, this "
                        "call has %d",
                        kernel, MATMUL_AXES, g->batch_rank);
    if (dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128)
        GOP_TRY(gop_cl_need_double(ctx, "matmul", dtype));
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
                                   const char *source, const char *kernel, int64_t items,
                                   int group)
{
    const gop_cl_multiplying *const own = GOP_OWN(const gop_cl_multiplying, task->plan);
    return (gop_cl_launch){
        .source = source,
        .kernel = kernel,
        .options = own->options,
        .operands = 3,
        .operand = {{&task->out[0], 1}, {&task->in[0], 0}, {&task->in[1], 0}},
        .values = 2,
        .value = {{sizeof own->product, &own->product}, {sizeof *part, part}},
        .dimensions = 1,
        .global = {(size_t)items},
        .local = {(size_t)group},
    };
}

gop_status gop_cl_matmul_run(gop_ctx *ctx, const gop_task *task, int64_t step,
                             const char *source, const char *kernel, int dimensions)
{
    const gop_cl_multiplying *const own = GOP_OWN(const gop_cl_multiplying, task->plan);
    const gop_cl_product_part part = gop_cl_matmul_part(own, step);
    const int64_t groups = part.batches * gop_cl_ceil(part.rows, own->down) *
                           gop_cl_ceil(part.columns, own->across);
    gop_cl_launch launch =
        gop_cl_matmul_launch(task, &part, source, kernel, groups * own->group, own->group);
    launch.dimensions = dimensions;
    launch.global[1] = launch.local[1] = (size_t)own->group;
    return gop_cl_run(ctx, &launch);
}
