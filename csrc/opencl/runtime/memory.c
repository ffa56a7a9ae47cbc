/*
 * memory.c - memory of the devices, and the buffers that kernels get of it.
 *
 * Core counts in addresses, OpenCL in buffers. A device with memory of its own has a buffer and
 * a range of addresses for each allocation, which nobody can read or write: an address in it
 * says which buffer is meant, and where. On a device that shares the host's memory addresses
 * are the host's, and each launch makes buffers of them, which nothing is copied for.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "opencl/runtime/runtime.h"

enum { BASE = 128, PIECE = 4 << 20 }; /* bytes: where buffers begin; of a transfer */

/* ---- ranges of addresses, sorted ---- */

typedef struct range {
    uintptr_t begin, end;
    cl_mem buffer;
} range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range *ranges;
static int range_count, range_room;

/* The first range that ends behind an address. */
static int find_range(uintptr_t address)
{
    int low = 0, high = range_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ranges[middle].end <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static int keep_range(range added)
{
    int kept = 1;
    pthread_mutex_lock(&lock);
    if (range_count == range_room) {
        const int room = range_room ? 2 * range_room : 64;
        range *const more = gop_services->alloc((size_t)room * sizeof *more);
        if (more) {
            if (range_count) memcpy(more, ranges, (size_t)range_count * sizeof *more);
            gop_services->release(ranges);
            ranges = more;
            range_room = room;
        } else kept = 0;
    }
    if (kept) {
        const int at = find_range(added.begin);
        memmove(ranges + at + 1, ranges + at, (size_t)(range_count - at) * sizeof *ranges);
        ranges[at] = added;
        range_count++;
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

static range range_of(const void *memory)
{
    range found = {0, 0, NULL};
    pthread_mutex_lock(&lock);
    const int at = find_range((uintptr_t)memory);
    if (at < range_count && ranges[at].begin <= (uintptr_t)memory) found = ranges[at];
    pthread_mutex_unlock(&lock);
    return found;
}

static range drop_range(const void *memory)
{
    pthread_mutex_lock(&lock);
    const int at = find_range((uintptr_t)memory);
    const range dropped = ranges[at];
    range_count--;
    memmove(ranges + at, ranges + at + 1, (size_t)(range_count - at) * sizeof *ranges);
    pthread_mutex_unlock(&lock);
    return dropped;
}

/* ---- allocations ---- */

static gop_status alloc_buffer(gop_ctx *ctx, size_t bytes, void **memory)
{
    const gop_cl_ctx *const c = gop_cl_of(ctx);
    cl_int code = CL_SUCCESS;
    cl_mem buffer =
        GOP_CL_MAKE(&code, clCreateBuffer, c->device->context, CL_MEM_READ_WRITE, bytes, NULL);
    if (!buffer)
        return gop_cl_has_no_memory(code) ? gop_cl_no_memory(ctx, code, bytes)
                                          : gop_cl_check(code, "clCreateBuffer");
    void *const place =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const uintptr_t begin = (uintptr_t)place;
    if (place != MAP_FAILED && keep_range((range){begin, begin + bytes, buffer})) {
        *memory = place;
        return GOP_OK;
    }
    if (place != MAP_FAILED) munmap(place, bytes);
    gop_cl.clReleaseMemObject(buffer);
    return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for the address of %zu bytes",
                    bytes);
}

gop_status gop_cl_alloc(gop_ctx *ctx, size_t bytes, void **memory)
{
    if (!gop_cl_of(ctx)->device->shares_memory) return alloc_buffer(ctx, bytes, memory);
    *memory = gop_services->alloc(bytes);
    if (*memory) return GOP_OK;
    return gop_cl_no_memory(ctx, CL_OUT_OF_HOST_MEMORY, bytes);
}

void gop_cl_release(gop_ctx *ctx, void *memory)
{
    if (!memory) return;
    if (gop_cl_of(ctx)->device->shares_memory) {
        gop_services->release(memory);
        return;
    }
    const range dropped = drop_range(memory);
    munmap((void *)dropped.begin, dropped.end - dropped.begin);
    if (gop_cl_usable() == GOP_OK) gop_cl.clReleaseMemObject(dropped.buffer);
}

/* ---- transfers: through a piece of memory that host arrays are packed into ---- */

static int64_t elements(const gop_array *dense)
{
    int64_t count = 1;
    for (int d = 0; d < dense->ndim; d++) count *= dense->strides[d] ? dense->shape[d] : 1;
    return count;
}

typedef struct transfer {
    const gop_array *host;
    char *dense;
    int64_t first, item;
    int packing;
} transfer;

static void move_piece(void *argument, int64_t begin, int64_t end, int worker)
{
    const transfer *const t = argument;
    char *const at = t->dense + begin * t->item;
    (void)worker;
    if (t->packing) gop_services->pack(t->host, t->first + begin, end - begin, at);
    else gop_services->unpack(t->host, t->first + begin, end - begin, at);
}

enum { GRAIN = 1 << 16 };

static gop_status move_in_place(const gop_array *device, const gop_array *host, int packing)
{
    transfer t = {host, device->data, 0, gop_cl_item(host->dtype), packing};
    return gop_services->parallel(elements(device), GRAIN, move_piece, &t);
}

static gop_status move_pieces(gop_cl_ctx *c, const gop_array *device, const gop_array *host,
                              int packing)
{
    const int64_t item = gop_cl_item(host->dtype), count = elements(device);
    const range of = range_of(device->data);
    const size_t start = (uintptr_t)device->data - of.begin;
    if (!c->staging) c->staging = gop_services->alloc(PIECE);
    if (!c->staging) return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for a transfer");
    for (int64_t first = 0; first < count; first += PIECE / item) {
        const int64_t now = count - first < PIECE / item ? count - first : PIECE / item;
        const size_t at = start + (size_t)(first * item), bytes = (size_t)(now * item);
        transfer t = {host, c->staging, first, item, packing};
        if (packing) {
            GOP_TRY(gop_services->parallel(now, GRAIN, move_piece, &t));
            GOP_TRY(GOP_CL_CALL(clEnqueueWriteBuffer, c->queue, of.buffer, 1, at, bytes,
                                c->staging, 0, NULL, NULL));
        } else {
            GOP_TRY(GOP_CL_CALL(clEnqueueReadBuffer, c->queue, of.buffer, 1, at, bytes,
                                c->staging, 0, NULL, NULL));
            GOP_TRY(gop_services->parallel(now, GRAIN, move_piece, &t));
        }
    }
    return GOP_OK;
}

gop_status gop_cl_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    return c->device->shares_memory ? move_in_place(device, host, 1)
                                    : move_pieces(c, device, host, 1);
}

gop_status gop_cl_download(gop_ctx *ctx, const gop_array *host, const gop_array *device)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    return c->device->shares_memory ? move_in_place(device, host, 0)
                                    : move_pieces(c, device, host, 0);
}

/* ---- the buffers of a launch ---- */

/* The bytes that an array can touch. */
static void bounds(const gop_array *array, uintptr_t *begin, uintptr_t *end)
{
    *begin = *end = (uintptr_t)array->data;
    for (int d = 0; d < array->ndim; d++) {
        const int64_t span = (array->shape[d] - 1) * array->strides[d];
        if (span < 0) *begin -= (uintptr_t)-span;
        else *end += (uintptr_t)span;
    }
    *end += (uintptr_t)gop_cl_item(array->dtype);
}

/* Adds a range to those that are there; what overlaps becomes one, since buffers may not. */
static void add_range(gop_cl_buffers *b, uintptr_t begin, uintptr_t end, int is_written)
{
    for (int i = 0; i < b->count; i++) {
        if (b->of[i].begin >= end || begin >= b->of[i].end) continue;
        if (b->of[i].begin < begin) begin = b->of[i].begin;
        if (b->of[i].end > end) end = b->of[i].end;
        is_written |= b->of[i].is_written;
        b->of[i] = b->of[--b->count];
        i = -1; /* the larger one may meet others */
    }
    b->of[b->count].begin = begin;
    b->of[b->count].end = end;
    b->of[b->count].buffer = NULL;
    b->of[b->count++].is_written = is_written;
}

static void release_buffers(gop_cl_buffers *buffers)
{
    for (int i = 0; i < buffers->count; i++)
        if (buffers->of[i].buffer) gop_cl.clReleaseMemObject(buffers->of[i].buffer);
    buffers->count = 0;
}

gop_status gop_cl_buffers_take(gop_cl_ctx *c, const gop_cl_operand *operands, int count,
                               gop_cl_buffers *b)
{
    b->count = 0;
    for (int i = 0; i < count; i++) {
        uintptr_t begin, end;
        if (c->device->shares_memory) {
            bounds(operands[i].array, &begin, &end);
            begin = begin / BASE * BASE;
            end = (end + BASE - 1) / BASE * BASE;
            add_range(b, begin, end, operands[i].is_written);
            continue;
        }
        const range of = range_of(operands[i].array->data);
        b->of[b->count].begin = of.begin;
        b->of[b->count].end = of.end;
        b->of[b->count].is_written = operands[i].is_written;
        b->of[b->count++].buffer = of.buffer;
    }
    if (!c->device->shares_memory) return GOP_OK;
    for (int i = 0; i < b->count; i++) {
        cl_int code = CL_SUCCESS;
        const uintptr_t begin = b->of[i].begin;
        b->of[i].buffer = GOP_CL_MAKE(&code, clCreateBuffer, c->device->context,
                                      CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                      b->of[i].end - begin, (void *)begin);
        if (b->of[i].buffer) continue;
        release_buffers(b);
        /* Longer than a buffer may be: core cuts the call. */
        return gop_cl_has_no_memory(code)
                   ? gop_cl_no_memory(&c->base, code, b->of[i].end - begin)
                   : gop_cl_check(code, "clCreateBuffer");
    }
    return GOP_OK;
}

gop_status gop_cl_buffer_from(gop_cl_ctx *c, void *address, size_t bytes, cl_mem *buffer)
{
    cl_int code = CL_SUCCESS;
    if (c->device->shares_memory) {
        *buffer = GOP_CL_MAKE(&code, clCreateBuffer, c->device->context,
                              CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, address);
        return *buffer ? GOP_OK : gop_cl_check(code, "clCreateBuffer");
    }
    const range of = range_of(address);
    const size_t region[2] = {(uintptr_t)address - of.begin, bytes};
    *buffer = GOP_CL_MAKE(&code, clCreateSubBuffer, of.buffer, CL_MEM_READ_WRITE,
                          CL_BUFFER_CREATE_TYPE_REGION, region);
    if (*buffer) return GOP_OK;
    if (code != CL_MISALIGNED_SUB_BUFFER_OFFSET) return gop_cl_check(code, "clCreateSubBuffer");
    cl_uint bits = 0;
    gop_cl.clGetDeviceInfo(c->device->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits,
                           NULL);
    return gop_fail(
        GOP_BAD_ARGUMENT,
        "opencl: an argument begins %zu bytes behind its memory's begin, expected a "
        "multiple of %u on this device; pass a copy, or the whole array and an index",
        region[0], bits / 8);
}

cl_mem gop_cl_buffer_at(const gop_cl_buffers *b, const void *address, size_t *offset)
{
    const uintptr_t at = (uintptr_t)address;
    int i = 0;
    while (i < b->count - 1 && (at < b->of[i].begin || at >= b->of[i].end)) i++;
    *offset = at - b->of[i].begin;
    return b->of[i].buffer;
}

void gop_cl_try_sharing(gop_cl_ctx *c)
{
    enum { BYTES = 4 * BASE };
    cl_int code = CL_SUCCESS;
    unsigned char *const memory = gop_services->alloc(BYTES);
    if (!memory) return;
    const unsigned char one = 1;
    memset(memory, 0, BYTES);
    cl_mem buffer = gop_cl.clCreateBuffer(
        c->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, BYTES, memory, &code);
    if (buffer &&
        !gop_cl.clEnqueueFillBuffer(c->queue, buffer, &one, 1, 0, BYTES, 0, NULL, NULL))
        c->device->is_coherent = !gop_cl.clFinish(c->queue) && memory[0] && memory[BYTES - 1];
    if (buffer) gop_cl.clReleaseMemObject(buffer);
    gop_services->release(memory);
}

/* To map a buffer is what makes its results the host's, says OpenCL. Drivers that work in the
 * host's own memory need it not, and it takes as long as a short launch. */
gop_status gop_cl_bring_home(gop_cl_ctx *c, cl_mem buffer, size_t bytes)
{
    cl_int code = CL_SUCCESS;
    if (c->device->is_coherent || !c->device->shares_memory) return GOP_OK;
    void *const mapped = GOP_CL_MAKE(&code, clEnqueueMapBuffer, c->queue, buffer, 1,
                                     CL_MAP_READ, 0, bytes, 0, NULL, NULL);
    if (!mapped) return gop_cl_check(code, "clEnqueueMapBuffer");
    return GOP_CL_CALL(clEnqueueUnmapMemObject, c->queue, buffer, mapped, 0, NULL, NULL);
}

static gop_status bring_home(gop_cl_ctx *c, const gop_cl_buffers *b)
{
    for (int i = 0; i < b->count; i++)
        if (b->of[i].is_written)
            GOP_TRY(gop_cl_bring_home(c, b->of[i].buffer, b->of[i].end - b->of[i].begin));
    return GOP_CL_CALL(clFinish, c->queue);
}

gop_status gop_cl_buffers_give(gop_cl_ctx *c, gop_cl_buffers *b, gop_status status)
{
    if (!c->device->shares_memory) return status;
    if (status == GOP_OK) status = bring_home(c, b);
    else gop_cl.clFinish(c->queue); /* whatever is under way still uses them */
    release_buffers(b);
    return status;
}
