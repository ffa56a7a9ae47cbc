/*
 * arithmetic.h - one term of a sum of products, and what the sum is kept in, for each dtype.
 */
#ifndef GOP_CUDA_MATMUL_ARITHMETIC_H
#define GOP_CUDA_MATMUL_ARITHMETIC_H

#include "cuda/device.h"

/* A truth value that is or-ed, where a count of true terms could wrap to 0. */
struct logic {
    uint32_t bit;
};

/* What a sum of products is kept in. Signed integers run as unsigned ones: the low bits of a
 * product are the same, and unsigned numbers may wrap. */
template <typename T> struct sum_type {
    typedef compute_t<T> type;
};
template <> struct sum_type<boolean> {
    typedef logic type;
};
template <> struct sum_type<uint8_t> {
    typedef uint32_t type;
};
template <> struct sum_type<uint16_t> {
    typedef uint32_t type;
};
template <typename T> using sum_t = typename sum_type<T>::type;

template <typename T> GOP_DEVICE sum_t<T> widen(T value)
{
    return load(value);
}
template <> GOP_DEVICE logic widen<boolean>(boolean value)
{
    return {value.byte != 0};
}

/* To a sum's own type, or with one rounding or the low bits to the output's. */
template <typename O> GOP_DEVICE void put(O *to, O sum)
{
    *to = sum;
}
GOP_DEVICE void put(boolean *to, logic sum)
{
    to->byte = (uint8_t)sum.bit;
}
GOP_DEVICE void put(uint8_t *to, uint32_t sum)
{
    *to = (uint8_t)sum;
}
GOP_DEVICE void put(uint16_t *to, uint32_t sum)
{
    *to = (uint16_t)sum;
}
GOP_DEVICE void put(float16 *to, float sum)
{
    *to = store<float16>(sum);
}
GOP_DEVICE void put(bfloat16 *to, float sum)
{
    *to = store<bfloat16>(sum);
}

/* a * b + sum: one rounding for a float, four for a complex number. */
GOP_DEVICE float accumulate(float a, float b, float sum)
{
    return fmaf(a, b, sum);
}
GOP_DEVICE double accumulate(double a, double b, double sum)
{
    return fma(a, b, sum);
}
GOP_DEVICE uint32_t accumulate(uint32_t a, uint32_t b, uint32_t sum)
{
    return a * b + sum;
}
GOP_DEVICE uint64_t accumulate(uint64_t a, uint64_t b, uint64_t sum)
{
    return a * b + sum;
}
GOP_DEVICE logic accumulate(logic a, logic b, logic sum)
{
    return {sum.bit | (a.bit & b.bit)};
}
template <typename R>
GOP_DEVICE complex<R> accumulate(complex<R> a, complex<R> b, complex<R> sum)
{
    return {accumulate(-a.im, b.im, accumulate(a.re, b.re, sum.re)),
            accumulate(a.im, b.re, accumulate(a.re, b.im, sum.im))};
}

template <typename S> GOP_DEVICE S plus(S a, S b)
{
    return a + b;
}
GOP_DEVICE logic plus(logic a, logic b)
{
    return {a.bit | b.bit};
}
template <typename R> GOP_DEVICE complex<R> plus(complex<R> a, complex<R> b)
{
    return {a.re + b.re, a.im + b.im};
}

#endif
