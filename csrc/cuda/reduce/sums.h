/*
 * sums.h - sums, products, sums of squares and means: the accumulator of an element, those of a
 * thread's own elements, and what is stored of a root.
 */
#ifndef GOP_CUDA_REDUCE_SUMS_H
#define GOP_CUDA_REDUCE_SUMS_H

#include <type_traits>

#include "cuda/reduce/finish.h"
#include "cuda/reduce/items.h"

/* ---- sums; means whose sum is exact; products ---- */

/* INTEGER for integers, which stand for truth values too; else what an item is computed in. */
template <typename T, typename INTEGER> using computed_or =
    std::conditional_t<std::is_integral<T>::value, INTEGER, compute_t<T>>;

/* What an item is added as: integers modulo 2^64, signed or not. */
template <typename T> GOP_DEVICE computed_or<T, uint64_t> widen(T x, int key_flags)
{
    if constexpr (!std::is_integral<T>::value || sizeof(T) == 8) return load(x);
    else if constexpr (sizeof(T) < 4) return (uint64_t)(int64_t)narrow(x, key_flags);
    else {
        const uint32_t high = key_flags & UNSIGNED ? 0 : (uint32_t)((int32_t)x >> 31);
        return (uint64_t)high << 32 | x;
    }
}

template <typename E> struct sum_map {
    typedef E T;
    typedef sum_fold<computed_or<E, uint64_t>> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return widen(x, key_flags);
    }
};

template <typename E> struct prod_map {
    typedef E T;
    typedef prod_fold<computed_or<E, uint64_t>> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return widen(x, key_flags);
    }
};

/* ---- sums of squares |x|^2; means of integers whose sum may exceed a float64 ---- */

/* An item as a floating-point number. */
template <typename T> GOP_DEVICE computed_or<T, double> number(T x, int key_flags)
{
    if constexpr (!std::is_integral<T>::value) return load(x);
    else if constexpr (sizeof(T) < 4) return (double)narrow(x, key_flags);
    else if constexpr (sizeof(T) == 8)
        return key_flags & UNSIGNED ? (double)x : (double)(int64_t)x;
    else {
        /* x as the lowest bits of 2^52 + x, signed ones shifted by 2^31: conversions are slow
         * on an SM. */
        const uint32_t sign = key_flags & UNSIGNED ? 0 : 0x80000000u;
        const uint64_t base = UINT64_C(0x4330000000000000) | sign, bits = base ^ x;
        double from, to;
        __builtin_memcpy(&from, &base, 8);
        __builtin_memcpy(&to, &bits, 8);
        return to - from;
    }
}

template <typename R> GOP_DEVICE R squared(R x)
{
    return x * x;
}
template <typename P> GOP_DEVICE P squared(complex<P> x)
{
    return x.re * x.re + x.im * x.im;
}

template <typename E> struct square_map {
    typedef E T;
    typedef sum_fold<decltype(squared(number(E(), 0)))> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return squared(number(x, key_flags));
    }
};

template <typename E> struct mean_map {
    typedef E T;
    typedef sum_fold<double> F;
    static GOP_DEVICE double of(E x, int64_t, int key_flags) { return number(x, key_flags); }
};

/* Such means: of 8-byte items, or of more than 2^21 smaller ones. */
template <typename M> inline constexpr bool is_mean = false;
template <typename E> inline constexpr bool is_mean<mean_map<E>> = true;

/* ---- a thread's own integers of one or two bytes: a leaf's sum fits into 32 bits ---- */

/* Adds the parts of BYTES each as unsigned numbers; then subtracts 256 or 65536 for each
 * negative one, if they are signed. */
template <int BYTES> GOP_DEVICE int32_t add_parts(uint32_t word, uint32_t signs, int32_t to)
{
    signs &= word;
#ifdef __CUDA_ARCH__
    if constexpr (BYTES == 1)
        return __dp4a((int)signs, 0x02020202, (int)__dp4a(word, 0x01010101u, (unsigned)to));
    else return __dp2a_lo((int)signs, 0x0202, (int)__dp2a_lo(word, 0x0101u, (unsigned)to));
#else
    for (int i = 0; i < 4; i += BYTES, word >>= 8 * BYTES, signs >>= 8 * BYTES)
        if (BYTES == 1) to += (int32_t)(uint8_t)word + 2 * (int32_t)(int8_t)signs;
        else to += (int32_t)(uint16_t)word + 2 * (int32_t)(int16_t)signs;
    return to;
#endif
}

template <typename W> struct gather_sum : gather_packed, gather_parts {
    typedef int32_t acc;
    static GOP_DEVICE acc none() { return 0; }
    static GOP_DEVICE void add(acc &to, W x, int, int key_flags) { to += narrow(x, key_flags); }
    static GOP_DEVICE void add_word(acc &to, uint32_t word, int key_flags)
    {
        if (sizeof(W) == 1 && key_flags & TRUTH) word = truths(word);
        const uint32_t signs = key_flags & UNSIGNED ? 0u : sign_bits<W>::IN_WORD;
        to = add_parts<sizeof(W)>(word, signs, to);
    }
    static GOP_DEVICE void add_part(acc &to, uint32_t word, int i, int, int key_flags)
    {
        if (sizeof(W) == 1 && key_flags & TRUTH) word = truths(word);
        to += part_of<W>(word, i, key_flags);
    }
    static GOP_DEVICE uint64_t root(acc from, int64_t, int) { return (uint64_t)(int64_t)from; }
};
/* clang-format off */
template <> struct gather_of<sum_map<uint8_t>> : gather_sum<uint8_t> {};
template <> struct gather_of<sum_map<uint16_t>> : gather_sum<uint16_t> {};
/* clang-format on */

/* ---- from a root to what is stored ---- */

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

#endif
