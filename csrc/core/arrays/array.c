/*
 * array.c - dtypes and which one several have in common; shapes and layouts of arrays: sizes,
 * overlap, merging of axes; and the layouts of results, of which elementwise ones keep their
 * inputs' order, NumPy's order "K".
 */
#include <stdio.h>
#include <string.h>

#include "core/arrays/array.h"
#include "core/arrays/bounds.h"

/* ---- dtypes ---- */

int64_t gop_dtype_size(gop_dtype dtype)
{
    static const int8_t sizes[] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    return sizes[dtype];
}

const char *gop_dtype_name(gop_dtype dtype)
{
    static const char *const names[] = {
#define X(enumerator, word, bytes) #word,
        GOP_DTYPES(X)
#undef X
    };
    return names[dtype];
}

char gop_dtype_kind(gop_dtype dtype)
{
    if (dtype == GOP_BOOL) return 'b';
    if (dtype <= GOP_INT64) return 'i';
    if (dtype <= GOP_UINT64) return 'u';
    return dtype <= GOP_FLOAT64 ? 'f' : 'c';
}

/* ---- promotion ---- */

/* Booleans, integers, floats, complex numbers. */
static int rank_of(gop_dtype dtype)
{
    const char kind = gop_dtype_kind(dtype);
    return kind == 'b' ? 0 : kind == 'c' ? 3 : kind == 'f' ? 2 : 1;
}

static gop_dtype larger(gop_dtype a, gop_dtype b)
{
    return gop_dtype_size(a) >= gop_dtype_size(b) ? a : b;
}

static gop_dtype common_of_integers(gop_dtype a, gop_dtype b)
{
    const int a_signed = gop_dtype_kind(a) == 'i';
    if (a_signed == (gop_dtype_kind(b) == 'i')) return larger(a, b);
    const gop_dtype with = a_signed ? a : b, without = a_signed ? b : a;
    const int64_t bytes = gop_dtype_size(without);
    if (gop_dtype_size(with) > bytes) return with;
    return bytes == 1   ? GOP_INT16
           : bytes == 2 ? GOP_INT32
           : bytes == 4 ? GOP_INT64
                        : GOP_FLOAT64;
}

/* The least float that holds every integer of a dtype, or float64. */
static gop_dtype float_for(gop_dtype integer)
{
    const int64_t bytes = gop_dtype_size(integer);
    return bytes == 1 ? GOP_FLOAT16 : bytes == 2 ? GOP_FLOAT32 : GOP_FLOAT64;
}

/* bfloat16 holds no other float, and of the integers those of a byte. */
static gop_dtype common_with_float(gop_dtype a, gop_dtype b)
{
    if (a == GOP_BFLOAT16 && rank_of(b) == 1 && gop_dtype_size(b) == 1) return a;
    if (a == GOP_BFLOAT16) a = GOP_FLOAT32;
    if (b == GOP_BFLOAT16) b = GOP_FLOAT32;
    return larger(a, rank_of(b) == 2 ? b : float_for(b));
}

static gop_dtype common_with_complex(gop_dtype a, gop_dtype b)
{
    const gop_dtype part = a == GOP_COMPLEX64 ? GOP_FLOAT32 : GOP_FLOAT64;
    if (rank_of(b) == 3) return larger(a, b);
    return common_with_float(part, b) == GOP_FLOAT32 ? GOP_COMPLEX64 : GOP_COMPLEX128;
}

static gop_dtype promote(gop_dtype a, gop_dtype b)
{
    if (rank_of(a) < rank_of(b)) return promote(b, a);
    if (a == b || rank_of(b) == 0) return a;
    return rank_of(a) == 3   ? common_with_complex(a, b)
           : rank_of(a) == 2 ? common_with_float(a, b)
                             : common_of_integers(a, b);
}

gop_dtype gop_promote_all(const gop_dtype *dtypes, int count)
{
    int found = 0;
    gop_dtype common = GOP_BOOL;
    for (int rank = 3; rank >= 0; rank--)
        for (int i = 0; i < count; i++)
            if (rank_of(dtypes[i]) == rank)
                common = found++ ? promote(common, dtypes[i]) : dtypes[i];
    return common;
}

gop_dtype gop_promote_weak(gop_dtype dtype, char kind)
{
    const int rank = rank_of(dtype);
    if (kind == 'i') return rank == 0 ? GOP_INT64 : dtype;
    if (kind == 'f') return rank < 2 ? GOP_FLOAT64 : dtype;
    return rank == 3                          ? dtype
           : rank < 2 || dtype == GOP_FLOAT64 ? GOP_COMPLEX128
                                              : GOP_COMPLEX64;
}

/* ---- shapes and layouts ---- */

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

double gop_array_least_bytes(const gop_array *array)
{
    gop_array dense;
    return (double)gop_array_dense(array, &dense) / gop_dtype_size(array->dtype) *
           (double)gop_array_item(array);
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

/* Addresses alone decide: they are unique over the host and all devices, and one memory can be
 * known as two backends' (the host's). */
int gop_array_may_overlap(const gop_array *a, const gop_array *b)
{
    uintptr_t a_low, a_high, b_low, b_high;
    if (gop_array_size(a) == 0 || gop_array_size(b) == 0) return 0;
    gop_array_bounds(a, gop_array_item(a), &a_low, &a_high);
    gop_array_bounds(b, gop_array_item(b), &b_low, &b_high);
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

/* ---- layouts of results ---- */

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
