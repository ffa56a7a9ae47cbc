/*
 * naive.c - transpose in the output's order; each index is decomposed axis by axis.
 *
 * Writes are contiguous, reads are not: a few bytes of each cache line are used before the line
 * is evicted.
 */
#ifdef D

static void FN(element)(void *out, int64_t to, const void *in, int64_t from)
{
    ((T *)out)[to] = ((const T *)in)[from];
}

static gop_status FN(transpose_naive)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return every_element(task, FN(element));
}

#else
#include "cpu/transpose/tiles.h"
#include "cpu/transpose/turn.h"

typedef void (*element_fn)(void *out, int64_t to, const void *in, int64_t from);

static gop_status every_element(const gop_task *task, element_fn element)
{
    const gop_permutation *p = &task->geometry.permutation;
    for (int64_t i = 0; i < p->size; i++) {
        int64_t index[GOP_MAX_NDIM];
        gop_unravel(i, p->rank, p->extent, index);
        element(task->out[0].data, gop_offset(p->rank, index, p->out), task->in[0].data,
                gop_offset(p->rank, index, p->in));
        if (i % GOP_HEAR == GOP_HEAR - 1) GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

#define GOP_TPL "cpu/transpose/naive.c"
#include "cpu/transpose/each_item.inc"

static const gop_row transpose_naive_row = {
    .name = "naive",
    .note = "one element at a time in the output's order: reads use a few bytes of each "
            "cache line",
    .role = GOP_CONFORMING,
    .launch = BY_SIZE(transpose_naive),
};

#endif
