/*
 * streams.cu - events, waiting that hears Ctrl-C, cold caches, and order with other streams.
 */
#include <errno.h>
#include <time.h>

#include "cuda/runtime/runtime.h"

enum { SPIN = 1000 * 1000, LAST_SLEEP = 1000 * 1000 }; /* ns */
enum { PART = 16 };                                    /* of the time so far: a sleep */

static int64_t stream_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Short work is met within a spin; for long work sleeps leave the core to others, and are short
 * beside what was waited before. */
gop_status gop_cuda_pause(gop_cuda_backoff *backoff)
{
    const int64_t time = stream_clock();
    if (!backoff->started) backoff->started = time;
    const int64_t waited = time - backoff->started;
    if (waited < SPIN) return GOP_OK;
    GOP_TRY(gop_services->interrupted());
    if (gop_cuda_in_forked_child()) return gop_cuda_usable(); /* a signal's handler forked */
    const int64_t sleep = waited / PART < LAST_SLEEP ? waited / PART : (int64_t)LAST_SLEEP;
    const struct timespec span = {0, (long)sleep};
    nanosleep(&span, NULL); /* a signal ends it early: heard at the next pause */
    return GOP_OK;
}

/* Until the stream has done what is enqueued. With the device current. */
static gop_status wait_for_stream(cudaStream_t stream)
{
    gop_cuda_backoff backoff = {0};
    cudaError_t code =
        gop_services->fault("cuda.sync") ? cudaErrorInvalidValue : cudaErrorNotReady;
    while (code == cudaErrorNotReady) {
        code = cudaStreamQuery(stream);
        if (code != cudaErrorNotReady) break;
        const gop_status status = gop_cuda_pause(&backoff);
        if (status == GOP_OK) continue;
        if (gop_cuda_in_forked_child()) return status;
        /* Memory may be freed only once the work in flight has left it. */
        code = cudaStreamSynchronize(stream);
        GOP_TRY(gop_cuda_check(code, "waiting for the device"));
        return GOP_INTERRUPTED;
    }
    return gop_cuda_check(code, "running on the device");
}

gop_status gop_cuda_sync(gop_ctx *ctx)
{
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    return wait_for_stream(thread_of(ctx)->stream);
}

gop_status gop_cuda_drain(gop_ctx *ctx)
{
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    return gop_cuda_check(cudaDeviceSynchronize(), "running on the device");
}

gop_status gop_cuda_mark(gop_ctx *ctx, int event)
{
    gop_cuda_thread *t = thread_of(ctx);
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    return GOP_CUDA("cuda.event", "recording an event",
                    cudaEventRecord(t->events[event], t->stream));
}

gop_status gop_cuda_elapsed(gop_ctx *ctx, int from, int to, double *seconds)
{
    gop_cuda_thread *t = thread_of(ctx);
    float milliseconds = 0;
    GOP_TRY(GOP_CUDA("cuda.event", "reading events",
                     cudaEventElapsedTime(&milliseconds, t->events[from], t->events[to])));
    *seconds = 1e-3 * (double)milliseconds;
    return GOP_OK;
}

/* Writes twice what the cache holds, so that nothing of the call's is left in it. */
gop_status gop_cuda_flush(gop_ctx *ctx)
{
    const size_t bytes = 2 * (size_t)ctx->info.l2 + (1 << 20);
    void *memory;
    GOP_TRY(gop_cuda_alloc(ctx, bytes, &memory));
    const gop_cuda_current current(ctx->device.ordinal);
    gop_status status = current.status;
    if (status == GOP_OK)
        status = gop_cuda_check(cudaMemsetAsync(memory, 0, bytes, thread_of(ctx)->stream),
                                "emptying the caches");
    gop_cuda_release(ctx, memory);
    return status;
}

/* ---- streams ---- */

/* The default stream has two handles; it is the current device's. */
gop_status gop_cuda_order(gop_ctx *ctx, void *first, void *then)
{
    const cudaEvent_t ordered = thread_of(ctx)->ordered;
    if (!first) first = cudaStreamLegacy;
    if (!then) then = cudaStreamLegacy;
    if (first == then) return GOP_OK;
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    GOP_TRY(GOP_CUDA("cuda.event", "ordering after another library's stream",
                     cudaEventRecord(ordered, (cudaStream_t)first)));
    return gop_cuda_check(cudaStreamWaitEvent((cudaStream_t)then, ordered, 0),
                          "ordering before another library's stream");
}
