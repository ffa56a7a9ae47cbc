/*
 * maps.h - what each reduction makes of an element, and a thread of its own elements.
 */
#ifndef GOP_CUDA_REDUCE_MAPS_H
#define GOP_CUDA_REDUCE_MAPS_H

#include "cuda/reduce/finish.h"
#include "cuda/reduce/packed.h"

/* ---- sums, and means of floats; products ---- */

/* The accumulator of sums and products: whole numbers modulo 2^64 whatever their sign. */
template <typename T> struct accumulator_of {
    typedef uint64_t type;
};
template <> struct accumulator_of<float16> {
    typedef float type;
};
template <> struct accumulator_of<bfloat16> {
    typedef float type;
};
template <> struct accumulator_of<float> {
    typedef float type;
};
template <> struct accumulator_of<double> {
    typedef double type;
};
template <typename P> struct accumulator_of<complex<P>> {
    typedef complex<P> type;
};

template <typename T> GOP_DEVICE typename accumulator_of<T>::type widen(T x)
{
    return (typename accumulator_of<T>::type)x; /* signed numbers extend their sign */
}
GOP_DEVICE float widen(float16 x)
{
    return load(x);
}
GOP_DEVICE float widen(bfloat16 x)
{
    return load(x);
}
GOP_DEVICE uint64_t widen(boolean x)
{
    return x.byte != 0;
}

template <typename E> struct sum_map {
    typedef E T;
    typedef sum_fold<typename accumulator_of<E>::type> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int) { return widen(x); }
};

template <typename E> struct prod_map {
    typedef E T;
    typedef prod_fold<typename accumulator_of<E>::type> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int) { return widen(x); }
};

/* ---- sums of squares |x|^2, for norms; means of whole numbers, as float64 ---- */

GOP_DEVICE float square(float x)
{
    return x * x;
}
GOP_DEVICE double square(double x)
{
    return x * x;
}
GOP_DEVICE float square(float16 x)
{
    return square(load(x));
}
GOP_DEVICE float square(bfloat16 x)
{
    return square(load(x));
}
GOP_DEVICE double square(boolean x)
{
    return x.byte != 0;
}
template <typename P> GOP_DEVICE P square(complex<P> x)
{
    return x.re * x.re + x.im * x.im;
}
template <typename T> GOP_DEVICE double square(T x)
{
    return square((double)x);
}

template <typename E> struct square_map {
    typedef E T;
    typedef sum_fold<decltype(square(E()))> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int) { return square(x); }
};

GOP_DEVICE double real(boolean x)
{
    return x.byte != 0;
}
template <typename T> GOP_DEVICE double real(T x)
{
    return (double)x;
}

template <typename E> struct mean_map {
    typedef E T;
    typedef sum_fold<double> F;
    static GOP_DEVICE double of(E x, int64_t, int) { return real(x); }
};

/* ---- min, max ---- */

template <typename E> struct extreme_map {
    typedef E T;
    typedef min_fold<decltype(key_of(E(), 0))> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return key_of(x, key_flags);
    }
};

/* ---- any, all: an element is true unless its bits, without the signs of zeros, are 0 ---- */

struct word128 {
    uint64_t half[2];
};
GOP_DEVICE bool is_true(uint64_t bits, uint64_t mask)
{
    return (bits & mask) != 0;
}
GOP_DEVICE bool is_true(word128 bits, uint64_t mask)
{
    return ((bits.half[0] | bits.half[1]) & mask) != 0;
}

/* By the bytes of an element, and of each real number in it: its sign does not count. */
template <typename W, int REAL> struct truth_map {
    typedef W T;
    typedef min_fold<int32_t> F;
    static GOP_DEVICE int32_t of(W x, int64_t, int key_flags)
    {
        const uint64_t mask = REAL == 0   ? ~0ull
                              : REAL == 2 ? 0x7fff7fff7fff7fffull
                              : REAL == 4 ? 0x7fffffff7fffffffull
                                          : 0x7fffffffffffffffull;
        return is_true(x, mask) ^ (key_flags & FLIP);
    }
};

/* ---- argmin, argmax; and complex min and max, which are read back from the position found,
 * because a key forgets the signs of zeros and which part was NaN ---- */

GOP_DEVICE int64_t wide_key(int32_t key)
{
    return key;
}
GOP_DEVICE int64_t wide_key(int64_t key)
{
    return key;
}
GOP_DEVICE key128 wide_key(key128 key)
{
    return key;
}

template <typename E> struct position_map {
    typedef E T;
    typedef best_fold<decltype(wide_key(key_of(E(), 0)))> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t k, int key_flags)
    {
        return {wide_key(key_of(x, key_flags)), k};
    }
};

/* What elements are compared by: real ones as numbers, negated for a maximum, which takes fewer
 * instructions than their keys. `unset` is less than nothing. */
template <typename E> struct compared {
    typedef decltype(key_of(E(), 0)) type;
    enum { REAL = 0 };
    static GOP_DEVICE type unset() { return most<type>::key(); }
    static GOP_DEVICE type of(E x, int key_flags) { return key_of(x, key_flags); }
    static GOP_DEVICE type key(type value, int) { return value; }
};
template <typename R> struct compared_real {
    typedef R type;
    enum { REAL = 1 };
    static GOP_DEVICE R unset() { return R(gop_bits_to_float(0x7fc00000u)); }
    static GOP_DEVICE R of(R x, int key_flags) { return key_flags & FLIP ? -x : x; }
    static GOP_DEVICE decltype(key_of(R(), 0)) key(R value, int key_flags)
    {
        return key_of(of(value, key_flags), key_flags);
    }
};
template <> struct compared<float> : compared_real<float> {
};
template <> struct compared<double> : compared_real<double> {
};
template <> struct compared<float16> : compared_real<float> {
    static GOP_DEVICE float of(float16 x, int key_flags)
    {
        return compared_real<float>::of(load(x), key_flags);
    }
};
template <> struct compared<bfloat16> : compared_real<float> {
    static GOP_DEVICE float of(bfloat16 x, int key_flags)
    {
        return compared_real<float>::of(load(x), key_flags);
    }
};

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

/* A thread's own minimum as a number: to make a key of each element takes longer than to
 * compare it. Infinity is not less than anything. */
template <typename E> struct gather_least {
    typedef float acc;
    static GOP_DEVICE float none() { return gop_bits_to_float(0x7f800000u); }
    static GOP_DEVICE void add(float &to, E x, int, int key_flags)
    {
        const uint32_t sign = (uint32_t)(key_flags & FLIP) << 31;
        to = least_of(to, gop_bits_to_float(gop_float_to_bits(widen(x)) ^ sign));
    }
    static GOP_DEVICE int32_t root(float from, int64_t, int key_flags)
    {
        return compared<E>::key(from, key_flags);
    }
};
/* The same of doubles, for which there is no such instruction: NaNs are looked for, and a least
 * one that is a zero is -0 if any had a sign. */
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
template <> struct gather_of<extreme_map<float>> : gather_least<float> {
};
template <> struct gather_of<extreme_map<float16>> : gather_least<float16> {
};
template <> struct gather_of<extreme_map<bfloat16>> : gather_least<bfloat16> {
};

/* clang-format off */
#define REDUCE_PACKED(map, gather) template <> struct gather_of<map> : gather {}
REDUCE_PACKED(sum_map<boolean>, gather_count);
REDUCE_PACKED(sum_map<int8_t>, gather_sum<int8_t>);
REDUCE_PACKED(sum_map<int16_t>, gather_sum<int16_t>);
REDUCE_PACKED(sum_map<uint8_t>, gather_sum<uint8_t>);
REDUCE_PACKED(sum_map<uint16_t>, gather_sum<uint16_t>);
REDUCE_PACKED(extreme_map<boolean>, gather_code<boolean>);
REDUCE_PACKED(extreme_map<int8_t>, gather_code<int8_t>);
REDUCE_PACKED(extreme_map<int16_t>, gather_code<int16_t>);
template <> struct gather_of<truth_map<uint8_t, 0>> : gather_truth<uint8_t, ~0u> {};
template <> struct gather_of<truth_map<uint16_t, 0>> : gather_truth<uint16_t, ~0u> {};
template <> struct gather_of<truth_map<uint16_t, 2>> : gather_truth<uint16_t, 0x7fff7fffu> {};
/* clang-format on */

/* A thread meets its elements in order, so that one must be less than the best so far, or a
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
        return {wide_key(C::key(from.best, key_flags)), k0 + from.at};
    }
};

#endif
