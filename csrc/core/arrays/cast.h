/*
 * cast.h - elements that memory has in another dtype or byte order than their array.
 */
#ifndef GOP_CAST_H
#define GOP_CAST_H

#include "core/core.h"

/* Whether elements of one dtype are cast here to another: nothing but precision is lost, or the
 * upper bits of an integer. */
int gop_can_cast(gop_dtype from, gop_dtype to);
/* How a line of elements is cast, found once: n of them, `stride` bytes apart in memory. */
typedef struct gop_cast gop_cast;
struct gop_cast {
    /* in: they become neighbours at `to`. out: neighbours at `from` become them. */
    void (*run)(const gop_cast *cast, void *to, const void *from, int64_t stride, int64_t n);
    int64_t from, to; /* bytes of an element */
    int parts;        /* 2: from complex numbers, part by part */
    int words;        /* 2: to complex numbers */
    int swapped;
    int count; /* of the steps, each from neighbours to neighbours */
    void (*steps[3])(void *to, const void *from, int64_t n);
};
/* From what is stored so to the dtype, and the other way. */
gop_cast gop_cast_in(int stored, gop_dtype dtype);
gop_cast gop_cast_out(int stored, gop_dtype dtype);
/* The same by the kernels of one instruction-set level; and those of the level in use. */
typedef gop_cast (*gop_casts)(int stored, gop_dtype dtype, int is_out);
gop_casts gop_cpu_casts(void);
/* n items of so many bytes, as they are. */
void gop_copy_row(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                  int64_t item, int64_t n);

#endif
