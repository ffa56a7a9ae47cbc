/*
 * finish.h - from the root of an output's tree to the element that is stored.
 */
#ifndef GOP_CUDA_REDUCE_FINISH_H
#define GOP_CUDA_REDUCE_FINISH_H

#include "cuda/reduce/keys.h"

/* Where output o lies; computed once for all types that may be stored, since a launch waits for
 * its code. */
template <typename G> GOP_DEVICE int64_t out_of(const reduce_args_of<G> &r, int64_t o)
{
    return r.dense ? o : place_of(r.g, 0, r.g.kept, o).out;
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
/* The mean of integers, whose sum is exact: the bits of a float64. */
GOP_DEVICE uint64_t divide(uint64_t value, int64_t count)
{
    const double mean = (double)(int64_t)value / (double)count;
    uint64_t bits;
    __builtin_memcpy(&bits, &mean, 8);
    return bits;
}
template <typename P> GOP_DEVICE complex<P> divide(complex<P> value, int64_t count)
{
    return {value.re / P(count), value.im / P(count)};
}

template <typename R> GOP_DEVICE void take(R &to, const gop_scalar &s)
{
    to = R(s.f[0]);
}
GOP_DEVICE void take(uint64_t &to, const gop_scalar &s)
{
    to = s.u;
}
template <typename P> GOP_DEVICE void take(complex<P> &to, const gop_scalar &s)
{
    to = {P(s.f[0]), P(s.f[1])};
}

/* Finishes a root without initial. */
template <typename R> GOP_DEVICE R plus_zero(R value, float zero)
{
    return add(value, R(zero));
}
template <typename P> GOP_DEVICE complex<P> plus_zero(complex<P> value, float zero)
{
    return add(value, complex<P>{P(zero), P(zero)});
}

template <typename G, typename R>
GOP_DEVICE R total(const reduce_args_of<G> &r, int64_t o, R value)
{
    if (!r.has_initial) value = plus_zero(value, r.zero);
    if (r.op == GOP_MEAN) return divide(value, r.counts ? r.counts[o] : r.g.count);
    if (!r.has_initial) return value;
    R initial;
    take(initial, r.initial);
    return r.op == GOP_PROD ? multiply(value, initial) : add(value, initial);
}

template <typename G, typename R>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, R value)
{
    if (r.as_is) put(r, o, plus_zero(value, r.zero));
    else put(r, out_of(r, o), total(r, o, value));
}
template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, float value)
{
    if (r.as_is) {
        put(r, o, plus_zero(value, r.zero));
        return;
    }
    const float rounded = total(r, o, value);
    const int64_t at = out_of(r, o);
    if (r.out_dtype == GOP_FLOAT16) put(r, at, store<float16>(rounded));
    else if (r.out_dtype == GOP_BFLOAT16) put(r, at, store<bfloat16>(rounded));
    else put(r, at, rounded);
}

/* ---- minima, maxima, any, all: back from keys and codes ---- */

GOP_DEVICE bool is_truth(const reduce_operands &r)
{
    return r.op == GOP_ANY || r.op == GOP_ALL;
}

/* The bits to store for a minimum, maximum, any or all. */
GOP_DEVICE int32_t stored(const reduce_operands &r, int32_t key)
{
    if (r.dtype == GOP_FLOAT16) return store<float16>(from_key(key, r.key_flags)).bits;
    if (r.dtype == GOP_BFLOAT16) return store<bfloat16>(from_key(key, r.key_flags)).bits;
    return (int32_t)gop_float_to_bits(from_key(key, r.key_flags));
}
GOP_DEVICE int64_t stored(const reduce_operands &r, int64_t key)
{
    const double value = from_key(key, r.key_flags);
    int64_t bits;
    __builtin_memcpy(&bits, &value, 8);
    return bits;
}
GOP_DEVICE code<uint32_t> recoded(const reduce_operands &r, uint32_t bits)
{
    return {bits ^ r.coded};
}
GOP_DEVICE code<uint64_t> recoded(const reduce_operands &r, uint64_t bits)
{
    return {bits ^ ((uint64_t)r.coded << 32 | (uint32_t) - (r.key_flags & FLIP))};
}
/* The bits to store for a code. `any` of no element is false: the identity has more bits than a
 * code. */
template <typename W> GOP_DEVICE W stored(const reduce_operands &r, code<W> least)
{
    const code<W> zero = recoded(r, W(0));
    if (r.out_dtype == GOP_BOOL) return r.key_flags & FLIP ? least < zero : least.bits != 0;
    return recoded(r, least.bits).bits;
}

GOP_DEVICE int32_t with_initial(const reduce_operands &r, int32_t key)
{
    if (!r.has_initial) return key;
    float initial = float(r.initial.f[0]);
    if (r.dtype == GOP_FLOAT16) initial = load(store<float16>(initial));
    if (r.dtype == GOP_BFLOAT16) initial = load(store<bfloat16>(initial));
    return min_fold<int32_t>::fold(key, key_of(initial, r.key_flags));
}
GOP_DEVICE int64_t with_initial(const reduce_operands &r, int64_t key)
{
    if (!r.has_initial) return key;
    return min_fold<int64_t>::fold(key, key_of(r.initial.f[0], r.key_flags));
}
template <typename W> GOP_DEVICE code<W> with_initial(const reduce_operands &r, code<W> least)
{
    if (!r.has_initial || is_truth(r)) return least;
    return min_fold<code<W>>::fold(least, recoded(r, (W)r.initial.u));
}

/* Bytes of an output whose code has four. */
GOP_DEVICE int stored_bytes(const reduce_operands &r)
{
    const int out = r.out_dtype;
    if (out == GOP_BOOL || out == GOP_INT8 || out == GOP_UINT8) return 1;
    return out == GOP_INT32 || out == GOP_UINT32 ? 4 : 2;
}

template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, int32_t key)
{
    const int64_t at = out_of(r, o);
    const int32_t bits = stored(r, with_initial(r, key));
    if (r.out_dtype == GOP_FLOAT32) put(r, at, bits);
    else put(r, at, (int16_t)bits);
}
template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, int64_t key)
{
    put(r, out_of(r, o), stored(r, with_initial(r, key)));
}
template <typename G>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, code<uint32_t> least)
{
    const int64_t at = out_of(r, o);
    const uint32_t bits = stored(r, with_initial(r, least));
    const int bytes = stored_bytes(r);
    if (bytes == 4) put(r, at, bits);
    else if (bytes == 2) put(r, at, (uint16_t)bits);
    else put(r, at, (uint8_t)bits);
}
template <typename G>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, code<uint64_t> least)
{
    const int64_t at = out_of(r, o);
    const uint64_t bits = stored(r, with_initial(r, least));
    if (r.out_dtype == GOP_BOOL) put(r, at, (uint8_t)bits);
    else put(r, at, bits);
}

/* ---- positions; complex minima and maxima are read back from where they were found ---- */

template <typename T, typename G, typename K>
GOP_DEVICE void finish_complex(const reduce_args_of<G> &r, int64_t o, best<K> found)
{
    T value;
    take(value, r.initial);
    const K initial = key_of(value, r.key_flags);
    /* NumPy compares initial first, so it wins if equal. */
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

/* ---- a root, or a leaf of several ---- */

template <typename G, typename R>
GOP_DEVICE void conclude(const reduce_args_of<G> &r, int64_t o, int64_t leaf, R value)
{
    if (r.leaves == 1) finish(r, o, value);
    else static_cast<R *>(r.partial)[o * r.leaves + leaf] = value;
}

#endif
