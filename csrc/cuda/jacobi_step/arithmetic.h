/*
 * arithmetic.h - the arithmetic of one element of jacobi_step: docs/numerics.md states every
 * rounding.
 */
#ifndef GOP_CUDA_JACOBI_STEP_ARITHMETIC_H
#define GOP_CUDA_JACOBI_STEP_ARITHMETIC_H

#include "cuda/device.h"

GOP_DEVICE float multiply_add(float a, float b, float c)
{
    return fmaf(a, b, c);
}
GOP_DEVICE double multiply_add(double a, double b, double c)
{
    return fma(a, b, c);
}
template <typename R>
GOP_DEVICE complex<R> multiply_add(complex<R> a, complex<R> b, complex<R> c)
{
    return {multiply_add(-a.im, b.im, multiply_add(a.re, b.re, c.re)),
            multiply_add(a.im, b.re, multiply_add(a.re, b.im, c.im))};
}

template <typename T> GOP_DEVICE T plus(T a, T b)
{
    return a + b;
}
template <typename R> GOP_DEVICE complex<R> plus(complex<R> a, complex<R> b)
{
    return {a.re + b.re, a.im + b.im};
}

template <typename T> GOP_DEVICE T minus(T a, T b)
{
    return a - b;
}
template <typename R> GOP_DEVICE complex<R> minus(complex<R> a, complex<R> b)
{
    return {a.re - b.re, a.im - b.im};
}

template <typename T> GOP_DEVICE T divide(T a, T b)
{
    return a / b;
}
/* By the larger part of b first, so that |b|^2 never overflows or underflows. */
template <typename R> GOP_DEVICE complex<R> divide(complex<R> a, complex<R> b)
{
    if ((b.re < 0 ? -b.re : b.re) >= (b.im < 0 ? -b.im : b.im)) {
        const R ratio = b.im / b.re, den = multiply_add(b.im, ratio, b.re);
        return {multiply_add(a.im, ratio, a.re) / den, multiply_add(-a.re, ratio, a.im) / den};
    }
    const R ratio = b.re / b.im, den = multiply_add(b.re, ratio, b.im);
    return {multiply_add(a.re, ratio, a.im) / den, multiply_add(a.im, ratio, -a.re) / den};
}

/* The same number in both parts of a complex one: -0.0, what a lane starts at, and +0.0. */
template <typename T> struct number {
    static GOP_DEVICE T of(T value) { return value; }
};
template <typename R> struct number<complex<R>> {
    static GOP_DEVICE complex<R> of(R value) { return {value, value}; }
};
template <typename T> GOP_DEVICE T negative_zero()
{
    return number<T>::of(-0.0f);
}
template <typename T> GOP_DEVICE T positive_zero()
{
    return number<T>::of(0.0f);
}

/* The fold of the eight lanes of a thread. */
enum { FOLDED_TERMS = 8 };
template <typename T> GOP_DEVICE T fold_eight(T (&lane)[FOLDED_TERMS])
{
#pragma unroll
    for (int d = FOLDED_TERMS / 2; d > 0; d /= 2)
#pragma unroll
        for (int l = 0; l < d; l++) lane[l] = plus(lane[l], lane[l + d]);
    return lane[0];
}

/* ---- by dtype ---- */

/* clang-format off */
#define JACOBI_LAUNCHES(f) \
    {GOP_NONE9, nullptr, nullptr, f<float>, f<double>, f<complex64>, f<complex128>}
/* clang-format on */
/* A function for a dtype: f is a template over the element type. */
#define JACOBI_BY_DTYPE(dtype, f)                                                              \
    ((dtype) == GOP_FLOAT32     ? f<float>                                                     \
     : (dtype) == GOP_FLOAT64   ? f<double>                                                    \
     : (dtype) == GOP_COMPLEX64 ? f<complex64>                                                 \
                                : f<complex128>)
enum : uint32_t {
    JACOBI_DTYPES =
        1u << GOP_FLOAT32 | 1u << GOP_FLOAT64 | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128
};

#endif
