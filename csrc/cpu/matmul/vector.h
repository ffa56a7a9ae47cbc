/*
 * vector.h - the registers that matmul's inner loop works in, at each instruction set.
 *
 * GCC's vector types give loads, integer arithmetic and bit operations; a float multiply-add
 * must be one rounding, so it is spelled out. The block of KC products that one register
 * accumulates is the same at every level, and so are the bits.
 */
#ifndef GOP_CPU_MATMUL_VECTOR_H
#define GOP_CPU_MATMUL_VECTOR_H

#include "cpu/runtime/cpu.h"

#if defined(__FMA__)
#include <immintrin.h>
#endif

/* MR x NR accumulators stay in registers: ROWS rows of TWO vectors, with room for a row of b
 * and one broadcast of a. Complex numbers take two registers an accumulator. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
enum { VECTOR = 64, ROWS = 14, COMPLEX_ROWS = 6, COMPLEX_VECTORS = 2 };
#elif defined(__AVX2__) && defined(__FMA__)
enum { VECTOR = 32, ROWS = 6, COMPLEX_ROWS = 6, COMPLEX_VECTORS = 1 };
#else
enum { VECTOR = 16, ROWS = 6, COMPLEX_ROWS = 6, COMPLEX_VECTORS = 1 };
#endif

/* Products added in one register before the sum joins the earlier ones. Shorter chains round
 * less than one long chain does; longer ones would spend less on packing. */
enum { KC = 256 };

typedef uint8_t vector_u8 __attribute__((vector_size(VECTOR)));
typedef uint16_t vector_u16 __attribute__((vector_size(VECTOR)));
typedef uint32_t vector_u32 __attribute__((vector_size(VECTOR)));
typedef uint64_t vector_u64 __attribute__((vector_size(VECTOR)));
typedef float vector_f32 __attribute__((vector_size(VECTOR)));
typedef double vector_f64 __attribute__((vector_size(VECTOR)));

/* a * b + c, rounded once in every lane. */
static inline vector_f32 vector_fma_f32(vector_f32 a, vector_f32 b, vector_f32 c)
{
#if defined(__AVX512F__)
    return (vector_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (vector_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    for (int lane = 0; lane < VECTOR / 4; lane++)
        c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    return c;
#endif
}

static inline vector_f64 vector_fma_f64(vector_f64 a, vector_f64 b, vector_f64 c)
{
#if defined(__AVX512F__)
    return (vector_f64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (vector_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    for (int lane = 0; lane < VECTOR / 8; lane++)
        c[lane] = __builtin_fma(a[lane], b[lane], c[lane]);
    return c;
#endif
}

/* x in every lane: subtracting +0 keeps -0 and every other value. */
#define VECTOR_SPLAT(vector, x) ((x) - (vector){0})

#endif
