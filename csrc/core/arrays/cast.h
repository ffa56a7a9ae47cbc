/*
 * cast.h - casts of elements that are stored in another dtype or byte order than their array's.
 */
#ifndef GOP_CAST_H
#define GOP_CAST_H

#include "core/core.h"

/* Whether there is a cast from one dtype to another: it may lose only precision, or the upper
 * bits of an integer. */
int gop_can_cast(gop_dtype from, gop_dtype to);
/* How a line of elements is cast, found once: n of them, `stride` bytes apart in memory. */
typedef struct gop_cast gop_cast;
struct gop_cast {
    /* In: strided elements become contiguous ones at `to`. Out: contiguous ones at `from`
     * become strided. */
    void (*run)(const gop_cast *cast, void *to, const void *from, int64_t stride, int64_t n);
    int64_t from, to; /* bytes of an element */
    int parts;        /* 2: from complex numbers, part by part */
    int words;        /* 2: to complex numbers */
    int swapped;
    int count; /* of the steps, each from neighbours to neighbours */
    void (*steps[3])(void *to, const void *from, int64_t n);
};
/* The cast from the stored form to the dtype, and back. */
gop_cast gop_cast_in(int stored, gop_dtype dtype);
gop_cast gop_cast_out(int stored, gop_dtype dtype);
/* The casts of one instruction-set level, and those of the level in use. */
typedef gop_cast (*gop_casts)(int stored, gop_dtype dtype, int is_out);
gop_casts gop_cpu_casts(void);
/* Copies n items of so many bytes without a cast. */
void gop_copy_row(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                  int64_t item, int64_t n);

#endif
