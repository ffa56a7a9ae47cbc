/*
 * stage.c - bringing operands to the device a call runs on, and results back.
 */
#include <string.h>

#include "core/road/stage.h"

int gop_stage_in_place(const gop_ctx *ctx, const gop_array *array, int casts)
{
    const int facts = ctx->backend->facts;
    const int reads = facts & GOP_HOST_MEMORY && gop_array_on_host(array);
    const int may_cast = casts && reads && facts & GOP_CASTS;
    if (!gop_array_is_item_aligned(array) || (array->stored && !may_cast)) return 0;
    return reads || (array->where.backend == ctx->device.backend &&
                     array->where.ordinal == ctx->device.ordinal);
}

/* Dense layout at an address to come: a multiple of 256, as every allocation will be. */
static void lay_out(const gop_ctx *ctx, const gop_array *source, gop_array *array,
                    gop_staged *staged)
{
    staged->source = source;
    staged->bytes = gop_array_dense(source, array);
    array->where = ctx->device;
    array->data = (void *)256;
}

static gop_status check_place(const gop_ctx *ctx, const char *op, const char *what, int index,
                              const gop_array *source)
{
    if (gop_array_on_host(source)) return GOP_OK;
    const char *const lives = gop_backend_name(source->where.backend);
    if (source->where.backend != ctx->device.backend ||
        source->where.ordinal != ctx->device.ordinal)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: %s %d lives on %s:%d, expected memory of %s:%d or of the host; "
                        "move it with .get() or to_device()",
                        op, what, index, lives, source->where.ordinal, ctx->backend->name,
                        ctx->device.ordinal);
    return gop_fail(
        GOP_BAD_ARGUMENT,
        "%s: %s %d on %s:%d is not aligned to its %d-byte items, expected an aligned "
        "device array",
        op, what, index, lives, source->where.ordinal, (int)gop_array_item(source));
}

gop_status gop_stage_input(const gop_ctx *ctx, const char *op, int index, int casts,
                           const gop_array *source, gop_array *array, gop_staged *staged)
{
    memset(staged, 0, sizeof *staged);
    gop_array_assign(array, source);
    if (gop_stage_in_place(ctx, source, casts)) return GOP_OK;
    GOP_TRY(check_place(ctx, op, "input", index, source));
    lay_out(ctx, source, array, staged);
    return GOP_OK;
}

gop_status gop_stage_output(const gop_ctx *ctx, const char *op, int index,
                            const gop_array *source, int copies, gop_array *array,
                            gop_staged *staged)
{
    memset(staged, 0, sizeof *staged);
    gop_array_assign(array, source);
    if (gop_array_self_overlaps(source))
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: the output's elements overlap each other in memory, "
                        "expected an array in which each has its own place",
                        op);
    if (gop_stage_in_place(ctx, source, 0) && !copies) return GOP_OK;
    if (!copies) GOP_TRY(check_place(ctx, op, "output", index, source));
    lay_out(ctx, source, array, staged);
    return GOP_OK;
}

/* Up to here a kernel that reaches over the bus is done before copies would be. */
enum { LENT_BYTES = 128 << 10 };

gop_status gop_stage_acquire(gop_ctx *ctx, int small, gop_array *array, gop_staged *staged)
{
    const gop_backend *backend = ctx->backend;
    if (!staged->source) return GOP_OK;
    if (small && backend->zero_copy && staged->bytes <= LENT_BYTES &&
        gop_array_on_host(staged->source))
        staged->memory = backend->zero_copy(ctx, staged->bytes);
    staged->zero_copy = staged->memory != NULL;
    if (!staged->zero_copy)
        GOP_TRY(backend->alloc(ctx, staged->bytes ? staged->bytes : 1, &staged->memory));
    array->data = staged->memory;
    return GOP_OK;
}

static int64_t items(const gop_staged *staged)
{
    return (int64_t)staged->bytes / gop_dtype_size(staged->source->dtype);
}

gop_status gop_stage_upload(gop_ctx *ctx, const gop_array *array, const gop_staged *staged)
{
    if (!staged->source || !staged->bytes) return GOP_OK;
    if (!staged->zero_copy) return ctx->backend->upload(ctx, array, staged->source);
    gop_pack(staged->source, 0, items(staged), staged->memory);
    return GOP_OK;
}

int gop_stage_waits(const gop_ctx *ctx, int count, const gop_staged *staged)
{
    int waits = !(ctx->backend->facts & GOP_STREAMS);
    for (int o = 0; o < count; o++)
        waits |= staged[o].source && gop_array_on_host(staged[o].source);
    return waits;
}

gop_status gop_stage_download(gop_ctx *ctx, int count, const gop_array *arrays,
                              const gop_staged *staged)
{
    for (int o = 0; o < count; o++) {
        const gop_array *to = staged[o].source;
        if (!to || !staged[o].bytes || staged[o].zero_copy) continue;
        if (!gop_array_on_host(to)) GOP_TRY(gop_device_copy(ctx, &arrays[o], to));
        else GOP_TRY(ctx->backend->download(ctx, to, &arrays[o]));
    }
    if (gop_stage_waits(ctx, count, staged)) GOP_TRY(ctx->backend->sync(ctx));
    for (int o = 0; o < count; o++)
        if (staged[o].zero_copy)
            gop_unpack(staged[o].source, 0, items(&staged[o]), staged[o].memory);
    return GOP_OK;
}

void gop_stage_release(gop_ctx *ctx, gop_staged *staged)
{
    if (staged->memory) ctx->backend->release(ctx, staged->memory);
    staged->memory = NULL;
}

gop_status gop_device_copy(const gop_ctx *ctx, const gop_array *from, const gop_array *to)
{
    gop_call call;
    memset(&call, 0, offsetof(gop_call, params));
    call.op = GOP_OP_transpose;
    call.nin = call.nout = 1;
    call.in[0] = *from;
    call.out[0] = *to;
    call.ntunables = 0;
    call.params.transpose.axes.given = 1;
    call.params.transpose.axes.count = from->ndim;
    for (int d = 0; d < from->ndim; d++) call.params.transpose.axes.axis[d] = d;
    const gop_run_options options = {.device = ctx->device};
    return gop_run(&call, &options);
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

void *gop_use_stream(gop_ctx *ctx, void *stream)
{
    return ctx->backend->use ? ctx->backend->use(ctx, stream) : NULL;
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
gop_status gop_check_in_place(const gop_call *call, int count, int *is_well, int64_t *longest)
{
    const gop_device where = call->in[0].where;
    const gop_backend *backend;
    gop_ctx *ctx;
    *is_well = 0;
    for (int i = 0; i < count; i++) {
        const gop_array *a = &call->in[i];
        if (gop_array_on_host(a) || a->where.backend != where.backend ||
            a->where.ordinal != where.ordinal || !gop_array_is_item_aligned(a))
            return GOP_OK;
    }
    GOP_TRY(gop_backend_get(where.backend, &backend));
    if (!backend->check) return GOP_OK;
    GOP_TRY(backend->context(where.ordinal, &ctx));
    void *const before = gop_use_stream(ctx, GOP_DEFAULT_STREAM);
    const gop_status status = backend->check(ctx, call, is_well, longest);
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
    const gop_backend *backend;
    gop_ctx *ctx;
    GOP_TRY(gop_backend_get(array->where.backend, &backend));
    GOP_TRY(backend->context(array->where.ordinal, &ctx));
    return gop_fetch(ctx, array, host);
}
