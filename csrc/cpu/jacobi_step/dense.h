/*
 * dense.h - the rows of a dense matrix: a few at a time where rows are contiguous, a strip
 * of them where columns are.
 */
#ifdef D

/* ---- by rows: each leaf of x for a block of rows, and each leaf of A for a block of columns
 * of x ---- */

typedef struct FN(block) {
    TREE(nodes) tree[ABREAST][COLUMNS];
    T gathered[ABREAST][LEAF];
} FN(block);

/* A leaf of ABREAST rows, `row` items apart: as many streams out of memory, of which each gives
 * a vector at a time, in the order in which they lie. */
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

/* Items k to k + m of `count` rows from i on, gathered if they are not neighbours, and how far
 * apart the rows are. */
static inline const T *FN(row_leaves)(const FN(system) * s, FN(block) * room, int64_t i,
                                      int64_t count, int64_t k, int64_t m, int64_t *row)
{
    const T *a = s->a + i * s->g.a_row + k * s->g.a_col;
    *row = s->g.a_row;
    if (s->g.a_col == 1) return a;
    *row = LEAF;
    for (int64_t r = 0; r < count; r++)
        for (int64_t l = 0; l < m; l++)
            room->gathered[r][l] = a[r * s->g.a_row + l * s->g.a_col];
    return room->gathered[0];
}

/* Rows [begin, end), at most ABREAST, and columns [c0, c0 + columns), at most COLUMNS, of x. */
static void FN(dense_block)(const FN(system) * s, FN(block) * room, int64_t begin, int64_t end,
                            int64_t c0, int64_t columns)
{
    const int64_t n = s->g.n, count = end - begin;
    for (int r = 0; r < ABREAST; r++)
        for (int64_t c = 0; c < columns; c++) room->tree[r][c].leaves = 0;
    for (int64_t k = 0; k < n; k += LEAF) {
        int64_t row;
        const int64_t m = gop_smaller(n - k, LEAF);
        const T *a = FN(row_leaves)(s, room, begin, count, k, m, &row);
        for (int64_t c = 0; c < columns; c++) {
            const T *x = s->columns + (c0 + c) * s->column + k;
            T sum[ABREAST];
            if (count == ABREAST && m >= LANES) FN(leaf_rows)(a, row, x, m, sum);
            else
                for (int64_t r = 0; r < count; r++) sum[r] = FN(leaf)(a + r * row, x, m);
            for (int64_t r = 0; r < count; r++) TREE(push)(&room->tree[r][c], sum[r]);
        }
    }
    for (int64_t r = 0; r < count; r++)
        for (int64_t c = 0; c < columns; c++) {
            const T sum = TREE(root)(&room->tree[r][c], POSITIVE_ZERO);
            FN(update)(s, begin + r, c0 + c, sum, FN(diagonal)(s, begin + r));
        }
}

/* ---- by columns: the rows of a strip grow together, a lane after the other. The lanes come in
 * the order in which the fold wants them, so that few sums are under way at a time and a strip
 * can be as long as a page. ---- */

/* Adds `count` columns of A, `next` items apart, to the sums of a lane. */
static ALWAYS_INLINE void FN(add_columns)(T *restrict sum, const T *restrict a, int64_t next,
                                          const T *restrict x, const int count, const int fresh,
                                          int rows, int64_t a_row)
{
    for (int r = 0; r < rows; r++) {
        T t = fresh ? NEGATIVE_ZERO : sum[r];
#pragma GCC unroll 8
        for (int j = 0; j < count; j++)
            t = FN(multiply_add)(a[r * a_row + j * next], x[j * LANES], t);
        sum[r] = t;
    }
}

/* One lane of a leaf for all rows of a strip: every 128th of `terms` columns from a on. */
static ALWAYS_INLINE void FN(strip_lane)(T *sum, const T *a, int64_t next, const T *x,
                                         int terms, int rows, int64_t a_row)
{
    int j = 0;
    if (terms >= TOGETHER) {
        FN(add_columns)(sum, a, next, x, TOGETHER, 1, rows, a_row);
        j = TOGETHER;
    } else
        for (int r = 0; r < rows; r++) sum[r] = NEGATIVE_ZERO;
    for (; j + TOGETHER <= terms; j += TOGETHER)
        FN(add_columns)(sum, a + j * next, next, x + j * LANES, TOGETHER, 0, rows, a_row);
    for (; j < terms; j++)
        FN(add_columns)(sum, a + j * next, next, x + j * LANES, 1, 0, rows, a_row);
}

static inline void FN(add_strips)(T *restrict left, const T *restrict right, int rows)
{
    for (int r = 0; r < rows; r++) left[r] = FN(plus)(left[r], right[r]);
}

/* Rows [begin, end), at most STRIP, of columns [c0, c0 + columns). `sum` has 8 + `leaves`
 * strips a column: a stack of lanes under a stack of leaves, both as a binary counter carries.
 */
static ALWAYS_INLINE void FN(dense_strip)(const FN(system) * s, T *sum, int levels,
                                          int64_t begin, int64_t end, int64_t c0,
                                          int64_t columns, const int64_t a_row)
{
    const gop_jacobi *g = &s->g;
    const int rows = (int)(end - begin);
    const int64_t stack = (int64_t)levels * STRIP;
    int64_t leaves = 0;
    int top = 0; /* where the next leaf goes: strips below hold the subtrees so far */
    for (int64_t k0 = 0; k0 < g->n; k0 += LEAF) {
        const int m = g->n - k0 < LEAF ? (int)(g->n - k0) : LEAF;
        int bits = 0; /* of a lane's number; lanes beyond are -0.0 */
        while (bits < 7 && 1 << bits < m) bits++;
        int at = top;
        for (int step = 0; step < 1 << bits; step++, at++) {
            int l = 0; /* the step's bits reversed */
            for (int b = 0; b < bits; b++) l |= (step >> b & 1) << (bits - 1 - b);
            const int terms = l < m ? (m - l - 1) / LANES + 1 : 0;
            const T *a = s->a + begin * g->a_row + (k0 + l) * g->a_col;
            for (int64_t c = 0; c < columns; c++) FN(strip_lane)
            (sum + c * stack + at * STRIP, a, LANES * g->a_col,
             s->columns + (c0 + c) * s->column + k0 + l, terms, rows, a_row);
            for (int done = step; done & 1; done >>= 1, at--)
                for (int64_t c = 0; c < columns; c++) {
                    T *const left = sum + c * stack + (at - 1) * STRIP;
                    FN(add_strips)(left, left + STRIP, rows);
                }
        }
        for (int64_t done = leaves++; done & 1; done >>= 1, top--)
            for (int64_t c = 0; c < columns; c++) {
                T *const left = sum + c * stack + (top - 1) * STRIP;
                FN(add_strips)(left, left + STRIP, rows);
            }
        top++;
    }
    for (int64_t c = 0; c < columns; c++) {
        for (int at = top - 1; at > 0; at--) FN(add_strips)
        (sum + c * stack + (at - 1) * STRIP, sum + c * stack + at * STRIP, rows);
        for (int r = 0; r < rows; r++)
            FN(update)(s, begin + r, c0 + c, sum[c * stack + r], FN(diagonal)(s, begin + r));
    }
}

static void FN(dense_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) *s = argument;
    char *const room = s->scratch + worker * s->room;
    const int strips = by_columns(&s->g);
    const int64_t height = strips ? (int64_t)STRIP : ABREAST;
    const int levels = strip_levels(s->g.n);
    for (int64_t i = begin; i < end; i += height)
        for (int64_t c = 0; c < s->g.k; c += COLUMNS) {
            const int64_t last = gop_smaller(i + height, end);
            const int64_t columns = gop_smaller(s->g.k - c, COLUMNS);
            if (!strips) FN(dense_block)(s, (FN(block) *)room, i, last, c, columns);
            else if (s->g.a_row == 1)
                FN(dense_strip)(s, (T *)room, levels, i, last, c, columns, 1);
            else FN(dense_strip)(s, (T *)room, levels, i, last, c, columns, s->g.a_row);
        }
}

static size_t FN(dense_room)(const gop_jacobi *g)
{
    const int64_t columns = gop_smaller(g->k, COLUMNS);
    if (by_columns(g)) return (size_t)(columns * strip_levels(g->n) * STRIP) * sizeof(T);
    return (sizeof(FN(block)) + 63) / 64 * 64;
}

#elif !defined(GOP_CPU_JACOBI_STEP_DENSE_H)
#define GOP_CPU_JACOBI_STEP_DENSE_H

#include <stdlib.h>

#include "cpu/jacobi_step/leaf.h"
#include "cpu/runtime/stream.h"

enum {
    ABREAST = 4,  /* rows that are read side by side */
    COLUMNS = 8,  /* right-hand sides that share the leaves of A */
    TOGETHER = 8, /* columns of A that are read side by side */
    STRIP_BYTES = 16384,
};

/* Items that are added at once: a vector register of reals; of complex numbers more, whose
 * parts come apart. */
#if defined(__AVX512F__)
#define VECTOR ((IS_COMPLEX ? 128 : 64) / (int)sizeof(T))
#else
#define VECTOR ((IS_COMPLEX ? 128 : 32) / (int)sizeof(T))
#endif

/* Rows of a strip. */
#define STRIP (STRIP_BYTES / (int)sizeof(T))

/* Whether neighbours in memory are neighbouring rows. */
static inline int by_columns(const gop_jacobi *g)
{
    return llabs(g->a_row) < llabs(g->a_col);
}

/* Strips of sums that a strip of rows needs: lanes and leaves, as binary counters carry. */
static inline int strip_levels(int64_t n)
{
    int levels = 9;
    for (int64_t leaves = n / LEAF; leaves > 0; leaves /= 2) levels++;
    return levels;
}

#define GOP_TPL "cpu/jacobi_step/dense.h"
#include "cpu/jacobi_step/each_inexact.inc"

#endif
