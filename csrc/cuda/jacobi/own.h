/*
 * own.h - neighbours in memory that a thread has to itself, by vectors of 16 bytes.
 */
#ifndef GOP_CUDA_JACOBI_OWN_H
#define GOP_CUDA_JACOBI_OWN_H

#include "cuda/device.h"

enum { OWN = 4 }; /* items */

template <typename T> GOP_DEVICE void load_own(T (&to)[OWN], const T *from)
{
    enum { N = vec128<T>::N };
#pragma unroll
    for (int u = 0; u < OWN; u += N) {
        const vec128<T> v = load128(from + u);
#pragma unroll
        for (int e = 0; e < N; e++) to[u + e] = v.at[e];
    }
}
template <typename T> GOP_DEVICE void store_own(T *to, const T (&from)[OWN])
{
    enum { N = vec128<T>::N };
#pragma unroll
    for (int u = 0; u < OWN; u += N) {
        vec128<T> v;
#pragma unroll
        for (int e = 0; e < N; e++) v.at[e] = from[u + e];
        store128(to + u, v);
    }
}

/* The same into global memory, by stores that the compiler does not take apart. */
template <typename T> GOP_DEVICE void store_own_whole(T *to, const T (&from)[OWN])
{
    enum { N = vec128<T>::N };
#pragma unroll
    for (int u = 0; u < OWN; u += N) {
        uint4 word;
        __builtin_memcpy(&word, from + u, 16);
        __stcg(reinterpret_cast<uint4 *>(to + u), word);
    }
}

#endif
