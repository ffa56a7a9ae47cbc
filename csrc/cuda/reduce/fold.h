/*
 * fold.h - what the kernels of tree/v1 share: folds, and accumulators that meet.
 *
 * As on the CPU, every reduction turns elements into accumulators and folds those; minima,
 * maxima and positions are minima of keys (keys.h), integers in the order of the elements. The
 * kernels are templates over a map M of sums.h or extremes.h: its element type T, its fold F,
 * and of(x, k, key_flags), the accumulator of element x at position k.
 */
#ifndef GOP_CUDA_REDUCE_FOLD_H
#define GOP_CUDA_REDUCE_FOLD_H

#include "cuda/reduce/arguments.h"

/* ---- folds: the accumulator, its identity and its operator ---- */

template <typename R> GOP_DEVICE R add(R a, R b)
{
    return a + b;
}
template <typename P> GOP_DEVICE complex<P> add(complex<P> a, complex<P> b)
{
    return {a.re + b.re, a.im + b.im};
}

template <typename R> GOP_DEVICE R multiply(R a, R b)
{
    return a * b;
}
/* A factor of 1 + 0i or 1 - 0i changes nothing, infinities included, and 1 + 0i keeps the signs
 * of zeros too: so it does not matter where a product is padded. */
template <typename P> GOP_DEVICE complex<P> multiply(complex<P> a, complex<P> b)
{
    const bool one = a.re == 1 && a.im == 0;
    if (b.re == 1 && b.im == 0) return one ? complex<P>{1, -(-a.im - b.im)} : a;
    if (one) return b;
    return {a.re * b.re + (-a.im) * b.im, a.re * b.im + a.im * b.re};
}

template <typename R> struct constant {
    static GOP_DEVICE R zero() { return R(-0.0); } /* x + -0.0 is x, even for x = -0.0 */
    static GOP_DEVICE R one() { return 1; }
};
template <typename P> struct constant<complex<P>> {
    static GOP_DEVICE complex<P> zero() { return {P(-0.0), P(-0.0)}; }
    static GOP_DEVICE complex<P> one() { return {1, 0}; }
};

template <typename R> inline constexpr bool is_ordered = true;
template <> inline constexpr bool is_ordered<uint64_t> = false; /* any gives the same bits */

template <typename R> struct sum_fold {
    typedef R acc;
    enum { ORDERED = is_ordered<R> };
    static GOP_DEVICE R none() { return constant<R>::zero(); }
    static GOP_DEVICE R fold(R a, R b) { return add(a, b); }
};

template <typename R> struct prod_fold {
    typedef R acc;
    enum { ORDERED = is_ordered<R> };
    static GOP_DEVICE R none() { return constant<R>::one(); }
    static GOP_DEVICE R fold(R a, R b) { return multiply(a, b); }
};

/* ---- how a thread folds its own elements, one after another ---- If order does not matter, it
 * may keep less than an accumulator; a map that has something simpler specialises this. `at` is
 * the element's distance from position k0, and grows. */

template <typename M> struct gather_of {
    typedef typename M::F::acc acc;
    static GOP_DEVICE acc none() { return M::F::none(); }
    static GOP_DEVICE void add(acc &to, typename M::T x, int, int key_flags)
    {
        to = M::F::fold(to, M::of(x, 0, key_flags));
    }
    static GOP_DEVICE acc root(acc from, int64_t, int) { return from; }
};

/* ---- shuffles of accumulators of any size, 32 bits at a time ---- */

template <typename R> struct words_of {
    uint32_t at[sizeof(R) / 4];
};

template <typename R> GOP_DEVICE R shuffle_down(R value, int d, int width)
{
    words_of<R> word;
    __builtin_memcpy(&word, &value, sizeof(R));
#pragma unroll
    for (uint32_t &w : word.at) w = __shfl_down_sync(0xffffffffu, w, d, width);
    __builtin_memcpy(&value, &word, sizeof(R));
    return value;
}

template <typename R> GOP_DEVICE R shuffle_xor(R value, int d)
{
    words_of<R> word;
    __builtin_memcpy(&word, &value, sizeof(R));
#pragma unroll
    for (uint32_t &w : word.at) w = __shfl_xor_sync(0xffffffffu, w, d);
    __builtin_memcpy(&value, &word, sizeof(R));
    return value;
}

/* Folds N accumulators of a thread as i += i + N/2, i + N/4, .., until LEFT are left: by
 * recursion, so that every index is a constant and they stay in registers. */
template <typename F, int N, int LEFT = 1, typename R> GOP_DEVICE void fold_own(R *acc)
{
    if constexpr (N > LEFT) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) acc[i] = F::fold(acc[i], acc[i + N / 2]);
        fold_own<F, N / 2, LEFT>(acc);
    }
}

#endif
