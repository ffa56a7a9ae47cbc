/*
 * element.h - one element of add, multiply_add and fma, and what their kernels share.
 */
#ifdef D

#if IS_COMPLEX

static inline T FN(add_one)(T a, T b)
{
    return (T){a.re + b.re, a.im + b.im};
}

/* It negates a.im instead of subtracting, with the same result: GCC 12 fuses multiplications
 * with an alternating minus and plus in spite of -ffp-contract=off (its bug 107647). */
static inline T FN(multiply_add_one)(T a, T b, T c)
{
    const A turned = {-a.im, a.im};
    return (T){(a.re * b.re + turned.re * b.im) + c.re,
               (a.re * b.im + turned.im * b.re) + c.im};
}

#elif IS_BOOL

static inline T FN(add_one)(T a, T b)
{
    return STORE(LOAD(a) | LOAD(b));
}

static inline T FN(multiply_add_one)(T a, T b, T c)
{
    return STORE((LOAD(a) & LOAD(b)) | LOAD(c));
}

#elif IS_INT

/* It computes unsigned, so that overflow wraps, and in at least 32 bits, because C widens
 * shorter types to (signed) int. */
static inline T FN(add_one)(T a, T b)
{
    return sizeof(T) == 8 ? (T)((uint64_t)a + (uint64_t)b) : (T)((uint32_t)a + (uint32_t)b);
}

static inline T FN(multiply_add_one)(T a, T b, T c)
{
    return sizeof(T) == 8 ? (T)((uint64_t)a * (uint64_t)b + (uint64_t)c)
                          : (T)((uint32_t)a * (uint32_t)b + (uint32_t)c);
}

#else

static inline T FN(add_one)(T a, T b)
{
    return STORE(LOAD(a) + LOAD(b));
}

/* The product is rounded to the dtype, then the sum, as in NumPy's a*b + c. */
static inline T FN(multiply_add_one)(T a, T b, T c)
{
    const T product = STORE(LOAD(a) * LOAD(b));
    return STORE(LOAD(product) + LOAD(c));
}

#if IS_HALF
/* The product of two halves is exact in double. Every rounding except the last is to odd. */
static inline T FN(fma_one)(T a, T b, T c)
{
    return STORE(gop_float_to_odd(gop_fma_to_odd(LOAD(a), LOAD(b), LOAD(c))));
}
#else
static inline T FN(fma_one)(T a, T b, T c)
{
    return sizeof(T) == 4 ? (T)fmaf((float)a, (float)b, (float)c) : (T)fma(a, b, c);
}
#endif
#endif

#elif !defined(GOP_CPU_ADD_ELEMENT_H)
#define GOP_CPU_ADD_ELEMENT_H

#include "cpu/runtime/cpu.h"
#include "cpu/runtime/stream.h"

#define GOP_TPL "cpu/add/element.h"
#include "cpu/runtime/each_dtype.inc"

/* X(op) for each operation that the dtype D has. */
#define EACH_OP(X) X(add) X(multiply_add) GOP_PASTE(FMA_OF_KIND, GOP_PASTE(GOP_KIND, D))(X)
#define FMA_OF_KIND_1(X)
#define FMA_OF_KIND_2(X)
#define FMA_OF_KIND_3(X) X(fma)
#define FMA_OF_KIND_4(X)

/* The rows of a kernel: <op>_<kernel>_row for the launches <op>_<kernel>. */
#define ADD_ROWS(kernel, ...)                                                                  \
    static const gop_row add_##kernel##_row = {                                                \
        .name = #kernel, .launch = GOP_FN_ALL(add_##kernel), __VA_ARGS__};                     \
    static const gop_row multiply_add_##kernel##_row = {                                       \
        .name = #kernel, .launch = GOP_FN_ALL(multiply_add_##kernel), __VA_ARGS__};            \
    static const gop_row fma_##kernel##_row = {                                                \
        .name = #kernel, .launch = GOP_FN_FLOATS(fma_##kernel), __VA_ARGS__}

/* Fills `at` with the output, then the inputs. */
static void operands(const gop_task *task, void *at[4])
{
    at[0] = task->out[0].data;
    for (int k = 1; k < 4; k++) at[k] = k <= task->nin ? task->in[k - 1].data : NULL;
}

#endif
