/*
 * ranges.h - the steps of naive and shared: so many points of set a by so many of set b.
 */
#ifndef GOP_CUDA_RDF_RANGES_H
#define GOP_CUDA_RDF_RANGES_H

#include "cuda/device.h"

struct step_range {
    int64_t i0, j0, j1;
};

static inline step_range range_of(const gop_task *task, int64_t step, int64_t points,
                                  int64_t others)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t columns = p->n2 / others + (p->n2 % others != 0);
    if (columns == 0) return {0, 0, 0};
    const int64_t j0 = step % columns * others;
    return {step / columns * points, j0, j0 + others < p->n2 ? j0 + others : p->n2};
}

static inline int64_t ranges_of(const gop_task *task, int64_t points, int64_t others)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t steps =
        (p->n / points + (p->n % points != 0)) * (p->n2 / others + (p->n2 % others != 0));
    return steps > 0 ? steps : 1; /* one, to clear the counters */
}

#endif
