/*
 * rotated.c - the double loop of rdf with the distance in memory as the outer loop.
 *
 * For one d after the other, point i is paired with point i + d, modulo n: the second set is
 * rotated against the first. The inner loop always has the same length (in the naive kernel it
 * shrinks), so it can be divided equally: the lecture gives each i to a GPU thread and launches
 * a kernel for each d.
 */
#ifdef D

static gop_status FN(rdf_rotated)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_pairs *p = &task->geometry.pairs;
    const FN(space) space = FN(plain_space)(p);
    /* In one set, d and n - d give the same pairs, and d = n/2 gives each pair twice. */
    const int64_t first = p->one_set ? 1 : 0, end = p->one_set ? p->n / 2 + 1 : p->n2;
    (void)ctx, (void)step;
    clear_counts(task);
    for (int64_t d = first; d < end; d++) {
        const int64_t points = p->one_set && 2 * d == p->n ? d : p->n;
        GOP_TRY(gop_interrupted());
        for (int64_t i = 0, j = d; i < points; i++, j++) {
            if (j == p->n2) j = 0;
            FN(one_pair)(task, &space, i, j);
        }
    }
    return GOP_OK;
}

#else
#include "cpu/rdf/pair.h"

#define GOP_TPL "cpu/rdf/rotated.c"
#include "cpu/rdf/each_float.inc"

static const gop_row rdf_rotated_row = {
    .name = "rotated",
    .note = "the loop over neighbours in memory outside: an inner loop that is always as long",
    .role = GOP_CONFORMING,
    .lecture = "radial distribution function",
    .launch = {[GOP_FLOAT32] = rdf_rotated_float32, [GOP_FLOAT64] = rdf_rotated_float64},
    .plan = plan_one_frame,
};

#endif
