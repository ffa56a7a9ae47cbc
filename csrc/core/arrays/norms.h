/*
 * norms.h - 2-norms of columns in float64, neither underflowing nor overflowing.
 */
#ifndef GOP_NORMS_H
#define GOP_NORMS_H

#include "core/core.h"

/* n by k items on the host, float32, float64 or complex; strides in items. */
typedef struct gop_columns {
    const void *data;
    gop_dtype dtype;
    int64_t n, k, row, col;
} gop_columns;

/* float64 numbers that gop_column_norms works on. */
static inline int64_t gop_norms_work(int64_t n, int64_t k)
{
    return (n / 2048 + 1) * k;
}

/* norms[c] of column c, on all threads, as docs/numerics.md states it. */
gop_status gop_column_norms(const gop_columns *v, double *work, double *norms) GOP_MUST_CHECK;

#endif
