/*
 * memory.cu - device memory from a pool of our own, ordered by stream.
 *
 * The default pool hands everything back to the driver at each synchronisation and is shared
 * with other libraries. Ours keeps its memory, so that a call like the last one allocates in
 * microseconds; if the device is full, it gives back what is unused and tries again. The pool
 * takes half a microsecond for each array that is made or freed, so a thread keeps the last
 * small ones itself: what frees them and what they are for is work of one stream.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/runtime/runtime.h"

/* GPUOPS_CUDA_POOL=0: every allocation is the driver's own, so that compute-sanitizer sees
 * where each one ends. */
static int pool_wanted(void)
{
    static const char *const wish = getenv("GPUOPS_CUDA_POOL");
    return !wish || strcmp(wish, "0") != 0;
}

gop_status gop_cuda_pool_open(int ordinal, cudaMemPool_t *pool)
{
    int supported = 0;
    *pool = NULL;
    cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, ordinal);
    if (!supported || !pool_wanted()) return GOP_OK;
    cudaMemPoolProps properties;
    memset(&properties, 0, sizeof properties);
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = ordinal;
    GOP_TRY(
        GOP_CUDA("cuda.pool", "making a memory pool", cudaMemPoolCreate(pool, &properties)));
    uint64_t keep = UINT64_MAX;
    return gop_cuda_check(
        cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &keep),
        "setting up the memory pool");
}

static cudaError_t take_block(gop_cuda_thread *t, size_t bytes, void **memory)
{
    *memory = NULL;
    if (!t->pool) return cudaMalloc(memory, bytes);
    return cudaMallocFromPoolAsync(memory, bytes, t->pool, t->stream);
}

/* Bytes that a caller could still get: the driver's and those that the pool keeps unused. */
static gop_status out_of_memory(gop_cuda_thread *t, size_t bytes)
{
    size_t free_bytes = 0, total = 0;
    uint64_t reserved = 0, used = 0;
    cudaMemGetInfo(&free_bytes, &total);
    if (t->pool) {
        cudaMemPoolGetAttribute(t->pool, cudaMemPoolAttrReservedMemCurrent, &reserved);
        cudaMemPoolGetAttribute(t->pool, cudaMemPoolAttrUsedMemCurrent, &used);
    }
    free_bytes += reserved - used;
    cudaGetLastError();
    gop_fail(GOP_NO_DEVICE_MEMORY,
             "cuda:%d is out of memory: %zu bytes were asked for, %zu of %zu are free; free "
             "device arrays, or use device='cpu'",
             t->base.device.ordinal, bytes, free_bytes, total);
    gop_error *error = gop_services->error();
    error->native_code = (int)cudaErrorMemoryAllocation;
    strcpy(error->native_name, "cudaErrorMemoryAllocation");
    error->requested = (int64_t)bytes;
    error->free = (int64_t)free_bytes;
    error->total = (int64_t)total;
    return GOP_NO_DEVICE_MEMORY;
}

/* ---- what is kept ---- */

static int is_kept(const gop_cuda_thread *t, size_t bytes)
{
    return pool_wanted() && t->stream == cudaStreamLegacy && bytes <= GOP_CUDA_SPARE_BYTES;
}

/* Takes spare block k away from the others. */
static void *take_spare_at(gop_cuda_thread *t, int k)
{
    void *const memory = t->spare[k].memory;
    t->spares--;
    memmove(&t->spare[k], &t->spare[k + 1], (t->spares - k) * sizeof t->spare[0]);
    return memory;
}

/* The spare block of so many bytes that was freed last; NULL if there is none. */
static void *take_spare(gop_cuda_thread *t, size_t bytes)
{
    for (int k = t->spares - 1; k >= 0 && is_kept(t, bytes); k--)
        if (t->spare[k].bytes == bytes) return take_spare_at(t, k);
    return NULL;
}

void gop_cuda_keep(gop_ctx *ctx, void *memory, size_t bytes)
{
    gop_cuda_thread *t = thread_of(ctx);
    if (!is_kept(t, bytes) || gop_cuda_in_forked_child()) {
        gop_cuda_release(ctx, memory);
        return;
    }
    if (t->spares == GOP_CUDA_SPARE) /* the one that waited longest goes */
        gop_cuda_release(ctx, take_spare_at(t, 0));
    t->spare[t->spares++] = {memory, bytes};
}

static void release_spares(gop_cuda_thread *t)
{
    while (t->spares > 0) gop_cuda_release(&t->base, t->spare[--t->spares].memory);
}

gop_status gop_cuda_alloc(gop_ctx *ctx, size_t bytes, void **memory)
{
    gop_cuda_thread *t = thread_of(ctx);
    const int fault = gop_services->fault("cuda.alloc");
    if (!fault && (*memory = take_spare(t, bytes))) return GOP_OK;
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    cudaError_t code = fault ? cudaErrorMemoryAllocation : take_block(t, bytes, memory);
    if (code == cudaErrorMemoryAllocation && !fault) {
        cudaGetLastError();
        release_spares(t);
        /* What other streams freed counts only once they are done. */
        code = cudaDeviceSynchronize();
        if (code == cudaSuccess && t->pool) code = cudaMemPoolTrimTo(t->pool, 0);
        if (code == cudaSuccess) code = take_block(t, bytes, memory);
    }
    const gop_status status = code == cudaErrorMemoryAllocation
                                  ? out_of_memory(t, bytes)
                                  : gop_cuda_check(code, "allocating device memory");
    if (status != GOP_OK) *memory = NULL;
    return status;
}

/* ---- zero-copy memory ----
 * In a short call nothing costs more than its copies of a few bytes. Pinned memory needs none:
 * the host packs it, the kernel reads and writes it over the bus. */

enum { ZERO_COPY_BYTES = 512 << 10, ALIGN = 256 };

void *gop_cuda_zero_copy(gop_ctx *ctx, size_t bytes)
{
    gop_cuda_thread *t = thread_of(ctx);
    const size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!t->zero_copy) {
        void *memory = NULL;
        if (gop_services->fault("cuda.pinned") ||
            cudaHostAlloc(&memory, ZERO_COPY_BYTES, cudaHostAllocPortable) != cudaSuccess)
            cudaGetLastError();
        t->zero_copy = (char *)memory;
    }
    if (!t->zero_copy || rounded > ZERO_COPY_BYTES - t->zero_copy_bytes) return NULL;
    void *memory = t->zero_copy + t->zero_copy_bytes;
    t->zero_copy_bytes += rounded;
    t->zero_copies++;
    return memory;
}

static int take_back(gop_cuda_thread *t, const void *memory)
{
    const uintptr_t offset = (uintptr_t)memory - (uintptr_t)t->zero_copy;
    if (!t->zero_copy || offset >= ZERO_COPY_BYTES) return 0;
    if (--t->zero_copies == 0) t->zero_copy_bytes = 0;
    return 1;
}

/* A failed call releases what it took: this leaves its sentence as it is. */
void gop_cuda_release(gop_ctx *ctx, void *memory)
{
    gop_cuda_thread *t = thread_of(ctx);
    const int ordinal = ctx->device.ordinal;
    int previous = ordinal;
    if (!memory || take_back(t, memory) || gop_cuda_in_forked_child()) return;
    cudaGetDevice(&previous);
    if (previous != ordinal) cudaSetDevice(ordinal);
    if (t->pool) cudaFreeAsync(memory, t->stream);
    else cudaFree(memory);
    cudaGetLastError();
    if (previous != ordinal) cudaSetDevice(previous);
}

gop_status gop_cuda_whose(const void *memory, int *ordinal)
{
    GOP_TRY(gop_cuda_usable());
    cudaPointerAttributes attributes;
    GOP_TRY(GOP_CUDA("cuda.whose", "asking where memory lives",
                     cudaPointerGetAttributes(&attributes, memory)));
    if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged)
        return gop_fail(GOP_BAD_BUFFER,
                        "cuda: an array says that it lives on a CUDA device, but its memory "
                        "is %s, expected device memory that is still allocated",
                        attributes.type == cudaMemoryTypeHost ? "the host's"
                                                              : "unknown to the driver");
    *ordinal = attributes.device;
    return GOP_OK;
}
