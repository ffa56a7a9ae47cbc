/*
 * memory.c - memory of the devices, and the buffers that kernels get of it.
 *
 * Core counts in addresses, OpenCL in buffers. A device with memory of its own has a buffer for
 * each allocation, and its addresses are made up, beyond those that a processor has: the high
 * bits say which buffer is meant, the low ones where. On a device that shares the host's memory
 * addresses are the host's, and each launch makes buffers of them, which nothing is copied for.
 */
#include <string.h>

#include "core/arrays/bounds.h"
#include "opencl/runtime/runtime.h"

enum { PIECE = 2 << 20 }; /* bytes of a transfer; staging memory has room for two */

/* ---- addresses of a device's own memory ---- */

/* A number that no buffer has is left to the right of an address's, for what lies inside. */
enum { SLOTS = 1 << 20, INSIDE = 40 };

typedef struct slot {
    cl_mem buffer;
    size_t bytes; /* 0: the slot is free */
} slot;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static slot slots[SLOTS]; /* of which few pages are ever there */

static slot *slot_of(const void *memory)
{
    return &slots[((uintptr_t)memory >> INSIDE) - 1];
}

cl_mem gop_cl_buffer_of(const void *memory, size_t *offset)
{
    *offset = (uintptr_t)memory & (((uintptr_t)1 << INSIDE) - 1);
    return slot_of(memory)->buffer;
}

/* An address for a buffer, or NULL. */
static void *name_buffer(cl_mem buffer, size_t bytes)
{
    static size_t next;
    void *address = NULL;
    if (bytes >> INSIDE) return NULL;
    pthread_mutex_lock(&lock);
    for (size_t tried = 0; tried < SLOTS && !address; tried++, next++) {
        slot *const s = &slots[next % SLOTS];
        if (s->bytes) continue;
        *s = (slot){buffer, bytes};
        address = (void *)((next % SLOTS + 1) << INSIDE);
    }
    pthread_mutex_unlock(&lock);
    return address;
}

/* ---- allocations; drivers take longer for one than for a short launch, so that small buffers
 * are kept, in sizes of powers of two ---- */

enum { SMALLEST = 9, NO_CLASS = -1 }; /* 2^SMALLEST bytes */

static int class_of(size_t bytes)
{
    for (int k = 0; k < GOP_CL_CLASSES; k++)
        if (bytes <= (size_t)1 << (SMALLEST + k)) return k;
    return NO_CLASS;
}

gop_status gop_cl_make_buffer(gop_cl_ctx *c, void *memory, size_t bytes, cl_mem *buffer)
{
    const cl_flags flags = CL_MEM_READ_WRITE | (memory ? CL_MEM_USE_HOST_PTR : 0);
    if (GOP_CL_MAKE(*buffer, clCreateBuffer, c->device->context, flags, bytes, memory) ==
        GOP_OK)
        return GOP_OK;
    return gop_cl_no_buffer(&c->base, gop_cl_code, bytes);
}

static gop_status alloc_buffer(gop_cl_ctx *c, size_t bytes, void **memory)
{
    const int class = class_of(bytes);
    cl_mem buffer;
    if (class != NO_CLASS && c->keeps[class] > 0) {
        *memory = c->kept[class][--c->keeps[class]];
        return GOP_OK;
    }
    if (class != NO_CLASS) bytes = (size_t)1 << (SMALLEST + class);
    GOP_TRY(gop_cl_make_buffer(c, NULL, bytes, &buffer));
    *memory = name_buffer(buffer, bytes);
    if (*memory) return GOP_OK;
    gop_cl.clReleaseMemObject(buffer);
    return gop_fail(GOP_NO_MEMORY, "opencl: no address is left for %zu bytes", bytes);
}

gop_status gop_cl_alloc(gop_ctx *ctx, size_t bytes, void **memory)
{
    if (!gop_cl_of(ctx)->device->shares_memory)
        return alloc_buffer(gop_cl_of(ctx), bytes, memory);
    *memory = gop_services->alloc(bytes);
    if (*memory) return GOP_OK;
    return gop_cl_no_buffer(ctx, CL_OUT_OF_HOST_MEMORY, bytes);
}

void gop_cl_release(gop_ctx *ctx, void *memory)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    if (!memory) return;
    if (c->device->shares_memory) {
        gop_services->release(memory);
        return;
    }
    slot *const s = slot_of(memory);
    const int class = class_of(s->bytes);
    if (class != NO_CLASS && c->keeps[class] < GOP_CL_KEPT) {
        c->kept[class][c->keeps[class]++] = memory;
        return;
    }
    if (gop_cl_usable() == GOP_OK) gop_cl.clReleaseMemObject(s->buffer);
    pthread_mutex_lock(&lock);
    s->bytes = 0;
    pthread_mutex_unlock(&lock);
}

gop_status gop_cl_finish(gop_cl_ctx *c)
{
    gop_status status = GOP_OK;
    if (c->is_busy) status = GOP_CL_CALL(clFinish, c->queue);
    if (status != GOP_OK) gop_cl.clFinish(c->queue); /* callers free what kernels write to */
    c->is_busy = 0;
    c->staged = 0;
    return status;
}

/* ---- transfers: through a piece of memory that host arrays are packed into ---- */

/* The device takes its pieces of an upload while the host packs the next ones; whoever uploads
 * waits for the queue. */
static gop_status move_pieces(gop_cl_ctx *c, const gop_array *device, const gop_array *host,
                              int packing)
{
    const int64_t item = gop_cl_item(host->dtype);
    const int64_t count = gop_services->elements(host);
    size_t begin;
    cl_mem buffer = gop_cl_buffer_of(device->data, &begin);
    if (!c->staging) c->staging = gop_services->alloc(2 * PIECE);
    if (!c->staging) return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for a transfer");
    for (int64_t first = 0; first < count; first += PIECE / item) {
        const int64_t now = gop_smaller(count - first, PIECE / item);
        const size_t at = begin + (size_t)(first * item);
        if (c->staged + (size_t)(now * item) > 2 * PIECE) GOP_TRY(gop_cl_finish(c));
        char *const dense = c->staging + c->staged; /* in use until the queue is done */
        c->staged += (size_t)gop_ceil(now * item, 64) * 64;
        if (packing) GOP_TRY(gop_services->move(host, first, now, dense, 1));
        c->is_busy = 1;
        if (packing)
            GOP_TRY(GOP_CL_CALL(clEnqueueWriteBuffer, c->queue, buffer, 0, at,
                                (size_t)(now * item), dense, 0, NULL, NULL));
        else {
            GOP_TRY(GOP_CL_CALL(clEnqueueReadBuffer, c->queue, buffer, 1, at,
                                (size_t)(now * item), dense, 0, NULL, NULL));
            c->is_busy = 0; /* it has waited for all before it */
            c->staged = 0;
            GOP_TRY(gop_services->move(host, first, now, dense, 0));
        }
    }
    return GOP_OK;
}

static gop_status move(gop_ctx *ctx, const gop_array *device, const gop_array *host,
                       int packing)
{
    if (!gop_cl_of(ctx)->device->shares_memory)
        return move_pieces(gop_cl_of(ctx), device, host, packing);
    return gop_services->move(host, 0, gop_services->elements(host), device->data, packing);
}

gop_status gop_cl_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    return move(ctx, device, host, 1);
}

gop_status gop_cl_download(gop_ctx *ctx, const gop_array *host, const gop_array *device)
{
    return move(ctx, device, host, 0);
}

/* ---- a user's buffers ---- */

gop_status gop_cl_buffer_from(gop_cl_ctx *c, void *address, size_t bytes, cl_mem *buffer)
{
    if (c->device->shares_memory)
        return GOP_CL_MAKE(*buffer, clCreateBuffer, c->device->context,
                           CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, address);
    size_t at;
    cl_mem whole = gop_cl_buffer_of(address, &at);
    /* Kernels may not write to parts of a buffer that overlap, and NVIDIA's driver dies of
     * them. Arrays lie behind others' begin only where they overlap. */
    if (at)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "opencl: an argument begins %zu bytes behind one that it shares memory "
                        "with, expected the same begin on this device; pass a copy, or the "
                        "whole array and an index",
                        at);
    GOP_TRY(GOP_CL_CALL(clRetainMemObject, whole));
    *buffer = whole;
    return GOP_OK;
}
