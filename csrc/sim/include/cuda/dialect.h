/*
 * dialect.h - CUDA for users' kernels, beyond what those of csrc/cuda use.
 *
 * The fast functions (__sinf, __fdividef) are the accurate ones here: a GPU's may differ in the
 * last bits. docs/sim.md lists all functions.
 */
#ifndef GOP_CUDA_DIALECT_H
#define GOP_CUDA_DIALECT_H

/* ---- one operation, rounded once, to nearest even ---- */

GOP_DEVICE float __fsub_rn(float a, float b)
{
    return a - b;
}
GOP_DEVICE float __fdiv_rn(float a, float b)
{
    return a / b;
}
GOP_DEVICE float __frcp_rn(float a)
{
    return 1 / a;
}
GOP_DEVICE float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
GOP_DEVICE float __frsqrt_rn(float a)
{
    return (float)(1 / sqrt((double)a));
}
GOP_DEVICE double __dadd_rn(double a, double b)
{
    return a + b;
}
GOP_DEVICE double __dsub_rn(double a, double b)
{
    return a - b;
}
GOP_DEVICE double __dmul_rn(double a, double b)
{
    return a * b;
}
GOP_DEVICE double __ddiv_rn(double a, double b)
{
    return a / b;
}
GOP_DEVICE double __dsqrt_rn(double a)
{
    return sqrt(a);
}
GOP_DEVICE double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}

/* ---- fast functions ---- */

#define GOP_SIM_FAST(name, exact)                                                              \
    GOP_DEVICE float name(float a)                                                             \
    {                                                                                          \
        return exact(a);                                                                       \
    }
GOP_SIM_FAST(__sinf, sinf)
GOP_SIM_FAST(__cosf, cosf)
GOP_SIM_FAST(__tanf, tanf)
GOP_SIM_FAST(__tanhf, tanhf)
GOP_SIM_FAST(__expf, expf)
GOP_SIM_FAST(__logf, logf)
GOP_SIM_FAST(__log2f, log2f)
GOP_SIM_FAST(__log10f, log10f)
GOP_DEVICE float __powf(float a, float b)
{
    return powf(a, b);
}
GOP_DEVICE float __fdividef(float a, float b)
{
    return a / b;
}
GOP_DEVICE float __saturatef(float a)
{
    return a > 0 ? a < 1 ? a : 1 : 0; /* NaN becomes 0 */
}

/* ---- minimum and maximum of two floats: a NaN operand is ignored, and -0 is less than 0 ----
 */

#define GOP_SIM_OF_TWO(name, a_type, b_type, type, exact)                                      \
    GOP_DEVICE type name(a_type a, b_type b)                                                   \
    {                                                                                          \
        return exact(a, b);                                                                    \
    }
#define GOP_SIM_LEAST_AND_MOST(a_type, b_type, type, f)                                        \
    GOP_SIM_OF_TWO(min, a_type, b_type, type, fmin##f)                                         \
    GOP_SIM_OF_TWO(max, a_type, b_type, type, fmax##f)
GOP_SIM_LEAST_AND_MOST(float, float, float, f)
GOP_SIM_LEAST_AND_MOST(double, double, double, )
GOP_SIM_LEAST_AND_MOST(float, double, double, )
GOP_SIM_LEAST_AND_MOST(double, float, double, )

/* ---- integers ---- */

/* Products of 24-bit integers. */
GOP_DEVICE int __mul24(int a, int b)
{
    return (int)((unsigned)((int)((unsigned)a << 8) >> 8) *
                 (unsigned)((int)((unsigned)b << 8) >> 8));
}
GOP_DEVICE unsigned __umul24(unsigned a, unsigned b)
{
    return (a & 0xffffff) * (b & 0xffffff);
}
GOP_DEVICE int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}
GOP_DEVICE unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
GOP_DEVICE long long __mul64hi(long long a, long long b)
{
    return (long long)((__int128)a * b >> 64);
}
GOP_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
GOP_DEVICE unsigned __brev(unsigned a)
{
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) reversed |= (a >> i & 1) << (31 - i);
    return reversed;
}
GOP_DEVICE unsigned long long __brevll(unsigned long long a)
{
    return (unsigned long long)__brev((unsigned)a) << 32 | __brev((unsigned)(a >> 32));
}
GOP_DEVICE int __popcll(unsigned long long a)
{
    return __builtin_popcountll(a);
}
GOP_DEVICE int __clzll(long long a)
{
    return a ? __builtin_clzll((unsigned long long)a) : 64;
}
GOP_DEVICE int __ffsll(long long a)
{
    return __builtin_ffsll(a);
}

/* ---- reinterpretation of bits as another type ---- */

#define GOP_SIM_BITS(name, from, to)                                                           \
    GOP_DEVICE to name(from value)                                                             \
    {                                                                                          \
        to bits;                                                                               \
        __builtin_memcpy(&bits, &value, sizeof bits);                                          \
        return bits;                                                                           \
    }
GOP_SIM_BITS(__float_as_int, float, int)
GOP_SIM_BITS(__float_as_uint, float, unsigned)
GOP_SIM_BITS(__int_as_float, int, float)
GOP_SIM_BITS(__uint_as_float, unsigned, float)
GOP_SIM_BITS(__double_as_longlong, double, long long)
GOP_SIM_BITS(__longlong_as_double, long long, double)

/* ---- warps ---- */

/* The lanes of `mask` that have not returned, and that there are. */
GOP_DEVICE unsigned gop_sim_members(unsigned mask)
{
    return __ballot_sync(mask, 1);
}
/* Combines the values of the lanes of `mask`, lowest first. */
template <typename T, typename F>
GOP_DEVICE T gop_sim_over_warp(unsigned mask, T value, T start, F combine)
{
    mask = gop_sim_members(mask);
    for (int lane = 0; lane < GOP_SIM_WARP; lane++)
        if (mask >> lane & 1) start = combine(start, __shfl_sync(mask, value, lane), lane);
    return start;
}
#define GOP_SIM_REDUCE(name, type, start, expression)                                          \
    GOP_DEVICE type name(unsigned mask, type value)                                            \
    {                                                                                          \
        return gop_sim_over_warp<type>(mask, value, start,                                     \
                                       [](type a, type b, int) { return expression; });        \
    }
#define GOP_SIM_REDUCE_BOTH(name, least, most, expression)                                     \
    GOP_SIM_REDUCE(name, unsigned, least, expression)                                          \
    GOP_SIM_REDUCE(name, int, most, expression)
GOP_SIM_REDUCE(__reduce_add_sync, unsigned, 0u, a + b)
GOP_SIM_REDUCE(__reduce_add_sync, int, 0, (int)((unsigned)a + (unsigned)b))
GOP_SIM_REDUCE_BOTH(__reduce_min_sync, 0xffffffffu, 0x7fffffff, b < a ? b : a)
GOP_SIM_REDUCE_BOTH(__reduce_max_sync, 0u, -0x7fffffff - 1, a < b ? b : a)
GOP_SIM_REDUCE(__reduce_and_sync, unsigned, 0xffffffffu, a &b)
GOP_SIM_REDUCE(__reduce_or_sync, unsigned, 0u, a | b)
GOP_SIM_REDUCE(__reduce_xor_sync, unsigned, 0u, a ^ b)

/* Compares bits: a NaN is equal to itself, -0.0 is not equal to 0.0. */
template <typename T> GOP_DEVICE bool gop_sim_same_bits(T a, T b)
{
    unsigned long long of_a = 0, of_b = 0;
    static_assert(sizeof a <= sizeof of_a, "4 or 8 bytes, as CUDA matches");
    __builtin_memcpy(&of_a, &a, sizeof a);
    __builtin_memcpy(&of_b, &b, sizeof b);
    return of_a == of_b;
}

template <typename T> GOP_DEVICE unsigned __match_any_sync(unsigned mask, T value)
{
    unsigned same = 0;
    mask = gop_sim_members(mask);
    for (int lane = 0; lane < GOP_SIM_WARP; lane++) {
        if (!(mask >> lane & 1)) continue;
        const T other = __shfl_sync(mask, value, lane);
        same |= (unsigned)gop_sim_same_bits(other, value) << lane;
    }
    return same;
}
template <typename T> GOP_DEVICE unsigned __match_all_sync(unsigned mask, T value, int *is_all)
{
    mask = gop_sim_members(mask);
    *is_all = __match_any_sync(mask, value) == mask;
    return __all_sync(mask, *is_all) ? mask : 0;
}

/* ---- the rest ---- */

/* Ends the kernel; the launch fails. */
__attribute__((noreturn)) GOP_DEVICE void __trap()
{
    gop_sim_abort();
}
/* Nanoseconds of this CPU, which say nothing about a GPU. */
GOP_DEVICE long long clock64()
{
    return gop_sim_clock();
}
GOP_DEVICE void __nanosleep(unsigned) {}

/* ---- hints: on a GPU they are for caches, registers and the compiler ---- */

template <typename T> GOP_DEVICE T gop_sim_load(const T *address)
{
    return *address;
}
/* The address alone says what is stored: `__stcs(floats, 1.0)` stores a float. */
template <typename T>
GOP_DEVICE void gop_sim_store(T *address, typename gop_sim_same<T>::type value)
{
    *address = value;
}
#define __ldca gop_sim_load
#define __ldcv gop_sim_load
#define __ldlu gop_sim_load
#define __stcg gop_sim_store
#define __stcs gop_sim_store
#define __stwb gop_sim_store
#define __stwt gop_sim_store
#define __maxnreg__(count)
#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif

/* ---- types of the host, which stand in the heads of its functions; their bodies are gone ----
 */

enum cudaError { cudaSuccess };
typedef enum cudaError cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
struct cudaDeviceProp {
    char name[256];
};
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

#include "cuda/functions.h"
#include "cuda/packed.h"

#endif
