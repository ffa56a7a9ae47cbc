/*
 * plan.c - the plans of add, multiply_add and fma, and their launch.
 */
#include "opencl/add/plan.h"

#include <stdio.h>

static const char *name_of(const gop_task *task)
{
    static const char *const names[] = {
#define GOP_OP(name, stem) #name,
#include "ops.def"
#undef GOP_OP
    };
    return names[task->call->op];
}

/* A dtype's numbers for kernels; signed integers come as unsigned ones, which wrap. */
static const struct {
    const char *base, *kind;
    int parts;
} kinds[GOP_NDTYPES] = {
    [GOP_BOOL] = {"uchar", "BOOLEAN", 1},        [GOP_INT8] = {"uchar", "INTEGER", 1},
    [GOP_INT16] = {"ushort", "INTEGER", 1},      [GOP_INT32] = {"uint", "INTEGER", 1},
    [GOP_INT64] = {"ulong", "INTEGER", 1},       [GOP_UINT8] = {"uchar", "INTEGER", 1},
    [GOP_UINT16] = {"ushort", "INTEGER", 1},     [GOP_UINT32] = {"uint", "INTEGER", 1},
    [GOP_UINT64] = {"ulong", "INTEGER", 1},      [GOP_FLOAT16] = {"ushort", "HALF", 1},
    [GOP_BFLOAT16] = {"ushort", "BFLOAT", 1},    [GOP_FLOAT32] = {"float", "FLOAT", 1},
    [GOP_FLOAT64] = {"double", "FLOAT", 1},      [GOP_COMPLEX64] = {"float", "COMPLEX", 2},
    [GOP_COMPLEX128] = {"double", "COMPLEX", 2},
};

static int is_half(gop_dtype dtype)
{
    return dtype == GOP_FLOAT16 || dtype == GOP_BFLOAT16;
}

/* An fma of halves is rounded by way of float64. */
static int needs_double(const gop_task *task)
{
    const gop_dtype dtype = task->in[0].dtype;
    return dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128 ||
           (task->call->op == GOP_OP_fma && is_half(dtype));
}

/* The plan of every row. */
typedef struct planned {
    const gop_cl_names *names;
    char options[GOP_CL_OPTIONS];
    gop_cl_axes axes;
    int64_t each;        /* elements of a work-item */
    int group, has_axes; /* work-items of a group; whether the kernel is told the axes */
} planned;

/* Of two inputs the second stands for the third as well. */
static gop_cl_walk walk_of(const gop_elementwise *e)
{
    return (gop_cl_walk){
        e->rank,
        4,
        e->extent,
        {e->stride[0], e->stride[1], e->stride[2], e->stride[e->operands == 4 ? 3 : 2]}};
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const planned *const own = GOP_OWN(const planned, task->plan);
    const gop_cl_walk walk = walk_of(&task->geometry.elementwise);
    const gop_cl_axes *const axes = &own->axes;
    gop_cl_launch l = {
        .source = own->names->source,
        .kernel = own->names->kernel,
        .options = own->options,
        .dimensions = 1,
        .global = {(size_t)gop_cl_ceil(axes->size, own->each)},
        .local = {(size_t)own->group},
    };
    (void)step;
    gop_cl_give(&l, &task->out[0], 1);
    for (int i = 0; i < 3; i++)
        gop_cl_give(&l, &task->in[i < task->nin ? i : task->nin - 1], 0);
    if (own->has_axes) GOP_CL_SAY(&l, *axes);
    else GOP_CL_SAY(&l, axes->size);
    if (own->has_axes && own->each > 1) GOP_CL_SAY(&l, own->each);
    return gop_cl_run_axes(ctx, &walk, &l);
}

/* What plans have in common, for vectors of so many numbers, and what a build defines besides.
 */
static gop_status begin(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                        int64_t items, const char *more, gop_plan *plan)
{
    planned *const own = GOP_OWN(planned, plan);
    const gop_dtype dtype = task->in[0].dtype;
    if (needs_double(task)) GOP_TRY(gop_cl_need_double(ctx, name_of(task), dtype));
    snprintf(own->options, GOP_CL_OPTIONS, "-DBASE=%s -DLANES=%d -D%s -DOP_%s -DINDEX=%s%s%s",
             kinds[dtype].base, (int)items * kinds[dtype].parts, kinds[dtype].kind,
             name_of(task),
             task->geometry.elementwise.size < INT64_C(1) << 31 ? "uint" : "ulong",
             needs_double(task) ? " -DDOUBLE" : "", more);
    const gop_cl_walk walk = walk_of(&task->geometry.elementwise);
    gop_cl_set_axes(&walk, &own->axes);
    own->names = names;
    own->each = own->group = own->has_axes = 1;
    plan->launch = launch;
    return GOP_OK;
}

gop_status gop_cl_add_by_items(const gop_ctx *ctx, const gop_task *task,
                               const gop_cl_names *names, gop_plan *plan)
{
    GOP_TRY(begin(ctx, task, names, 1, "", plan));
    GOP_OWN(planned, plan)->group = gop_cl_group(ctx, (int)task->tune[0]);
    return GOP_OK;
}

gop_status gop_cl_add_by_chunks(const gop_ctx *ctx, const gop_task *task,
                                const gop_cl_names *names, gop_plan *plan)
{
    enum { VECTOR = 64 }; /* bytes, of at most 16 numbers; chunks are a multiple of as many */
    const int64_t item = gop_cl_item(task->in[0].dtype);
    planned *const own = GOP_OWN(planned, plan);
    GOP_TRY(begin(ctx, task, names, item < 4 ? 16 : VECTOR / item, "", plan));
    own->each = gop_cl_ceil(gop_cl_chunk(ctx, own->axes.size, 1), VECTOR) * VECTOR;
    return GOP_OK;
}

gop_status gop_cl_add_by_vectors(const gop_ctx *ctx, const gop_task *task,
                                 const gop_cl_names *names, gop_plan *plan)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    const int64_t item = gop_cl_item(task->in[0].dtype);
    const int64_t most = 16 / kinds[task->in[0].dtype].parts; /* of 16 lanes */
    int64_t items = task->tune[0] / item;
    if (items < 1) items = 1;
    if (items > most) items = most;
    int is_plain = e->rank == 1;
    uintptr_t bits = (uintptr_t)task->out[0].data; /* whether vectors may be read there */
    for (int o = 0; o < e->operands; o++) is_plain &= e->stride[o][0] == 1;
    for (int i = 0; i < task->nin; i++) bits |= (uintptr_t)task->in[i].data;
    if (!is_plain)
        return gop_fail(GOP_REFUSED,
                        "%s: kernel '%s' takes arrays that lie in memory alike without gaps, "
                        "expected no broadcast and no strides",
                        name_of(task), names->row);
    GOP_TRY(begin(ctx, task, names, items,
                  bits % (uintptr_t)(items * item) == 0 ? " -DALIGNED" : "", plan));
    planned *const own = GOP_OWN(planned, plan);
    own->each = items;
    own->group = gop_cl_group(ctx, (int)task->tune[1]);
    own->has_axes = 0;
    return GOP_OK;
}
