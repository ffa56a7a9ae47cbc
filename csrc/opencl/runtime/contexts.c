/*
 * contexts.c - a context for each device and host thread: an in-order queue, and its marks.
 *
 * A thread that ends leaves its contexts to the next. Calls wait for their results, so that
 * what one thread leaves on a device is there for all others.
 */
#include <string.h>
#include <time.h>

#include "opencl/runtime/runtime.h"

enum { SWEPT = 128 << 20 }; /* bytes that a flush of the caches writes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static gop_cl_ctx *idle;

/* ---- whose they are ---- */

static _Thread_local gop_cl_ctx *mine; /* of all devices */

static void give_up(void *list)
{
    gop_cl_ctx *last = list;
    if (gop_cl_usable() != GOP_OK) return;
    while (last->next) last = last->next;
    pthread_mutex_lock(&lock);
    last->next = idle;
    idle = list;
    pthread_mutex_unlock(&lock);
}

static void make_key(void)
{
    pthread_key_create(&key, give_up);
}

/* Takes the context of a device off a list, or gives NULL. */
static gop_cl_ctx *take_from(gop_cl_ctx **list, int ordinal)
{
    for (; *list; list = &(*list)->next) {
        gop_cl_ctx *const found = *list;
        if (found->base.device.ordinal != ordinal) continue;
        *list = found->next;
        return found;
    }
    return NULL;
}

static gop_status make_queue(const gop_cl_device *device, cl_flags flags, cl_queue *queue)
{
    cl_int code = CL_SUCCESS;
    *queue = GOP_CL_MAKE(&code, clCreateCommandQueue, device->context, device->id, flags);
    return *queue ? GOP_OK : gop_cl_check(code, "clCreateCommandQueue");
}

static gop_status make_context(int ordinal, gop_cl_ctx **made)
{
    gop_cl_device *device;
    cl_queue queue;
    GOP_TRY(gop_cl_use_device(ordinal, &device));
    GOP_TRY(make_queue(device, 0, &queue));
    gop_cl_ctx *const c = gop_services->alloc(sizeof *c);
    if (!c) {
        gop_cl.clReleaseCommandQueue(queue);
        return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for a context");
    }
    *c = (gop_cl_ctx){
        .base = {.backend = device->shares_memory ? &gop_cl_sharing : &gop_cl_separate,
                 .device = {gop_services->id, ordinal},
                 .info = device->info},
        .device = device,
        .queue = queue};
    if (device->shares_memory) gop_cl_try_sharing(c);
    *made = c;
    return GOP_OK;
}

gop_status gop_cl_context(int ordinal, gop_ctx **ctx)
{
    GOP_TRY(gop_cl_usable());
    gop_cl_ctx *c = mine;
    while (c && c->base.device.ordinal != ordinal) c = c->next;
    if (!c) {
        pthread_once(&once, make_key);
        pthread_mutex_lock(&lock);
        c = take_from(&idle, ordinal);
        pthread_mutex_unlock(&lock);
        if (!c) GOP_TRY(make_context(ordinal, &c));
        c->next = mine;
        mine = c;
        pthread_setspecific(key, mine);
    }
    *ctx = &c->base;
    return GOP_OK;
}

/* ---- what plans ask ---- */

int gop_cl_is_cpu(const gop_ctx *ctx)
{
    return (gop_cl_of(ctx)->device->type & CL_DEVICE_TYPE_CPU) != 0;
}

int gop_cl_suits_cpu(const gop_ctx *ctx, const gop_task *task)
{
    (void)task;
    return gop_cl_is_cpu(ctx);
}

int gop_cl_has_double(const gop_ctx *ctx)
{
    return gop_cl_of(ctx)->device->has_double;
}

gop_status gop_cl_need_double(const gop_ctx *ctx, const char *op, gop_dtype dtype, int takes_it)
{
    if (!takes_it || gop_cl_has_double(ctx)) return GOP_OK;
    return gop_fail(GOP_BAD_TYPE,
                    "%s: %s has no float64, which %s takes; expected another dtype, or another "
                    "device such as 'cpu'",
                    op, ctx->info.name, gop_cl_kinds[dtype].name);
}

const char *gop_cl_quotients(const gop_ctx *ctx)
{
    return gop_cl_of(ctx)->device->divides ? " -cl-fp32-correctly-rounded-divide-sqrt"
                                           : " -DBY_DOUBLE";
}

gop_status gop_cl_need_quotients(const gop_ctx *ctx, const char *op, gop_dtype dtype)
{
    if (gop_cl_of(ctx)->device->divides || gop_cl_has_double(ctx)) return GOP_OK;
    if (gop_cl_is_double(dtype)) return GOP_OK;
    return gop_fail(GOP_BAD_TYPE,
                    "%s: %s does not round quotients of float32 correctly and has no float64 "
                    "to do so; expected another device such as 'cpu'",
                    op, ctx->info.name);
}

const char *gop_cl_registers(const gop_ctx *ctx, const char *option)
{
    return gop_cl_of(ctx)->device->limits_registers ? option : "";
}

/* ---- time and waiting ---- */

/* Profiling slows every command of a queue: a queue has it once a call is timed. */
static gop_status take_times(gop_cl_ctx *c)
{
    cl_queue queue;
    if (c->takes_times) return GOP_OK;
    GOP_TRY(gop_cl_finish(c));
    GOP_TRY(make_queue(c->device, CL_QUEUE_PROFILING_ENABLE, &queue));
    gop_cl.clReleaseCommandQueue(c->queue);
    c->queue = queue;
    c->takes_times = 1;
    return GOP_OK;
}

/* The device's own time, or the host's once all is done where both are the same processor. */
gop_status gop_cl_mark(gop_ctx *ctx, int event)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    struct timespec now;
    if (!c->device->shares_memory) {
        GOP_TRY(take_times(c));
        if (c->marks[event]) gop_cl.clReleaseEvent(c->marks[event]);
        c->marks[event] = NULL;
        c->is_busy = 1;
        return GOP_CL_CALL(clEnqueueMarkerWithWaitList, c->queue, 0, NULL, &c->marks[event]);
    }
    GOP_TRY(gop_cl_finish(c));
    clock_gettime(CLOCK_MONOTONIC, &now);
    c->times[event] = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    return GOP_OK;
}

gop_status gop_cl_elapsed(gop_ctx *ctx, int from, int to, double *seconds)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    if (!c->device->shares_memory) {
        cl_ulong begin = 0, end = 0;
        GOP_TRY(GOP_CL_CALL(clGetEventProfilingInfo, c->marks[from], CL_PROFILING_COMMAND_END,
                            GOP_CL_ANSWER(begin)));
        GOP_TRY(GOP_CL_CALL(clGetEventProfilingInfo, c->marks[to], CL_PROFILING_COMMAND_END,
                            GOP_CL_ANSWER(end)));
        *seconds = 1e-9 * (double)(end - begin);
    } else *seconds = c->times[to] - c->times[from];
    return GOP_OK;
}

gop_status gop_cl_sync(gop_ctx *ctx)
{
    GOP_TRY(gop_cl_finish(gop_cl_of(ctx)));
    return gop_services->interrupted();
}

/* Writes more than the caches hold. */
gop_status gop_cl_flush(gop_ctx *ctx)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    static _Atomic unsigned char value;
    const unsigned char byte = ++value;
    if (!c->swept) GOP_TRY(gop_cl_make_buffer(c, NULL, SWEPT, &c->swept));
    c->is_busy = 1;
    GOP_TRY(GOP_CL_CALL(clEnqueueFillBuffer, c->queue, c->swept, &byte, 1, 0, SWEPT, 0, NULL,
                        NULL));
    return c->device->shares_memory ? gop_cl_finish(c) : GOP_OK;
}
