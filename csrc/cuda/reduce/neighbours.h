/*
 * neighbours.h - N outputs side by side, by one thread: elements loaded together, each for an
 * output of its own, and results stored together.
 */
#ifndef GOP_CUDA_REDUCE_NEIGHBOURS_H
#define GOP_CUDA_REDUCE_NEIGHBOURS_H

#include <type_traits>

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

/* N items from `at` on. */
template <int N, typename T>
GOP_DEVICE void put_group(const reduce_args &r, int64_t at, const T (&value)[N])
{
    enum { PIECE = 16 / sizeof(T) < N ? 16 / sizeof(T) : N };
    T *const out = static_cast<T *>(r.out) + at;
#pragma unroll
    for (int i = 0; i < N; i += PIECE) {
        group_of<T, PIECE> v;
#pragma unroll
        for (int c = 0; c < PIECE; c++) v.at[c] = value[i + c];
        store_group(out + i, v);
    }
}

/* The same of values that are rounded, or cut, to T. */
template <typename T, int N, typename V>
GOP_DEVICE void put_as(const reduce_args &r, int64_t at, const V (&value)[N])
{
    T v[N];
#pragma unroll
    for (int c = 0; c < N; c++) {
        if constexpr (std::is_integral<V>::value) v[c] = (T)value[c];
        else v[c] = store<T>(value[c]);
    }
    put_group(r, at, v);
}

/* What is stored of sums, products and means; its type is asked for after that, once. */
template <int N, typename R>
GOP_DEVICE void put_totals(const reduce_args &r, int64_t o, const R (&value)[N])
{
    if (!r.grouped) return finish_each(r, o, value);
    R v[N];
#pragma unroll
    for (int c = 0; c < N; c++) v[c] = total(r, o + c, value[c]);
    const int64_t at = out_of(r, o);
    if constexpr (!std::is_same<R, float>::value) put_group(r, at, v);
    else if (r.out_dtype == GOP_FLOAT16) put_as<float16>(r, at, v);
    else if (r.out_dtype == GOP_BFLOAT16) put_as<bfloat16>(r, at, v);
    else put_group(r, at, v);
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
    put_totals(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const double (&value)[N])
{
    put_totals(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const uint64_t (&value)[N])
{
    put_totals(r, o, value);
}
template <int N, typename P>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const complex<P> (&value)[N])
{
    put_totals(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const int32_t (&key)[N])
{
    if (!r.grouped || r.has_initial) return finish_each(r, o, key);
    int32_t bits[N];
#pragma unroll
    for (int c = 0; c < N; c++) bits[c] = stored(r, key[c]);
    const int64_t at = out_of(r, o);
    if (r.out_dtype == GOP_FLOAT32) put_group(r, at, bits);
    else put_as<int16_t>(r, at, bits);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const int64_t (&key)[N])
{
    if (!r.grouped || r.has_initial) return finish_each(r, o, key);
    int64_t bits[N];
#pragma unroll
    for (int c = 0; c < N; c++) bits[c] = stored(r, key[c]);
    put_group(r, out_of(r, o), bits);
}
template <int N, typename W>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const code<W> (&least)[N])
{
    if (!r.grouped || (r.has_initial && !is_truth(r))) return finish_each(r, o, least);
    W bits[N];
#pragma unroll
    for (int c = 0; c < N; c++) bits[c] = stored(r, least[c]);
    const int64_t at = out_of(r, o);
    const int bytes = sizeof(W) == 4 ? stored_bytes(r) : r.out_dtype == GOP_BOOL ? 1 : 8;
    if (bytes == sizeof(W)) put_group(r, at, bits);
    else if (sizeof(W) == 4 && bytes == 2) put_as<uint16_t>(r, at, bits);
    else put_as<uint8_t>(r, at, bits);
}
template <int N, typename K>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const best<K> (&found)[N])
{
    if (!r.grouped || (r.op != GOP_ARGMIN && r.op != GOP_ARGMAX))
        return finish_each(r, o, found);
    int64_t k[N];
#pragma unroll
    for (int c = 0; c < N; c++) k[c] = found[c].k;
    put_group(r, out_of(r, o), k);
}

/* N outputs that are neighbours, or one. */
template <int N, typename R>
GOP_DEVICE void finish_neighbours(const reduce_args &r, int64_t o, const R (&value)[N])
{
    if constexpr (N == 1) finish(r, o, value[0]);
    else finish_group<N>(r, o, value);
}

#endif
