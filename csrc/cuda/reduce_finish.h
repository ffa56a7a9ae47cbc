/*
 * reduce_finish.h - from the root of an output's tree to the element that is stored.
 */
#ifndef GOP_CUDA_REDUCE_FINISH_H
#define GOP_CUDA_REDUCE_FINISH_H

#include "cuda/reduce_warp.h"

/* Output o's place, found once for all types that may be stored: a launch waits for its code.
 */
template <typename G> GOP_DEVICE int64_t out_of(const reduce_args_of<G> &r, int64_t o)
{
    return place_of(r.g, 0, r.g.kept, o).out;
}
template <typename G, typename T>
GOP_DEVICE void put(const reduce_args_of<G> &r, int64_t at, T value)
{
    static_cast<T *>(r.out)[at] = value;
}

/* ---- sums, products and means ---- */

template <typename R> GOP_DEVICE R divide(R value, int64_t count)
{
    return value / R(count);
}
GOP_DEVICE uint64_t divide(uint64_t value, int64_t)
{
    return value;
} /* never asked for */
template <typename P> GOP_DEVICE complex<P> divide(complex<P> value, int64_t count)
{
    return {value.re / P(count), value.im / P(count)};
}

GOP_DEVICE void take(float &to, const gop_scalar &s)
{
    to = float(s.f[0]);
}
GOP_DEVICE void take(double &to, const gop_scalar &s)
{
    to = s.f[0];
}
GOP_DEVICE void take(uint64_t &to, const gop_scalar &s)
{
    to = s.u;
}
template <typename P> GOP_DEVICE void take(complex<P> &to, const gop_scalar &s)
{
    to = {P(s.f[0]), P(s.f[1])};
}

template <typename G, typename R>
GOP_DEVICE R total(const reduce_args_of<G> &r, int64_t o, R value)
{
    if (r.g.count == 0 && r.op != GOP_PROD) value = R(); /* a sum of nothing is +0.0 */
    if (r.op == GOP_MEAN) return divide(value, r.counts ? r.counts[o] : r.g.count);
    if (!r.has_initial) return value;
    R initial;
    take(initial, r.initial);
    return r.op == GOP_PROD ? multiply(value, initial) : add(value, initial);
}

template <typename G, typename R>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, R value)
{
    if (r.as_is) put(r, o, value);
    else put(r, out_of(r, o), total(r, o, value));
}
template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, float value)
{
    if (r.as_is) {
        put(r, o, value);
        return;
    }
    const float rounded = total(r, o, value);
    const int64_t at = out_of(r, o);
    if (r.out_dtype == GOP_FLOAT16) put(r, at, store<float16>(rounded));
    else if (r.out_dtype == GOP_BFLOAT16) put(r, at, store<bfloat16>(rounded));
    else put(r, at, rounded);
}

/* ---- minima, maxima, any, all: back from keys ---- */

GOP_DEVICE float from_key(int32_t key, int twist)
{
    const uint32_t bits = (uint32_t)flip(key, twist);
    return gop_bits_to_float(key == INT32_MIN ? 0x7fc00000u
                                              : bits ^ (bits >> 31 ? 0x7fffffffu : 0u));
}
GOP_DEVICE double from_key(int64_t key, int twist)
{
    uint64_t bits = (uint64_t)flip(key, twist);
    bits =
        key == INT64_MIN ? 0x7ff8000000000000u : bits ^ (bits >> 63 ? 0x7fffffffffffffffu : 0u);
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
}

template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, int32_t key)
{
    const int64_t at = out_of(r, o);
    if (r.op == GOP_ANY || r.op == GOP_ALL) {
        put(r, at, (uint8_t)((key == 0) == (r.op == GOP_ANY)));
        return;
    }
    const bool half = r.dtype == GOP_FLOAT16 || r.dtype == GOP_BFLOAT16;
    if (half || r.dtype == GOP_FLOAT32) {
        float initial = float(r.initial.f[0]);
        if (r.dtype == GOP_FLOAT16) initial = load(store<float16>(initial));
        if (r.dtype == GOP_BFLOAT16) initial = load(store<bfloat16>(initial));
        if (r.has_initial) key = min_fold<int32_t>::fold(key, key_of(initial, r.twist));
        const float value = from_key(key, r.twist);
        if (r.dtype == GOP_FLOAT16) put(r, at, store<float16>(value));
        else if (r.dtype == GOP_BFLOAT16) put(r, at, store<bfloat16>(value));
        else put(r, at, value);
        return;
    }
    const int32_t offset = r.dtype == GOP_UINT32 ? INT32_MIN : 0;
    const int32_t initial = r.dtype == GOP_BOOL ? r.initial.u != 0 : (int32_t)r.initial.u;
    if (r.has_initial) key = min_fold<int32_t>::fold(key, flip(initial ^ offset, r.twist));
    const int32_t value = flip(key, r.twist) ^ offset;
    if (r.dtype == GOP_INT32 || r.dtype == GOP_UINT32) put(r, at, value);
    else if (r.dtype == GOP_INT16 || r.dtype == GOP_UINT16) put(r, at, (int16_t)value);
    else put(r, at, (int8_t)value);
}

template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, int64_t key)
{
    const int64_t at = out_of(r, o);
    if (r.dtype == GOP_FLOAT64) {
        const double initial = r.initial.f[0];
        if (r.has_initial) key = min_fold<int64_t>::fold(key, key_of(initial, r.twist));
        put(r, at, from_key(key, r.twist));
        return;
    }
    const int64_t offset = r.dtype == GOP_UINT64 ? INT64_MIN : 0;
    const int64_t initial = flip(r.initial.i ^ offset, r.twist);
    if (r.has_initial) key = min_fold<int64_t>::fold(key, initial);
    put(r, at, flip(key, r.twist) ^ offset);
}

/* ---- positions; complex minima and maxima are read back from where they were found ---- */

template <typename T, typename G, typename K>
GOP_DEVICE void finish_complex(const reduce_args_of<G> &r, int64_t o, best<K> found)
{
    T value;
    take(value, r.initial);
    const K initial = key_of(value, r.twist);
    /* NumPy compares initial first: it wins where equal. */
    if (!r.has_initial || (found.k != INT64_MAX && found.key < initial))
        value = static_cast<const T *>(
            r.a)[place_of(r.g, 0, r.g.kept, o).in +
                 place_of(r.g, r.g.kept, r.g.kept + r.g.reduced, found.k).in];
    put(r, out_of(r, o), value);
}

template <typename G>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, best<int64_t> found)
{
    if (r.op == GOP_ARGMIN || r.op == GOP_ARGMAX) put(r, out_of(r, o), found.k);
    else finish_complex<complex64>(r, o, found);
}
template <typename G>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, best<key128> found)
{
    if (r.op == GOP_ARGMIN || r.op == GOP_ARGMAX) put(r, out_of(r, o), found.k);
    else finish_complex<complex128>(r, o, found);
}

/* ---- N outputs side by side: stored at once where r.grouped allows ---- */

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

/* Keys of 8 bytes and up; complex minima and maxima. */
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
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const int32_t (&key)[N])
{
    const bool extreme = r.op == GOP_MIN || r.op == GOP_MAX;
    if (!r.grouped || !extreme || r.dtype != GOP_FLOAT32 || r.has_initial)
        return finish_each(r, o, key);
    float v[N];
#pragma unroll
    for (int c = 0; c < N; c++) v[c] = from_key(key[c], r.twist);
    put_group(r, o, v);
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

#endif
