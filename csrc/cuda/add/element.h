/*
 * element.h - one element of add, multiply_add and fma.
 */
#ifndef GOP_CUDA_ADD_ELEMENT_H
#define GOP_CUDA_ADD_ELEMENT_H

#include "cuda/device.h"

/* Unsigned integers wrap, floats round once; signed integers come here as unsigned ones. */
template <typename T> GOP_DEVICE T plus(T a, T b)
{
    return store<T>(load(a) + load(b));
}
template <typename R> GOP_DEVICE complex<R> plus(complex<R> a, complex<R> b)
{
    return {a.re + b.re, a.im + b.im};
}
GOP_DEVICE boolean plus(boolean a, boolean b)
{
    return {(uint8_t)(a.byte != 0 || b.byte != 0)};
}

template <typename T> GOP_DEVICE T times(T a, T b)
{
    return store<T>(load(a) * load(b));
}
GOP_DEVICE uint16_t times(uint16_t a, uint16_t b)
{
    return (uint16_t)((uint32_t)a * b); /* C widens to int, which would overflow */
}
template <typename R> GOP_DEVICE complex<R> times(complex<R> a, complex<R> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
GOP_DEVICE boolean times(boolean a, boolean b)
{
    return {(uint8_t)(a.byte != 0 && b.byte != 0)};
}

/* a*b + c rounded to odd, so that a second rounding, to fewer bits, gives what a single one
 * would. a*b of halves is exact in double, and TwoSum gives the error of the sum. */
GOP_DEVICE double fma_to_odd(double a, double b, double c)
{
    const double product = a * b;
    const double sum = product + c;
    const double c_part = sum - product;
    const double error = (product - (sum - c_part)) + (c - c_part);
    uint64_t bits;
    __builtin_memcpy(&bits, &sum, 8);
    if (error != 0.0 && error - error == 0.0 && (bits & 1) == 0)
        bits += (error > 0.0) == (sum > 0.0) ? 1 : (uint64_t)-1;
    double odd;
    __builtin_memcpy(&odd, &bits, 8);
    return odd;
}
GOP_DEVICE float float_to_odd(double value)
{
    const float near = (float)value;
    uint32_t bits = gop_float_to_bits(near);
    if ((double)near != value && value == value && (bits & 1) == 0)
        bits += fabs(value) > fabs((double)near) ? 1 : (uint32_t)-1;
    return gop_bits_to_float(bits);
}

template <typename T> GOP_DEVICE T fused(T a, T b, T c)
{
    return store<T>(float_to_odd(fma_to_odd(load(a), load(b), load(c))));
}
GOP_DEVICE float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}
GOP_DEVICE double fused(double a, double b, double c)
{
    return fma(a, b, c);
}

/* The operations; add ignores its third argument. */
struct op_add {
    enum { INPUTS = 2 };
    template <typename T> static GOP_DEVICE T of(T a, T b, T) { return plus(a, b); }
};
struct op_multiply_add {
    enum { INPUTS = 3 };
    template <typename T> static GOP_DEVICE T of(T a, T b, T c) { return plus(times(a, b), c); }
};
struct op_fma {
    enum { INPUTS = 3 };
    template <typename T> static GOP_DEVICE T of(T a, T b, T c) { return fused(a, b, c); }
};

#endif
