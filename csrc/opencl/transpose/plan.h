/*
 * plan.h - the plans of transpose.
 */
#ifndef GOP_OPENCL_TRANSPOSE_PLAN_H
#define GOP_OPENCL_TRANSPOSE_PLAN_H

#include "opencl/opencl.h"

#define PLAN(by)                                                                               \
    gop_status gop_cl_transpose_by_##by(const gop_ctx *ctx, const gop_task *task,              \
                                        const gop_cl_names *names, gop_plan *plan)             \
        GOP_MUST_CHECK
PLAN(items);        /* an item a work-item; tunable "group" */
PLAN(chunks);       /* a chunk of the output a work-item */
PLAN(tiles);        /* a work-group a tile; tunables "side" and "rows" */
PLAN(padded_tiles); /* with a word more in each row of local memory */
PLAN(words);        /* of items shorter than a word */
PLAN(blocks);       /* a chunk of tiles a work-item */
#undef PLAN

#endif
