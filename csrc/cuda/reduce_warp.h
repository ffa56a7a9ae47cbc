/*
 * reduce_warp.h - what a thread loads at once, and how accumulators in registers fold: across
 * the threads of a warp, and those of one thread among each other.
 */
#ifndef GOP_CUDA_REDUCE_WARP_H
#define GOP_CUDA_REDUCE_WARP_H

#include "cuda/reduce.h"

/* ---- N neighbours, read at once ---- */

template <typename T, int N_> struct alignas(sizeof(T) * N_) group_of {
    enum { N = N_ };
    T at[N];
};
template <int BYTES> struct group_word;
template <> struct group_word<1> {
    typedef unsigned char type;
};
template <> struct group_word<2> {
    typedef unsigned short type;
};
template <> struct group_word<4> {
    typedef unsigned type;
};
template <> struct group_word<8> {
    typedef uint2 type;
};
template <> struct group_word<16> {
    typedef uint4 type;
};

template <typename V, typename T> GOP_DEVICE V load_group(const T *address)
{
    typedef typename group_word<sizeof(V)>::type word_t;
    V v;
    const word_t word = *reinterpret_cast<const word_t *>(address);
    __builtin_memcpy(&v, &word, sizeof v);
    return v;
}

template <typename V, typename T> GOP_DEVICE void store_group(T *address, const V &v)
{
    typedef typename group_word<sizeof(V)>::type word_t;
    word_t word;
    __builtin_memcpy(&word, &v, sizeof v);
    *reinterpret_cast<word_t *>(address) = word;
}

/* Four neighbours, or 16 bytes of them. */
template <typename T> using lanes_of = group_of<T, sizeof(T) < 4 ? 4 : 16 / sizeof(T)>;

/* ---- accumulators of any size to other threads, 32 bits at a time ---- */

template <typename R> struct words_of {
    uint32_t at[sizeof(R) / 4];
};

template <typename R> GOP_DEVICE R shuffle_down(R value, int d, int width)
{
    words_of<R> word;
    __builtin_memcpy(&word, &value, sizeof(R));
#pragma unroll
    for (uint32_t &w : word.at) w = __shfl_down_sync(0xffffffffu, w, d, width);
    __builtin_memcpy(&value, &word, sizeof(R));
    return value;
}

template <typename R> GOP_DEVICE R shuffle_xor(R value, int d)
{
    words_of<R> word;
    __builtin_memcpy(&word, &value, sizeof(R));
#pragma unroll
    for (uint32_t &w : word.at) w = __shfl_xor_sync(0xffffffffu, w, d);
    __builtin_memcpy(&value, &word, sizeof(R));
    return value;
}

/* Folds N accumulators of a thread as i += i + N/2, i + N/4, ..: by recursion, so that every
 * index is a constant and they stay in registers. */
template <typename F, int N, typename R> GOP_DEVICE void fold_own(R *acc)
{
    if constexpr (N > 1) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) acc[i] = F::fold(acc[i], acc[i + N / 2]);
        fold_own<F, N / 2>(acc);
    }
}

/* As neighbours, which is how leaves fold. */
template <typename F, int N, typename R> GOP_DEVICE void fold_neighbours(R *v)
{
#pragma unroll
    for (int d = 1; d < N; d *= 2)
#pragma unroll
        for (int i = 0; i < N; i += 2 * d) v[i] = F::fold(v[i], v[i + d]);
}

/* value[i] of registers, which have no index that varies. */
template <int N, typename R> GOP_DEVICE R pick(const R *value, int i)
{
    R mine = value[0];
#pragma unroll
    for (int b = 1; b < N; b++)
        if (b == i) mine = value[b];
    return mine;
}

#endif
