/*
 * solve.h - the loop of the solver: steps, norms at each check, columns put aside as they end.
 *
 * A step gives the next iterate and the residual of this one at once, so an iterate is judged
 * when the step beyond it is done; where it ends there, that step was for nothing.
 */
#ifndef GOP_CPU_JACOBI_SOLVE_H
#define GOP_CPU_JACOBI_SOLVE_H

#include "core/arrays/norms.h"
#include "core/ops/jacobi.h"
#include "cpu/runtime/cpu.h"

enum {
    COPIED = 1 << 16, /* items of a piece */
    BESIDE = 64,      /* rows whose items are copied column after column */
};

/* What lies in the scratch memory, in this order, each at a multiple of 64 bytes. */
typedef struct solve_room {
    gop_plan *plan;                              /* of the steps */
    char *iterate[2], *residual, *right, *steps; /* right: f, its columns contiguous */
    double *work, *f, *first, *norm, *fresh;     /* k of each of the norms */
    int64_t *ended; /* the step after which a column ended, or -1 */
    size_t bytes;
} solve_room;

static char *solve_take(solve_room *room, char *base, int64_t bytes)
{
    char *const at = base ? base + room->bytes : NULL;
    room->bytes += ((size_t)bytes + 63) / 64 * 64;
    return at;
}

/* Whether f is copied as the iterates lie: every step reads it beside them. */
static int solve_turns(const gop_jacobi *g)
{
    return g->k > 1 && g->f_row != 1;
}

static solve_room solve_room_of(const gop_task *task, size_t steps)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int64_t vector = g->n * g->k * gop_dtype_size(task->in[0].dtype), each = 8 * g->k;
    char *const base = task->scratch;
    solve_room room = {.bytes = 0};
    room.plan = (gop_plan *)solve_take(&room, base, sizeof *room.plan);
    room.iterate[0] = solve_take(&room, base, vector);
    room.iterate[1] = solve_take(&room, base, vector);
    room.residual = solve_take(&room, base, vector);
    room.right = solve_take(&room, base, solve_turns(g) ? vector : 0);
    room.steps = solve_take(&room, base, (int64_t)steps);
    room.work = (double *)solve_take(&room, base, 8 * gop_norms_work(g->n, g->k));
    room.f = (double *)solve_take(&room, base, each);
    room.first = (double *)solve_take(&room, base, each);
    room.norm = (double *)solve_take(&room, base, each);
    room.fresh = (double *)solve_take(&room, base, each);
    room.ended = (int64_t *)solve_take(&room, base, each);
    return room;
}

/* Copies columns, from or to where each is contiguous. */
typedef struct solve_copy {
    char *to;
    const char *from;
    int64_t k, to_stride, to_column, from_stride, from_column, size; /* bytes */
} solve_copy;

static void solve_copy_items(void *argument, int64_t begin, int64_t end, int worker)
{
    const solve_copy *copy = argument;
    const int64_t to_stride = copy->to_stride, from_stride = copy->from_stride;
    const size_t size = (size_t)copy->size;
    (void)worker;
    for (int64_t first = begin; first < end; first += BESIDE) {
        const int64_t last = gop_smaller(first + BESIDE, end);
        for (int64_t c = 0; c < copy->k; c++) {
            char *const to = copy->to + c * copy->to_column;
            const char *const from = copy->from + c * copy->from_column;
            for (int64_t i = first; i < last; i++)
                memcpy(to + i * to_stride, from + i * from_stride, size);
        }
    }
}

static gop_status solve_copy_columns(int64_t n, solve_copy *copy)
{
    return gop_parallel(n, 1 + COPIED / copy->k, solve_copy_items, copy);
}

/* To where each column of n items is contiguous. */
static gop_status solve_gather(const gop_array *v, int64_t row, int64_t column,
                               const gop_jacobi *g, char *to)
{
    const int64_t size = gop_dtype_size(v->dtype);
    solve_copy copy = {.to = to,
                       .from = v->data,
                       .k = g->k,
                       .to_stride = size,
                       .to_column = g->n * size,
                       .from_stride = row * size,
                       .from_column = column * size,
                       .size = size};
    return solve_copy_columns(g->n, &copy);
}

/* The iterate's column c is the result's from now on; that of f = 0 is 0. */
static gop_status solve_put_aside(const gop_task *task, const char *iterate, int64_t c,
                                  int zero)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int64_t size = gop_dtype_size(task->in[0].dtype);
    static const char zeros[16];
    solve_copy copy = {.to = (char *)task->out[0].data + c * g->out_col * size,
                       .from = zero ? zeros : iterate + c * g->n * size,
                       .k = 1,
                       .to_stride = g->out_row * size,
                       .from_stride = zero ? 0 : size,
                       .size = size};
    return solve_copy_columns(g->n, &copy);
}

static gop_status solve_start(const gop_task *task, const solve_room *room, gop_task *step)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_array *x = &task->in[p->step.csr ? 4 : 2];
    gop_array *const f = &step->in[p->step.csr ? 3 : 1];
    gop_jacobi *const steps = &step->geometry.jacobi;
    GOP_TRY(solve_gather(x, g->x_row, g->x_col, g, room->iterate[0]));
    if (solve_turns(g)) {
        GOP_TRY(solve_gather(f, g->f_row, g->f_col, g, room->right));
        f->data = room->right;
        f->strides[0] = gop_dtype_size(f->dtype);
        f->strides[1] = g->n * f->strides[0];
        steps->f_row = 1;
        steps->f_col = g->n;
    }
    const gop_columns columns = {f->data, f->dtype, g->n, g->k, steps->f_row, steps->f_col};
    GOP_TRY(gop_column_norms(&columns, room->work, room->f));
    for (int64_t c = 0; c < g->k; c++) {
        room->ended[c] = -1;
        if (p->first) room->first[c] = ((const double *)task->in[p->first].data)[c];
    }
    return GOP_OK;
}

/* The norms after m steps, and what they mean for each column; `*left` have not ended. */
static gop_status solve_check(const gop_task *task, const solve_room *room, const char *iterate,
                              int64_t m, int64_t *left)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_columns columns = {room->residual, task->in[0].dtype, g->n, g->k, 1, g->n};
    GOP_TRY(gop_column_norms(&columns, room->work, room->fresh));
    *left = 0;
    for (int64_t c = 0; c < g->k; c++) {
        if (room->ended[c] >= 0) continue; /* its norm stays as its iterate does */
        const int zero = room->f[c] == 0.0;
        const double norm = room->norm[c] = zero ? 0.0 : room->fresh[c];
        if (m == 0 && !p->first) room->first[c] = norm;
        const gop_column_state verdict =
            gop_jacobi_verdict(p->rtol, p->atol, p->dtol, room->f[c], room->first[c], norm);
        if (verdict == GOP_GOES_ON) ++*left;
        else room->ended[c] = m;
        if (verdict != GOP_GOES_ON || m == p->steps)
            GOP_TRY(solve_put_aside(task, iterate, c, zero));
    }
    return GOP_OK;
}

static void solve_row(const gop_task *task, int64_t row, const double *norms)
{
    const int64_t k = task->geometry.jacobi.k;
    if (task->nout > 1) memcpy((double *)task->out[1].data + row * k, norms, 8 * (size_t)k);
}

/* Rows beyond the end repeat the last; the very last says where the columns ended. */
static void solve_end(const gop_task *task, const solve_room *room, int64_t row)
{
    const int64_t last = task->nout > 1 ? task->out[1].shape[0] - 1 : 0;
    for (row++; row < last; row++) solve_row(task, row, room->norm);
    for (int64_t c = 0; c < task->geometry.jacobi.k; c++)
        room->fresh[c] = (double)room->ended[c];
    solve_row(task, last, room->fresh);
}

static gop_status solve(gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_jacobi_steps *steps = GOP_OWN(const gop_jacobi_steps, task->plan);
    const solve_room room = solve_room_of(task, steps->scratch);
    gop_jacobi_task t;
    int64_t left;
    gop_jacobi_ready(&t, task, room.plan, room.steps);
    GOP_TRY(solve_start(task, &room, &t.task));
    solve_row(task, 0, room.f);
    int64_t m = 0, checks = 0;
    for (;; m++) {
        char *const from = room.iterate[m % 2], *const to = room.iterate[(m + 1) % 2];
        const int is_check = m % p->check_every == 0 || m == p->steps;
        GOP_TRY(gop_interrupted());
        GOP_TRY(gop_jacobi_step(ctx, &t, from, to, is_check ? room.residual : NULL));
        if (!is_check) continue;
        GOP_TRY(solve_check(task, &room, from, m, &left));
        solve_row(task, ++checks, room.norm);
        if (left == 0 || m == p->steps) break;
    }
    solve_end(task, &room, checks);
    return GOP_OK;
}

/* ---- the rows' ---- */

static gop_status solve_plan(const gop_ctx *ctx, const gop_task *task, const char *name,
                             gop_plan *plan)
{
    GOP_TRY(gop_jacobi_plan_steps(ctx, task, name, plan));
    plan->scratch = solve_room_of(task, GOP_OWN(gop_jacobi_steps, plan)->scratch).bytes;
    return GOP_OK;
}

#define SOLVE_LAUNCHES(f)                                                                      \
    {                                                                                          \
        [GOP_FLOAT32] = f, [GOP_FLOAT64] = f, [GOP_COMPLEX64] = f, [GOP_COMPLEX128] = f        \
    }

#endif
