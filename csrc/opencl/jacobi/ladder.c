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
    gop_leaf_sums sums; /* of the residual */
    gop_ctx *ctx;
    gop_cl_build columns;      /* of columns.cl, whose kernels are one program */
    gop_array vector[3], leaf; /* two iterates, the residual; its leaves */
    gop_jacobi_task step;
    gop_plan plan; /* of the steps */
} solver;

/* Where vectors 0 to 2 begin in scratch memory, 3 the leaves, and 4 what is the steps' own. */
static size_t place_of(const gop_task *task, int part)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int64_t vector = gop_ceil(g->n * g->k * gop_cl_item(task->in[0].dtype), 256) * 256;
    const int64_t leaves = gop_ceil((g->n / LEAF + 1) * g->k * 8, 256) * 256;
    return (size_t)(part < 4 ? part * vector : 3 * vector + leaves);
}

/* Column c of an array, or zeros, to that of another; numbers lie so far apart. */
static gop_status copy_column(const solver *s, int64_t c, const gop_array *from,
                              int64_t from_row, int64_t from_col, const gop_array *to,
                              int64_t to_row, int64_t to_col, int is_zero)
{
    const int64_t n = s->solve.task->geometry.jacobi.n;
    if (n == 0) return GOP_OK;
    return GOP_CL_RUN(s->ctx, .build = &s->columns, .items = n,
                      .group = gop_cl_group(s->ctx, GROUP),
                      .operand = {GOP_CL_AT(from, c * from_col), GOP_CL_AT(to, c * to_col)},
                      .value = {GOP_CL_VALUE(n), GOP_CL_VALUE(from_row), GOP_CL_VALUE(to_row),
                                GOP_CL_VALUE(is_zero)});
}

/* A float64 array of the device, without gaps, to or from the host. */
static gop_status bring(const solver *s, const gop_array *device, double *memory, int is_up)
{
    const gop_backend *const backend = s->ctx->backend;
    gop_array host = *device;
    host.data = memory;
    host.where = (gop_device){GOP_CPU, 0};
    return is_up ? backend->upload(s->ctx, device, &host)
                 : backend->download(s->ctx, &host, device);
}

static gop_status sum_leaves(const gop_leaf_sums *of, int64_t first, int64_t columns,
                             double scale, int is_largest)
{
    const solver *const s = (const void *)((const char *)of - offsetof(solver, sums));
    const int64_t n = s->solve.task->geometry.jacobi.n;
    const int group = gop_cl_group(s->ctx, GROUP);
    gop_array leaf = s->leaf;
    leaf.shape[0] = of->leaves * columns;
    GOP_TRY(GOP_CL_RUN(s->ctx, .build = &s->columns, .kernel = "jacobi_leaves_kernel",
                       .items = leaf.shape[0] * group, .group = group,
                       .operand = {GOP_CL_AT(&s->vector[2], first * n), GOP_CL_OF(&leaf)},
                       .value = {GOP_CL_VALUE(n), GOP_CL_VALUE(of->leaves), GOP_CL_VALUE(scale),
                                 GOP_CL_VALUE(is_largest)}));
    return bring(s, &leaf, of->leaf, 0);
}

static gop_status norms_of_residual(const gop_solve *solve)
{
    return gop_norms_of_leaves(&((const solver *)solve)->sums, solve->fresh);
}

static gop_status put_aside(const gop_solve *solve, const void *iterate, int64_t c, int is_zero)
{
    const solver *const s = (const solver *)solve;
    const gop_jacobi *g = &solve->task->geometry.jacobi;
    return copy_column(s, c, &s->vector[iterate != s->vector[0].data], 1, g->n,
                       &solve->task->out[0], g->out_row, g->out_col, is_zero);
}

/* The host's part of it, to be released; NULL where there is no memory. */
static solver *begin(gop_ctx *ctx, const gop_task *task)
{
    static const gop_cl_names copy = {.source = "jacobi/columns",
                                      .kernel = "jacobi_copy_kernel"};
    const int64_t n = task->geometry.jacobi.n, k = task->geometry.jacobi.k;
    const int64_t leaves = gop_ceil(n, LEAF);
    const int64_t rows = task->nout > 1 ? task->out[1].shape[0] : 0;
    const gop_dtype dtype = task->in[0].dtype;
    const size_t numbers = (size_t)((leaves + rows + GOP_SOLVE_NUMBERS) * k);
    solver *const s = gop_services->alloc(sizeof *s + numbers * sizeof(double));
    if (!s) return NULL;
    double *const number = (double *)(void *)(s + 1);
    *s = (solver){
        .solve = {.task = task,
                  .k = k,
                  .rows = number + leaves * k,
                  .interrupted = gop_services->interrupted,
                  .norms = norms_of_residual,
                  .put_aside = put_aside},
        .sums = {leaves, k, gop_cl_doubles(dtype), number, sum_leaves},
        .ctx = ctx,
        .columns = {.names = &copy},
        .leaf = gop_cl_in_scratch(task->scratch, place_of(task, 3), GOP_FLOAT64, leaves * k)};
    for (int i = 0; i < 3; i++)
        s->vector[i] = gop_cl_in_scratch(task->scratch, place_of(task, i), dtype, n * k);
    s->solve.iterate[0] = s->vector[0].data;
    s->solve.iterate[1] = s->vector[1].data;
    s->solve.residual = s->vector[2].data;
    gop_solve_lay(&s->solve, number + (leaves + rows) * k);
    gop_cl_define(&s->columns, "-DBASE=%s -D%s -DLANES=1 -DDOUBLE -DGROUP=%d",
                  gop_cl_kinds[dtype].base, gop_cl_kinds[dtype].word, gop_cl_group(ctx, GROUP));
    return s;
}

/* The norm of f is asked for where the residual will be. */
static gop_status iterate(solver *s)
{
    const gop_task *task = s->solve.task;
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_array *const f = &task->in[p->step.csr ? 3 : 1];
    const gop_array *const x = &task->in[p->step.csr ? 4 : 2];
    for (int64_t c = 0; c < g->k; c++) {
        GOP_TRY(copy_column(s, c, f, g->f_row, g->f_col, &s->vector[2], 1, g->n, 0));
        GOP_TRY(copy_column(s, c, x, g->x_row, g->x_col, &s->vector[0], 1, g->n, 0));
    }
    GOP_TRY(gop_norms_of_leaves(&s->sums, s->solve.f));
    if (p->first) GOP_TRY(bring(s, &task->in[p->first], s->solve.begun, 0));
    GOP_TRY(gop_solve_run(s->ctx, &s->solve, &s->step));
    return task->nout > 1 ? bring(s, &task->out[1], s->solve.rows, 1) : GOP_OK;
}

static gop_status solve(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    solver *const s = begin(ctx, task);
    (void)step;
    if (!s) return gop_fail(GOP_NO_MEMORY, "jacobi: no host memory for the norms");
    gop_jacobi_ready(&s->step, task, &s->plan, (char *)task->scratch + place_of(task, 4));
    const gop_status status = iterate(s);
    gop_services->release(s);
    return status;
}

/* The steps are those of jacobi_step's choice. */
static gop_status by_steps(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    if (!gop_cl_has(ctx, GOP_CL_DOUBLE))
        return gop_fail(GOP_BAD_TYPE,
                        "jacobi: %s has no float64, in which norms of residuals are; use "
                        "jacobi_step there, or another device such as 'cpu'",
                        ctx->info.name);
    plan->launch = solve;
    GOP_TRY(gop_jacobi_plan_steps(ctx, task, NULL, plan));
    plan->scratch = place_of(task, 4) + GOP_OWN(const gop_jacobi_steps, plan)->scratch;
    return GOP_OK;
}

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, repeated, by_steps, \
        .note = "the best steps that take the system, on the device; the host judges a few " \
                "numbers at each check", \
        .lecture = "simple iteration", .dtypes = GOP_CL_REALS | GOP_CL_COMPLEXES)
#define CANDIDATES(op) {.row = &op##_repeated_row, .why = "the steps of jacobi_step's choice"},

GOP_CL_LADDER(jacobi, jacobi, ROWS, CANDIDATES);
