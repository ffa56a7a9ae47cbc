/*
 * dense.h - the rows of a dense matrix: a few at a time if rows are contiguous, a strip of rows
 * if columns are.
 */
#ifdef D

/* ---- by rows: each leaf of x serves a block of rows, and each leaf of A a block of columns of
 * x ---- */

/* The sums of ABREAST rows by COLUMNS columns: one node for each subtree of leaves, as in a
 * binary counter, the largest subtree first. */
typedef struct FN(block) {
    T node[LEVELS][COLUMNS][ABREAST];
    T gathered[ABREAST][LEAF];
} FN(block);

/* Returns items [k, k + m) of `count` rows from i on, gathered if they are not contiguous. Sets
 * `row` to the distance between rows. */
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

/* Computes a leaf of m terms for `count` rows, whose next leaves begin at `after`. */
static ALWAYS_INLINE void FN(leaves)(const T *a, int64_t row, const T *x, int64_t m,
                                     const T *after, const int64_t count, T sum[ABREAST])
{
    if (count < ABREAST || m < LANES)
        for (int64_t r = 0; r < count; r++) sum[r] = FN(leaf)(a + r * row, x, m);
#if !IS_COMPLEX
    else if (m % LANES == 0) FN(whole_leaf_rows)(a, row, x, m, after, sum);
#endif
    else FN(leaf_rows)(a, row, x, m, sum);
    (void)after;
}

/* node[top - 1] += node[top] for `count` rows and `columns` columns. */
static ALWAYS_INLINE void FN(add_nodes)(FN(block) * room, int top, const int64_t count,
                                        int64_t columns)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < count; r++) {
            T *const node = &room->node[top - 1][c][r];
            *node = FN(plus)(*node, room->node[top][c][r]);
        }
}

/* Computes at most ABREAST rows from `begin` on, for at most COLUMNS columns of x from c0 on.
 */
static ALWAYS_INLINE void FN(dense_block)(const FN(system) * s, FN(block) * room, int64_t begin,
                                          const int64_t count, int64_t c0, int64_t columns)
{
    const int64_t n = s->g.n;
    int64_t leaves = 0;
    int top = 0; /* the node for the next leaf */
    for (int64_t k = 0; k < n; k += LEAF) {
        int64_t row;
        const int64_t m = gop_smaller(n - k, LEAF);
        const T *a = FN(row_leaves)(s, room, begin, count, k, m, &row);
        const T *after = k + m < n ? a + m : a - k + ABREAST * row;
        for (int64_t c = 0; c < columns; c++) FN(leaves)
        (a, row, s->columns + (c0 + c) * s->column + k, m, after, count, room->node[top][c]);
        for (int64_t done = leaves++; done & 1; done >>= 1)
            FN(add_nodes)(room, top--, count, columns);
        top++;
    }
    while (--top > 0) FN(add_nodes)(room, top, count, columns);
    T diagonal[ABREAST];
    for (int64_t r = 0; r < count && !s->has_alpha; r++)
        diagonal[r] = FN(diagonal)(s, begin + r);
    for (int64_t c = 0; c < columns; c++)
        FN(update_rows)(s, begin, count, c0 + c, room->node[0][c], diagonal);
}

/* ---- by columns: the sums of a strip of rows grow together, one lane after the other. Lanes
 * come in the order of the fold, so that few sums are live at a time and a strip can be as long
 * as a page. ---- */

typedef void FN(adding)(T *sum, T *to, const T *a, int64_t next, const T *x, int rows,
                        int64_t a_row);

/* Adds `count` columns of A, `next` items apart, to a lane's sums, or starts the sums with
 * them. If `left` is set, it instead adds the completed lane to `left`, which is the left
 * operand. */
static ALWAYS_INLINE void FN(add_columns_of)(T *restrict sum, T *restrict left,
                                             const T *restrict a, int64_t next,
                                             const T *restrict x, const int count,
                                             const int fresh, int rows, const int64_t a_row)
{
    for (int r = 0; r < rows; r++) {
        T t = fresh ? NEGATIVE_ZERO : sum[r];
#pragma GCC unroll 8
        for (int j = 0; j < count; j++)
            t = FN(multiply_add)(a[r * a_row + j * next], x[j * LANES], t);
        if (left) left[r] = FN(plus)(left[r], t);
        else sum[r] = t;
    }
}

/* The five instances that occur, each for contiguous and for other rows. They are separate
 * functions, because compile time grows faster than a function's length. */
#define ADD_COLUMNS(name, left, count, fresh)                                                  \
    static __attribute__((noinline)) void FN(name)(T * sum, T * to, const T *a, int64_t next,  \
                                                   const T *x, int rows, int64_t a_row)        \
    {                                                                                          \
        (void)to;                                                                              \
        if (a_row == 1) FN(add_columns_of)(sum, left, a, next, x, count, fresh, rows, 1);      \
        else FN(add_columns_of)(sum, left, a, next, x, count, fresh, rows, a_row);             \
    }
ADD_COLUMNS(begin_lane, NULL, TOGETHER, 1)
ADD_COLUMNS(grow_lane, NULL, TOGETHER, 0)
ADD_COLUMNS(add_whole_lane, to, TOGETHER, 1)
ADD_COLUMNS(add_last_of_lane, to, TOGETHER, 0)
ADD_COLUMNS(grow_lane_by_one, NULL, 1, 0)
#undef ADD_COLUMNS

/* Applies one instance to a strip, to the strip's first cache line separately. The next `count`
 * columns to read begin at `after`. */
static void FN(add_strip)(FN(adding) * add, strip at, T *sum, T *left, const T *a, int64_t next,
                          const T *x, int count, const T *after, int64_t a_row)
{
    const int lead = at.head ? LINE / (int)sizeof(T) : 0;
    for (int j = 0; j < count; j++) fetch_start(after + j * next);
    if (lead) add(sum, left, a, next, x, lead, a_row);
    add(sum + lead, left ? left + lead : NULL, a + at.head * a_row, next, x, at.rows - at.head,
        a_row);
}

static inline void FN(add_sums)(T *restrict left, const T *restrict right, int sums)
{
    for (int r = 0; r < sums; r++) left[r] = FN(plus)(left[r], right[r]);
}

/* Computes one lane of a leaf for all rows of a strip, from every 128th of the columns from `a`
 * on, `terms` of them. Adds it to `left` if that is not NULL. The next lane's columns begin at
 * `after`. */
static void FN(strip_lane)(strip at, T *sum, T *left, const T *a, int64_t next, const T *x,
                           int terms, const T *after, int64_t a_row)
{
    const int whole = terms / TOGETHER * TOGETHER;
    for (int j = 0; j < whole; j += TOGETHER) {
        const T *const then = j + 2 * TOGETHER <= terms ? a + (j + TOGETHER) * next : after;
        const int is_last = left && j + TOGETHER == terms;
        FN(adding) *const add = j == 0    ? is_last ? FN(add_whole_lane) : FN(begin_lane)
                                   : is_last ? FN(add_last_of_lane)
                                          : FN(grow_lane);
        FN(add_strip)
        (add, at, sum, left, a + j * next, next, x + j * LANES, TOGETHER, then, a_row);
    }
    if (whole == terms && terms > 0) return;
    for (int r = 0; r < at.sums && whole == 0; r++) sum[r] = NEGATIVE_ZERO;
    for (int j = whole; j < terms; j++) FN(add_strip)
    (FN(grow_lane_by_one), at, sum, NULL, a + j * next, next, x + j * LANES, 1, after, a_row);
    if (left) FN(add_sums)(left, sum, at.sums);
}

/* Writes the outputs of column c of x for a strip's rows from `begin` on. The strip after `sum`
 * is free. */
static inline void FN(finish_strip)(const FN(system) * s, strip at, T *sum, int64_t begin,
                                    int64_t c)
{
    T *const diagonal = sum + STRIDE;
    const int lead = at.sums - at.rows;
    for (int r = 0; r < at.rows && !s->has_alpha; r++) diagonal[r] = FN(diagonal)(s, begin + r);
    FN(update_rows)(s, begin, at.head, c, sum, diagonal);
    FN(update_rows)
    (s, begin + at.head, at.rows - at.head, c, sum + lead + at.head, diagonal + at.head);
}

/* Computes a strip of rows from `begin` on, for columns [c0, c0 + columns) of x. `sum` has 8 +
 * leaves strips per column: a stack of lanes above a stack of leaves, both as in a binary
 * counter. */
static void FN(dense_strip)(const FN(system) * s, T *sum, int levels, int64_t begin, strip here,
                            int64_t c0, int64_t columns)
{
    const gop_jacobi *g = &s->g;
    const int64_t stack = (int64_t)levels * STRIDE;
    int64_t leaves = 0;
    int top = 0; /* the strip for the next leaf; those below hold subtrees */
    for (int64_t k0 = 0; k0 < g->n; k0 += LEAF) {
        const int m = g->n - k0 < LEAF ? (int)(g->n - k0) : LEAF;
        int bits = 0; /* bits of a lane's number; other lanes are -0.0 */
        while (bits < 7 && 1 << bits < m) bits++;
        int at = top;
        for (int step = 0; step < 1 << bits; step++, at++) {
            const int l = reversed(step, bits);
            const int terms = l < m ? (m - l - 1) / LANES + 1 : 0;
            const T *const first = s->a + begin * g->a_row + k0 * g->a_col;
            const T *const a = first + l * g->a_col;
            const T *const after = first + reversed(step + 1, bits) * g->a_col;
            for (int64_t c = 0; c < columns; c++) {
                T *const to = sum + c * stack + at * STRIDE;
                FN(strip_lane)
                (here, to, step & 1 ? to - STRIDE : NULL, a, LANES * g->a_col,
                 s->columns + (c0 + c) * s->column + k0 + l, terms, after, g->a_row);
            }
            if (!(step & 1)) continue;
            at--; /* the lane was added to the sums before it */
            for (int done = step >> 1; done & 1; done >>= 1, at--)
                for (int64_t c = 0; c < columns; c++) {
                    T *const left = sum + c * stack + (at - 1) * STRIDE;
                    FN(add_sums)(left, left + STRIDE, here.sums);
                }
        }
        for (int64_t done = leaves++; done & 1; done >>= 1, top--)
            for (int64_t c = 0; c < columns; c++) {
                T *const left = sum + c * stack + (top - 1) * STRIDE;
                FN(add_sums)(left, left + STRIDE, here.sums);
            }
        top++;
    }
    for (int64_t c = 0; c < columns; c++) {
        T *const column = sum + c * stack;
        for (int at = top - 1; at > 0; at--)
            FN(add_sums)(column + (at - 1) * STRIDE, column + at * STRIDE, here.sums);
        FN(finish_strip)(s, here, column, begin, c0 + c);
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
        const T *const first = s->a + i * s->g.a_row;
        last = gop_smaller(i + (strips ? STRIP : ABREAST), end);
        const int rows = (int)(last - i);
        const strip here = strip_of(&s->g, first, rows, sizeof(T));
        T *const sum = sums_beside(room, first);
        for (int64_t c = 0; c < s->g.k; c += COLUMNS) {
            const int64_t columns = gop_smaller(s->g.k - c, COLUMNS);
            if (!strips && rows == ABREAST)
                FN(dense_block)(s, (FN(block) *)room, i, ABREAST, c, columns);
            else if (!strips) FN(dense_block)(s, (FN(block) *)room, i, rows, c, columns);
            else FN(dense_strip)(s, sum, levels, i, here, c, columns);
        }
    }
}

static size_t FN(dense_room)(const gop_jacobi *g)
{
    const int64_t columns = gop_smaller(g->k, COLUMNS);
    if (by_columns(g))
        return (size_t)(columns * strip_levels(g->n) * STRIDE) * sizeof(T) + PAGE;
    return (sizeof(FN(block)) + 63) / 64 * 64;
}

#elif !defined(GOP_CPU_JACOBI_STEP_DENSE_H)
#define GOP_CPU_JACOBI_STEP_DENSE_H

#include <stdlib.h>

#include "cpu/jacobi_step/abreast.h"
#include "cpu/runtime/stream.h"

enum {
    COLUMNS = 8,  /* right-hand sides that share the leaves of A */
    LEVELS = 48,  /* levels of a tree: more leaves than memory can hold */
    TOGETHER = 8, /* columns of A that are read at a time */
    STRIP_BYTES = 16384,
    CACHED = 1 << 25, /* bytes that fit in an L3 cache */
    PAGE = 4096,      /* bytes after which the sets of an L1 cache repeat */
};

/* The most rows of a strip, and the items between two strips of sums. */
#define STRIP (STRIP_BYTES / (int)sizeof(T))
#define STRIDE (STRIP + LINE / (int)sizeof(T))

/* Whether the matrix is column-major. */
static inline int by_columns(const gop_jacobi *g)
{
    return llabs(g->a_row) < llabs(g->a_col);
}

/* The number of the lane that comes at place `step` in the order of the fold: its bits
 * reversed. */
static inline int reversed(int step, int bits)
{
    int lane = 0;
    for (int b = 0; b < bits; b++) lane |= (step >> b & 1) << (bits - 1 - b);
    return lane;
}

/* The number of strips of sums that a strip of rows needs, for the two binary counters. */
static inline int strip_levels(int64_t n)
{
    int levels = 9;
    for (int64_t leaves = n / LEAF; leaves > 0; leaves /= 2) levels++;
    return levels;
}

/* A strip of rows. `head` rows come before the first one that starts a cache line in every
 * column. Their sums take the end of a line; what that line holds of later rows is not used. */
typedef struct strip {
    int head, rows, sums;
} strip;

/* Sets up a strip. It has a head only if the matrix fits in a cache: there, vectors that cross
 * a cache line dominate the time. */
static inline strip strip_of(const gop_jacobi *g, const void *first, int rows, int size)
{
    const int64_t column = g->a_col * size;
    const int line = LINE / size;
    const int lines = g->a_row == 1 && column % LINE == 0 && g->n * column <= CACHED;
    const int head = lines && rows >= line ? (int)(-(uintptr_t)first % LINE) / size : 0;
    return (strip){head, rows, head ? rows + line - head : rows};
}

/* Places a strip's sums in a room that has a page to spare: half a page from the strip's first
 * item. If columns are a power of two apart, they fill the ways of one cache set, and the sums
 * must be in another set. */
static inline void *sums_beside(char *room, const void *first)
{
    const uintptr_t wanted = (uintptr_t)first + PAGE / 2;
    return room + (wanted - (uintptr_t)room) % PAGE / LINE * LINE;
}

#define GOP_TPL "cpu/jacobi_step/dense.h"
#include "cpu/jacobi_step/each_inexact.inc"

#endif
