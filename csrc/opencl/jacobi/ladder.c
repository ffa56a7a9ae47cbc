/*
 * ladder.c - jacobi on OpenCL: what core's loop of the solver asks for, its row.
 *
 * The solver repeats a kernel of jacobi_step, so its floor is that kernel's: A read once a
 * step. What it adds is the norm of the residual at each check, for which the host waits. The
 * device sums squares leaf by leaf of tree/v1; the sums come to the host, which folds them.
 */
#include "core/arrays/leaf_norms.h"
#include "core/numerics.h"
#include "core/ops/jacobi_solve.h"
#include "opencl/opencl.h"

enum { GROUP = 128 };

/* A call that runs: core's part first; vectors on the device, norms on the host. */
typedef struct solver {
    gop_solve solve;
    gop_ctx *ctx;
    int64_t n, leaves;
    gop_cl_build columns;      /* of columns.cl, whose kernels are one program */
    gop_array vector[3], sums; /* two iterates, the residual */
    double *leaf;              /* the sums of leaves, a column's one after the other */
    gop_jacobi_task step;
    gop_plan plan; /* of the steps */
} solver;

/* ---- memory ---- */

/* Bytes of the scratch memory before its part `what`: two iterates, the residual, the sums of
 * leaves, the steps' own. */
enum { ITERATE, ITERATE_TOO, RESIDUAL, SUMS, STEPS };

static size_t offset_of(const gop_task *task, int what)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const size_t vector = (size_t)(g->n * g->k * gop_cl_item(task->in[0].dtype));
    const size_t each = (vector + 255) / 256 * 256;
    const size_t sums = (size_t)((g->n / LEAF + 1) * g->k) * sizeof(double);
    if (what <= SUMS) return (size_t)what * each;
    return SUMS * each + (sums + 255) / 256 * 256;
}

/* A column, or zeros, to another; columns begin so many items further on. */
static gop_status copy_column(const solver *s, const gop_array *from, int64_t from_at,
                              int64_t from_row, const gop_array *to, int64_t to_at,
                              int64_t to_row, int is_zero)
{
    if (s->n == 0) return GOP_OK;
    return gop_cl_run(s->ctx,
                      &(gop_cl_launch){.build = &s->columns,
                                       .items = s->n,
                                       .group = gop_cl_group(s->ctx, GROUP),
                                       .operand = {{from, 0, from_at}, {to, 1, to_at}},
                                       .value = {GOP_CL_VALUE(s->n), GOP_CL_VALUE(from_row),
                                                 GOP_CL_VALUE(to_row), GOP_CL_VALUE(is_zero)}});
}

/* Between a float64 array of the device, without gaps, and the host. */
static gop_array on_host(const gop_array *device, double *memory)
{
    gop_array host = *device;
    host.data = memory;
    host.where = (gop_device){GOP_CPU, 0};
    return host;
}

static gop_status bring(const solver *s, const gop_array *device, double *to)
{
    const gop_array host = on_host(device, to);
    return s->ctx->backend->download(s->ctx, &host, device);
}

/* ---- norms ---- */

/* Of a vector v of the device: its sums of leaves, which core folds. */
typedef struct norming {
    gop_leaf_sums sums;
    const solver *solver;
    const gop_array *v;
    int64_t row, col;
} norming;

static gop_status sum_leaves(const gop_leaf_sums *of, int64_t first, int64_t columns,
                             double scale, int is_largest)
{
    const norming *const job = (const norming *)of;
    const solver *const s = job->solver;
    const int group = gop_cl_group(s->ctx, GROUP);
    GOP_TRY(gop_cl_run(
        s->ctx,
        &(gop_cl_launch){.build = &s->columns,
                         .kernel = "jacobi_leaves_kernel",
                         .items = s->leaves * columns * group,
                         .group = group,
                         .operand = {{job->v, 0, first * job->col}, GOP_CL_WRITES(&s->sums)},
                         .value = {GOP_CL_VALUE(s->n), GOP_CL_VALUE(s->leaves),
                                   GOP_CL_VALUE(job->row), GOP_CL_VALUE(job->col),
                                   GOP_CL_VALUE(scale), GOP_CL_VALUE(is_largest)}}));
    gop_array sums = s->sums;
    sums.shape[0] = s->leaves * columns;
    return bring(s, &sums, s->leaf);
}

static gop_status norms_of(const solver *s, const gop_array *v, int64_t row, int64_t col,
                           double *norms)
{
    const norming job = {
        {s->leaves, s->solve.k, gop_cl_is_double(v->dtype), s->leaf, sum_leaves},
        s,
        v,
        row,
        col,
    };
    return gop_norms_of_leaves(&job.sums, norms);
}

/* ---- what core's loop asks for ---- */

static gop_status norms_of_residual(const gop_solve *solve)
{
    const solver *const s = (const solver *)solve;
    return norms_of(s, &s->vector[RESIDUAL], 1, s->n, solve->fresh);
}

static gop_status put_aside(const gop_solve *solve, const void *iterate, int64_t c, int is_zero)
{
    const solver *const s = (const solver *)solve;
    const gop_jacobi *g = &solve->task->geometry.jacobi;
    const gop_array *const from = &s->vector[iterate != s->vector[0].data];
    return copy_column(s, from, c * s->n, 1, &solve->task->out[0], c * g->out_col, g->out_row,
                       is_zero);
}

/* The host's part of it, to be released; NULL where there is no memory. */
static solver *begin(gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t n = g->n, k = g->k, leaves = (n + LEAF - 1) / LEAF;
    const int64_t rows = task->nout > 1 ? task->out[1].shape[0] : 0;
    const gop_cl_kind *const kind = &gop_cl_kinds[dtype];
    static const gop_cl_names copy = {.source = "jacobi/columns",
                                      .kernel = "jacobi_copy_kernel"};
    const size_t numbers = (size_t)((leaves + 5 + rows) * k);
    solver *const s = gop_services->alloc(sizeof *s + numbers * sizeof(double));
    if (!s) return NULL;
    double *const number = (double *)(void *)(s + 1);
    *s = (solver){.solve = {.task = task,
                            .k = k,
                            .f = number,
                            .begun = number + k,
                            .norm = number + 2 * k,
                            .fresh = number + 3 * k,
                            .ended = (int64_t *)(void *)(number + 4 * k),
                            .rows = number + 5 * k,
                            .interrupted = gop_services->interrupted,
                            .norms = norms_of_residual,
                            .put_aside = put_aside},
                  .ctx = ctx,
                  .n = n,
                  .leaves = leaves,
                  .leaf = number + (5 + rows) * k,
                  .columns = {.names = &copy}};
    for (int i = ITERATE; i <= RESIDUAL; i++)
        s->vector[i] = gop_cl_in_scratch(task->scratch, offset_of(task, i), dtype, n * k);
    for (int i = 0; i < 2; i++) s->solve.iterate[i] = s->vector[i].data;
    s->solve.residual = s->vector[RESIDUAL].data;
    s->sums = gop_cl_in_scratch(task->scratch, offset_of(task, SUMS), GOP_FLOAT64, leaves * k);
    gop_cl_define(&s->columns, "-DBASE=%s -D%s -DLANES=1 -DDOUBLE -DGROUP=%d", kind->base,
                  kind->word, gop_cl_group(ctx, GROUP));
    return s;
}

static gop_status start(solver *s)
{
    const gop_task *task = s->solve.task;
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_array *const f = &task->in[p->step.csr ? 3 : 1];
    const gop_array *const x = &task->in[p->step.csr ? 4 : 2];
    GOP_TRY(norms_of(s, f, g->f_row, g->f_col, s->solve.f));
    for (int64_t c = 0; c < g->k; c++)
        GOP_TRY(copy_column(s, x, c * g->x_col, g->x_row, &s->vector[0], c * s->n, 1, 0));
    return p->first ? bring(s, &task->in[p->first], s->solve.begun) : GOP_OK;
}

static gop_status iterate(solver *s)
{
    const gop_task *task = s->solve.task;
    GOP_TRY(start(s));
    GOP_TRY(gop_solve_run(s->ctx, &s->solve, &s->step));
    if (task->nout == 1) return GOP_OK;
    const gop_array host = on_host(&task->out[1], s->solve.rows);
    return s->ctx->backend->upload(s->ctx, &task->out[1], &host);
}

static gop_status solve(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    solver *const s = begin(ctx, task);
    (void)step;
    if (!s) return gop_fail(GOP_NO_MEMORY, "jacobi: no host memory for the norms");
    gop_jacobi_ready(&s->step, task, &s->plan, (char *)task->scratch + offset_of(task, STEPS));
    const gop_status status = iterate(s);
    gop_services->release(s);
    return status;
}

/* The steps are those of jacobi_step's choice. */
static gop_status by_steps(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    if (!gop_cl_has_double(ctx))
        return gop_fail(GOP_BAD_TYPE,
                        "jacobi: %s has no float64, in which norms of residuals are; use "
                        "jacobi_step there, or another device such as 'cpu'",
                        gop_cl_device_name(ctx));
    plan->launch = solve;
    GOP_TRY(gop_jacobi_plan_steps(ctx, task, NULL, plan));
    plan->scratch = offset_of(task, STEPS) + GOP_OWN(const gop_jacobi_steps, plan)->scratch;
    return GOP_OK;
}

#define EVERY                                                                                  \
    (1u << GOP_FLOAT32 | 1u << GOP_FLOAT64 | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128)

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, repeated, by_steps, \
        .note = "the best steps that take the system, on the device; the host judges a few " \
                "numbers at each check", \
        .lecture = "simple iteration", .dtypes = EVERY)
#define CANDIDATES(op) {.row = &op##_repeated_row, .why = "the steps of jacobi_step's choice"},
/* clang-format on */

GOP_CL_LADDER(jacobi, jacobi, ROWS, CANDIDATES);
