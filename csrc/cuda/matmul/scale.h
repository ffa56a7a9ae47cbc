/*
 * scale.h - lines scaled by powers of two, so that two float16 hold their numbers.
 *
 * The largest number of a row of a, or of a column of b, comes to lie in [2^14, 2^15), near the
 * end of float16's range. Two float16 hold 22 bits of numbers down to 2^-17 of it; below, the
 * second is subnormal and what is lost is up to 2^-25. Times a number of up to 2^15 that is
 * 2^-10, which a sum of 2^14 does not notice: a sum is certain if it is at least 2^14 times as
 * large as the tiny numbers in its row and column are many.
 */
#ifndef GOP_CUDA_MATMUL_SCALE_H
#define GOP_CUDA_MATMUL_SCALE_H

#include "cuda/matmul/images.h"

#define HALVES_TINY 0x1p-2f
#define HALVES_DOUBT 0x1p14f

/* The power of two for a line whose largest |item| has these bits; its inverse is normal too.
 */
GOP_DEVICE float scale_by(unsigned largest)
{
    const int exponent = largest ? (int)(largest >> 23) - 127 : 14;
    const int from = exponent < -112 ? -112 : exponent;
    return gop_bits_to_float((uint32_t)(127 + 14 - from) << 23);
}

/* x times two powers of two, by two of about their mean: so nothing overflows or underflows on
 * the way that does not in the end. */
GOP_DEVICE float unscaled(float x, float one, float other)
{
    const uint32_t both = gop_float_to_bits(one) + gop_float_to_bits(other);
    const uint32_t half = both >> 1 & 0xff800000u;
    return x * gop_bits_to_float(half) * gop_bits_to_float(both - half);
}

#endif
