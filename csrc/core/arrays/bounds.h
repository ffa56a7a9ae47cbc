/*
 * bounds.h - the bytes that an array can touch.
 */
#ifndef GOP_BOUNDS_H
#define GOP_BOUNDS_H

#include "core/arrays/axes.h"
#include "gpuops.h"

/* Those are [*low, *high), for an array with elements of `item` bytes. */
static inline void gop_array_bounds(const gop_array *array, int64_t item, uintptr_t *low,
                                    uintptr_t *high)
{
    *low = *high = (uintptr_t)array->data;
    for (int d = 0; d < array->ndim; d++) {
        const uint64_t span =
            (uint64_t)(array->shape[d] - 1) * gop_magnitude(array->strides[d]);
        if (array->strides[d] < 0) *low -= span;
        else *high += span;
    }
    *high += (uint64_t)item;
}

#endif
