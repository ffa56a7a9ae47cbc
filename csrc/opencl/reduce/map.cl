/*
 * map.cl - what a reduction is made of: elements become accumulators, accumulators fold.
 *
 * Defined by the build: what an element is (opencl/vector.cl), and BASE, the type of its
 * numbers; ITEMS, how many elements go side by side, LANES numbers; ACC, the type of an
 * accumulator's numbers, RLANES of them; and what is made, one of TOTAL (sums and means), PROD,
 * SQUARES;
 *   EXTREME and TRUTH: the least of keys, integers in the order of the elements;
 *   BEST: the least key and where it is, one element at a time.
 */
#include "opencl/halves.cl"

#if defined(COMPLEX) && (defined(TOTAL) || defined(PROD))
#define PAIRS 2 /* numbers of an accumulator */
#else
#define PAIRS 1
#endif

enum {
    FLIP = 1,  /* a maximum: the minimum of complemented keys; any: of complemented truth */
    VALUE = 2, /* -0 and +0 are one value, as positions want it */
};

#define KEYS WIDE(ITEMS, ACC)
#define TO_KEYS WIDE(ITEMS, JOIN(convert_, ACC))
#define AS_KEYS WIDE(ITEMS, JOIN(as_, ACC))
#define SIGN ((ACC)1 << (8 * (int)sizeof(ACC) - 1))
#define MOST ((ACC)~SIGN)

/* Of floats, as keys and bits have them. */
#if defined(HALF)
#define INFINITE 0x7c00
#define NOT_A_NUMBER 0x7e00
#elif defined(BFLOAT)
#define INFINITE 0x7f80
#define NOT_A_NUMBER 0x7fc0
#else
#define NOT_A_NUMBER (sizeof(ACC) == 8 ? 0x7ff8000000000000 : 0x7fc00000)
#endif

/* ---- keys; a NaN is the least of all, whatever the flags ---- */

#if defined(EXTREME) || defined(BEST)
static KEYS key_of(WIDE(ITEMS, BASE) x, int flags)
{
    const KEYS flip = (KEYS)(-(ACC)(flags & FLIP));
#if defined(BOOLEAN)
    return TO_KEYS(x) != (KEYS)0 ? (KEYS)1 ^ flip : flip;
#elif defined(SIGNED)
    return TO_KEYS(x) ^ flip;
#elif defined(UNSIGNED)
    return TO_KEYS(x) ^ (KEYS)(sizeof(BASE) == sizeof(ACC) ? SIGN : 0) ^ flip;
#elif defined(HALF) || defined(BFLOAT)
    const KEYS magnitude = TO_KEYS(x) & 0x7fff;
    KEYS bits = TO_KEYS(x) << 16 >> 16;
    bits = (flags & VALUE ? magnitude : (KEYS)1) == (KEYS)0 ? (KEYS)0 : bits;
    const KEYS key = bits ^ (bits >> 31 & 0x7fff) ^ flip;
    return magnitude > (KEYS)INFINITE ? (KEYS)SIGN : key;
#else
    const KEYS bits = AS_KEYS(x + (BASE)(flags & VALUE ? 0.0f : -0.0f)); /* -0 + 0 is +0 */
    const KEYS key = bits ^ (bits >> (int)(8 * sizeof(ACC) - 1) & (KEYS)MOST) ^ flip;
    return x != x ? (KEYS)SIGN : key;
#endif
}
#endif

#if defined(EXTREME)
static BASE from_key(ACC key, int flags)
{
    const ACC bits = key ^ -(ACC)(flags & FLIP);
#if defined(BOOLEAN) || defined(SIGNED)
    return (BASE)bits;
#elif defined(UNSIGNED)
    return (BASE)(bits ^ (sizeof(BASE) == sizeof(ACC) ? SIGN : 0));
#elif defined(HALF) || defined(BFLOAT)
    return (BASE)(key == SIGN ? NOT_A_NUMBER : bits ^ (bits < 0 ? 0x7fff : 0));
#else
    return JOIN(as_, BASE)(key == SIGN ? (ACC)NOT_A_NUMBER : bits ^ (bits < 0 ? MOST : 0));
#endif
}
#endif

/* ---- accumulators: R of ITEMS elements, ONE of one; NOTHING changes nothing ---- */

#if defined(BEST)
typedef struct best {
    ACC key;
#if defined(COMPLEX)
    ACC low; /* of the imaginary part */
#endif
    long k; /* LONG_MAX: none */
} best;
#define R best
#define ONE best
static int is_less(best a, best b)
{
#if defined(COMPLEX)
    if (a.key == b.key && a.low != b.low) return a.low < b.low;
#endif
    return a.key != b.key ? a.key < b.key : a.k < b.k;
}
#if defined(COMPLEX)
#define NOTHING {MOST, MOST, LONG_MAX}
#else
#define NOTHING {MOST, LONG_MAX}
#endif
#define FOLD(T) return is_less(b, a) ? b : a;
#else
#define R WIDE(RLANES, ACC)
#define ONE WIDE(PAIRS, ACC)
#if defined(EXTREME) || defined(TRUTH)
#define NOTHING (R)MOST
#define FOLD(T) return b < a ? b : a;
#elif defined(PROD) && defined(COMPLEX)
#define NOTHING (R)1 /* but for imaginary parts */
/* A factor of 1 + 0i or 1 - 0i changes nothing, infinities included, and 1 + 0i no sign of a
 * zero either: so it does not matter where a product is padded. */
#define FOLD(T)                                                                                \
    T out = a;                                                                                 \
    out.even =                                                                                 \
        b.even == 1 && b.odd == 0                                                              \
            ? a.even                                                                           \
            : (a.even == 1 && a.odd == 0 ? b.even : a.even * b.even + (-a.odd) * b.odd);       \
    out.odd = b.even == 1 && b.odd == 0                                                        \
                  ? (a.even == 1 && a.odd == 0 ? -(-a.odd - b.odd) : a.odd)                    \
                  : (a.even == 1 && a.odd == 0 ? b.odd : a.even * b.odd + a.odd * b.even);     \
    return out;
#elif defined(PROD)
#define NOTHING (R)1
#define FOLD(T) return a * b;
#else
#if defined(WHOLE)
#define NOTHING (R)0
#else
#define NOTHING (R)(-0.0f) /* +0.0 would change -0.0 */
#endif
#define FOLD(T) return a + b;
#endif
#endif

static R none(void)
{
    R nothing = NOTHING;
#if defined(PROD) && defined(COMPLEX)
    nothing.odd = 0;
#endif
    return nothing;
}

/* k: of BEST, the element's position. */
static R of(V x, long k, int flags)
{
#if defined(BEST) && defined(COMPLEX)
    const int is_nan = x.s0 != x.s0 || x.s1 != x.s1;
    return (best){is_nan ? SIGN : key_of(x.s0, flags), is_nan ? SIGN : key_of(x.s1, flags),
                    k};
#elif defined(BEST)
    return (best){key_of(x, flags), k};
#elif defined(EXTREME)
    return key_of(x, flags);
#elif defined(TRUTH)
#if defined(COMPLEX)
    const V size = fabs(x);
    const KEYS bits = AS_KEYS(size.even) | AS_KEYS(size.odd);
#elif defined(FLOAT)
    const KEYS bits = AS_KEYS(fabs(x));
#elif defined(HALF) || defined(BFLOAT)
    const KEYS bits = TO_KEYS(x & (V)0x7fff);
#else
    const KEYS bits = TO_KEYS(x);
#endif
    return (bits != (KEYS)0 ? (KEYS)1 : (KEYS)0) ^ (KEYS)(flags & FLIP);
#else /* sums, products, squares */
#if defined(BOOLEAN)
    x = x != (V)0 ? (V)1 : (V)0;
#endif
#if defined(HALF) || defined(BFLOAT)
    const R r = widen(x);
#elif defined(WHOLE)
    const R r = AS(ulong)(CONVERT(long)(x));
#elif defined(BOOLEAN) || defined(SIGNED) || defined(UNSIGNED)
    const R r = CONVERT(double)(x);
#else
    const V r = x;
#endif
#if defined(SQUARES) && defined(COMPLEX)
    return r.even * r.even + r.odd * r.odd;
#elif defined(SQUARES)
    return r * r;
#else
    return r;
#endif
#endif
}

static ONE fold_one(ONE a, ONE b)
{
    FOLD(ONE)
}
#if ITEMS == 1
#define fold fold_one
#else
static R fold(R a, R b)
{
    FOLD(R)
}
#endif

#if !defined(NODE)
#define NODE ONE
#define FOLD_NODES(a, b) fold_one(a, b)
#endif
#include "opencl/tree.cl"
