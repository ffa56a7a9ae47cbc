/*
 * neighbours.h - N outputs side by side, by one thread: elements loaded together, each for an
 * output of its own, and results stored together.
 */
#ifndef GOP_CUDA_REDUCE_NEIGHBOURS_H
#define GOP_CUDA_REDUCE_NEIGHBOURS_H

#include "cuda/reduce/extremes.h"

/* What N items are loaded as: words, if parts of those are added. */
template <typename M, int N, bool PARTS = __is_base_of(gather_parts, gather_of<M>)>
struct loaded_of {
    typedef group_of<typename M::T, N> type;
};
template <typename M, int N> struct loaded_of<M, N, true> {
    typedef typename group_word<sizeof(group_of<typename M::T, N>)>::type type;
};

/* Adds them, each to an accumulator of its own, STRIDE from one to the next. */
template <typename M, int N, int STRIDE, typename W>
GOP_DEVICE void add_each(typename gather_of<M>::acc *to, const W &loaded, int at, int key_flags)
{
    typedef gather_of<M> G;
    if constexpr (__is_base_of(gather_parts, G) && sizeof loaded % 4 == 0) {
        enum { PER_WORD = 4 / sizeof(typename M::T) };
        uint32_t word[sizeof loaded / 4];
        __builtin_memcpy(word, &loaded, sizeof word);
#pragma unroll
        for (int i = 0; i < N; i++)
            G::add_part(to[i * STRIDE], word[i / PER_WORD], i % PER_WORD, at, key_flags);
    } else {
        group_of<typename M::T, N> v;
        __builtin_memcpy(&v, &loaded, sizeof v);
#pragma unroll
        for (int i = 0; i < N; i++) G::add(to[i * STRIDE], v.at[i], at, key_flags);
    }
}

/* value[i] for an array in registers, which cannot be indexed. */
template <int N, typename R> GOP_DEVICE R pick(const R *value, int i)
{
    R mine = value[0];
#pragma unroll
    for (int b = 1; b < N; b++)
        if (b == i) mine = value[b];
    return mine;
}

/* ---- results, stored together where r.grouped allows ---- */

template <int N, typename R>
GOP_DEVICE void finish_each(const reduce_args &r, int64_t o, const R (&value)[N])
{
#pragma unroll 1
    for (int c = 0; c < N; c++) finish(r, o + c, pick<N>(value, c));
}

template <int N, typename T>
GOP_DEVICE void put_group(const reduce_args &r, int64_t o, const T (&value)[N])
{
    enum { PIECE = 16 / sizeof(T) < N ? 16 / sizeof(T) : N };
    T *const out = static_cast<T *>(r.out) + out_of(r, o);
#pragma unroll
    for (int i = 0; i < N; i += PIECE) {
        group_of<T, PIECE> v;
#pragma unroll
        for (int c = 0; c < PIECE; c++) v.at[c] = value[i + c];
        store_group(out + i, v);
    }
}

template <typename T, int N, typename R>
GOP_DEVICE void put_totals(const reduce_args &r, int64_t o, const R (&value)[N])
{
    T v[N];
#pragma unroll
    for (int c = 0; c < N; c++) v[c] = store<T>(total(r, o + c, value[c]));
    put_group(r, o, v);
}

/* Complex minima and maxima. */
template <int N, typename R>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const R (&value)[N])
{
    finish_each(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const float (&value)[N])
{
    if (!r.grouped) finish_each(r, o, value);
    else if (r.out_dtype == GOP_FLOAT16) put_totals<float16>(r, o, value);
    else if (r.out_dtype == GOP_BFLOAT16) put_totals<bfloat16>(r, o, value);
    else put_totals<float>(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const double (&value)[N])
{
    if (r.grouped) put_totals<double>(r, o, value);
    else finish_each(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const uint64_t (&value)[N])
{
    if (r.grouped) put_totals<uint64_t>(r, o, value);
    else finish_each(r, o, value);
}
template <int N, typename P>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const complex<P> (&value)[N])
{
    if (r.grouped) put_totals<complex<P>>(r, o, value);
    else finish_each(r, o, value);
}
template <typename T, int N, typename K>
GOP_DEVICE void put_stored(const reduce_args &r, int64_t o, const K (&key)[N])
{
    T v[N];
#pragma unroll
    for (int c = 0; c < N; c++) v[c] = (T)stored(r, key[c]);
    put_group(r, o, v);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const int32_t (&key)[N])
{
    if (!r.grouped || r.has_initial) finish_each(r, o, key);
    else if (r.out_dtype == GOP_FLOAT32) put_stored<int32_t>(r, o, key);
    else put_stored<int16_t>(r, o, key);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const int64_t (&key)[N])
{
    if (r.grouped && !r.has_initial) put_stored<int64_t>(r, o, key);
    else finish_each(r, o, key);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const code<uint32_t> (&least)[N])
{
    if (!r.grouped || (r.has_initial && !is_truth(r))) return finish_each(r, o, least);
    const int bytes = stored_bytes(r);
    if (bytes == 4) put_stored<uint32_t>(r, o, least);
    else if (bytes == 2) put_stored<uint16_t>(r, o, least);
    else put_stored<uint8_t>(r, o, least);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const code<uint64_t> (&least)[N])
{
    if (!r.grouped || (r.has_initial && !is_truth(r))) finish_each(r, o, least);
    else if (r.out_dtype == GOP_BOOL) put_stored<uint8_t>(r, o, least);
    else put_stored<uint64_t>(r, o, least);
}
template <int N, typename K>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const best<K> (&found)[N])
{
    if (!r.grouped || (r.op != GOP_ARGMIN && r.op != GOP_ARGMAX))
        return finish_each(r, o, found);
    int64_t k[N];
#pragma unroll
    for (int c = 0; c < N; c++) k[c] = found[c].k;
    put_group(r, o, k);
}

/* N outputs that are neighbours, or one. */
template <int N, typename R>
GOP_DEVICE void finish_neighbours(const reduce_args &r, int64_t o, const R (&value)[N])
{
    if constexpr (N == 1) finish(r, o, value[0]);
    else finish_group<N>(r, o, value);
}

#endif
