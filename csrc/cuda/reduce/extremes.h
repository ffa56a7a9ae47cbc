/*
 * extremes.h - minima and maxima, any and all, and positions: the key of an element, that of a
 * thread's own elements, and what is stored of a root.
 */
#ifndef GOP_CUDA_REDUCE_EXTREMES_H
#define GOP_CUDA_REDUCE_EXTREMES_H

#include <type_traits>

#include "cuda/reduce/finish.h"
#include "cuda/reduce/keys.h"

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
    typedef best_fold<std::conditional_t<std::is_class<key>::value, key, int64_t>> F;
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
        to = least_of(to, gop_bits_to_float(gop_float_to_bits(load(x)) ^ sign));
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
/* The same of items of one or two bytes: two codes at once. */
GOP_DEVICE uint32_t least_halves(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
    return __vminu2(a, b);
#else
    const uint32_t low = (a & 0xffff) < (b & 0xffff) ? a & 0xffff : b & 0xffff;
    return low | ((a >> 16) < (b >> 16) ? a >> 16 : b >> 16) << 16;
#endif
}

template <typename W> struct gather_code : gather_packed {
    typedef uint32_t acc; /* in each half a code */
    static GOP_DEVICE acc none() { return ~0u; }
    static GOP_DEVICE void add(acc &to, W x, int, int key_flags)
    {
        to = least_halves(to, code_of(x, key_flags).bits | 0xffff0000u);
    }
    static GOP_DEVICE void add_word(acc &to, uint32_t word, int key_flags)
    {
        const uint32_t signs = sign_bits<W>::IN_WORD;
        const uint32_t sizes = sizeof(W) > 1 && key_flags & SIZES ? ~signs : ~0u;
        const uint32_t codes = (word & sizes) ^ (key_flags & UNSIGNED ? 0u : signs) ^
                               -(uint32_t)(key_flags & FLIP);
        if constexpr (sizeof(W) == 2) to = least_halves(to, codes);
        else to = least_halves(least_halves(to, codes & 0x00ff00ffu), codes >> 8 & 0x00ff00ffu);
    }
    /* Without elements it is no less than any code. */
    static GOP_DEVICE code<uint32_t> root(acc from, int64_t, int)
    {
        const uint32_t high = from >> 16, low = from & 0xffff;
        return {high < low ? high : low};
    }
};
/* clang-format off */
template <> struct gather_of<extreme_map<float>> : gather_least<float> {};
template <> struct gather_of<extreme_map<float16>> : gather_least<float16> {};
template <> struct gather_of<extreme_map<bfloat16>> : gather_least<bfloat16> {};
template <> struct gather_of<extreme_map<uint8_t>> : gather_code<uint8_t> {};
template <> struct gather_of<extreme_map<uint16_t>> : gather_code<uint16_t> {};
/* clang-format on */

/* A thread meets its elements in order, so a new one must be less than the best so far, or
 * a NaN; after a NaN nothing counts. */
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

/* The position of the minimum of items of one or two bytes: none has the key INT32_MAX. */
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

/* Positions are along one axis and without a mask, but for complex minima, which are found
 * by position. */
template <typename M> inline constexpr bool is_plain = false;
template <typename E> inline constexpr bool is_plain<position_map<E>> = true;
template <typename P> inline constexpr bool is_plain<position_map<complex<P>>> = false;

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
/* The bits to store for a code. `any` of no element is false: the identity has more bits
 * than a code. */
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

/* ---- positions; complex minima and maxima are read back from where they are ---- */

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
    put(r, out_of(r, o), found.k);
}
template <typename G>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, best<key64> found)
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

#endif
