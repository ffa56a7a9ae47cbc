/*
 * jacobi_solve.h - the loop of jacobi where the host tests for convergence: steps, norms at
 * each check, results of the columns that end.
 *
 * A step computes the next iterate and the residual of this one in one pass. So an iterate is
 * checked after the step beyond it. If the column ends there, that step was in vain.
 */
#ifndef GOP_JACOBI_SOLVE_H
#define GOP_JACOBI_SOLVE_H

#include "core/ops/jacobi.h"

/* Columns [first, first + k) of a task, which are solved together. */
typedef struct gop_solve {
    const gop_task *task;
    int64_t first, k;
    void *iterate[2], *residual;      /* k columns each, in the steps' memory */
    double *f, *begun, *norm, *fresh; /* k norms each: of f; first, last, newest residuals */
    int64_t *ended;                   /* the step after which a column ended, or -1 */
    double *rows;                     /* contents of the second output, if there is one */
    gop_status (*interrupted)(void);
    /* Fills `fresh` from the residual. */
    gop_status (*norms)(const struct gop_solve *solve);
    /* Copies column c of the iterate to the result; zeros if the column of f is 0. */
    gop_status (*put_aside)(const struct gop_solve *solve, const void *iterate, int64_t c,
                            int is_zero);
} gop_solve;

/* Sets where the loop's numbers are: GOP_SOLVE_NUMBERS for each column. */
enum { GOP_SOLVE_NUMBERS = 5 };
static inline void gop_solve_lay(gop_solve *s, double *number)
{
    s->f = number;
    s->begun = number + s->k;
    s->norm = number + 2 * s->k;
    s->fresh = number + 3 * s->k;
    s->ended = (int64_t *)(void *)(number + 4 * s->k);
}

/* Computes the norms after m steps, and ends the columns that have converged or diverged.
 * *left: columns that go on. */
static inline gop_status gop_solve_check(const gop_solve *s, const void *iterate, int64_t m,
                                         int64_t *left)
{
    const gop_jacobi_params *p = &s->task->call->params.jacobi;
    GOP_TRY(s->norms(s));
    *left = 0;
    for (int64_t c = 0; c < s->k; c++) {
        if (s->ended[c] >= 0) continue; /* its norm and iterate stay */
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

/* Writes k norms to a row of the second output, if it has that row. */
static inline void gop_solve_keep(const gop_solve *s, int64_t row, const double *norms)
{
    if (s->task->nout > 1 && row < s->task->out[1].shape[0])
        memcpy(s->rows + row * s->task->geometry.jacobi.k + s->first, norms, 8 * (size_t)s->k);
}

/* Fills the rows after the last check with its norms, and the output's last row with the step
 * after which each column ended. */
static inline void gop_solve_end(const gop_solve *s, int64_t row)
{
    const int64_t last = s->task->nout > 1 ? s->task->out[1].shape[0] - 1 : 0;
    for (row++; row < last; row++) gop_solve_keep(s, row, s->norm);
    for (int64_t c = 0; c < s->k; c++) s->fresh[c] = (double)s->ended[c];
    gop_solve_keep(s, last, s->fresh);
}

/* Runs the solver to its end. The first iterate and f's norms must be there already. */
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
