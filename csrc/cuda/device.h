/*
 * device.h - all that a CUDA ladder file includes: element types, vector access, launching.
 *
 * A ladder file is plain CUDA C++ as in a textbook. It calls no runtime function; it launches
 * with GOP_LAUNCH, which enqueues on the context's stream and returns a status. The same files
 * compile for the CPU in sim, so half types and 128-bit accesses go through the wrappers below.
 */
#ifndef GOP_CUDA_DEVICE_H
#define GOP_CUDA_DEVICE_H

#include <stdint.h>
#include <stdio.h>

#include "core/arrays/axes.h"
#include "core/row.h"
#include "cuda/launch.h"

/* ---- element types ---- */

struct float16 {
    uint16_t bits;
};
struct bfloat16 {
    uint16_t bits;
};
template <typename R> struct alignas(2 * sizeof(R)) complex {
    R re, im;
};
typedef complex<float> complex64;
typedef complex<double> complex128;
typedef struct boolean { /* a byte that counts as true unless it is 0 */
    uint8_t byte;
} boolean;

/* The type an element is computed in: float for the halves, itself otherwise. */
template <typename T> struct compute_of {
    typedef T type;
};
template <> struct compute_of<float16> {
    typedef float type;
};
template <> struct compute_of<bfloat16> {
    typedef float type;
};
template <typename T> using compute_t = typename compute_of<T>::type;

template <typename T> GOP_DEVICE T load(T value)
{
    return value;
}
GOP_DEVICE float load(float16 value)
{
    return gop_f16_to_float(value.bits);
}
GOP_DEVICE float load(bfloat16 value)
{
    return gop_bits_to_float((uint32_t)value.bits << 16);
}

/* One rounding, to nearest even. */
template <typename T> GOP_DEVICE T store(compute_t<T> value)
{
    return value;
}
template <> GOP_DEVICE float16 store<float16>(float value)
{
    return {gop_float_to_f16(value)};
}
template <> GOP_DEVICE bfloat16 store<bfloat16>(float value)
{
    const uint32_t bits = gop_float_to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {(uint16_t)(bits >> 16 | 0x40u)};
    return {(uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

/* ---- 128-bit access: N = 16 / sizeof(T) neighbours at an address that is a multiple of 16
 * ---- */

template <typename T> struct alignas(16) vec128 {
    enum { N = 16 / sizeof(T) };
    T at[N];
};

template <typename T> GOP_DEVICE vec128<T> load128(const T *address)
{
    vec128<T> v;
    const uint4 word = *reinterpret_cast<const uint4 *>(address);
    __builtin_memcpy(&v, &word, 16);
    return v;
}

/* Streaming: the line will not be read again. */
template <typename T> GOP_DEVICE vec128<T> load128_stream(const T *address)
{
    vec128<T> v;
    const uint4 word = __ldcs(reinterpret_cast<const uint4 *>(address));
    __builtin_memcpy(&v, &word, 16);
    return v;
}

template <typename T> GOP_DEVICE void store128(T *address, const vec128<T> &v)
{
    uint4 word;
    __builtin_memcpy(&word, &v, 16);
    *reinterpret_cast<uint4 *>(address) = word;
}

/* ---- launch tables: f<T> by dtype, in the enum's order ---- */

/* clang-format off */
#define GOP_NONE9 \
    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr
/* int32, float32 and float64: the dtypes of teaching rows. */
#define GOP_LAUNCH_TEACHING(f) \
    {nullptr, nullptr, nullptr, f<int32_t>, nullptr, nullptr, nullptr, nullptr, nullptr, \
     nullptr, nullptr, f<float>, f<double>}
#define GOP_LAUNCH_REAL(f) {GOP_NONE9, nullptr, nullptr, f<float>, f<double>}
/* clang-format on */

/* ---- for plans ---- */

/* What nvcc alone compiles: a launch, and the dtypes of a row. Other builds only plan for them,
 * when explain() asks. */
#ifdef __CUDACC__
#define GOP_NATIVE_LAUNCH(launch) (launch)
#define GOP_NATIVE_DTYPES(bits) .dtypes = (bits), .imagined = (bits)
#else
#define GOP_NATIVE_LAUNCH(launch) nullptr
#define GOP_NATIVE_DTYPES(bits) .dtypes = 0, .imagined = (bits)
#endif

/* Whether a plan is for a GPU: a real one, or one that explain() is asked about. */
static inline bool gop_is_for_gpu(const gop_ctx *ctx)
{
    return !gop_is_sim() || ctx->imagined;
}

/* Refuses, in the name of `who`, on sim and on GPUs older than compute capability major.0. */
static inline gop_status gop_has_code(const gop_ctx *ctx, const char *who, int major,
                                      const char *why)
{
    if (gop_is_for_gpu(ctx) && ctx->info.major >= major) return GOP_OK;
    char got[16] = "sim";
    if (gop_is_for_gpu(ctx))
        snprintf(got, sizeof got, "%d.%d", ctx->info.major, ctx->info.minor);
    return gop_fail(GOP_REFUSED,
                    "%s takes a GPU of compute capability %d.0 or later, %s, got %s", who,
                    major, why, got);
}

/* Whether 32-bit indices are enough. */
static inline bool fits_32_bits(int64_t size)
{
    return size < INT64_C(1) << 31;
}

/* Blocks that cover `items`, at most 2^31 - 1. */
static inline int64_t blocks_for(int64_t items, int64_t per_block)
{
    const int64_t blocks = items / per_block + (items % per_block != 0);
    return blocks < 0x7fffffff ? blocks : 0x7fffffff;
}

#endif
