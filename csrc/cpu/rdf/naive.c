/*
 * naive.c - the double loop of rdf, one pair at a time.
 *
 * A pair finds its bin by bisection of the thresholds, a chain of dependent loads.
 */
#ifdef D

/* A space with the box only, which makes no assumption about the points. */
static FN(space) FN(plain_space)(const gop_pairs *p)
{
    FN(space) space = {.one = {0}};
    for (int i = 0; i < 9; i++) space.cell[i] = (T)p->cell[i];
    return space;
}

/* Counts the pair of point i of the first set and j of the second (or of the only set). */
static ALWAYS_INLINE void FN(one_pair)(const gop_task *task, const FN(space) * space, int64_t i,
                                       int64_t j)
{
    const gop_pairs *p = &task->geometry.pairs;
    const T *points2 = task->in[p->one_set ? 0 : 2].data, *b = points2 + j * p->row2;
    const T *a = (const T *)task->in[0].data + i * p->row;
    const T r2 = FN(square)(a[0] - b[0], a[p->col] - b[p->col2], a[2 * p->col] - b[2 * p->col2],
                            space, p->box);
    const int64_t k = FN(bin_of)(r2, task->in[1].data, p->bins);
    if (k >= 0) ++*count_at(task, pair_row(task, i, j), k);
}

static gop_status FN(rdf_naive)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_pairs *p = &task->geometry.pairs;
    const FN(space) space = FN(plain_space)(p);
    (void)ctx, (void)step;
    clear_counts(task);
    for (int64_t i = 0; i < p->n; i++) {
        GOP_TRY(gop_interrupted());
        for (int64_t j = p->one_set ? i + 1 : 0; j < p->n2; j++)
            FN(one_pair)(task, &space, i, j);
    }
    return GOP_OK;
}

#else
#include "cpu/rdf/pair.h"

static void clear_counts(const gop_task *task)
{
    for (int64_t row = 0; row < task->out[0].shape[0]; row++)
        for (int64_t k = 0; k < task->geometry.pairs.bins; k++) *count_at(task, row, k) = 0;
}

static int64_t pair_row(const gop_task *task, int64_t i, int64_t j)
{
    const gop_array *types = types_of(task, 0), *types2 = types_of(task, 1);
    if (!types) return 0;
    return row_of(type_at(types, i), type_at(types2, j), task->geometry.pairs.types);
}

#define GOP_TPL "cpu/rdf/naive.c"
#include "cpu/rdf/each_float.inc"

static const gop_row rdf_naive_row = {
    .name = "naive",
    .note = "the double loop: every pair finds its bin by halving the thresholds",
    .role = GOP_CONFORMING,
    .lecture = "radial distribution function",
    .launch = {[GOP_FLOAT32] = rdf_naive_float32, [GOP_FLOAT64] = rdf_naive_float64},
    .plan = plan_one_frame,
};

#endif
