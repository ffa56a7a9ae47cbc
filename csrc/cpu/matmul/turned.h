/*
 * turned.h - matmul by a few columns of b: a lane is a row of a.
 *
 * If a lane were a column of b, few columns would leave most lanes idle. Rows of a that are
 * contiguous along l are transposed in registers, a square at a time; short ones are gathered.
 * Where rows are neighbours in memory, a vector is loaded directly.
 */
#ifndef GOP_CPU_MATMUL_TURNED_H
#define GOP_CPU_MATMUL_TURNED_H

#include "cpu/matmul/rows.h"

enum { TURNED_COLS = 4 };
enum { BY_SQUARES, BY_GATHERS, BY_LOADS }; /* how a vector gets a term of its rows */

/* Lanes of two vectors in turns: of their first halves, and of their second. */
#define PAIR_LANE(lanes, d, l) (l) / 2 + (d) + (l) % 2 * (lanes)
static const uint32_t PAIRS_U32[2][16] = {{SIXTEEN_LANES(PAIR_LANE, VECTOR / 4, 0)},
                                          {SIXTEEN_LANES(PAIR_LANE, VECTOR / 4, VECTOR / 8)}};

/* a[0], a[row], a[2 row], ..: a lane each. */
static ALWAYS_INLINE vector_u32 gather_rows(const float *a, int64_t row, int rows)
{
#if defined(__AVX512F__)
    const __m512i lanes =
        _mm512_mullo_epi32(_mm512_loadu_si512(LANES_U32), _mm512_set1_epi32((int)row));
    return (vector_u32)_mm512_mask_i32gather_ps(
        _mm512_setzero_ps(), (__mmask16)((1u << rows) - 1), lanes, a, sizeof(float));
#else
    vector_f32 v = {0};
    for (int r = 0; r < rows; r++) v[r] = a[r * row];
    return (vector_u32)v;
#endif
}

/* Computes `cols` columns of at most a vector of rows, over kc values of l. The chain of an
 * output is the same as in the calling kernel. */
static ALWAYS_INLINE void turned_rows(const int cols, const int how, int rows, int64_t kc,
                                      const float *a, const sides *s, const float *b,
                                      float *out, int is_first)
{
    enum { N = VECTOR / (int)sizeof(float) };
    float line[TURNED_COLS][N];
    vector_f32 sum[TURNED_COLS];
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) sum[c] = (vector_f32){0};
    for (int64_t l0 = 0; l0 < kc; l0 += N) {
        const int count = (int)gop_smaller(kc - l0, N);
        vector_u32 square[N];
#pragma GCC unroll 16
        for (int x = 0; x < N && how == BY_SQUARES; x++)
            square[x] =
                x < rows ? vector_load_u32(a + x * s->a_row + l0, count) : (vector_u32){0};
        if (how == BY_SQUARES) vector_square_u32(square);
#pragma GCC unroll 16
        for (int l = 0; l < N; l++) {
            if (l >= count) break;
            const float *const term = a + (l0 + l) * s->a_col;
            if (how == BY_LOADS) square[l] = vector_load_u32(term, rows);
            if (how == BY_GATHERS) square[l] = gather_rows(term, s->a_row, rows);
#pragma GCC unroll 4
            for (int c = 0; c < cols; c++)
                sum[c] = vector_fma_f32(VECTOR_SPLAT(vector_f32, b[(l0 + l) * s->b_row + c]),
                                        (vector_f32)square[l], sum[c]);
        }
    }
    if (cols == 1 && s->out_row == 1) {
        if (!is_first) sum[0] += (vector_f32)vector_load_u32(out, rows);
        vector_store_u32(out, rows, (vector_u32)sum[0]);
        return;
    }
    if (cols == 2 && s->out_row == 2 && is_first && rows == N) {
        vector_u32 low, high;
        memcpy(&low, PAIRS_U32[0], sizeof low);
        memcpy(&high, PAIRS_U32[1], sizeof high);
        vector_store_u32(out, N, (vector_u32)SHUFFLE(sum[0], sum[1], low));
        vector_store_u32(out + N, N, (vector_u32)SHUFFLE(sum[0], sum[1], high));
        return;
    }
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) vector_store_u32(line[c], N, (vector_u32)sum[c]);
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < cols; c++) {
            float *const to = out + r * s->out_row + c;
            *to = is_first ? line[c][r] : *to + line[c][r];
        }
}

/* Computes all rows. */
static void turned(int cols, int64_t rows, int64_t kc, const float *a, const sides *s,
                   const float *b, float *out, int is_first)
{
    enum { N = VECTOR / (int)sizeof(float) };
    for (int64_t i = 0; i < rows; i += N, a += N * s->a_row, out += N * s->out_row) {
        const int here = (int)gop_smaller(rows - i, N);
#define CASE(c)                                                                                \
    case c:                                                                                    \
        if (s->a_row == 1) turned_rows(c, BY_LOADS, here, kc, a, s, b, out, is_first);         \
        else if (s->k < N) turned_rows(c, BY_GATHERS, here, kc, a, s, b, out, is_first);       \
        else turned_rows(c, BY_SQUARES, here, kc, a, s, b, out, is_first);                     \
        break;
        switch (cols) {
            CASE(1) CASE(2) CASE(3) CASE(4)
        }
#undef CASE
    }
}

/* Whether this pays: rows fill half of the lanes, and are short and gathered, or neighbours, or
 * long enough to be transposed. Long ones have to be in the L2 cache: that many, a power of two
 * apart, would not stay in the L1 cache. The bits are the same either way. */
static inline int is_turned(const sides *s, gop_dtype dtype)
{
    enum { LANES = VECTOR / 4, CACHED = 512 << 10, NEAR = 1 << 20, SHORT_COLS = 2 };
    if (dtype != GOP_FLOAT32 || s->n > TURNED_COLS || s->m < LANES / 2 || s->k == 0) return 0;
    if (s->k < LANES)
        return s->n <= SHORT_COLS &&
               (s->a_row == 1 || (VECTOR == 64 && -NEAR < s->a_row && s->a_row < NEAR));
    return (s->a_col == 1 || s->a_row == 1) && s->m <= CACHED / 4 / s->k;
}

#endif
