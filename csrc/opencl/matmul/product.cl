/*
 * product.cl - the product of two numbers and where matrices lie.
 *
 * Defined by the build: BASE, the type of a number's parts, integers without a sign; LANES of
 * them in V (opencl/vector.cl); SUM, the type in which they are added; and what a number is,
 * one of BOOLEAN, INTEGER, HALF, BFLOAT, FLOAT and COMPLEX (two parts: real, imaginary). Every
 * sum is a loop of fused multiply-adds in the order of l, whichever kernel forms it.
 */
#ifndef PRODUCT_CL
#define PRODUCT_CL

#include "opencl/halves.cl"

#define S OF(SUM)
#define AXES 24

/* Of gop_cl_product and gop_cl_product_part (opencl/matmul/product.h). */
struct product {
    long m, n, k, a_row, a_col, b_row, b_col, out_row, out_col, rank;
    long extent[AXES], a[AXES], b[AXES], out[AXES];
};
struct part {
    long batch, batches, row, rows, column, columns;
};

#define OPERANDS                                                                               \
    __global BASE *out, long out_at, __global const BASE *a, long a_at,                        \
        __global const BASE *b, long b_at

struct at {
    long a, b, out;
};

/* Where the matrices of a batch begin. */
static struct at batch_at(const struct product *p, long number)
{
    struct at at = {0, 0, 0};
    for (int d = (int)p->rank - 1; d >= 0; d--) {
        const long x = number % p->extent[d];
        number /= p->extent[d];
        at.a += x * p->a[d];
        at.b += x * p->b[d];
        at.out += x * p->out[d];
    }
    return at;
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

#endif
