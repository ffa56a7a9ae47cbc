/*
 * opencl.h - what the rows of OpenCL ladders start from: facts of a device, and a launch.
 *
 * A kernel is a file `<kernel>.cl`, which is OpenCL C 1.2, and an entry of `ladder.c` beside
 * it, its row. Other shapes of one kernel are options of its build, not copies.
 */
#ifndef GOP_OPENCL_H
#define GOP_OPENCL_H

#include "core/arrays/axes.h"
#include "core/choice.h"
#include "core/counts.h"
#include "opencl/told.h"

extern const gop_host *gop_services;
#define gop_fail gop_services->fail

typedef struct gop_cl_ctx gop_cl_ctx;

/* ---- what a plan asks of the device ---- */

/* Facts of a device: it runs on the host's processors; has float64; rounds quotients of float32
 * correctly; and its compiler takes cl_nv_compiler_options: -cl-nv-maxrregcount=128 says that
 * two work-groups of 256 shall fit a compute unit, whose registers it would else give to one.
 */
enum { GOP_CL_CPU = 1, GOP_CL_DOUBLE = 2, GOP_CL_QUOTIENTS = 4, GOP_CL_REGISTERS = 8 };
int gop_cl_has(const gop_ctx *ctx, int fact);
/* That it is a CPU, as a condition of choose files. */
int gop_cl_suits_cpu(const gop_ctx *ctx, const gop_task *task);

/* ---- numbers: what kernels are told of a dtype (opencl/vector.cl) ---- */

typedef struct gop_cl_kind {
    const char *name, *base;    /* the dtype's, and a number's type; */
    const char *wrapping, *sum; /* of signed integers the one that wraps; of sums in matmul */
    const char *word;           /* BOOLEAN, SIGNED, .. */
    int parts, bytes;           /* numbers of an element, and bytes of one */
} gop_cl_kind;
extern const gop_cl_kind gop_cl_kinds[GOP_NDTYPES];

static inline int64_t gop_cl_item(gop_dtype dtype)
{
    return (int64_t)gop_cl_kinds[dtype].parts * gop_cl_kinds[dtype].bytes;
}
/* What float64 needs. */
static inline int gop_cl_doubles(gop_dtype dtype)
{
    return dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128 ? GOP_CL_DOUBLE : 0;
}

/* Work-items of a work-group: so many, or what the device can. */
static inline int gop_cl_group(const gop_ctx *ctx, int64_t wanted)
{
    return (int)gop_smaller(wanted, ctx->info.max_threads_per_block);
}

/* The type of numbers below `size` (opencl/axes.cl). */
static inline const char *gop_cl_index(int64_t size)
{
    return size < INT64_C(1) << 31 ? "uint" : "ulong";
}

/* Of `all` pieces those of a work-item of a CPU: so many work-items to a processor that one
 * which comes late takes fewer, each with `elements` to a piece enough to be worth one. */
enum { GOP_CL_CHUNKS = 16 };
static inline int64_t gop_cl_chunk(const gop_ctx *ctx, int64_t all, int64_t elements)
{
    enum { LEAST = 1 << 14 };
    const int64_t each = gop_ceil(all, (int64_t)ctx->info.processors * GOP_CL_CHUNKS);
    return gop_larger(each, gop_ceil(LEAST, gop_larger(elements, 1)));
}

/* What a build for a CPU defines if a result of so many bytes is to be stored past the caches.
 * A virtual machine may report the caches of the whole host: what is MOST long is past any. */
static inline const char *gop_cl_streamed(const gop_ctx *ctx, int64_t bytes)
{
    enum { MOST = 1 << 24 };
    return bytes > gop_smaller(ctx->info.l2 / 2, MOST) ? " -DSTREAMED" : "";
}

/* LANES of a block of items that a CPU transposes in registers (opencl/block.cl). */
static inline int gop_cl_block(gop_dtype dtype)
{
    return gop_cl_item(dtype) == 8 ? 4 : gop_cl_item(dtype) == 1 ? 16 : 8;
}

/* ---- a launch ---- */

typedef struct gop_cl_names {
    const char *op, *row, *source, *kernel; /* source "add/naive": opencl/add/naive.cl */
} gop_cl_names;

enum { GOP_CL_OPERANDS = 8, GOP_CL_VALUES = 8, GOP_CL_OPTIONS = 256 };

/* A kernel, and what its build defines: the head of a row's own part of a plan. */
typedef struct gop_cl_build {
    const gop_cl_names *names;
    char options[GOP_CL_OPTIONS];
} gop_cl_build;

/* Adds to a text, as printf; to the options of a build. */
void gop_cl_append(char *text, size_t room, const char *format, ...) GOP_PRINTF(3, 4);
#define gop_cl_define(build, ...)                                                              \
    gop_cl_append((build)->options, sizeof(build)->options, __VA_ARGS__)

/* Defines what an element is, and what its arithmetic needs besides: GOP_CL_DOUBLE;
 * GOP_CL_QUOTIENTS that are rounded correctly, by the device or by float64 (opencl/vector.cl);
 * integers that WRAP. GOP_BAD_TYPE, for an operation, where the device has it not. */
enum { GOP_CL_WRAP = 16 };
gop_status gop_cl_begin(const gop_ctx *ctx, const char *op, gop_dtype dtype, int needs,
                        gop_cl_build *build) GOP_MUST_CHECK;

typedef struct gop_cl_operand {
    const gop_array *array;
    int64_t shift; /* items that it begins further on */
} gop_cl_operand;
#define GOP_CL_OF(array) GOP_CL_AT(array, 0)
#define GOP_CL_AT(array, shift) ((gop_cl_operand){array, shift})

/* A number or a struct; with NULL so many bytes of local memory. Of no bytes: left out. */
typedef struct gop_cl_value {
    size_t bytes;
    const void *at;
} gop_cl_value;
#define GOP_CL_BYTES(bytes, at) ((gop_cl_value){bytes, at})
#define GOP_CL_VALUE(variable) GOP_CL_BYTES(sizeof(variable), &(variable))
#define GOP_CL_VALUE_IF(condition, variable)                                                   \
    GOP_CL_BYTES((condition) ? sizeof(variable) : 0, &(variable))
/* A struct that ends with axes: of so many operands. */
#define GOP_CL_VALUE_OF_AXES(operands, variable)                                               \
    GOP_CL_BYTES(sizeof(variable) - (OPERANDS_TOLD - operands) * sizeof(long[MOST_AXES]),      \
                 &(variable))

/* So many numbers in a dtype's precision; `narrow` is for those of float32. */
static inline gop_cl_value gop_cl_numbers(gop_dtype dtype, int count, const double *number,
                                          float *narrow)
{
    for (int i = 0; i < count; i++) narrow[i] = (float)number[i];
    if (gop_cl_doubles(dtype)) return GOP_CL_BYTES((size_t)count * sizeof *number, number);
    return GOP_CL_BYTES((size_t)count * sizeof *narrow, narrow);
}

/* Arguments are the operands, up to the first without an array, each as a buffer and the number
 * of items that it begins behind the buffer's; then the values. */
typedef struct gop_cl_launch {
    const gop_cl_build *build;
    int64_t items, group; /* work-items, the last of whole groups of so many */
    int rows;             /* more than 0: groups have so many of those */
    const char *kernel;   /* another one of the same program */
    gop_cl_operand operand[GOP_CL_OPERANDS];
    gop_cl_value value[GOP_CL_VALUES];
} gop_cl_launch;

gop_status gop_cl_run(gop_ctx *ctx, const gop_cl_launch *launch) GOP_MUST_CHECK;
#define GOP_CL_RUN(ctx, ...) gop_cl_run(ctx, &(gop_cl_launch){__VA_ARGS__})

/* `count` items of a task's scratch memory, as an operand. */
static inline gop_array gop_cl_in_scratch(void *scratch, size_t at, gop_dtype dtype,
                                          int64_t count)
{
    gop_array part = {.data = (char *)scratch + at, .dtype = dtype, .ndim = 1};
    part.shape[0] = count;
    part.strides[0] = gop_cl_item(dtype);
    return part;
}

/* GOP_REFUSED with "<op>: kernel '<row>' " before the sentence. */
#define gop_cl_refuse(build, sentence, ...)                                                    \
    gop_fail(GOP_REFUSED, "%s: kernel '%s' " sentence, (build)->names->op,                     \
             (build)->names->row, ##__VA_ARGS__)
/* Refuses work-groups, or local memory, larger than the device has. */
gop_status gop_cl_need_group(const gop_ctx *ctx, const gop_cl_build *build, int64_t items,
                             int64_t local) GOP_MUST_CHECK;

/* Refuses GPUs: many thousand work-items at once, each with long arrays of its own. */
gop_status gop_cl_need_cpu(const gop_ctx *ctx, const gop_cl_build *build) GOP_MUST_CHECK;

/* Axes from core's, the outermost first. Fails where there are more than a kernel is told of;
 * kind is "", or what they are: "batch ". */
gop_status gop_cl_set_axes(const gop_cl_build *build, const char *kind, int rank,
                           const int64_t *extent, int operands, const int64_t *const stride[],
                           struct axes *axes) GOP_MUST_CHECK;

/* ---- ladders ---- */

#define GOP_CL_REALS (1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)
#define GOP_CL_COMPLEXES (1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128)
/* clang-format off */
#define GOP_CL_GROUP {"group", 4, {256, 64, 128, 512}}
/* clang-format on */

/* A row, whose kernel <stem>_<kernel>_kernel is in <stem>/<kernel>.cl, is an entry of its
 * ladder's list: ROW(op, stem, kernel, plan, the rest by designated initialisers). The plan is
 * what gop_row says, and finds the names in the plan, whose own part begins with a build. */
#define GOP_CL_ROW_DEFINED(op, stem, kernel, plan_of, ...)                                     \
    static gop_status op##_##kernel##_plan(const gop_ctx *ctx, const gop_task *task,           \
                                           gop_plan *plan)                                     \
    {                                                                                          \
        static const gop_cl_names names = {#op, #kernel, #stem "/" #kernel,                    \
                                           #stem "_" #kernel "_kernel"};                       \
        *GOP_OWN(gop_cl_build, plan) = (gop_cl_build){&names, ""};                             \
        return plan_of(ctx, task, plan);                                                       \
    }                                                                                          \
    static const gop_row op##_##kernel##_row = {                                               \
        .name = #kernel, .plan = op##_##kernel##_plan, __VA_ARGS__};
#define GOP_CL_ROW_LISTED(op, stem, kernel, ...) &op##_##kernel##_row,
/* ROWS(ROW, op, stem) lists them; of CANDIDATES(op) the first that takes a call runs. */
#define GOP_CL_LADDER(op, stem, ROWS, CANDIDATES)                                              \
    ROWS(GOP_CL_ROW_DEFINED, op, stem)                                                         \
    static const gop_candidate op##_candidates[] = {CANDIDATES(op)};                           \
    static const gop_choice op##_choice = {sizeof op##_candidates / sizeof *op##_candidates,   \
                                           op##_candidates, NULL};                             \
    static const gop_row *const op##_rows[] = {ROWS(GOP_CL_ROW_LISTED, op, stem)};             \
    extern const gop_ladder gop_opencl_##op;                                                   \
    const gop_ladder gop_opencl_##op = {sizeof op##_rows / sizeof *op##_rows, op##_rows,       \
                                        &op##_choice}

#endif
