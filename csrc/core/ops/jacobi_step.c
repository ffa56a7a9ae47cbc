/*
 * jacobi_step.c - what jacobi_step accepts: dense or CSR matrices, one or many right-hand
 * sides.
 *
 *     s = A x;   out = x + alpha (s - f)   or, without alpha,   out = x + omega (f - s) / d
 *
 * d is the diagonal of A. The optional second output is the residual f - s at x.
 */
#include <inttypes.h>
#include <string.h>

#include "core/host/memory.h"
#include "core/ops/csr.h"
#include "core/ops/unchecked.h"

static int is_csr(const gop_call *call)
{
    return call->params.jacobi_step.csr;
}

static int is_stencil(const gop_call *call)
{
    return call->params.jacobi_step.grid.axes > 0;
}

/* Operands of the call: the matrix takes one array, or three as CSR. */
static const gop_array *operand_f(const gop_call *call)
{
    return &call->in[is_csr(call) ? 3 : 1];
}

static const gop_array *operand_x(const gop_call *call)
{
    return &call->in[is_csr(call) ? 4 : 2];
}

/* ---- infer ---- */

static gop_status infer_dtypes(const gop_call *call)
{
    const gop_jacobi_step_params *params = &call->params.jacobi_step;
    const gop_dtype dtype = call->in[0].dtype;
    if (dtype != GOP_FLOAT32 && dtype != GOP_FLOAT64 && dtype != GOP_COMPLEX64 &&
        dtype != GOP_COMPLEX128)
        return gop_fail(GOP_BAD_TYPE,
                        "jacobi_step: expected float32, float64, complex64 or complex128, "
                        "got %s",
                        gop_dtype_name(dtype));
    if (operand_f(call)->dtype != dtype || operand_x(call)->dtype != dtype)
        return gop_fail(GOP_BAD_TYPE,
                        "jacobi_step: expected A, f and x of one dtype, got %s, %s and %s",
                        gop_dtype_name(dtype), gop_dtype_name(operand_f(call)->dtype),
                        gop_dtype_name(operand_x(call)->dtype));
    const gop_scalar factor = params->has_alpha ? params->alpha : params->omega;
    if (gop_dtype_kind(dtype) != 'c' && factor.f[1] != 0.0)
        return gop_fail(GOP_BAD_TYPE, "jacobi_step: %s is complex, but the arrays are %s",
                        params->has_alpha ? "alpha" : "omega", gop_dtype_name(dtype));
    return GOP_OK;
}

static gop_status infer_dense(const gop_call *call, int64_t *n)
{
    char text[256];
    const gop_array *a = &call->in[0];
    if (a->ndim != 2 || a->shape[0] != a->shape[1])
        return gop_fail(GOP_BAD_ARGUMENT,
                        "jacobi_step: expected a square matrix A, got an array of shape %s",
                        gop_shape_text(text, a->ndim, a->shape));
    *n = a->shape[0];
    return GOP_OK;
}

/* One of the three arrays of a CSR matrix: contiguous, since the kernels walk them by position.
 */
static gop_status infer_csr_part(const gop_array *part, const char *name)
{
    char text[256];
    if (part->ndim != 1)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "jacobi_step: expected %s of the CSR matrix A to be 1-dimensional, "
                        "got shape %s",
                        name, gop_shape_text(text, part->ndim, part->shape));
    if (part->shape[0] > 1 && part->strides[0] != gop_dtype_size(part->dtype))
        return gop_fail(GOP_BAD_ARGUMENT,
                        "jacobi_step: expected %s of the CSR matrix A to be contiguous, got a "
                        "stride of %" PRId64 " bytes",
                        name, part->strides[0]);
    return GOP_OK;
}

static gop_status infer_csr(const gop_call *call, int64_t *n)
{
    const gop_jacobi_step_params *params = &call->params.jacobi_step;
    const gop_array *data = &call->in[0], *indices = &call->in[1], *indptr = &call->in[2];
    if (params->n < 0 || params->n != params->columns)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "jacobi_step: expected a square matrix A, got a CSR matrix of shape "
                        "(%" PRId64 ", %" PRId64 ")",
                        params->n, params->columns);
    GOP_TRY(infer_csr_part(data, "data"));
    GOP_TRY(infer_csr_part(indices, "indices"));
    GOP_TRY(infer_csr_part(indptr, "indptr"));
    if (indices->dtype != indptr->dtype ||
        (indices->dtype != GOP_INT32 && indices->dtype != GOP_INT64))
        return gop_fail(
            GOP_BAD_TYPE,
            "jacobi_step: expected indices and indptr of the CSR matrix A to be both "
            "int32 or both int64, got %s and %s",
            gop_dtype_name(indices->dtype), gop_dtype_name(indptr->dtype));
    if (indptr->shape[0] - 1 != params->n)
        return gop_fail(
            GOP_BAD_ARGUMENT,
            "jacobi_step: expected indptr of length n + 1 for the CSR matrix A with "
            "n = %" PRId64 " rows, got length %" PRId64,
            params->n, indptr->shape[0]);
    if (indices->shape[0] != data->shape[0])
        return gop_fail(
            GOP_BAD_ARGUMENT,
            "jacobi_step: expected indices and data of the CSR matrix A to have one "
            "length, got %" PRId64 " and %" PRId64,
            indices->shape[0], data->shape[0]);
    *n = params->n;
    return GOP_OK;
}

static gop_status infer_stencil(const gop_call *call, int64_t *n)
{
    char text[256];
    const gop_lattice *grid = &call->params.jacobi_step.grid;
    const gop_array *a = &call->in[0];
    if (grid->axes > GOP_MAX_LATTICE || grid->bc < 0)
        return gop_fail(
            GOP_BAD_ARGUMENT,
            "jacobi_step: expected a stencil on a grid of 1 to %d axes with a known "
            "boundary, got %d axes",
            GOP_MAX_LATTICE, grid->axes);
    for (int d = 0; d < grid->axes; d++)
        if (grid->extent[d] < 0)
            return gop_fail(GOP_BAD_ARGUMENT, "jacobi_step: an extent of the grid is %" PRId64,
                            grid->extent[d]);
    GOP_TRY(gop_shape_size("jacobi_step", grid->axes, grid->extent, n));
    const int constant = a->ndim == 1;
    if ((!constant && a->ndim != 2) || a->shape[0] != 2 * grid->axes + 1 ||
        (!constant && a->shape[1] != *n))
        return gop_fail(
            GOP_BAD_ARGUMENT,
            "jacobi_step: expected %d coefficients of the stencil, or as many arrays "
            "of n = %" PRId64 ", got shape %s",
            2 * grid->axes + 1, *n, gop_shape_text(text, a->ndim, a->shape));
    return GOP_OK;
}

static gop_status infer_vector(const gop_array *vector, const char *name, int64_t n)
{
    char text[256];
    if ((vector->ndim != 1 && vector->ndim != 2) || vector->shape[0] != n)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "jacobi_step: expected %s of shape (n,) or (n, k) with n = %" PRId64
                        ", the rows of A, got shape %s",
                        name, n, gop_shape_text(text, vector->ndim, vector->shape));
    return GOP_OK;
}

static gop_status infer_diagonal(const gop_array *diagonal, gop_dtype dtype, int64_t n)
{
    char text[256];
    if (diagonal->dtype != dtype || diagonal->ndim != 1 || diagonal->shape[0] != n)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "jacobi_step: expected the diagonal of A as %s of shape (%" PRId64
                        ",), got %s of shape %s",
                        gop_dtype_name(dtype), n, gop_dtype_name(diagonal->dtype),
                        gop_shape_text(text, diagonal->ndim, diagonal->shape));
    return infer_csr_part(diagonal, "the diagonal");
}

static gop_status jacobi_step_infer(const gop_call *call, gop_array *out)
{
    const int diagonal = call->params.jacobi_step.diagonal;
    const int operands = (is_csr(call) ? 5 : 3) + (diagonal > 0);
    if (call->nin != operands)
        return gop_fail(GOP_BAD_ARGUMENT, "jacobi_step: expected %d inputs, got %d", operands,
                        call->nin);
    int64_t n = 0;
    GOP_TRY(infer_dtypes(call));
    if (is_stencil(call)) GOP_TRY(infer_stencil(call, &n));
    else GOP_TRY(is_csr(call) ? infer_csr(call, &n) : infer_dense(call, &n));
    const gop_array *f = operand_f(call), *x = operand_x(call);
    if (diagonal > 0) GOP_TRY(infer_diagonal(&call->in[diagonal], call->in[0].dtype, n));
    GOP_TRY(infer_vector(f, "f", n));
    GOP_TRY(infer_vector(x, "x", n));
    if (f->ndim != x->ndim || (f->ndim == 2 && f->shape[1] != x->shape[1])) {
        char f_text[256], x_text[256];
        return gop_fail(GOP_BAD_ARGUMENT,
                        "jacobi_step: expected f and x of one shape, got %s and %s",
                        gop_shape_text(f_text, f->ndim, f->shape),
                        gop_shape_text(x_text, x->ndim, x->shape));
    }
    for (int o = 0; o < call->nout; o++) {
        out[o].dtype = x->dtype;
        out[o].ndim = x->ndim;
        memcpy(out[o].shape, x->shape, sizeof out[o].shape);
    }
    return GOP_OK;
}

/* ---- check: the CSR structure and the diagonal, where they lie or on the host ---- */

/* Where the diagonal of a matrix goes that is looked at now; or NULL. */
static void *diagonal_to_fill(const gop_call *call)
{
    const gop_array *diagonal = &call->in[call->params.jacobi_step.diagonal];
    return diagonal != call->in && gop_array_on_host(diagonal) ? diagonal->data : NULL;
}

/* Declared in core.h: a check where the data lies, after what is enqueued there. */
gop_status gop_check_in_place(const gop_call *call, int count, int *is_well, int64_t *finding)
{
    const gop_device where = call->in[0].where;
    gop_ctx *ctx;
    *is_well = 0;
    for (int i = 0; i < count; i++) {
        const gop_array *a = &call->in[i];
        if (gop_array_on_host(a) || a->where.backend != where.backend ||
            a->where.ordinal != where.ordinal || !gop_array_is_item_aligned(a))
            return GOP_OK;
    }
    GOP_TRY(gop_context_of(where, &ctx));
    if (!ctx->backend->check) return GOP_OK;
    void *const before = gop_use_stream(ctx, GOP_DEFAULT_STREAM);
    const gop_status status = ctx->backend->check(ctx, call, is_well, finding);
    gop_use_stream(ctx, before);
    return status;
}

static gop_status jacobi_step_check(const gop_call *call, gop_arena *arena)
{
    const gop_jacobi_step_params *params = &call->params.jacobi_step;
    gop_array data, indices, indptr;
    int is_well = 0;
    if (arena->finding < 0) return GOP_OK; /* its kernels check */
    if (params->checked) arena->finding = params->longest;
    if (params->checked || is_stencil(call)) return GOP_OK;
    if (!params->csr && params->has_alpha) return GOP_OK;
    GOP_TRY(gop_check_in_place(call, params->csr ? 3 : 1, &is_well, &arena->finding));
    if (is_well) return GOP_OK;
    if (params->csr) {
        GOP_TRY(gop_arena_host(arena, &call->in[1], &indices));
        GOP_TRY(gop_arena_host(arena, &call->in[2], &indptr));
        if (!params->has_alpha) GOP_TRY(gop_arena_host(arena, &call->in[0], &data));
        return gop_csr_check("jacobi_step", params->has_alpha ? NULL : &data, &indices, &indptr,
                             params->n, diagonal_to_fill(call), &arena->finding);
    }
    data = call->in[0]; /* a view: one stride goes down and right at once */
    data.ndim = 1;
    data.strides[0] = call->in[0].strides[0] + call->in[0].strides[1];
    GOP_TRY(gop_arena_host(arena, &data, &indices));
    return gop_diagonal_check("jacobi_step", &indices);
}

/* ---- plan ---- */

/* Element strides of a vector or a block of columns; an axis it lacks has stride 0. */
static void plan_vector(const gop_array *array, int64_t *row, int64_t *col)
{
    const int64_t size = gop_dtype_size(array->dtype);
    *row = array->strides[0] / size;
    *col = array->ndim == 2 ? array->strides[1] / size : 0;
}

static gop_status jacobi_step_plan(gop_task *task)
{
    gop_jacobi *g = &task->geometry.jacobi;
    const gop_array *a = &task->in[0];
    const int csr = is_csr(task->call);
    const gop_array *f = &task->in[csr ? 3 : 1], *x = &task->in[csr ? 4 : 2];
    memset(g, 0, sizeof *g);
    g->n = x->shape[0];
    g->k = x->ndim == 2 ? x->shape[1] : 1;
    if (is_stencil(task->call)) {
        const int64_t size = gop_dtype_size(a->dtype);
        g->a_row = a->strides[0] / size;
        g->a_col = a->ndim == 2 ? a->strides[1] / size : 0;
    } else if (csr) g->index64 = task->in[1].dtype == GOP_INT64;
    else plan_vector(a, &g->a_row, &g->a_col);
    plan_vector(f, &g->f_row, &g->f_col);
    plan_vector(x, &g->x_row, &g->x_col);
    plan_vector(&task->out[0], &g->out_row, &g->out_col);
    if (task->nout == 2) plan_vector(&task->out[1], &g->residual_row, &g->residual_col);
    return GOP_OK;
}

/* A multiply and an add per stored term and column; 4 of the updates' operations per item. */
static double jacobi_step_flops(const gop_task *task)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int axes = task->call->params.jacobi_step.grid.axes;
    const double terms = axes                 ? (double)g->n * (2 * axes + 1)
                         : is_csr(task->call) ? (double)gop_array_size(&task->in[0])
                                              : (double)g->n * (double)g->n;
    const double real = 2.0 * terms * (double)g->k + 4.0 * (double)g->n * (double)g->k;
    return gop_dtype_kind(task->in[0].dtype) == 'c' ? 4.0 * real : real;
}

/* Items of A. */
static double jacobi_step_work(const gop_call *call)
{
    if (is_stencil(call)) return 7.0 * (double)gop_array_size(operand_x(call));
    return (double)gop_array_size(&call->in[0]);
}

const gop_descriptor gop_describe_jacobi_step = {
    .name = "jacobi_step",
    .stem = "jacobi_step",
    .infer = jacobi_step_infer,
    .check = jacobi_step_check,
    .defer = gop_csr_defer,
    .begin = gop_csr_begin,
    .end = gop_csr_end,
    .plan = jacobi_step_plan,
    .flops = jacobi_step_flops,
    .work = jacobi_step_work,
    .outputs = 2,
};
