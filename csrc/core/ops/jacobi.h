/*
 * jacobi.h - the solver on every device: steps by the kernels of jacobi_step, and whether a
 * column has ended.
 *
 * Iterates are stored by contiguous columns, which suits the steps' gathers, the norms and
 * storing columns that end.
 */
#ifndef GOP_JACOBI_H
#define GOP_JACOBI_H

#include <string.h>

#include "core/choice.h"

#ifndef GOP_JACOBI_FUNCTION
#define GOP_JACOBI_FUNCTION static inline
#endif

typedef enum gop_column_state { GOP_GOES_ON, GOP_CONVERGED, GOP_DIVERGED } gop_column_state;

/* The state of a column by the norms of f, of the first residual and of this one. */
GOP_JACOBI_FUNCTION gop_column_state gop_jacobi_verdict(double rtol, double atol, double dtol,
                                                        double f, double first, double residual)
{
    const double relative = rtol * f, target = relative > atol ? relative : atol;
    const double finite = 0x1.fffffffffffffp1023;
    if (f == 0.0) return GOP_CONVERGED; /* by x = 0 */
    if (!(residual <= finite) || !(f <= finite)) return GOP_DIVERGED;
    if (residual <= target) return GOP_CONVERGED;
    return residual > dtol * (first > f ? first : f) ? GOP_DIVERGED : GOP_GOES_ON;
}

/* ---- steps ---- */

enum { GOP_STEP_BYTES = 1024 };

/* A row's own part of a plan, as GOP_OWN, where the row is one of jacobi_step: the solver keeps
 * it beside its own. */
#define GOP_OWN_OF_STEP(type, plan)                                                            \
    (GOP_OWN(type, plan) + 0 * sizeof(char[sizeof(type) <= GOP_STEP_BYTES ? 1 : -1]))

/* What a row of jacobi_step plans for a step of the solver. */
typedef struct gop_jacobi_steps {
    gop_launch launch;
    int64_t steps;
    size_t scratch;
    unsigned char own[GOP_STEP_BYTES];
} gop_jacobi_steps;

/* A step's task: it points into itself, so it is never copied. */
typedef struct gop_jacobi_task {
    gop_task task; /* its call is the solver's, whose parameters begin with a step's */
    int x;         /* which input the iterate is */
    gop_plan *plan;
} gop_jacobi_task;

/* Both iterates and the residual as one of the solver's tasks has them, at addresses to come.
 */
static inline void gop_jacobi_begin(gop_jacobi_task *t, const gop_task *solver, gop_plan *plan)
{
    gop_task *task = &t->task;
    gop_jacobi *g = &task->geometry.jacobi;
    task->call = solver->call;
    task->finding = solver->finding;
    task->nin = solver->nin;
    task->nout = 2;
    task->plan = t->plan = plan;
    t->x = solver->call->params.jacobi.step.csr ? 4 : 2;
    task->scratch = NULL;
    for (int i = 0; i < solver->nin; i++) task->in[i] = solver->in[i];
    *g = solver->geometry.jacobi;
    g->x_row = g->out_row = g->residual_row = 1;
    g->x_col = g->out_col = g->residual_col = g->n;
    gop_array *x = &task->in[t->x];
    const int64_t size = x->dtype == GOP_FLOAT32 ? 4 : x->dtype == GOP_COMPLEX128 ? 16 : 8;
    x->data = (void *)256;
    x->strides[0] = size;
    if (x->ndim == 2) x->strides[1] = g->n * size;
    task->out[0] = task->out[1] = *x;
}

static inline gop_status gop_jacobi_plan_row(const gop_ctx *ctx, gop_jacobi_task *t,
                                             const gop_row *row)
{
    const gop_dtype dtype = t->task.in[0].dtype;
    if (!row->launch[dtype] && !(row->dtypes >> dtype & 1)) return GOP_REFUSED;
    for (int i = 0; i < GOP_MAX_TUNABLES && row->tunables[i].name; i++)
        t->task.tune[i] = row->tunables[i].values[0];
    t->plan->launch = row->launch[dtype];
    t->plan->steps = 1;
    t->plan->scratch = 0;
    return row->plan ? row->plan(ctx, &t->task, t->plan) : GOP_OK;
}

/* Plans the steps by the row of that name, or by the first candidate of jacobi_step's choice
 * that suits and takes them, as a call of jacobi_step would: the task's plan is the solver's
 * own, whose part is then a gop_jacobi_steps. */
static inline gop_status gop_jacobi_plan_task(const gop_ctx *ctx, gop_jacobi_task *t,
                                              const char *name)
{
    gop_plan *const plan = t->plan;
    const gop_launch launch = plan->launch;
    const gop_ladder *ladder = ctx->backend->ladder(GOP_OP_jacobi_step);
    const gop_choice *choice = ladder->choice;
    gop_status status = GOP_REFUSED;
    for (int r = 0; name && r < ladder->count; r++)
        if (strcmp(name, ladder->rows[r]->name) == 0)
            status = gop_jacobi_plan_row(ctx, t, ladder->rows[r]);
    for (int c = 0; !name && c < choice->count && status != GOP_OK; c++)
        if (!choice->candidates[c].suits || choice->candidates[c].suits(ctx, &t->task))
            status = gop_jacobi_plan_row(ctx, t, choice->candidates[c].row);
    gop_jacobi_steps steps = {plan->launch, plan->steps, plan->scratch, {0}};
    memcpy(steps.own, plan->own.bytes, sizeof steps.own);
    *GOP_OWN(gop_jacobi_steps, plan) = steps;
    plan->launch = launch;
    plan->steps = 1;
    plan->scratch = 0;
    return status;
}

static inline gop_status gop_jacobi_plan_steps(const gop_ctx *ctx, const gop_task *solver,
                                               const char *name, gop_plan *plan)
{
    gop_jacobi_task t;
    gop_jacobi_begin(&t, solver, plan);
    return gop_jacobi_plan_task(ctx, &t, name);
}

/* The task whose launches step from one iterate to the next; `plan` becomes theirs, `scratch`
 * is their own. */
static inline void gop_jacobi_ready(gop_jacobi_task *t, const gop_task *solver, gop_plan *plan,
                                    void *scratch)
{
    const gop_jacobi_steps *steps = GOP_OWN(const gop_jacobi_steps, solver->plan);
    gop_jacobi_begin(t, solver, plan);
    plan->launch = steps->launch;
    plan->steps = steps->steps;
    plan->scratch = steps->scratch;
    memcpy(plan->own.bytes, steps->own, sizeof steps->own);
    t->task.scratch = scratch;
}

/* One step; no residual where that is NULL. */
static inline gop_status gop_jacobi_step(gop_ctx *ctx, gop_jacobi_task *t, void *from, void *to,
                                         void *residual)
{
    t->task.in[t->x].data = from;
    t->task.out[0].data = to;
    t->task.out[1].data = residual;
    t->task.nout = residual ? 2 : 1;
    for (int64_t s = 0; s < t->plan->steps; s++) {
        GOP_TRY(t->plan->launch(ctx, &t->task, s));
        if (t->plan->steps > 1) GOP_TRY(ctx->backend->sync(ctx)); /* so that Ctrl-C is heard */
    }
    return GOP_OK;
}

#endif
