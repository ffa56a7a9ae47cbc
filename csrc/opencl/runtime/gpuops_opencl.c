/*
 * gpuops_opencl.c - the tables that core sees of the OpenCL backend, and the one exported
 * symbol; a context for each device and host thread: an in-order queue, and its marks.
 *
 * The library opens without OpenCL: nothing here asks for a loader or a driver before a
 * context.
 *
 * A thread that ends leaves its contexts to the next. Calls wait for their results, so that
 * what one thread leaves on a device is there for all others.
 */
#include <string.h>
#include <time.h>

#include "opencl/runtime/runtime.h"

const gop_host *gop_services;
static const gop_backend sharing, separate;

enum { SWEPT = 128 << 20 }; /* bytes that a flush of the caches writes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static gop_cl_ctx *idle[GOP_CL_DEVICES]; /* of each device, those that threads have left */

static _Thread_local gop_cl_ctx *mine[GOP_CL_DEVICES];

static void give_up(void *of_thread)
{
    gop_cl_ctx **const own = of_thread;
    if (gop_cl_usable() != GOP_OK) return;
    pthread_mutex_lock(&lock);
    for (int d = 0; d < GOP_CL_DEVICES; d++)
        if (own[d]) {
            own[d]->next = idle[d];
            idle[d] = own[d];
        }
    pthread_mutex_unlock(&lock);
}

static void make_key(void)
{
    pthread_key_create(&key, give_up);
}

static gop_status make_queue(const gop_cl_device *device, cl_flags flags, cl_queue *queue)
{
    cl_int code = CL_SUCCESS;
    *queue = GOP_CL_MAKE(&code, clCreateCommandQueue, device->context, device->id, flags);
    return *queue ? GOP_OK : gop_cl_check(code, "clCreateCommandQueue");
}

static gop_status make_context(int ordinal, gop_cl_device *device, gop_cl_ctx **made)
{
    cl_queue queue;
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
    if (device->shares_memory) gop_cl_try_sharing(c);
    *made = c;
    return GOP_OK;
}

static gop_status context(int ordinal, gop_ctx **ctx)
{
    gop_cl_device *device;
    GOP_TRY(gop_cl_usable());
    if (ordinal < 0 || ordinal >= GOP_CL_DEVICES || !mine[ordinal]) {
        GOP_TRY(gop_cl_use_device(ordinal, &device));
        pthread_once(&once, make_key);
        pthread_mutex_lock(&lock);
        gop_cl_ctx *c = idle[ordinal];
        if (c) idle[ordinal] = c->next;
        pthread_mutex_unlock(&lock);
        if (!c) GOP_TRY(make_context(ordinal, device, &c));
        mine[ordinal] = c;
        pthread_setspecific(key, mine);
    }
    *ctx = &mine[ordinal]->base;
    return GOP_OK;
}

/* ---- time and waiting ---- */

/* The device's own time, or the host's once all is done where both are the same processor. */
static gop_status mark(gop_ctx *ctx, int event)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    struct timespec now;
    if (!c->device->shares_memory) {
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
    GOP_TRY(gop_cl_finish(c));
    clock_gettime(CLOCK_MONOTONIC, &now);
    c->times[event] = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    return GOP_OK;
}

static gop_status elapsed(gop_ctx *ctx, int from, int to, double *seconds)
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

#define GOP_OP(name, stem) extern const gop_ladder gop_opencl_##name;
#include "ops.def"
#undef GOP_OP

static const gop_ladder *ladder(gop_op op)
{
    static const gop_ladder *const ladders[GOP_NOPS] = {
#define GOP_OP(name, stem) &gop_opencl_##name,
#include "ops.def"
#undef GOP_OP
    };
    return ladders[op];
}

#define TABLE(given)                                                                           \
    {                                                                                          \
        .abi = GOP_ABI, .facts = given, .name = "opencl", .count = gop_cl_count,               \
        .info = gop_cl_info, .context = context, .alloc = gop_cl_alloc,                        \
        .release = gop_cl_release, .upload = gop_cl_upload, .download = gop_cl_download,       \
        .mark = mark, .elapsed = elapsed, .sync = sync_queue, .flush = flush,                  \
        .ladder = ladder, .load = gop_cl_load_module, .launch = gop_cl_launch_module,          \
        .unload = gop_cl_unload_module, .describe = gop_cl_describe_module,                    \
        .profile = gop_cl_trace,                                                               \
    }

/* Facts are a device's: a context bears the table of its own. */
static const gop_backend separate = TABLE(GOP_OWN_MEMORY | GOP_BUS);
static const gop_backend sharing = TABLE(GOP_OWN_MEMORY | GOP_HOST_MEMORY);

__attribute__((visibility("default"))) const gop_backend *
gop_backend_open(uint32_t abi, const gop_host *host);
const gop_backend *gop_backend_open(uint32_t abi, const gop_host *host)
{
    if (abi != GOP_ABI || host->abi != GOP_ABI) return NULL;
    gop_services = host;
    return &separate;
}
