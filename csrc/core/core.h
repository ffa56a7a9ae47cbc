/*
 * core.h - the seams: choosing a row, descriptor, backend, and core's own helpers. row.h has
 * those that kernels need. One road runs them all.
 */
#ifndef GOP_CORE_H
#define GOP_CORE_H

#include "core/row.h"

#ifdef __cplusplus
extern "C" {
#endif

int gop_row_takes(const gop_row *row, gop_dtype dtype);
/* The row that runs and its plan: by name, or as the ladder's choice says. Resolves the
 * tunables. */
gop_status gop_choose(const gop_ctx *ctx, gop_task *task, const char *kernel, int timing,
                      const gop_row **row, gop_plan *plan) GOP_MUST_CHECK;
/* The next choice if *row, the last one, cannot run; fails, without a sentence, if there is
 * none. */
gop_status gop_choose_before(const gop_ctx *ctx, gop_task *task, const gop_row **row,
                             gop_plan *plan) GOP_MUST_CHECK;

/* ---- descriptor: the one place that knows what an op accepts and returns ---- */

typedef struct gop_arena gop_arena; /* host memory that lives as long as the call */
/* Runs a call that is part of another one. */
typedef gop_status (*gop_runner)(const gop_call *call, const gop_run_options *options);

typedef struct gop_descriptor {
    const char *name, *stem;
    /* The function that was called, where an operation has several. NULL: `name`. */
    const char *(*called)(const gop_call *call);
    /* Checks operands and params and fills dtype, ndim and shape of each of the call's nout. */
    gop_status (*infer)(const gop_call *call, gop_array *out);
    /* Checks that need the data: NaN, CSR structure, zero diagonal. NULL: none. */
    gop_status (*check)(const gop_call *call, gop_arena *arena);
    /* Deferred validation: the kernels check what they read. `defer` returns the finding, below
     * 0, that they are to assume, or 0 if `check` comes first. NULL: it always does. */
    int64_t (*defer)(const gop_call *call, const gop_run_options *options);
    /* Gives the memory in which such kernels report what they find. */
    gop_status (*begin)(gop_ctx *ctx, gop_task *task, void **findings);
    /* Waits for the kernels and reads their findings. GOP_REFUSED, without a sentence: the
     * results are discarded, and the call runs again with another assumption. */
    gop_status (*end)(gop_ctx *ctx, const void *findings, int64_t *assumed);
    /* Replaces inputs by tables derived from them (rdf's thresholds). NULL: none. */
    gop_status (*prepare)(gop_task *task, gop_array *in, gop_arena *arena);
    /* Fills task->geometry from the layouts of task->in and task->out. */
    gop_status (*plan)(gop_task *task);
    double (*flops)(const gop_task *task);
    /* The work by which "auto" chooses a device for host arrays, before any check. NULL: the
     * CPU. */
    double (*work)(const gop_call *call);
    int in_place; /* an input may be exactly the output's memory (elementwise ops) */
    int once;     /* its kernels read each input about once and write each result once */
    /* Whether another conforming row may give other bits. NULL: it may not. */
    int (*bits_vary)(const gop_task *task);
    int outputs; /* the most that it has */
    /* The least precision that the call accepts. NULL: the highest. */
    gop_precision (*precision)(const gop_call *call);
    int (*is_exact)(const gop_call *call); /* it is for rows that are `exact`. NULL: never */
    /* The axis of input i that is this axis of the output; -1: all of the input is needed for
     * each part of the output, -2: it is not cut along that axis. NULL: never cut at all. */
    int (*axis_of)(const gop_call *call, int i, int axis);
    int in_panels; /* long calls are cut so that transfers and kernels are at work at once */
    int casts;     /* kernels cast elements as they read them, on backends with GOP_CASTS */
    /* Runs a call with one result that does not fit the device, by parts of its terms. Fails
     * with GOP_NO_DEVICE_MEMORY and no new sentence if there are none. NULL: it is not cut so.
     */
    gop_status (*by_terms)(const gop_call *call, const gop_run_options *options,
                           gop_runner run);
} gop_descriptor;

const gop_descriptor *gop_descriptor_of(gop_op op);
/* The name of a call in messages: the function that was called. */
const char *gop_call_name(const gop_call *call);
/* gop_infer() that leaves the call's own outputs as they are. */
gop_status gop_infer_outputs(const gop_call *call, gop_array *out) GOP_MUST_CHECK;
/* Runs the checks that need the data, after gop_infer, and gives what they find. */
gop_status gop_check(const gop_call *call, int64_t *finding) GOP_MUST_CHECK;
/* The same check by the backend in whose memory the first inputs lie: *is_well is 1 if it
 * passes. 0 means unknown: the host has to check copies. */
gop_status gop_check_in_place(const gop_call *call, int count, int *is_well,
                              int64_t *finding) GOP_MUST_CHECK;

/* ---- backend ---- */

enum { GOP_MAX_DEPTH = 4 };

/* Device arrays are made, used and freed on the device's default stream, in the order in which
 * any thread asks for it, and in order with other libraries that use it too. Calls on host
 * arrays wait for their results and go to a stream of the thread's own. */
#define GOP_DEFAULT_STREAM ((void *)1)
#define GOP_OWN_STREAM ((void *)0)

/* A call that is cut into panels, each of which is transferred and computed by itself. */
typedef struct gop_panels {
    int count;
    int nin, nout; /* operands that are cut */
    int depth;     /* panels whose memory the device has at a time, at most GOP_MAX_DEPTH */
    /* Operand k of a panel, inputs first: on the host, and dense on the device. Called by any
     * thread. */
    void (*operand)(const struct gop_panels *panels, int panel, int k, gop_array *host,
                    gop_array *device);
    /* Enqueues the panel's kernels. Called by one thread at a time, panel after panel. NULL:
     * there are none. */
    gop_status (*launch)(const struct gop_panels *panels, gop_ctx *ctx, int panel);
} gop_panels;

/* A launch of a kernel that was compiled while the program runs. */
typedef struct gop_kernel_launch {
    const char *name;   /* for messages */
    const char *symbol; /* what the image calls it */
    unsigned grid[3], block[3];
    size_t shared;       /* bytes of dynamic shared memory a block */
    void **arguments;    /* the address of each */
    const size_t *bytes; /* of each, of an array all of its elements */
} gop_kernel_launch;

/* Facts of a backend that the road asks for. */
enum {
    GOP_HOST_MEMORY = 1, /* its kernels take the host's arrays where they lie */
    GOP_OWN_MEMORY = 2,  /* callers' arrays may live in memory that the host does not read */
    GOP_BUS = 4,         /* what is brought to its memory and back costs time */
    GOP_STREAMS = 8,     /* launches are enqueued: it has use, order and drain */
    GOP_CASTS = 16,      /* and cast their elements on the way, of operations that `casts` */
};

struct gop_backend {
    uint32_t abi;
    int facts;
    const char *name;
    /* Starts the runtime on first use; fails with the reason where there is no usable device.
     */
    gop_status (*count)(int *devices);
    gop_status (*info)(int ordinal, gop_device_info *info);
    gop_status (*context)(int ordinal, gop_ctx **ctx); /* the calling thread's */
    gop_status (*alloc)(gop_ctx *ctx, size_t bytes, void **memory);
    void (*release)(gop_ctx *ctx, void *memory);
    /* Zero-copy memory for small operands, which host and device both use in place, released
     * like other memory; NULL if there is none left. NULL on a CPU, which needs none. */
    void *(*zero_copy)(gop_ctx *ctx, size_t bytes);
    /* Between a host array of any strides and its gop_array_dense() layout on the device. */
    gop_status (*upload)(gop_ctx *ctx, const gop_array *device, const gop_array *host);
    gop_status (*download)(gop_ctx *ctx, const gop_array *host, const gop_array *device);
    /* A call in panels, with transfers and kernels at work at once; waits until the results are
     * in the host's arrays. NULL where nothing is transferred. */
    gop_status (*panels)(gop_ctx *ctx, const gop_panels *panels);
    /* Event < GOP_EVENTS, on the device's clock. NULL: the host's, once all is done. */
    gop_status (*mark)(gop_ctx *ctx, int event);
    gop_status (*elapsed)(gop_ctx *ctx, int from, int to, double *seconds);
    gop_status (*sync)(
        gop_ctx *ctx); /* waits, hears Ctrl-C; GOP_INTERRUPTED once work stopped */
    gop_status (*flush)(gop_ctx *ctx); /* empties the caches: for cold timing */
    const gop_ladder *(*ladder)(gop_op op);
    /* Sets the stream of this context's work; returns the one before. */
    void *(*use)(gop_ctx *ctx, void *stream);
    /* Orders streams: later work on `then` comes after the present work on `first`. */
    gop_status (*order)(gop_ctx *ctx, void *first, void *then);
    gop_status (*drain)(gop_ctx *ctx); /* waits for all streams of the device */
    /* Checks that memory of another library is this backend's, and says on which device. */
    gop_status (*whose)(const void *memory, int *ordinal);
    /* Starts counting what kernels do, or stops and returns the counts as JSON (OpenCL: its
     * functions' names), valid until the next call. NULL if a backend does not count. */
    const char *(*profile)(int start);
    /* Kernels compiled while the program runs: loads an image of the device's code (a cubin;
     * PTX or OpenCL C that ends with a zero), enqueues a launch, unloads; NULL where a backend
     * takes none. And what was loaded has, where Python cannot know: opencl's modules.c. */
    gop_status (*load)(gop_ctx *ctx, const void *image, void **module);
    gop_status (*launch)(gop_ctx *ctx, void *module, const gop_kernel_launch *launch);
    void (*unload)(void *module);
    const char *(*describe)(void *module);
    /* gop_check_in_place by the device, which it waits for. NULL if a backend cannot. */
    gop_status (*check)(gop_ctx *ctx, const gop_call *call, int *is_well, int64_t *finding);
    /* release, of a device array that alloc gave so many bytes: they may be kept for the next
     * one. NULL where nothing is kept. */
    void (*keep)(gop_ctx *ctx, void *memory, size_t bytes);
};

/* Opens a backend's library (Python gives the path), or keeps the reason why it cannot be. */
gop_status gop_backend_load(const char *name, const char *path);
gop_status gop_backend_get(gop_backend_id id, const gop_backend **backend) GOP_MUST_CHECK;
/* The calling thread's context of a device. */
gop_status gop_context_of(gop_device device, gop_ctx **ctx) GOP_MUST_CHECK;
/* Sets the stream of its work; returns the one before, to be restored. */
void *gop_use_stream(gop_ctx *ctx, void *stream);
/* The calling thread's context of a backend's device, which `make` makes where no thread that
 * ended has left one. */
gop_status gop_thread_context(gop_backend_id id, int ordinal, gop_make_context make,
                              gop_ctx **ctx) GOP_MUST_CHECK;
/* Fails where the backend has no device of that number. */
gop_status gop_check_ordinal(const gop_backend *backend, int ordinal) GOP_MUST_CHECK;
extern const gop_backend gop_cpu_backend;
const char *gop_backend_name(gop_backend_id id);
/* 1 and its number, or 0 where no backend has the name. */
int gop_backend_find(const char *name, gop_backend_id *id);

/* A backend library exports only this: const gop_backend *gop_backend_open(uint32_t, const
 * gop_host *). */
typedef const gop_backend *(*gop_backend_open_fn)(uint32_t abi, const gop_host *host);

/* ---- core's own helpers ---- */

gop_error *gop_error_slot(void);
/* While on, failures of this thread only keep codes, no sentences: for rows that are passed
 * over. */
void gop_fail_quietly(int on);

int64_t gop_dtype_size(gop_dtype dtype);
const char *gop_dtype_name(gop_dtype dtype);
const char *gop_precision_name(gop_precision precision);
char gop_dtype_kind(gop_dtype dtype); /* b i u f c; bfloat16 is f */

/* Host memory, 64-byte aligned, with the fault hook; NULL when there is none. */
void *gop_alloc(size_t bytes);
void gop_release(void *memory);
int gop_fault(const char *site);
void *gop_arena_alloc(gop_arena *arena, size_t bytes);
/* A C-contiguous host copy of an array of any place (the array itself if it is one already). */
gop_status gop_arena_host(gop_arena *arena, const gop_array *array,
                          gop_array *host) GOP_MUST_CHECK;
/* Copies an array of any strides on the context's device into host memory of any strides. */
gop_status gop_fetch(gop_ctx *ctx, const gop_array *device,
                     const gop_array *host) GOP_MUST_CHECK;

int64_t gop_array_size(const gop_array *array);  /* number of elements */
int64_t gop_array_item(const gop_array *array);  /* bytes of an element where it lies */
int64_t gop_array_bytes(const gop_array *array); /* of its elements as kernels have them,
                                                    without gaps */
/* Number of elements, or a ValueError naming op and operand where the product exceeds 2^63. */
gop_status gop_shape_size(const char *op, int ndim, const int64_t *shape, int64_t *size);
/* Copies only the axes in use: the struct has room for many more. */
void gop_array_assign(gop_array *to, const gop_array *from);
/* Same shape, memory order kept, no gaps, nothing to cast, broadcast axes stay stride 0; bytes
 * it needs. */
size_t gop_array_dense(const gop_array *array, gop_array *dense);
void gop_array_c_order(gop_array *array); /* sets C-contiguous strides */
/* Bytes of its elements where they lie, each counted once. */
double gop_array_least_bytes(const gop_array *array);
/* Bytes of the memory sectors that the elements touch; an average if rows are not aligned to
 * sectors. */
double gop_array_sectors(const gop_array *array, int64_t sector);
int gop_array_is_item_aligned(const gop_array *array);
int gop_array_on_host(const gop_array *array);
int gop_array_may_overlap(const gop_array *a, const gop_array *b);
int gop_array_same_layout(const gop_array *a, const gop_array *b); /* the very same elements */
int gop_array_self_overlaps(const gop_array *array);
/* Writes "(3, 4)" for messages; returns text. */
const char *gop_shape_text(char text[256], int ndim, const int64_t *shape);
/* Normalises axes against ndim: AxisError, or ValueError on a repeat. */
gop_status gop_axes_normalize(const char *op, const gop_axes *axes, int ndim,
                              int *out) GOP_MUST_CHECK;

/* Drops axes of extent 1 and merges neighbours; strides[o] is operand o's. Returns the new
 * rank. */
int gop_merge_axes(int ndim, int64_t *extent, int operands, int64_t *const strides[]);

/* Copies elements [first, first + count), in the order of the dense layout, to or from `to`,
 * and casts those of an array that are stored otherwise. */
void gop_pack(const gop_array *from, int64_t first, int64_t count, void *to);
void gop_unpack(const gop_array *to, int64_t first, int64_t count, const void *from);
/* The same in the C order of the logical array. */
void gop_pack_c_order(const gop_array *from, int64_t first, int64_t count, void *to);

/* Either of them, on all threads. */
gop_status gop_move(const gop_array *array, int64_t first, int64_t count, void *dense,
                    int packing);
/* Elements of the dense layout: those along a broadcast axis count once. */
int64_t gop_array_elements(const gop_array *array);

/* The thread pool (core/host/threads.c): free threads take pieces of `grain` items. The calling
 * thread works too and hears Ctrl-C between pieces: keep a piece under 20 ms. */
gop_status gop_parallel(int64_t items, int64_t grain, gop_body body, void *argument);
/* The same by at most `workers` threads, for which scratch memory was sized: another thread of
 * the program may change the number of threads meanwhile. */
gop_status gop_parallel_by(int workers, int64_t items, int64_t grain, gop_body body,
                           void *argument);
/* The same for short jobs: sleeping workers are woken only if the job turns out to be long
 * enough, or if such calls follow each other. */
gop_status gop_parallel_brief(int workers, int64_t items, int64_t grain, gop_body body,
                              void *argument);
/* The calling thread and others, `most` in all, call the body until it returns 0. In the
 * calling thread the body hears Ctrl-C by itself. */
gop_status gop_crew(int most, gop_crew_body body, void *argument);
/* A worker asks between pieces: 1 if it should return because other jobs need it more. */
int gop_wanted_elsewhere(void);
int gop_threads(void);
void gop_threads_set(int threads); /* 0: back to the default */

/* GOP_INTERRUPTED once a signal handler raised. Only on the calling thread; cheap to call
 * often. */
gop_status gop_interrupted(void);
enum { GOP_HEAR = 1 << 16 };            /* items of a plain loop between two such calls */
extern int (*gop_interrupt_hook)(void); /* set by python/module.c: 1 when an exception is set */
/* The same for gop_host's functions of these names. */
extern gop_status (*gop_recall_hook)(const char *key, void **made, size_t *bytes);
extern gop_status (*gop_keep_hook)(const char *key, const void *made, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
