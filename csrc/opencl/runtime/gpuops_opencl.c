/*
 * gpuops_opencl.c - the tables that core sees of the OpenCL backend; a context for each device
 * and host thread: an in-order queue, and its marks.
 *
 * The library opens without OpenCL: nothing here asks for a loader or a driver before a
 * context. Calls wait for their results, so that what one thread leaves on a device is there
 * for all others.
 */
#include "opencl/runtime/runtime.h"

static const gop_backend sharing, separate;
#define GOP_LADDER_OF(name) gop_opencl_##name
#define GOP_OPENED separate
#include "core/opening.inc"

enum { SWEPT = 128 << 20 }; /* bytes that a flush of the caches writes */

static gop_status make_queue(const gop_cl_device *device, cl_flags flags, cl_queue *queue)
{
    return GOP_CL_MAKE(*queue, clCreateCommandQueue, device->context, device->id, flags);
}

static gop_status make_context(int ordinal, gop_ctx **made)
{
    gop_cl_device *device;
    cl_queue queue;
    GOP_TRY(gop_services->check_ordinal(&separate, ordinal));
    GOP_TRY(gop_cl_use_device(ordinal, &device));
    GOP_TRY(make_queue(device, 0, &queue));
    gop_cl_ctx *const c = gop_services->alloc(sizeof *c);
    if (!c) {
        gop_cl.clReleaseCommandQueue(queue);
        return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for a context");
    }
    *c = (gop_cl_ctx){.base = {.backend = device->shares_memory ? &sharing : &separate,
                               .device = {gop_services->id, ordinal},
                               .info = device->info},
                      .device = device,
                      .queue = queue};
    *made = &c->base;
    return GOP_OK;
}

static gop_status context(int ordinal, gop_ctx **ctx)
{
    GOP_TRY(gop_cl_usable());
    return gop_services->context(gop_services->id, ordinal, make_context, ctx);
}

/* ---- time and waiting ---- */

static gop_status mark(gop_ctx *ctx, int event)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    if (!c->takes_times) { /* profiling slows every command: a queue has it once timed */
        cl_queue queue;
        GOP_TRY(gop_cl_finish(c));
        GOP_TRY(make_queue(c->device, CL_QUEUE_PROFILING_ENABLE, &queue));
        gop_cl.clReleaseCommandQueue(c->queue);
        c->queue = queue;
        c->takes_times = 1;
    }
    if (c->marks[event]) gop_cl.clReleaseEvent(c->marks[event]);
    c->marks[event] = NULL;
    c->is_busy = 1;
    return GOP_CL_CALL(clEnqueueMarkerWithWaitList, c->queue, 0, NULL, &c->marks[event]);
}

static gop_status elapsed(gop_ctx *ctx, int from, int to, double *seconds)
{
    const cl_event *const marks = gop_cl_of(ctx)->marks;
    cl_ulong begin = 0, end = 0;
    GOP_TRY(GOP_CL_CALL(clGetEventProfilingInfo, marks[from], CL_PROFILING_COMMAND_END,
                        GOP_CL_ANSWER(begin)));
    GOP_TRY(GOP_CL_CALL(clGetEventProfilingInfo, marks[to], CL_PROFILING_COMMAND_END,
                        GOP_CL_ANSWER(end)));
    *seconds = 1e-9 * (double)(end - begin);
    return GOP_OK;
}

static gop_status sync_queue(gop_ctx *ctx)
{
    GOP_TRY(gop_cl_finish(gop_cl_of(ctx)));
    return gop_services->interrupted();
}

/* Writes more than the caches hold. */
static gop_status flush(gop_ctx *ctx)
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

/* ---- the tables ---- */

#define TABLE(given, ...)                                                                      \
    {                                                                                          \
        .abi = GOP_ABI, .facts = given, .name = "opencl", .count = gop_cl_count,               \
        .info = gop_cl_info, .context = context, .alloc = gop_cl_alloc,                        \
        .release = gop_cl_release, .upload = gop_cl_upload, .download = gop_cl_download,       \
        .sync = sync_queue, .flush = flush, .ladder = ladder, .load = gop_cl_load_module,      \
        .launch = gop_cl_launch_module, .unload = gop_cl_unload_module,                        \
        .describe = gop_cl_describe_module, .profile = gop_cl_trace, __VA_ARGS__               \
    }

/* Facts are a device's: a context bears the table of its own. Where the host's processors are
 * the device, its clock is the host's. */
static const gop_backend separate =
    TABLE(GOP_OWN_MEMORY | GOP_BUS, .mark = mark, .elapsed = elapsed);
static const gop_backend sharing = TABLE(GOP_OWN_MEMORY | GOP_HOST_MEMORY, .mark = NULL);
