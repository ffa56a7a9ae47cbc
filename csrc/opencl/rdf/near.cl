/*
 * near.cl - a bin by a guess, with thresholds and counters in local memory.
 */
#ifndef NEAR_CL
#define NEAR_CL

#define THRESHOLDS __local const BASE *
#include "opencl/rdf/pairs.cl"

/* The bin of an r2 inside the edges. Where these are even (EVEN), x is the position of r among
 * them to within slack; it is rounded to the nearest edge, and only within slack of that can it
 * be on the wrong side: then its threshold decides. */
static int bin_of(BASE r2, THRESHOLDS t, const struct call c)
{
#if defined(EVEN)
    const float x = sqrt((float)r2) * c.scale + c.shift;
    const float edge = rint(x), past = x - edge;
    const int k = (int)edge;
    return k - (fabs(past) > c.slack ? past < 0 : r2 < t[k]);
#else
    return halve(r2, t, c.bins);
#endif
}

/* By all work-items of a group: the thresholds come to local memory, the counters are 0. */
static void begin_counting(__global const BASE *t, __local BASE *nearby,
                           __local uint *histogram, const struct call c)
{
    const int me = (int)get_local_id(0);
    for (int k = me; k <= c.bins; k += GROUP) nearby[k] = t[k];
    for (int k = me; k < COPIES * c.counters; k += GROUP) histogram[k] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
}

static void end_counting(__global uint *out, __local uint *histogram, const struct call c)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = (int)get_local_id(0); k < c.counters; k += GROUP) {
        uint sum = 0;
        for (int copy = 0; copy < COPIES; copy++) sum += histogram[copy * c.counters + k];
        if (sum) count(out, c, k / c.bins, k % c.bins, sum);
    }
}

#endif
