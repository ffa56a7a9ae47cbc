/*
 * jacobi_solve.h - the loop of the solver on hosts that judge: steps, norms at each check,
 * columns put aside as they end.
 *
 * A step gives the next iterate and the residual of this one at once, so an iterate is judged
 * when the step beyond it is done; where it ends there, that step was for nothing.
 */
#ifndef GOP_JACOBI_SOLVE_H
#define GOP_JACOBI_SOLVE_H

#include "core/ops/jacobi.h"

/* Columns [first, first + k) of a task, which are solved together. */
typedef struct gop_solve {
    const gop_task *task;
    int64_t first, k;
    void *iterate[2], *residual;      /* where the steps find them */
    double *f, *begun, *norm, *fresh; /* k of each of the norms; begun: the first */
    int64_t *ended;                   /* the step after which a column ended, or -1 */
    double *rows;                     /* what the second output becomes, if there is one */
    gop_status (*interrupted)(void);
    /* Fills `fresh` from the residual. */
    gop_status (*norms)(const struct gop_solve *solve);
    /* The iterate's column c is the result's from now on; that of f = 0 is 0. */
    gop_status (*put_aside)(const struct gop_solve *solve, const void *iterate, int64_t c,
                            int is_zero);
} gop_solve;

/* Gives the loop's own numbers their places, of which each column has so many. */
enum { GOP_SOLVE_NUMBERS = 5 };
static inline void gop_solve_lay(gop_solve *s, double *number)
{
    s->f = number;
    s->begun = number + s->k;
    s->norm = number + 2 * s->k;
    s->fresh = number + 3 * s->k;
    s->ended = (int64_t *)(void *)(number + 4 * s->k);
}

/* The norms after m steps, and what they mean for each column; `*left` have not ended. */
static inline gop_status gop_solve_check(const gop_solve *s, const void *iterate, int64_t m,
                                         int64_t *left)
{
    const gop_jacobi_params *p = &s->task->call->params.jacobi;
    GOP_TRY(s->norms(s));
    *left = 0;
    for (int64_t c = 0; c < s->k; c++) {
        if (s->ended[c] >= 0) continue; /* its norm stays as its iterate does */
        const int is_zero = s->f[c] == 0.0;
        const double norm = s->norm[c] = is_zero ? 0.0 : s->fresh[c];
        if (m == 0 && !p->first) s->begun[c] = norm;
        const gop_column_state verdict =
            gop_jacobi_verdict(p->rtol, p->atol, p->dtol, s->f[c], s->begun[c], norm);
        if (verdict == GOP_GOES_ON) ++*left;
        else s->ended[c] = m;
        if (verdict != GOP_GOES_ON || m == p->steps)
            GOP_TRY(s->put_aside(s, iterate, c, is_zero));
    }
    return GOP_OK;
}

static inline void gop_solve_keep(const gop_solve *s, int64_t row, const double *norms)
{
    if (s->task->nout > 1 && row < s->task->out[1].shape[0])
        memcpy(s->rows + row * s->task->geometry.jacobi.k + s->first, norms, 8 * (size_t)s->k);
}

/* Rows beyond the end repeat the last; the very last says where the columns ended. */
static inline void gop_solve_end(const gop_solve *s, int64_t row)
{
    const int64_t last = s->task->nout > 1 ? s->task->out[1].shape[0] - 1 : 0;
    for (row++; row < last; row++) gop_solve_keep(s, row, s->norm);
    for (int64_t c = 0; c < s->k; c++) s->fresh[c] = (double)s->ended[c];
    gop_solve_keep(s, last, s->fresh);
}

/* From the first iterate and the norms of f to the end. */
static inline gop_status gop_solve_run(gop_ctx *ctx, gop_solve *s, gop_jacobi_task *t)
{
    const gop_jacobi_params *p = &s->task->call->params.jacobi;
    int64_t left = 0, checks = 0;
    for (int64_t c = 0; c < s->k; c++) s->ended[c] = -1;
    gop_solve_keep(s, 0, s->f);
    for (int64_t m = 0;; m++) {
        void *const from = s->iterate[m % 2], *const to = s->iterate[(m + 1) % 2];
        const int is_check = m % p->check_every == 0 || m == p->steps;
        GOP_TRY(s->interrupted());
        GOP_TRY(gop_jacobi_step(ctx, t, from, to, is_check ? s->residual : NULL));
        if (!is_check) continue;
        GOP_TRY(gop_solve_check(s, from, m, &left));
        gop_solve_keep(s, ++checks, s->norm);
        if (left == 0 || m == p->steps) break;
    }
    gop_solve_end(s, checks);
    return GOP_OK;
}

#endif
