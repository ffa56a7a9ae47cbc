/*
 * lanes.h - a leaf of tree/v1 in the registers of a warp: 2048 terms in 128 lanes, of which
 * each thread keeps 4.
 */
#ifndef GOP_CUDA_JACOBI_STEP_LANES_H
#define GOP_CUDA_JACOBI_STEP_LANES_H

#include "core/numerics.h"
#include "cuda/jacobi_step/arithmetic.h"

enum { WARP = 32, PER_THREAD = LANES / WARP };
#define WHOLE_WARP 0xffffffffu

template <typename T> GOP_DEVICE T shuffle_down(T value, int distance)
{
    return __shfl_down_sync(WHOLE_WARP, value, distance);
}
template <typename R> GOP_DEVICE complex<R> shuffle_down(complex<R> value, int distance)
{
    return {shuffle_down(value.re, distance), shuffle_down(value.im, distance)};
}
template <typename T> GOP_DEVICE T shuffle(T value, int from)
{
    return __shfl_sync(WHOLE_WARP, value, from);
}
template <typename R> GOP_DEVICE complex<R> shuffle(complex<R> value, int from)
{
    return {shuffle(value.re, from), shuffle(value.im, from)};
}

/* N neighbours in memory of A by one load. They will not be read again: they leave the cache
 * to x. */
template <typename T, int N> GOP_DEVICE void stream_lanes(T (&to)[N], const T *from)
{
    if (N == 1) {
        to[0] = from[0];
        return;
    }
    const vec128<T> v = load128_stream(from);
    for (int j = 0; j < N; j++) to[j] = v.at[j];
}

/* The fold of a leaf, in thread 0. Thread t holds lane (v*WARP + t)*N + j in lane[v*N + j]. */
template <typename T, int N> GOP_DEVICE T fold_lanes(T (&lane)[PER_THREAD])
{
#pragma unroll
    for (int d = LANES / 2; d >= WARP * N; d /= 2) /* between a thread's own registers */
        for (int l = 0; l < d / WARP; l++) lane[l] = plus(lane[l], lane[l + d / WARP]);
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2) /* between threads: d*N lanes apart */
        for (int j = 0; j < N; j++) lane[j] = plus(lane[j], shuffle_down(lane[j], d));
#pragma unroll
    for (int d = N / 2; d > 0; d /= 2)
        for (int j = 0; j < d; j++) lane[j] = plus(lane[j], lane[j + d]);
    return lane[0];
}

#endif
