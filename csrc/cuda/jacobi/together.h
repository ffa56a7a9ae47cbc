/*
 * together.h - a call of the solver in one kernel, whose blocks wait for each other: what each
 * of them makes of the sums, and of a norm.
 *
 * Every block folds the same sums in the same order, and so comes to the same verdict; the
 * first one writes it down.
 */
#ifndef GOP_CUDA_JACOBI_TOGETHER_H
#define GOP_CUDA_JACOBI_TOGETHER_H

#include "cuda/jacobi/chain.h"

enum { MOST_FOLDED = 256 * 256 }; /* sums */

struct together_room {
    double warp[WARP], top[MOST_FOLDED / 2048];
    double f, first;
    int is_zero, stops;
};

/* By all threads, at the kernel's beginning. */
GOP_DEVICE void together_start(together_room &room, const jacobi_state &state)
{
    if (threadIdx.x == 0) {
        room.f = state.f[0];
        room.first = state.given_first ? state.given_first[0] : 0.0;
        room.is_zero = 0;
    }
    __syncthreads();
}

GOP_DEVICE double combine(int is_largest, double a, double b)
{
    return is_largest ? larger(a, b) : a + b;
}

enum { FOLDED = 8 /* sums of a thread, all under way at once */ };

/* Neighbours fold first. `count` of at most THREADS * FOLDED; in thread 0. */
template <int THREADS> GOP_DEVICE double fold_some(const double *sums, int64_t count,
                                                   int is_largest, together_room &room)
{
    const int thread = threadIdx.x, lane = thread % WARP;
    double own[FOLDED];
#pragma unroll
    for (int e = 0; e < FOLDED; e++)
        own[e] = thread * FOLDED + e < count ? sums[thread * FOLDED + e] : -0.0;
#pragma unroll
    for (int d = 1; d < FOLDED; d *= 2)
#pragma unroll
        for (int e = 0; e < FOLDED; e += 2 * d)
            own[e] = combine(is_largest, own[e], own[e + d]);
    double sum = own[0];
    for (int d = 1; d < WARP; d *= 2)
        sum = combine(is_largest, sum, __shfl_down_sync(WHOLE_WARP, sum, d));
    if (lane == 0) room.warp[thread / WARP] = sum;
    __syncthreads();
    if (thread < WARP) {
        sum = lane < THREADS / WARP ? room.warp[lane] : -0.0;
        for (int d = 1; d < WARP; d *= 2)
            sum = combine(is_largest, sum, __shfl_down_sync(WHOLE_WARP, sum, d));
    }
    return sum;
}

/* The root of the tree over at most MOST_FOLDED sums, or their largest, in every thread of a
 * block of THREADS, 256 at least. */
template <int THREADS> GOP_DEVICE double fold_together(const double *sums, int64_t leaves,
                                                       int is_largest, together_room &room)
{
    const int64_t part = THREADS * FOLDED, parts = (leaves + part - 1) / part;
    for (int64_t p = 0; p < parts; p++) {
        const int64_t left = leaves - p * part;
        const double sum =
            fold_some<THREADS>(sums + p * part, left < part ? left : part, is_largest, room);
        if (threadIdx.x == 0) room.top[p] = sum;
        __syncthreads();
    }
    if (parts > 1) {
        const double sum = fold_some<THREADS>(room.top, parts, is_largest, room);
        __syncthreads();
        if (threadIdx.x == 0) room.top[0] = sum;
        __syncthreads();
    }
    return room.top[0];
}

/* Whether squares that sum up to this may have been lost; see norm_of. */
template <typename T> GOP_DEVICE bool squares_were_lost(double sum)
{
    return squares_of<T>::MAY_BE_LOST && (sum < 0x1p-900 || sum > 0x1p1000);
}
#define LARGEST_DOUBLE 0x1.fffffffffffffp1023

/* The verdict of check number `check`, after m steps; whether the solver stops. */
GOP_DEVICE int judge_together(together_room &room, const jacobi_state &s, double norm,
                              int64_t check, int64_t m, int is_last)
{
    __syncthreads(); /* what the last verdict said has been read */
    if (threadIdx.x == 0) {
        const int is_zero = room.f == 0.0;
        if (is_zero) norm = 0.0;
        if (check == 0 && !s.given_first) room.first = norm;
        const gop_verdict verdict =
            gop_jacobi_verdict(s.rtol, s.atol, s.dtol, room.f, room.first, norm);
        room.stops = is_last || verdict != GOP_GOES_ON;
        room.is_zero = is_zero;
        if (blockIdx.x == 0 && s.residuals) {
            s.residuals[1 + check] = norm;
            for (int64_t row = 2 + check; room.stops && row < s.last; row++)
                s.residuals[row] = norm;
            if (room.stops) s.residuals[s.last] = verdict != GOP_GOES_ON ? (double)m : -1.0;
        }
    }
    __syncthreads();
    return room.stops;
}

#endif
