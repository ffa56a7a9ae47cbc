/*
 * runtime.h - what the files of the CUDA runtime share; ladder files include device.h instead.
 *
 * Reading order: errors.cu (codes to sentences, the lost state), devices.cu (devices and
 * contexts), memory.cu (the pool), ring.cu (pinned memory), flow.cu and transfer.cu, streams.cu
 * (events, waiting), launches.cu (launching), modules.cu (kernels compiled at run time),
 * gpuops_cuda.cu (the table that core sees).
 */
#ifndef GOP_CUDA_RUNTIME_H
#define GOP_CUDA_RUNTIME_H

#include "core/core.h"
#include "cuda/launch.h"

struct gop_cuda_repeated;
struct gop_cuda_kept;

enum {
    GOP_CUDA_MAX_DEVICES = 64,
    GOP_CUDA_REPEATED = 64, /* launches that a context keeps in mind */
    GOP_CUDA_SLOTS = 28,    /* of the pinned ring, a direction */
    GOP_CUDA_SLOT_BYTES = 2 << 20,
    GOP_CUDA_SPARE = 8,             /* freed device arrays that a context keeps, .. */
    GOP_CUDA_SPARE_BYTES = 1 << 20, /* .. each of so many bytes at most */
};

/* Memory of a freed device array, for the next one of as many bytes. */
typedef struct gop_cuda_spare {
    void *memory;
    size_t bytes;
} gop_cuda_spare;

enum gop_direction { GOP_UPLOAD, GOP_DOWNLOAD };

/* A context: core's, then what only the runtime uses. It lives as long as
 * the process; when its thread ends another thread takes it over. */
struct gop_cuda_thread {
    gop_ctx base;
    cudaStream_t stream;
    cudaEvent_t events[GOP_EVENTS];
    cudaStream_t own;   /* for calls on host arrays; stream is where work goes now */
    cudaMemPool_t pool; /* NULL where the device has none: plain cudaMalloc */
    gop_cuda_spare spare[GOP_CUDA_SPARE];
    int spares;
    char *zero_copy; /* pinned memory for small operands, made on first use */
    int zero_copies; /* blocks of it in use, and bytes up to the last one's end */
    size_t zero_copy_bytes;
    cudaEvent_t ordered;   /* for waiting on, and being waited for by, other streams */
    cudaStream_t up, down; /* of calls in panels; made on first use */
    cudaEvent_t slot_done[2][GOP_CUDA_SLOTS];
    gop_cuda_repeated *repeated[GOP_CUDA_REPEATED];
    gop_cuda_kept *kept; /* a launch, and whether it waits for the next one of its step */
    int kept_for_next;
    gop_cuda_thread *next_idle;
};

static inline gop_cuda_thread *thread_of(gop_ctx *ctx)
{
    return reinterpret_cast<gop_cuda_thread *>(ctx);
}

/* ---- errors.cu ---- */

/* Makes a runtime call, unless the fault hook names its site. */
#define GOP_CUDA(site, what, call)                                                             \
    gop_cuda_check(gop_services->fault(site) ? cudaErrorInvalidValue : (call), what)

/* GOP_OK, or the failure of `what`; a sticky code marks the device lost for good. */
gop_status gop_cuda_check(cudaError_t code, const char *what);
/* Fails if an earlier error took the device away from this process, or a fork did. */
gop_status gop_cuda_usable(void);
/* Why there is no usable device. */
gop_status gop_cuda_unavailable(cudaError_t code);
/* CUDA is in use from here on: a forked child must not touch it. */
void gop_cuda_started(void);
int gop_cuda_in_forked_child(void);
/* GOP_OK, or the failure of the launch just made, naming the kernel. */
gop_status gop_cuda_launched(const char *kernel, cudaError_t code);
/* Allows a kernel so many bytes of shared memory beside its own. */
gop_status gop_cuda_allow_shared(const void *kernel, size_t bytes);
extern __thread const char *gop_cuda_last_kernel; /* for errors that surface later */

/* ---- devices.cu ---- */

gop_status gop_cuda_count(int *devices);
gop_status gop_cuda_info(int ordinal, gop_device_info *info);
gop_status gop_cuda_context(int ordinal, gop_ctx **ctx);
/* A context that is no thread's, for the time of a flow. With the device current. */
gop_status gop_cuda_borrow(int ordinal, gop_cuda_thread **borrowed);
void gop_cuda_hand_back(gop_cuda_thread *borrowed);
/* A device that is current as long as this lives; then the one before it is so again. */
struct gop_cuda_current {
    gop_status status;
    explicit gop_cuda_current(int ordinal);
    ~gop_cuda_current();

  private:
    const int ordinal;
    int previous;
};
void *gop_cuda_use(gop_ctx *ctx, void *stream);

/* ---- memory.cu ---- */

gop_status gop_cuda_pool_open(int ordinal, cudaMemPool_t *pool);
gop_status gop_cuda_alloc(gop_ctx *ctx, size_t bytes, void **memory);
void gop_cuda_release(gop_ctx *ctx, void *memory);
void gop_cuda_keep(gop_ctx *ctx, void *memory, size_t bytes);
void *gop_cuda_zero_copy(gop_ctx *ctx, size_t bytes);
gop_status gop_cuda_whose(const void *memory, int *ordinal);

/* ---- ring.cu ---- */

/* A leased slot, or number -1. Until `busy` is done the device uses it. */
struct gop_cuda_slot {
    int number;
    char *memory;
    cudaEvent_t busy;
};
/* What a flow has of the ring. Flows that are under way at once have equal parts of it, on
 * whatever devices: the first one leaves the second what it needs. */
struct gop_cuda_part {
    int leased[2]; /* slots, a direction */
};
void gop_cuda_part_begin(gop_cuda_part *part);
void gop_cuda_part_end(void);
/* 1 once it has more than its part: other flows have begun. */
int gop_cuda_part_exceeded(const gop_cuda_part *part);

/* Leases a slot. A caller waits for one; else there may be none. */
gop_status gop_cuda_lease(gop_cuda_part *part, gop_direction direction, int is_caller,
                          gop_cuda_slot *leased);
void gop_cuda_give_back(gop_cuda_part *part, gop_direction direction, gop_cuda_slot *leased);

/* ---- transfer.cu ---- */

gop_status gop_cuda_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host);
gop_status gop_cuda_download(gop_ctx *ctx, const gop_array *host, const gop_array *device);
gop_status gop_cuda_panels(gop_ctx *ctx, const gop_panels *panels);

/* ---- streams.cu ---- */

/* A wait that spins, then sleeps longer and longer, hearing Ctrl-C. */
struct gop_cuda_backoff {
    int64_t started; /* ns; 0: not yet */
};
gop_status gop_cuda_pause(gop_cuda_backoff *backoff);

gop_status gop_cuda_mark(gop_ctx *ctx, int event);
gop_status gop_cuda_elapsed(gop_ctx *ctx, int from, int to, double *seconds);
gop_status gop_cuda_sync(gop_ctx *ctx);
gop_status gop_cuda_flush(gop_ctx *ctx);
gop_status gop_cuda_order(gop_ctx *ctx, void *first, void *then);
gop_status gop_cuda_drain(gop_ctx *ctx);

/* ---- modules.cu ---- */

gop_status gop_cuda_load(gop_ctx *ctx, const void *image, void **module);
gop_status gop_cuda_launch(gop_ctx *ctx, void *module, const gop_kernel_launch *launch);
void gop_cuda_unload(void *module);

extern const gop_backend gop_cuda_backend;

#endif
