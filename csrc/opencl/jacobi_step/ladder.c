/*
 * ladder.c - jacobi_step on OpenCL: plans and launch, rows, candidates.
 *
 *     s = A x;   out = x + alpha (s - f)   or   out = x + omega (f - s) / d
 *
 * The floor is reading A once: memory decides. The bits of a row's sum must not depend on who
 * adds it up: tree/v1 fixes them, 128 lanes a leaf.
 */
#include <string.h>

#include "core/numerics.h"
#include "core/ops/jacobi.h"
#include "core/ops/unchecked.h"
#include "opencl/opencl.h"

/* The plan of every row. */
typedef struct planned {
    gop_cl_build build;
    int group;    /* work-items of a work-group */
    int64_t each; /* rows of a work-item; of a work-group where `together` */
    int together;
} planned;

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const planned *const own = GOP_OWN_OF_STEP(const planned, task->plan);
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    const gop_scalar *const given = p->has_alpha ? &p->alpha : &p->omega;
    float narrow[2];
    const gop_array *const f = &task->in[p->csr ? 3 : 1];
    const int64_t n = g->n, steps = task->plan->steps;
    struct system s = {.stored = p->csr ? task->in[0].shape[0] : 0,
                       .first = n / steps * step + n % steps * step / steps,
                       .last = n / steps * (step + 1) + n % steps * (step + 1) / steps,
                       .has_residual = task->nout == 2,
                       .each = (int)own->each};
    memcpy(&s, g, offsetof(gop_jacobi, index64)); /* n, k and strides, in the same order */
    memcpy(s.extent, p->grid.extent, sizeof s.extent);
    const int64_t items = gop_ceil(s.last - s.first, own->each);
    if (items <= 0 || g->k == 0) return GOP_OK;
    /* What is not there, or is empty, is another operand: nobody reads it. */
    const gop_array *const a = p->csr && s.stored == 0 ? f : &task->in[0];
    const gop_array *const indices = p->csr && s.stored > 0 ? &task->in[1] : f;
    return GOP_CL_RUN(
        ctx, .build = &own->build, .items = items * (own->together ? own->group : 1),
        .group = own->group,
        .operand = {GOP_CL_OF(a), GOP_CL_OF(indices), GOP_CL_OF(p->csr ? &task->in[2] : f),
                    GOP_CL_OF(f), GOP_CL_OF(&task->in[p->csr ? 4 : 2]),
                    GOP_CL_OF(&task->out[0]), GOP_CL_OF(&task->out[task->nout - 1])},
        .value = {GOP_CL_VALUE(s),
                  gop_cl_numbers(dtype, gop_cl_kinds[dtype].parts, given->f, narrow)});
}

/* About so many. */
static int64_t terms_of_row(const gop_task *task)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    const int64_t n = task->geometry.jacobi.n;
    if (p->grid.axes) return 2 * p->grid.axes + 1;
    return p->csr ? gop_ceil(task->in[0].shape[0], n ? n : 1) : n;
}

/* What a row's kernel is built with. Cuts the call into slices of rows, far below 100 ms each.
 */
static gop_status begin(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    const gop_jacobi *g = &task->geometry.jacobi;
    planned *const own = GOP_OWN_OF_STEP(planned, plan);
    GOP_TRY(gop_cl_begin(ctx, "jacobi_step", task->in[0].dtype,
                         p->has_alpha ? 0 : GOP_CL_QUOTIENTS, &own->build));
    own->each = 1;
    own->together = 0;
    gop_cl_define(&own->build, " -DLANES=1 -DAXES=%d -DBOUNDARY=%d -DINDEX=%s -DALPHA=%d%s",
                  p->grid.axes, (int)p->grid.bc, g->index64 ? "long" : "int", p->has_alpha,
                  p->csr ? " -DCSR" : "");
    const double terms = (double)g->n * (double)terms_of_row(task);
    const double steps = terms * (double)g->k / (gop_cl_has(ctx, GOP_CL_CPU) ? 0x1p28 : 0x1p33);
    plan->steps = steps <= 1 ? 1 : steps > (double)g->n ? g->n : (int64_t)steps;
    plan->launch = launch;
    return GOP_OK;
}

/* Whether rows of a dense matrix, and columns of x, are of whole vectors. */
static int has_vectors(const gop_task *task, int width)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t bits = g->a_row | (g->k > 1 ? g->x_col : 0);
    const uintptr_t at = (uintptr_t)task->in[0].data | (uintptr_t)task->in[2].data;
    return (dtype == GOP_FLOAT32 || dtype == GOP_FLOAT64) &&
           !task->call->params.jacobi_step.csr && g->a_col == 1 && g->x_row == 1 &&
           bits % width == 0 && at % ((uintptr_t)width * (uintptr_t)gop_cl_item(dtype)) == 0;
}

/* A row of a matrix a work-group, or several. Tunables "group", "held" and "batch". */
static gop_status by_groups(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    planned *const own = GOP_OWN_OF_STEP(planned, plan);
    const int wide = task->in[0].dtype == GOP_FLOAT32 ? 4 : 2;
    const int is_vector = has_vectors(task, wide), width = is_vector ? wide : 1;
    const int64_t leaves = gop_ceil(task->geometry.jacobi.n, LEAF);
    if (task->call->params.jacobi_step.grid.axes)
        return gop_cl_refuse(&own->build,
                             "takes a matrix, got a stencil; kernel 'rows' takes those");
    GOP_TRY(begin(ctx, task, plan));
    const int team = LANES / width;
    own->together = 1;
    own->each = is_vector ? task->tune[1] : 1;
    own->group = team;
    while (is_vector && own->group < gop_cl_group(ctx, task->tune[0]) &&
           own->group / team < leaves)
        own->group *= 2;
    gop_cl_define(&own->build, " -DGROUP=%d -DWIDTH=%d -DHELD=%d -DBATCH=%d%s", own->group,
                  width, (int)own->each, (int)task->tune[2], is_vector ? " -DVECTORS" : "");
    return GOP_OK;
}

/* ---- rows of any system ---- */

enum {
    SIDE = 16,      /* rows.cl's, of contiguous columns */
    OF_COLUMNS = 4, /* chunks a processor then */
};

static gop_status by_rows(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    planned *const own = GOP_OWN_OF_STEP(planned, plan);
    const int is_real = dtype == GOP_FLOAT32 || dtype == GOP_FLOAT64;
    const int is_dense = !p->csr && !p->grid.axes, k = g->k == 1;
    const int is_plain = k && g->x_row == 1 && g->f_row == 1 && g->out_row == 1 &&
                         (task->nout == 1 || g->residual_row == 1);
    const int has_vectors = is_real && is_dense && g->a_col == 1 && g->x_row == 1;
    const int is_cpu = gop_cl_has(ctx, GOP_CL_CPU);
    const int has_columns = is_cpu && is_real && is_dense && g->a_row == 1 && g->a_col != 1;
    const int has_runs =
        is_cpu && is_real && is_plain && p->grid.axes && (g->a_col == 0 || g->a_col == 1);
    GOP_TRY(begin(ctx, task, plan));
    gop_cl_define(&own->build, "%s -DWIDTH=%d -DPLAIN=%d%s",
                  has_vectors   ? " -DVECTORS"
                  : has_columns ? " -DCOLUMNS"
                  : has_runs    ? " -DRUNS"
                                : "",
                  dtype == GOP_FLOAT32 ? 8 : 4, is_plain && (!is_dense || has_vectors),
                  is_cpu ? "" : " -DALONE");
    if (p->grid.axes && k && !has_runs)
        gop_cl_define(&own->build, " -DINSIDE=%s", g->n < INT32_MAX ? "uint" : "ulong");
    const int few = p->grid.axes ? 2 * p->grid.axes + 1 : terms_of_row(task) <= 5 ? 5 : 8;
    const int64_t longest = gop_longest_row(task);
    if (!is_dense && (g->index64 || g->n <= INT32_MAX))
        gop_cl_define(&own->build, " -DFEW=%d%s", few,
                      longest > 0 && longest <= few ? " -DALL_FEW" : "");
    own->group = is_cpu ? 1 : gop_cl_group(ctx, task->tune[0]);
    own->each = is_cpu ? gop_cl_chunk(ctx, gop_ceil(g->n, plan->steps), terms_of_row(task)) : 1;
    if (has_columns) /* few and long pieces of columns */
        own->each =
            gop_ceil(gop_ceil(g->n, plan->steps * OF_COLUMNS * ctx->info.processors), SIDE) *
            SIDE;
    return GOP_OK;
}

/* ---- rows of the ladder, and which of them runs ---- */

static int has_short_rows(const gop_ctx *ctx, const gop_task *task)
{
    enum { SHORT = 16, LONGEST = 128 }; /* terms of rows for a work-item: mean, most */
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    if (gop_cl_has(ctx, GOP_CL_CPU) || p->grid.axes) return 1;
    const int64_t longest = gop_longest_row(task);
    return p->csr && task->in[0].shape[0] <= SHORT * task->geometry.jacobi.n && longest > 0 &&
           longest <= LONGEST;
}

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, group, by_groups, \
        .note = "a leaf a team of work-items, which read neighbours and fold its lanes in local " \
                "memory; of dense rows vectors, of several rows at once", \
        .tunables = {{"group", 3, {128, 64, 256}}, {"held", 3, {4, 2, 1}}, \
                     {"batch", 3, {4, 2, 8}}}, .dtypes = GOP_CL_REALS | GOP_CL_COMPLEXES) \
    ROW(op, stem, rows, by_rows, \
        .note = "a row a work-item, short ones in registers; on a CPU a chunk of them, with " \
                "vectors along dense ones, or across them where they have the same terms", \
        .tunables = {GOP_CL_GROUP}, .dtypes = GOP_CL_REALS | GOP_CL_COMPLEXES)
#define CANDIDATES(op) \
    {.row = &op##_rows_row, .suits = has_short_rows, \
     .when = "CPU devices; on GPUs stencils, and CSR matrices of rows of 16 terms in the mean " \
             "and 128 at most", \
     .why = "of the cpu backend's speed CSR of 5 points 1.1, dense 0.61, stencils 0.57 to 0.70: " \
            "PoCL 3.1 on two cores of an AMD EPYC; of the cuda backend's 0.99 as a stencil, " \
            "0.95 as CSR: NVIDIA's OpenCL on an H200, 2026-11-29"}, \
    {.row = &op##_group_row, \
     .why = "takes all that is left; dense 16384² float32 0.98 of the cuda backend's speed: " \
            "NVIDIA's OpenCL on an H200, 2026-11-29"},

GOP_CL_LADDER(jacobi_step, jacobi_step, ROWS, CANDIDATES);
