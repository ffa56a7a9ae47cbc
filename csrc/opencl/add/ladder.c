/*
 * ladder.c - add, multiply_add and fma on OpenCL: plans and launch, rows, candidates.
 *
 * Floor: every input read once, the output written once.
 */
#include "opencl/opencl.h"

/* The plan of every row. */
typedef struct planned {
    gop_cl_build build;
    struct axes axes;
    int64_t each;        /* elements of a work-item */
    int group, has_axes; /* work-items of a group; whether the kernel is told the axes */
} planned;

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const planned *const own = GOP_OWN(const planned, task->plan);
    (void)step;
    return GOP_CL_RUN(ctx, .build = &own->build, .items = gop_ceil(own->axes.size, own->each),
                      .group = own->group,
                      .operand = {GOP_CL_OF(&task->out[0]), GOP_CL_OF(&task->in[0]),
                                  GOP_CL_OF(&task->in[1]), GOP_CL_OF(&task->in[task->nin - 1])},
                      .value = {GOP_CL_VALUE_IF(own->has_axes, own->axes),
                                GOP_CL_VALUE_IF(!own->has_axes, own->axes.size),
                                GOP_CL_VALUE_IF(own->has_axes && own->each > 1, own->each)});
}

/* What plans have in common, for vectors of so many numbers. */
static gop_status begin(const gop_ctx *ctx, const gop_task *task, int64_t items, gop_plan *plan)
{
    planned *const own = GOP_OWN(planned, plan);
    const char *const op = own->build.names->op;
    const gop_dtype dtype = task->in[0].dtype;
    const gop_elementwise *const e = &task->geometry.elementwise;
    const int is_half = dtype == GOP_FLOAT16 || dtype == GOP_BFLOAT16;
    /* An fma of halves is rounded by way of float64. */
    const int doubles = is_half && task->call->op == GOP_OP_fma ? GOP_CL_DOUBLE : 0;
    /* Of two inputs the second stands for the third as well. */
    const int64_t *const stride[] = {e->stride[0], e->stride[1], e->stride[2],
                                     e->stride[e->operands - 1]};
    GOP_TRY(gop_cl_set_axes(&own->build, "", e->rank, e->extent, 4, stride, &own->axes));
    GOP_TRY(gop_cl_begin(ctx, op, dtype, GOP_CL_WRAP | doubles, &own->build));
    gop_cl_define(&own->build, " -DLANES=%d -DOP_%s -DINDEX=%s",
                  (int)items * gop_cl_kinds[dtype].parts, op, gop_cl_index(e->size));
    own->each = own->group = own->has_axes = 1;
    plan->launch = launch;
    return GOP_OK;
}

/* Tunable "group". */
static gop_status by_items(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(begin(ctx, task, 1, plan));
    GOP_OWN(planned, plan)->group = gop_cl_group(ctx, task->tune[0]);
    return GOP_OK;
}

static gop_status by_chunks(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { VECTOR = 64 }; /* bytes, of at most 16 numbers: chunks are a multiple of as many */
    const int64_t item = gop_cl_item(task->in[0].dtype);
    planned *const own = GOP_OWN(planned, plan);
    int is_new = 1; /* else the result's lines are in caches already */
    for (int i = 0; i < task->nin; i++) is_new &= task->in[i].data != task->out[0].data;
    GOP_TRY(begin(ctx, task, item < 4 ? 16 : VECTOR / item, plan));
    if (is_new) gop_cl_define(&own->build, "%s", gop_cl_streamed(ctx, own->axes.size * item));
    own->each = gop_ceil(gop_cl_chunk(ctx, own->axes.size, 1), VECTOR) * VECTOR;
    return GOP_OK;
}

/* Tunables "bytes" and "group". */
static gop_status by_vectors(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    const int64_t item = gop_cl_item(task->in[0].dtype);
    const int64_t most = 16 / gop_cl_kinds[task->in[0].dtype].parts; /* of 16 lanes */
    const int64_t items = gop_smaller(gop_larger(task->tune[0] / item, 1), most);
    planned *const own = GOP_OWN(planned, plan);
    int is_plain = e->rank == 1 && e->stride[0][0] == 1, numbers = 0;
    uintptr_t bits = (uintptr_t)task->out[0].data; /* whether vectors may be read there */
    for (int i = 0; is_plain && i < 3; i++) {
        const int o = i < task->nin ? i : task->nin - 1;
        const int64_t stride = e->stride[1 + o][0];
        if (stride == 0) numbers |= 1 << i;
        else bits |= (uintptr_t)task->in[o].data;
        is_plain = stride == 0 || stride == 1;
    }
    if (!is_plain)
        return gop_cl_refuse(&own->build,
                             "takes arrays without gaps that lie in memory alike, and numbers; "
                             "this call has gaps, another order or another broadcast");
    GOP_TRY(begin(ctx, task, items, plan));
    gop_cl_define(&own->build, " -DNUMBERS=%d -DALIGNED=%d", numbers,
                  bits % (uintptr_t)(items * item) == 0);
    own->each = items;
    own->group = gop_cl_group(ctx, task->tune[1]);
    own->has_axes = 0;
    return GOP_OK;
}

#define DTYPES_add GOP_EVERY_DTYPE
#define DTYPES_multiply_add GOP_EVERY_DTYPE
#define DTYPES_fma (1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16 | GOP_CL_REALS)

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, by_items, \
        .note = "one element a work-item, any strides: neighbours are written together", \
        .lecture = "opencl", .tunables = {GOP_CL_GROUP}, .dtypes = DTYPES_##op) \
    ROW(op, stem, vectorized, by_vectors, \
        .note = "a vector of 16 bytes a work-item, as float4: one access of memory where " \
                "scalars make several; of 64 bytes, as float16, on a CPU", \
        .lecture = "opencl", .tunables = {{"bytes", 4, {16, 64, 32, 8}}, GOP_CL_GROUP}, \
        .dtypes = DTYPES_##op) \
    ROW(op, stem, chunked, by_chunks, \
        .note = "a contiguous chunk a work-item, vector by vector: a CPU runs work-items one " \
                "after the other, and reads each chunk in order", \
        .dtypes = DTYPES_##op)
#define CANDIDATES(op) \
    {.row = &op##_chunked_row, .suits = gop_cl_suits_cpu, .when = "CPU devices", \
     .why = "64 MiB float32: 0.67 to 0.92 of the cpu backend's speed in three runs, naive 0.03: " \
            "PoCL 3.1 on two cores of an AMD EPYC, 2026-11-28"}, \
    {.row = &op##_vectorized_row, \
     .why = "one axis on GPUs: 1 GiB float32 1.01 of the cuda backend's speed: NVIDIA's " \
            "OpenCL on an H200, 2026-11-29"}, \
    {.row = &op##_naive_row, \
     .why = "takes all that is left: operands that broadcast or are strided"},

GOP_CL_LADDER(add, add, ROWS, CANDIDATES);
GOP_CL_LADDER(multiply_add, add, ROWS, CANDIDATES);
GOP_CL_LADDER(fma, add, ROWS, CANDIDATES);
