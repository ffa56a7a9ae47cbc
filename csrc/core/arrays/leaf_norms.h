/*
 * leaf_norms.h - 2-norms of columns, from the sums of squares of their leaves of tree/v1. The
 * CPU or a device computes these sums.
 *
 * The squares of float32 are exact in float64, where no sum of them overflows. Those of float64
 * may underflow or overflow: if their sum is so small or so large that any could have, it is
 * computed again from items scaled by a power of two.
 */
#ifndef GOP_LEAF_NORMS_H
#define GOP_LEAF_NORMS_H

#include <math.h>

#include "core/core.h"

/* The sums of the leaves of all columns. Those of a column are contiguous in leaf[]. */
typedef struct gop_leaf_sums {
    int64_t leaves, columns; /* leaves of a column */
    int is_double;           /* squares may underflow or overflow */
    double *leaf;
    /* Fills leaf[] for columns [first, first + columns): the sums of squares of parts times
     * `scale`, or the largest of the parts' sizes. */
    gop_status (*sum)(const struct gop_leaf_sums *of, int64_t first, int64_t columns,
                      double scale, int is_largest);
} gop_leaf_sums;

/* The leaves of a column fold into the first one. The padding is -0.0, which changes nothing.
 */
static inline double gop_fold_leaves(double *leaf, int64_t leaves, int is_largest)
{
    for (int64_t w = 1; w < leaves; w *= 2)
        for (int64_t i = 0; i + w < leaves; i += 2 * w)
            leaf[i] = !is_largest             ? leaf[i] + leaf[i + w]
                      : leaf[i + w] > leaf[i] ? leaf[i + w]
                                              : leaf[i];
    return leaf[0];
}

/* The norm of one column whose squares may have been lost. */
static inline gop_status gop_scaled_norm(const gop_leaf_sums *s, int64_t c, double *norm)
{
    int e;
    GOP_TRY(s->sum(s, c, 1, 1.0, 1));
    const double largest = *norm = gop_fold_leaves(s->leaf, s->leaves, 1);
    if (largest == 0.0 || isinf(largest)) return GOP_OK;
    frexp(largest, &e); /* largest < 2^e; 2^-e and 2^e must be normal numbers */
    e = e < -1021 ? -1022 : e > 1023 ? 1022 : e - 1;
    GOP_TRY(s->sum(s, c, 1, ldexp(1.0, -e), 0));
    *norm = sqrt(gop_fold_leaves(s->leaf, s->leaves, 0)) * ldexp(1.0, e);
    return GOP_OK;
}

/* Computes the norms of all columns. */
static inline gop_status gop_norms_of_leaves(const gop_leaf_sums *s, double *norms)
{
    for (int64_t c = 0; c < s->columns; c++) norms[c] = 0.0;
    if (s->leaves == 0 || s->columns == 0) return GOP_OK;
    GOP_TRY(s->sum(s, 0, s->columns, 1.0, 0));
    for (int64_t c = 0; c < s->columns; c++)
        norms[c] = gop_fold_leaves(s->leaf + c * s->leaves, s->leaves, 0);
    for (int64_t c = 0; c < s->columns; c++) {
        /* Between these bounds nothing overflowed, and what underflow lost does not count. */
        if (s->is_double && (norms[c] < 0x1p-900 || norms[c] > 0x1p1000))
            GOP_TRY(gop_scaled_norm(s, c, &norms[c]));
        else norms[c] = sqrt(norms[c]);
    }
    return GOP_OK;
}

#endif
