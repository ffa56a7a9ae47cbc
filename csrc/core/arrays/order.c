/*
 * order.c - NumPy's order "K": results of elementwise operations keep the layout of their
 * inputs.
 */
#include "core/arrays/order.h"

#include <string.h>

#include "core/arrays/axes.h"

/* 1 if axis `outer` should stay outside axis `inner`, -1 if they should change places, 0 if no
 * input decides. Inputs with extents and strides on both axes decide: one whose larger stride
 * is outside is enough for 1; else it is -1. */
static int order_of(const gop_call *call, int ndim, int outer, int inner)
{
    int say = 0;
    for (int i = 0; i < call->nin; i++) {
        const gop_array *in = &call->in[i];
        const int shift = ndim - in->ndim; /* broadcasting aligns the last axes */
        if (outer < shift || inner < shift) continue;
        const uint64_t out_stride = gop_magnitude(in->strides[outer - shift]);
        const uint64_t in_stride = gop_magnitude(in->strides[inner - shift]);
        if (out_stride == 0 || in_stride == 0 || in->shape[outer - shift] == 1 ||
            in->shape[inner - shift] == 1)
            continue;
        if (out_stride >= in_stride) return 1;
        say = -1;
    }
    return say;
}

/* An insertion sort from the innermost axis out. Where inputs disagree, the result depends on
 * this order of comparisons, which is NumPy's. */
static void keep_order(const gop_call *call, gop_array *array)
{
    int axes[GOP_MAX_NDIM];
    for (int i = 0; i < array->ndim; i++) {
        const int d = array->ndim - 1 - i;
        int at = i;
        for (int inside = i - 1; inside >= 0; inside--) {
            const int say = order_of(call, array->ndim, d, axes[inside]);
            if (say > 0) break;
            if (say < 0) at = inside;
        }
        memmove(axes + at + 1, axes + at, (size_t)(i - at) * sizeof *axes);
        axes[at] = d;
    }
    uint64_t stride = (uint64_t)gop_dtype_size(array->dtype); /* may wrap if it is empty */
    for (int i = 0; i < array->ndim; i++) {
        array->strides[axes[i]] = (int64_t)stride;
        stride *= array->shape[axes[i]] > 0 ? (uint64_t)array->shape[axes[i]] : 1;
    }
}

void gop_lay_out(const gop_call *call, gop_array *out)
{
    if (gop_descriptor_of(call->op)->in_place && out->ndim > 1) keep_order(call, out);
    else gop_array_c_order(out);
}

int gop_is_c_order(const gop_array *array)
{
    uint64_t stride = (uint64_t)gop_dtype_size(array->dtype);
    for (int d = array->ndim - 1; d >= 0; d--) {
        if (array->strides[d] != (int64_t)stride) return 0;
        stride *= array->shape[d] > 0 ? (uint64_t)array->shape[d] : 1;
    }
    return 1;
}

void gop_as_stored(const gop_array *array, gop_array *stored)
{
    int64_t reach[GOP_MAX_NDIM]; /* strides, the largest first */
    gop_array_assign(stored, array);
    for (int d = 0; d < array->ndim; d++) {
        int at = d;
        for (; at > 0 && reach[at - 1] < array->strides[d]; at--) {
            reach[at] = reach[at - 1];
            stored->shape[at] = stored->shape[at - 1];
        }
        reach[at] = array->strides[d];
        stored->shape[at] = array->shape[d];
    }
    gop_array_c_order(stored);
}
