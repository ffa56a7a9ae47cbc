/*
 * keys.h - the keys and codes that elements are compared by, and their folds.
 */
#ifndef GOP_CUDA_REDUCE_KEYS_H
#define GOP_CUDA_REDUCE_KEYS_H

#include "cuda/reduce/items.h"

/* ---- folds of keys: the least, and where it is ---- */

/* Keys of complex numbers are types of their own, as minima are read back from where they are:
 * positions of other numbers need no code for that. */
struct key64 {
    int64_t bits;
};
GOP_DEVICE bool operator<(key64 a, key64 b)
{
    return a.bits < b.bits;
}
GOP_DEVICE bool operator==(key64 a, key64 b)
{
    return a.bits == b.bits;
}
struct key128 {
    int64_t high;
    uint64_t low;
};
GOP_DEVICE bool operator<(key128 a, key128 b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}
GOP_DEVICE bool operator==(key128 a, key128 b)
{
    return a.high == b.high && a.low == b.low;
}

/* Integers mapped to unsigned ones of the same order. */
template <typename W> struct code {
    W bits;
};
template <typename W> GOP_DEVICE bool operator<(code<W> a, code<W> b)
{
    return a.bits < b.bits;
}

template <typename K> struct most;
template <typename W> struct most<code<W>> {
    static GOP_DEVICE code<W> key() { return {W(~W(0))}; }
};
template <> struct most<int32_t> {
    static GOP_DEVICE int32_t key() { return INT32_MAX; }
};
template <> struct most<int64_t> {
    static GOP_DEVICE int64_t key() { return INT64_MAX; }
};
template <> struct most<key64> {
    static GOP_DEVICE key64 key() { return {INT64_MAX}; }
};
template <> struct most<key128> {
    static GOP_DEVICE key128 key() { return {INT64_MAX, UINT64_MAX}; }
};

template <typename K> struct min_fold {
    typedef K acc;
    enum { ORDERED = 0 };
    static GOP_DEVICE K none() { return most<K>::key(); }
    static GOP_DEVICE K fold(K a, K b) { return b < a ? b : a; }
};

/* The least key, and the first position that has it. */
template <typename K> struct best {
    K key;
    int64_t k; /* INT64_MAX: none */
};
template <typename K> struct best_fold {
    typedef best<K> acc;
    enum { ORDERED = 0 };
    static GOP_DEVICE acc none() { return {most<K>::key(), INT64_MAX}; }
    static GOP_DEVICE acc fold(acc a, acc b)
    {
        return b.key < a.key || (b.key == a.key && b.k < a.k) ? b : a;
    }
};

/* ---- keys; a NaN comes first whatever the key_flags ---- */

template <typename K> GOP_DEVICE K flip(K key, int key_flags)
{
    return key ^ -(K)(key_flags & FLIP);
}

/* FLIP complements all bits of items of one or two bytes, as it does in a word of them. */
GOP_DEVICE int32_t key_of(uint8_t x, int key_flags)
{
    const uint8_t value = key_flags & TRUTH ? x != 0 : x;
    return narrow((uint8_t)(value ^ -(key_flags & FLIP)), key_flags & ~TRUTH);
}
GOP_DEVICE int32_t key_of(uint16_t x, int key_flags)
{
    return narrow((uint16_t)(x ^ -(key_flags & FLIP)), key_flags);
}
GOP_DEVICE int32_t key_of(uint32_t x, int key_flags)
{
    return flip((int32_t)(x ^ (key_flags & UNSIGNED ? 0x80000000u : 0u)), key_flags);
}
GOP_DEVICE int64_t key_of(uint64_t x, int key_flags)
{
    const uint64_t top = key_flags & UNSIGNED ? UINT64_C(1) << 63 : 0;
    return flip((int64_t)(x ^ top), key_flags);
}
GOP_DEVICE int32_t key_of(float x, int key_flags)
{
    const uint32_t bits =
        gop_float_to_bits(key_flags & VALUE ? x + 0.0f : x); /* -0 + 0 is +0 */
    const int32_t key = (int32_t)(bits ^ (bits >> 31 ? 0x7fffffffu : 0u));
    return x != x ? INT32_MIN : flip(key, key_flags);
}
template <typename T> GOP_DEVICE int32_t key_of(T half, int key_flags)
{
    return key_of(load(half), key_flags);
}
GOP_DEVICE int64_t key_of(double x, int key_flags)
{
    const double y = key_flags & VALUE ? x + 0.0 : x;
    uint64_t bits;
    __builtin_memcpy(&bits, &y, 8);
    const int64_t key = (int64_t)(bits ^ (bits >> 63 ? 0x7fffffffffffffffu : 0u));
    return x != x ? INT64_MIN : flip(key, key_flags);
}
/* Complex numbers by real part, then imaginary part; a NaN in either makes a NaN. */
GOP_DEVICE key64 key_of(complex64 x, int key_flags)
{
    if (x.re != x.re || x.im != x.im) return {INT64_MIN};
    const uint32_t im = (uint32_t)key_of(x.im, key_flags | VALUE) ^ 0x80000000u;
    return {(int64_t)((uint64_t)(uint32_t)key_of(x.re, key_flags | VALUE) << 32 | im)};
}
GOP_DEVICE key128 key_of(complex128 x, int key_flags)
{
    if (x.re != x.re || x.im != x.im) return {INT64_MIN, 0};
    return {key_of(x.re, key_flags | VALUE),
            (uint64_t)key_of(x.im, key_flags | VALUE) ^ 0x8000000000000000u};
}

/* ---- codes of integers, and of floats as truth values ---- */

/* XORed with a number of so many bytes, this gives its code. */
__host__ GOP_DEVICE uint64_t coded_by(int bytes, int key_flags)
{
    const uint64_t all = ~UINT64_C(0) >> (64 - 8 * bytes);
    return (key_flags & UNSIGNED ? 0 : all ^ all >> 1) ^ (key_flags & FLIP ? all : 0);
}
template <typename W> GOP_DEVICE code<uint32_t> code_of(W x, int key_flags)
{
    const W all = (W)~W(0), sizes = sizeof(W) > 1 && key_flags & SIZES ? (W)(all >> 1) : all;
    return {(x & sizes) ^ (uint32_t)coded_by(sizeof(W), key_flags)};
}
GOP_DEVICE code<uint64_t> code_of(uint64_t x, int key_flags)
{
    const uint32_t high = key_flags & SIZES ? 0x7fffffffu : ~0u;
    const uint32_t low = key_flags & PAIRED ? 0x7fffffffu : ~0u;
    return {(x & ((uint64_t)high << 32 | low)) ^ coded_by(8, key_flags)};
}
struct word128 { /* complex128 */
    uint64_t half[2];
};
GOP_DEVICE code<uint32_t> code_of(word128 x, int key_flags)
{
    return {((x.half[0] | x.half[1]) << 1 != 0) ^ (uint32_t)coded_by(1, key_flags)};
}

/* ---- floats back from keys ---- */

GOP_DEVICE float from_key(int32_t key, int key_flags)
{
    const uint32_t bits = (uint32_t)flip(key, key_flags);
    return gop_bits_to_float(key == INT32_MIN ? 0x7fc00000u
                                              : bits ^ (bits >> 31 ? 0x7fffffffu : 0u));
}
GOP_DEVICE double from_key(int64_t key, int key_flags)
{
    uint64_t bits = (uint64_t)flip(key, key_flags);
    bits =
        key == INT64_MIN ? 0x7ff8000000000000u : bits ^ (bits >> 63 ? 0x7fffffffffffffffu : 0u);
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
}

#endif
