/*
 * chunked.c - the row of chunked.cl.
 */
#include "opencl/transpose/plane.h"

enum { LEAST = 1 << 14, CHUNKS_PER_UNIT = 16 }; /* elements of a chunk; chunks */

typedef struct chunked {
    char options[GOP_CL_OPTIONS];
    gop_cl_axes axes;
    int64_t chunk, chunks;
} chunked;

static gop_status transpose_chunked(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const chunked *const own = GOP_OWN(const chunked, task->plan);
    gop_cl_launch launch = {
        .source = "transpose/chunked",
        .kernel = "transpose_chunked_kernel",
        .options = own->options,
        .values = 2,
        .value = {{sizeof own->axes, &own->axes}, {sizeof own->chunk, &own->chunk}},
        .dimensions = 1,
        .global = {(size_t)own->chunks},
        .local = {1},
    };
    (void)step;
    gop_cl_transpose_operands(task, &launch);
    return gop_cl_transpose_launch(ctx, task, &launch, &own->axes);
}

static gop_status transpose_chunked_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    chunked *const own = GOP_OWN(chunked, plan);
    const int64_t wanted = (int64_t)ctx->info.processors * CHUNKS_PER_UNIT;
    gop_cl_transpose_options(task, "", own->options);
    gop_cl_transpose_axes(&task->geometry.permutation, &own->axes);
    own->chunk = (own->axes.size + wanted - 1) / wanted;
    if (own->chunk < LEAST) own->chunk = LEAST;
    own->chunks = (own->axes.size + own->chunk - 1) / own->chunk;
    plan->launch = transpose_chunked;
    return GOP_OK;
}

extern const gop_row transpose_chunked_row;
const gop_row transpose_chunked_row = {
    .name = "chunked",
    .note = "a contiguous chunk of the output a work-item, which a CPU runs in order; lines "
            "that stay lines are copied whole",
    .role = GOP_CONFORMING,
    .plan = transpose_chunked_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
