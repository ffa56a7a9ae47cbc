/*
 * opencl.h - what the rows of OpenCL ladders start from: facts of a device, and a launch.
 *
 * A kernel is in a file `<kernel>.cl`, which is OpenCL C 1.2; its row is in `<kernel>.c` beside
 * it. Other shapes of one kernel are options of its build, not copies. An operand of a kernel
 * is two arguments: a buffer, and the number of items that its first element lies behind the
 * buffer's begin.
 */
#ifndef GOP_OPENCL_H
#define GOP_OPENCL_H

#include "core/choice.h"

extern const gop_host *gop_services;
#define gop_fail gop_services->fail

typedef struct gop_cl_ctx gop_cl_ctx;

/* ---- what a plan asks of the device ---- */

int gop_cl_is_cpu(const gop_ctx *ctx); /* it runs on the host's processors */
/* The same as a condition of choose files. */
int gop_cl_suits_cpu(const gop_ctx *ctx, const gop_task *task);
int gop_cl_has_double(const gop_ctx *ctx);
/* GOP_BAD_TYPE, for an operation, where the device has no float64, which this dtype takes. */
gop_status gop_cl_need_double(const gop_ctx *ctx, const char *op,
                              gop_dtype dtype) GOP_MUST_CHECK;
/* What a build needs so that quotients are rounded correctly (opencl/divide.cl); and whether
 * there is something that does. */
const char *gop_cl_quotients(const gop_ctx *ctx);
gop_status gop_cl_need_quotients(const gop_ctx *ctx, const char *op,
                                 gop_dtype dtype) GOP_MUST_CHECK;
int64_t gop_cl_most_in_group(const gop_ctx *ctx); /* work-items of a work-group */
const char *gop_cl_device_name(const gop_ctx *ctx);
/* Work-items of a work-group: so many, or what the device can. */
int gop_cl_group(const gop_ctx *ctx, int wanted);

static inline int64_t gop_cl_item(gop_dtype dtype)
{
    static const int sizes[GOP_NDTYPES] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    return sizes[dtype];
}

static inline int64_t gop_cl_ceil(int64_t n, int64_t d)
{
    return n / d + (n % d != 0);
}

/* ---- a launch ---- */

typedef struct gop_cl_operand {
    const gop_array *array;
    int is_written;
} gop_cl_operand;

/* A number or a struct; with NULL so many bytes of local memory. */
typedef struct gop_cl_value {
    size_t bytes;
    const void *at;
} gop_cl_value;

enum { GOP_CL_OPERANDS = 8, GOP_CL_VALUES = 8, GOP_CL_OPTIONS = 256 };

/* `count` items of a task's scratch memory, as an operand. */
static inline gop_array gop_cl_in_scratch(void *scratch, size_t at, gop_dtype dtype,
                                          int64_t count)
{
    gop_array part = {.data = (char *)scratch + at, .dtype = dtype, .ndim = 1};
    part.shape[0] = count;
    part.strides[0] = gop_cl_item(dtype);
    return part;
}

/* Arguments are the operands, each with its place, then the values. */
typedef struct gop_cl_launch {
    const char *source; /* "add/naive": opencl/add/naive.cl */
    const char *kernel;
    const char *options; /* what its build defines */
    int operands, values, dimensions;
    gop_cl_operand operand[GOP_CL_OPERANDS];
    int64_t shift[GOP_CL_OPERANDS]; /* items that an operand begins further on */
    gop_cl_value value[GOP_CL_VALUES];
    size_t global[3], local[3]; /* work-items; global is made a multiple of local */
} gop_cl_launch;

/* One operand more, and one value. */
static inline void gop_cl_give(gop_cl_launch *launch, const gop_array *array, int is_written)
{
    launch->operand[launch->operands++] = (gop_cl_operand){array, is_written};
}
static inline void gop_cl_say(gop_cl_launch *launch, size_t bytes, const void *at)
{
    launch->value[launch->values++] = (gop_cl_value){bytes, at};
}
#define GOP_CL_SAY(launch, variable) gop_cl_say(launch, sizeof(variable), &(variable))

gop_status gop_cl_run(gop_ctx *ctx, const gop_cl_launch *launch) GOP_MUST_CHECK;

/* ---- axes: the struct that opencl/axes.cl declares for kernels ---- */

enum { GOP_CL_AXES = 16 };

typedef struct gop_cl_axes {
    int64_t rank, size;
    int64_t extent[GOP_CL_AXES];
    int64_t stride[4][GOP_CL_AXES]; /* of each operand, in items */
} gop_cl_axes;

/* ---- ladders ---- */

/* A tunable of one-dimensional work-groups. */
#define GOP_CL_GROUP                                                                           \
    {                                                                                          \
        "group", 4,                                                                            \
        {                                                                                      \
            256, 64, 128, 512                                                                  \
        }                                                                                      \
    }

#define GOP_CL_ROW_DECLARED(op, name) extern const gop_row op##_##name##_row;
#define GOP_CL_ROW_LISTED(op, name) &op##_##name##_row,
/* op_choice is in choose.c. */
#define GOP_CL_LADDER(op, ROWS)                                                                \
    extern const gop_choice op##_choice;                                                       \
    ROWS(GOP_CL_ROW_DECLARED)                                                                  \
    static const gop_row *const op##_rows[] = {ROWS(GOP_CL_ROW_LISTED)};                       \
    extern const gop_ladder gop_opencl_##op;                                                   \
    const gop_ladder gop_opencl_##op = {sizeof op##_rows / sizeof *op##_rows, op##_rows,       \
                                        &op##_choice}

#endif
