/*
 * block.h - how the lectures' threads load and fold: in shared memory, then in registers.
 */
#ifndef GOP_CUDA_REDUCE_BLOCK_H
#define GOP_CUDA_REDUCE_BLOCK_H

#include "cuda/device.h"

enum { BLOCK = 256 };

/* ---- in shared memory ---- */

template <typename R> GOP_DEVICE void fold_sequential(R *sum, int t, int down_to)
{
    for (int d = blockDim.x / 2; d > down_to; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        __syncthreads();
    }
}

template <typename T, typename R>
GOP_DEVICE R load_two(const T *a, int64_t n, int64_t i, int64_t apart)
{
    const R first = i < n ? R(a[i]) : R(0);
    return first + (i + apart < n ? R(a[i + apart]) : R(0));
}

/* In the lecture as printed, warps ran in lockstep and needed no barrier. With independent
 * thread scheduling, all must have read before any writes, and have written before any reads:
 * two __syncwarp, which cost a few cycles. */
template <typename R> GOP_DEVICE void fold_last_warp(R *sum, int t)
{
    R mine = sum[t];
#pragma unroll
    for (int d = 32; d > 0; d /= 2) {
        mine += sum[t + d];
        __syncwarp();
        sum[t] = mine;
        __syncwarp();
    }
}

/* The compiler knows the size of the block and unrolls the loop. */
template <int THREADS, typename R> GOP_DEVICE void fold_complete(R *sum, int t)
{
#pragma unroll
    for (int d = THREADS / 2; d > 32; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        __syncthreads();
    }
    if (t < 32) fold_last_warp(sum, t);
}

/* ---- in registers ---- */

template <typename R> GOP_DEVICE R fold_warp(R mine)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(0xffffffffu, mine, d);
    return mine;
}

/* The sum of the block, in its first thread. */
template <typename R> GOP_DEVICE R fold_block(R mine)
{
    __shared__ R sum[BLOCK / 32];
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    mine = fold_warp(mine);
    if (t == 0) sum[warp] = mine;
    __syncthreads();
    if (warp == 0) mine = fold_warp(t < BLOCK / 32 ? sum[t] : R(0));
    return mine;
}

/* The elements of a thread, one after another. */
template <typename R, typename T> GOP_DEVICE R add_own(const T *a, int64_t n)
{
    R mine = 0;
#pragma unroll 1
    for (int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)BLOCK)
        mine += R(a[i]);
    return mine;
}

/* The same, 16 bytes a load. */
template <typename R, typename T> GOP_DEVICE R add_own_wide(const T *a, int64_t n)
{
    enum { N = vec128<T>::N };
    const int64_t first = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
    const int64_t past = (int64_t)((uintptr_t)a / sizeof(T) % N);
    const int64_t head = past == 0 ? 0 : n < N - past ? n : N - past;
    const int64_t vectors = (n - head) / N, tail = head + vectors * N;
    R mine = 0;
    for (int64_t i = first; i < vectors; i += gridDim.x * (int64_t)BLOCK) {
        const vec128<T> v = load128(a + head + i * N);
#pragma unroll
        for (int k = 0; k < N; k++) mine += R(v.at[k]);
    }
    if (first < head) mine += R(a[first]);
    if (first < n - tail) mine += R(a[tail + first]);
    return mine;
}

template <typename R> __global__ void reduce_atomic_clear_kernel(R *word)
{
    *word = 0;
}

#endif
