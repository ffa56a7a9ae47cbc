/*
 * kept.h - a leaf that a block has for good: its terms in registers, its items of x in shared
 * memory.
 *
 * Most columns of a row of a grid's matrix are the leaf's own, so that a step reads little of x
 * from memory, and of the matrix nothing.
 */
#ifndef GOP_CUDA_JACOBI_KEPT_H
#define GOP_CUDA_JACOBI_KEPT_H

#include "cuda/jacobi/leaves.h"

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
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                const int32_t k = at < rows ? s.column[j * s.pitch + i] : -1;
                const bool is_own = k >= first && k < first + LEAF;
                value[r][j] = k >= 0   ? s.value[j * s.pitch + i]
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
