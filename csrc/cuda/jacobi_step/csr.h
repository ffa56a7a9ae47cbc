/*
 * csr.h - terms of a CSR matrix as the balanced kernel reads them: many loads under way, and
 * the diagonal found on the way.
 *
 * An x is asked for by a column that is itself a load, so a thread that reads term after term
 * waits twice for each. Here it asks for the columns and elements of several terms, then for
 * all of their x.
 */
#ifndef GOP_CUDA_JACOBI_STEP_CSR_H
#define GOP_CUDA_JACOBI_STEP_CSR_H

#include "cuda/jacobi_step/tree.h"

/* A column as it was read, or 0 if it is none: the arrays may be written to meanwhile. */
GOP_DEVICE int32_t column_of(int32_t k, int64_t n)
{
    const uint32_t columns = n < 0x7fffffff ? (uint32_t)n : 0x80000000u;
    return (uint32_t)k < columns ? k : 0;
}
GOP_DEVICE int64_t column_of(int64_t k, int64_t n)
{
    return (uint64_t)k < (uint64_t)n ? k : 0;
}

/* Row i as a column of the diagonal; -1 where no index is as large. */
template <typename I> GOP_DEVICE I column_or_none(int64_t i)
{
    return (int64_t)(I)i == i ? (I)i : (I)-1;
}

template <typename T> GOP_DEVICE bool is_zero(T value)
{
    return value == 0;
}
template <typename R> GOP_DEVICE bool is_zero(complex<R> value)
{
    return value.re == 0 && value.im == 0;
}

/* Neighbours in memory: the terms of a row, of a leaf, or of a group of rows. */
template <typename T, typename I> struct csr_terms {
    const T *a;
    const I *column;
    int count;
};

template <typename T, typename I>
GOP_DEVICE csr_terms<T, I> terms_of(const jacobi_system<T> &s, int64_t begin, int64_t end)
{
    return {s.a + begin, (const I *)s.indices + begin, (int)(end - begin)};
}

/* What a thread has met: terms on the diagonal, the place of the last, and a column that is
 * none. */
struct csr_hits {
    int count, at, is_bad;
};

/* Of a leaf's terms on the diagonal: how many, and what they add up to. */
template <typename T> struct on_diagonal {
    int64_t count;
    T value;
};

/* A warp's next BATCH * WARP terms, from `first` on. `take(j, at, k, a, x)` gets each that this
 * thread has: at first + at it is the j-th. Loads past the end are of the last term, and not
 * used: a condition for each would make some wait for others. Gives 1 where a column is none.
 */
template <int BATCH, int ARE_ALL, typename T, typename I, typename F>
GOP_DEVICE int read_batch(const jacobi_system<T> &s, const csr_terms<T, I> &terms, int first,
                          const T *x, F take)
{
    const int at = first + threadIdx.x, last = terms.count - 1;
    I k[BATCH];
    T a[BATCH], of_x[BATCH];
    int bad = 0;
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        const int p = at + j * WARP, from = ARE_ALL || p < last ? p : last;
        k[j] = terms.column[from];
        a[j] = terms.a[from];
    }
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        const I column = column_of(k[j], s.g.n);
        bad |= column != k[j];
        k[j] = column;
        of_x[j] = x[k[j] * s.g.x_row];
    }
#pragma unroll
    for (int j = 0; j < BATCH; j++)
        if (ARE_ALL || at + j * WARP <= last) take(j, at + j * WARP, k[j], a[j], of_x[j]);
    return bad;
}

template <int BATCH, typename T, typename I, typename F> GOP_DEVICE int
read_terms(const jacobi_system<T> &s, const csr_terms<T, I> &terms, const T *x, F take)
{
    int first = 0, bad = 0;
    for (; first + BATCH * WARP <= terms.count; first += BATCH * WARP)
        bad |= read_batch<BATCH, 1>(s, terms, first, x, take);
    if (first < terms.count) bad |= read_batch<BATCH, 0>(s, terms, first, x, take);
    return bad;
}

/* Terms that a thread asks for at once. */
template <typename T> GOP_DEVICE constexpr int batch_of()
{
    return sizeof(T) <= 8 ? 8 : 4;
}

/* One leaf of row i and column c, in thread 0; what was met is noted. */
template <typename T, typename I> GOP_DEVICE T leaf_of(const jacobi_system<T> &s,
                                                       const csr_terms<T, I> &terms, int64_t i,
                                                       int64_t c, csr_hits &hits)
{
    const I own = column_or_none<I>(i);
    T lane[PER_THREAD];
    for (int v = 0; v < PER_THREAD; v++) lane[v] = negative_zero<T>();
    hits = {0, 0, 0};
    const int bad = read_terms<batch_of<T>()>(s, terms, s.x + c * s.g.x_col,
                                              [&](int j, int at, I k, T a, T x) {
                                                  T &sum = lane[j % PER_THREAD];
                                                  sum = multiply_add(a, x, sum);
                                                  if (k == own) hits = {hits.count + 1, at, 0};
                                              });
    hits.is_bad = bad;
    return fold_lanes<T, 1>(lane);
}

/* The terms of the diagonal add up in stored order, from `sum` on. */
template <typename T, typename I> GOP_DEVICE T add_diagonal(const jacobi_system<T> &s,
                                                            const csr_terms<T, I> &terms,
                                                            int64_t i, T sum)
{
    for (int at = 0; at < terms.count; at += WARP) {
        const int p = at + threadIdx.x;
        const int hit = p < terms.count && column_of(terms.column[p], s.g.n) == i;
        for (unsigned m = __ballot_sync(WHOLE_WARP, hit); m; m &= m - 1)
            sum = plus(sum, terms.a[at + __ffs((int)m) - 1]);
    }
    return sum;
}

/* What the hits of a warp's threads come to. Mostly there is one, or none. */
template <typename T, typename I> GOP_DEVICE on_diagonal<T>
diagonal_of(const jacobi_system<T> &s, const csr_terms<T, I> &terms, int64_t i, csr_hits hits)
{
    const unsigned who = __ballot_sync(WHOLE_WARP, hits.count > 0);
    if (!who) return {0, negative_zero<T>()};
    if (__any_sync(WHOLE_WARP, hits.count > 1) || (who & (who - 1)) != 0)
        return {2, add_diagonal(s, terms, i, negative_zero<T>())};
    return {1, terms.a[shuffle(hits.at, __ffs((int)who) - 1)]};
}

/* A row of one leaf by a warp. Gives 1 where it is none that a step takes. */
template <typename T, typename I>
GOP_DEVICE int row_together(const jacobi_system<T> &s, int64_t i, int64_t begin, int64_t end)
{
    const csr_terms<T, I> terms = terms_of<T, I>(s, begin, end);
    T diagonal = negative_zero<T>();
    int bad = 0;
    for (int64_t c = 0; c < s.g.k; c++) {
        const jacobi_item<T> item = jacobi_item_of(s, i, c);
        csr_hits hits;
        const T sum = leaf_of(s, terms, i, c, hits);
        bad |= hits.is_bad;
        if (c == 0 && !s.has_alpha) diagonal = diagonal_of(s, terms, i, hits).value;
        if (threadIdx.x == 0) jacobi_write(s, i, c, sum, diagonal, item);
    }
    return bad || (!s.has_alpha && is_zero(diagonal));
}

#endif
