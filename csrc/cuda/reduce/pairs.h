/*
 * pairs.h - the kernel for outputs of at most eight elements: a thread computes several groups
 * of outputs.
 *
 * The loads of a single group are too few bytes in flight to saturate memory.
 */
#ifndef GOP_CUDA_REDUCE_PAIRS_H
#define GOP_CUDA_REDUCE_PAIRS_H

#include "cuda/reduce/neighbours.h"
#include "cuda/reduce/plan.h"

/* Divisors of the extents, for at most AXES axes and fewer than 2^31 outputs. */
struct column_axes {
    bool known;
    fast_divisor by[AXES];
};

/* Where the first element of output o lies. */
GOP_DEVICE int64_t column_at(const reduce_args &r, const column_axes &axes, int64_t o)
{
    const gop_reduction &g = r.g;
    return axes.known ? axes_at(g.in, axes.by, 0, g.kept - 1, (uint32_t)o)
                      : place_of(g, 0, g.kept, o).in;
}

/* Whether the offsets of an output's elements along several axes fit a table. */
static bool are_placed(const gop_reduction &g, bool known)
{
    int64_t far = 0;
    for (int d = g.kept; d < g.kept + g.reduced; d++)
        far += gop_magnitude(g.in[d]) * (g.extent[d] - 1);
    return g.reduced <= 1 || (known && g.count <= INT32_MAX - LEAF && far <= INT32_MAX);
}

/* The shape of a block: GROUPS groups of C columns a thread, APART outputs from one to the
 * next; OUTPUTS of a block. */
template <typename T, int C, int MOST> struct pairs_of {
    enum {
        THREADS = 256,
        SMALL = sizeof(T) > 2 || MOST > 4 ? 4 : 8,
        GROUPS = C > 1 || sizeof(T) > 8 ? 2 : SMALL,
        APART = THREADS * C,
        OUTPUTS = GROUPS * APART
    };
};

/* The most elements of an output: two, or more if a thread has one column: short loads. */
template <typename M, int C> constexpr int pairs_most()
{
    if (C > 1 || sizeof(typename M::T) > 8 || sizeof(typename M::F::acc) > 8) return 2;
    return sizeof(typename M::T) > 4 ? 4 : 8;
}

/* Outputs of at most MOST elements. */
template <typename M, int C, int MOST> __global__ void __launch_bounds__(256, 3)
    reduce_pairs_kernel(const __grid_constant__ reduce_args r,
                        const __grid_constant__ column_axes axes)
{
    typedef typename M::T T;
    typedef typename M::F F;
    typedef pairs_of<T, C, MOST> S;
    typedef group_of<T, C> V;
    enum { AGAIN = reading<T>::ALWAYS }; /* past the last element, that one is loaded again */
    const int count = (int)r.g.count, last = count - 1;
    const int64_t stride = r.g.reduced > 0 ? r.g.in[r.g.kept] : 0;
    const int64_t first = blockIdx.x * (int64_t)S::OUTPUTS + threadIdx.x * C;
    grid_dependency_sync();
    /* Loads: all are issued before any is used. */
    V v[S::GROUPS][MOST];
#pragma unroll
    for (int u = 0; u < S::GROUPS; u++) {
        if (first + u * S::APART >= r.g.outputs) break;
        const T *a = static_cast<const T *>(r.a) + column_at(r, axes, first + u * S::APART);
#pragma unroll
        for (int k = 0; k < MOST; k++)
            if (AGAIN || k < count)
                v[u][k] = load_group<V>(a + (AGAIN ? min(k, last) : k) * stride);
    }
    /* Fold: elements of an output are lanes of one leaf. */
    typename F::acc value[S::GROUPS][C];
#pragma unroll
    for (int u = 0; u < S::GROUPS; u++) {
#pragma unroll
        for (int c = 0; c < C; c++) {
            typename F::acc lane[MOST];
#pragma unroll
            for (int k = 0; k < MOST; k++)
                lane[k] = k < count ? M::of(v[u][k].at[c], k, r.key_flags) : F::none();
            fold_own<F, MOST>(lane);
            value[u][c] = lane[0];
        }
    }
    /* Store. The code that finishes an output is long, so with C > 1 it is not unrolled. */
#pragma unroll(C > 1 ? 1 : S::GROUPS)
    for (int u = 0; u < S::GROUPS; u++) {
        if (first + u * S::APART >= r.g.outputs) break;
        finish_neighbours<C>(r, first + u * S::APART, value[0]);
#pragma unroll
        for (int next = 1; next < S::GROUPS; next++)
#pragma unroll
            for (int c = 0; c < C; c++) value[next - 1][c] = value[next][c];
    }
}

#endif
