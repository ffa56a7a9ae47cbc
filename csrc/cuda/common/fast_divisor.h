/*
 * fast_divisor.h - division by numbers that a launch knows and the compiler does not.
 */
#ifndef GOP_CUDA_COMMON_FAST_DIVISOR_H
#define GOP_CUDA_COMMON_FAST_DIVISOR_H

#include "cuda/device.h"

/* n / d by a multiplication: exact for n below 2^31, and some 20 instructions shorter than a
 * division by a run-time number. */
struct fast_divisor {
    uint32_t d, multiplier, shift;
};

__host__ GOP_DEVICE uint32_t quotient(uint32_t n, fast_divisor by)
{
    return (uint32_t)((uint64_t)n * by.multiplier >> by.shift);
}

/* The index along an axis of length `by`, the innermost of those that i counts; i becomes the
 * index of all others. */
__host__ GOP_DEVICE uint32_t take_index(uint32_t &i, fast_divisor by)
{
    const uint32_t outer = quotient(i, by), index = i - outer * by.d;
    i = outer;
    return index;
}

/* With 2^log >= d, rounding the multiplier up errs by less than 1 / d over all n below 2^31. A
 * larger d is never divided by: it belongs to a run of one axis. */
static inline fast_divisor make_fast_divisor(int64_t d)
{
    uint32_t log = 0;
    if (d > INT32_MAX) d = INT32_MAX;
    while ((INT64_C(1) << log) < d) log++;
    const uint64_t scale = UINT64_C(1) << (31 + log);
    return {(uint32_t)d, (uint32_t)((scale + (uint64_t)d - 1) / (uint64_t)d), 31 + log};
}

#endif
