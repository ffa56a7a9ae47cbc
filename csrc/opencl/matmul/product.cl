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

/* A number as sums have it and back; sum + a b, of real numbers or parts. */
#if defined(HALF) || defined(BFLOAT)
#define widened(x) widen(x)
#define rounded(sum) narrow(sum)
#define add_product(a, b, sum) fma(a, b, sum)
#elif defined(BOOLEAN)
#define widened(x) CONVERT(uint)((x) != (V)0 ? (V)1 : (V)0)
#define rounded(sum) OF(JOIN(convert_, BASE))(sum)
#define add_product(a, b, sum) ((sum) | ((a) & (b)))
#elif defined(INTEGER)
#define widened(x) OF(JOIN(convert_, SUM))(x)
#define rounded(sum) OF(JOIN(convert_, BASE))(sum)
#define add_product(a, b, sum) ((sum) + (a) * (b))
#else
#define widened(x) (x)
#define rounded(sum) (sum)
#define add_product(a, b, sum) fma(a, b, sum)
#endif

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
