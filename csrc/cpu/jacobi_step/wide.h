/*
 * wide.h - the rows of a CSR matrix times several columns of x at a time.
 *
 * The items of a row of x are contiguous, so a term is a vector of them: A and its column
 * indices are read once for all of them. Each column keeps its summation tree.
 */
#ifdef D

/* Columns of x that are processed together. */
typedef struct FN(panel) {
    const T *first;
    int64_t row; /* items from one row to the next */
} FN(panel);

/* Computes the sums of a leaf of m <= 2048 terms from p on. A lane is a vector that starts with
 * its first term. Lanes without a term are left out, because they are -0.0. */
static ALWAYS_INLINE void FN(wide_leaf)(const FN(system) * s, const int64_t width, int64_t p,
                                        int64_t m, FN(panel) x, T *restrict lane,
                                        T *restrict sum)
{
    for (int64_t t = 0; t < m; t++) {
        const T a = s->a[p + t];
        const T *const item =
            x.first + column_at(s->indices, s->g.index64, p + t, s->g.n) * x.row;
        T *const to = lane + t % LANES * width;
        if (t < LANES)
            for (int c = 0; c < width; c++) to[c] = FN(multiply_add)(a, item[c], NEGATIVE_ZERO);
        else
            for (int c = 0; c < width; c++) to[c] = FN(multiply_add)(a, item[c], to[c]);
    }
    int64_t lanes = gop_smaller(m, LANES), half = 1;
    while (2 * half < lanes) half *= 2;
    for (; lanes > 1; lanes = half, half /= 2)
        for (int64_t i = 0; i < (lanes - half) * width; i++)
            lane[i] = FN(plus)(lane[i], lane[half * width + i]);
    for (int c = 0; c < width; c++) sum[c] = lane[c];
}

/* A row of `count` terms, a constant as in csr.h: its lanes are registers. */
static ALWAYS_INLINE void FN(wide_short_row)(const FN(system) * s, const int index64,
                                             const int width, const int count, int64_t p,
                                             FN(panel) x, T *restrict sum)
{
    const T *item[SHORT_TERMS];
    T a[SHORT_TERMS];
    for (int t = 0; t < count; t++) {
        item[t] = x.first + column_at(s->indices, index64, p + t, s->g.n) * x.row;
        a[t] = s->a[p + t];
    }
#pragma GCC unroll 1
    for (int c = 0; c < width; c++) {
#define LANE(l) FN(multiply_add)(a[l], item[l][c], NEGATIVE_ZERO)
        sum[c] = FOLD_LANES(count);
#undef LANE
    }
}

/* Adds a leaf's sum to each column's tree. After the last leaf, `sum` becomes the trees'
 * results. */
static __attribute__((noinline)) void FN(wide_tree)(TREE(nodes) * tree, int width, int is_last,
                                                    T *sum)
{
    for (int c = 0; c < width; c++) {
        TREE(push)(&tree[c], sum[c]);
        if (is_last) sum[c] = TREE(root)(&tree[c], POSITIVE_ZERO);
    }
}

static __attribute__((noinline)) void FN(wide_long_row)(const FN(system) * s, const int width,
                                                        csr_row row, FN(panel) x, T *lane,
                                                        T *sum)
{
    TREE(nodes) tree[WIDE];
    const int has_leaves = row.end - row.begin > LEAF;
    for (int c = 0; c < width; c++) sum[c] = POSITIVE_ZERO;
    for (int c = 0; has_leaves && c < width; c++) tree[c].leaves = 0;
    for (int64_t p = row.begin; p < row.end; p += LEAF) {
        FN(wide_leaf)(s, width, p, gop_smaller(row.end - p, LEAF), x, lane, sum);
        if (has_leaves) FN(wide_tree)(tree, width, p + LEAF >= row.end, sum);
    }
}

/* Computes the sums of a row for any number of columns; lanes of a long one have room for WIDE
 * at a time. */
static ALWAYS_INLINE void FN(wide_row)(const FN(system) * s, const int width, csr_row row,
                                       FN(panel) x, T *lane, T *sum)
{
    switch (row.end - row.begin) {
#define CASE(count)                                                                            \
    case count:                                                                                \
        FN(wide_short_row)(s, s->g.index64, width, count, row.begin, x, sum);                  \
        break;
        SHORT_ROWS(CASE)
#undef CASE
    default:
        for (int c = 0; c < width; c += WIDE) {
            const FN(panel) part = {x.first + c, x.row};
            FN(wide_long_row)(s, width - c < WIDE ? width - c : WIDE, row, part, lane, sum + c);
        }
    }
}

/* Computes the sums of rows [first, last) of any lengths. */
static ALWAYS_INLINE void FN(wide_uneven)(const FN(system) * s, const int width, int64_t first,
                                          int64_t last, FN(panel) x, T *lane, T *sum)
{
    for (int64_t i = first; i < last; i++, sum += width)
        FN(wide_row)(s, width, row_of(s->indptr, s->g.index64, i, s->stored), x, lane, sum);
}

/* Computes the sums of `rows` consecutive rows of 3, 5 or 7 terms each, from term p on. */
static ALWAYS_INLINE void FN(wide_even)(const FN(system) * s, const int index64,
                                        const int width, int64_t terms, int64_t p, int64_t rows,
                                        FN(panel) x, T *sum)
{
    switch (terms) {
#define CASE(count)                                                                            \
    case count:                                                                                \
        for (int64_t r = 0; r < rows; r++) FN(wide_short_row)                                  \
        (s, index64, width, count, p + r * (count), x, sum + r * width);                       \
        break;
        CASE(3)
        CASE(5)
        CASE(7)
#undef CASE
    }
}

/* Updates column by column, if the items of a row are not contiguous. */
static void FN(update_columns)(const FN(system) * s, int width, int64_t first, int64_t last,
                               int64_t c, const T *sum, const T *diagonal)
{
    T column[WIDE_BATCH];
    for (int j = 0; j < width; j++) {
        for (int64_t r = 0; r < last - first; r++) column[r] = sum[r * width + j];
        FN(update_rows)(s, first, last - first, c + j, column, diagonal);
    }
}

/* Does what FN(update_rows) does, for columns [c, c + width). */
static ALWAYS_INLINE void FN(wide_update)(const FN(system) * s, const int width, int64_t first,
                                          int64_t last, int64_t c, FN(panel) at,
                                          T *restrict sum, const T *diagonal)
{
    const gop_jacobi *const g = &s->g;
    if (g->out_col != 1 || (s->residual && g->residual_col != 1)) {
        FN(update_columns)(s, width, first, last, c, sum, diagonal);
        return;
    }
    FN(panel) of_f = {s->f + first * g->f_row + c * g->f_col, g->f_row};
    if (g->f_col != 1) { /* transposes f, behind the sums */
        T *const turned = sum + WIDE_BATCH * WIDE;
        for (int j = 0; j < width; j++)
            for (int64_t r = 0; r < last - first; r++)
                turned[r * width + j] = of_f.first[r * g->f_row + j * g->f_col];
        of_f = (FN(panel)){turned, width};
    }
    for (int64_t i = first; i < last; i++, sum += width) {
        const T *restrict f = of_f.first + (i - first) * of_f.row;
        const T *restrict x = at.first + i * at.row;
        T *restrict out = s->out + i * g->out_row + c;
        const T d = s->has_alpha ? POSITIVE_ZERO : diagonal[i - first];
        for (int j = 0; j < width; j++) out[j] = FN(step)(s, sum[j], f[j], x[j], d);
        if (!s->residual) continue;
        T *restrict residual = s->residual + i * g->residual_row + c;
        for (int j = 0; j < width; j++) residual[j] = FN(minus)(f[j], sum[j]);
    }
}

/* The functions for `width` columns, compiled for each width of a panel. They are separate
 * functions, because compile time grows faster than a function's length. */
typedef struct FN(of_width) {
    int width;
    void (*uneven)(const FN(system) * s, int64_t first, int64_t last, FN(panel) x, T *lane,
                   T *sum);
    void (*even[2])(const FN(system) * s, int64_t terms, int64_t p, int64_t rows, FN(panel) x,
                    T *sum); /* by the size of indices */
    void (*update)(const FN(system) * s, int64_t first, int64_t last, int64_t c, FN(panel) at,
                   T *sum, const T *diagonal);
} FN(of_width);

#define OF_WIDTH(n)                                                                            \
    static void FN(uneven_##n)(const FN(system) * s, int64_t first, int64_t last, FN(panel) x, \
                               T * lane, T * sum)                                              \
    {                                                                                          \
        FN(wide_uneven)(s, n, first, last, x, lane, sum);                                      \
    }                                                                                          \
    static void FN(even32_##n)(const FN(system) * s, int64_t terms, int64_t p, int64_t rows,   \
                               FN(panel) x, T * sum)                                           \
    {                                                                                          \
        FN(wide_even)(s, 0, n, terms, p, rows, x, sum);                                        \
    }                                                                                          \
    static void FN(even64_##n)(const FN(system) * s, int64_t terms, int64_t p, int64_t rows,   \
                               FN(panel) x, T * sum)                                           \
    {                                                                                          \
        FN(wide_even)(s, 1, n, terms, p, rows, x, sum);                                        \
    }                                                                                          \
    static void FN(update_##n)(const FN(system) * s, int64_t first, int64_t last, int64_t c,   \
                               FN(panel) at, T * sum, const T *diagonal)                       \
    {                                                                                          \
        FN(wide_update)(s, n, first, last, c, at, sum, diagonal);                              \
    }
OF_WIDTH(8)
OF_WIDTH(4)
OF_WIDTH(2)
OF_WIDTH(1)
#undef OF_WIDTH

static const FN(of_width) * FN(of_panel)(int64_t width)
{
#define OF_WIDTH(n)                                                                            \
    {                                                                                          \
        n, FN(uneven_##n), {FN(even32_##n), FN(even64_##n)}, FN(update_##n)                    \
    }
    static const FN(of_width) of[] = {OF_WIDTH(8), OF_WIDTH(4), OF_WIDTH(2), OF_WIDTH(1)};
#undef OF_WIDTH
    return &of[width == 8 ? 0 : width == 4 ? 1 : width == 2 ? 2 : 3];
}

/* Computes rows [first, last) for the columns from c on, by the functions of their width. */
static void FN(wide_batch)(const FN(system) * s, const FN(of_width) * of, int64_t first,
                           int64_t last, int64_t c, const T *diagonal, T *lane)
{
    const FN(panel) x = s->panels ? (FN(panel)){s->panels + c * s->g.n, of->width}
                                  : (FN(panel)){s->x + c, s->g.x_row};
    T *const sum = lane + LANES * WIDE;
    for (int64_t i = first; i < last; i += EVEN) {
        const int64_t next = gop_smaller(i + EVEN, last);
        T *const to = sum + (i - first) * of->width;
        const FN(csr_run) run = FN(csr_run_of)(s, s->g.index64, i, next);
        if (run.terms == 3 || run.terms == 5 || run.terms == 7)
            of->even[s->g.index64 != 0](s, run.terms, run.begin, next - i, x, to);
        else of->uneven(s, i, next, x, lane, to);
    }
    of->update(s, first, last, c, x, sum, diagonal);
}

/* Computes rows [begin, end) one by one, for all columns, so that memory is read and written in
 * order. Rows of x, f and the outputs are contiguous. */
static void FN(full_rows)(const FN(system) * s, int64_t begin, int64_t end, T *lane)
{
    const gop_jacobi *const g = &s->g;
    T found[WIDE_BATCH], sum[FULL];
    for (int64_t first = begin; first < end; first += WIDE_BATCH) {
        const int64_t last = gop_smaller(first + WIDE_BATCH, end);
        const T *const diagonal = FN(csr_diagonals)(s, g->index64, first, last, found);
        for (int64_t i = first; i < last; i++) {
            const csr_row row = row_of(s->indptr, g->index64, i, s->stored);
            const T d = s->has_alpha ? POSITIVE_ZERO : diagonal[i - first];
            for (int64_t c = 0; c < g->k; c += FULL) {
                const int width = (int)gop_smaller(g->k - c, FULL);
                const T *restrict f = s->f + i * g->f_row + c, *x = s->x + i * g->x_row + c;
                T *restrict out = s->out + i * g->out_row + c;
                FN(wide_row)(s, width, row, (FN(panel)){s->x + c, s->g.x_row}, lane, sum);
                for (int j = 0; j < width; j++) out[j] = FN(step)(s, sum[j], f[j], x[j], d);
                if (!s->residual) continue;
                T *restrict residual = s->residual + i * g->residual_row + c;
                for (int j = 0; j < width; j++) residual[j] = FN(minus)(f[j], sum[j]);
            }
        }
    }
}

static void FN(wide_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) local = *(const FN(system) *)argument, *s = &local;
    T *const lane = (T *)(s->scratch + worker * s->room), found[WIDE_BATCH];
    if (!s->panels && s->g.k > WIDE && s->g.f_col == 1 && s->g.out_col == 1 &&
        (!s->residual || s->g.residual_col == 1)) {
        FN(full_rows)(s, begin, end, lane);
        return;
    }
    /* With many columns a batch has few rows, so that whole rows of x, f and out stay in the L1
     * cache. Panels have short rows, so a batch has as many as fit. */
    const int64_t some = s->panels ? WIDE_BATCH : WIDE_BATCH * WIDE / s->g.k;
    const int64_t batch = gop_smaller(some < EVEN ? EVEN : some, WIDE_BATCH);
    for (int64_t first = begin; first < end; first += batch) {
        const int64_t last = gop_smaller(first + batch, end);
        const T *const diagonal = FN(csr_diagonals)(s, s->g.index64, first, last, found);
        for (int64_t c = 0, width; c < s->g.k; c += width) {
            width = panel_width(s->g.k - c);
            FN(wide_batch)(s, FN(of_panel)(width), first, last, c, diagonal, lane);
        }
    }
}

/* Copies x into consecutive panels, if its rows are not contiguous. */
static void FN(copy_panels)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) *s = argument;
    (void)worker;
    for (int64_t c = 0, width; c < s->g.k; c += width) {
        width = panel_width(s->g.k - c);
        T *const restrict to = (T *)s->panels + c * s->g.n;
        const T *const restrict x = s->x + c * s->g.x_col;
        for (int64_t i = begin; i < end; i++)
            for (int64_t j = 0; j < width; j++)
                to[i * width + j] = x[i * s->g.x_row + j * s->g.x_col];
    }
}

#elif !defined(GOP_CPU_JACOBI_STEP_WIDE_H)
#define GOP_CPU_JACOBI_STEP_WIDE_H

#include "cpu/jacobi_step/csr.h"

enum {
    WIDE = 8,         /* columns of a panel */
    FULL = 64,        /* most columns at a time where rows are contiguous */
    SHORT_TERMS = 8,  /* most terms of a row whose lanes are in registers */
    WIDE_BATCH = 128, /* rows that are updated at once */
};

_Static_assert((LANES + WIDE_BATCH) * WIDE <= LEAF && WIDE_BATCH * WIDE <= BLOCK,
               "a worker's room has lanes, sums and rows of f");

/* The width of the next panel if `left` columns are left. */
static inline int64_t panel_width(int64_t left)
{
    return left >= WIDE ? WIDE : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

#define GOP_TPL "cpu/jacobi_step/wide.h"
#include "cpu/jacobi_step/each_inexact.inc"

#endif
