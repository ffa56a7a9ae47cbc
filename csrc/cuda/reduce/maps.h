/*
 * maps.h - what each reduction makes of an element, and a thread of its own elements.
 *
 * A map is for all elements of a size that differ in no more than how they are read, which the
 * key_flags say: uint8_t to uint64_t stand for whole numbers of any sign, for truth values and
 * for the bits of floats that are compared, half for both kinds of it.
 */
#ifndef GOP_CUDA_REDUCE_MAPS_H
#define GOP_CUDA_REDUCE_MAPS_H

#include "cuda/reduce/packed.h"

/* ---- sums, and means; products ---- */

/* Whole numbers modulo 2^64 whatever their sign. */
GOP_DEVICE uint64_t widen(uint8_t x, int key_flags)
{
    return (uint64_t)(int64_t)narrow(x, key_flags);
}
GOP_DEVICE uint64_t widen(uint16_t x, int key_flags)
{
    return (uint64_t)(int64_t)narrow(x, key_flags);
}
GOP_DEVICE uint64_t widen(uint32_t x, int key_flags)
{
    const uint32_t high = key_flags & UNSIGNED ? 0 : (uint32_t)((int32_t)x >> 31);
    return (uint64_t)high << 32 | x;
}
GOP_DEVICE float widen(half16 x, int key_flags)
{
    return load(x, key_flags);
}
template <typename T> GOP_DEVICE T widen(T x, int)
{
    return x;
}

template <typename E> struct sum_map {
    typedef E T;
    typedef sum_fold<decltype(widen(E(), 0))> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return widen(x, key_flags);
    }
};

template <typename E> struct prod_map {
    typedef E T;
    typedef prod_fold<decltype(widen(E(), 0))> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return widen(x, key_flags);
    }
};

/* ---- sums of squares |x|^2, for norms; means of whole numbers whose sum may be no float64
 * ---- */

/* The double with these bits. */
GOP_DEVICE double double_of(uint32_t high, uint32_t low)
{
    const uint64_t bits = (uint64_t)high << 32 | low;
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
}

/* Whole numbers as float64. Those of 32 bits are the lowest of 2^52 + x, where a signed one
 * counts from 2^31 on; of 64 bits the high ones are those of 2^84 + 2^32 x, from 2^63 on. */
GOP_DEVICE double real(uint8_t x, int key_flags)
{
    return narrow(x, key_flags);
}
GOP_DEVICE double real(uint16_t x, int key_flags)
{
    return narrow(x, key_flags);
}
GOP_DEVICE double real(uint32_t x, int key_flags)
{
    const uint32_t sign = key_flags & UNSIGNED ? 0 : 0x80000000u;
    return double_of(0x43300000u, x ^ sign) - double_of(0x43300000u, sign);
}
GOP_DEVICE double real(uint64_t x, int key_flags)
{
    const uint32_t sign = key_flags & UNSIGNED ? 0 : 0x80000000u;
    const double high = double_of(0x45300000u, (uint32_t)(x >> 32) ^ sign) -
                        double_of(0x45300000u, sign | 0x00100000u);
    return high + double_of(0x43300000u, (uint32_t)x);
}

GOP_DEVICE float square(float x, int)
{
    return x * x;
}
GOP_DEVICE double square(double x, int)
{
    return x * x;
}
GOP_DEVICE float square(half16 x, int key_flags)
{
    return square(load(x, key_flags), 0);
}
template <typename P> GOP_DEVICE P square(complex<P> x, int)
{
    return x.re * x.re + x.im * x.im;
}
template <typename W> GOP_DEVICE double square(W x, int key_flags)
{
    return square(real(x, key_flags), 0);
}

template <typename E> struct square_map {
    typedef E T;
    typedef sum_fold<decltype(square(E(), 0))> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return square(x, key_flags);
    }
};

template <typename E> struct mean_map {
    typedef E T;
    typedef sum_fold<double> F;
    static GOP_DEVICE double of(E x, int64_t, int key_flags) { return real(x, key_flags); }
};

template <typename M> struct is_mean {
    enum { value = 0 };
};
template <typename E> struct is_mean<mean_map<E>> {
    enum { value = 1 };
};
/* Whether no output has few elements: up to 2^21 of them are summed as whole numbers. */
template <typename M> struct is_long {
    enum { value = is_mean<M>::value && sizeof(typename M::T) < 8 };
};

/* ---- min, max; any, all: whether the greatest, or the least, is not 0 without its sign ----
 */

template <typename E> struct extreme_map {
    typedef E T;
    typedef min_fold<decltype(key_of(E(), 0))> F;
    static GOP_DEVICE typename F::acc of(E x, int64_t, int key_flags)
    {
        return key_of(x, key_flags & ~(VALUE | TRUTH));
    }
};
/* Of halves as they are read, since -0 is below +0. */
template <> struct extreme_map<half16> {
    typedef half16 T;
    typedef min_fold<int32_t> F;
    static GOP_DEVICE int32_t of(half16 x, int64_t, int key_flags)
    {
        return key_of(load(x, key_flags), key_flags);
    }
};

struct word128 {
    uint64_t half[2];
};
/* complex128 */
struct truth_map {
    typedef word128 T;
    typedef min_fold<int32_t> F;
    static GOP_DEVICE int32_t of(word128 x, int64_t, int key_flags)
    {
        return flip((x.half[0] | x.half[1]) << 1 != 0, key_flags);
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
    typedef decltype(key_of(E(), 0)) K;
    typedef best_fold<decltype(wide_key(K()))> F;
    static GOP_DEVICE K key(E x, int key_flags)
    {
        return key_of(x, (key_flags | VALUE) & ~(ABSOLUTE | PAIRED));
    }
    static GOP_DEVICE typename F::acc of(E x, int64_t k, int key_flags)
    {
        return {wide_key(key(x, key_flags)), k};
    }
};

/* Positions of real elements are along one axis, and have no mask; complex minima are found by
 * theirs. */
template <typename M> struct is_plain {
    enum { value = 0 };
};
template <typename E> struct is_plain<position_map<E>> {
    enum { value = 1 };
};
template <typename P> struct is_plain<position_map<complex<P>>> {
    enum { value = 0 };
};

/* ---- a thread's own ---- */

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

/* A thread's own minimum of halves as a number: to make a key of each takes longer than to
 * compare it. Infinity is not less than anything. */
template <> struct gather_of<extreme_map<half16>> {
    typedef float acc;
    static GOP_DEVICE float none(int) { return gop_bits_to_float(0x7f800000u); }
    static GOP_DEVICE void add(float &to, half16 x, int, int key_flags)
    {
        const uint32_t sign = (uint32_t)(key_flags & FLIP) << 31;
        to = least_of(to, gop_bits_to_float(gop_float_to_bits(load(x, key_flags)) ^ sign));
    }
    static GOP_DEVICE int32_t root(float from, int64_t, int key_flags)
    {
        const float value = key_flags & FLIP ? -from : from;
        return key_of(value, key_flags);
    }
};

/* clang-format off */
template <> struct gather_of<sum_map<uint8_t>> : gather_sum<uint8_t> {};
template <> struct gather_of<sum_map<uint16_t>> : gather_sum<uint16_t> {};
template <> struct gather_of<extreme_map<uint8_t>> : gather_code<uint8_t> {};
template <> struct gather_of<extreme_map<uint16_t>> : gather_code<uint16_t> {};
/* clang-format on */

/* A thread meets its elements in order, so that one must be less than the best so far. */
template <typename E> struct gather_position {
    typedef typename position_map<E>::F F;
    typedef typename position_map<E>::K K;
    enum { SHORT_KEYS = sizeof(E) <= 2 }; /* none of which is the most that there is */
    struct acc {
        K best;
        int at; /* -1: none yet */
    };
    static GOP_DEVICE acc none(int) { return {most<K>::key(), -1}; }
    static GOP_DEVICE void meet(acc &to, K key, int at)
    {
        const bool better = key < to.best || (!SHORT_KEYS && to.at < 0);
        if (better) to.best = key;
        if (better) to.at = at;
    }
    static GOP_DEVICE void add(acc &to, E x, int at, int key_flags)
    {
        meet(to, position_map<E>::key(x, key_flags), at);
    }
    static GOP_DEVICE typename F::acc root(acc from, int64_t k0, int key_flags)
    {
        if (from.at < 0) return F(key_flags).none();
        return {wide_key(from.best), k0 + from.at};
    }
};
template <typename W> struct gather_place : gather_position<W>, gather_parts {
    static GOP_DEVICE void add_part(typename gather_position<W>::acc &to, uint32_t word, int i,
                                    int at, int key_flags)
    {
        if (sizeof(W) == 1 && key_flags & TRUTH) word = truths(word);
        word ^= -(uint32_t)(key_flags & FLIP);
        gather_position<W>::meet(to, part_of<W>(word, i, key_flags & ~TRUTH), at);
    }
};
template <typename E> struct gather_of<position_map<E>> : gather_position<E> {
};
template <> struct gather_of<position_map<uint8_t>> : gather_place<uint8_t> {
};
template <> struct gather_of<position_map<uint16_t>> : gather_place<uint16_t> {
};

#endif
