/*
 * boxes.h - boxes that span as many axes as it takes for a long run on both sides, where each
 * of them lies, and how large they are.
 */
#ifndef GOP_CUDA_TRANSPOSE_BOXES_H
#define GOP_CUDA_TRANSPOSE_BOXES_H

#include "cuda/transpose/index.h"

/* Boxes of one size along an axis. The last is moved back until it lies inside, so that some
 * items are written twice, with the same value, and none needs a check. */
struct boxed_axis {
    divisor count;
    int64_t step, last, in, out;
};

/* Where a box starts, of those that p.rank such axes tell. */
template <typename P, typename T>
GOP_DEVICE void go_to_box(const P &p, uint32_t box, const T *&in, T *&out)
{
    for (int k = 0; k < p.rank; k++) {
        const uint32_t outer = quotient(box, p.axis[k].count);
        const int64_t i =
            min_of((box - outer * p.axis[k].count.d) * p.axis[k].step, p.axis[k].last);
        in += i * p.axis[k].in;
        out += i * p.axis[k].out;
        box = outer;
    }
}

/* ---- plans ---- */

/* Cuts the axes into boxes, in the order in which blocks should step; false if too many. */
template <typename P>
static bool count_boxes(const gop_permutation &g, const int64_t *box, P *p)
{
    int order[GOP_MAX_NDIM];
    p->rank = 0;
    p->boxes = 1;
    transpose_order(g, order);
    for (int k = 0; k < g.rank; k++) {
        const int axis = order[k];
        const int64_t count = (g.extent[axis] + box[axis] - 1) / box[axis];
        if (count == 1) continue;
        if (p->rank == sizeof p->axis / sizeof *p->axis || count > INT32_MAX / p->boxes)
            return false;
        p->boxes *= count;
        p->axis[p->rank++] = {divisor_of(count), box[axis], g.extent[axis] - box[axis],
                              g.in[axis], g.out[axis]};
    }
    return true;
}

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
