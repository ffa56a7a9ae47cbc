/*
 * packed.h - a thread's own items of one or two bytes, folded four bytes at a time.
 *
 * Taken one by one, an item costs two to four instructions; for bytes this is slower than the
 * memory that brings them. Where order does not matter, and a thread has a word of neighbours,
 * it is taken as it is: its parts summed by two instructions, or compared two at a time. These
 * specialise gather_of (fold.h), and have add_word besides add.
 */
#ifndef GOP_CUDA_REDUCE_PACKED_H
#define GOP_CUDA_REDUCE_PACKED_H

#include "cuda/reduce/keys.h"

struct gather_packed { /* has add_word */
};
struct gather_parts { /* has add_part, for an item of a word by itself */
};

/* ---- sums of integers: those of a leaf fit into 32 bits ---- */

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

/* Bytes of 0 and 1 for truth values: whatever is not 0 is true. */
GOP_DEVICE uint32_t truths(uint32_t word)
{
    return ((((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7) & 0x01010101u;
}

template <typename W> struct sign_bits {
    enum : uint32_t { IN_WORD = sizeof(W) == 1 ? 0x80808080u : 0x80008000u };
};

/* Four bytes, each chosen by four bits of the selector: its number in the word, 4 for a zero,
 * or 8 more for a byte of its sign. (The intrinsic __byte_perm lacks the last.) */
GOP_DEVICE uint32_t picked_bytes(uint32_t word, uint32_t selector)
{
#ifdef __CUDA_ARCH__
    uint32_t bytes;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(bytes) : "r"(word), "r"(selector));
    return bytes;
#else
    uint32_t bytes = 0;
    for (int i = 0; i < 32; i += 8, selector >>= 4) {
        const uint32_t byte = selector & 4 ? 0 : word >> 8 * (selector & 3) & 0xff;
        bytes |= (selector & 8 ? byte >> 7 ? 0xff : 0 : byte) << i;
    }
    return bytes;
#endif
}

/* Item i of a word: one instruction extracts it and extends its sign. */
template <typename W> GOP_DEVICE int32_t part_of(uint32_t word, int i, int key_flags)
{
    const bool is_unsigned = key_flags & UNSIGNED;
    if constexpr (sizeof(W) == 1)
        return (int32_t)picked_bytes(word, is_unsigned ? 0x4440 + i : 0x8880 + i * 0x1111);
    else
        return (int32_t)picked_bytes(word,
                                     is_unsigned ? 0x4410 + i * 0x22 : 0x9910 + i * 0x2222);
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

/* ---- minima, any and all ---- */

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

#endif
