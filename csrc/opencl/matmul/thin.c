/*
 * thin.c - the plan of thin.cl.
 */
#include "opencl/matmul/product.h"

#include <stdio.h>

enum {
    VECTOR = 64, /* bytes of a vector of sums */
    STRIP = 64,
    SHORT = 8, /* vectors of a work-item, and where those would be too few */
    MOST = 3,  /* rows, or columns */
};

/* Whether rows are many, and a is what b is in the kernel. */
static int is_turned(const gop_task *task)
{
    return task->geometry.gemm.m > task->geometry.gemm.n;
}

#define SWAP(a, b)                                                                             \
    do {                                                                                       \
        const int64_t swap = a;                                                                \
        a = b;                                                                                 \
        b = swap;                                                                              \
    } while (0)

static void turn(gop_cl_multiplying *own)
{
    gop_cl_product *const p = &own->product;
    SWAP(p->m, p->n);
    SWAP(p->a_row, p->b_col);
    SWAP(p->a_col, p->b_row);
    SWAP(p->out_row, p->out_col);
    for (int d = 0; d < p->rank; d++) SWAP(p->a[d], p->b[d]);
    SWAP(own->part.rows, own->part.columns);
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_multiplying *const own = GOP_OWN(const gop_cl_multiplying, task->plan);
    const gop_cl_product_part part = gop_cl_matmul_part(own, step);
    const int turned = is_turned(task);
    gop_cl_launch l = gop_cl_matmul_launch(
        task, &part, part.batches * part.rows * gop_cl_ceil(part.columns, own->across));
    l.operand[1].array = &task->in[turned];
    l.operand[2].array = &task->in[!turned];
    return gop_cl_run(ctx, &l);
}

gop_status gop_cl_matmul_thin(const gop_ctx *ctx, const gop_task *task,
                              const gop_cl_names *names, gop_plan *plan)
{
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    const gop_gemm *const g = &task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    const int is_along = (is_turned(task) ? g->a_row : g->b_col) == 1;
    const int is_across = !is_along && (is_turned(task) ? g->a_col : g->b_row) == 1;
    const int lanes = is_along ? (int)(VECTOR / gop_cl_matmul_sum(dtype)) : gop_cl_block(dtype);
    const int64_t rows = g->m < g->n ? g->m : g->n, columns = g->m < g->n ? g->n : g->m;
    int strip = STRIP;
    char more[48];
    if ((g->m > MOST && g->n > MOST) || gop_cl_matmul_parts(dtype) == 2)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'thin' is for products of real numbers with at most %d "
                        "rows or columns",
                        MOST);
    while (strip > SHORT && g->batches * rows * gop_cl_ceil(columns, strip * lanes) <
                                2 * (int64_t)ctx->info.processors)
        strip /= 2;
    snprintf(more, sizeof more, " -DSTRIP=%d%s", strip,
             is_along    ? " -DALONG"
             : is_across ? " -DACROSS"
                         : "");
    own->dimensions = own->group = 1;
    own->across = strip * lanes;
    GOP_TRY(gop_cl_matmul_plan(ctx, task, names, lanes, 16, more, plan));
    plan->launch = launch;
    if (is_turned(task)) turn(own);
    return GOP_OK;
}
