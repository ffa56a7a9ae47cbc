/*
 * turned.h - matmul by a few columns of b: a lane is a row of a.
 *
 * If a lane were a column of b, few columns would leave most lanes idle. Rows of a that are
 * contiguous along l are transposed in registers, a square at a time. Otherwise a vector is
 * loaded directly.
 */
#ifndef GOP_CPU_MATMUL_TURNED_H
#define GOP_CPU_MATMUL_TURNED_H

#include "cpu/matmul/rows.h"

enum { TURNED_COLS = 4 };

/* Computes `cols` columns of at most a vector of rows, over kc values of l. The chain of an
 * output is the same as in the calling kernel. */
static ALWAYS_INLINE void turned_rows(const int cols, const int is_turned, int rows, int64_t kc,
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
        for (int x = 0; x < N && is_turned; x++)
            square[x] =
                x < rows ? vector_load_u32(a + x * s->a_row + l0, count) : (vector_u32){0};
        if (is_turned) vector_square_u32(square);
#pragma GCC unroll 16
        for (int l = 0; l < N; l++) {
            if (l >= count) break;
            if (!is_turned) square[l] = vector_load_u32(a + (l0 + l) * s->a_col, rows);
#pragma GCC unroll 4
            for (int c = 0; c < cols; c++)
                sum[c] = vector_fma_f32(VECTOR_SPLAT(vector_f32, b[(l0 + l) * s->b_row + c]),
                                        (vector_f32)square[l], sum[c]);
        }
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
        if (s->a_col == 1) turned_rows(c, 1, here, kc, a, s, b, out, is_first);                \
        else turned_rows(c, 0, here, kc, a, s, b, out, is_first);                              \
        break;
        switch (cols) {
            CASE(1) CASE(2) CASE(3) CASE(4)
        }
#undef CASE
    }
}

/* Whether this pays: rows fill half of the lanes, l fills them once, and a is in the L2 cache.
 * That many rows, a power of two apart, would not stay in the L1 cache. The bits are the same
 * either way. */
static inline int is_turned(const sides *s, gop_dtype dtype)
{
    enum { LANES = VECTOR / 4, CACHED = 512 << 10 };
    return dtype == GOP_FLOAT32 && s->n <= TURNED_COLS && s->m >= LANES / 2 && s->k >= LANES &&
           (s->a_col == 1 || s->a_row == 1) && s->m <= CACHED / 4 / s->k;
}

#endif
