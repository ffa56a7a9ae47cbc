/*
 * copy.c - copies between arrays on a device, and from a device to the host.
 */
#include <string.h>

#include "core/road/road.h"

void gop_copy_call(const gop_array *from, const gop_array *to, gop_call *call)
{
    memset(call, 0, offsetof(gop_call, params));
    call->op = GOP_OP_transpose;
    call->nin = call->nout = 1;
    call->in[0] = *from;
    call->out[0] = *to;
    call->ntunables = 0;
    call->params.transpose.axes.given = 1;
    call->params.transpose.axes.count = from->ndim;
    for (int d = 0; d < from->ndim; d++) call->params.transpose.axes.axis[d] = d;
}

/* It has a frame of its own: a call and a task are large. */
static __attribute__((noinline)) gop_status run_on_device(gop_ctx *ctx, const gop_call *call)
{
    gop_task task;
    gop_plan plan;
    const gop_row *row;
    task.call = call;
    task.nin = task.nout = 1;
    gop_array_assign(&task.in[0], &call->in[0]);
    gop_array_assign(&task.out[0], &call->out[0]);
    GOP_TRY(gop_descriptor_of(call->op)->plan(&task));
    GOP_TRY(gop_choose(ctx, &task, NULL, 0, &row, &plan));
    gop_status status = gop_acquire_scratch(ctx, &task, &row, &plan, 1, 1);
    if (status == GOP_OK) status = gop_launch_steps(ctx, &task);
    if (task.scratch) gop_scratch_give(ctx, task.scratch);
    return status;
}

gop_status gop_device_copy(gop_ctx *ctx, const gop_array *from, const gop_array *to)
{
    gop_call call;
    if (!gop_array_is_item_aligned(from))
        return gop_check_place(ctx, "transpose", "input", 0, from);
    if (!gop_array_is_item_aligned(to))
        return gop_check_place(ctx, "transpose", "output", 0, to);
    gop_copy_call(from, to, &call);
    return run_on_device(ctx, &call);
}

static gop_status fetch_items(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    gop_array dense;
    void *memory = NULL; /* for the elements in the host's layout, if they lie otherwise */
    gop_status status = GOP_OK;
    const size_t bytes = gop_array_dense(host, &dense);
    dense.where = ctx->device;
    dense.data = device->data;
    if (!gop_array_same_layout(&dense, device)) {
        GOP_TRY(ctx->backend->alloc(ctx, bytes, &memory));
        dense.data = memory;
        status = gop_device_copy(ctx, device, &dense);
    }
    if (status == GOP_OK) status = ctx->backend->download(ctx, host, &dense);
    if (status == GOP_OK) status = ctx->backend->sync(ctx);
    if (memory) ctx->backend->release(ctx, memory);
    return status;
}

gop_status gop_fetch(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    if (gop_array_size(device) == 0) return GOP_OK;
    void *const before = gop_use_stream(ctx, GOP_DEFAULT_STREAM);
    const gop_status status = fetch_items(ctx, device, host);
    gop_use_stream(ctx, before);
    return status;
}

gop_status gop_fetch_from_anywhere(const gop_array *device, const gop_array *host)
{
    gop_ctx *ctx;
    GOP_TRY(gop_context_of(device->where, &ctx));
    return gop_fetch(ctx, device, host);
}
