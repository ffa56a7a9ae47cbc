/*
 * reads.cu - transpose, one item a thread in the input's order: the naive kernel, its axes
 * sorted.
 *
 * Neighbouring threads read neighbours, so reads coalesce; every write is a memory transaction
 * of its own, and no cache helps.
 */
#include "cuda/transpose/order.h"

static gop_status transpose_reads(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return transpose_in_order(ctx, task, *GOP_OWN(const gop_permutation, task->plan));
}

static gop_status transpose_reads_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    gop_permutation &p = *GOP_OWN(gop_permutation, plan);
    p = task->geometry.permutation;
    int64_t *const lists[] = {p.extent, p.in, p.out};
    for (int i = 1; i < p.rank; i++)
        for (int k = i; k > 0 && gop_magnitude(p.in[k]) > gop_magnitude(p.in[k - 1]); k--)
            for (int64_t *values : lists) {
                const int64_t value = values[k];
                values[k] = values[k - 1];
                values[k - 1] = value;
            }
    plan->launch = transpose_reads;
    return GOP_OK;
}

extern const gop_row transpose_reads_row = {
    .name = "reads",
    .note = "one element a thread in the input's order: reads coalesce, every write is a "
            "transaction",
    .role = GOP_CONFORMING,
    .lecture = TRANSPOSE_LECTURE,
    .plan = transpose_reads_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
