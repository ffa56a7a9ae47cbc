/*
 * runtime.h - what the files of the OpenCL runtime share, and rows of ladders need not know.
 */
#ifndef GOP_OPENCL_RUNTIME_H
#define GOP_OPENCL_RUNTIME_H

#include <pthread.h>

#include "opencl/opencl.h"
#include "opencl/runtime/cl.h"

extern gop_cl_table gop_cl; /* filled when devices are counted */

/* ---- errors ---- */

/* A call that returns a code: its failure is a sentence that names the function. Each function
 * of the table is a site of GPUOPS_FAULT, as opencl.clFinish. */
#define GOP_CL_CALL(name, ...)                                                                 \
    gop_cl_check(                                                                              \
        gop_cl_fault("opencl." #name) ? CL_OUT_OF_RESOURCES : gop_cl.name(__VA_ARGS__), #name)
/* One that makes an object, NULL where it failed, and whose last argument is the code. */
#define GOP_CL_MAKE(object, name, ...)                                                         \
    ((object) = gop_cl_fault("opencl." #name) ? (gop_cl_code = CL_OUT_OF_RESOURCES, NULL)      \
                                              : gop_cl.name(__VA_ARGS__, &gop_cl_code),        \
     (object) ? GOP_OK : gop_cl_check(gop_cl_code, #name))

/* The last arguments of a function that is asked: where it puts its answer. */
#define GOP_CL_ANSWER(variable) sizeof(variable), &(variable), NULL

extern _Thread_local cl_int gop_cl_code; /* the last one of GOP_CL_MAKE */
int gop_cl_fault(const char *name);
/* The backend's profile(): the names of the functions called since it was started. */
const char *gop_cl_trace(int start);
gop_status gop_cl_check(cl_int code, const char *function) GOP_MUST_CHECK;
/* Adds the code to what gop_fail() has just been told. */
gop_status gop_cl_with_code(gop_status status, cl_int code);
const char *gop_cl_error_name(cl_int code);
/* A buffer was not made: most codes for that mean that there is no memory. */
gop_status gop_cl_no_buffer(const gop_ctx *ctx, cl_int code, size_t bytes);

/* Fails in a child of fork() whose parent had used OpenCL. */
gop_status gop_cl_usable(void) GOP_MUST_CHECK;

/* ---- devices ---- */

typedef struct gop_cl_device {
    cl_device id;
    cl_context context; /* made when the device is first used */
    char driver[64];    /* its version */
    int shares_memory;  /* with the host: its arrays are taken where they lie */
    int facts;          /* GOP_CL_CPU, .. */
    int keeps_subnormals;
    int keeps_programs; /* its driver has a cache of its own, and makes bytes by compiling */
    gop_device_info info;
} gop_cl_device;

gop_status gop_cl_count(int *devices);
gop_status gop_cl_info(int ordinal, gop_device_info *info);
/* The device of this number, with its context. */
gop_status gop_cl_use_device(int ordinal, gop_cl_device **device) GOP_MUST_CHECK;

/* ---- contexts ---- */

enum { GOP_CL_DEVICES = 64, GOP_CL_KERNELS = 64, GOP_CL_CLASSES = 12, GOP_CL_KEPT = 8 };

/* A kernel belongs to one thread, which sets its arguments. */
typedef struct gop_cl_kernel {
    const struct gop_cl_built *program;
    const char *name;
    cl_kernel kernel;
} gop_cl_kernel;

struct gop_cl_ctx {
    gop_ctx base;
    gop_cl_device *device;
    cl_queue queue;
    int takes_times;
    cl_event marks[GOP_EVENTS]; /* of a device with a clock of its own */
    unsigned kernels;           /* made in all: the oldest ones are gone */
    gop_cl_kernel kernel[GOP_CL_KERNELS];
    int is_busy;               /* whether the queue may have something left to do */
    char *staging;             /* pieces of host arrays on their way */
    size_t staged;             /* bytes of it that the queue may still read */
    int keeps[GOP_CL_CLASSES]; /* so many small buffers of a device with memory of its own */
    void *kept[GOP_CL_CLASSES][GOP_CL_KEPT];
    cl_mem swept; /* what flush() writes */
};

static inline gop_cl_ctx *gop_cl_of(const gop_ctx *ctx)
{
    return (gop_cl_ctx *)(uintptr_t)ctx;
}

/* Waits for the queue, unless it has nothing to do. */
gop_status gop_cl_finish(gop_cl_ctx *ctx) GOP_MUST_CHECK;

/* ---- memory ---- */

gop_status gop_cl_alloc(gop_ctx *ctx, size_t bytes, void **memory);
void gop_cl_release(gop_ctx *ctx, void *memory);
gop_status gop_cl_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host);
gop_status gop_cl_download(gop_ctx *ctx, const gop_array *host, const gop_array *device);

/* A buffer of the host's memory, or of the device's own where that is NULL. */
gop_status gop_cl_make_buffer(gop_cl_ctx *ctx, void *memory, size_t bytes,
                              cl_mem *buffer) GOP_MUST_CHECK;

/* The buffer of an address of a device's own memory, and how far it lies in that. */
cl_mem gop_cl_buffer_of(const void *memory, size_t *offset);

/* A buffer for a user's kernel: bytes from an address on. To be released. */
gop_status gop_cl_buffer_from(gop_cl_ctx *ctx, void *address, size_t bytes,
                              cl_mem *buffer) GOP_MUST_CHECK;

/* Launches so many work-items, or the next whole groups. */
gop_status gop_cl_enqueue(gop_cl_ctx *ctx, cl_kernel kernel, int dimensions,
                          const size_t *items, const size_t *group) GOP_MUST_CHECK;

/* ---- programs ---- */

typedef struct gop_cl_source {
    const char *name, *text; /* "add/naive" */
} gop_cl_source;
extern const gop_cl_source gop_cl_sources[]; /* setup.py makes them of the .cl files */

/* The thread's kernel of a program, which is built, or read from the cache, on first use. */
gop_status gop_cl_kernel_get(gop_cl_ctx *ctx, const char *source, const char *options,
                             const char *name, cl_kernel *kernel) GOP_MUST_CHECK;

/* GOP_NOT_COMPILED, with the first error of its log, where the driver does not build it. */
gop_status gop_cl_build_source(const gop_cl_device *device, const char *text,
                               const char *options, cl_program *program) GOP_MUST_CHECK;

/* ---- programs of users: the backend's functions of compiled kernels ---- */

gop_status gop_cl_load_module(gop_ctx *ctx, const void *source, void **module);
gop_status gop_cl_launch_module(gop_ctx *ctx, void *module, const gop_kernel_launch *launch);
void gop_cl_unload_module(void *module);
const char *gop_cl_describe_module(void *module);

#endif
