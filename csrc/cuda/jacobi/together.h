/*
 * together.h - a call of the solver in one kernel, whose blocks wait for each other once a
 * step.
 *
 * One block makes no steps but checks norms. During step m it folds the sums of step m - 1, and
 * its verdict is read during step m + 1, so that no step waits for a norm. Three iterates may
 * then still be needed while a fourth is written.
 */
#ifndef GOP_CUDA_JACOBI_TOGETHER_H
#define GOP_CUDA_JACOBI_TOGETHER_H

#include "cuda/jacobi/chain.h"

enum { MOST_FOLDED = 256 * 256 }; /* sums */

struct together_room {
    double warp[WARP], top[MOST_FOLDED / 2048];
    double f, first;
    int stops;
};

enum { ITERATES = 4 };
enum { CONTINUES, STOPS, LOST }; /* what the judge says; LOST: squares were */

/* Blocks that make steps. On a device that holds one block alone, that one judges, too. */
GOP_DEVICE int workers(void)
{
    return gridDim.x > 1 ? (int)gridDim.x - 1 : 1;
}
static int64_t most_workers(int64_t blocks)
{
    return blocks > 1 ? blocks - 1 : blocks;
}
GOP_DEVICE bool is_judge(void)
{
    return blockIdx.x == gridDim.x - 1;
}

/* Those of the chain, and as many more. */
static void iterates_of(chained_room &room, char *base, int64_t bytes,
                        char *(&iterate)[ITERATES])
{
    for (int i = 0; i < 2; i++) iterate[i] = room.iterate[i];
    for (int i = 2; i < ITERATES; i++) iterate[i] = take(&room, base, bytes);
}

/* Which of the last steps are followed by a check: bit 0 of `checks` for step m, bit 1 for the
 * one before. */
struct check_turns {
    unsigned checks;
    int64_t left;

    GOP_DEVICE void next(int64_t m, int64_t steps, int64_t every)
    {
        const int is_check = m <= steps && (left == 0 || m == steps);
        checks = checks << 1 | (unsigned)is_check;
        left = left == 0 ? every - 1 : left - 1;
    }
    GOP_DEVICE bool of(int before) const { return checks >> before & 1; }
};

/* By all threads, at the kernel's beginning. */
GOP_DEVICE void together_start(together_room &room, const jacobi_state &state)
{
    if (threadIdx.x == 0) {
        room.f = state.f[0];
        room.first = state.given_first ? state.given_first[0] : 0.0;
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
    return squares_may_be_lost<T> && (sum < 0x1p-900 || sum > 0x1p1000);
}
#define LARGEST_DOUBLE 0x1.fffffffffffffp1023

/* The judge's verdict of check number `check`, after m steps: STOPS or CONTINUES. */
GOP_DEVICE int judge_together(together_room &room, const jacobi_state &s, double norm,
                              int64_t check, int64_t m, int is_last)
{
    __syncthreads(); /* what the last verdict said has been read */
    if (threadIdx.x == 0) {
        const int is_zero = room.f == 0.0;
        if (is_zero) norm = 0.0;
        if (check == 0 && !s.given_first) room.first = norm;
        const gop_column_state verdict =
            gop_jacobi_verdict(s.rtol, s.atol, s.dtol, room.f, room.first, norm);
        room.stops = is_last || verdict != GOP_GOES_ON ? STOPS : CONTINUES;
        if (s.residuals) {
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
