/*
 * packed.h - CUDA's functions of words that hold two halfwords or four bytes: __vadd2, __vadd4.
 */
#ifndef GOP_CUDA_PACKED_H
#define GOP_CUDA_PACKED_H

/* A word whose parts are `value`, of the parts a and b of two words. */
#define GOP_SIM_PACKED(name, type, value)                                                      \
    GOP_DEVICE unsigned name(unsigned x, unsigned y)                                           \
    {                                                                                          \
        const int bits = 8 * (int)sizeof(type);                                                \
        unsigned made = 0;                                                                     \
        for (int at = 0; at < 32; at += bits) {                                                \
            const int a = (type)(x >> at), b = (type)(y >> at);                                \
            made |= ((unsigned)(value) & ~0u >> (32 - bits)) << at;                            \
        }                                                                                      \
        return made;                                                                           \
    }
#define GOP_SIM_PACKED_OF_ONE(name, type, value)                                               \
    GOP_SIM_PACKED(gop_sim##name, type, value)                                                 \
    GOP_DEVICE unsigned name(unsigned x)                                                       \
    {                                                                                          \
        return gop_sim##name(x, 0);                                                            \
    }
#define GOP_SIM_SUM_OF_PARTS(name, type)                                                       \
    GOP_DEVICE unsigned name(unsigned x, unsigned y)                                           \
    {                                                                                          \
        unsigned sum = 0;                                                                      \
        for (int at = 0; at < 32; at += 8 * (int)sizeof(type)) {                               \
            const int a = (type)(x >> at), b = (type)(y >> at);                                \
            sum += (unsigned)(a < b ? b - a : a - b);                                          \
        }                                                                                      \
        return sum;                                                                            \
    }
/* A comparison sets all bits of a part (__vcmpeq2), or its lowest one (__vseteq2). */
#define GOP_SIM_PACKED_COMPARED(parts, relation, type, symbol)                                 \
    GOP_SIM_PACKED(__vcmp##relation##parts, type, a symbol b ? -1 : 0)                         \
    GOP_SIM_PACKED(__vset##relation##parts, type, a symbol b ? 1 : 0)
#define GOP_SIM_AT_MOST(value, most) ((value) > (most) ? (most) : (value))
#define GOP_SIM_AT_LEAST(value, least) ((value) < (least) ? (least) : (value))
#define GOP_SIM_WITHIN(value, end) GOP_SIM_AT_LEAST(GOP_SIM_AT_MOST(value, end - 1), -end)

#define GOP_SIM_PACKED_WORDS(parts, S, U, end)                                                 \
    GOP_SIM_PACKED(__vadd##parts, U, a + b)                                                    \
    GOP_SIM_PACKED(__vaddss##parts, S, GOP_SIM_WITHIN(a + b, end))                             \
    GOP_SIM_PACKED(__vaddus##parts, U, GOP_SIM_AT_MOST(a + b, 2 * end - 1))                    \
    GOP_SIM_PACKED(__vsub##parts, U, a - b)                                                    \
    GOP_SIM_PACKED(__vsubss##parts, S, GOP_SIM_WITHIN(a - b, end))                             \
    GOP_SIM_PACKED(__vsubus##parts, U, GOP_SIM_AT_LEAST(a - b, 0))                             \
    GOP_SIM_PACKED(__vabsdiffs##parts, S, a < b ? b - a : a - b)                               \
    GOP_SIM_PACKED(__vabsdiffu##parts, U, a < b ? b - a : a - b)                               \
    GOP_SIM_PACKED(__vavgs##parts, S, (a + b + (a + b >= 0)) >> 1) /* halves: from zero */     \
    GOP_SIM_PACKED(__vavgu##parts, U, (a + b + 1) >> 1)                                        \
    GOP_SIM_PACKED(__vhaddu##parts, U, (a + b) >> 1)                                           \
    GOP_SIM_PACKED(__vmaxs##parts, S, a < b ? b : a)                                           \
    GOP_SIM_PACKED(__vmaxu##parts, U, a < b ? b : a)                                           \
    GOP_SIM_PACKED(__vmins##parts, S, b < a ? b : a)                                           \
    GOP_SIM_PACKED(__vminu##parts, U, b < a ? b : a)                                           \
    GOP_SIM_PACKED_OF_ONE(__vabs##parts, S, a < b ? -a : a)                                    \
    GOP_SIM_PACKED_OF_ONE(__vabsss##parts, S, GOP_SIM_AT_MOST(a < b ? -a : a, end - 1))        \
    GOP_SIM_PACKED_OF_ONE(__vneg##parts, S, b - a)                                             \
    GOP_SIM_PACKED_OF_ONE(__vnegss##parts, S, GOP_SIM_AT_MOST(b - a, end - 1))                 \
    GOP_SIM_SUM_OF_PARTS(__vsads##parts, S)                                                    \
    GOP_SIM_SUM_OF_PARTS(__vsadu##parts, U)                                                    \
    GOP_SIM_PACKED_COMPARED(parts, eq, U, ==)                                                  \
    GOP_SIM_PACKED_COMPARED(parts, ne, U, !=)                                                  \
    GOP_SIM_PACKED_COMPARED(parts, ges, S, >=)                                                 \
    GOP_SIM_PACKED_COMPARED(parts, geu, U, >=)                                                 \
    GOP_SIM_PACKED_COMPARED(parts, gts, S, >)                                                  \
    GOP_SIM_PACKED_COMPARED(parts, gtu, U, >)                                                  \
    GOP_SIM_PACKED_COMPARED(parts, les, S, <=)                                                 \
    GOP_SIM_PACKED_COMPARED(parts, leu, U, <=)                                                 \
    GOP_SIM_PACKED_COMPARED(parts, lts, S, <)                                                  \
    GOP_SIM_PACKED_COMPARED(parts, ltu, U, <)
GOP_SIM_PACKED_WORDS(2, short, unsigned short, 32768)
GOP_SIM_PACKED_WORDS(4, signed char, unsigned char, 128)

/* c and the products of the halfwords of a and the lower or upper bytes of b. */
#define GOP_SIM_DOT_HALVES(type, half, byte, part, first)                                      \
    GOP_DEVICE type __dp2a_##part(type a, type b, type c)                                      \
    {                                                                                          \
        return c + (half)a * (byte)(b >> first) + (half)(a >> 16) * (byte)(b >> (first + 8));  \
    }
GOP_SIM_DOT_HALVES(int, short, signed char, lo, 0)
GOP_SIM_DOT_HALVES(int, short, signed char, hi, 16)
GOP_SIM_DOT_HALVES(unsigned, unsigned short, unsigned char, lo, 0)
GOP_SIM_DOT_HALVES(unsigned, unsigned short, unsigned char, hi, 16)

/* The place of the n-th bit that is set, from `base` upwards, or downwards if n is negative;
 * with n = 0 `base` itself, if that bit is set. */
GOP_DEVICE unsigned __fns(unsigned mask, unsigned base, int n)
{
    int left = n < 0 ? -n : n ? n : 1;
    for (unsigned at = base; at < 32; at += n < 0 ? -1 : 1) {
        if (mask >> at & 1 && --left == 0) return at;
        if (n == 0) break;
    }
    return 0xffffffff;
}

#define GOP_SIM_NAMED_EXTREMES(min_, max_, type)                                               \
    GOP_DEVICE type min_(type a, type b)                                                       \
    {                                                                                          \
        return b < a ? b : a;                                                                  \
    }                                                                                          \
    GOP_DEVICE type max_(type a, type b)                                                       \
    {                                                                                          \
        return a < b ? b : a;                                                                  \
    }
GOP_SIM_NAMED_EXTREMES(umin, umax, unsigned)
GOP_SIM_NAMED_EXTREMES(llmin, llmax, long long)
GOP_SIM_NAMED_EXTREMES(ullmin, ullmax, unsigned long long)

#endif
