/*
 * cuda_fp16.h - float16 for kernels that Python compiles: __half and its operations.
 *
 * A sum, difference, product or quotient of two halves is computed as floats and rounded to
 * half. With 24 bits, the second rounding gives the same half as a single rounding.
 */
#ifndef GOP_SIM_CUDA_FP16_H
#define GOP_SIM_CUDA_FP16_H

#include "cuda/launch.h"

struct __half {
    uint16_t bits;
    __half() = default;
    GOP_DEVICE __half(float value) : bits(gop_f16_store(value)) {}
    GOP_DEVICE __half(double value) : bits(gop_f16_store(gop_float_to_odd(value))) {}
    GOP_DEVICE __half(int value) : __half((double)value) {}
    GOP_DEVICE operator float() const { return gop_f16_load(bits); }
};
typedef __half half;

GOP_DEVICE float __half2float(__half a)
{
    return gop_f16_load(a.bits);
}
GOP_DEVICE __half __float2half(float a)
{
    return __half(a);
}
GOP_DEVICE __half __float2half_rn(float a)
{
    return __half(a);
}

#define GOP_SIM_HALF(function, symbol)                                                         \
    GOP_DEVICE __half function(__half a, __half b)                                             \
    {                                                                                          \
        return __half(gop_f16_load(a.bits) symbol gop_f16_load(b.bits));                       \
    }                                                                                          \
    GOP_DEVICE __half operator symbol(__half a, __half b)                                      \
    {                                                                                          \
        return function(a, b);                                                                 \
    }                                                                                          \
    GOP_DEVICE __half &operator symbol##=(__half &a, __half b)                                 \
    {                                                                                          \
        return a = function(a, b);                                                             \
    }
GOP_SIM_HALF(__hadd, +)
GOP_SIM_HALF(__hsub, -)
GOP_SIM_HALF(__hmul, *)
GOP_SIM_HALF(__hdiv, /)
#undef GOP_SIM_HALF

#define GOP_SIM_HALF(function, symbol)                                                         \
    GOP_DEVICE bool function(__half a, __half b)                                               \
    {                                                                                          \
        return gop_f16_load(a.bits) symbol gop_f16_load(b.bits);                               \
    }                                                                                          \
    GOP_DEVICE bool operator symbol(__half a, __half b)                                        \
    {                                                                                          \
        return function(a, b);                                                                 \
    }
GOP_SIM_HALF(__heq, ==)
GOP_SIM_HALF(__hne, !=)
GOP_SIM_HALF(__hlt, <)
GOP_SIM_HALF(__hle, <=)
GOP_SIM_HALF(__hgt, >)
GOP_SIM_HALF(__hge, >=)
#undef GOP_SIM_HALF

GOP_DEVICE __half operator-(__half a)
{
    a.bits ^= 0x8000;
    return a;
}

/* Rounded once, as a GPU does. */
GOP_DEVICE __half __hfma(__half a, __half b, __half c)
{
    return __half(
        gop_float_to_odd(gop_fma_to_odd(__half2float(a), __half2float(b), __half2float(c))));
}

#endif
