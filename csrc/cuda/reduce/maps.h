/*
 * maps.h - the accumulator of an element in each reduction, and of a thread's own elements.
 */
#ifndef GOP_CUDA_REDUCE_MAPS_H
#define GOP_CUDA_REDUCE_MAPS_H

#include <type_traits>

#include "cuda/reduce/finish.h"
#include "cuda/reduce/packed.h"

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

/* ---- sums of squares |x|^2, for norms; means of integers whose sum may not fit a float64
 * ---- */

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
template <typename M> inline constexpr bool is_long = is_mean<M> && sizeof(typename M::T) < 8;

/* ---- min, max; any and all: the maximum and the minimum of truth values ---- */

template <typename T> inline constexpr bool is_real =
    std::is_floating_point<compute_t<T>>::value;
template <typename T> using order_t =
    std::conditional_t<is_real<T>, decltype(key_of(T(), 0)), decltype(code_of(T(), 0))>;
template <typename T> GOP_DEVICE order_t<T> order_of(T x, int key_flags)
{
    if constexpr (is_real<T>) return key_of(x, key_flags);
    else return code_of(x, key_flags);
}

template <typename E> struct extreme_map {
    typedef E T;
    typedef min_fold<order_t<E>> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return order_of(x, key_flags);
    }
};

/* ---- argmin, argmax; and complex min and max, which are read back from the position found,
 * because a key forgets the signs of zeros and which part was NaN ---- */

template <typename E> struct position_map {
    typedef E T;
    typedef decltype(key_of(E(), 0)) key;
    typedef best_fold<std::conditional_t<sizeof(key) == 16, key, int64_t>> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t k, int key_flags)
    {
        return {key_of(x, key_flags), k};
    }
};

/* How elements are compared: real ones as numbers, negated for a maximum, which needs fewer
 * instructions than keys. No element is above `unset`. */
template <typename E> struct compared {
    typedef decltype(key_of(E(), 0)) type;
    enum { REAL = 0 };
    static GOP_DEVICE type unset() { return most<type>::key(); }
    static GOP_DEVICE type of(E x, int key_flags) { return key_of(x, key_flags); }
    static GOP_DEVICE type key(type value, int) { return value; }
};
template <typename E> struct compared_real {
    typedef compute_t<E> type;
    enum { REAL = 1 };
    static GOP_DEVICE type unset() { return type(gop_bits_to_float(0x7fc00000u)); }
    static GOP_DEVICE type turned(type x, int key_flags) { return key_flags & FLIP ? -x : x; }
    static GOP_DEVICE type of(E x, int key_flags) { return turned(load(x), key_flags); }
    static GOP_DEVICE decltype(key_of(type(), 0)) key(type value, int key_flags)
    {
        return key_of(turned(value, key_flags), key_flags);
    }
};
/* clang-format off */
template <> struct compared<float> : compared_real<float> {};
template <> struct compared<double> : compared_real<double> {};
template <> struct compared<float16> : compared_real<float16> {};
template <> struct compared<bfloat16> : compared_real<bfloat16> {};
/* clang-format on */

/* The lesser, -0 below +0, or a NaN if either is one. */
GOP_DEVICE float least_of(float a, float b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float least;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
    return least;
#else
    return key_of(b, 0) < key_of(a, 0) ? b : a;
#endif
}

/* A thread's own minimum as a number: to make a key of each element is slower than to compare
 * it. Infinity is not less than anything. */
template <typename E> struct gather_least {
    typedef float acc;
    static GOP_DEVICE float none() { return gop_bits_to_float(0x7f800000u); }
    static GOP_DEVICE void add(float &to, E x, int, int key_flags)
    {
        const uint32_t sign = (uint32_t)(key_flags & FLIP) << 31;
        to = least_of(to, gop_bits_to_float(gop_float_to_bits(widen(x, 0)) ^ sign));
    }
    static GOP_DEVICE int32_t root(float from, int64_t, int key_flags)
    {
        return compared<E>::key(from, key_flags);
    }
};
/* The same for doubles, which have no such instruction: NaNs are checked for, and a minimum of
 * zero is -0 if any zero had a sign. */
template <> struct gather_of<extreme_map<double>> {
    typedef compared<double> C;
    struct acc {
        double least;
        uint32_t signs;
        bool nan;
    };
    static GOP_DEVICE acc none() { return {gop_bits_to_float(0x7f800000u), 0, false}; }
    static GOP_DEVICE void add(acc &to, double x, int, int key_flags)
    {
        const double value = C::of(x, key_flags);
        uint64_t bits;
        __builtin_memcpy(&bits, &value, 8);
        if (value < to.least) to.least = value;
        to.signs |= (uint32_t)(bits >> 32);
        to.nan = to.nan || value != value;
    }
    static GOP_DEVICE int64_t root(acc from, int64_t, int key_flags)
    {
        const bool is_negative = from.signs >> 31;
        const double least = from.least == 0 && is_negative ? -0.0 : from.least;
        return C::key(from.nan ? C::unset() : least, key_flags);
    }
};
/* clang-format off */
template <> struct gather_of<extreme_map<float>> : gather_least<float> {};
template <> struct gather_of<extreme_map<float16>> : gather_least<float16> {};
template <> struct gather_of<extreme_map<bfloat16>> : gather_least<bfloat16> {};
template <> struct gather_of<sum_map<uint8_t>> : gather_sum<uint8_t> {};
template <> struct gather_of<sum_map<uint16_t>> : gather_sum<uint16_t> {};
template <> struct gather_of<extreme_map<uint8_t>> : gather_code<uint8_t> {};
template <> struct gather_of<extreme_map<uint16_t>> : gather_code<uint16_t> {};
/* clang-format on */

/* A thread meets its elements in order, so a new one must be less than the best so far, or a
 * NaN; after a NaN nothing counts. */
template <typename E> struct gather_of<position_map<E>> {
    typedef compared<E> C;
    struct acc {
        typename C::type best;
        int at; /* -1: none yet */
        bool ended;
    };
    static GOP_DEVICE acc none() { return {C::unset(), -1, false}; }
    static GOP_DEVICE void add(acc &to, E x, int at, int key_flags)
    {
        const typename C::type value = C::of(x, key_flags);
        bool better;
        if constexpr (C::REAL) {
            better = !to.ended && !(value >= to.best);
            to.ended = to.ended || value != value;
        } else better = to.at < 0 || value < to.best;
        if (better) to.best = value;
        if (better) to.at = at;
    }
    static GOP_DEVICE typename position_map<E>::F::acc root(acc from, int64_t k0, int key_flags)
    {
        if (from.at < 0) return position_map<E>::F::none();
        return {C::key(from.best, key_flags), k0 + from.at};
    }
};

/* The position of the minimum for items of one or two bytes: no key of theirs is INT32_MAX. */
template <typename W> struct gather_place : gather_parts {
    struct acc {
        int32_t best;
        int at; /* -1: none yet */
    };
    static GOP_DEVICE acc none() { return {INT32_MAX, -1}; }
    static GOP_DEVICE void meet(acc &to, int32_t key, int at)
    {
        const bool better = key < to.best;
        if (better) to.best = key;
        if (better) to.at = at;
    }
    static GOP_DEVICE void add(acc &to, W x, int at, int key_flags)
    {
        meet(to, key_of(x, key_flags), at);
    }
    static GOP_DEVICE void add_part(acc &to, uint32_t word, int i, int at, int key_flags)
    {
        if (sizeof(W) == 1 && key_flags & TRUTH) word = truths(word);
        word ^= -(uint32_t)(key_flags & FLIP);
        meet(to, part_of<W>(word, i, key_flags & ~TRUTH), at);
    }
    static GOP_DEVICE best<int64_t> root(acc from, int64_t k0, int)
    {
        if (from.at < 0) return best_fold<int64_t>::none();
        return {from.best, k0 + from.at};
    }
};
/* clang-format off */
template <> struct gather_of<position_map<uint8_t>> : gather_place<uint8_t> {};
template <> struct gather_of<position_map<uint16_t>> : gather_place<uint16_t> {};
/* clang-format on */

/* Positions are along one axis and without a mask, but for complex minima, which are found by
 * position. */
template <typename M> inline constexpr bool is_plain = false;
template <typename E> inline constexpr bool is_plain<position_map<E>> = true;
template <typename P> inline constexpr bool is_plain<position_map<complex<P>>> = false;

#endif
