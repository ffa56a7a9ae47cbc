/*
 * halves.h - two halves in a register, added and multiplied by one instruction.
 *
 * It rounds once, where element.h rounds to float32 first; the bits are the same. A product of
 * halves is exact in float32, except for bits too small to change the rounding to a half, and a
 * sum rounded to that many more bits first rounds to the same half (docs/numerics.md). fma is
 * different and has no pairs.
 */
#ifndef GOP_CUDA_ADD_HALVES_H
#define GOP_CUDA_ADD_HALVES_H

#include "cuda/add/element.h"

template <typename T> struct pair {
    uint32_t bits;
};

/* The type in which an operation computes elements of type T: pairs if the GPU has the
 * instruction. */
template <typename Op, typename T> struct computed_as {
    typedef T type;
};

#if defined(__CUDA_ARCH__)
template <> struct computed_as<op_add, float16> {
    typedef pair<float16> type;
};
template <> struct computed_as<op_multiply_add, float16> {
    typedef pair<float16> type;
};
GOP_DEVICE pair<float16> fused(pair<float16> a, pair<float16> b, pair<float16> c)
{
    asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a.bits) : "r"(b.bits), "r"(c.bits));
    return a;
}

/* A sum is a*1 + b, a product a*b + -0: rounding and signs of zeros are the same. */
GOP_DEVICE pair<float16> plus(pair<float16> a, pair<float16> b)
{
    return fused(a, {0x3c003c00u}, b);
}
GOP_DEVICE pair<float16> times(pair<float16> a, pair<float16> b)
{
    return fused(a, b, {0x80008000u});
}

#if __CUDA_ARCH__ >= 800
template <> struct computed_as<op_add, bfloat16> {
    typedef pair<bfloat16> type;
};
template <> struct computed_as<op_multiply_add, bfloat16> {
    typedef pair<bfloat16> type;
};
GOP_DEVICE pair<bfloat16> fused(pair<bfloat16> a, pair<bfloat16> b, pair<bfloat16> c)
{
    asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(a.bits) : "r"(b.bits), "r"(c.bits));
    return a;
}
GOP_DEVICE pair<bfloat16> plus(pair<bfloat16> a, pair<bfloat16> b)
{
    return fused(a, {0x3f803f80u}, b);
}
GOP_DEVICE pair<bfloat16> times(pair<bfloat16> a, pair<bfloat16> b)
{
    return fused(a, b, {0x80008000u});
}
#endif
#endif

#endif
