/*
 * counts.h - the smaller and the larger of two counts, and a quotient rounded up.
 */
#ifndef GOP_COUNTS_H
#define GOP_COUNTS_H

#include <stdint.h>

static inline int64_t gop_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t gop_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* n / d, rounded up; n + d may exceed 64 bits. */
static inline int64_t gop_ceil(int64_t n, int64_t d)
{
    return n / d + (n % d != 0);
}

#endif
