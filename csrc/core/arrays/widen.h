/*
 * widen.h - neighbouring items of a permutation as one wider item.
 */
#ifndef GOP_WIDEN_H
#define GOP_WIDEN_H

#include "core/arrays/geometry.h"

/* Items that stay neighbours become one of up to 16 bytes, where those begin at multiples of as
 * many: memory has fewer requests, and there are fewer indices to be found. Changes the axes to
 * those of such items, whose bytes it returns; an item here has `item`. */
static inline int gop_permutation_widen(const gop_array *out, const gop_array *in, int item,
                                        gop_permutation *g)
{
    const int last = g->rank - 1; /* of one axis or more */
    const uint64_t places = (uintptr_t)out->data | (uintptr_t)in->data;
    if (g->size == 0 || g->in[last] != 1 || g->out[last] != 1) return item;
    while (item < 16 && g->extent[last] % 2 == 0 && places % (uint64_t)(2 * item) == 0) {
        for (int axis = 0; axis < last; axis++)
            if (g->in[axis] % 2 != 0 || g->out[axis] % 2 != 0) return item;
        for (int axis = 0; axis < last; axis++) {
            g->in[axis] /= 2;
            g->out[axis] /= 2;
        }
        g->extent[last] /= 2;
        g->size /= 2;
        item *= 2;
    }
    if (g->extent[last] == 1 && last > 0) g->rank--;
    return item;
}

#endif
