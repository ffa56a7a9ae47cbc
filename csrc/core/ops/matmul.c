/*
 * matmul.c - np.matmul's meaning: shapes, broadcasting of batches, 1-D promotion, and geometry.
 */
#include "core/core.h"

enum { A, B, OPERANDS };

static const char *const NAMES[OPERANDS] = {"a", "b"};

const char *gop_precision_name(gop_precision precision)
{
    static const char *const names[GOP_NPRECISION] = {"highest", "fast", "tf32", "bf16"};
    return names[precision];
}

/* An operand as a stack of matrices: a 1-D `a` is one row, a 1-D `b` one column. */
typedef struct stack {
    int batch_ndim;
    int vector;
    int64_t rows, cols, row_stride, col_stride; /* strides in bytes */
} stack;

static stack stack_of(const gop_array *array, int operand)
{
    const int ndim = array->ndim;
    stack s = {0};
    if (ndim == 1) {
        s.vector = 1;
        s.rows = s.cols = 1;
        *(operand == A ? &s.cols : &s.rows) = array->shape[0];
        *(operand == A ? &s.col_stride : &s.row_stride) = array->strides[0];
        return s;
    }
    s.batch_ndim = ndim - 2;
    s.rows = array->shape[ndim - 2];
    s.cols = array->shape[ndim - 1];
    s.row_stride = array->strides[ndim - 2];
    s.col_stride = array->strides[ndim - 1];
    return s;
}

/* Broadcasts the batch axes of both operands into out's shape. */
static gop_status infer_batch(const gop_array *a, const gop_array *b, int a_batch, int b_batch,
                              gop_array *out)
{
    char a_text[256], b_text[256];
    const int ndim = a_batch > b_batch ? a_batch : b_batch;
    for (int axis = 0; axis < ndim; axis++) {
        const int in_a = axis - (ndim - a_batch), in_b = axis - (ndim - b_batch);
        const int64_t of_a = in_a >= 0 ? a->shape[in_a] : 1;
        const int64_t of_b = in_b >= 0 ? b->shape[in_b] : 1;
        if (of_a != of_b && of_a != 1 && of_b != 1)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "matmul: the batch axes of a with shape %s and b with shape %s "
                            "cannot be broadcast together: %lld against %lld",
                            gop_shape_text(a_text, a->ndim, a->shape),
                            gop_shape_text(b_text, b->ndim, b->shape), (long long)of_a,
                            (long long)of_b);
        out->shape[axis] = of_a == 1 ? of_b : of_a;
    }
    out->ndim = ndim;
    return GOP_OK;
}

static gop_status matmul_infer(const gop_call *call, gop_array *out)
{
    if (call->nin != 2)
        return gop_fail(GOP_BAD_ARGUMENT, "matmul: takes two operands, %d were given",
                        call->nin);
    const gop_array *a = &call->in[A], *b = &call->in[B];
    if (a->dtype != b->dtype)
        return gop_fail(GOP_BAD_TYPE, "matmul: operands must have one dtype, not %s and %s",
                        gop_dtype_name(a->dtype), gop_dtype_name(b->dtype));
    for (int operand = A; operand < OPERANDS; operand++)
        if (call->in[operand].ndim == 0)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "matmul: operand %s has 0 dimensions, at least 1 is needed; "
                            "multiply by a number with gpuops.multiply_add(a, b, 0)",
                            NAMES[operand]);
    if ((unsigned)call->params.matmul.precision >= GOP_NPRECISION)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "matmul: precision is number %d, expected one from 0 to %d",
                        (int)call->params.matmul.precision, GOP_NPRECISION - 1);

    const stack as = stack_of(a, A), bs = stack_of(b, B);
    if (as.cols != bs.rows) {
        char a_text[256], b_text[256];
        return gop_fail(GOP_BAD_ARGUMENT,
                        "matmul: a with shape %s and b with shape %s do not fit: axis %d of a "
                        "has %lld elements, axis %d of b has %lld",
                        gop_shape_text(a_text, a->ndim, a->shape),
                        gop_shape_text(b_text, b->ndim, b->shape), a->ndim - 1,
                        (long long)as.cols, bs.vector ? 0 : b->ndim - 2, (long long)bs.rows);
    }
    GOP_TRY(infer_batch(a, b, as.batch_ndim, bs.batch_ndim, out));
    if (!as.vector) out->shape[out->ndim++] = as.rows;
    if (!bs.vector) out->shape[out->ndim++] = bs.cols;
    out->dtype = a->dtype;
    return GOP_OK;
}

/* ---- geometry ---- */

static int64_t elements(int64_t bytes, int64_t extent, int64_t item)
{
    return extent > 1 ? bytes / item : 0; /* a single element's stride means nothing */
}

/* The stride of output batch axis `axis` in an operand whose batch axes end where out's do. */
static int64_t batch_stride(const gop_array *array, int batch_ndim, int axis, int out_batch,
                            int64_t item)
{
    const int own = axis - (out_batch - batch_ndim);
    return own < 0 ? 0 : elements(array->strides[own], array->shape[own], item);
}

/* If b is the same along the innermost batch axis, and a and out continue as if by more rows,
 * the axis becomes rows: one large product is faster than many small ones. The same with a and
 * columns. The order over l, hence every bit, stays. */
static void fold_batch(gop_gemm *g)
{
    while (g->batch_rank > 0) {
        const int last = g->batch_rank - 1;
        const int64_t extent = g->extent[last];
        const int rows =
            g->m == 1 || (g->a[last] == g->m * g->a_row && g->out[last] == g->m * g->out_row);
        const int cols =
            g->n == 1 || (g->b[last] == g->n * g->b_col && g->out[last] == g->n * g->out_col);
        if (g->b[last] == 0 && rows) {
            if (g->m == 1) g->a_row = g->a[last], g->out_row = g->out[last];
            g->m *= extent;
        } else if (g->a[last] == 0 && cols) {
            if (g->n == 1) g->b_col = g->b[last], g->out_col = g->out[last];
            g->n *= extent;
        } else {
            return;
        }
        g->batch_rank = last;
        g->batches /= extent;
    }
}

static gop_status matmul_plan(gop_task *task)
{
    const gop_array *a = &task->in[A], *b = &task->in[B], *out = &task->out[0];
    const stack as = stack_of(a, A), bs = stack_of(b, B);
    const int64_t item = gop_dtype_size(out->dtype);
    const int out_batch = as.batch_ndim > bs.batch_ndim ? as.batch_ndim : bs.batch_ndim;
    gop_gemm *g = &task->geometry.gemm;

    g->m = as.rows;
    g->n = bs.cols;
    g->k = as.cols;
    g->a_row = elements(as.row_stride, as.rows, item);
    g->a_col = elements(as.col_stride, as.cols, item);
    g->b_row = elements(bs.row_stride, bs.rows, item);
    g->b_col = elements(bs.col_stride, bs.cols, item);
    g->out_row = as.vector ? 0 : elements(out->strides[out_batch], as.rows, item);
    g->out_col = bs.vector ? 0 : elements(out->strides[out->ndim - 1], bs.cols, item);

    g->batches = 1;
    for (int axis = 0; axis < out_batch; axis++) {
        g->extent[axis] = out->shape[axis];
        g->batches *= out->shape[axis];
        g->a[axis] = batch_stride(a, as.batch_ndim, axis, out_batch, item);
        g->b[axis] = batch_stride(b, bs.batch_ndim, axis, out_batch, item);
        g->out[axis] = elements(out->strides[axis], out->shape[axis], item);
    }
    if (g->batches == 0 || g->m == 0 || g->n == 0) { /* nothing to write: no kernel looks on */
        g->batch_rank = 0;
        g->batches = 0;
        return GOP_OK;
    }
    int64_t *const strides[3] = {g->out, g->a, g->b};
    g->batch_rank = gop_merge_axes(out_batch, g->extent, 3, strides);
    fold_batch(g);
    return GOP_OK;
}

static double matmul_flops(const gop_task *task)
{
    const gop_gemm *g = &task->geometry.gemm;
    const double each = gop_dtype_kind(task->out[0].dtype) == 'c' ? 8.0 : 2.0;
    return each * (double)g->batches * (double)g->m * (double)g->n * (double)g->k;
}

/* The order of a float's additions is a kernel's own. */
static int matmul_bits_vary(const gop_task *task)
{
    const char kind = gop_dtype_kind(task->in[0].dtype);
    return kind == 'f' || kind == 'c';
}

/* A batch axis is both operands' if they have it, rows are a's and columns are b's. */
static int matmul_axis_of(const gop_call *call, int i, int axis)
{
    const gop_array *a = &call->in[A], *b = &call->in[B], *in = &call->in[i];
    const stack as = stack_of(a, A), bs = stack_of(b, B), own = i == A ? as : bs;
    const int batch = as.batch_ndim > bs.batch_ndim ? as.batch_ndim : bs.batch_ndim;
    if (axis >= batch)
        return i == (axis == batch && !as.vector ? A : B) ? in->ndim - 2 + i : -1;
    const int at = axis - (batch - own.batch_ndim);
    return at < 0 || in->shape[at] == 1 ? -1 : at;
}

/* Multiply-adds. */
static double matmul_work(const gop_call *call)
{
    const gop_array *a = &call->in[0], *b = &call->in[1];
    const int64_t n = call->nin > 1 && b->ndim > 1 ? b->shape[b->ndim - 1] : 1;
    return (double)gop_array_size(a) * (double)n;
}

static gop_precision matmul_precision(const gop_call *call)
{
    return call->params.matmul.precision;
}

const gop_descriptor gop_describe_matmul = {
    .name = "matmul",
    .stem = "matmul",
    .infer = matmul_infer,
    .plan = matmul_plan,
    .flops = matmul_flops,
    .work = matmul_work,
    .outputs = 1,
    .bits_vary = matmul_bits_vary,
    .precision = matmul_precision,
    .axis_of = matmul_axis_of,
};
