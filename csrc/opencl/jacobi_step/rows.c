/*
 * rows.c - the plan of rows.cl.
 */
#include "opencl/jacobi_step/system.h"

#include <stdio.h>

enum {
    LEAST = 1 << 14,      /* terms that are worth a work-item of their own on a CPU */
    CHUNKS_PER_UNIT = 16, /* so that a processor that comes late takes fewer */
    SIDE = 16,            /* rows.cl's, of contiguous columns */
    OF_COLUMNS = 4,       /* chunks a processor then */
};

/* Rows of a chunk, which is a work-item's. */
static int64_t rows_of_chunk(const gop_ctx *ctx, const gop_task *task, int64_t steps)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    const int64_t n = task->geometry.jacobi.n;
    const int64_t wanted = (int64_t)ctx->info.processors * CHUNKS_PER_UNIT * steps;
    const int64_t terms = p->csr         ? task->in[0].shape[0] / (n ? n : 1)
                          : p->grid.axes ? 2 * p->grid.axes + 1
                                         : n;
    const int64_t each = (n + wanted - 1) / wanted, least = LEAST / (terms + 1) + 1;
    return each > least ? each : least;
}

gop_status gop_cl_step_rows(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                            gop_plan *plan)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    gop_cl_step *const own = GOP_OWN_OF_STEP(gop_cl_step, plan);
    const int is_real = dtype == GOP_FLOAT32 || dtype == GOP_FLOAT64;
    const int is_dense = !p->csr && !p->grid.axes, k = g->k == 1;
    const int is_plain = k && g->x_row == 1 && g->f_row == 1 && g->out_row == 1 &&
                         (task->nout == 1 || g->residual_row == 1);
    const int has_vectors = is_real && is_dense && g->a_col == 1 && g->x_row == 1;
    const int is_cpu = gop_cl_is_cpu(ctx);
    const int has_columns = is_cpu && is_real && is_dense && g->a_row == 1 && g->a_col != 1;
    const int has_runs =
        is_cpu && is_real && is_plain && p->grid.axes && (g->a_col == 0 || g->a_col == 1);
    char more[64];
    snprintf(more, sizeof more, "%s -DWIDTH=%d%s",
             has_vectors   ? " -DVECTORS"
             : has_columns ? " -DCOLUMNS"
             : has_runs    ? " -DRUNS"
                           : "",
             dtype == GOP_FLOAT32 ? 8 : 4,
             is_plain && (!is_dense || has_vectors) ? " -DPLAIN" : "");
    GOP_TRY(gop_cl_step_plan(ctx, task, names, more, plan));
    own->group = is_cpu ? 1 : gop_cl_group(ctx, (int)task->tune[0]);
    own->each = is_cpu ? rows_of_chunk(ctx, task, plan->steps) : 1;
    if (has_columns) /* few and long pieces of columns */
        own->each =
            gop_cl_ceil(gop_cl_ceil(g->n, plan->steps * OF_COLUMNS * ctx->info.processors),
                        SIDE) *
            SIDE;
    own->together = 0;
    return GOP_OK;
}
