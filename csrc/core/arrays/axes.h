/*
 * axes.h - what putting axes into memory order takes.
 */
#ifndef GOP_AXES_H
#define GOP_AXES_H

#include <stdint.h>

/* How far apart neighbours lie; unsigned, so that the least stride has one too. */
static inline uint64_t gop_magnitude(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

static inline void gop_swap(int64_t *values, int p, int q)
{
    const int64_t value = values[p];
    values[p] = values[q];
    values[q] = value;
}

#endif
