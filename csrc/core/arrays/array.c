/*
 * array.c - shapes and layouts: sizes, dense copies' strides, overlap, merging of axes.
 */
#include <stdio.h>
#include <string.h>

#include "core/arrays/axes.h"
#include "core/core.h"

/* Four axes at a time, which compilers copy without a call. */
void gop_array_assign(gop_array *to, const gop_array *from)
{
    enum { SOME = 4 };
    _Static_assert(GOP_MAX_NDIM % SOME == 0, "no axis beyond the last");
    memcpy(to, from, offsetof(gop_array, shape));
    for (int d = 0; d < from->ndim; d += SOME) {
        memcpy(to->shape + d, from->shape + d, SOME * sizeof *from->shape);
        memcpy(to->strides + d, from->strides + d, SOME * sizeof *from->strides);
    }
}

int64_t gop_array_size(const gop_array *array)
{
    int64_t size = 1;
    for (int d = 0; d < array->ndim; d++) size *= array->shape[d];
    return size;
}

int64_t gop_array_item(const gop_array *array)
{
    const int stored = array->stored & ~GOP_SWAPPED;
    return gop_dtype_size(stored ? (gop_dtype)(stored - 1) : array->dtype);
}

int64_t gop_array_bytes(const gop_array *array)
{
    return gop_array_size(array) * gop_dtype_size(array->dtype);
}

const char *gop_shape_text(char text[256], int ndim, const int64_t *shape)
{
    int used = snprintf(text, 256, "(");
    for (int d = 0; d < ndim && used < 220; d++)
        used += snprintf(text + used, (size_t)(256 - used), d ? ", %lld" : "%lld",
                         (long long)shape[d]);
    snprintf(text + used, (size_t)(256 - used), ndim == 1 ? ",)" : ")");
    return text;
}

gop_status gop_shape_size(const char *op, int ndim, const int64_t *shape, int64_t *size)
{
    int64_t product = 1;
    int empty = 0, overflow = 0;
    /* Extents of 0 are left out: as in NumPy the others' product has to be a number even where
     * there are no elements, but then no bytes are counted. */
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == 0) empty = 1;
        else overflow |= __builtin_mul_overflow(product, shape[d], &product);
    }
    overflow |= !empty && product > INT64_MAX / 16; /* bytes, of the widest item */
    if (overflow) {
        char text[256];
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: an array of shape %s has too many elements, "
                        "expected fewer than 2^59",
                        op, gop_shape_text(text, ndim, shape));
    }
    *size = empty ? 0 : product;
    return GOP_OK;
}

void gop_array_c_order(gop_array *array)
{
    uint64_t stride = (uint64_t)gop_dtype_size(array->dtype); /* may wrap if it is empty */
    for (int d = array->ndim - 1; d >= 0; d--) {
        array->strides[d] = (int64_t)stride;
        stride *= array->shape[d] > 0 ? (uint64_t)array->shape[d] : 1;
    }
}

/* Axes from the largest stride to the smallest; equal strides keep their order. */
static void axes_by_stride(const gop_array *array, int order[GOP_MAX_NDIM])
{
    for (int d = 0; d < array->ndim; d++) {
        int at = d;
        while (at > 0 && gop_magnitude(array->strides[order[at - 1]]) <
                             gop_magnitude(array->strides[d])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = d;
    }
}

size_t gop_array_dense(const gop_array *array, gop_array *dense)
{
    int order[GOP_MAX_NDIM];
    uint64_t stride = (uint64_t)gop_dtype_size(array->dtype); /* may wrap if it is empty */
    int empty = 0;
    gop_array_assign(dense, array);
    dense->stored = 0;
    axes_by_stride(array, order);
    for (int at = array->ndim - 1; at >= 0; at--) {
        const int d = order[at];
        if (array->shape[d] == 0) empty = 1;
        if (array->strides[d] == 0 || array->shape[d] <= 1) {
            dense->strides[d] = 0;
            continue;
        }
        dense->strides[d] = (int64_t)stride;
        stride *= (uint64_t)array->shape[d];
    }
    return empty ? 0 : (size_t)stride;
}

double gop_array_sectors(const gop_array *array, int64_t sector)
{
    const int64_t item = gop_array_item(array);
    int order[GOP_MAX_NDIM];
    int64_t span = item; /* of the inner axes, none of whose gaps leaves a sector out */
    double blocks = 1;   /* such spans, each with sectors of its own */
    int64_t apart = 0;   /* bytes from one to the next */
    if (gop_array_size(array) == 0) return 0;
    axes_by_stride(array, order);
    for (int at = array->ndim - 1; at >= 0; at--) {
        const int64_t extent = array->shape[order[at]];
        const int64_t stride = (int64_t)gop_magnitude(array->strides[order[at]]);
        if (extent == 1 || stride == 0) continue;
        if (!apart && stride - span < sector) {
            span += (extent - 1) * stride;
            continue;
        }
        if (!apart) apart = stride;
        blocks *= (double)extent;
    }
    const int64_t whole = (span + sector - 1) / sector * sector;
    return blocks * (double)(apart % sector ? span + sector - item : whole);
}

int gop_array_is_item_aligned(const gop_array *array)
{
    uint64_t bits = (uintptr_t)array->data; /* an item's size is a power of two */
    for (int d = 0; d < array->ndim; d++)
        if (array->shape[d] > 1) bits |= (uint64_t)array->strides[d];
    return (bits & (uint64_t)(gop_array_item(array) - 1)) == 0;
}

/* The bytes an array can touch: [low, high). */
static void bounds(const gop_array *array, uint64_t *low, uint64_t *high)
{
    *low = *high = (uintptr_t)array->data;
    if (gop_array_size(array) == 0) return;
    for (int d = 0; d < array->ndim; d++) {
        const uint64_t span =
            (uint64_t)(array->shape[d] - 1) * gop_magnitude(array->strides[d]);
        if (array->strides[d] < 0) *low -= span;
        else *high += span;
    }
    *high += (uint64_t)gop_array_item(array);
}

/* Addresses alone decide: they are unique over the host and all devices, and one memory can be
 * known as two backends' (the host's). */
int gop_array_may_overlap(const gop_array *a, const gop_array *b)
{
    uint64_t a_low, a_high, b_low, b_high;
    bounds(a, &a_low, &a_high);
    bounds(b, &b_low, &b_high);
    return a_low < b_high && b_low < a_high;
}

int gop_array_same_layout(const gop_array *a, const gop_array *b)
{
    if (a->data != b->data || a->ndim != b->ndim || a->dtype != b->dtype) return 0;
    if (a->stored != b->stored) return 0;
    for (int d = 0; d < a->ndim; d++) {
        if (a->shape[d] != b->shape[d]) return 0;
        if (a->shape[d] > 1 && a->strides[d] != b->strides[d]) return 0;
    }
    return 1;
}

int gop_array_self_overlaps(const gop_array *array)
{
    int order[GOP_MAX_NDIM];
    uint64_t reach = (uint64_t)gop_array_item(array); /* bytes the inner axes cover */
    if (gop_array_size(array) == 0) return 0;
    axes_by_stride(array, order);
    for (int at = array->ndim - 1; at >= 0; at--) {
        const int d = order[at];
        if (array->shape[d] == 1) continue;
        if (gop_magnitude(array->strides[d]) < reach) return 1;
        reach += (uint64_t)(array->shape[d] - 1) * gop_magnitude(array->strides[d]);
    }
    return 0;
}

gop_status gop_axes_normalize(const char *op, const gop_axes *axes, int ndim, int *out)
{
    uint64_t seen = 0;
    for (int i = 0; i < axes->count; i++) {
        const int64_t axis = axes->axis[i];
        if (axis < -ndim || axis >= ndim) {
            gop_fail(GOP_BAD_AXIS, "%s: axis %lld is out of bounds for array of dimension %d",
                     op, (long long)axis, ndim);
            gop_error_slot()->axis = (int)axis;
            gop_error_slot()->ndim = ndim;
            return GOP_BAD_AXIS;
        }
        out[i] = (int)(axis < 0 ? axis + ndim : axis);
        if (seen >> out[i] & 1)
            return gop_fail(GOP_BAD_ARGUMENT, "%s: axis %lld is given twice", op,
                            (long long)axis);
        seen |= (uint64_t)1 << out[i];
    }
    return GOP_OK;
}

int gop_merge_axes(int ndim, int64_t *extent, int operands, int64_t *const strides[])
{
    int rank = 0;
    for (int d = 0; d < ndim; d++) {
        if (extent[d] == 1) continue;
        int merge = rank > 0;
        for (int o = 0; o < operands && merge; o++)
            merge =
                (uint64_t)strides[o][rank - 1] == (uint64_t)strides[o][d] * (uint64_t)extent[d];
        /* A merged axis keeps the inner stride and the product of the extents. */
        const int at = merge ? rank - 1 : rank++;
        extent[at] = merge ? extent[at] * extent[d] : extent[d];
        for (int o = 0; o < operands; o++) strides[o][at] = strides[o][d];
    }
    return rank;
}
