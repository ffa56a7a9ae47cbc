/*
 * operands.c - what the rows of add, multiply_add and fma share: options of a build, operands.
 */
#include "opencl/add/operands.h"

#include <stdio.h>
#include <string.h>

const char *gop_cl_add_name(const gop_task *task)
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

gop_status gop_cl_add_can(const gop_ctx *ctx, const gop_task *task)
{
    if (!needs_double(task)) return GOP_OK;
    return gop_cl_need_double(ctx, gop_cl_add_name(task), task->in[0].dtype);
}

void gop_cl_add_options(const gop_task *task, int items, const char *more,
                        char options[GOP_CL_OPTIONS])
{
    const gop_dtype dtype = task->in[0].dtype;
    snprintf(options, GOP_CL_OPTIONS, "-DBASE=%s -DLANES=%d -D%s -DOP_%s -DINDEX=%s%s%s",
             kinds[dtype].base, items * kinds[dtype].parts, kinds[dtype].kind,
             gop_cl_add_name(task),
             task->geometry.elementwise.size < INT64_C(1) << 31 ? "uint" : "ulong",
             needs_double(task) ? " -DDOUBLE" : "", more);
}

void gop_cl_add_operands(const gop_task *task, gop_cl_launch *launch)
{
    launch->operands = 4;
    launch->operand[0] = (gop_cl_operand){&task->out[0], 1};
    for (int i = 0; i < 3; i++)
        launch->operand[i + 1] =
            (gop_cl_operand){&task->in[i < task->nin ? i : task->nin - 1], 0};
}

void gop_cl_add_axes(const gop_elementwise *e, gop_cl_axes *axes)
{
    const int skipped = e->rank > GOP_CL_AXES ? e->rank - GOP_CL_AXES : 0;
    axes->rank = e->rank - skipped;
    axes->size = 1;
    for (int axis = 0; axis < axes->rank; axis++) {
        axes->extent[axis] = e->extent[skipped + axis];
        axes->size *= axes->extent[axis];
        for (int o = 0; o < 4; o++)
            axes->stride[o][axis] = e->stride[o < e->operands ? o : 2][skipped + axis];
    }
}

gop_status gop_cl_add_launch(gop_ctx *ctx, const gop_task *task, gop_cl_launch *launch,
                             gop_cl_axes *axes)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    const int skipped = e->rank - (int)axes->rank;
    const int64_t times = e->size / axes->size;
    for (int64_t t = 0; t < times; t++) {
        int64_t rest = t;
        memset(launch->shift, 0, sizeof launch->shift);
        for (int axis = skipped - 1; axis >= 0; axis--) {
            const int64_t x = rest % e->extent[axis];
            rest /= e->extent[axis];
            for (int o = 0; o < 4; o++)
                launch->shift[o] += x * e->stride[o < e->operands ? o : 2][axis];
        }
        GOP_TRY(gop_cl_run(ctx, launch));
    }
    return GOP_OK;
}
