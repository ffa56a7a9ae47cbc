/*
 * staged.h - rows of some tens of terms, one a thread, out of shared memory.
 *
 * A warp copies the columns of its 32 rows in memory order, whole sectors at a time; then each
 * thread loads the x of its own row. If neighbouring rows look alike, as those of a grid do,
 * these loads coalesce too. The elements follow through the same shared memory, which leaves
 * more for L1, and each thread adds up its row.
 */
#ifndef GOP_CUDA_JACOBI_STEP_STAGED_H
#define GOP_CUDA_JACOBI_STEP_STAGED_H

#include "cuda/jacobi_step/csr.h"

enum { STAGED = 32 }; /* terms of a row at most */

/* A warp's rows. One place in 33 is empty, so that rows of 2^n terms begin in other banks. */
enum { STAGED_PLACES = WARP * STAGED + STAGED };
template <typename T, typename I> union staged_room {
    I column[STAGED_PLACES];
    T a[STAGED_PLACES];
};
GOP_DEVICE int place_of_term(int p)
{
    return p + p / WARP;
}

/* Whether the warp's rows follow each other in memory and have at most STAGED terms each. */
GOP_DEVICE int are_staged(csr_row row, int64_t i, int64_t last)
{
    const int64_t before = shuffle(row.end, (threadIdx.x + WARP - 1) % WARP);
    const int fits = row.end - row.begin <= STAGED && (threadIdx.x == 0 || row.begin == before);
    return __all_sync(WHOLE_WARP, fits || i >= last);
}

/* `count` items by the warp to their places, `as` what it makes of each. */
template <typename T, typename F>
GOP_DEVICE void stage_items(T *to, const T *from, int count, F as)
{
    enum { BATCH = 64 / sizeof(T) };
    for (int first = threadIdx.x; first < count; first += BATCH * WARP) {
        T item[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const int p = first + j * WARP;
            item[j] = from[p < count ? p : count - 1];
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const int p = first + j * WARP;
            item[j] = as(item[j]);
            if (p < count) to[place_of_term(p)] = item[j];
        }
    }
    __syncwarp();
}

/* The warp's rows; this thread's is row i. Returns 1 if it is none that a step takes. */
template <typename T, typename I> GOP_DEVICE int
rows_staged(const jacobi_system<T> &s, int64_t i, csr_row row, staged_room<T, I> &room)
{
    enum { BATCH = 8 };
    const int exists = i < s.last, m = (int)(row.end - row.begin);
    const int rows = __popc(__ballot_sync(WHOLE_WARP, exists));
    const int64_t begin = shuffle(row.begin, 0);
    const csr_terms<T, I> terms = terms_of<T, I>(s, begin, shuffle(row.end, rows - 1));
    const int mine = (int)(row.begin - begin);
    const I own = column_or_none<I>(i);
    jacobi_item<T> item = {};
    if (exists) item = jacobi_item_of<1>(s, i, 0); /* asked for before anything is waited for */
    int bad = 0;
    stage_items(room.column, terms.column, terms.count, [&](I k) {
        const I column = column_of(k, s.g.n);
        bad |= column != k;
        return column;
    });
    T lane[STAGED];
    unsigned hits = 0;
#pragma unroll
    for (int j = 0; j < STAGED; j++) lane[j] = negative_zero<T>();
#pragma unroll
    for (int first = 0; first < STAGED; first += BATCH)
        if (__any_sync(WHOLE_WARP, m > first))
#pragma unroll
            for (int j = first; j < first + BATCH; j++)
                if (j < m) {
                    const I k = room.column[place_of_term(mine + j)];
                    lane[j] = s.x[k];
                    hits |= (unsigned)(k == own) << j;
                }
    __syncwarp();
    stage_items(room.a, terms.a, terms.count, [](T a) { return a; });
#pragma unroll
    for (int first = 0; first < STAGED; first += BATCH)
        if (__any_sync(WHOLE_WARP, m > first))
#pragma unroll
            for (int j = first; j < first + BATCH; j++)
                if (j < m)
                    lane[j] = multiply_add(room.a[place_of_term(mine + j)], lane[j],
                                           negative_zero<T>());
    const T sum = fold_few<STAGED>(lane);
    if (!exists) return bad;
    T diagonal = negative_zero<T>();
    for (; hits && !s.has_alpha; hits &= hits - 1)
        diagonal = plus(diagonal, room.a[place_of_term(mine + __ffs((int)hits) - 1)]);
    jacobi_write<1>(s, i, 0, m > 0 ? sum : positive_zero<T>(), diagonal, item);
    return bad || (!s.has_alpha && is_zero(diagonal));
}

#endif
