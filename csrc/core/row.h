/*
 * row.h - what a kernel's file needs of core: a task, its context and plan, a row of a ladder,
 * and the services that core lends to a backend.
 */
#ifndef GOP_ROW_H
#define GOP_ROW_H

#include "core/arrays/geometry.h"
#include "gpuops.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GOP_PRINTF(text, first) __attribute__((format(printf, text, first), cold))
#define GOP_MUST_CHECK __attribute__((warn_unused_result))
#else
#define GOP_PRINTF(text, first)
#define GOP_MUST_CHECK
#endif

/* Leaves the enclosing function with the first failure. */
#define GOP_TRY(expression)                                                                    \
    do {                                                                                       \
        const gop_status gop_try_status = (expression);                                        \
        if (gop_try_status != GOP_OK) return gop_try_status;                                   \
    } while (0)

/* ---- task: a validated call, staged onto one device ---- */

typedef struct gop_task {
    const gop_call *call; /* for op and params */
    int nin, nout;
    gop_array in[GOP_MAX_INPUTS]; /* on the device; aligned to their items, strides too */
    gop_array out[GOP_MAX_OUTPUTS];
    gop_geometry geometry;
    void *scratch;                  /* what the plan asked for, not initialised */
    int64_t tune[GOP_MAX_TUNABLES]; /* in the order of the row's tunables */
    const struct gop_plan *plan;    /* what the row decided */
    int64_t finding; /* of the check: a number that the operation knows; 0: none. Below 0: what
                        the kernels are to assume and check themselves */
} gop_task;

/* ---- context: one per device and host thread; a backend's own context begins with it ---- */

typedef struct gop_device_info {
    char name[128];
    int major, minor; /* compute capability; 0 on a CPU */
    int processors;   /* multiprocessors, or CPU threads in use */
    int max_threads_per_block;
    int warp;
    int64_t shared_per_block;    /* bytes, with opt-in */
    int64_t memory, memory_free; /* bytes; -1: not known */
    int64_t l2;                  /* bytes */
    double clock, bandwidth;     /* Hz; of the memory, bytes a second; 0: not known */
    char detail[256];            /* one line more: instruction set, driver, ... */
} gop_device_info;

typedef struct gop_backend gop_backend;

enum { GOP_EVENTS = 4 }; /* marks of a context */

typedef struct gop_ctx {
    const gop_backend *backend; /* the table of this device, where facts differ by device */
    gop_device device;
    gop_device_info info;
    int timed;    /* its launches are between two timing events */
    int imagined; /* a GPU that is not there, only for explain: plans are made, nothing runs */
    double marks[GOP_EVENTS]; /* seconds of the host's clock, for backends without `mark` */
    struct gop_ctx *next;     /* in the list of contexts that ended threads left */
} gop_ctx;

/* ---- ladder ---- */

typedef enum gop_role {
    GOP_CONFORMING, /* keeps every promise: a choice may have it as a candidate (choice.h) */
    GOP_TEACHING,   /* runs by name; the caveat says what it does not promise */
    GOP_YARDSTICK,  /* timed, never an answer */
    GOP_CANDIDATE,  /* should keep every promise and runs by name, until it ran on a GPU */
} gop_role;

typedef struct gop_tunable {
    const char *name;
    int count;
    int64_t values[16]; /* allowed; the first is the default */
} gop_tunable;

/* Enqueues (CUDA) or does (CPU) one step of a task. Never allocates, synchronises or prints. */
typedef gop_status (*gop_launch)(gop_ctx *ctx, const gop_task *task, int64_t step);

/* What a row will do with a task, decided once by its plan() for explain, ladder, benchmark and
 * the run; a launch decides nothing. It is made before memory is acquired, so it holds
 * alignments but no addresses. */
enum { GOP_PLAN_BYTES = 3072 };
typedef struct gop_plan {
    gop_launch launch; /* the row's own for the dtype, unless its plan() finds a closer one */
    int64_t steps;     /* launches; none takes much over 100 ms, so that Ctrl-C is heard */
    size_t scratch;    /* bytes of the device's memory that they need besides */
    gop_precision precision; /* class of the result, best unless the row's plan says other */
    float cost; /* what the row's candidate needs after the plan (choice.h), if it uses it */
    /* Tiles, grids: whatever the row keeps for its launch; aligned for any type. */
    union {
        max_align_t widest;
        void *address;
        unsigned char bytes[GOP_PLAN_BYTES];
    } own;
} gop_plan;

/* A row's own part of a plan. */
#define GOP_OWN(type, plan)                                                                    \
    ((type *)(void *)((plan)->own.bytes +                                                      \
                      0 * sizeof(char[sizeof(type) <= GOP_PLAN_BYTES ? 1 : -1])))

typedef struct gop_row {
    const char *name; /* one word */
    const char *note; /* what changed from the row above, and the hardware fact that pays */
    gop_role role;
    const char *caveat;             /* teaching: what it does not promise; else NULL */
    const char *lecture;            /* tag of the lecture the kernel comes from, or NULL */
    gop_launch launch[GOP_NDTYPES]; /* by the dtype of in[0]; NULL: not for this dtype */
    gop_tunable tunables[GOP_MAX_TUNABLES]; /* ends at the first without a name */
    /* Fills the plan, of which launch, steps, scratch and precision have their defaults; or
     * refuses: gop_fail(GOP_REFUSED, ...) with a sentence. NULL: the defaults will do. */
    gop_status (*plan)(const gop_ctx *ctx, const gop_task *task, gop_plan *plan);
    uint32_t dtypes;    /* bits of those without a launch above for which plan() finds one */
    uint32_t imagined;  /* of those that it takes in another build: plans are made, no launch */
    int exact;          /* takes calls with exact=, and only those */
    const char *before; /* the name that it had before; NULL: it has had no other */
} gop_row;

typedef struct gop_ladder {
    int count;
    const gop_row *const *rows;      /* in the order of reading */
    const struct gop_choice *choice; /* what runs without a name: choice.h */
} gop_ladder;

#define GOP_EVERY_DTYPE ((UINT32_C(1) << GOP_NDTYPES) - 1)

/* Stores an error's sentence for the calling thread. Returns the code. */
gop_status gop_fail(gop_status code, const char *format, ...) GOP_PRINTF(2, 3);

/* ---- host: what core lends to a backend library ---- */

/* Items [begin, end) for one worker, worker < gop_threads(). */
typedef void (*gop_body)(void *argument, int64_t begin, int64_t end, int worker);
typedef gop_status (*gop_make_context)(int ordinal, gop_ctx **made);
typedef int (*gop_crew_body)(void *argument, int worker); /* worker 0: the calling thread */

typedef struct gop_host {
    uint32_t abi;
    gop_backend_id id; /* the number that the library's devices bear */
    gop_status (*fail)(gop_status code, const char *format, ...);
    gop_error *(*error)(void); /* the calling thread's, to add native_code, requested, ... */
    void *(*alloc)(size_t bytes);
    void (*release)(void *memory);
    gop_status (*parallel)(int64_t items, int64_t grain, gop_body body, void *argument);
    gop_status (*interrupted)(void);
    void (*pack)(const gop_array *from, int64_t first, int64_t count, void *to);
    void (*unpack)(const gop_array *to, int64_t first, int64_t count, const void *from);
    /* Either of them on all threads; and elements of the dense layout. */
    gop_status (*move)(const gop_array *array, int64_t first, int64_t count, void *dense,
                       int packing);
    int64_t (*elements)(const gop_array *array);
    int (*fault)(const char *site); /* 1: pretend that this site failed */
    /* `most` threads at most call the body, each until it returns 0. */
    gop_status (*crew)(int most, gop_crew_body body, void *argument);
    int (*wanted_elsewhere)(void); /* 1: other jobs need this worker more */
    int64_t (*array_bytes)(const gop_array *array);
    /* The rest is as core/core.h says. */
    gop_status (*context)(gop_backend_id id, int ordinal, gop_make_context make, gop_ctx **ctx);
    gop_status (*check_ordinal)(const gop_backend *backend, int ordinal);
    /* What a process keeps for later ones, by a key that says all that it depends on. Fail only
     * where they are interrupted; NULL in programs without Python. *made, to be released, stays
     * as it is if there is none. */
    gop_status (*recall)(const char *key, void **made, size_t *bytes);
    gop_status (*keep)(const char *key, const void *made, size_t bytes);
} gop_host;

#ifdef __cplusplus
}
#endif
#endif
