/*
 * listed.h - long rows of a CSR matrix: the kernel that meets one puts its leaves on a list,
 * and a second kernel spreads the leaves over all warps of the device.
 */
#ifndef GOP_CUDA_JACOBI_STEP_LISTED_H
#define GOP_CUDA_JACOBI_STEP_LISTED_H

#include "cuda/jacobi_step/csr.h"

/* A leaf of a row on the list, and the place of the row's first one; -1: there was no room. */
struct long_leaf {
    int64_t row, first;
};

template <typename T> struct long_rows {
    unsigned *count; /* of leaves on the list; NULL: there are no long rows */
    unsigned most;   /* leaves that it has room for */
    unsigned *done;  /* by row, at its first leaf */
    long_leaf *leaf;
    on_diagonal<T> *diagonal;
    T *sum; /* of leaves, k for each */
};

GOP_DEVICE int64_t leaves_of(int64_t terms)
{
    return (terms + LEAF - 1) / LEAF;
}

GOP_DEVICE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A warp puts a row's leaves on the list. Returns 1 if there is no room, as can be where rows
 * of an unvalidated matrix share terms. */
template <typename T>
GOP_DEVICE int put_on_list(const long_rows<T> &list, int64_t i, int64_t terms)
{
    const unsigned leaves = (unsigned)leaves_of(terms);
    unsigned at = 0;
    if (threadIdx.x == 0) at = atomicAdd(list.count, leaves);
    const int64_t first = shuffle(at, 0), end = least(first + leaves, list.most);
    const int has_room = first + leaves <= list.most;
    if (threadIdx.x == 0 && has_room) list.done[first] = 0;
    for (int64_t l = first + threadIdx.x; l < end; l += WARP)
        list.leaf[l] = {has_room ? i : -1, first};
    return !has_room;
}

/* The same for the rows from i0 on of a warp whose threads have so many terms each that are
 * more than `most`. Once all warps of all blocks have come here the kernel after may begin (one
 * that was launched early), and finds the list whole. */
template <typename T>
GOP_DEVICE int list_long_rows(const long_rows<T> &list, int64_t i0, int64_t terms, int64_t most)
{
    const unsigned are_long = __ballot_sync(WHOLE_WARP, terms > most);
    int bad = 0;
    for (unsigned m = are_long; m; m &= m - 1) {
        const int r = __ffs((int)m) - 1;
        bad |= put_on_list(list, i0 + r, shuffle(terms, r));
    }
    if (are_long) __threadfence();
    __syncthreads();
    launch_dependents();
    return bad;
}

/* The diagonal of a long row, from what its leaves have of it. */
template <typename T, typename I>
GOP_DEVICE T listed_diagonal(const jacobi_system<T> &s, const on_diagonal<T> *of_leaf,
                             int64_t i, int64_t begin, int64_t end)
{
    const int64_t leaves = leaves_of(end - begin);
    T sum = negative_zero<T>();
    for (int64_t at = 0; at < leaves; at += WARP) {
        const int64_t l = at + threadIdx.x;
        on_diagonal<T> mine = {0, sum};
        if (l < leaves) mine = of_leaf[l];
        for (unsigned m = __ballot_sync(WHOLE_WARP, mine.count > 0); m; m &= m - 1) {
            const int who = __ffs((int)m) - 1;
            const int64_t from = begin + (at + who) * LEAF;
            const T value = shuffle(mine.value, who);
            if (shuffle(mine.count, who) == 1) sum = plus(sum, value);
            else
                sum = add_diagonal(s, terms_of<T, I>(s, from, least(from + LEAF, end)), i, sum);
        }
    }
    return sum;
}

/* Finishes a row: done by the warp that had the last of its leaves. Returns 1 if the diagonal
 * is zero and the step divides by it. */
template <typename T, typename I>
GOP_DEVICE int finish_row(const jacobi_system<T> &s, const long_rows<T> &list, int64_t i,
                          int64_t begin, int64_t end, int64_t first)
{
    const int64_t leaves = leaves_of(end - begin), k = s.g.k;
    T diagonal = negative_zero<T>();
    if (!s.has_alpha) diagonal = listed_diagonal<T, I>(s, list.diagonal + first, i, begin, end);
    for (int64_t c = 0; c < k; c++) {
        T *const sum = list.sum + first * k + c;
        for (int64_t w = 1; w < leaves; w *= 2) {
            for (int64_t l = threadIdx.x * 2 * w; l + w < leaves; l += 2 * w * WARP)
                sum[l * k] = plus(sum[l * k], sum[(l + w) * k]);
            __threadfence_block();
            __syncwarp();
        }
        if (threadIdx.x == 0) jacobi_update(s, i, c, sum[0], diagonal);
    }
    return !s.has_alpha && is_zero(diagonal);
}

/* Leaf `at` of the list, by a warp. Gives 1 where its row is none that a step takes. */
template <typename T, typename I>
GOP_DEVICE int listed_leaf(const jacobi_system<T> &s, const long_rows<T> &list, unsigned at)
{
    /* Not what L1 has: the kernel that wrote it may still run. */
    const volatile long_leaf *const leaf = list.leaf + at;
    const int64_t i = leaf->row, first = leaf->first;
    if (i < 0) return 1;
    int bad = 0;
    const int64_t begin = ((const I *)s.indptr)[i], end = ((const I *)s.indptr)[i + 1];
    const int64_t from = begin + (at - first) * LEAF, to = least(from + LEAF, end);
    if (begin < 0 || end > s.stored || to <= from) return 1; /* written to meanwhile */
    if (end - begin <= LEAF) return row_together<T, I>(s, i, begin, end);
    const csr_terms<T, I> terms = terms_of<T, I>(s, from, to);
    for (int64_t c = 0; c < s.g.k; c++) {
        csr_hits<T> hits;
        const T sum = terms.count == LEAF ? leaf_of<1>(s, terms, i, c, hits)
                                          : leaf_of<0>(s, terms, i, c, hits);
        bad |= hits.is_bad;
        if (threadIdx.x == 0) list.sum[at * s.g.k + c] = sum;
        if (c > 0 || s.has_alpha) continue;
        const on_diagonal<T> found = diagonal_of(s, terms, i, hits);
        if (threadIdx.x == 0) list.diagonal[at] = found;
    }
    unsigned done = 0;
    if (threadIdx.x == 0) {
        __threadfence(); /* after what this thread alone has written */
        done = atomicAdd(&list.done[first], 1u) + 1;
    }
    if (shuffle(done, 0) < leaves_of(end - begin)) return bad;
    __threadfence(); /* which empties L1: not for each leaf */
    __syncwarp();
    return bad | finish_row<T, I>(s, list, i, begin, end, first);
}

#endif
