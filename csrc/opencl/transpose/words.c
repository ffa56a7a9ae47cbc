/*
 * words.c - the row of words.cl.
 */
#include "opencl/transpose/plane.h"

#include <stdio.h>

enum { WORDS = 32, ROWS = 8 }; /* work-items of a group, side by side and in rows */

static gop_status transpose_words(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_transpose_grouped(ctx, task, "transpose/words", "transpose_words_kernel",
                                    WORDS, ROWS);
}

/* Whether all that a work-item reads or writes is a whole word. */
static int are_whole(const gop_task *task, const gop_cl_tiling *t, int64_t wide)
{
    const gop_cl_plane *const p = &t->plane;
    int64_t items = p->nx | p->ny | p->in_y | p->out_x;
    for (int axis = 0; axis < t->batch.rank; axis++)
        items |= t->batch.stride[0][axis] | t->batch.stride[1][axis];
    return p->in_x == 1 && p->out_y == 1 && items % wide == 0 &&
           ((uintptr_t)task->in[0].data | (uintptr_t)task->out[0].data) % 4 == 0;
}

static gop_status transpose_words_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    gop_cl_tiling *const t = GOP_OWN(gop_cl_tiling, plan);
    const int64_t item = gop_cl_item(task->in[0].dtype), wide = 4 / item;
    const int64_t local = WORDS * wide * (WORDS + 1) * 4;
    GOP_TRY(gop_cl_transpose_tiles("words", task, (int)(WORDS * wide), (int)(WORDS * wide), t));
    if (!are_whole(task, t, wide))
        return gop_fail(GOP_REFUSED,
                        "transpose: kernel 'words' takes rows of whole words, of which each "
                        "starts at a multiple of 4 bytes, got others");
    if (WORDS * ROWS > gop_cl_most_in_group(ctx) || local > ctx->info.shared_per_block)
        return gop_fail(GOP_REFUSED,
                        "transpose: kernel 'words' takes work-groups of %d work-items and %lld "
                        "bytes of local memory, which %s does not have",
                        WORDS * ROWS, (long long)local, gop_cl_device_name(ctx));
    char more[32];
    snprintf(more, sizeof more, " -DROWS=%d", ROWS);
    gop_cl_transpose_options(task, more, t->options);
    plan->launch = transpose_words;
    return GOP_OK;
}

extern const gop_row transpose_words_row;
const gop_row transpose_words_row = {
    .name = "words",
    .note = "small items by words: squares of them are turned in private memory, so that rows "
            "are read and written by whole words",
    .role = GOP_CONFORMING,
    .plan = transpose_words_plan,
    .dtypes = 1u << GOP_BOOL | 1u << GOP_INT8 | 1u << GOP_UINT8 | 1u << GOP_INT16 |
              1u << GOP_UINT16 | 1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16,
};
