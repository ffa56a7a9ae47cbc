/*
 * exact.h - exact/v1: a sum of numbers in integer words, rounded once, at the end.
 *
 * A sum is an array of int64: which NaN and infinities it met, how many terms it has, then its
 * words. Word i is worth 2^(32 i - 1088), so that every finite float64, and every integer, adds
 * to two neighbouring words. Terms of all other dtypes need only the words from GOP_EXACT_FIRST
 * on. Integers add in any order: that is why neither order, chunks, threads nor devices matter.
 * Static functions, for every backend and for device code.
 */
#ifndef GOP_CORE_EXACT_H
#define GOP_CORE_EXACT_H

#include "gpuops.h"

#if defined(__CUDACC__)
#define GOP_EXACT_FN static inline __host__ __device__
#else
#define GOP_EXACT_FN static inline
#endif

enum {
    GOP_EXACT_LOW = -1088, /* the place of word 0 is 2^this */
    GOP_EXACT_WIDE = 68,   /* words for float64: 2^63 terms of 2^1024 */
    GOP_EXACT_FIRST = 29,  /* the first word of those that all other dtypes need */
    GOP_EXACT_NARROW = 11, /* and how many they are: from 2^-160 to 2^192 */
    GOP_EXACT_HEAD = 2,    /* numbers before the words */
    GOP_EXACT_ADDS = 512,  /* terms that may be added before the words are carried */
    GOP_EXACT_PLUS = 1,    /* bits of `special` */
    GOP_EXACT_MINUS = 2,
    GOP_EXACT_NAN = 4,
};

/* A sum. As an array it is its first gop_exact_numbers(dtype) numbers. */
typedef struct gop_exact {
    int64_t special;              /* GOP_EXACT_PLUS, _MINUS and _NAN, of the terms */
    int64_t count;                /* of the terms */
    int64_t word[GOP_EXACT_WIDE]; /* carried: all in [0, 2^32) but the last, which has a sign */
} gop_exact;

/* Its words, `stride` apart: of word numbers `first` and on. */
typedef struct gop_exact_line {
    int64_t *word;
    int64_t stride;
    int words, first;
} gop_exact_line;

GOP_EXACT_FN int gop_exact_is_wide(gop_dtype dtype)
{
    return dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128;
}
/* How many words terms of this dtype need. */
GOP_EXACT_FN int gop_exact_words(gop_dtype dtype)
{
    return gop_exact_is_wide(dtype) ? GOP_EXACT_WIDE : GOP_EXACT_NARROW;
}
GOP_EXACT_FN gop_exact_line gop_exact_line_of(int64_t *word, int64_t stride, gop_dtype dtype)
{
    const gop_exact_line line = {word, stride, gop_exact_words(dtype),
                                 gop_exact_is_wide(dtype) ? 0 : GOP_EXACT_FIRST};
    return line;
}
/* Numbers of a sum as an array. */
GOP_EXACT_FN int gop_exact_numbers(gop_dtype dtype)
{
    return GOP_EXACT_HEAD + gop_exact_words(dtype);
}

/* ---- terms ---- */

/* Carries, so that GOP_EXACT_ADDS more terms, or another carried sum, can be added. */
GOP_EXACT_FN void gop_exact_carry(gop_exact_line line)
{
    int64_t carry = 0, *word = line.word;
    for (int i = 1; i < line.words; i++, word += line.stride) {
        const int64_t sum = *word + carry;
        *word = sum & 0xffffffff;
        carry = sum >> 32;
    }
    *word += carry;
}

/* Adds a finite term, given as the bits of a float64. */
GOP_EXACT_FN void gop_exact_add(gop_exact_line line, uint64_t bits)
{
    const int e = (int)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    uint64_t m = e ? fraction | UINT64_C(1) << 52 : fraction;
    int place = (e ? e : 1) - 1075 - GOP_EXACT_LOW - 32 * line.first;
    if (place < 0) { /* zeros, below what the term's own dtype has */
        m = place > -64 ? m >> -place : 0;
        place = 0;
    }
    const int shift = place & 31;
    const int64_t low = (int64_t)(m << shift & 0xffffffff), high = (int64_t)(m >> (32 - shift));
    int64_t *const at = line.word + (place >> 5) * line.stride;
    at[0] += bits >> 63 ? -low : low;
    at[line.stride] += bits >> 63 ? -high : high;
}

/* Adds a whole number: its lower half, and the upper one with the sign. */
GOP_EXACT_FN void gop_exact_add_whole(gop_exact_line line, uint64_t bits, int is_signed)
{
    int64_t *const at = line.word + (-GOP_EXACT_LOW / 32 - line.first) * line.stride;
    at[0] += (int64_t)(bits & 0xffffffff);
    at[line.stride] += is_signed ? (int64_t)bits >> 32 : (int64_t)(bits >> 32);
}

/* What a float64 is by its bits: NaN, an infinity, or 0 for a finite number. */
GOP_EXACT_FN int gop_exact_special(uint64_t bits)
{
    const uint64_t infinite = UINT64_C(0x7ff) << 52, magnitude = bits & ~(UINT64_C(1) << 63);
    if (magnitude < infinite) return 0;
    if (magnitude > infinite) return GOP_EXACT_NAN;
    return bits >> 63 ? GOP_EXACT_MINUS : GOP_EXACT_PLUS;
}

/* Adds any term. */
GOP_EXACT_FN void gop_exact_take(int64_t *special, gop_exact_line line, uint64_t bits)
{
    const int is = gop_exact_special(bits);
    if (is) *special |= is;
    else gop_exact_add(line, bits);
}

/* to = to + from: carried sums of one dtype, as arrays. */
GOP_EXACT_FN void gop_exact_merge(int64_t *to, const int64_t *from, gop_dtype dtype)
{
    const gop_exact_line line = gop_exact_line_of(to + GOP_EXACT_HEAD, 1, dtype);
    to[0] |= from[0];
    to[1] += from[1];
    for (int i = 0; i < line.words; i++) line.word[i] += from[GOP_EXACT_HEAD + i];
    gop_exact_carry(line);
}

/* ---- the rounding ---- */

/* A floating-point format, by the bits of its infinity: what is below them counts numbers. */
typedef struct gop_exact_format {
    int digits; /* of a significand */
    int least;  /* 2^least is the smallest number */
    int bits;   /* of a number */
    uint64_t infinity;
} gop_exact_format;

GOP_EXACT_FN gop_exact_format gop_exact_format_of(gop_dtype dtype)
{
    gop_exact_format f = {53, -1074, 64, UINT64_C(0x7ff) << 52};
    if (dtype == GOP_FLOAT32 || dtype == GOP_COMPLEX64) {
        f.digits = 24, f.least = -149, f.bits = 32, f.infinity = 0x7f800000;
    } else if (dtype == GOP_FLOAT16) {
        f.digits = 11, f.least = -24, f.bits = 16, f.infinity = 0x7c00;
    } else if (dtype == GOP_BFLOAT16) {
        f.digits = 8, f.least = -133, f.bits = 16, f.infinity = 0x7f80;
    }
    return f;
}

/* rest 2^32 + digit by a number above `rest`: the quotient, less than 2^32, and the rest. */
GOP_EXACT_FN uint64_t gop_exact_divide(uint64_t *rest, uint64_t digit, uint64_t by)
{
    if (by >> 32 == 0) {
        const uint64_t all = *rest << 32 | digit, quotient = all / by;
        *rest = all - quotient * by;
        return quotient;
    }
    uint64_t left = *rest, quotient = 0; /* below 2^63: there are no more terms */
    for (int bit = 31; bit >= 0; bit--) {
        left = left << 1 | (digit >> bit & 1);
        quotient = quotient << 1 | (left >= by);
        if (left >= by) left -= by;
    }
    *rest = left;
    return quotient;
}

/* The leading 64 bits of a number: its first bit is bit 63 of `top` and worth 2^exponent;
 * `more`: it has other bits behind. */
typedef struct gop_exact_leading {
    uint64_t top;
    int exponent, more;
} gop_exact_leading;

/* The leading bits of a number in carried words without signs, divided by `by`; 0 if all are 0.
 */
GOP_EXACT_FN gop_exact_leading gop_exact_lead(gop_exact_line line, uint64_t by)
{
    gop_exact_leading lead = {0, 0, 0};
    uint64_t digit[3] = {0, 0, 0}, rest = 0;
    int found = 0, i = line.words - 1;
    for (; i >= 0 && found < 3; i--) {
        uint64_t d = (uint64_t)line.word[i * line.stride];
        if (by > 1) d = gop_exact_divide(&rest, d, by);
        if (found == 0 && d == 0) continue;
        if (found == 0) lead.exponent = 32 * (line.first + i) + GOP_EXACT_LOW;
        digit[found++] = d;
    }
    lead.more = rest != 0;
    for (; i >= 0 && !lead.more; i--) lead.more = line.word[i * line.stride] != 0;
    if (found == 0) { /* of a quotient this is not reached: it is far above the last word */
        lead.exponent = 32 * line.first + GOP_EXACT_LOW - 1;
        return lead;
    }
    int length = 32;
    while (digit[0] >> (length - 1) == 0) length--;
    lead.exponent += length - 1;
    lead.top = (digit[0] << 32 | digit[1]) << (32 - length) | digit[2] >> length;
    lead.more |= (digit[2] << (32 - length) & 0xffffffff) != 0;
    return lead;
}

/* The number nearest to it, ties to even, as the format's bits without a sign. */
GOP_EXACT_FN uint64_t gop_exact_nearest(gop_exact_leading lead, gop_exact_format f)
{
    int unit = lead.exponent - f.digits + 1;
    if (unit < f.least) unit = f.least;
    const int drop = unit - (lead.exponent - 63); /* bits of `top` below a unit: 11 or more */
    if (drop > 64) return 0;
    const uint64_t half = UINT64_C(1) << (drop - 1);
    const uint64_t whole = drop == 64 ? 0 : lead.top >> drop;
    const uint64_t below = drop == 64 ? lead.top : lead.top & ((half << 1) - 1);
    const int up = below > half || (below == half && (lead.more || (whole & 1)));
    /* In units of its binade the bits count numbers; a carry goes on to the next binade. */
    const uint64_t bits = ((uint64_t)(unit - f.least) << (f.digits - 1)) + whole + (uint64_t)up;
    return bits < f.infinity ? bits : f.infinity;
}

/* The sum, over `by` if that is not 1, as bits of the format. The words are carried, and become
 * those of the magnitude. */
GOP_EXACT_FN uint64_t gop_exact_round(int64_t special, gop_exact_line line, uint64_t by,
                                      gop_exact_format f)
{
    const uint64_t sign = UINT64_C(1) << (f.bits - 1);
    const int both = GOP_EXACT_PLUS | GOP_EXACT_MINUS;
    if (by == 0 || (special & GOP_EXACT_NAN) || (special & both) == both)
        return f.infinity | UINT64_C(1) << (f.digits - 2);
    if (special) return special == GOP_EXACT_MINUS ? sign | f.infinity : f.infinity;
    const int minus = line.word[(line.words - 1) * line.stride] < 0;
    int64_t borrow = 0;
    for (int i = 0; i < line.words && minus; i++) {
        int64_t *const word = line.word + i * line.stride;
        const int64_t digit = borrow - *word;
        *word = i + 1 < line.words ? digit & 0xffffffff : digit;
        borrow = digit >> 32;
    }
    const gop_exact_leading lead = gop_exact_lead(line, by);
    if (lead.top == 0 && !lead.more) return 0; /* no sum of zeros is -0.0 */
    return gop_exact_nearest(lead, f) | (minus ? sign : 0);
}

/* Stores the bits of a number. */
GOP_EXACT_FN void gop_exact_store(void *to, uint64_t bits, int size)
{
    const uint32_t half = (uint32_t)bits;
    const uint16_t quarter = (uint16_t)bits;
    if (size == 64) __builtin_memcpy(to, &bits, 8);
    else if (size == 32) __builtin_memcpy(to, &half, 4);
    else __builtin_memcpy(to, &quarter, 2);
}

/* Finishes a sum: rounds it, with `initial`, the bits of a float64, or NULL. */
GOP_EXACT_FN uint64_t gop_exact_finish(int64_t special, gop_exact_line line, uint64_t by,
                                       const uint64_t *initial, gop_exact_format f)
{
    if (initial) {
        gop_exact_take(&special, line, *initial);
        gop_exact_carry(line);
    }
    return gop_exact_round(special, line, by, f);
}

#endif
