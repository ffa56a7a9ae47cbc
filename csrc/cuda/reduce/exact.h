/*
 * exact.h - the words of exact/v1 that a thread has to itself, in shared memory.
 *
 * Words of 64 bits, 32 bits apart, [word][thread]: the lanes of a warp never have bank
 * conflicts, whatever the exponents are. A term takes one or two additions: its significand
 * times 2^(e mod 32) to word e / 32. The rest of the 64 bits has room for the carries of OFTEN
 * terms.
 */
#ifndef GOP_CUDA_REDUCE_EXACT_H
#define GOP_CUDA_REDUCE_EXACT_H

#include "core/exact.h"
#include "cuda/reduce/arguments.h"

enum {
    OFTEN = 480, /* terms of a thread between two carries; with one batch more there are fewer
                    than 2^9, each below 2^55 */
    BRIEF_TERMS =
        240 /* terms of a sum without carries, so that a difference of words keeps its sign */
};

/* The digits of a sum that may not be 0; there are none if low is above high. */
struct exact_range {
    int low, high;
};

/* Floats, and halves as floats. Positive and negative ones have words of their own, each
 * without a sign: the upper four bits of a float are the number of its word. */
template <typename T_> struct exact_floats {
    typedef T_ T;
    typedef float term;
    enum {
        THREADS = 256,
        ROWS = 18,  /* 8 words of each sign, then the carries out of these */
        DIGITS = 9, /* words of a sum, of which word 0 is worth 2^(32 FIRST - 160 + LEFT) */
        FIRST = 0,
        LEFT = 10,
        LOADS = sizeof(T_) < 4 ? 2 : 4, /* of 16 bytes under way, twice */
        BINS = 0,
    };

    static GOP_DEVICE float read(const void *a, int64_t at, int)
    {
        return load(static_cast<const T *>(a)[at]);
    }

    static GOP_DEVICE void add(uint64_t *own, float x)
    {
        const uint32_t bits = gop_float_to_bits(x);
        uint32_t m = (bits & 0x7fffffu) | 0x800000u;
        if ((bits & 0x7f800000u) == 0) m = bits << 1; /* below the least normal number, or 0 */
        own[(bits >> 28) * THREADS] += (uint64_t)m * (1u << (bits >> 23 & 31));
    }

    static GOP_DEVICE void carry(uint64_t *own, exact_range &)
    {
#pragma unroll 1
        for (int side = 0; side < 2; side++) {
            uint64_t *word = own + side * 8 * THREADS, over = 0;
#pragma unroll
            for (int w = 0; w < 8; w++) {
                const uint64_t sum = word[w * THREADS] + over;
                word[w * THREADS] = sum & 0xffffffffu;
                over = sum >> 32;
            }
            own[(16 + side) * THREADS] += over;
        }
    }

    /* The row where the sums of word w are kept, and word w of a thread after carries. */
    static GOP_DEVICE int row(int w)
    {
        return w < 8 ? w : 16;
    }
    static GOP_DEVICE int64_t digit(const uint64_t *own, int w)
    {
        const int minus = w < 8 ? 8 + w : 17;
        return (int64_t)(own[row(w) * THREADS] - own[minus * THREADS]);
    }

    static GOP_DEVICE float suspect(float x, float sum)
    {
        return fmaf(x, 0.0f, sum);
    }
    static GOP_DEVICE int special(float x)
    {
        const uint32_t bits = gop_float_to_bits(x), size = bits & 0x7fffffffu;
        if (size < 0x7f800000u) return 0;
        return size > 0x7f800000u ? GOP_EXACT_NAN
               : bits >> 31       ? GOP_EXACT_MINUS
                                  : GOP_EXACT_PLUS;
    }
};

/* Doubles: two neighbouring words a term, with signs. */
struct exact_doubles {
    typedef double T;
    typedef double term;
    enum { THREADS = 64, ROWS = 67, DIGITS = 67, FIRST = 0, LEFT = 13, LOADS = 8, BINS = 3 };

    static GOP_DEVICE uint32_t upper(double x)
    {
        uint64_t bits;
        __builtin_memcpy(&bits, &x, 8);
        return (uint32_t)(bits >> 32);
    }
    static GOP_DEVICE double read(const void *a, int64_t at, int)
    {
        return static_cast<const double *>(a)[at];
    }

    static GOP_DEVICE void add(uint64_t *own, double x, exact_range &range)
    {
        uint64_t bits;
        __builtin_memcpy(&bits, &x, 8);
        const uint32_t high = (uint32_t)(bits >> 32), low = (uint32_t)bits;
        uint32_t upper = (high & 0xfffffu) | 0x100000u, lower = low;
        if ((high & 0x7ff00000u) == 0) {
            upper = high << 1 | low >> 31;
            lower = low << 1;
        }
        const uint32_t p = 1u << (high >> 20 & 31);
        const uint64_t first = (uint64_t)lower * p, next = (uint64_t)upper * p + (first >> 32);
        const uint64_t sign = (uint64_t)((int64_t)bits >> 63);
        const int word = (int)(high >> 25 & 63);
        uint64_t *const at = own + word * THREADS;
        at[0] += ((first & 0xffffffffu) ^ sign) - sign;
        at[THREADS] += (next ^ sign) - sign;
        range.low = word < range.low ? word : range.low;
        range.high = word + 1 > range.high ? word + 1 : range.high;
    }

    /* Carries. The highest digit has the sign; if it exceeds 32 bits, one more follows. */
    static GOP_DEVICE void carry(uint64_t *own, exact_range &range)
    {
        if (range.low > range.high) return;
        int64_t over = 0;
#pragma unroll 1
        for (int w = range.low; w < range.high; w++) {
            const int64_t sum = (int64_t)own[w * THREADS] + over;
            own[w * THREADS] = (uint64_t)sum & 0xffffffffu;
            over = sum >> 32;
        }
        const int64_t top = (int64_t)own[range.high * THREADS] + over;
        const bool fits = range.high == ROWS - 1 || (int64_t)(int32_t)top == top;
        own[range.high * THREADS] = (uint64_t)(fits ? top : top & 0xffffffff);
        if (!fits) own[++range.high * THREADS] = (uint64_t)(top >> 32);
    }

    static GOP_DEVICE int row(int w)
    {
        return w;
    }
    static GOP_DEVICE int64_t digit(const uint64_t *own, int w)
    {
        return (int64_t)own[w * THREADS];
    }
    static GOP_DEVICE int special(double x)
    {
        uint64_t bits;
        __builtin_memcpy(&bits, &x, 8);
        return gop_exact_special(bits);
    }
};

/* Integers, for means only (sums are exact anyway): two halves and the carry. One kernel takes
 * items of any size, since this is rare. */
struct exact_whole {
    typedef uint8_t T;
    struct term { /* 2^32 high + low */
        uint32_t low;
        int64_t high;
    };
    enum {
        THREADS = 256,
        ROWS = 3,
        DIGITS = 3,
        FIRST = -GOP_EXACT_LOW / 32 - GOP_EXACT_FIRST,
        LEFT = 0,
        LOADS = 4,
        BINS = 0,
    };

    template <typename I> static GOP_DEVICE term of(const void *a, int64_t at)
    {
        const I x = static_cast<const I *>(a)[at];
        if (sizeof(I) < 8) return {(uint32_t)x, (int64_t)x >> 32};
        return {(uint32_t)x, I(-1) < I(0) ? (int64_t)x >> 32 : (int64_t)((uint64_t)x >> 32)};
    }
    static GOP_DEVICE term read(const void *a, int64_t at, int dtype)
    {
        switch (dtype) {
        case GOP_BOOL:
            return {static_cast<const uint8_t *>(a)[at] != 0, 0};
        case GOP_INT8:
            return of<int8_t>(a, at);
        case GOP_INT16:
            return of<int16_t>(a, at);
        case GOP_INT32:
            return of<int32_t>(a, at);
        case GOP_INT64:
            return of<int64_t>(a, at);
        case GOP_UINT8:
            return of<uint8_t>(a, at);
        case GOP_UINT16:
            return of<uint16_t>(a, at);
        case GOP_UINT32:
            return of<uint32_t>(a, at);
        default:
            return of<uint64_t>(a, at);
        }
    }

    static GOP_DEVICE void add(uint64_t *own, term x)
    {
        own[0] += x.low;
        own[THREADS] += (uint64_t)x.high;
    }
    static GOP_DEVICE void carry(uint64_t *own, exact_range &)
    {
        const uint64_t sum = own[THREADS] + (own[0] >> 32);
        own[0] &= 0xffffffffu;
        own[THREADS] = sum & 0xffffffffu;
        own[2 * THREADS] += (uint64_t)((int64_t)sum >> 32);
    }
    static GOP_DEVICE int row(int w) { return w; }
    static GOP_DEVICE int64_t digit(const uint64_t *own, int w)
    {
        return (int64_t)own[w * THREADS];
    }
    static GOP_DEVICE float suspect(term, float sum) { return sum; }
    static GOP_DEVICE int special(term) { return 0; }
};

#endif
