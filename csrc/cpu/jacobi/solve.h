/*
 * solve.h - the loop of the solver: steps, norms at each check, columns stored as they end.
 *
 * A step gives the next iterate and the residual of this one, so an iterate is checked after
 * the step beyond it; if it ends the solve, that step was wasted.
 *
 * Columns are independent, so they are solved in groups, all steps of one group first: a step
 * then finds its vectors in a near cache from the step before.
 */
#ifndef GOP_CPU_JACOBI_SOLVE_H
#define GOP_CPU_JACOBI_SOLVE_H

#include "core/arrays/norms.h"
#include "core/ops/jacobi.h"
#include "cpu/runtime/cpu.h"

enum {
    COPIED = 1 << 16, /* items of a piece */
    BESIDE = 64,      /* rows whose items are copied column after column */
    SIDE = 8,         /* columns for which a step reads a sparse matrix once */
    HELD = 1 << 18,   /* bytes of a group's vectors: half of a small L2 cache */
};

/* Columns [first, first + k), how their items lie in the vectors here, and what lies in the
 * scratch memory, in this order, each at a multiple of 64 bytes. */
typedef struct solve_group {
    int64_t first, k, row, column;
    gop_plan *plan;                              /* of the steps */
    char *iterate[2], *residual, *right, *steps; /* right: f where it is copied */
    double *work, *f, *begun, *norm, *fresh;     /* k of each of the norms; begun: the first */
    int64_t *ended; /* the step after which a column ended, or -1 */
    size_t bytes;
} solve_group;

/* The columns of a group: all for a dense matrix, which costs more to read than any number of
 * them; else as many as fit a cache, but several. */
static int64_t solve_width(const gop_task *task)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_step_params *p = &task->call->params.jacobi.step;
    if (!p->csr && !p->grid.axes) return g->k;
    const int64_t fit = HELD / (4 * (g->n + 1) * gop_dtype_size(task->in[0].dtype));
    return gop_smaller(g->k, fit > SIDE ? fit / SIDE * SIDE : SIDE);
}

/* Lays out columns [first, first + k): interleaved for sparse matrices and constant stencils,
 * so that a row works on vectors; else each column contiguous. */
static void solve_lay(const gop_task *task, solve_group *group, int64_t first, int64_t k)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi.step;
    const int is_constant = p->grid.axes > 0 && task->geometry.jacobi.a_col == 0;
    const int beside = k > 1 && (p->csr || is_constant);
    group->first = first;
    group->k = k;
    group->row = beside ? k : 1;
    group->column = beside ? 1 : task->geometry.jacobi.n;
}

static char *solve_take(solve_group *group, char *base, int64_t bytes)
{
    char *const at = base ? base + group->bytes : NULL;
    group->bytes += ((size_t)bytes + 63) / 64 * 64;
    return at;
}

/* The first group, with its parts of the scratch memory. Without scratch memory only `bytes`
 * counts. */
static solve_group solve_group_of(const gop_task *task, size_t steps)
{
    const int64_t n = task->geometry.jacobi.n, k = solve_width(task), each = 8 * k;
    const int64_t vector = n * k * gop_dtype_size(task->in[0].dtype);
    char *const base = task->scratch;
    solve_group group = {.bytes = 0};
    solve_lay(task, &group, 0, k);
    group.plan = (gop_plan *)solve_take(&group, base, sizeof *group.plan);
    group.iterate[0] = solve_take(&group, base, vector);
    group.iterate[1] = solve_take(&group, base, vector);
    group.residual = solve_take(&group, base, vector);
    group.right = solve_take(&group, base, vector);
    group.steps = solve_take(&group, base, (int64_t)steps);
    group.work = (double *)solve_take(&group, base, 8 * gop_norms_work(n, k));
    group.f = (double *)solve_take(&group, base, each);
    group.begun = (double *)solve_take(&group, base, each);
    group.norm = (double *)solve_take(&group, base, each);
    group.fresh = (double *)solve_take(&group, base, each);
    group.ended = (int64_t *)solve_take(&group, base, each);
    return group;
}

/* Copies n by k items; strides in bytes. */
typedef struct solve_copy {
    char *to;
    const char *from;
    int64_t k, to_row, to_column, from_row, from_column, size;
} solve_copy;

static inline void solve_copy_rows(const solve_copy *copy, int64_t begin, int64_t end,
                                   const size_t size)
{
    for (int64_t first = begin; first < end; first += BESIDE) {
        const int64_t last = gop_smaller(first + BESIDE, end);
        for (int64_t c = 0; c < copy->k; c++) {
            char *const to = copy->to + c * copy->to_column;
            const char *const from = copy->from + c * copy->from_column;
            for (int64_t i = first; i < last; i++)
                memcpy(to + i * copy->to_row, from + i * copy->from_row, size);
        }
    }
}

static void solve_copy_items(void *argument, int64_t begin, int64_t end, int worker)
{
    const solve_copy copy = *(const solve_copy *)argument;
    (void)worker;
    if (copy.size == 4) solve_copy_rows(&copy, begin, end, 4);
    else if (copy.size == 8) solve_copy_rows(&copy, begin, end, 8);
    else solve_copy_rows(&copy, begin, end, 16);
}

static gop_status solve_copy_columns(int64_t n, solve_copy *copy)
{
    return gop_parallel(n, 1 + COPIED / copy->k, solve_copy_items, copy);
}

/* Copies the group's columns of v, whose strides are in items, to the group's layout. */
static gop_status solve_gather(const solve_group *group, const gop_array *v, int64_t row,
                               int64_t column, int64_t n, char *to)
{
    const int64_t size = gop_dtype_size(v->dtype);
    solve_copy copy = {.to = to,
                       .from = (const char *)v->data + group->first * column * size,
                       .k = group->k,
                       .to_row = group->row * size,
                       .to_column = group->column * size,
                       .from_row = row * size,
                       .from_column = column * size,
                       .size = size};
    return solve_copy_columns(n, &copy);
}

/* Stores the iterate's column c in the result; it is 0 if f is. */
static gop_status solve_put_aside(const gop_task *task, const solve_group *group,
                                  const char *iterate, int64_t c, int zero)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int64_t size = gop_dtype_size(task->in[0].dtype);
    static const char zeros[16];
    solve_copy copy = {.to = (char *)task->out[0].data + (group->first + c) * g->out_col * size,
                       .from = zero ? zeros : iterate + c * group->column * size,
                       .k = 1,
                       .to_row = g->out_row * size,
                       .from_row = zero ? 0 : group->row * size,
                       .size = size};
    return solve_copy_columns(g->n, &copy);
}

/* Sets the geometry of the steps to the group's layout. */
static void solve_place(const solve_group *group, gop_jacobi *g)
{
    g->k = group->k;
    g->x_row = g->out_row = g->residual_row = g->f_row = group->row;
    g->x_col = g->out_col = g->residual_col = g->f_col = group->column;
}

/* Prepares a group: copies x, and f unless it has the group's layout; computes the norms of f.
 */
static gop_status solve_start(const gop_task *task, const solve_group *group, gop_task *step)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_array *x = &task->in[p->step.csr ? 4 : 2], *f = &task->in[p->step.csr ? 3 : 1];
    gop_array *const right = &step->in[p->step.csr ? 3 : 1];
    const int lies = g->f_row == group->row && (group->k == 1 || g->f_col == group->column);
    solve_place(group, &step->geometry.jacobi);
    right->data = (char *)f->data + group->first * g->f_col * gop_dtype_size(f->dtype);
    if (!lies) {
        GOP_TRY(solve_gather(group, f, g->f_row, g->f_col, g->n, group->right));
        right->data = group->right;
    }
    GOP_TRY(solve_gather(group, x, g->x_row, g->x_col, g->n, group->iterate[0]));
    const gop_columns columns = {right->data, f->dtype,   g->n,
                                 group->k,    group->row, group->column};
    GOP_TRY(gop_column_norms(&columns, group->work, group->f));
    for (int64_t c = 0; c < group->k; c++) {
        group->ended[c] = -1;
        if (p->first)
            group->begun[c] = ((const double *)task->in[p->first].data)[group->first + c];
    }
    return GOP_OK;
}

/* Computes the norms after m steps and ends the columns that are done; `*left` have not ended.
 */
static gop_status solve_check(const gop_task *task, const solve_group *group,
                              const char *iterate, int64_t m, int64_t *left)
{
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_columns columns = {group->residual, task->in[0].dtype, task->geometry.jacobi.n,
                                 group->k,        group->row,        group->column};
    GOP_TRY(gop_column_norms(&columns, group->work, group->fresh));
    *left = 0;
    for (int64_t c = 0; c < group->k; c++) {
        if (group->ended[c] >= 0) continue; /* its norm stays as its iterate does */
        const int zero = group->f[c] == 0.0;
        const double norm = group->norm[c] = zero ? 0.0 : group->fresh[c];
        if (m == 0 && !p->first) group->begun[c] = norm;
        const gop_column_state verdict =
            gop_jacobi_verdict(p->rtol, p->atol, p->dtol, group->f[c], group->begun[c], norm);
        if (verdict == GOP_GOES_ON) ++*left;
        else group->ended[c] = m;
        if (verdict != GOP_GOES_ON || m == p->steps)
            GOP_TRY(solve_put_aside(task, group, iterate, c, zero));
    }
    return GOP_OK;
}

/* Stores the norms of the group's columns in a row of the second output, if there is one. */
static void solve_row(const gop_task *task, const solve_group *group, int64_t row,
                      const double *norms)
{
    if (task->nout == 1) return;
    double *const to = (double *)task->out[1].data + row * task->geometry.jacobi.k;
    memcpy(to + group->first, norms, 8 * (size_t)group->k);
}

/* Fills the rest of the norms' table: further rows repeat the last norms, and the very last row
 * has the steps at which the columns ended. */
static void solve_end(const gop_task *task, const solve_group *group, int64_t row)
{
    const int64_t last = task->nout > 1 ? task->out[1].shape[0] - 1 : 0;
    for (row++; row < last; row++) solve_row(task, group, row, group->norm);
    for (int64_t c = 0; c < group->k; c++) group->fresh[c] = (double)group->ended[c];
    solve_row(task, group, last, group->fresh);
}

static gop_status solve_columns(gop_ctx *ctx, const gop_task *task, const solve_group *group,
                                gop_jacobi_task *t)
{
    const gop_jacobi_params *p = &task->call->params.jacobi;
    int64_t left, m = 0, checks = 0;
    GOP_TRY(solve_start(task, group, &t->task));
    solve_row(task, group, 0, group->f);
    for (;; m++) {
        char *const from = group->iterate[m % 2], *const to = group->iterate[(m + 1) % 2];
        const int is_check = m % p->check_every == 0 || m == p->steps;
        GOP_TRY(gop_interrupted());
        GOP_TRY(gop_jacobi_step(ctx, t, from, to, is_check ? group->residual : NULL));
        if (!is_check) continue;
        GOP_TRY(solve_check(task, group, from, m, &left));
        solve_row(task, group, ++checks, group->norm);
        if (left == 0 || m == p->steps) break;
    }
    solve_end(task, group, checks);
    return GOP_OK;
}

static gop_status solve(gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi_steps *steps = GOP_OWN(const gop_jacobi_steps, task->plan);
    const int64_t k = task->geometry.jacobi.k, width = solve_width(task);
    solve_group group = solve_group_of(task, steps->scratch);
    gop_jacobi_task t;
    gop_jacobi_ready(&t, task, group.plan, group.steps);
    for (int64_t first = 0; first < k; first += width) {
        solve_lay(task, &group, first, gop_smaller(width, k - first));
        GOP_TRY(solve_columns(ctx, task, &group, &t));
    }
    return GOP_OK;
}

/* ---- the rows' ---- */

static gop_status solve_plan(const gop_ctx *ctx, const gop_task *task, const char *name,
                             gop_plan *plan)
{
    gop_jacobi_task t;
    solve_group group = {.bytes = 0};
    gop_jacobi_begin(&t, task, plan);
    solve_lay(task, &group, 0, solve_width(task));
    solve_place(&group, &t.task.geometry.jacobi);
    GOP_TRY(gop_jacobi_plan_task(ctx, &t, name));
    plan->scratch = solve_group_of(task, GOP_OWN(gop_jacobi_steps, plan)->scratch).bytes;
    return GOP_OK;
}

#define SOLVE_LAUNCHES(f)                                                                      \
    {                                                                                          \
        [GOP_FLOAT32] = f, [GOP_FLOAT64] = f, [GOP_COMPLEX64] = f, [GOP_COMPLEX128] = f        \
    }

#endif
