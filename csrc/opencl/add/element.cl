/*
 * element.cl - the arithmetic of add, multiply_add and fma on V (opencl/vector.cl).
 *
 * Defined by the build: BASE and LANES, what is added, and the operation, one of OP_add,
 * OP_multiply_add and OP_fma. Each result is rounded as docs/numerics.md says. Integers come
 * without a sign, and wrap.
 */
#include "opencl/halves.cl"

#define ITEMS (LANES / PARTS) /* numbers in V */
#define OPERANDS TO(BASE, out), FROM(BASE, a), FROM(BASE, b), FROM(BASE, c)

#if defined(BOOLEAN)
#define plus(a, b) (((a) | (b)) != (V)(0) ? (V)(1) : (V)(0))
#define times(a, b) ((((a) != (V)(0)) & ((b) != (V)(0))) ? (V)(1) : (V)(0))
#elif defined(HALF) || defined(BFLOAT)
#define plus(a, b) narrow(widen(a) + widen(b))
#define times(a, b) narrow(widen(a) * widen(b))
#else
#define plus(a, b) ((V)((a) + (b)))
#if defined(INTEGER) && LANES == 1 /* C widens a short one to int, which would overflow */
#define times(a, b) ((V)((ulong)(a) * (b)))
#elif !defined(COMPLEX)
#define times(a, b) ((a) * (b))
#elif defined(OP_multiply_add)
static V times(V a, V b)
{
    V product = (V)(0);
    product.even = a.even * b.even - a.odd * b.odd;
    product.odd = a.even * b.odd + a.odd * b.even;
    return product;
}
#endif
#endif

#if defined(OP_fma) && (defined(HALF) || defined(BFLOAT))
/* Every rounding but the last is to odd: docs/numerics.md, "Halves". */
static OF(double) fma_to_odd(OF(double) a, OF(double) b, OF(double) c)
{
    const OF(double) product = a * b, sum = product + c;
    const OF(double) c_part = sum - product;
    const OF(double) error = (product - (sum - c_part)) + (c - c_part);
    const OF(ulong) bits = AS(ulong)(sum);
    const OF(ulong) next = (error > 0.0) == (sum > 0.0) ? bits + 1ul : bits - 1ul;
    /* Inexact, finite, even: a step towards the error. */
    const OF(ulong) odd = (bits & 1ul) == 0ul ? next : bits;
    const OF(ulong) finite = error - error == 0.0 ? odd : bits;
    return AS(double)(error != 0.0 ? finite : bits);
}

static OF(float) float_to_odd(OF(double) value)
{
    const OF(float) near = CONVERT(float)(value);
    const OF(double) back = CONVERT(double)(near);
    const OF(uint) bits = AS(uint)(near);
    const OF(int) is_near = CONVERT(int)((back != value) & (value == value));
    const OF(int) is_short = CONVERT(int)(fabs(value) > fabs(back));
    const OF(uint) next = is_short ? bits + 1u : bits - 1u;
    const OF(uint) odd = (bits & 1u) == 0u ? next : bits;
    return AS(float)(is_near ? odd : bits);
}
#endif

static V of_three(V a, V b, V c)
{
#if defined(OP_add)
    return plus(a, b);
#elif defined(OP_multiply_add)
    return plus(times(a, b), c);
#elif defined(HALF) || defined(BFLOAT)
    return narrow(float_to_odd(fma_to_odd(CONVERT(double)(widen(a)), CONVERT(double)(widen(b)),
                                          CONVERT(double)(widen(c)))));
#else
    return fma(a, b, c);
#endif
}
