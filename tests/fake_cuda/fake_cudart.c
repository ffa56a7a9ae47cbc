/*
 * fake_cudart.c - a CUDA runtime in host memory, to test the real csrc/cuda runtime without a
 * GPU.
 *
 * Linked with csrc/cuda/runtime, maps.cu apart, it makes a cuda backend that tests load by
 * path. Work is queued and done late, one piece per query, so that a buffer used again too
 * early gives wrong results here. Tests set the fake_ variables.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "fake_cudart.h"

/* ---- what tests set and read ---- */

int fake_work_error; /* met by the next piece of work, and by all later calls */
size_t fake_capacity = (size_t)1 << 40;
int fake_stuck;          /* 1: queries make no progress, so that waits wait */
size_t fake_used;        /* bytes allocated on the devices now */
size_t fake_peak;        /* the most that they were */
int fake_blocks;         /* number of allocations now */
int fake_pinned;         /* number of pinned allocations */
int fake_copies;         /* between host and device, queued so far */
int fake_stream_waits;   /* calls that made one stream wait for another */
int fake_drains;         /* calls that waited for a whole device */
int fake_devices_in_use; /* calls that named a device that was not current */
int fake_on_default;     /* kernels queued on a default stream */
int fake_copiers[2];     /* threads that queued copies, a device */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int current;
static __thread cudaError_t last;
static int dead; /* the code of a sticky error */

cudaError_t fake_result(cudaError_t code)
{
    if (dead) code = (cudaError_t)dead;
    if (code != cudaSuccess && code != cudaErrorNotReady) last = code;
    return code;
}

/* ---- streams: queues of pieces of work; a piece is done when its number is passed ---- */

typedef struct piece {
    struct piece *next;
    const fake_kernel *kernel; /* NULL: a copy or memset */
    char arguments[3000];
    void *to;
    const void *from; /* NULL: memset */
    size_t bytes;
    cudaStream_t waits; /* until that stream has done `after` pieces */
    long after;
} piece;

struct CUstream_st {
    int device;
    piece *first, *last;
    long queued, done;
};
struct CUevent_st {
    cudaStream_t stream;
    long after; /* the stream's count when it was recorded */
};

/* The default stream of the current device, which has two handles, or the stream itself. */
static cudaStream_t real(cudaStream_t stream)
{
    static struct CUstream_st defaults[2];
    if (stream && stream != cudaStreamLegacy) return stream;
    defaults[current].device = current;
    return &defaults[current];
}

static void do_one(cudaStream_t stream)
{
    piece *p = stream->first;
    if (!p || fake_stuck) return;
    while (p->waits && p->waits->done < p->after) do_one(p->waits);
    if (fake_work_error) dead = fake_work_error;
    if (p->kernel) {
        void *addresses[8];
        char *at = p->arguments;
        for (int i = 0; i < p->kernel->count; at += p->kernel->bytes[i++]) addresses[i] = at;
        p->kernel->run(addresses);
    } else if (p->from) memcpy(p->to, p->from, p->bytes);
    else if (p->to) memset(p->to, 0, p->bytes);
    stream->first = p->next;
    if (!stream->first) stream->last = NULL;
    stream->done++;
    free(p);
}

static cudaError_t queue(cudaStream_t stream, piece *p)
{
    const cudaStream_t named = stream;
    stream = real(stream);
    p->next = NULL;
    pthread_mutex_lock(&lock);
    fake_on_default += p->kernel && named != stream;
    if (stream->device != current) fake_devices_in_use++;
    if (stream->last) stream->last->next = p;
    else stream->first = p;
    stream->last = p;
    stream->queued++;
    pthread_mutex_unlock(&lock);
    return fake_result(cudaSuccess);
}

static cudaError_t enqueue(cudaStream_t stream, void *to, const void *from, size_t bytes)
{
    piece *p = calloc(1, sizeof *p);
    if (!p) abort();
    p->to = to;
    p->from = from;
    p->bytes = bytes;
    return queue(stream, p);
}

cudaError_t fake_enqueue_kernel(cudaStream_t stream, const fake_kernel *kernel,
                                void **arguments)
{
    piece *p = calloc(1, sizeof *p);
    if (!p) abort();
    char *at = p->arguments;
    p->kernel = kernel;
    for (int i = 0; i < kernel->count; at += kernel->bytes[i++])
        memcpy(at, arguments[i], kernel->bytes[i]);
    return queue(stream, p);
}

static void drain(cudaStream_t stream)
{
    stream = real(stream);
    pthread_mutex_lock(&lock);
    const int stuck = fake_stuck;
    fake_stuck = 0; /* the work ends in the end */
    while (stream->first) do_one(stream);
    fake_stuck = stuck;
    pthread_mutex_unlock(&lock);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    (*stream)->device = current;
    return fake_result(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    drain(stream);
    free(stream);
    return fake_result(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    stream = real(stream);
    pthread_mutex_lock(&lock);
    do_one(stream);
    const int ready = !stream->first;
    pthread_mutex_unlock(&lock);
    return fake_result(ready ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    drain(stream);
    return fake_result(cudaSuccess);
}
cudaError_t cudaDeviceSynchronize(void)
{
    fake_drains++;
    return fake_result(cudaSuccess);
}
/* ---- events ---- */

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    piece *p = calloc(1, sizeof *p);
    if (!p) abort();
    (void)flags;
    fake_stream_waits++;
    p->waits = event->stream;
    p->after = event->after;
    return queue(stream, p);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return fake_result(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return fake_result(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    stream = real(stream);
    pthread_mutex_lock(&lock);
    event->stream = stream;
    event->after = stream->queued;
    pthread_mutex_unlock(&lock);
    return fake_result(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    pthread_mutex_lock(&lock);
    if (event->stream) do_one(event->stream);
    const int ready = !event->stream || event->stream->done >= event->after;
    pthread_mutex_unlock(&lock);
    return fake_result(ready ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    (void)from, (void)to;
    *milliseconds = 0.5f;
    return fake_result(cudaSuccess);
}

/* ---- memory: each block is described in front ---- */

enum { FRONT = 256 };

typedef struct block {
    size_t bytes;
    int device;
    struct block *next; /* of all that are allocated */
} block;

static block *blocks;

static cudaError_t allocate(void **memory, size_t bytes)
{
    pthread_mutex_lock(&lock);
    const int fits = bytes <= fake_capacity && fake_used <= fake_capacity - bytes;
    block *made =
        fits ? aligned_alloc(FRONT, FRONT + (bytes + FRONT - 1) / FRONT * FRONT) : NULL;
    if (made) {
        *made = (block){bytes, current, blocks};
        blocks = made;
        fake_used += bytes;
        if (fake_used > fake_peak) fake_peak = fake_used;
        fake_blocks++;
        *memory = (char *)made + FRONT;
        memset(*memory, 0x77, bytes);
    }
    pthread_mutex_unlock(&lock);
    return fake_result(made ? cudaSuccess : cudaErrorMemoryAllocation);
}

static cudaError_t release(void *memory)
{
    block *const gone = (block *)((char *)memory - FRONT), **at = &blocks;
    pthread_mutex_lock(&lock);
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
    fake_used -= gone->bytes;
    fake_blocks--;
    free(gone);
    pthread_mutex_unlock(&lock);
    return fake_result(cudaSuccess);
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return allocate(memory, bytes);
}
cudaError_t cudaFree(void *memory)
{
    return release(memory);
}
cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    (void)pool, (void)stream;
    return allocate(memory, bytes);
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    drain(stream); /* ordered by the stream: what was queued before still has the memory */
    return release(memory);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    *memory = malloc(bytes);
    fake_pinned++;
    return fake_result(cudaSuccess);
}
cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    *left = fake_capacity - fake_used;
    *total = fake_capacity;
    return fake_result(cudaSuccess);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    (void)properties;
    *pool = (cudaMemPool_t)&lock; /* any address: never looked into */
    return fake_result(cudaSuccess);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr what, void *value)
{
    (void)pool, (void)what, (void)value;
    return fake_result(cudaSuccess);
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr what, void *value)
{
    (void)pool, (void)what;
    memset(value, 0, 8);
    return fake_result(cudaSuccess);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    (void)pool, (void)keep;
    return fake_result(cudaSuccess);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    static __thread int seen[2];
    (void)kind;
    pthread_mutex_lock(&lock);
    fake_copies++;
    if (!seen[current]) fake_copiers[current]++;
    seen[current] = 1;
    pthread_mutex_unlock(&lock);
    return enqueue(stream, to, from, bytes);
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    (void)value;
    return enqueue(stream, to, NULL, bytes);
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *memory)
{
    memset(a, 0, sizeof *a);
    a->type = cudaMemoryTypeUnregistered;
    pthread_mutex_lock(&lock);
    for (const block *b = blocks; b; b = b->next)
        if ((uintptr_t)memory - (uintptr_t)b - FRONT < b->bytes) {
            a->type = cudaMemoryTypeDevice;
            a->device = b->device;
        }
    pthread_mutex_unlock(&lock);
    return fake_result(cudaSuccess);
}

/* ---- errors, and the current device ---- */

cudaError_t cudaGetLastError(void)
{
    const cudaError_t code = last;
    last = cudaSuccess;
    return code;
}
int fake_current(void)
{
    return current;
}
void fake_make_current(int device)
{
    current = device;
}
