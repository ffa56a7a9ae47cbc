/*
 * naive.c - jacobi_step row by row, term by term, on one thread.
 *
 * Each product is added to its lane of tree/v1, for dense and CSR matrices.
 */
#ifdef D

static T FN(naive_row)(const FN(system) * s, int64_t i, int64_t c)
{
    const gop_jacobi *g = &s->g;
    const csr_row row =
        s->csr ? row_of(s->indptr, g->index64, i, s->stored) : (csr_row){0, g->n};
    TREE(nodes) tree;
    tree.leaves = 0;
    for (int64_t begin = row.begin; begin < row.end; begin += LEAF) {
        const int64_t end = row.end - begin < LEAF ? row.end : begin + LEAF;
        T lane[LANES];
        for (int l = 0; l < LANES; l++) lane[l] = NEGATIVE_ZERO;
        for (int64_t p = begin; p < end; p++) {
            const int64_t l = (p - begin) % LANES;
            const int64_t k = s->csr ? column_at(s->indices, g->index64, p, g->n) : p;
            const T a = s->csr ? s->a[p] : s->a[i * g->a_row + k * g->a_col];
            lane[l] = FN(multiply_add)(a, s->x[k * g->x_row + c * g->x_col], lane[l]);
        }
        TREE(push)(&tree, TREE(fold_lanes)(lane));
    }
    return TREE(root)(&tree, POSITIVE_ZERO);
}

static gop_status FN(jacobi_step_naive)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx;
    const FN(system) s = FN(system_of)(task);
    const int64_t steps = task->plan->steps;
    for (int64_t i = slice(s.g.n, step, steps); i < slice(s.g.n, step + 1, steps); i++) {
        const T diagonal = FN(diagonal)(&s, i);
        for (int64_t c = 0; c < s.g.k; c++)
            FN(update)(&s, i, c, FN(naive_row)(&s, i, c), diagonal);
    }
    return GOP_OK;
}

#else
#include "cpu/jacobi_step/system.h"

#define GOP_TPL "cpu/jacobi_step/naive.c"
#include "cpu/jacobi_step/each_inexact.inc"

static gop_status jacobi_step_naive_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    (void)ctx;
    GOP_TRY(refuse_stencil(task, "naive"));
    plan->steps = slices(task);
    return GOP_OK;
}

static const gop_row jacobi_step_naive_row = {
    .name = "naive",
    .note = "one row after the other, one term after the other, on one thread",
    .role = GOP_CONFORMING,
    .lecture = "simple iteration",
    .launch = LAUNCH(jacobi_step_naive),
    .plan = jacobi_step_naive_plan,
};

#endif
