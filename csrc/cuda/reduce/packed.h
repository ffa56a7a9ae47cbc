/*
 * packed.h - a thread's own of items of one or two bytes, taken four bytes at a time.
 *
 * An item of its own takes two to four instructions; 16 single bytes take longer so than memory
 * does to bring them. Where order does not matter, and a thread has a word of neighbours, it is
 * taken as it is: its parts summed by one instruction, compared two at a time, or asked for a
 * zero. What is here stands in for gather_of (fold.h) and has add_word beside its add.
 */
#ifndef GOP_CUDA_REDUCE_PACKED_H
#define GOP_CUDA_REDUCE_PACKED_H

#include "cuda/reduce/fold.h"

struct gather_packed {
};

/* ---- sums of whole numbers: those of a leaf fit into 32 bits ---- */

template <bool SIGNED, int BYTES> GOP_DEVICE int32_t add_parts(uint32_t word, int32_t to)
{
#ifdef __CUDA_ARCH__
    if constexpr (BYTES == 1 && SIGNED) return __dp4a((int)word, 0x01010101, to);
    else if constexpr (BYTES == 1) return (int32_t)__dp4a(word, 0x01010101u, (unsigned)to);
    else if constexpr (SIGNED) return __dp2a_lo((int)word, 0x0101, to);
    else return (int32_t)__dp2a_lo(word, 0x0101u, (unsigned)to);
#else
    for (int i = 0; i < 4; i += BYTES, word >>= 8 * BYTES)
        if (BYTES == 1) to += SIGNED ? (int32_t)(int8_t)word : (int32_t)(uint8_t)word;
        else to += SIGNED ? (int32_t)(int16_t)word : (int32_t)(uint16_t)word;
    return to;
#endif
}

/* Bytes of 0 and 1 for truth values: whatever is not 0 is true. */
GOP_DEVICE uint32_t truths(uint32_t word)
{
    return ((((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7) & 0x01010101u;
}

template <typename E> struct gather_sum : gather_packed {
    typedef int32_t acc;
    static GOP_DEVICE acc none() { return 0; }
    static GOP_DEVICE void add(acc &to, E x, int, int) { to += (int32_t)x; }
    static GOP_DEVICE void add_word(acc &to, uint32_t word, int)
    {
        to = add_parts<(E(-1) < E(0)), sizeof(E)>(word, to);
    }
    static GOP_DEVICE uint64_t root(acc from, int64_t, int) { return (uint64_t)(int64_t)from; }
};
struct gather_count : gather_sum<uint8_t> {
    static GOP_DEVICE void add(acc &to, boolean x, int, int) { to += x.byte != 0; }
    static GOP_DEVICE void add_word(acc &to, uint32_t word, int)
    {
        to = add_parts<false, 1>(truths(word), to);
    }
};

/* ---- minima: of codes, an element's key less the least that there is ---- */

GOP_DEVICE uint32_t least_halves(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
    return __vminu2(a, b);
#else
    const uint32_t low = (a & 0xffff) < (b & 0xffff) ? a & 0xffff : b & 0xffff;
    return low | ((a >> 16) < (b >> 16) ? a >> 16 : b >> 16) << 16;
#endif
}

/* The codes of a word of E; LEAST: the least key, and that of a maximum. */
template <typename E> struct codes {
    enum { BITS = 8 * sizeof(E), LEAST = -(1 << (BITS - 1)), LEAST_FLIPPED = LEAST };
    static GOP_DEVICE uint32_t of(uint32_t word, int key_flags)
    {
        const uint32_t signs = BITS == 8 ? 0x80808080u : 0x80008000u;
        return word ^ (key_flags & UNSIGNED ? 0u : signs) ^ -(uint32_t)(key_flags & FLIP);
    }
};
template <> struct codes<boolean> {
    enum { BITS = 8, LEAST = 0, LEAST_FLIPPED = -2 };
    static GOP_DEVICE uint32_t of(uint32_t word, int key_flags)
    {
        return truths(word) ^ 0x01010101u * (uint32_t)(key_flags & FLIP);
    }
};

template <typename E> struct gather_code : gather_packed {
    typedef codes<E> C;
    enum { PART = (1 << C::BITS) - 1 };
    typedef uint32_t acc; /* in each half a code */
    static GOP_DEVICE acc none() { return ~0u; }
    static GOP_DEVICE void add(acc &to, E x, int, int key_flags)
    {
        uint32_t word = 0;
        __builtin_memcpy(&word, &x, sizeof x);
        to = least_halves(to, (C::of(word, key_flags) & PART) | 0xffff0000u);
    }
    static GOP_DEVICE void add_word(acc &to, uint32_t word, int key_flags)
    {
        const uint32_t code = C::of(word, key_flags);
        if constexpr (C::BITS == 16) to = least_halves(to, code);
        else to = least_halves(least_halves(to, code & 0x00ff00ffu), code >> 8 & 0x00ff00ffu);
    }
    /* Of none it is no less than any key. */
    static GOP_DEVICE int32_t root(acc from, int64_t, int key_flags)
    {
        const uint32_t high = from >> 16, low = from & 0xffff;
        const int32_t least = key_flags & FLIP ? C::LEAST_FLIPPED : C::LEAST;
        return (int32_t)(high < low ? high : low) + least;
    }
};

/* ---- any, all: whether an element is met that ends the search; `MASK`: what bits count ----
 */

template <typename W, uint32_t MASK> struct gather_truth : gather_packed {
    typedef uint32_t acc; /* 0: not yet */
    static GOP_DEVICE acc none() { return 0; }
    static GOP_DEVICE void add(acc &to, W x, int, int key_flags)
    {
        const uint32_t bits = x & MASK;
        to |= key_flags & FLIP ? bits : bits == 0;
    }
    static GOP_DEVICE void add_word(acc &to, uint32_t word, int key_flags)
    {
        const uint32_t one = sizeof(W) == 1 ? 0x01010101u : 0x00010001u, bits = word & MASK;
        to |= key_flags & FLIP ? bits : (bits - one) & ~bits & one << (8 * sizeof(W) - 1);
    }
    static GOP_DEVICE int32_t root(acc from, int64_t, int) { return from == 0; }
};

#endif
