/*
 * system.c - the operands of a launch of jacobi_step, and the plan of its slices.
 */
#include "opencl/jacobi_step/system.h"

#include <stdio.h>

/* As system.cl has it. */
typedef struct system_of {
    int64_t n, k, a_row, a_col, f_row, f_col, x_row, x_col, out_row, out_col, residual_row,
        residual_col, stored, first, last, extent[GOP_MAX_LATTICE];
    int32_t has_residual, each;
} system_of;

static int is_double(gop_dtype dtype)
{
    return dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128;
}

static int is_complex(gop_dtype dtype)
{
    return dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128;
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step);

gop_status gop_cl_step_plan(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                            const char *more, gop_plan *plan)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    gop_cl_step *const own = GOP_OWN_OF_STEP(gop_cl_step, plan);
    char what[64] = "-DDENSE";
    own->names = names;
    plan->launch = launch;
    if (is_double(dtype)) GOP_TRY(gop_cl_need_double(ctx, "jacobi_step", dtype));
    if (!p->has_alpha) GOP_TRY(gop_cl_need_quotients(ctx, "jacobi_step", dtype));
    if (p->csr) snprintf(what, sizeof what, "-DCSR -DINDEX=%s", g->index64 ? "long" : "int");
    else if (p->grid.axes)
        snprintf(what, sizeof what, "-DAXES=%d -DBOUNDARY=%d", p->grid.axes, p->grid.bc);
    snprintf(own->options, GOP_CL_OPTIONS, "-DBASE=%s -DLANES=1%s %s%s%s%s",
             is_double(dtype) ? "double -DDOUBLE" : "float",
             is_complex(dtype) ? " -DCOMPLEX" : "", what, p->has_alpha ? " -DALPHA" : "",
             p->has_alpha ? "" : gop_cl_quotients(ctx), more);
    const double terms = p->csr         ? (double)task->in[0].shape[0]
                         : p->grid.axes ? (double)g->n * (2 * p->grid.axes + 1)
                                        : (double)g->n * (double)g->n;
    const double steps = terms * (double)g->k / (gop_cl_is_cpu(ctx) ? 0x1p28 : 0x1p33);
    plan->steps = steps <= 1 ? 1 : steps > (double)g->n ? g->n : (int64_t)steps;
    return GOP_OK;
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_step *const own = GOP_OWN_OF_STEP(const gop_cl_step, task->plan);
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    const gop_scalar *const given = p->has_alpha ? &p->alpha : &p->omega;
    const float narrow[2] = {(float)given->f[0], (float)given->f[1]};
    const gop_array *const f = &task->in[p->csr ? 3 : 1];
    const int64_t n = g->n, steps = task->plan->steps;
    system_of s = {
        .n = n,
        .k = g->k,
        .a_row = g->a_row,
        .a_col = g->a_col,
        .f_row = g->f_row,
        .f_col = g->f_col,
        .x_row = g->x_row,
        .x_col = g->x_col,
        .out_row = g->out_row,
        .out_col = g->out_col,
        .residual_row = g->residual_row,
        .residual_col = g->residual_col,
        .stored = p->csr ? task->in[0].shape[0] : 0,
        .first = n / steps * step + n % steps * step / steps,
        .last = n / steps * (step + 1) + n % steps * (step + 1) / steps,
        .has_residual = task->nout == 2,
        .each = (int32_t)own->each,
    };
    for (int d = 0; d < GOP_MAX_LATTICE; d++) s.extent[d] = p->grid.extent[d];
    const int64_t items = (s.last - s.first + own->each - 1) / own->each;
    if (items <= 0 || g->k == 0) return GOP_OK;
    gop_cl_launch l = {.source = own->names->source,
                       .kernel = own->names->kernel,
                       .options = own->options,
                       .dimensions = 1,
                       .global = {(size_t)items * (own->together ? (size_t)own->group : 1)},
                       .local = {(size_t)own->group}};
    /* What is not there, or is empty, is another operand: nobody reads it. */
    gop_cl_give(&l, p->csr && s.stored == 0 ? f : &task->in[0], 0);
    gop_cl_give(&l, p->csr && s.stored > 0 ? &task->in[1] : f, 0);
    gop_cl_give(&l, p->csr ? &task->in[2] : f, 0);
    gop_cl_give(&l, f, 0);
    gop_cl_give(&l, &task->in[p->csr ? 4 : 2], 0);
    gop_cl_give(&l, &task->out[0], 1);
    gop_cl_give(&l, &task->out[task->nout - 1], 1);
    GOP_CL_SAY(&l, s);
    gop_cl_say(&l, (size_t)gop_cl_item(dtype),
               is_double(dtype) ? (const void *)given->f : narrow);
    return gop_cl_run(ctx, &l);
}

gop_status gop_cl_step_by_items(const gop_ctx *ctx, const gop_task *task,
                                const gop_cl_names *names, gop_plan *plan)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    gop_cl_step *const own = GOP_OWN_OF_STEP(gop_cl_step, plan);
    if (p->csr || p->grid.axes)
        return gop_fail(
            GOP_REFUSED,
            "jacobi_step: kernel '%s' takes a dense A, got a %s; kernel 'rows' takes "
            "those",
            names->row, p->csr ? "CSR matrix" : "stencil");
    own->group = gop_cl_group(ctx, (int)task->tune[0]);
    own->each = 1;
    own->together = 0;
    return gop_cl_step_plan(ctx, task, names, "", plan);
}

gop_status gop_cl_step_by_groups(const gop_ctx *ctx, const gop_task *task,
                                 const gop_cl_names *names, gop_plan *plan)
{
    gop_cl_step *const own = GOP_OWN_OF_STEP(gop_cl_step, plan);
    char more[32];
    if (task->call->params.jacobi_step.grid.axes)
        return gop_fail(GOP_REFUSED,
                        "jacobi_step: kernel '%s' takes a matrix, got a stencil; kernel 'rows' "
                        "takes those",
                        names->row);
    own->group = gop_cl_group(ctx, (int)task->tune[0]);
    own->each = own->together = 1;
    snprintf(more, sizeof more, " -DGROUP=%d", own->group);
    return gop_cl_step_plan(ctx, task, names, more, plan);
}
