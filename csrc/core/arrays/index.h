/*
 * index.h - from an element's number to its index and its offset, over axes outermost first.
 */
#ifndef GOP_INDEX_H
#define GOP_INDEX_H

#include <stdint.h>

/* The index of element i, in C order of the axes. */
static inline void gop_unravel(int64_t i, int rank, const int64_t *extent, int64_t *index)
{
    for (int axis = rank - 1; axis > 0; axis--) {
        index[axis] = i % extent[axis];
        i /= extent[axis];
    }
    if (rank > 0) index[0] = i;
}

static inline int64_t gop_offset(int rank, const int64_t *index, const int64_t *stride)
{
    int64_t offset = 0;
    for (int axis = 0; axis < rank; axis++) offset += index[axis] * stride[axis];
    return offset;
}

#endif
