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
    GOP_DEVICE __half(unsigned value) : __half((double)value) {}
    GOP_DEVICE __half(long long value) : __half((double)value) {}
    GOP_DEVICE __half(unsigned long long value) : __half((double)value) {}
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

GOP_DEVICE __half __hneg(__half a)
{
    return -a;
}
GOP_DEVICE __half __habs(__half a)
{
    a.bits &= 0x7fff;
    return a;
}
GOP_DEVICE bool __hisnan(__half a)
{
    return (a.bits & 0x7fff) > 0x7c00;
}
GOP_DEVICE int __hisinf(__half a)
{
    return a.bits == 0x7c00 ? 1 : a.bits == 0xfc00 ? -1 : 0;
}
GOP_DEVICE __half __hmin(__half a, __half b)
{
    return __half(fminf(__half2float(a), __half2float(b)));
}
GOP_DEVICE __half __hmax(__half a, __half b)
{
    return __half(fmaxf(__half2float(a), __half2float(b)));
}

/* ---- conversions ---- */

#define GOP_SIM_HALF_BITS(to, from, type)                                                      \
    GOP_DEVICE type to(__half a)                                                               \
    {                                                                                          \
        return (type)a.bits;                                                                   \
    }                                                                                          \
    GOP_DEVICE __half from(type bits)                                                          \
    {                                                                                          \
        __half a;                                                                              \
        a.bits = (uint16_t)bits;                                                               \
        return a;                                                                              \
    }
GOP_SIM_HALF_BITS(__half_as_ushort, __ushort_as_half, unsigned short)
GOP_SIM_HALF_BITS(__half_as_short, __short_as_half, short)

GOP_DEVICE __half __double2half(double a)
{
    return __half(a);
}
#define GOP_SIM_HALF_OF(name, type)                                                            \
    GOP_DEVICE __half __##name##2half_rn(type value)                                           \
    {                                                                                          \
        return __half(value);                                                                  \
    }                                                                                          \
    GOP_DEVICE type __half2##name##_rn(__half a)                                               \
    {                                                                                          \
        return __float2##name##_rn(__half2float(a));                                           \
    }                                                                                          \
    GOP_DEVICE type __half2##name##_rz(__half a)                                               \
    {                                                                                          \
        return __float2##name##_rz(__half2float(a));                                           \
    }
GOP_SIM_HALF_OF(int, int)
GOP_SIM_HALF_OF(uint, unsigned)
GOP_SIM_HALF_OF(ll, long long)
GOP_SIM_HALF_OF(ull, unsigned long long)

/* ---- functions: exact here but for the last rounding ---- */

#define GOP_SIM_HALF_FUNCTION(name, value)                                                     \
    GOP_DEVICE __half name(__half a)                                                           \
    {                                                                                          \
        const double x = __half2float(a);                                                      \
        return __half((double)(value));                                                        \
    }
GOP_SIM_HALF_FUNCTION(hsqrt, sqrt(x))
GOP_SIM_HALF_FUNCTION(hrsqrt, 1 / sqrt(x))
GOP_SIM_HALF_FUNCTION(hrcp, 1 / x)
GOP_SIM_HALF_FUNCTION(hexp, exp(x))
GOP_SIM_HALF_FUNCTION(hexp2, exp2(x))
GOP_SIM_HALF_FUNCTION(hexp10, pow(10, x))
GOP_SIM_HALF_FUNCTION(hlog, log(x))
GOP_SIM_HALF_FUNCTION(hlog2, log2(x))
GOP_SIM_HALF_FUNCTION(hlog10, log10(x))
GOP_SIM_HALF_FUNCTION(hsin, sin(x))
GOP_SIM_HALF_FUNCTION(hcos, cos(x))
GOP_SIM_HALF_FUNCTION(hfloor, floor(x))
GOP_SIM_HALF_FUNCTION(hceil, ceil(x))
GOP_SIM_HALF_FUNCTION(htrunc, trunc(x))
GOP_SIM_HALF_FUNCTION(hrint, nearbyint(x))

#define GOP_SIM_HALF_SHUFFLE(name, by)                                                         \
    GOP_DEVICE __half name(unsigned mask, __half value, by number, int width = GOP_SIM_WARP)   \
    {                                                                                          \
        value.bits = (uint16_t)name(mask, (int)value.bits, number, width);                     \
        return value;                                                                          \
    }
GOP_SIM_HALF_SHUFFLE(__shfl_sync, int)
GOP_SIM_HALF_SHUFFLE(__shfl_up_sync, unsigned)
GOP_SIM_HALF_SHUFFLE(__shfl_down_sync, unsigned)
GOP_SIM_HALF_SHUFFLE(__shfl_xor_sync, int)

/* Rounded once, as a GPU does. */
GOP_DEVICE __half __hfma(__half a, __half b, __half c)
{
    return __half(
        gop_float_to_odd(gop_fma_to_odd(__half2float(a), __half2float(b), __half2float(c))));
}

#endif
