/*
 * boxes.h - boxes that span as many axes as it takes for a long run on both sides.
 */
#ifndef GOP_CUDA_TRANSPOSE_BOXES_H
#define GOP_CUDA_TRANSPOSE_BOXES_H

#include "cuda/transpose/index.h"

/* The axes, nearest neighbours first. Returns how many have several items. */
static inline int nearest_first(const gop_permutation &g, const int64_t *stride, int *axes)
{
    int count = 0;
    for (int axis = g.rank - 1; axis >= 0; axis--) {
        if (g.extent[axis] == 1) continue;
        int k = count++;
        for (; k > 0 && gop_magnitude(stride[axes[k - 1]]) > gop_magnitude(stride[axis]); k--)
            axes[k] = axes[k - 1];
        axes[k] = axis;
    }
    return count;
}

/* The items up to the first axis that the box cuts; that axis, or -1. */
static inline int64_t length_of(const gop_permutation &g, const int *axes, int count,
                                const int64_t *box, int *cut)
{
    int64_t length = 1;
    *cut = -1;
    for (int k = 0; k < count && *cut < 0; k++) {
        length *= box[axes[k]];
        if (box[axes[k]] < g.extent[axes[k]]) *cut = axes[k];
    }
    return length;
}

/* Doubles the extent of the axis where the shorter run ends, as long as there is room. */
static inline void grow_box(const gop_permutation &g, int count, const int *const axes[2],
                            int64_t room, int64_t *box)
{
    for (bool grew = true; grew;) {
        int cut[2];
        const int64_t in = length_of(g, axes[0], count, box, &cut[0]);
        const int64_t out = length_of(g, axes[1], count, box, &cut[1]);
        grew = false;
        for (int k = 0; k < 2 && !grew; k++) {
            const int axis = cut[(in > out) ^ k];
            if (axis < 0) continue;
            const int64_t now = box[axis];
            int64_t items = 1;
            box[axis] = min_of(2 * now, g.extent[axis]);
            for (int i = 0; i < g.rank; i++) items *= box[i];
            grew = items <= room;
            if (!grew) box[axis] = now;
        }
    }
}

#endif
