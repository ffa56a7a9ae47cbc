/*
 * leaf.h - one leaf of a row: its 128 lanes are an array, and the loop over them is vectorized.
 */
#ifdef D

/* Computes a leaf of m <= 2048 terms. If m < 128, the upper lanes are -0.0 and adding them
 * changes nothing, so the fold starts at the lanes in use. */
static ALWAYS_INLINE T FN(leaf)(const T *restrict a, const T *restrict x, int64_t m)
{
    T lane[LANES];
    int width = LANES;
    if (m <= LANES / 2)
        for (width = 1; width < m;) width *= 2;
    for (int l = 0; l < width; l++) lane[l] = NEGATIVE_ZERO;
    for (; m >= LANES; m -= LANES, a += LANES, x += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = FN(multiply_add)(a[l], x[l], lane[l]);
    for (int l = 0; l < m; l++) lane[l] = FN(multiply_add)(a[l], x[l], lane[l]);
    if (width == LANES) return TREE(fold_lanes)(lane);
    for (int d = width / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] = FN(plus)(lane[l], lane[l + d]);
    return lane[0];
}

#elif !defined(GOP_CPU_JACOBI_STEP_LEAF_H)
#define GOP_CPU_JACOBI_STEP_LEAF_H

#include "cpu/jacobi_step/system.h"

#define GOP_TPL "cpu/jacobi_step/leaf.h"
#include "cpu/jacobi_step/each_inexact.inc"

#endif
