/*
 * packed.c - the plan of packed.cl.
 */
#include "opencl/matmul/product.h"

#include <stdio.h>

enum {
    VECTOR = 64,    /* bytes of a vector of sums */
    PIECE = 256,    /* terms */
    BLOCK = 16,     /* panels of a */
    PANEL = 6,      /* rows of a panel of a; of complex numbers half as many */
    LEAST = 4,      /* rows and columns that are worth a panel */
    ROOM = 1 << 26, /* bytes of panels, unless one product takes more */
};

/* The struct that packed.cl declares for kernels. */
typedef struct gop_cl_packing {
    int64_t lines, width, k, first, line_apart, l_apart, batch, panels, is_b;
} gop_cl_packing;

static int rows_of(gop_dtype dtype)
{
    return PANEL / gop_cl_matmul_parts(dtype);
}

static int lanes_of(gop_dtype dtype)
{
    return (int)(VECTOR / gop_cl_matmul_sum(dtype));
}

/* Parts of sums in the panels of one product. */
static int64_t panel_parts(gop_dtype dtype, const gop_cl_product_part *part, int64_t k,
                           int is_b)
{
    const int64_t width = is_b ? lanes_of(dtype) : rows_of(dtype);
    return gop_cl_ceil(is_b ? part->columns : part->rows, width) * width *
           gop_cl_matmul_parts(dtype) * k;
}

static gop_status pack(gop_ctx *ctx, const gop_task *task, const gop_cl_product_part *part,
                       int is_b, const gop_array *panels, int64_t shift)
{
    const gop_cl_multiplying *const own = GOP_OWN(const gop_cl_multiplying, task->plan);
    const gop_cl_product *const p = &own->product;
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t width = is_b ? lanes_of(dtype) : rows_of(dtype);
    const int64_t lines = is_b ? part->columns : part->rows;
    const gop_cl_packing packing = {.lines = lines,
                                    .width = width,
                                    .k = p->k,
                                    .first = is_b ? part->column : part->row,
                                    .line_apart = is_b ? p->b_col : p->a_row,
                                    .l_apart = is_b ? p->b_row : p->a_col,
                                    .batch = part->batch,
                                    .panels = gop_cl_ceil(lines, width),
                                    .is_b = is_b};
    gop_cl_launch launch = {
        .source = own->names->source,
        .kernel = "matmul_pack_kernel",
        .options = own->options,
        .operands = 2,
        .operand = {{panels, 1}, {&task->in[is_b], 0}},
        .shift = {shift, 0},
        .values = 2,
        .value = {{sizeof *p, p}, {sizeof packing, &packing}},
        .dimensions = 1,
        .global = {(size_t)(part->batches * packing.panels * gop_cl_ceil(p->k, PIECE))},
        .local = {1},
    };
    return gop_cl_run(ctx, &launch);
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_multiplying *const own = GOP_OWN(const gop_cl_multiplying, task->plan);
    const gop_cl_product_part part = gop_cl_matmul_part(own, step);
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t sum = gop_cl_matmul_sum(dtype), rows = rows_of(dtype);
    const int64_t blocks = gop_cl_ceil(gop_cl_ceil(part.rows, rows), BLOCK);
    const gop_array panels =
        gop_cl_in_scratch(task->scratch, 0, sum == 4 ? GOP_FLOAT32 : GOP_FLOAT64,
                          (int64_t)task->plan->scratch / sum);
    gop_cl_launch l = gop_cl_matmul_launch(
        task, &part, part.batches * blocks * gop_cl_ceil(part.columns, lanes_of(dtype)));
    l.operands = 2;
    l.operand[1].array = &panels;
    if (own->product.k > 0) {
        GOP_TRY(pack(ctx, task, &part, 0, &panels, 0));
        GOP_TRY(pack(ctx, task, &part, 1, &panels,
                     part.batches * panel_parts(dtype, &part, own->product.k, 0)));
    }
    return gop_cl_run(ctx, &l);
}

gop_status gop_cl_matmul_packed(const gop_ctx *ctx, const gop_task *task,
                                const gop_cl_names *names, gop_plan *plan)
{
    gop_cl_multiplying *const own = GOP_OWN(gop_cl_multiplying, plan);
    const gop_gemm *const g = &task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    char more[32];
    if (g->m < LEAST || g->n < LEAST)
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'packed' is for products of %d rows and columns or more, "
            "this one has %lld and %lld",
            LEAST, (long long)g->m, (long long)g->n);
    own->dimensions = own->group = 1;
    snprintf(more, sizeof more, " -DROWS=%d", rows_of(dtype));
    GOP_TRY(gop_cl_matmul_plan(ctx, task, names, lanes_of(dtype), 1, more, plan));
    const int64_t each =
        panel_parts(dtype, &own->part, g->k, 0) + panel_parts(dtype, &own->part, g->k, 1);
    const int64_t bytes = (each ? each : 1) * gop_cl_matmul_sum(dtype);
    if (own->part.batches > 1 && own->part.batches * bytes > ROOM) {
        own->part.batches = ROOM / bytes > 1 ? ROOM / bytes : 1;
        plan->steps = gop_cl_ceil(own->batches, own->part.batches) *
                      gop_cl_ceil(g->m, own->part.rows) * gop_cl_ceil(g->n, own->part.columns);
    }
    plan->scratch = (size_t)(own->part.batches * bytes);
    plan->launch = launch;
    return GOP_OK;
}
