/*
 * product.cl - the product of two numbers and where matrices lie.
 *
 * Defined by the build: what a number is (opencl/vector.cl), BASE, of integers without a sign,
 * LANES, and SUM, the type in which they are added. Every sum is a loop of fused multiply-adds
 * in the order of l, whichever kernel forms it.
 */
#include "opencl/halves.cl"

#define S OF(SUM)
#define INDEX ulong
#define OPERANDS_TOLD 3
#include "opencl/axes.cl"

#define OPERANDS TO(BASE, out), FROM(BASE, a), FROM(BASE, b)

struct at {
    long out, a, b;
};

/* Where the matrices of a batch begin, of those that the launch has. */
static struct at batch_at(const struct product *p, long number)
{
    long at[3] = {0, 0, 0};
    place(&p->batch, 0, (int)p->batch.rank, p->first + number, 3, at);
    return (struct at){at[0], at[1], at[2]};
}

/* ---- numbers ---- */

static S widened(V x)
{
#if defined(HALF) || defined(BFLOAT)
    return widen(x);
#elif defined(BOOLEAN)
    return CONVERT(uint)(x != (V)0 ? (V)1 : (V)0);
#elif defined(INTEGER)
    return OF(JOIN(convert_, SUM))(x);
#else
    return x;
#endif
}

static V rounded(S sum)
{
#if defined(HALF) || defined(BFLOAT)
    return narrow(sum);
#elif defined(BOOLEAN) || defined(INTEGER)
    return OF(JOIN(convert_, BASE))(sum);
#else
    return sum;
#endif
}

/* sum + a b, of real numbers or parts. */
static S add_product(S a, S b, S sum)
{
#if defined(BOOLEAN)
    return sum | (a & b);
#elif defined(INTEGER)
    return sum + a * b;
#else
    return fma(a, b, sum);
#endif
}

#if LANES == PARTS
/* The same of whole numbers. */
static S accumulate(S a, S b, S sum)
{
#if defined(COMPLEX)
    sum = fma((S)a.s0, b, sum);
    return fma((S)(-a.s1, a.s1), b.s10, sum);
#else
    return add_product(a, b, sum);
#endif
}
#endif
