/*
 * leaves.h - a pass over 2048 rows of a CSR matrix whose rows are short, by a block.
 */
#ifndef GOP_CUDA_JACOBI_LEAVES_H
#define GOP_CUDA_JACOBI_LEAVES_H

#include "cuda/jacobi/kinds.h"
#include "cuda/jacobi/together.h"

/* Term j of row i is at j * pitch + i; its column is -1 where the row has ended. */
template <typename T> struct regular_system {
    const T *value;
    const int32_t *column;
    int64_t pitch;
    row_kinds kinds;
    const row_kind<T> *table;
    const T *f;
    int64_t f_row;
    T *iterate[ITERATES];
    T *out;
    int64_t out_row;
    T factor;
    int has_alpha, held; /* leaves whose f and kinds a block has in shared memory */
    int64_t n, leaves, steps, check_every;
    double *sums[4]; /* of leaves: of even and of odd steps, the largest parts, scaled ones */
    int *said;       /* by the judge at odd and at even steps, and of squares that were lost */
    unsigned *arrived;
};

/* The terms of the rows of a leaf: what of them the kinds say comes from shared memory. */
template <typename T, int WIDTH, int WHAT> struct leaf_terms {
    const T *value;
    const int32_t *column;
    int64_t pitch;
    const uint8_t *kind;
    const row_kind<T> *kinds;
    const T *f;
    int64_t f_row;

    /* The columns of row r, i in the matrix, and how many. */
    GOP_DEVICE int columns(int r, uint32_t i, uint32_t n, int32_t (&k)[WIDTH]) const
    {
        int length = 0;
        if (WHAT == NOTHING) {
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                k[j] = column[j * pitch + r];
                length += k[j] >= 0;
            }
            return length;
        }
        const row_kind<T> &its = kinds[kind[r]];
#pragma unroll
        for (int j = 0; j < WIDTH; j++) {
            const uint32_t at = i + (uint32_t)its.distance[j];
            k[j] = j < its.length && at < n ? (int32_t)at : 0;
        }
        return its.length;
    }
    GOP_DEVICE void values(int r, T (&v)[WIDTH]) const
    {
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
            v[j] = WHAT == ITS_VALUES_TOO ? kinds[kind[r]].value[j] : value[j * pitch + r];
    }
    GOP_DEVICE T diagonal(int32_t i, int length, const T (&v)[WIDTH],
                          const int32_t (&k)[WIDTH]) const
    {
        T sum = negative_zero<T>();
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
            if (k[j] == i && j < length) sum = plus(sum, v[j]);
        return sum;
    }
};

/* A x of a row of so many terms. */
template <typename T, int WIDTH>
GOP_DEVICE T product_of(const T (&v)[WIDTH], const T (&x)[WIDTH], int length)
{
    T product[WIDEST];
#pragma unroll
    for (int j = 0; j < WIDEST; j++) product[j] = negative_zero<T>();
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        if (j < length) product[j] = multiply_add(v[j], x[j], product[j]);
#pragma unroll
    for (int d = WIDEST / 2; d > 0; d /= 2)
#pragma unroll
        for (int j = 0; j < d; j++) product[j] = plus(product[j], product[j + d]);
    return length > 0 ? product[0] : positive_zero<T>();
}

/* What a pass over the leaves does beside the residual. */
enum { STEPS = 1, SQUARES = 2, LARGEST = 4 };

/* Of a leaf's residuals the sum of the squares, or the largest part, if that is asked for. */
template <typename T> GOP_DEVICE void sum_leaf(const T (&residual)[LEAF], int rows, int what,
                                               double scale, double *to, double (&part)[LANES])
{
    if (!(what & (SQUARES | LARGEST))) return;
    __syncthreads();
    const int lane = threadIdx.x;
    if (lane < LANES) {
        double sum = what & LARGEST ? 0.0 : -0.0;
        if (what & LARGEST)
            for (int r = lane; r < rows; r += LANES)
                sum = larger(sum, largest_part(residual[r]));
        else
            for (int r = lane; r < rows; r += LANES) sum += square(residual[r], scale);
        part[lane] = sum;
    }
    __syncthreads();
    if (lane < WARP) {
        double sum =
            combine(what & LARGEST, combine(what & LARGEST, part[lane], part[lane + 64]),
                    combine(what & LARGEST, part[lane + 32], part[lane + 96]));
        for (int d = WARP / 2; d > 0; d /= 2)
            sum = combine(what & LARGEST, sum, __shfl_down_sync(WHOLE_WARP, sum, d));
        if (lane == 0) *to = sum;
    }
}

template <typename T, int WIDTH, int WHAT, int THREADS>
GOP_DEVICE void regular_leaf(const regular_system<T> &s,
                             const leaf_terms<T, WIDTH, WHAT> &terms, const T *from, T *to,
                             int64_t leaf, int what, T (&residual)[LEAF])
{
    /* As many rows of a thread under way as registers hold. */
    enum {
        IS_SMALL = WIDTH == 5 && sizeof(T) == 4,
        AT_ONCE = !IS_SMALL                ? 1
                  : WHAT == ITS_VALUES_TOO ? 4
                                           : 2
    };
    const int64_t first = leaf * LEAF, rows = s.n - first < LEAF ? s.n - first : LEAF;
    for (int at = threadIdx.x; at < rows; at += THREADS * AT_ONCE) {
        T v[AT_ONCE][WIDTH], item[AT_ONCE][WIDTH], f[AT_ONCE], x[AT_ONCE], diagonal[AT_ONCE];
        int length[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) { /* a row past the last is read as the last */
            const int r = at + u * THREADS < rows ? at + u * THREADS : (int)rows - 1;
            const int64_t i = first + r;
            int32_t k[WIDTH];
            length[u] = terms.columns(r, (uint32_t)i, (uint32_t)s.n, k);
            x[u] = from[i];
#pragma unroll
            for (int j = 0; j < WIDTH; j++) item[u][j] = j < length[u] ? from[k[j]] : x[u];
            f[u] = terms.f[r * terms.f_row];
            if (WHAT == ITS_VALUES_TOO) continue;
            terms.values(r, v[u]);
            diagonal[u] = terms.diagonal((int32_t)i, length[u], v[u], k);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            const int r = at + u * THREADS;
            if (r >= rows) continue;
            if (WHAT == ITS_VALUES_TOO) {
                terms.values(r, v[u]);
                diagonal[u] = terms.kinds[terms.kind[r]].diagonal;
            }
            const T sum = product_of<T, WIDTH>(v[u], item[u], length[u]);
            residual[r] = minus(f[u], sum);
            if (!(what & STEPS)) continue;
            const T change = s.has_alpha ? minus(sum, f[u]) : divide(residual[r], diagonal[u]);
            to[first + r] = multiply_add(s.factor, change, x[u]);
        }
    }
}

#endif
