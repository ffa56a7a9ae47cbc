/*
 * halves.h - host code: a call of more elements than 32 bits count, cut in two.
 */
#ifndef GOP_CUDA_COMMON_HALVES_H
#define GOP_CUDA_COMMON_HALVES_H

/* Cuts the longest axis of `whole` in two halves; returns the axis. The second half begins
 * where the first one's extent ends. */
template <typename geometry>
static inline int halves_of(const geometry &whole, geometry *first, geometry *second)
{
    int axis = 0;
    for (int d = 1; d < whole.rank; d++)
        if (whole.extent[d] > whole.extent[axis]) axis = d;
    *first = *second = whole;
    first->extent[axis] /= 2;
    second->extent[axis] -= first->extent[axis];
    first->size = whole.size / whole.extent[axis] * first->extent[axis];
    second->size = whole.size - first->size;
    return axis;
}

#endif
