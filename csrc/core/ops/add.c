/*
 * add.c - what add, multiply_add and fma accept and return, and the geometry of their kernels.
 */
#include <stdio.h>
#include <string.h>

#include "core/arrays/axes.h"
#include "core/core.h"

/* "(3, 4) (4,) (2, 1)": the operands' shapes for a message. */
static const char *shapes_text(char text[800], const gop_call *call)
{
    int length = 0;
    text[0] = '\0';
    for (int k = 0; k < call->nin; k++) {
        char one[256];
        length += snprintf(text + length, 800 - (size_t)length, "%s%s", k ? " " : "",
                           gop_shape_text(one, call->in[k].ndim, call->in[k].shape));
        if (length >= 800) break;
    }
    return text;
}

/* The shape that the inputs broadcast to, aligned at the last axis as in NumPy. */
static gop_status add_broadcast(const gop_call *call, const char *op, gop_array *out)
{
    out->ndim = 0;
    for (int k = 0; k < call->nin; k++)
        if (call->in[k].ndim > out->ndim) out->ndim = call->in[k].ndim;
    for (int axis = 0; axis < out->ndim; axis++) {
        int64_t extent = 1;
        for (int k = 0; k < call->nin; k++) {
            const int own = axis - (out->ndim - call->in[k].ndim);
            if (own < 0 || call->in[k].shape[own] == 1) continue;
            if (extent != 1 && call->in[k].shape[own] != extent) {
                char text[800];
                return gop_fail(GOP_BAD_ARGUMENT,
                                "%s: operands could not be broadcast together with shapes %s",
                                op, shapes_text(text, call));
            }
            extent = call->in[k].shape[own];
        }
        out->shape[axis] = extent;
    }
    return GOP_OK;
}

static gop_status add_infer(const gop_call *call, gop_array *out, const char *op, int nin)
{
    if (call->nin != nin)
        return gop_fail(GOP_BAD_ARGUMENT, "%s: takes %d arrays, got %d", op, nin, call->nin);
    for (int k = 1; k < nin; k++)
        if (call->in[k].dtype != call->in[0].dtype)
            return gop_fail(GOP_BAD_TYPE, "%s: expected operands of one dtype, got %s and %s",
                            op, gop_dtype_name(call->in[0].dtype),
                            gop_dtype_name(call->in[k].dtype));
    out->dtype = call->in[0].dtype;
    return add_broadcast(call, op, out);
}

static gop_status infer_add(const gop_call *call, gop_array *out)
{
    return add_infer(call, out, "add", 2);
}

static gop_status infer_multiply_add(const gop_call *call, gop_array *out)
{
    return add_infer(call, out, "multiply_add", 3);
}

static gop_status infer_fma(const gop_call *call, gop_array *out)
{
    if (call->nin > 0 && gop_dtype_kind(call->in[0].dtype) != 'f')
        return gop_fail(GOP_BAD_TYPE,
                        "fma: expected float16, bfloat16, float32 or float64, got %s",
                        gop_dtype_name(call->in[0].dtype));
    return add_infer(call, out, "fma", 3);
}

/* Whether axis p belongs outside axis q: the output decides, then the inputs in turn. */
static int is_outside(const gop_elementwise *e, int p, int q)
{
    for (int o = 0; o < e->operands; o++) {
        const uint64_t sp = gop_magnitude(e->stride[o][p]), sq = gop_magnitude(e->stride[o][q]);
        if (sp != sq) return sp > sq;
    }
    return 0;
}

static void swap_axes(gop_elementwise *e, int p, int q)
{
    const int64_t extent = e->extent[p];
    e->extent[p] = e->extent[q];
    e->extent[q] = extent;
    for (int o = 0; o < e->operands; o++) {
        const int64_t stride = e->stride[o][p];
        e->stride[o][p] = e->stride[o][q];
        e->stride[o][q] = stride;
    }
}

/* Axes in the output's memory order, so that Fortran-ordered arrays merge into one axis too.
 * There is always an axis: a single element is one of extent 1, with strides 1. */
static gop_status add_plan(gop_task *task)
{
    gop_elementwise *e = &task->geometry.elementwise;
    const gop_array *out = &task->out[0];
    const int item =
        __builtin_ctzll((uint64_t)gop_dtype_size(out->dtype)); /* as a power of 2 */
    e->operands = task->nin + 1;
    e->rank = out->ndim;
    e->size = gop_array_size(out);
    for (int axis = 0; axis < e->rank; axis++) {
        e->extent[axis] = out->shape[axis];
        e->stride[0][axis] = out->strides[axis] >> item;
        for (int k = 0; k < task->nin; k++) {
            const gop_array *in = &task->in[k];
            const int own = axis - (out->ndim - in->ndim);
            const int broadcasts = own < 0 || in->shape[own] == 1;
            e->stride[k + 1][axis] = broadcasts ? 0 : in->strides[own] >> item;
        }
    }
    for (int p = 1; p < e->rank; p++)
        for (int q = p; q > 0 && is_outside(e, q, q - 1); q--) swap_axes(e, q, q - 1);

    int64_t *strides[4] = {e->stride[0], e->stride[1], e->stride[2], e->stride[3]};
    e->rank = gop_merge_axes(e->rank, e->extent, e->operands, strides);
    if (e->rank == 0) {
        e->rank = 1;
        e->extent[0] = e->size;
        for (int o = 0; o < 4; o++) e->stride[o][0] = 1;
    }
    return GOP_OK;
}

static int add_axis_of(const gop_call *call, int i, int axis)
{
    const gop_array *in = &call->in[i];
    const int own = axis - (call->out[0].ndim - in->ndim);
    return own < 0 || in->shape[own] == 1 ? -1 : own;
}

static double flops_add(const gop_task *task)
{
    const int complex = gop_dtype_kind(task->out[0].dtype) == 'c';
    return (double)gop_array_size(&task->out[0]) * (complex ? 2 : 1);
}

static double flops_multiply_add(const gop_task *task)
{
    const int complex = gop_dtype_kind(task->out[0].dtype) == 'c';
    return (double)gop_array_size(&task->out[0]) * (complex ? 8 : 2);
}

const gop_descriptor gop_describe_add = {
    .name = "add",
    .stem = "add",
    .infer = infer_add,
    .plan = add_plan,
    .flops = flops_add,
    .in_place = 1,
    .once = 1,
    .outputs = 1,
    .axis_of = add_axis_of,
    .in_panels = 1,
};

const gop_descriptor gop_describe_multiply_add = {
    .name = "multiply_add",
    .stem = "add",
    .infer = infer_multiply_add,
    .plan = add_plan,
    .flops = flops_multiply_add,
    .in_place = 1,
    .once = 1,
    .outputs = 1,
    .axis_of = add_axis_of,
    .in_panels = 1,
};

const gop_descriptor gop_describe_fma = {
    .name = "fma",
    .stem = "add",
    .infer = infer_fma,
    .plan = add_plan,
    .flops = flops_multiply_add,
    .in_place = 1,
    .once = 1,
    .outputs = 1,
    .axis_of = add_axis_of,
    .in_panels = 1,
};
