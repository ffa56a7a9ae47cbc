/*
 * pack.c - copying between an array of any strides and its dense layout (gop_array_dense).
 *
 * The order of elements is that of the dense layout, so an array that is dense already, in any
 * axis order, is copied as one run of bytes. Elements that are stored in another dtype are
 * cast.
 */
#include <string.h>

#include "core/arrays/cast.h"
#include "core/arrays/index.h"
#include "core/core.h"

typedef struct walk {
    int rank;
    int64_t item; /* bytes, of the dense layout */
    int stored;
    gop_cast cast;
    int64_t extent[GOP_MAX_NDIM], stride[GOP_MAX_NDIM];
} walk;

/* The axes in dense order, outermost first, broadcast axes dropped and neighbours merged. */
static void walk_dense(const gop_array *array, walk *w)
{
    gop_array dense;
    int64_t dense_stride[GOP_MAX_NDIM];
    int rank = 0;
    gop_array_dense(array, &dense);
    for (int d = 0; d < array->ndim; d++) {
        if (array->shape[d] <= 1 || array->strides[d] == 0) continue;
        int at = rank++;
        while (at > 0 && dense_stride[at - 1] < dense.strides[d]) {
            dense_stride[at] = dense_stride[at - 1];
            w->extent[at] = w->extent[at - 1];
            w->stride[at] = w->stride[at - 1];
            at--;
        }
        dense_stride[at] = dense.strides[d];
        w->extent[at] = array->shape[d];
        w->stride[at] = array->strides[d];
    }
    int64_t *strides[] = {w->stride};
    w->rank = gop_merge_axes(rank, w->extent, 1, strides);
    w->item = gop_dtype_size(array->dtype);
}

/* The axes as they are: the C order of the logical array, broadcast axes repeated. */
static void walk_c_order(const gop_array *array, walk *w)
{
    memcpy(w->extent, array->shape, (size_t)array->ndim * sizeof *w->extent);
    memcpy(w->stride, array->strides, (size_t)array->ndim * sizeof *w->stride);
    int64_t *strides[] = {w->stride};
    w->rank = gop_merge_axes(array->ndim, w->extent, 1, strides);
    w->item = gop_dtype_size(array->dtype);
}

void gop_copy_row(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                  int64_t item, int64_t count)
{
    if (to_stride == item && from_stride == item) {
        memcpy(to, from, (size_t)(count * item));
        return;
    }
#define COPY_ITEMS(bytes)                                                                      \
    for (int64_t i = 0; i < count; i++, to += to_stride, from += from_stride)                  \
        memcpy(to, from, bytes);                                                               \
    return
    switch (item) {
    case 1:
        COPY_ITEMS(1);
    case 2:
        COPY_ITEMS(2);
    case 4:
        COPY_ITEMS(4);
    case 8:
        COPY_ITEMS(8);
    default:
        COPY_ITEMS(16);
    }
#undef COPY_ITEMS
}

/* Copies `count` items between a strided row and a dense one. */
static void copy_row(const walk *w, char *at, int64_t stride, char *dense, int64_t count,
                     int packing)
{
    if (w->stored && packing) w->cast.run(&w->cast, dense, at, stride, count);
    else if (w->stored) w->cast.run(&w->cast, at, dense, stride, count);
    else if (packing) gop_copy_row(dense, w->item, at, stride, w->item, count);
    else gop_copy_row(at, stride, dense, w->item, w->item, count);
}

static void copy_items(walk *w, const gop_array *array, int64_t first, int64_t count,
                       char *dense, int packing)
{
    char *at = array->data;
    w->stored = array->stored;
    if (w->stored && packing) w->cast = gop_cast_in(w->stored, array->dtype);
    else if (w->stored) w->cast = gop_cast_out(w->stored, array->dtype);
    if (w->rank == 0) {
        w->rank = 1;
        w->extent[0] = 1;
        w->stride[0] = w->item;
    }
    if (count == 0) return;
    int64_t index[GOP_MAX_NDIM];
    gop_unravel(first, w->rank, w->extent, index);
    at += gop_offset(w->rank, index, w->stride);
    const int inner = w->rank - 1;
    while (count > 0) {
        const int64_t left = w->extent[inner] - index[inner];
        const int64_t run = left < count ? left : count;
        copy_row(w, at, w->stride[inner], dense, run, packing);
        dense += run * w->item;
        count -= run;
        at -= index[inner] * w->stride[inner];
        index[inner] = 0;
        for (int d = inner - 1; d >= 0; d--) {
            at += w->stride[d];
            if (++index[d] < w->extent[d]) break;
            at -= w->extent[d] * w->stride[d];
            index[d] = 0;
        }
    }
}

void gop_pack(const gop_array *from, int64_t first, int64_t count, void *to)
{
    walk w;
    walk_dense(from, &w);
    copy_items(&w, from, first, count, to, 1);
}

void gop_unpack(const gop_array *to, int64_t first, int64_t count, const void *from)
{
    walk w;
    walk_dense(to, &w);
    copy_items(&w, to, first, count, (char *)(uintptr_t)from, 0);
}

/* ---- on all threads ---- */

typedef struct moving {
    const gop_array *array;
    int64_t first;
    char *dense;
    int packing;
} moving;

static void move_piece(void *argument, int64_t begin, int64_t end, int worker)
{
    const moving *const m = argument;
    char *const dense = m->dense + begin * gop_dtype_size(m->array->dtype);
    (void)worker;
    if (m->packing) gop_pack(m->array, m->first + begin, end - begin, dense);
    else gop_unpack(m->array, m->first + begin, end - begin, dense);
}

gop_status gop_move(const gop_array *array, int64_t first, int64_t count, void *dense,
                    int packing)
{
    moving m = {array, first, dense, packing};
    return gop_parallel(count, 1 << 16, move_piece, &m);
}

int64_t gop_array_elements(const gop_array *array)
{
    gop_array dense;
    return (int64_t)gop_array_dense(array, &dense) / gop_dtype_size(array->dtype);
}

void gop_pack_c_order(const gop_array *from, int64_t first, int64_t count, void *to)
{
    walk w;
    walk_c_order(from, &w);
    copy_items(&w, from, first, count, to, 1);
}
