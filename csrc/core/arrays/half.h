/*
 * half.h - float16 and bfloat16 as bits, converted with one rounding to nearest even.
 */
#ifndef GOP_HALF_H
#define GOP_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

static inline uint32_t gop_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float gop_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float gop_f16_load(uint16_t h)
{
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) /* infinity or NaN */
        return gop_bits_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x0400u) return gop_bits_float(sign | ((magnitude << 13) + 0x38000000u));
    return gop_bits_float(sign | gop_float_bits((float)magnitude * 0x1p-24f)); /* subnormal */
#endif
}

static inline uint16_t gop_f16_store(float value)
{
#if defined(__F16C__)
    return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
#else
    const uint32_t bits = gop_float_bits(value);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u; /* 65520 and up round to infinity */
    if (magnitude <
        0x38800000u) /* below the normals: adding 0.5 leaves the rounded bits at the end */
        return (uint16_t)(sign |
                          (gop_float_bits(gop_bits_float(magnitude) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign |
                      ((magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13));
#endif
}

static inline float gop_bf16_load(uint16_t h)
{
    return gop_bits_float((uint32_t)h << 16);
}

static inline uint16_t gop_bf16_store(float value)
{
    const uint32_t bits = gop_float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* a*b + c rounded to odd in double: a second rounding to 51 bits or fewer then equals one
 * rounding of the exact value. a*b must be exact in double (24 significant bits each, or
 * fewer). */
static inline double gop_fma_to_odd(double a, double b, double c)
{
    const double product = a * b;
    const double sum = product + c;
    const double c_part = sum - product; /* TwoSum: the error of `sum` */
    const double error = (product - (sum - c_part)) + (c - c_part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (error != 0.0 && error - error == 0.0 &&
        (bits & 1) == 0) { /* inexact, finite, even: step towards the error */
        bits += (error > 0.0) == (sum > 0.0) ? 1 : (uint64_t)-1;
        double odd;
        memcpy(&odd, &bits, sizeof odd);
        return odd;
    }
    return sum;
}

/* A double as a float rounded to odd: storing that as a half then equals one rounding. */
static inline float gop_float_to_odd(double value)
{
    const float near = (float)value;
    uint32_t bits = gop_float_bits(near);
    if ((double)near != value && value == value && (bits & 1) == 0)
        bits += fabs(value) > fabs((double)near) ? 1 : (uint32_t)-1;
    return gop_bits_float(bits);
}

#endif
