/*
 * rows.h - matmul by rows of the output, some rows per step; and one multiply-add.
 */
#ifdef D

static inline A FN(madd)(A x, A y, A sum)
{
#if IS_BOOL
    return (A)(sum | (x & y));
#elif IS_INT
    return (A)((uint64_t)sum + (uint64_t)x * (uint64_t)y);
#elif IS_FLOAT
    return sizeof(A) == 4 ? (A)fmaf((float)x, (float)y, (float)sum) : (A)fma(x, y, sum);
#else
    sum.re = FN(madd_part)(x.re, y.re, sum.re);
    sum.re = FN(madd_part)(-x.im, y.im, sum.re);
    sum.im = FN(madd_part)(x.re, y.im, sum.im);
    sum.im = FN(madd_part)(x.im, y.re, sum.im);
    return sum;
#endif
}

#elif !defined(GOP_CPU_MATMUL_ROWS_H)
#define GOP_CPU_MATMUL_ROWS_H

#include "cpu/matmul/registers.h"

static inline float madd_part_complex64(float x, float y, float sum)
{
    return fmaf(x, y, sum);
}
static inline double madd_part_complex128(double x, double y, double sum)
{
    return fma(x, y, sum);
}

#define GOP_TPL "cpu/matmul/rows.h"
#include "cpu/runtime/each_dtype.inc"

/* Computes the offsets of one product of the batch. */
static void batch_offsets(const gop_gemm *g, int64_t batch, int64_t *a, int64_t *b,
                          int64_t *out)
{
    int64_t index[GOP_MAX_NDIM];
    gop_unravel(batch, g->batch_rank, g->extent, index);
    *a = gop_offset(g->batch_rank, index, g->a);
    *b = gop_offset(g->batch_rank, index, g->b);
    *out = gop_offset(g->batch_rank, index, g->out);
}

/* Walks through the offsets of a batch's products. */
typedef struct walk {
    int64_t batch, inner;
    int64_t offset[3]; /* a, b, out */
} walk;

static walk walk_from(const gop_gemm *g, int64_t batch)
{
    walk at = {.batch = batch};
    batch_offsets(g, batch, &at.offset[0], &at.offset[1], &at.offset[2]);
    at.inner = g->batch_rank ? batch % g->extent[g->batch_rank - 1] : 0;
    return at;
}

static inline void walk_on(const gop_gemm *g, walk *at)
{
    const int last = g->batch_rank - 1;
    if (last >= 0 && ++at->inner < g->extent[last]) {
        at->batch++;
        at->offset[0] += g->a[last], at->offset[1] += g->b[last], at->offset[2] += g->out[last];
    } else {
        *at = walk_from(g, at->batch + 1);
    }
}

/* Extents and strides of a product, or of out^T = b^T a^T, where a and b are swapped. */
typedef struct sides {
    int64_t m, n, k, a_row, a_col, b_row, b_col, out_row, out_col;
    int is_swapped; /* out^T = b^T a^T is computed */
} sides;

static sides sides_of(const gop_gemm *g, int is_swapped)
{
    if (is_swapped)
        return (sides){.m = g->n,
                       .n = g->m,
                       .k = g->k,
                       .a_row = g->b_col,
                       .a_col = g->b_row,
                       .b_row = g->a_col,
                       .b_col = g->a_row,
                       .out_row = g->out_col,
                       .out_col = g->out_row,
                       .is_swapped = 1};
    return (sides){.m = g->m,
                   .n = g->n,
                   .k = g->k,
                   .a_row = g->a_row,
                   .a_col = g->a_col,
                   .b_row = g->b_row,
                   .b_col = g->b_col,
                   .out_row = g->out_row,
                   .out_col = g->out_col};
}

/* Rows per step, over all products of the batch: under 100 ms at a slow estimate. */
static int64_t step_rows(const gop_gemm *g)
{
    const double row = (double)g->n * (double)g->k;
    return row < 0x1p24 ? (int64_t)(0x1p24 / (row + 1)) + 1 : 1;
}

static gop_status plan_rows(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    (void)ctx;
    const gop_gemm *g = &task->geometry.gemm;
    const int64_t per = step_rows(g);
    plan->steps = (g->batches * g->m + per - 1) / per;
    return GOP_OK;
}

/* Checks for Ctrl-C if the coming `work` makes enough since the last check: about 20 ms at a
 * slow estimate. A row of the output can be arbitrarily long. */
enum { LOOK_TERMS = 1 << 18 };
static inline gop_status look_after(int64_t work, int64_t *since)
{
    if ((*since += work) <= 4 * LOOK_TERMS) return GOP_OK;
    *since = 0;
    return gop_interrupted();
}

typedef gop_status (*panel_fn)(const gop_gemm *, const void *, const void *, void *, int64_t,
                               int64_t);

static gop_status each_panel(const gop_task *task, int64_t step, panel_fn multiply)
{
    const gop_gemm *g = &task->geometry.gemm;
    const int64_t item = gop_dtype_size(task->out[0].dtype);
    const int64_t rows = g->batches * g->m, per = step_rows(g);
    GOP_TRY(gop_interrupted());
    int64_t row = step * per;
    const int64_t end = rows - row < per ? rows : row + per;
    while (row < end) {
        int64_t a, b, out;
        batch_offsets(g, row / g->m, &a, &b, &out);
        const int64_t i = row % g->m, left = end - row;
        const int64_t i_end = g->m - i < left ? g->m : i + left;
        GOP_TRY(multiply(g, (const char *)task->in[0].data + a * item,
                         (const char *)task->in[1].data + b * item,
                         (char *)task->out[0].data + out * item, i, i_end));
        row += i_end - i;
    }
    return GOP_OK;
}

#endif
