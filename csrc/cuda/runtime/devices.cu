/*
 * devices.cu - the GPUs, and one context for each of them and host thread.
 *
 * The current device belongs to the caller: another library may count on it, so every function
 * that needs another one puts the old one back (gop_cuda_current).
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda/runtime/runtime.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    int known; /* `info` is filled */
    int open;  /* `pool` is made */
    gop_device_info info;
    cudaMemPool_t pool;
    gop_cuda_thread *idle; /* contexts of threads that ended */
} devices[GOP_CUDA_MAX_DEVICES];

static __thread gop_cuda_thread *mine[GOP_CUDA_MAX_DEVICES];
static pthread_key_t thread_end;
static int thread_end_made;

gop_status gop_cuda_count(int *count)
{
    *count = 0;
    GOP_TRY(gop_cuda_usable());
    int found = 0; /* an error leaves it as it is */
    const cudaError_t code =
        gop_services->fault("cuda.count") ? cudaErrorNoDevice : cudaGetDeviceCount(&found);
    if (code != cudaSuccess) return gop_cuda_unavailable(code);
    gop_cuda_started();
    *count = found < GOP_CUDA_MAX_DEVICES ? found : GOP_CUDA_MAX_DEVICES;
    return GOP_OK;
}

/* Whether GOP_CUDA_ARCHS, as "80 90a 120+PTX", holds code that runs on this capability: a cubin
 * of the same major and no later minor, exactly that one if it is marked a, or older PTX. Rows
 * go by the device (gop_has_code), so code that lacks its generation's instructions, where
 * their kernels do nothing, is none: that of 8.0, of 9.0, and on 9.0 itself those of 90a. */
static int has_code_for(int major, int minor)
{
    const int device = 10 * major + minor, least = 10 * (major < 9 ? major : 9);
    for (const char *at = GOP_CUDA_ARCHS; *at;) {
        int number = 0;
        while (*at == ' ') at++;
        for (; *at >= '0' && *at <= '9'; at++) number = 10 * number + (*at - '0');
        const int exact = *at == 'a';
        int ptx = 0;
        for (; *at && *at != ' '; at++) ptx |= *at == '+';
        if (exact && number == device) return 1;
        if (exact || number < least || number > device || device == 90) continue;
        if (ptx || number / 10 == major) return 1;
    }
    return 0;
}

static void fill_info(const cudaDeviceProp *p, int ordinal, gop_device_info *info)
{
    int clock = 0, memory_clock = 0, bus = 0; /* kHz, and bits */
    cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, ordinal);
    cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, ordinal);
    cudaDeviceGetAttribute(&bus, cudaDevAttrGlobalMemoryBusWidth, ordinal);
    int driver = 0;
    cudaDriverGetVersion(&driver);
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "%.127s", p->name);
    info->major = p->major;
    info->minor = p->minor;
    info->processors = p->multiProcessorCount;
    info->max_threads_per_block = p->maxThreadsPerBlock;
    info->warp = p->warpSize;
    info->shared_per_block = (int64_t)p->sharedMemPerBlockOptin;
    info->memory = (int64_t)p->totalGlobalMem;
    info->memory_free = -1;
    info->l2 = p->l2CacheSize;
    info->clock = 1e3 * clock;
    info->bandwidth = 2e3 * memory_clock * bus / 8; /* two words a clock */
    snprintf(info->detail, sizeof info->detail,
             "driver for CUDA %d.%d, runtime %d.%d, code for %s", driver / 1000,
             driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
             GOP_CUDA_ARCHS);
}

/* With the lock held. */
static gop_status learn(int ordinal)
{
    if (devices[ordinal].known) return GOP_OK;
    cudaDeviceProp properties;
    GOP_TRY(GOP_CUDA("cuda.info", "asking for the device's properties",
                     cudaGetDeviceProperties(&properties, ordinal)));
    fill_info(&properties, ordinal, &devices[ordinal].info);
    devices[ordinal].known = 1;
    return GOP_OK;
}

gop_status gop_cuda_info(int ordinal, gop_device_info *info)
{
    GOP_TRY(gop_services->check_ordinal(&gop_cuda_backend, ordinal));
    pthread_mutex_lock(&lock);
    const gop_status status = learn(ordinal);
    *info = devices[ordinal].info;
    const int open = devices[ordinal].open;
    pthread_mutex_unlock(&lock);
    GOP_TRY(status);
    if (!has_code_for(info->major, info->minor))
        return gop_fail(GOP_DEVICE_UNSUPPORTED,
                        "cuda: this build has no code for cuda:%d (%s, compute capability "
                        "%d.%d), only for %s; build gpuops with GPUOPS_CUDA_ARCHS=%d%d%s",
                        ordinal, info->name, info->major, info->minor, GOP_CUDA_ARCHS,
                        info->major, info->minor, info->major == 9 ? "a" : "");
    if (open) { /* asking a device not in use yet would start a context on it */
        size_t free_bytes = 0, total = 0;
        const gop_cuda_current current(ordinal);
        GOP_TRY(current.status);
        cudaMemGetInfo(&free_bytes, &total);
        info->memory_free = (int64_t)free_bytes;
    }
    return GOP_OK;
}

/* ---- contexts ---- */

/* A thread ends: its contexts wait for the next thread. Runs on the ending thread. */
static void give_back(void *)
{
    if (gop_cuda_in_forked_child()) return;
    pthread_mutex_lock(&lock);
    for (int d = 0; d < GOP_CUDA_MAX_DEVICES; d++) {
        if (!mine[d]) continue;
        mine[d]->next_idle = devices[d].idle;
        devices[d].idle = mine[d];
        mine[d] = NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* With the lock held and the device current. A context half made is of no use: its parts are
 * handed back. */
static gop_status make(gop_cuda_thread *t)
{
    const char *what = "making a stream";
    cudaStream_t *stream = &t->own;
    GOP_TRY(GOP_CUDA("cuda.context", what,
                     cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking)));
    gop_status status = GOP_OK;
    for (int e = 0; e < GOP_EVENTS && status == GOP_OK; e++)
        status = GOP_CUDA("cuda.event", "making an event", cudaEventCreate(&t->events[e]));
    cudaEvent_t *untimed[1 + 2 * GOP_CUDA_SLOTS] = {&t->ordered};
    for (int i = 0; i < 2 * GOP_CUDA_SLOTS; i++)
        untimed[1 + i] = &t->slot_done[i / GOP_CUDA_SLOTS][i % GOP_CUDA_SLOTS];
    for (int i = 0; i < 1 + 2 * GOP_CUDA_SLOTS && status == GOP_OK; i++)
        status = GOP_CUDA("cuda.event", "making an event",
                          cudaEventCreateWithFlags(untimed[i], cudaEventDisableTiming));
    if (status == GOP_OK) return GOP_OK;
    const gop_error kept = *gop_services->error();
    for (int e = 0; e < GOP_EVENTS; e++)
        if (t->events[e]) cudaEventDestroy(t->events[e]);
    for (int i = 0; i < 1 + 2 * GOP_CUDA_SLOTS; i++)
        if (*untimed[i]) cudaEventDestroy(*untimed[i]);
    cudaStreamDestroy(*stream);
    *gop_services->error() = kept;
    return status;
}

/* With the lock held and the device current. */
static gop_status open_context(int ordinal, gop_cuda_thread **made)
{
    if (!thread_end_made) {
        if (pthread_key_create(&thread_end, give_back) != 0)
            return gop_fail(GOP_NO_MEMORY, "cuda: no thread-local key is left in this process");
        thread_end_made = 1;
    }
    if (!devices[ordinal].open) {
        GOP_TRY(gop_cuda_pool_open(ordinal, &devices[ordinal].pool));
        devices[ordinal].open = 1;
    }
    gop_cuda_thread *t = devices[ordinal].idle;
    if (t) {
        devices[ordinal].idle = t->next_idle;
        *made = t;
        return GOP_OK;
    }
    t = (gop_cuda_thread *)gop_services->alloc(sizeof *t);
    if (!t) return gop_fail(GOP_NO_MEMORY, "cuda: no host memory for a context");
    memset(t, 0, sizeof *t);
    t->base.backend = &gop_cuda_backend;
    t->base.device = {GOP_CUDA, ordinal};
    t->base.info = devices[ordinal].info;
    t->pool = devices[ordinal].pool;
    t->stream = cudaStreamLegacy;
    const gop_status status = make(t);
    if (status == GOP_OK) *made = t;
    else gop_services->release(t);
    return status;
}

gop_status gop_cuda_context(int ordinal, gop_ctx **ctx)
{
    GOP_TRY(gop_cuda_usable());
    if (ordinal >= 0 && ordinal < GOP_CUDA_MAX_DEVICES && mine[ordinal]) {
        *ctx = &mine[ordinal]->base;
        return GOP_OK;
    }
    gop_device_info info;
    GOP_TRY(gop_cuda_info(ordinal, &info)); /* the device exists and this build fits it */
    const gop_cuda_current current(ordinal);
    GOP_TRY(current.status);
    gop_cuda_thread *made = NULL;
    GOP_TRY(gop_cuda_borrow(ordinal, &made));
    mine[ordinal] = made;
    pthread_setspecific(thread_end, mine); /* any value but NULL: give_back runs at the end */
    *ctx = &made->base;
    return GOP_OK;
}

gop_status gop_cuda_borrow(int ordinal, gop_cuda_thread **borrowed)
{
    pthread_mutex_lock(&lock);
    const gop_status status = open_context(ordinal, borrowed);
    pthread_mutex_unlock(&lock);
    return status;
}

void gop_cuda_hand_back(gop_cuda_thread *borrowed)
{
    if (gop_cuda_in_forked_child()) return; /* the lock may be another thread's */
    const int ordinal = borrowed->base.device.ordinal;
    borrowed->stream = cudaStreamLegacy;
    pthread_mutex_lock(&lock);
    borrowed->next_idle = devices[ordinal].idle;
    devices[ordinal].idle = borrowed;
    pthread_mutex_unlock(&lock);
}

gop_cuda_current::gop_cuda_current(int wanted) : ordinal(wanted), previous(wanted)
{
    status = gop_cuda_check(cudaGetDevice(&previous), "asking for the current device");
    if (status == GOP_OK && previous != ordinal)
        status = gop_cuda_check(cudaSetDevice(ordinal), "choosing the device");
}

gop_cuda_current::~gop_cuda_current()
{
    if (status == GOP_OK && previous != ordinal) cudaSetDevice(previous);
}

void *gop_cuda_use(gop_ctx *ctx, void *stream)
{
    gop_cuda_thread *t = thread_of(ctx);
    void *const before = t->stream;
    t->stream = stream == GOP_OWN_STREAM ? t->own : (cudaStream_t)stream;
    return before;
}
