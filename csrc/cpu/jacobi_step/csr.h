/*
 * csr.h - the rows of a CSR matrix.
 *
 * Most rows are short, and a short row fits in registers: its terms are the first lanes of one
 * leaf, so its sum is one product per term and a fold of as many lanes. A row's length selects
 * the code by one jump, which is well predicted if rows have equal lengths.
 */
#ifdef D

/* A row of more than 8 terms: the items of x for a leaf are gathered, then it is summed as a
 * dense one. */
static T FN(csr_long_row)(const FN(system) * s, csr_row row, const T *x, T *gathered)
{
    TREE(nodes) tree;
    tree.leaves = 0;
    for (int64_t p = row.begin; p < row.end; p += LEAF) {
        const int64_t m = row.end - p < LEAF ? row.end - p : LEAF;
        for (int64_t l = 0; l < m; l++)
            gathered[l] = x[column_at(s->indices, s->g.index64, p + l, s->g.n) * s->g.x_row];
        TREE(push)(&tree, FN(leaf)(s->a + p, gathered, m));
    }
    return TREE(root)(&tree, POSITIVE_ZERO);
}

/* The lane of term p, which is the lane's first: adding it to -0.0 does not change the product.
 */
static ALWAYS_INLINE T FN(csr_lane)(const FN(system) * s, const int index64, const int unit,
                                    int64_t p, const T *x)
{
    const int64_t k = column_at(s->indices, index64, p, s->g.n);
    return FN(multiply_add)(s->a[p], x[unit ? k : k * s->g.x_row], NEGATIVE_ZERO);
}

/* A row of `count` terms, a constant. Lanes without a term are left out, because they are -0.0.
 * There is no array and no loop, which compilers would turn into vectors that pass through
 * memory. */
static ALWAYS_INLINE T FN(csr_short_row)(const FN(system) * s, const int index64,
                                         const int unit, const int count, int64_t p, const T *x)
{
#define LANE(l) FN(csr_lane)(s, index64, unit, p + (l), x)
    return FOLD_LANES(count);
#undef LANE
}

static ALWAYS_INLINE T FN(csr_sum)(const FN(system) * s, const int index64, const int unit,
                                   csr_row row, const T *x, T *gathered)
{
    switch (row.end - row.begin) {
#define CASE(count)                                                                            \
    case count:                                                                                \
        return FN(csr_short_row)(s, index64, unit, count, row.begin, x);
        SHORT_ROWS(CASE)
#undef CASE
    default:
        if (row.end <= row.begin) return POSITIVE_ZERO;
        return FN(csr_long_row)(s, row, x, gathered);
    }
}

/* Consecutive rows: where the first begins, and the terms of each if all have as many, else 0.
 */
typedef struct FN(csr_run) {
    int64_t begin, terms;
} FN(csr_run);

static ALWAYS_INLINE FN(csr_run)
    FN(csr_run_of)(const FN(system) * s, const int index64, int64_t first, int64_t last)
{
    const int64_t begin = gop_index_at(s->indptr, index64, first);
    const int64_t terms = gop_index_at(s->indptr, index64, first + 1) - begin;
    int64_t uneven = 0;
    for (int64_t i = first; i < last; i++)
        uneven |= gop_index_at(s->indptr, index64, i + 1) -
                  gop_index_at(s->indptr, index64, i) - terms;
    const int is_even = !uneven && terms > 0 && terms <= 8 && begin >= 0 &&
                        begin + terms * (last - first) <= s->stored;
    return (FN(csr_run)){begin, is_even ? terms : 0};
}

/* Computes the sums of rows [first, last). Rows of a grid's interior have as many terms each,
 * so no row's start or length is read. */
static ALWAYS_INLINE void FN(csr_sums)(const FN(system) * s, const int index64, const int unit,
                                       int64_t first, int64_t last, const T *x, T *gathered,
                                       T *sum)
{
    const FN(csr_run) run = FN(csr_run_of)(s, index64, first, last);
    switch (run.terms) {
#define CASE(count)                                                                            \
    case count:                                                                                \
        for (int64_t r = 0; r < last - first; r++)                                             \
            sum[r] = FN(csr_short_row)(s, index64, unit, count, run.begin + r * (count), x);   \
        return;
        CASE(3)
        CASE(5)
        CASE(7)
#undef CASE
    default:
        for (int64_t i = first; i < last; i++)
            sum[i - first] = FN(csr_sum)(s, index64, unit,
                                         row_of(s->indptr, index64, i, s->stored), x, gathered);
    }
}

/* The diagonal of row i: duplicates are added in stored order. */
static ALWAYS_INLINE T FN(csr_diagonal)(const FN(system) * s, const int index64, csr_row row,
                                        int64_t i)
{
    T sum = NEGATIVE_ZERO;
    for (int64_t p = row.begin; p < row.end; p += 4)
        for (int hit = gop_hits(s->indices, index64, p, row.end, i); hit; hit &= hit - 1)
            sum = FN(plus)(sum, s->a[p + __builtin_ctz((unsigned)hit)]);
    return sum;
}

/* The diagonal of rows [first, last). Fills `found` unless the diagonal is stored. */
static ALWAYS_INLINE const T *FN(csr_diagonals)(const FN(system) * s, const int index64,
                                                int64_t first, int64_t last, T *found)
{
    if (s->has_alpha) return NULL;
    if (s->diagonal) return s->diagonal + first;
    for (int64_t i = first; i < last; i++)
        found[i - first] =
            FN(csr_diagonal)(s, index64, row_of(s->indptr, index64, i, s->stored), i);
    return found;
}

/* Computes rows [begin, end) column by column. A block of rows of A is in the L2 cache after
 * the first column. Values that are the same for all rows are constants after inlining. The
 * sums of a batch come first, then its updates as vectors. */
static ALWAYS_INLINE void FN(csr_piece)(const FN(system) * s, const int index64, const int unit,
                                        int64_t begin, int64_t end, T *gathered, T *found)
{
    const int64_t rows = s->g.k > 1 ? BLOCK : BATCH;
    T sum[BATCH];
    for (int64_t top = begin; top < end; top += rows) {
        const int64_t bottom = gop_smaller(top + rows, end);
        const T *const diagonal = FN(csr_diagonals)(s, index64, top, bottom, found);
        for (int64_t c = 0; c < s->g.k; c++)
            for (int64_t first = top; first < bottom; first += BATCH) {
                const int64_t last = gop_smaller(first + BATCH, bottom);
                const T *const x = s->x + c * s->g.x_col;
                for (int64_t i = first; i < last; i += EVEN) FN(csr_sums)
                (s, index64, unit, i, gop_smaller(i + EVEN, last), x, gathered,
                 sum + (i - first));
                FN(update_rows)
                (s, first, last - first, c, sum, diagonal ? diagonal + (first - top) : NULL);
            }
    }
}

static void FN(csr_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) local = *(const FN(system) *)argument, *s = &local;
    T *const gathered = (T *)(s->scratch + worker * s->room), *const found = gathered + LEAF;
    if (s->g.x_row != 1) FN(csr_piece)(s, s->g.index64, 0, begin, end, gathered, found);
    else if (s->g.index64) FN(csr_piece)(s, 1, 1, begin, end, gathered, found);
    else FN(csr_piece)(s, 0, 1, begin, end, gathered, found);
}

#elif !defined(GOP_CPU_JACOBI_STEP_CSR_H)
#define GOP_CPU_JACOBI_STEP_CSR_H

#include "cpu/jacobi_step/leaf.h"

/* Folds LANE(0) to LANE(count - 1), the first lanes of a leaf, at most 8, in the order of
 * tree/v1. The count is a constant. */
#define BY_4(l, count) ((l) + 4 < (count) ? FN(plus)(LANE(l), LANE((l) + 4)) : LANE(l))
#define BY_2(l, count)                                                                         \
    ((l) + 2 < (count) ? FN(plus)(BY_4(l, count), BY_4((l) + 2, count)) : BY_4(l, count))
#define FOLD_LANES(count)                                                                      \
    ((count) > 1 ? FN(plus)(BY_2(0, count), BY_2(1, count)) : BY_2(0, count))

/* Rows of 1 to 8 terms have a function each. */
#define SHORT_ROWS(EACH) EACH(1) EACH(2) EACH(3) EACH(4) EACH(5) EACH(6) EACH(7) EACH(8)

enum {
    BLOCK = 2048, /* rows that are computed for all columns in turn */
    BATCH = 256,  /* rows that are updated at once */
    EVEN = 32,    /* rows that are tested together for equal lengths */
};

#define GOP_TPL "cpu/jacobi_step/csr.h"
#include "cpu/jacobi_step/each_inexact.inc"

#endif
