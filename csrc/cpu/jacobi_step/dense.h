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

/* A leaf of m terms of `count` rows, which go on at `after`. */
static inline void FN(leaves)(const T *a, int64_t row, const T *x, int64_t m, const T *after,
                              int64_t count, T sum[ABREAST])
{
    if (count < ABREAST || m < LANES)
        for (int64_t r = 0; r < count; r++) sum[r] = FN(leaf)(a + r * row, x, m);
#if !IS_COMPLEX
    else if (m % LANES == 0) FN(whole_leaf_rows)(a, row, x, m, after, sum);
#endif
    else FN(leaf_rows)(a, row, x, m, sum);
    (void)after;
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
            FN(leaves)(a, row, x, m, k + m < n ? a + m : a - k + ABREAST * row, count, sum);
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

/* Adds `count` columns of A, `next` items apart, to the sums of a lane; as many from `after` on
 * are the next to be read. */
static ALWAYS_INLINE void FN(add_columns)(T *restrict sum, const T *restrict a, int64_t next,
                                          const T *restrict x, const int count, const int fresh,
                                          int rows, int64_t a_row, const T *after)
{
    for (int j = 0; j < count; j++) fetch_start(after + j * next);
    for (int r = 0; r < rows; r++) {
        T t = fresh ? NEGATIVE_ZERO : sum[r];
#pragma GCC unroll 8
        for (int j = 0; j < count; j++)
            t = FN(multiply_add)(a[r * a_row + j * next], x[j * LANES], t);
        sum[r] = t;
    }
}

/* One lane of a leaf for all rows of a strip: every 128th of `terms` columns from a on. Those
 * of the next lane begin at `after`. */
static ALWAYS_INLINE void FN(strip_lane)(T *sum, const T *a, int64_t next, const T *x,
                                         int terms, int rows, int64_t a_row, const T *after)
{
    int j = 0;
    if (terms >= TOGETHER) {
        const T *then = terms >= 2 * TOGETHER ? a + TOGETHER * next : after;
        FN(add_columns)(sum, a, next, x, TOGETHER, 1, rows, a_row, then);
        j = TOGETHER;
    } else
        for (int r = 0; r < rows; r++) sum[r] = NEGATIVE_ZERO;
    for (; j + TOGETHER <= terms; j += TOGETHER) {
        const T *then = j + 2 * TOGETHER <= terms ? a + (j + TOGETHER) * next : after;
        FN(add_columns)
        (sum, a + j * next, next, x + j * LANES, TOGETHER, 0, rows, a_row, then);
    }
    for (; j < terms; j++) FN(add_columns)
    (sum, a + j * next, next, x + j * LANES, 1, 0, rows, a_row, after);
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
            const int l = reversed(step, bits);
            const int terms = l < m ? (m - l - 1) / LANES + 1 : 0;
            const T *const first = s->a + begin * g->a_row + k0 * g->a_col;
            const T *const a = first + l * g->a_col;
            const T *const after = first + reversed(step + 1, bits) * g->a_col;
            for (int64_t c = 0; c < columns; c++) FN(strip_lane)
            (sum + c * stack + at * STRIP, a, LANES * g->a_col,
             s->columns + (c0 + c) * s->column + k0 + l, terms, rows, a_row, after);
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
    const int levels = strip_levels(s->g.n);
    int64_t last;
    for (int64_t i = begin; i < end; i = last) {
        const int64_t head = strips ? strip_head(&s->g, s->a + i * s->g.a_row, sizeof(T)) : 0;
        last = gop_smaller(i + (!strips ? ABREAST : head ? head : STRIP), end);
        for (int64_t c = 0; c < s->g.k; c += COLUMNS) {
            const int64_t columns = gop_smaller(s->g.k - c, COLUMNS);
            if (!strips) FN(dense_block)(s, (FN(block) *)room, i, last, c, columns);
            else if (s->g.a_row == 1)
                FN(dense_strip)(s, (T *)room, levels, i, last, c, columns, 1);
            else FN(dense_strip)(s, (T *)room, levels, i, last, c, columns, s->g.a_row);
        }
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

#include "cpu/jacobi_step/abreast.h"
#include "cpu/runtime/stream.h"

enum {
    COLUMNS = 8,  /* right-hand sides that share the leaves of A */
    TOGETHER = 8, /* columns of A that are read side by side */
    STRIP_BYTES = 16384,
    CACHED = 1 << 25, /* bytes that a third-level cache holds */
};

/* Rows of a strip. */
#define STRIP (STRIP_BYTES / (int)sizeof(T))

/* Whether neighbours in memory are neighbouring rows. */
static inline int by_columns(const gop_jacobi *g)
{
    return llabs(g->a_row) < llabs(g->a_col);
}

/* A lane's number by its place in the order of the fold: the lowest bits of it reversed. */
static inline int reversed(int step, int bits)
{
    int lane = 0;
    for (int b = 0; b < bits; b++) lane |= (step >> b & 1) << (bits - 1 - b);
    return lane;
}

/* Strips of sums that a strip of rows needs: lanes and leaves, as binary counters carry. */
static inline int strip_levels(int64_t n)
{
    int levels = 9;
    for (int64_t leaves = n / LEAF; leaves > 0; leaves /= 2) levels++;
    return levels;
}

/* Rows up to the first that begins a line in every column. They are a strip of their own in a
 * matrix that a cache holds: there a vector that lies in two lines is what takes time. */
static inline int64_t strip_head(const gop_jacobi *g, const void *from, int64_t size)
{
    const int64_t row = g->a_row * size, column = g->a_col * size;
    if (row != size || column % LINE || g->n < 1024 || g->n * column > CACHED) return 0;
    return (int64_t)(-(uintptr_t)from % LINE) / size;
}

#define GOP_TPL "cpu/jacobi_step/dense.h"
#include "cpu/jacobi_step/each_inexact.inc"

#endif
