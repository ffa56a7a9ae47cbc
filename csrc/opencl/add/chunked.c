/*
 * chunked.c - the row of chunked.cl.
 */
#include "opencl/add/operands.h"

enum {
    VECTOR = 64,          /* bytes, of at most 16 numbers */
    LEAST = 1 << 14,      /* elements that are worth a work-item of their own */
    CHUNKS_PER_UNIT = 16, /* so that a processor that comes late takes fewer */
};

typedef struct chunked {
    char options[GOP_CL_OPTIONS];
    gop_cl_axes axes;
    int64_t chunk, chunks;
} chunked;

static gop_status add_chunked(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    chunked own = *GOP_OWN(const chunked, task->plan);
    gop_cl_launch launch = {
        .source = "add/chunked",
        .kernel = "add_chunked_kernel",
        .options = own.options,
        .values = 2,
        .value = {{sizeof own.axes, &own.axes}, {sizeof own.chunk, &own.chunk}},
        .dimensions = 1,
        .global = {(size_t)own.chunks},
        .local = {1},
    };
    (void)step;
    gop_cl_add_operands(task, &launch);
    return gop_cl_add_launch(ctx, task, &launch, &own.axes);
}

static gop_status add_chunked_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    chunked *const own = GOP_OWN(chunked, plan);
    const int64_t item = gop_cl_item(task->in[0].dtype);
    GOP_TRY(gop_cl_add_can(ctx, task));
    gop_cl_add_options(task, item < 4 ? 16 : (int)(VECTOR / item), "", own->options);
    gop_cl_add_axes(&task->geometry.elementwise, &own->axes);
    const int64_t wanted = (int64_t)ctx->info.processors * CHUNKS_PER_UNIT;
    own->chunk = (own->axes.size + wanted - 1) / wanted;
    if (own->chunk < LEAST) own->chunk = LEAST;
    own->chunk = (own->chunk + VECTOR - 1) / VECTOR * VECTOR;
    own->chunks = (own->axes.size + own->chunk - 1) / own->chunk;
    plan->launch = add_chunked;
    return GOP_OK;
}

ADD_ROWS(chunked,
         .note = "a contiguous chunk a work-item, vector by vector: a CPU runs work-items one "
                 "after the other, and reads each chunk in order",
         .plan = add_chunked_plan);
