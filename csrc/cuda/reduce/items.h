/*
 * items.h - how the items of an array are read: one by one, or four bytes at a time.
 *
 * Taken one by one, an item of one or two bytes costs two to four instructions; for bytes this
 * is slower than the memory that brings them. Where order does not matter, and a thread has a
 * word of neighbours, it is taken as it is: its parts summed by two instructions, or compared
 * two at a time. What specialises gather_of (fold.h) so has add_word or add_part besides add.
 */
#ifndef GOP_CUDA_REDUCE_ITEMS_H
#define GOP_CUDA_REDUCE_ITEMS_H

#include "cuda/reduce/fold.h"

/* ---- one by one: key_flags say how. uint8_t to uint64_t stand for integers, signed or not,
 * and for truth values ---- */

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

/* ---- four bytes at a time ---- */

struct gather_packed { /* has add_word */
};
struct gather_parts { /* has add_part, for an item of a word by itself */
};

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

#endif
