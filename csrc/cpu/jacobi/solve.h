/*
 * solve.h - the solver on the CPU: the layout of columns, and their norms, for core's loop.
 *
 * Columns are independent, so they are solved in groups: all steps of one group, then those of
 * the next. What a step reads and writes is then still in a near cache from the step before.
 */
#ifndef GOP_CPU_JACOBI_SOLVE_H
#define GOP_CPU_JACOBI_SOLVE_H

#include "core/arrays/norms.h"
#include "core/ops/jacobi_solve.h"
#include "cpu/runtime/cpu.h"

enum {
    COPIED = 1 << 16, /* items of a piece */
    BESIDE = 8,       /* rows that are copied column by column */
    SIDE = 8,         /* columns of a stencil's step, at least */
    CSR_SIDE = 32,    /* the same of a sparse matrix, which is read once for all of them */
    HELD = 1 << 18,   /* bytes of a group's vectors: half of a small L2 cache */
};

/* Core's part must be first. `row` and `column` are the strides of the vectors, in items. The
 * rest points into the scratch memory, aligned to 64 bytes. */
typedef struct solve_group {
    gop_solve solve;
    int64_t row, column;
    gop_plan *plan;      /* of the steps */
    char *right, *steps; /* right: the copy of f, if it is copied */
    double *work;
    size_t bytes;
} solve_group;

/* The number of columns of a group. All columns share a dense matrix, because reading it costs
 * more than all their vectors. Other matrices are small beside a few columns. */
static int64_t solve_width(const gop_task *task)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_step_params *p = &task->call->params.jacobi.step;
    if (!p->csr && !p->grid.axes) return g->k;
    const int64_t fit = HELD / (4 * (g->n + 1) * gop_dtype_size(task->in[0].dtype));
    const int64_t side = p->csr ? CSR_SIDE : SIDE;
    return gop_smaller(g->k, fit > side ? fit / side * side : side);
}

/* Sets the layout of a group. Columns are interleaved, so that a row works on vectors, if
 * coefficients are looked up or the same in all rows. Otherwise each column is contiguous. */
static void solve_lay(const gop_task *task, solve_group *group, int64_t first, int64_t k)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi.step;
    const int is_constant = p->grid.axes > 0 && task->geometry.jacobi.a_col == 0;
    const int beside = k > 1 && (p->csr || is_constant);
    group->solve.first = first;
    group->solve.k = k;
    group->row = beside ? k : 1;
    group->column = beside ? 1 : task->geometry.jacobi.n;
}

static char *solve_take(solve_group *group, char *base, int64_t bytes)
{
    char *const at = base ? base + group->bytes : NULL;
    group->bytes += ((size_t)bytes + 63) / 64 * 64;
    return at;
}

/* A copy of n by k items; strides in bytes. */
typedef struct solve_copy {
    char *to;
    const char *from;
    int64_t k, to_row, to_column, from_row, from_column, size;
} solve_copy;

static inline void solve_copy_rows(const solve_copy *copy, int64_t begin, int64_t end,
                                   const size_t size)
{
    const int64_t item = (int64_t)size;
    if (copy->to_column == item && copy->from_column == item) {
        for (int64_t i = begin; i < end; i++)
            memcpy(copy->to + i * copy->to_row, copy->from + i * copy->from_row,
                   size * (size_t)copy->k);
        return;
    }
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

/* Copies the group's columns of v to the group's layout. The strides of v are in items. */
static gop_status solve_gather(const solve_group *group, const gop_array *v, int64_t row,
                               int64_t column, int64_t n, char *to)
{
    const int64_t size = gop_dtype_size(v->dtype);
    solve_copy copy = {.to = to,
                       .from = (const char *)v->data + group->solve.first * column * size,
                       .k = group->solve.k,
                       .to_row = group->row * size,
                       .to_column = group->column * size,
                       .from_row = row * size,
                       .from_column = column * size,
                       .size = size};
    return solve_copy_columns(n, &copy);
}

/* Stores a column whose iteration has ended. Core's loop calls it. */
static gop_status solve_put_aside(const gop_solve *solve, const void *iterate, int64_t c,
                                  int zero)
{
    const solve_group *const group = (const solve_group *)solve;
    const gop_task *const task = solve->task;
    const gop_jacobi *g = &task->geometry.jacobi;
    const int64_t size = gop_dtype_size(task->in[0].dtype);
    static const char zeros[16];
    solve_copy copy = {.to = (char *)task->out[0].data + (solve->first + c) * g->out_col * size,
                       .from = zero ? zeros : (const char *)iterate + c * group->column * size,
                       .k = 1,
                       .to_row = g->out_row * size,
                       .from_row = zero ? 0 : group->row * size,
                       .size = size};
    return solve_copy_columns(g->n, &copy);
}

static gop_status solve_norms(const gop_solve *solve)
{
    const solve_group *const group = (const solve_group *)solve;
    const gop_columns columns = {solve->residual,
                                 solve->task->in[0].dtype,
                                 solve->task->geometry.jacobi.n,
                                 solve->k,
                                 group->row,
                                 group->column};
    return gop_column_norms(&columns, group->work, solve->fresh);
}

/* Makes the first group, whose memory every group reuses. */
static solve_group solve_group_of(const gop_task *task, size_t steps)
{
    const int64_t n = task->geometry.jacobi.n, k = solve_width(task);
    const int64_t vector = n * k * gop_dtype_size(task->in[0].dtype);
    char *const base = task->scratch;
    solve_group group = {.solve = {.task = task,
                                   .interrupted = gop_interrupted,
                                   .norms = solve_norms,
                                   .put_aside = solve_put_aside}};
    solve_lay(task, &group, 0, k);
    group.plan = (gop_plan *)solve_take(&group, base, sizeof *group.plan);
    group.solve.iterate[0] = solve_take(&group, base, vector);
    group.solve.iterate[1] = solve_take(&group, base, vector);
    group.solve.residual = solve_take(&group, base, vector);
    group.right = solve_take(&group, base, vector);
    group.steps = solve_take(&group, base, (int64_t)steps);
    group.work = (double *)solve_take(&group, base, 8 * gop_norms_work(n, k));
    double *const numbers = (double *)solve_take(&group, base, 8 * GOP_SOLVE_NUMBERS * k);
    if (base) gop_solve_lay(&group.solve, numbers);
    return group;
}

/* Fills the geometry of the steps. */
static void solve_place(const solve_group *group, gop_jacobi *g)
{
    g->k = group->solve.k;
    g->x_row = g->out_row = g->residual_row = g->f_row = group->row;
    g->x_col = g->out_col = g->residual_col = g->f_col = group->column;
}

/* Prepares a group's first step. f is read in place if it has the layout of the iterates. */
static gop_status solve_start(const gop_task *task, const solve_group *group, gop_task *step)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_array *x = &task->in[p->step.csr ? 4 : 2], *f = &task->in[p->step.csr ? 3 : 1];
    gop_array *const right = &step->in[p->step.csr ? 3 : 1];
    const int lies =
        g->f_row == group->row && (group->solve.k == 1 || g->f_col == group->column);
    solve_place(group, &step->geometry.jacobi);
    right->data = (char *)f->data + group->solve.first * g->f_col * gop_dtype_size(f->dtype);
    if (!lies) {
        GOP_TRY(solve_gather(group, f, g->f_row, g->f_col, g->n, group->right));
        right->data = group->right;
    }
    GOP_TRY(solve_gather(group, x, g->x_row, g->x_col, g->n, group->solve.iterate[0]));
    const gop_columns columns = {right->data,    f->dtype,   g->n,
                                 group->solve.k, group->row, group->column};
    GOP_TRY(gop_column_norms(&columns, group->work, group->solve.f));
    if (p->first)
        memcpy(group->solve.begun, (const double *)task->in[p->first].data + group->solve.first,
               8 * (size_t)group->solve.k);
    return GOP_OK;
}

static gop_status solve(gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi_steps *steps = GOP_OWN(const gop_jacobi_steps, task->plan);
    const int64_t k = task->geometry.jacobi.k, width = solve_width(task);
    solve_group group = solve_group_of(task, steps->scratch);
    gop_jacobi_task t;
    group.solve.rows = task->nout > 1 ? task->out[1].data : NULL;
    gop_jacobi_ready(&t, task, group.plan, group.steps);
    for (int64_t first = 0; first < k; first += width) {
        solve_lay(task, &group, first, gop_smaller(width, k - first));
        GOP_TRY(solve_start(task, &group, &t.task));
        GOP_TRY(gop_solve_run(ctx, &group.solve, &t));
    }
    return GOP_OK;
}

/* ---- for the rows ---- */

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
