/*
 * reduce_position.cu - argmin and argmax; and complex min and max, which are read back from the
 * position found, because a key forgets the signs of zeros and which part was NaN.
 */
#include "cuda/reduce_rows.h"

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
    static GOP_DEVICE typename F::acc turn(E x, int64_t k, int twist)
    {
        return {wide_key(key_of(x, twist)), k};
    }
};

/* What elements are compared by: real ones as numbers, negated for a maximum, which takes fewer
 * instructions than their keys. `unset` is less than nothing. */
template <typename E> struct compared {
    typedef decltype(key_of(E(), 0)) type;
    enum { REAL = 0 };
    static GOP_DEVICE type unset() { return most<type>::key(); }
    static GOP_DEVICE type of(E x, int twist) { return key_of(x, twist); }
    static GOP_DEVICE type key(type value, int) { return value; }
};
template <typename R> struct compared_real {
    typedef R type;
    enum { REAL = 1 };
    static GOP_DEVICE R unset() { return R(gop_bits_to_float(0x7fc00000u)); }
    static GOP_DEVICE R of(R x, int twist) { return twist & FLIP ? -x : x; }
    static GOP_DEVICE decltype(key_of(R(), 0)) key(R value, int twist)
    {
        return key_of(of(value, twist), twist);
    }
};
template <> struct compared<float> : compared_real<float> {
};
template <> struct compared<double> : compared_real<double> {
};
template <> struct compared<float16> : compared_real<float> {
    static GOP_DEVICE float of(float16 x, int twist)
    {
        return compared_real<float>::of(load(x), twist);
    }
};
template <> struct compared<bfloat16> : compared_real<float> {
    static GOP_DEVICE float of(bfloat16 x, int twist)
    {
        return compared_real<float>::of(load(x), twist);
    }
};

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
    static GOP_DEVICE void add(acc &to, E x, int at, int twist)
    {
        const typename C::type value = C::of(x, twist);
        bool better;
        if constexpr (C::REAL) {
            better = !to.ended && !(value >= to.best);
            to.ended = to.ended || value != value;
        } else better = to.at < 0 || value < to.best;
        if (better) to.best = value;
        if (better) to.at = at;
    }
    static GOP_DEVICE typename position_map<E>::F::acc root(acc from, int64_t k0, int twist)
    {
        if (from.at < 0) return position_map<E>::F::none();
        return {wide_key(C::key(from.best, twist)), k0 + from.at};
    }
};

template <typename T> constexpr reduce_launchers reduce_position =
    reduce_launchers_of<position_map<T>>;

const reduce_launchers reduce_position_of[GOP_NDTYPES] = GOP_LAUNCH_ALL(reduce_position);
