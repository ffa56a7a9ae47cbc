/*
 * transpose.c - what transpose accepts and returns, and the geometry of its kernels.
 */
#include "core/arrays/axes.h"
#include "core/core.h"

/* axis[k] is the input's axis that becomes axis k of the output. */
static gop_status transpose_resolve_axes(const gop_call *call, int axis[GOP_MAX_NDIM])
{
    const gop_axes *axes = &call->params.transpose.axes;
    const int ndim = call->in[0].ndim;
    if (axes->given) {
        if (axes->count != ndim)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "transpose: axes don't match array: expected %d of them for an "
                            "array of %d dimensions, got %d",
                            ndim, ndim, axes->count);
        return gop_axes_normalize("transpose", axes, ndim, axis);
    }
    for (int k = 0; k < ndim; k++) axis[k] = ndim - 1 - k;
    return GOP_OK;
}

static gop_status transpose_infer(const gop_call *call, gop_array *out)
{
    if (call->nin != 1)
        return gop_fail(GOP_BAD_ARGUMENT, "transpose: takes one array, got %d", call->nin);
    int axis[GOP_MAX_NDIM];
    GOP_TRY(transpose_resolve_axes(call, axis));
    const gop_array *in = &call->in[0];
    out->dtype = in->dtype;
    out->ndim = in->ndim;
    for (int k = 0; k < in->ndim; k++) out->shape[k] = in->shape[axis[k]];
    return GOP_OK;
}

/* Axes in the output's memory order: the last one is written fastest. There is always an axis:
 * a single element is one of extent 1, with strides 1. */
static gop_status transpose_plan(gop_task *task)
{
    gop_permutation *p = &task->geometry.permutation;
    const gop_array *in = &task->in[0], *out = &task->out[0];
    const int64_t item = gop_dtype_size(in->dtype);
    int axis[GOP_MAX_NDIM];
    GOP_TRY(transpose_resolve_axes(task->call, axis));
    p->rank = out->ndim;
    p->size = gop_array_size(out);
    for (int k = 0; k < p->rank; k++) {
        p->extent[k] = out->shape[k];
        p->in[k] = in->strides[axis[k]] / item;
        p->out[k] = out->strides[k] / item;
    }
    for (int j = 1; j < p->rank; j++)
        for (int k = j; k > 0 && gop_magnitude(p->out[k]) > gop_magnitude(p->out[k - 1]); k--) {
            gop_swap(p->extent, k, k - 1);
            gop_swap(p->in, k, k - 1);
            gop_swap(p->out, k, k - 1);
        }

    int64_t *strides[2] = {p->in, p->out};
    p->rank = gop_merge_axes(p->rank, p->extent, 2, strides);
    if (p->rank == 0) {
        p->rank = 1;
        p->extent[0] = p->size;
        p->in[0] = p->out[0] = 1;
    }
    return GOP_OK;
}

static int transpose_axis_of(const gop_call *call, int i, int k)
{
    int axis[GOP_MAX_NDIM];
    (void)i;
    return transpose_resolve_axes(call, axis) == GOP_OK ? axis[k] : -1;
}

static double transpose_flops(const gop_task *task)
{
    (void)task;
    return 0.0;
}

const gop_descriptor gop_describe_transpose = {
    .name = "transpose",
    .stem = "transpose",
    .infer = transpose_infer,
    .plan = transpose_plan,
    .flops = transpose_flops,
    .once = 1,
    .outputs = 1,
    .axis_of = transpose_axis_of,
    .in_panels = 1,
};
