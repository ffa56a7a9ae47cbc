/*
 * norms.h - 2-norms of columns in float64, neither underflowing nor overflowing; see
 * core/arrays/norms.c, whose bits these are.
 */
#ifndef GOP_CUDA_JACOBI_NORMS_H
#define GOP_CUDA_JACOBI_NORMS_H

#include "cuda/jacobi_step/lanes.h"

enum { WARPS = 8 };

/* n by k items; strides in items. */
template <typename T> struct columns_of {
    const T *data;
    int64_t n, k, row, col, leaves;
};

template <typename R> GOP_DEVICE double square(R value, double scale)
{
    const double v = (double)value * scale;
    return v * v;
}
template <typename R> GOP_DEVICE double square(complex<R> value, double scale)
{
    return square(value.re, scale) + square(value.im, scale);
}

/* a where both are zero: +0.0 stays what it is, whatever the zeros that it meets. */
GOP_DEVICE double larger(double a, double b)
{
    return b > a ? b : a;
}
template <typename R> GOP_DEVICE double largest_part(R value)
{
    return value < 0 ? -(double)value : (double)value;
}
template <typename R> GOP_DEVICE double largest_part(complex<R> value)
{
    return larger(largest_part(value.re), largest_part(value.im));
}

/* Whether squares may be lost in float64: those of float32 are not. */
template <typename T> inline constexpr bool squares_may_be_lost = false;
template <> inline constexpr bool squares_may_be_lost<double> = true;
template <> inline constexpr bool squares_may_be_lost<complex128> = true;

/* The sum of the squares of a leaf of column c, by a warp, in its thread 0. */
template <typename T>
GOP_DEVICE double leaf_squares(const columns_of<T> &v, int64_t c, int64_t leaf, double scale)
{
    const int64_t begin = leaf * LEAF, end = v.n - begin < LEAF ? v.n : begin + LEAF;
    double lane[PER_THREAD];
    for (int l = 0; l < PER_THREAD; l++) lane[l] = -0.0;
#pragma unroll 4
    for (int64_t chunk = begin + threadIdx.x; chunk < end; chunk += LANES)
#pragma unroll
        for (int l = 0; l < PER_THREAD; l++) {
            const int64_t i = chunk + l * WARP;
            if (i < end) lane[l] += square(v.data[i * v.row + c * v.col], scale);
        }
    lane[0] += lane[2]; /* 64 lanes apart, then 32 */
    lane[1] += lane[3];
    lane[0] += lane[1];
    for (int d = WARP / 2; d > 0; d /= 2) lane[0] += __shfl_down_sync(WHOLE_WARP, lane[0], d);
    return lane[0];
}

/* The sums of the leaves of a column, by a block. */
template <typename T>
GOP_DEVICE void sum_leaves(const columns_of<T> &v, int64_t c, double scale, double *leaf)
{
    for (int64_t l = threadIdx.y; l < v.leaves; l += WARPS) {
        const double squares = leaf_squares(v, c, l, scale);
        if (threadIdx.x == 0) leaf[l] = squares;
    }
}

/* The leaves of a column fold into the first, by a block. The padding is -0.0. */
GOP_DEVICE void fold_leaves(double *leaf, int64_t leaves)
{
    enum { EACH = 2 * WARP, AT_ONCE = 8 }; /* sums that a warp makes one of, so many times */
    __syncthreads();
    for (int64_t left = leaves; left > 1; left = (left + EACH - 1) / EACH)
        for (int64_t first = 0; first * EACH < left; first += WARPS * AT_ONCE) {
            const int64_t to = first + threadIdx.y * AT_ONCE;
            double own[AT_ONCE];
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++) {
                const int64_t from = (to + e) * EACH + 2 * threadIdx.x;
                own[e] = from < left ? leaf[from] : -0.0;
                own[e] += from + 1 < left ? leaf[from + 1] : -0.0;
            }
#pragma unroll
            for (int d = 1; d < WARP; d *= 2)
#pragma unroll
                for (int e = 0; e < AT_ONCE; e++)
                    own[e] += __shfl_down_sync(WHOLE_WARP, own[e], d);
            __syncthreads();
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
                if (threadIdx.x == 0 && (to + e) * EACH < left) leaf[to + e] = own[e];
            __syncthreads();
        }
}

GOP_DEVICE double power_of_two(int e)
{
    const int64_t bits = (int64_t)(e + 1023) << 52;
    double power;
    __builtin_memcpy(&power, &bits, 8);
    return power;
}

/* e with 2^e <= value < 2^(e + 1), where both 2^e and 2^-e are normal. */
GOP_DEVICE int exponent_of(double value)
{
    int64_t bits;
    __builtin_memcpy(&bits, &value, 8);
    const int e = (int)(bits >> 52) - 1023;
    return e < -1022 ? -1022 : e > 1022 ? 1022 : e;
}

/* The norm of column c by a block, in every thread, from the sums of its leaves. Where squares
 * may have been lost they are taken again, of items scaled by a power of two. */
template <typename T>
GOP_DEVICE double norm_of(const columns_of<T> &v, int64_t c, double *leaf, double *shared)
{
    const int thread = threadIdx.y * WARP + threadIdx.x;
    if (v.n == 0) return 0.0;
    fold_leaves(leaf, v.leaves);
    const double sum = leaf[0];
    if (!squares_may_be_lost<T> || !(sum < 0x1p-900 || sum > 0x1p1000)) return sqrt(sum);
    double largest = 0.0;
    for (int64_t i = thread; i < v.n; i += WARP * WARPS)
        largest = larger(largest, largest_part(v.data[i * v.row + c * v.col]));
    shared[thread] = largest;
    __syncthreads();
    for (int d = WARP * WARPS / 2; d > 0; d /= 2) {
        if (thread < d) shared[thread] = larger(shared[thread], shared[thread + d]);
        __syncthreads();
    }
    largest = shared[0];
    if (largest == 0.0 || largest > 0x1.fffffffffffffp1023) return largest;
    const int e = exponent_of(largest);
    sum_leaves(v, c, power_of_two(-e), leaf);
    fold_leaves(leaf, v.leaves);
    return sqrt(leaf[0]) * power_of_two(e);
}

#endif
