/*
 * alone.h - a row of a few terms by one thread, all of its loads in flight at once.
 */
#ifndef GOP_CUDA_JACOBI_STEP_ALONE_H
#define GOP_CUDA_JACOBI_STEP_ALONE_H

#include "cuda/jacobi_step/csr.h"

enum { ALONE = 8, FEW = 5 }; /* terms at most */

/* A row of at most MOST terms. IS_PLAIN: there is one column, whose items are neighbours, and
 * `item` is the row's. Loads past the row's end load its last term, which is not used: a
 * condition for each load would serialise them. Returns 1 if the row is invalid. */
template <int MOST, int IS_PLAIN, typename T, typename I>
GOP_DEVICE int row_alone(const jacobi_system<T> &s, int64_t i, csr_row row, jacobi_item<T> item)
{
    const csr_terms<T, I> terms = terms_of<T, I>(s, row.begin, row.end);
    const int64_t columns = IS_PLAIN ? 1 : s.g.k, x_row = IS_PLAIN ? 1 : s.g.x_row;
    const int m = terms.count;
    int bad = 0;
    const I own = column_or_none<I>(i);
    I k[MOST];
    T a[MOST], lane[MOST], diagonal = negative_zero<T>();
    if (m > 0) {
#pragma unroll
        for (int j = 0; j < MOST; j++) k[j] = terms.column[j < m ? j : m - 1];
#pragma unroll
        for (int j = 0; j < MOST; j++) a[j] = terms.a[j < m ? j : m - 1];
#pragma unroll
        for (int j = 0; j < MOST; j++) {
            const I column = column_of(k[j], s.g.n);
            bad |= column != k[j];
            k[j] = column;
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        const T *const x = s.x + c * s.g.x_col;
        T sum = positive_zero<T>();
        if (!IS_PLAIN) item = jacobi_item_of(s, i, c);
        if (m > 0) {
#pragma unroll
            for (int j = 0; j < MOST; j++) lane[j] = x[k[j] * x_row];
            if (c == 0 && !s.has_alpha)
#pragma unroll
                for (int j = 0; j < MOST; j++)
                    if (j < m && k[j] == own) diagonal = plus(diagonal, a[j]);
#pragma unroll
            for (int j = 0; j < MOST; j++) {
                lane[j] = multiply_add(a[j], lane[j], negative_zero<T>());
                if (j >= m) lane[j] = negative_zero<T>();
            }
            sum = fold_few<ALONE>(lane);
        }
        jacobi_write<IS_PLAIN>(s, i, c, sum, diagonal, item);
    }
    return bad || (!s.has_alpha && is_zero(diagonal));
}

#endif
