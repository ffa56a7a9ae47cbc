/*
 * leaves.h - a pass over 2048 rows of a CSR matrix whose rows are short, by a block, which may
 * keep them.
 */
#ifndef GOP_CUDA_JACOBI_LEAVES_H
#define GOP_CUDA_JACOBI_LEAVES_H

#include "cuda/jacobi/kinds.h"
#include "cuda/jacobi/together.h"

/* Term j of row i is at j * pitch + i; its column is -1 where the row has ended. A leaf that
 * stays in registers comes from the matrix itself. */
template <typename T> struct regular_system {
    const T *a;
    const void *indices, *indptr;
    int index64;
    int64_t stored; /* terms of a */
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
    const T sum = fold_eight(product);
    return length > 0 ? sum : positive_zero<T>();
}

/* What a pass over the leaves does beside the residual. */
enum { STEPS = 1, SQUARES = 2, LARGEST = 4 };

/* The sum of the squares of a leaf's residuals, or the largest part of any, if `what` asks for
 * it. */
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

/* ---- a leaf that a block keeps: its terms in registers, its items of x in shared memory ----
 *
 * Most columns of a row of a grid's matrix are the leaf's own, so that a step reads little of x
 * from memory, and of the matrix nothing. */

/* The same number, of which the compiler knows nothing: what follows from it is computed where
 * it is used, and takes no register until then. */
GOP_DEVICE int32_t opaque(int32_t k)
{
    asm volatile("" : "+r"(k));
    return k;
}

template <typename T, int WIDTH> struct kept_leaf {
    enum {
        FITS = sizeof(T) * WIDTH <= 20, /* into registers: five terms of float */
        THREADS = 512,
        ROWS = LEAF / THREADS, /* of a thread */
        ONE = LEAF,            /* where x has a 1 */
        ITEMS = LEAF + 4       /* of x */
    };
    T value[ROWS][WIDTH], f[ROWS], diagonal[ROWS];
    int32_t column[ROWS][WIDTH]; /* in x; ~k where column k is another leaf's */
    unsigned others;             /* bit r: a thread of the warp has one in its row r */
    int rows;                    /* of the leaf */

    /* The column of term p of the matrix; it was checked, see system.h. */
    static GOP_DEVICE int32_t column_at(const regular_system<T> &s, int64_t p)
    {
        const int64_t k = index_at(s.indices, s.index64, p);
        return (uint64_t)k < (uint64_t)s.n ? (int32_t)k : 0;
    }

    /* Each row has WIDTH terms: those that are missing are -0.0 * 1.0, which change no sum, and
     * the first of none is +0.0 * 1.0. */
    GOP_DEVICE void load(const regular_system<T> &s, int64_t first)
    {
        rows = (int)(s.n - first < LEAF ? s.n - first : LEAF);
        others = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int at = r * THREADS + threadIdx.x;
            const int64_t i = first + at;
            bool has_others = false;
            diagonal[r] = negative_zero<T>();
            f[r] = at < rows ? s.f[i * s.f_row] : positive_zero<T>();
            csr_row row = {0, 0};
            if (at < rows)
                row = {index_at(s.indptr, s.index64, i), index_at(s.indptr, s.index64, i + 1)};
            if (row.begin < 0 || row.end > s.stored) row.begin = row.end = 0;
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                const int64_t p = row.begin + j;
                const int32_t k = p < row.end ? column_at(s, p) : -1;
                const bool is_own = k >= first && k < first + LEAF;
                value[r][j] = k >= 0   ? s.a[p]
                              : j == 0 ? positive_zero<T>()
                                       : negative_zero<T>();
                column[r][j] = k < 0 ? (int)ONE : is_own ? (int32_t)(k - first) : ~k;
                has_others |= column[r][j] < 0;
                if (k == i) diagonal[r] = plus(diagonal[r], value[r][j]);
            }
            if (__ballot_sync(WHOLE_WARP, has_others)) others |= 1u << r;
        }
    }

    /* The leaf's items of x. */
    GOP_DEVICE void fetch(const T *from, T *x) const
    {
        for (int at = threadIdx.x; at < LEAF; at += THREADS)
            x[at] = at < rows ? from[at] : positive_zero<T>();
        if (threadIdx.x == 0) x[ONE] = T(1);
        __syncthreads();
    }

    /* A step from an iterate to the next one, whose items of this leaf go to `to`; or residuals
     * alone. */
    GOP_DEVICE void step(const regular_system<T> &s, const T *from, T *to, T *x, int what,
                         T (&residual)[LEAF]) const
    {
        T item[ROWS][WIDTH], sum[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int32_t k[WIDTH];
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                k[j] = opaque(column[r][j]);
                item[r][j] = x[k[j] < 0 ? 0 : k[j]];
            }
            if (others >> r & 1)
#pragma unroll
                for (int j = 0; j < WIDTH; j++)
                    if (k[j] < 0) item[r][j] = from[(uint32_t)opaque(~k[j])];
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) sum[r] = product_of<T, WIDTH>(value[r], item[r], WIDTH);
        __syncthreads(); /* x is read */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int at = r * THREADS + threadIdx.x;
            const T left = minus(f[r], sum[r]);
            residual[at] = left;
            if (!(what & STEPS)) continue;
            const T change = s.has_alpha ? minus(sum[r], f[r]) : divide(left, diagonal[r]);
            const T next = multiply_add(s.factor, change, x[at]);
            x[at] = next;
            if (at < rows) to[at] = next;
        }
    }
};

#endif
