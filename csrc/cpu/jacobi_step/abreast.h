/*
 * abreast.h - one leaf of several rows at a time: x is loaded once for all of them.
 */
#ifdef D

/* Computes a leaf of m >= 128 terms for ABREAST rows, which are `row` items apart. It reads one
 * sequential stream of memory per row, a vector at a time. */
static __attribute__((noinline)) void
FN(leaf_rows)(const T *restrict a, int64_t row, const T *restrict x, int64_t m, T sum[ABREAST])
{
    T lane[ABREAST][LANES];
    const int64_t whole = m / LANES * LANES;
    for (int r = 0; r < ABREAST; r++)
        for (int l = 0; l < LANES; l++) lane[r][l] = NEGATIVE_ZERO;
    for (int64_t k = 0; k < whole; k += LANES)
        for (int q = 0; q < LANES; q += VECTOR)
#pragma GCC unroll 4
            for (int r = 0; r < ABREAST; r++)
                for (int l = q; l < q + VECTOR; l++)
                    lane[r][l] = FN(multiply_add)(a[r * row + k + l], x[k + l], lane[r][l]);
    for (int r = 0; r < ABREAST; r++) {
        for (int64_t k = whole; k < m; k++)
            lane[r][k - whole] = FN(multiply_add)(a[r * row + k], x[k], lane[r][k - whole]);
        sum[r] = TREE(fold_lanes)(lane[r]);
    }
}

#if !IS_COMPLEX
typedef T FN(vector) __attribute__((vector_size(VECTOR * sizeof(T))));
typedef T FN(short_vector) __attribute__((vector_size(16)));

static ALWAYS_INLINE FN(vector) FN(load)(const T *from)
{
    FN(vector) v;
    memcpy(&v, from, sizeof v);
    return v;
}

static ALWAYS_INLINE FN(vector)
    FN(multiply_add_vector)(FN(vector) a, FN(vector) b, FN(vector) c)
{
    for (int l = 0; l < VECTOR; l++) c[l] = FMA(a[l], b[l], c[l]);
    return c;
}

/* Folds the 128 lanes as fold_lanes does, but in registers. */
static ALWAYS_INLINE T FN(fold_vectors)(FN(vector) lane[VECTORS])
{
    FN(short_vector) part[VECTOR / SHORT];
#pragma GCC unroll 5
    for (int d = VECTORS / 2; d > 0; d /= 2)
#pragma GCC unroll 16
        for (int q = 0; q < d; q++) lane[q] += lane[q + d];
    memcpy(part, lane, sizeof part);
#pragma GCC unroll 2
    for (int d = VECTOR / SHORT / 2; d > 0; d /= 2)
#pragma GCC unroll 2
        for (int q = 0; q < d; q++) part[q] += part[q + d];
#pragma GCC unroll 2
    for (int d = SHORT / 2; d > 0; d /= 2)
#pragma GCC unroll 2
        for (int l = 0; l < d; l++) part[0][l] += part[0][l + d];
    return part[0][0];
}

/* The same for m a multiple of 128. Lane numbers do not depend on m, so that the lanes are in
 * as many registers as there are. The next leaves of the rows begin at `after`. */
static __attribute__((noinline)) void FN(whole_leaf_rows)(const T *restrict a, int64_t row,
                                                          const T *restrict x, int64_t m,
                                                          const T *after, T sum[ABREAST])
{
    FN(vector) lane[ABREAST][VECTORS];
#pragma GCC unroll 4
    for (int r = 0; r < ABREAST; r++)
#pragma GCC unroll 32
        for (int q = 0; q < VECTORS; q++) lane[r][q] = -(FN(vector)){0};
    for (int64_t k = 0; k < m; k += LANES)
#pragma GCC unroll 32
        for (int q = 0; q < VECTORS; q++) {
            const FN(vector) v = FN(load)(x + k + q * VECTOR);
#pragma GCC unroll 4
            for (int r = 0; r < ABREAST; r++)
                lane[r][q] = FN(multiply_add_vector)(FN(load)(a + r * row + k + q * VECTOR), v,
                                                     lane[r][q]);
        }
    for (int r = 0; r < ABREAST; r++) fetch_start(after + r * row); /* overlaps with the fold */
#pragma GCC unroll 4
    for (int r = 0; r < ABREAST; r++) sum[r] = FN(fold_vectors)(lane[r]);
}
#endif

#elif !defined(GOP_CPU_JACOBI_STEP_ABREAST_H)
#define GOP_CPU_JACOBI_STEP_ABREAST_H

#include "cpu/jacobi_step/leaf.h"
#include "cpu/runtime/stream.h"

enum { ABREAST = 4 }; /* rows that are read at a time */

/* Bytes that are added at once: a vector register of reals. Complex numbers take more, because
 * their parts are separated. */
#if defined(__AVX512F__)
enum { REGISTER = 64 };
#elif defined(__AVX2__)
enum { REGISTER = 32 };
#else
enum { REGISTER = 16 };
#endif
#define VECTOR ((IS_COMPLEX ? 128 : REGISTER) / (int)sizeof(T))
#define VECTORS (LANES / VECTOR)    /* vectors of a row's lanes */
#define SHORT (16 / (int)sizeof(T)) /* items of the shortest vector */

/* Prefetches the first two lines at an address, after which the hardware prefetcher follows. */
static inline void fetch_start(const void *from)
{
    __builtin_prefetch(from);
    __builtin_prefetch((const char *)from + LINE);
}

#define GOP_TPL "cpu/jacobi_step/abreast.h"
#include "cpu/jacobi_step/each_inexact.inc"

#endif
