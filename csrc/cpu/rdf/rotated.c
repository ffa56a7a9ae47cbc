/*
 * rotated.c - the double loop of rdf over how far two points are apart in memory.
 *
 * Point i meets point i + d, the numbers taken modulo n, for one d after the other: the second
 * set is rotated against the first. The inner loop is always as long, where that of the naive
 * kernel shrinks, so that it can be cut into equal parts: the lecture gives a thread of a GPU
 * to each i, and launches for each d.
 */
#ifdef D

static gop_status FN(rdf_rotated)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_pairs *p = &task->geometry.pairs;
    const FN(space) space = FN(plain_space)(p);
    /* In one set, d and n - d are the same pairs, and d = n/2 has each pair twice. */
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
