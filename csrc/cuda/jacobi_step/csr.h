/*
 * csr.h - how the balanced kernel reads terms of a CSR matrix: many loads in flight, and the
 * diagonal found on the way.
 *
 * The address of an x comes from a load of its column, so a thread that reads term after term
 * waits twice for each. Here it loads the columns and elements of several terms, then all of
 * their x.
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

/* The fold of MOST lanes of a thread, as of FROM, a power of two: those past the last are -0.0
 * and change nothing. */
template <int FROM, int MOST, typename T> GOP_DEVICE T fold_few(T (&lane)[MOST])
{
#pragma unroll
    for (int d = FROM / 2; d > 0; d /= 2)
#pragma unroll
        for (int l = 0; l < FROM / 2; l++)
            if (l < d && l + d < MOST) lane[l] = plus(lane[l], lane[l + d]);
    return lane[0];
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

/* What a thread has met: terms on the diagonal, the last of them, and a column that is none. */
template <typename T> struct csr_hits {
    int count, is_bad;
    T last;
};

/* The terms of a leaf that are on the diagonal: how many, and their sum. */
template <typename T> struct on_diagonal {
    int64_t count;
    T value;
};

/* How far into a line of memory the first term is. A warp reads from the line's start on, so
 * that each load touches one line, not two: L2 lookups are the bottleneck. */
template <typename T, typename I> GOP_DEVICE int place_in_line(const csr_terms<T, I> &terms)
{
    return (int)((uintptr_t)terms.column / sizeof(I) % WARP);
}

/* A warp's next BATCH * WARP terms, from `first` on, which may lie in the line before them.
 * `take(j, at, k, a, x)` gets each that this thread has: the one at `at` is the j-th. Loads
 * before the first term or past the end are of the first or last one, and not used: a condition
 * for each would make some wait for others. Gives 1 where a column is none. */
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
        const int p = at + j * WARP;
        int from = ARE_ALL || p < last ? p : last;
        if (!ARE_ALL && j == 0 && from < 0) from = 0;
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
    if (!ARE_ALL) __syncwarp(); /* or compilers move loads to where they are used, under ifs */
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        const int p = at + j * WARP;
        if (ARE_ALL || (p <= last && (j > 0 || p >= 0))) take(j, p, k[j], a[j], of_x[j]);
    }
    return bad;
}

template <int BATCH, typename T, typename I, typename F> GOP_DEVICE int
read_terms(const jacobi_system<T> &s, const csr_terms<T, I> &terms, const T *x, F take)
{
    int first = terms.count > 0 ? -place_in_line(terms) : 0, bad = 0;
    if (first < 0) {
        bad = read_batch<BATCH, 0>(s, terms, first, x, take);
        first += BATCH * WARP;
    }
    for (; first + BATCH * WARP <= terms.count; first += BATCH * WARP)
        bad |= read_batch<BATCH, 1>(s, terms, first, x, take);
    if (first >= terms.count) return bad;
    if (terms.count - first <= WARP) return bad | read_batch<1, 0>(s, terms, first, x, take);
    return bad | read_batch<BATCH, 0>(s, terms, first, x, take);
}

/* A thread's columns and elements of BATCH * WARP terms: the first, and those from `at` on. */
template <int BATCH, typename T, typename I> GOP_DEVICE void
ask_for(I (&k)[BATCH], T (&a)[BATCH], const csr_terms<T, I> &terms, int first, int at)
{
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        const int p = j == 0 ? first : at + j * WARP;
        k[j] = terms.column[p];
        a[j] = terms.a[p];
    }
}

/* All of a whole leaf, a batch asked for before the one before it is taken. Threads that have
 * nothing of the line in which it begins read the one in which it ends meanwhile: what they
 * have of that is their last term. */
template <int BATCH, typename T, typename I, typename F> GOP_DEVICE int
read_leaf(const jacobi_system<T> &s, const csr_terms<T, I> &terms, const T *x, F take)
{
    const int begin = (int)threadIdx.x - place_in_line(terms), is_cut = begin < 0;
    I k[BATCH], last_k = 0;
    T a[BATCH], last_a = {}, last_x = {};
    int bad = 0;
    ask_for(k, a, terms, is_cut ? begin + LEAF : begin, begin);
#pragma unroll 2
    for (int at = begin; at < begin + LEAF; at += BATCH * WARP) {
        I of_k[BATCH];
        T of_a[BATCH], of_x[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            of_k[j] = column_of(k[j], s.g.n);
            bad |= of_k[j] != k[j];
            of_a[j] = a[j];
            of_x[j] = x[of_k[j] * s.g.x_row];
        }
        const int next = at + BATCH * WARP;
        if (next < begin + LEAF) ask_for(k, a, terms, next, next);
        if (at >= 0) take(0, at, of_k[0], of_a[0], of_x[0]);
        else last_k = of_k[0], last_a = of_a[0], last_x = of_x[0];
#pragma unroll
        for (int j = 1; j < BATCH; j++) take(j, at + j * WARP, of_k[j], of_a[j], of_x[j]);
    }
    if (is_cut) take(0, begin + LEAF, last_k, last_a, last_x);
    return bad;
}

/* Terms that a thread asks for at once. */
template <typename T> GOP_DEVICE constexpr int batch_of()
{
    return sizeof(T) <= 8 ? 8 : 4;
}

/* One leaf of row i and column c, in thread 0; what was met is noted. As a line begins before
 * the first term, the lanes are turned by some places among the 128. Their fold adds the same
 * pairs: those that are 64, 32, ..., 1 apart on the circle. */
template <int IS_WHOLE, typename T, typename I>
GOP_DEVICE T leaf_of(const jacobi_system<T> &s, const csr_terms<T, I> &terms, int64_t i,
                     int64_t c, csr_hits<T> &hits)
{
    const I own = column_or_none<I>(i);
    const T *const x = s.x + c * s.g.x_col;
    T lane[PER_THREAD];
    for (int v = 0; v < PER_THREAD; v++) lane[v] = negative_zero<T>();
    hits = {0, 0, negative_zero<T>()};
    const auto take = [&](int j, int, I k, T a, T of_x) {
        T &sum = lane[j % PER_THREAD];
        sum = multiply_add(a, of_x, sum);
        if (k == own) hits = {hits.count + 1, 0, a};
    };
    enum { AHEAD = sizeof(T) + sizeof(I) <= 8 ? 8 : 4 };
    if (IS_WHOLE) hits.is_bad = read_leaf<AHEAD>(s, terms, x, take);
    else hits.is_bad = read_terms<batch_of<T>()>(s, terms, x, take);
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
template <typename T, typename I>
GOP_DEVICE on_diagonal<T> diagonal_of(const jacobi_system<T> &s, const csr_terms<T, I> &terms,
                                      int64_t i, csr_hits<T> hits)
{
    const unsigned who = __ballot_sync(WHOLE_WARP, hits.count > 0);
    if (!who) return {0, negative_zero<T>()};
    if (__any_sync(WHOLE_WARP, hits.count > 1) || (who & (who - 1)) != 0)
        return {2, add_diagonal(s, terms, i, negative_zero<T>())};
    return {1, shuffle(hits.last, __ffs((int)who) - 1)};
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
        csr_hits<T> hits;
        const T sum = leaf_of<0>(s, terms, i, c, hits);
        bad |= hits.is_bad;
        if (c == 0 && !s.has_alpha) diagonal = diagonal_of(s, terms, i, hits).value;
        if (threadIdx.x == 0) jacobi_write(s, i, c, sum, diagonal, item);
    }
    return bad || (!s.has_alpha && is_zero(diagonal));
}

#endif
