/*
 * registers.h - the vector registers of matmul's inner loop, for each instruction set.
 *
 * GCC's vector types give loads, integer arithmetic and bit operations. A float multiply-add
 * must round once, so it is an intrinsic. The block of KC products that one register
 * accumulates is the same at every level, and so are the bits.
 */
#ifndef GOP_CPU_MATMUL_REGISTERS_H
#define GOP_CPU_MATMUL_REGISTERS_H

#include "cpu/runtime/cpu.h"

#if defined(__FMA__)
#include <immintrin.h>
#endif

/* MR x NR accumulators stay in registers: ROWS rows of two vectors, which leaves registers for
 * a row of b and one broadcast of a. Complex numbers take two registers per accumulator. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
enum { VECTOR = 64, ROWS = 14, COMPLEX_ROWS = 6, COMPLEX_VECTORS = 2 };
#elif defined(__AVX2__) && defined(__FMA__)
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
enum { VECTOR = 32, ROWS = 6, COMPLEX_ROWS = 6, COMPLEX_VECTORS = 1 };
#else
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
enum { VECTOR = 16, ROWS = 6, COMPLEX_ROWS = 6, COMPLEX_VECTORS = 1 };
#endif

/* Products that are added in one register before the sum is added to the earlier ones. Shorter
 * chains round less than one long chain; longer chains would spend less time on packing. */
enum { KC = 256 };

typedef uint8_t vector_u8 __attribute__((vector_size(VECTOR)));
typedef uint16_t vector_u16 __attribute__((vector_size(VECTOR)));
typedef uint32_t vector_u32 __attribute__((vector_size(VECTOR)));
typedef uint64_t vector_u64 __attribute__((vector_size(VECTOR)));
typedef float vector_f32 __attribute__((vector_size(VECTOR)));
typedef double vector_f64 __attribute__((vector_size(VECTOR)));

/* Without an instruction for it a multiply-add is a call a lane, which a product's loops would
 * repeat a thousand times. */
#if defined(__FMA__)
#define MULTIPLY_ADD static ALWAYS_INLINE
#else
#define MULTIPLY_ADD static __attribute__((noinline, unused))
#endif

/* a * b + c, rounded once in every lane. */
MULTIPLY_ADD vector_f32 vector_fma_f32(vector_f32 a, vector_f32 b, vector_f32 c)
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

/* c - a * b, rounded once in every lane. */
MULTIPLY_ADD vector_f32 vector_fnma_f32(vector_f32 a, vector_f32 b, vector_f32 c)
{
#if defined(__AVX512F__)
    return (vector_f32)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (vector_f32)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    for (int lane = 0; lane < VECTOR / 4; lane++)
        c[lane] = __builtin_fmaf(-a[lane], b[lane], c[lane]);
    return c;
#endif
}

MULTIPLY_ADD vector_f64 vector_fma_f64(vector_f64 a, vector_f64 b, vector_f64 c)
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

MULTIPLY_ADD vector_f64 vector_fnma_f64(vector_f64 a, vector_f64 b, vector_f64 c)
{
#if defined(__AVX512F__)
    return (vector_f64)_mm512_fnmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (vector_f64)_mm256_fnmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    for (int lane = 0; lane < VECTOR / 8; lane++)
        c[lane] = __builtin_fma(-a[lane], b[lane], c[lane]);
    return c;
#endif
}

/* Half a vector and its multiply-add. If a vector has 64 bytes, a core does twice as many of
 * these per cycle. */
typedef float half_f32 __attribute__((vector_size(VECTOR / 2)));
typedef double half_f64 __attribute__((vector_size(VECTOR / 2)));

MULTIPLY_ADD half_f32 half_fma_f32(half_f32 a, half_f32 b, half_f32 c)
{
#if defined(__AVX512F__)
    return (half_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    for (int lane = 0; lane < VECTOR / 8; lane++)
        c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    return c;
#endif
}

MULTIPLY_ADD half_f64 half_fma_f64(half_f64 a, half_f64 b, half_f64 c)
{
#if defined(__AVX512F__)
    return (half_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    for (int lane = 0; lane < VECTOR / 16; lane++)
        c[lane] = __builtin_fma(a[lane], b[lane], c[lane]);
    return c;
#endif
}

/* Load the first `count` lanes from memory of any alignment, with 0 in the others; and store
 * them. On AVX2 masked accesses are slow on some processors, above all stores. */
static ALWAYS_INLINE vector_u32 vector_load_u32(const void *from, int64_t count)
{
#if defined(__AVX512F__)
    return (vector_u32)_mm512_maskz_loadu_epi32((__mmask16)((1u << count) - 1), from);
#elif defined(__AVX2__)
    if (count == VECTOR / 4) return (vector_u32)_mm256_loadu_si256(from);
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lanes);
    return (vector_u32)_mm256_maskload_epi32(from, inside);
#else
    vector_u32 v = {0};
    if (count == VECTOR / 4) memcpy(&v, from, VECTOR);
    else
        for (int64_t lane = 0; lane < count; lane++) v[lane] = ((const uint32_t *)from)[lane];
    return v;
#endif
}

static ALWAYS_INLINE vector_u64 vector_load_u64(const void *from, int64_t count)
{
#if defined(__AVX512F__)
    return (vector_u64)_mm512_maskz_loadu_epi64((__mmask8)((1u << count) - 1), from);
#elif defined(__AVX2__)
    if (count == VECTOR / 8) return (vector_u64)_mm256_loadu_si256(from);
    const __m256i inside =
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
    return (vector_u64)_mm256_maskload_epi64(from, inside);
#else
    vector_u64 v = {0};
    if (count == VECTOR / 8) memcpy(&v, from, VECTOR);
    else
        for (int64_t lane = 0; lane < count; lane++) v[lane] = ((const uint64_t *)from)[lane];
    return v;
#endif
}

static ALWAYS_INLINE void vector_store_u32(void *to, int64_t count, vector_u32 v)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_epi32(to, (__mmask16)((1u << count) - 1), (__m512i)v);
#elif defined(__AVX2__)
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lanes);
    if (count == VECTOR / 4) _mm256_storeu_si256(to, (__m256i)v);
    else _mm256_maskstore_epi32(to, inside, (__m256i)v);
#else
    if (count == VECTOR / 4) memcpy(to, &v, VECTOR);
    else
        for (int64_t lane = 0; lane < count; lane++) ((uint32_t *)to)[lane] = v[lane];
#endif
}

static ALWAYS_INLINE void vector_store_u64(void *to, int64_t count, vector_u64 v)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_epi64(to, (__mmask8)((1u << count) - 1), (__m512i)v);
#elif defined(__AVX2__)
    const __m256i inside =
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
    if (count == VECTOR / 8) _mm256_storeu_si256(to, (__m256i)v);
    else _mm256_maskstore_epi64(to, inside, (__m256i)v);
#else
    if (count == VECTOR / 8) memcpy(to, &v, VECTOR);
    else
        for (int64_t lane = 0; lane < count; lane++) ((uint64_t *)to)[lane] = v[lane];
#endif
}

/* Selects lanes of v and w by their numbers; those of w come after those of v. */
#if defined(__clang__)
#define SHUFFLE(v, w, from)                                                                    \
    __extension__({                                                                            \
        enum { LANES_OF_V = sizeof(v) / sizeof((v)[0]) };                                      \
        __typeof__((v) + (v)) shuffled;                                                        \
        _Pragma("GCC unroll 16") for (int lane = 0; lane < LANES_OF_V; lane++)                 \
            shuffled[lane] = (from)[lane] < LANES_OF_V ? (v)[(from)[lane]]                     \
                                                       : (w)[(from)[lane] - LANES_OF_V];       \
        shuffled;                                                                              \
    })
#else
#define SHUFFLE(v, w, from) __builtin_shuffle(v, w, from)
#endif

/* Tables of lanes' numbers: computed, they would be built anew at each use. */
#define SIXTEEN_LANES(of, lanes, d)                                                            \
    of(lanes, d, 0), of(lanes, d, 1), of(lanes, d, 2), of(lanes, d, 3), of(lanes, d, 4),       \
        of(lanes, d, 5), of(lanes, d, 6), of(lanes, d, 7), of(lanes, d, 8), of(lanes, d, 9),   \
        of(lanes, d, 10), of(lanes, d, 11), of(lanes, d, 12), of(lanes, d, 13),                \
        of(lanes, d, 14), of(lanes, d, 15)
#define LANE_NUMBER(lanes, d, l) ((l) + (d)) % (lanes)
#define LANES_TWICE(lanes)                                                                     \
    {                                                                                          \
        SIXTEEN_LANES(LANE_NUMBER, lanes, 0), SIXTEEN_LANES(LANE_NUMBER, lanes, 0)             \
    }
static const uint32_t LANES_U32[32] = LANES_TWICE(VECTOR / 4);
static const uint64_t LANES_U64[32] = LANES_TWICE(VECTOR / 8);

/* Rotates: lane i takes lane i + d, modulo the number of lanes. */
static ALWAYS_INLINE vector_f32 vector_turn_f32(vector_f32 v, int d)
{
    vector_u32 from;
    memcpy(&from, LANES_U32 + d, sizeof from);
    return SHUFFLE(v, v, from);
}

static ALWAYS_INLINE vector_f64 vector_turn_f64(vector_f64 v, int d)
{
    vector_u64 from;
    memcpy(&from, LANES_U64 + d, sizeof from);
    return SHUFFLE(v, v, from);
}

/* Swaps neighbouring lanes. */
static ALWAYS_INLINE vector_f32 vector_swap_f32(vector_f32 v)
{
    vector_u32 from;
#pragma GCC unroll 16
    for (int lane = 0; lane < VECTOR / 4; lane++) from[lane] = (uint32_t)lane ^ 1;
    return SHUFFLE(v, v, from);
}

static ALWAYS_INLINE vector_f64 vector_swap_f64(vector_f64 v)
{
    vector_u64 from;
#pragma GCC unroll 8
    for (int lane = 0; lane < VECTOR / 8; lane++) from[lane] = (uint64_t)lane ^ 1;
    return SHUFFLE(v, v, from);
}

/* Multiplies complex numbers by i: swaps the parts and negates the first. */
static ALWAYS_INLINE vector_f32 vector_times_i_f32(vector_f32 v)
{
    vector_u32 sign;
#pragma GCC unroll 16
    for (int lane = 0; lane < VECTOR / 4; lane++) sign[lane] = lane & 1 ? 0 : 1u << 31;
    return (vector_f32)((vector_u32)vector_swap_f32(v) ^ sign);
}

static ALWAYS_INLINE vector_f64 vector_times_i_f64(vector_f64 v)
{
    vector_u64 sign;
#pragma GCC unroll 8
    for (int lane = 0; lane < VECTOR / 8; lane++) sign[lane] = lane & 1 ? 0 : 1ull << 63;
    return (vector_f64)((vector_u64)vector_swap_f64(v) ^ sign);
}

/* Negates every other lane, from the second on: the imaginary parts. */
static ALWAYS_INLINE vector_f32 vector_minus_odd_f32(vector_f32 v)
{
    return vector_swap_f32(vector_times_i_f32(v));
}

static ALWAYS_INLINE vector_f64 vector_minus_odd_f64(vector_f64 v)
{
    return vector_swap_f64(vector_times_i_f64(v));
}

/* Transposes a square: squares of d x d lanes are swapped, for each power of two d. */
#define TURN_LOW(lanes, d, l) (l) & (d) ? (lanes) + (l) - (d) : (l)
#define TURN_HIGH(lanes, d, l) (l) & (d) ? (lanes) + (l) : (l) + (d)
#define TURN_BOTH(lanes, d)                                                                    \
    {                                                                                          \
        {SIXTEEN_LANES(TURN_LOW, lanes, d)},                                                   \
        {                                                                                      \
            SIXTEEN_LANES(TURN_HIGH, lanes, d)                                                 \
        }                                                                                      \
    }
#define TURN_TABLE(table, index, lanes)                                                        \
    static const index table[4][2][16] = {TURN_BOTH(lanes, 1), TURN_BOTH(lanes, 2),            \
                                          TURN_BOTH(lanes, 4), TURN_BOTH(lanes, 8)};
TURN_TABLE(TURN_U32, uint32_t, VECTOR / 4)
TURN_TABLE(TURN_U64, uint64_t, VECTOR / 8)

#define TURN_SQUARE(name, vector, table, halves)                                               \
    static ALWAYS_INLINE void name(vector *line)                                               \
    {                                                                                          \
        enum { SIDE = sizeof(vector) / sizeof(table[0][0][0]) / halves };                      \
        _Pragma("GCC unroll 4") for (int b = 0; 1 << b < SIDE; b++)                            \
        {                                                                                      \
            vector low, high;                                                                  \
            memcpy(&low, table[b][0], sizeof low);                                             \
            memcpy(&high, table[b][1], sizeof high);                                           \
            _Pragma("GCC unroll 16") for (int i = 0; i < SIDE; i++)                            \
            {                                                                                  \
                if (i & 1 << b) continue;                                                      \
                const vector above = line[i], below = line[i + (1 << b)];                      \
                line[i] = SHUFFLE(above, below, low);                                          \
                line[i + (1 << b)] = SHUFFLE(above, below, high);                              \
            }                                                                                  \
        }                                                                                      \
    }
TURN_SQUARE(vector_square_u32, vector_u32, TURN_U32, 1)
TURN_SQUARE(vector_square_u64, vector_u64, TURN_U64, 1)
/* The same for both halves of half as many lines: two squares side by side. */
TURN_SQUARE(vector_squares_u32, vector_u32, TURN_U32, 2)
TURN_SQUARE(vector_squares_u64, vector_u64, TURN_U64, 2)

/* The first halves of two vectors, or the second ones. */
#define JOIN_HALVES(name, vector, table)                                                       \
    static ALWAYS_INLINE vector name(vector low, vector high, int second)                      \
    {                                                                                          \
        enum { LANES = sizeof(vector) / sizeof(table[0][0][0]) };                              \
        vector from;                                                                           \
        memcpy(&from,                                                                          \
               table[LANES == 16  ? 3                                                          \
                     : LANES == 8 ? 2                                                          \
                                  : LANES / 4][second],                                        \
               sizeof from);                                                                   \
        return SHUFFLE(low, high, from);                                                       \
    }
JOIN_HALVES(vector_join_u32, vector_u32, TURN_U32)
JOIN_HALVES(vector_join_u64, vector_u64, TURN_U64)

/* Sums the lanes of line i into lane i, for as many lines as a vector has lanes. Lanes fold by
 * halves, two lines at a time. */
#define FOLD_LINES(name, vector, index, table)                                                 \
    static ALWAYS_INLINE vector name(vector *line)                                             \
    {                                                                                          \
        enum { LANES = sizeof(vector) / sizeof(table[0][0][0]) };                              \
        _Pragma("GCC unroll 4") for (int b = 3; b >= 0; b--)                                   \
        {                                                                                      \
            if (1 << b >= LANES) continue;                                                     \
            index low, high;                                                                   \
            memcpy(&low, table[b][0], sizeof low);                                             \
            memcpy(&high, table[b][1], sizeof high);                                           \
            _Pragma("GCC unroll 8") for (int i = 0; i < 1 << b; i++) line[i] =                 \
                SHUFFLE(line[i], line[i + (1 << b)], low) +                                    \
                SHUFFLE(line[i], line[i + (1 << b)], high);                                    \
        }                                                                                      \
        return line[0];                                                                        \
    }
FOLD_LINES(vector_fold_f32, vector_f32, vector_u32, TURN_U32)
FOLD_LINES(vector_fold_f64, vector_f64, vector_u64, TURN_U64)

/* x in every lane. Subtracting +0 keeps every value, also -0. */
#define VECTOR_SPLAT(vector, x) ((x) - (vector){0})

/* The real type of dtype D and its numbers per element (two for complex); a vector of them, one
 * of their bits, and the functions of these vectors. */
#define R GOP_PASTE(SCALAR, D)
#define SCALAR_float32 float
#define SCALAR_float64 double
#define SCALAR_complex64 float
#define SCALAR_complex128 double
#define EACH (1 + IS_COMPLEX)
#define REAL GOP_PASTE(REAL, D)
#define REAL_float32 f32
#define REAL_float64 f64
#define REAL_complex64 f32
#define REAL_complex128 f64
#define WORD GOP_PASTE(WORD, D)
#define WORD_float32 u32
#define WORD_float64 u64
#define WORD_complex64 u32
#define WORD_complex128 u64
#define V GOP_PASTE(vector, REAL)
#define U GOP_PASTE(vector, WORD)
#define H GOP_PASTE(half, REAL)
#define HFN(name) GOP_PASTE(GOP_PASTE(half, name), REAL)
#define VFN(name) GOP_PASTE(GOP_PASTE(vector, name), REAL)
#define UFN(name) GOP_PASTE(GOP_PASTE(vector, name), WORD)

#endif
