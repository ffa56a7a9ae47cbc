/*
 * halves.cl - float16 and bfloat16 as bits: widened exactly, rounded once, both in integers.
 *
 * Of vectors of LANES, where the build defines HALF or BFLOAT.
 */
#include "opencl/vector.cl"

#if defined(HALF)
static OF(float) widen(V half_bits)
{
    const OF(uint) h = CONVERT(uint)(half_bits);
    const OF(uint) sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    const OF(uint) special = 0x7f800000u | (magnitude & 0x3ffu) << 13; /* infinity or NaN */
    const OF(uint) normal = (magnitude << 13) + 0x38000000u;
    const OF(uint) tiny = AS(uint)(CONVERT(float)(magnitude) * 0x1p-24f);
    return AS(float)(sign | (magnitude >= 0x7c00u  ? special
                             : magnitude >= 0x400u ? normal
                                                   : tiny));
}

static V narrow(OF(float) value)
{
    const OF(uint) bits = AS(uint)(value);
    const OF(uint) sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    /* Below the normal numbers the sum with 0.5 has the rounded bits at its end. */
    const OF(uint) tiny = AS(uint)(AS(float)(magnitude) + 0.5f) - 0x3f000000u;
    const OF(uint) normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    OF(uint) h = magnitude < 0x38800000u ? tiny : normal;
    h = magnitude >= 0x477ff000u ? (OF(uint))(0x7c00u) : h; /* 65520 and more: infinity */
    h = magnitude > 0x7f800000u ? (OF(uint))(0x7e00u) : h;
    return CONVERT(ushort)(sign | h);
}
#elif defined(BFLOAT)
static OF(float) widen(V half_bits)
{
    return AS(float)(CONVERT(uint)(half_bits) << 16);
}

static V narrow(OF(float) value)
{
    const OF(uint) bits = AS(uint)(value);
    const OF(uint) rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    const OF(uint) is_nan = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded;
    return CONVERT(ushort)(is_nan >> 16);
}
#endif
