/*
 * boxes.h - host code: a box of an array that has a long run in each of several orders of axes.
 */
#ifndef GOP_CUDA_COMMON_BOXES_H
#define GOP_CUDA_COMMON_BOXES_H

#include "cuda/device.h"

/* An order of axes: nearest neighbours first. */
struct near_axes {
    int count, axis[GOP_MAX_NDIM];
};

/* The order of axes of several items, or of those of them that are not repeated. */
static inline near_axes nearest_first(int rank, const int64_t *extent, const int64_t *stride,
                                      bool repeated)
{
    near_axes near;
    near.count = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        if (extent[axis] == 1 || (stride[axis] == 0 && !repeated)) continue;
        const uint64_t distance = gop_magnitude(stride[axis]);
        int k = near.count++;
        for (; k > 0 && gop_magnitude(stride[near.axis[k - 1]]) > distance; k--)
            near.axis[k] = near.axis[k - 1];
        near.axis[k] = axis;
    }
    return near;
}

/* The items of a box up to the first axis that it cuts; that axis, or -1. */
static inline int64_t run_of_box(const int64_t *extent, const near_axes &near,
                                 const int64_t *box, int *cut)
{
    int64_t run = 1;
    *cut = -1;
    for (int k = 0; k < near.count && *cut < 0; k++) {
        run *= box[near.axis[k]];
        if (box[near.axis[k]] < extent[near.axis[k]]) *cut = near.axis[k];
    }
    return run;
}

/* Sets the extents of a box of at most `room` items: doubles that of the axis where the
 * shortest of the runs in `count` orders ends, up to `longest` items. A box has several items
 * along `axes` axes at most. part(extent, wanted): about `wanted` items of an axis. An axis of
 * a few items is never cut: two halves of 3 are 4. */
template <typename P>
static inline void grow_box(int rank, const int64_t *extent, const near_axes *orders, int count,
                            int axes, int64_t longest, int64_t room, P part, int64_t *box)
{
    enum { FEW = 7, ORDERS = 4 };
    int64_t items = 1;
    for (int axis = 0; axis < rank; axis++) box[axis] = 1;
    for (bool grew = true; grew;) {
        int64_t run[ORDERS];
        int cut[ORDERS];
        bool tried[ORDERS] = {};
        for (int s = 0; s < count; s++) run[s] = run_of_box(extent, orders[s], box, &cut[s]);
        grew = false;
        for (int turn = 0; turn < count && !grew; turn++) {
            int least = -1;
            for (int s = 0; s < count; s++)
                if (!tried[s] && (least < 0 || run[s] < run[least])) least = s;
            tried[least] = true;
            const int axis = cut[least];
            if (axis < 0 || run[least] >= longest) continue;
            const int64_t now = box[axis], all = extent[axis], most = room / (items / now);
            int64_t next = part(all, 2 * now);
            if (all <= FEW && all <= most) next = all;
            if (next > most) next = most > now ? part(all, most) : now;
            grew = next > now && next <= most && (now > 1 || axes > 0);
            if (!grew) continue;
            axes -= now == 1;
            box[axis] = next;
            items = items / now * next;
        }
    }
}

#endif
