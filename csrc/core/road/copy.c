/*
 * copy.c - copies that calls are made of: between arrays on a device, and from there to the
 * host for checks that need the data.
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

/* A frame of its own: a call and a task are large. */
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
    const size_t bytes = gop_array_dense(host, &dense);
    dense.where = ctx->device;
    dense.data = device->data;
    if (!gop_array_same_layout(&dense, device)) {
        void *memory;
        GOP_TRY(ctx->backend->alloc(ctx, bytes, &memory));
        dense.data = memory;
        gop_status status = gop_device_copy(ctx, device, &dense);
        if (status == GOP_OK) status = ctx->backend->download(ctx, host, &dense);
        if (status == GOP_OK) status = ctx->backend->sync(ctx);
        ctx->backend->release(ctx, memory);
        return status;
    }
    GOP_TRY(ctx->backend->download(ctx, host, &dense));
    return ctx->backend->sync(ctx);
}

gop_status gop_fetch(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    if (gop_array_size(device) == 0) return GOP_OK;
    void *const before = gop_use_stream(ctx, GOP_DEFAULT_STREAM);
    const gop_status status = fetch_items(ctx, device, host);
    gop_use_stream(ctx, before);
    return status;
}

enum { PIECE = 1 << 20 }; /* elements between two looks for Ctrl-C */

/* All elements in C order. */
static gop_status pack_all(const gop_array *array, char *to)
{
    const int64_t count = gop_array_size(array), item = gop_dtype_size(array->dtype);
    for (int64_t i = 0; i < count; i += PIECE) {
        GOP_TRY(gop_interrupted());
        gop_pack_c_order(array, i, count - i < PIECE ? count - i : PIECE, to + i * item);
    }
    return GOP_OK;
}

/* Declared in core.h: a check where the data lies, after what is enqueued there. */
gop_status gop_check_in_place(const gop_call *call, int count, int *is_well, int64_t *finding)
{
    const gop_device where = call->in[0].where;
    gop_ctx *ctx;
    *is_well = 0;
    for (int i = 0; i < count; i++) {
        const gop_array *a = &call->in[i];
        if (gop_array_on_host(a) || a->where.backend != where.backend ||
            a->where.ordinal != where.ordinal || !gop_array_is_item_aligned(a))
            return GOP_OK;
    }
    GOP_TRY(gop_context_of(where, &ctx));
    if (!ctx->backend->check) return GOP_OK;
    void *const before = gop_use_stream(ctx, GOP_DEFAULT_STREAM);
    const gop_status status = ctx->backend->check(ctx, call, is_well, finding);
    gop_use_stream(ctx, before);
    return status;
}

/* Declared in core.h: what the checks that need data read through. */
gop_status gop_arena_host(gop_arena *arena, const gop_array *array, gop_array *host)
{
    gop_array c_order = *array;
    c_order.stored = 0;
    gop_array_c_order(&c_order);
    *host = c_order;
    if (gop_array_on_host(array) && gop_array_is_item_aligned(array) &&
        gop_array_same_layout(array, &c_order))
        return GOP_OK;
    host->where = (gop_device){GOP_CPU, 0};
    host->data = gop_arena_alloc(arena, (size_t)gop_array_bytes(array));
    if (!host->data) return GOP_NO_MEMORY;
    if (gop_array_on_host(array)) return pack_all(array, host->data);
    gop_ctx *ctx;
    GOP_TRY(gop_context_of(array->where, &ctx));
    return gop_fetch(ctx, array, host);
}
