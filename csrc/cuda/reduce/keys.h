/*
 * keys.h - how elements are read, and the keys that they are compared by.
 */
#ifndef GOP_CUDA_REDUCE_KEYS_H
#define GOP_CUDA_REDUCE_KEYS_H

#include "cuda/reduce/fold.h"

/* ---- items, which the key_flags say how to read ---- */

struct half16 { /* float16 or bfloat16 */
    uint16_t bits;
};
GOP_DEVICE float load(half16 x, int key_flags)
{
    return key_flags & BRAIN ? load(bfloat16{x.bits}) : load(float16{x.bits});
}

/* A whole number of one or two bytes. */
GOP_DEVICE int32_t narrow(uint8_t x, int key_flags)
{
    const int32_t most = key_flags & TRUTH ? 1 : 0xff, sign = key_flags & UNSIGNED ? 0 : 0x80;
    return ((x < most ? x : most) ^ sign) - sign;
}
GOP_DEVICE int32_t narrow(uint16_t x, int key_flags)
{
    const int32_t sign = key_flags & UNSIGNED ? 0 : 0x8000;
    return (x ^ sign) - sign;
}

/* ---- keys; a NaN comes first whatever the key_flags ---- */

GOP_DEVICE int32_t flip(int32_t key, int key_flags)
{
    return key ^ -(key_flags & FLIP);
}
GOP_DEVICE int64_t flip(int64_t key, int key_flags)
{
    return key ^ -(int64_t)(key_flags & FLIP);
}

/* All bits are complemented, so that a word of items may be. */
GOP_DEVICE int32_t key_of(uint8_t x, int key_flags)
{
    const uint8_t value = key_flags & TRUTH ? x != 0 : x;
    return narrow((uint8_t)(value ^ -(key_flags & FLIP)), key_flags & ~TRUTH);
}
GOP_DEVICE int32_t key_of(uint16_t x, int key_flags)
{
    const int sizes = key_flags & ABSOLUTE ? 0x7fff : 0xffff;
    return narrow((uint16_t)((x & sizes) ^ -(key_flags & FLIP)), key_flags);
}
/* The bits of halves, whose zeros are one value. */
GOP_DEVICE int32_t key_of(half16 x, int key_flags)
{
    const int32_t bits = (int16_t)x.bits, size = bits & 0x7fff;
    const int32_t sign = flip(bits >> 15, key_flags);
    return size > (key_flags & BRAIN ? 0x7f80 : 0x7c00) ? INT32_MIN : (size ^ sign) - sign;
}
/* Of W bits, as K: of floats the size, complemented if one of its sign and FLIP is there. */
template <typename K, typename W>
GOP_DEVICE K key_of_bits(W x, W sizes, W infinity, int key_flags)
{
    enum { SIGN = 8 * sizeof(W) - 1 };
    const W real = key_flags & REAL ? ~W(0) : 0, most = ~W(0) >> 1;
    const W top = key_flags & UNSIGNED ? ~most : 0;
    const W value = key_flags & VALUE ? real : 0;
    const W mask = key_flags & ABSOLUTE ? sizes : ~W(0);
    const W sign = ((W)((K)x >> SIGN) & real) ^ top ^ -(W)(key_flags & FLIP);
    const K key = (K)(((x & mask & ~(real & ~most)) ^ sign) - (sign & value));
    return (x & most) > (real ? infinity : most) ? (K)~most : key;
}
GOP_DEVICE int32_t key_of(uint32_t x, int key_flags)
{
    return key_of_bits<int32_t>(x, 0x7fffffffu, 0x7f800000u, key_flags);
}
GOP_DEVICE int64_t key_of(uint64_t x, int key_flags)
{
    const uint64_t sizes = UINT64_C(0x7fffffffffffffff);
    return key_of_bits<int64_t>(x, key_flags & PAIRED ? sizes ^ 0x80000000u : sizes,
                                UINT64_C(0x7ff0000000000000), key_flags);
}
GOP_DEVICE int32_t key_of(float x, int key_flags)
{
    return key_of(gop_float_to_bits(x), (key_flags & (FLIP | VALUE)) | REAL);
}
GOP_DEVICE int64_t key_of(double x, int key_flags)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &x, 8);
    return key_of(bits, (key_flags & (FLIP | VALUE)) | REAL);
}
/* Complex numbers by real part, then imaginary part; a NaN in either makes a NaN. */
GOP_DEVICE int64_t key_of(complex64 x, int key_flags)
{
    const int32_t re = key_of(x.re, key_flags | VALUE), im = key_of(x.im, key_flags | VALUE);
    if (re == INT32_MIN || im == INT32_MIN) return INT64_MIN;
    return (int64_t)((uint64_t)(uint32_t)re << 32 | ((uint32_t)im ^ 0x80000000u));
}
GOP_DEVICE key128 key_of(complex128 x, int key_flags)
{
    const int64_t re = key_of(x.re, key_flags | VALUE), im = key_of(x.im, key_flags | VALUE);
    if (re == INT64_MIN || im == INT64_MIN) return {INT64_MIN, 0};
    return {re, (uint64_t)im ^ 0x8000000000000000u};
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
