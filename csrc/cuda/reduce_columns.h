/*
 * reduce_columns.h - the kernels for outputs that are neighbours in memory, as along axis 0 of
 * a C-contiguous matrix.
 */
#ifndef GOP_CUDA_REDUCE_COLUMNS_H
#define GOP_CUDA_REDUCE_COLUMNS_H

#include "cuda/reduce_tree.h"

enum {
    FOLDED = 64, /* leaves that a block folds once they are accumulators */
    STACKED = 8  /* elements of an output that a thread has, at most */
};

/* Of a thread, where it has all their elements. */
template <typename T> constexpr int stacked_outputs()
{
    return sizeof(T) <= 4 ? 4 : 16 / (int)sizeof(T);
}

/* How blocks cover the array: by column blocks, then leaves, then the outer kept axes. */
struct columns_plan {
    int64_t line;    /* columns side by side */
    unsigned across; /* blocks to a line */
    unsigned leaves; /* that the launch reads, or makes from elements */
};

/* A column's N values fold into one. */
template <typename F, int N, bool NEIGHBOURS, typename R, int WIDTH>
GOP_DEVICE R columns_meet(const R (*shared)[WIDTH], int x)
{
    R v[N];
#pragma unroll
    for (int w = 0; w < N; w++) v[w] = shared[w][x];
#pragma unroll
    for (int d = 1; d < N; d *= 2) {
        /* Leaves fold with their neighbours first, lanes with those farthest away. */
        const int apart = NEIGHBOURS ? d : N / 2 / d;
#pragma unroll
        for (int w = 0; w + apart < N; w++)
            if (NEIGHBOURS ? w % (2 * d) == 0 : w < apart) v[w] = F::fold(v[w], v[w + apart]);
    }
    return v[0];
}

template <typename R> GOP_DEVICE void columns_conclude(const reduce_args &r, int64_t line,
                                                       int64_t outer, int64_t leaf,
                                                       int64_t column, R value)
{
    if (r.leaves == 1) finish(r, outer * line + column, value);
    else static_cast<R *>(r.partial)[(outer * r.leaves + leaf) * line + column] = value;
}

/* ---- columns: eight or sixteen warps to a leaf ------------------------------------------
 * Of eight, warp w owns the lanes w, w + 8, .., sixteen of them, all loaded at once. They fold
 * in registers for d = 64, 32, 16, 8; what is left meets in shared memory. */

/* Columns of a thread, and warps that share a leaf. Where every lane has an accumulator of its
 * own they leave no registers for more than 4 bytes of a row; else a thread has up to 16. */
template <typename M> struct columns_of {
    enum {
        ITEM = sizeof(typename M::T),
        ACC = sizeof(typename M::F::acc),
        WIDE = 16 / ITEM < 64 / ACC ? 16 / ITEM : 64 / ACC,
        N = M::F::ORDERED ? (ITEM < 4 ? 4 / ITEM : 1) : (WIDE < 8 ? WIDE : 8),
        WARPS = M::F::ORDERED ? 8 : 16
    };
};

/* A row of lanes, as many rows loaded at once as registers hold: those below `below`. */
template <bool WHOLE, typename M, int C, int KEEP>
GOP_DEVICE void add_rows(const typename M::T *a, int64_t step, int at, int below, int twist,
                         typename gather_of<M>::acc (&acc)[C][KEEP])
{
    typedef group_of<typename M::T, C> V;
    enum {
        WARPS = columns_of<M>::WARPS,
        OWN = LANES / WARPS,
        BATCH = C > 4 || sizeof(V) * C == 64 ? OWN / 2 : OWN
    };
#pragma unroll
    for (int from = 0; from < OWN; from += BATCH) {
        V v[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            if (WHOLE || at + (from + i) * WARPS < below)
                v[i] = load_group<V>(a + (from + i) * step);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const int row = at + (from + i) * WARPS;
            if (WHOLE || row < below)
#pragma unroll
                for (int c = 0; c < C; c++)
                    gather_of<M>::add(acc[c][KEEP == 1 ? 0 : from + i], v[i].at[c], row, twist);
        }
    }
}

/* Blocks that a processor should hold: as registers allow. */
template <typename M, int C> constexpr int columns_blocks()
{
    if (!M::F::ORDERED) return 2;
    return C * sizeof(typename M::F::acc) == 4 ? 4 : 1;
}

template <typename M, int C>
__global__ void __launch_bounds__(columns_of<M>::WARPS * 32, columns_blocks<M, C>())
    reduce_columns_kernel(reduce_args r, columns_plan plan)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    typedef gather_of<M> G;
    enum { WARPS = columns_of<M>::WARPS, OWN = LANES / WARPS };
    enum { WIDTH = 32 * C, KEEP = F::ORDERED ? OWN : 1 };
    __shared__ R shared[WARPS][WIDTH];
    const gop_reduction &g = r.g;
    const int x = threadIdx.x % 32 * C, warp = threadIdx.x / 32;
    const unsigned row = blockIdx.x / plan.across;
    const unsigned outer = row / plan.leaves, leaf = row % plan.leaves;
    const int64_t begin = (int64_t)(blockIdx.x % plan.across) * WIDTH,
                  k0 = (int64_t)leaf * LEAF;
    const int64_t stride = g.in[g.kept], left = g.count - k0;
    typename G::acc acc[C][KEEP];
#pragma unroll
    for (int i = 0; i < C * KEEP; i++) acc[i / KEEP][i % KEEP] = G::none();
    if (begin + x < plan.line) {
        const typename M::T *a = static_cast<const typename M::T *>(r.a) +
                                 place_of(g, 0, g.kept - 1, outer).in + begin + x +
                                 (k0 + warp) * stride;
        const int n = (int)(left < LEAF ? left : LEAF);
        if (n == LEAF)
#pragma unroll 1
            for (int j = warp; j < LEAF; j += LANES, a += LANES * stride)
                add_rows<true, M>(a, WARPS * stride, j, LEAF, r.twist, acc);
        else
#pragma unroll 1
            for (int j = warp; j < n; j += LANES, a += LANES * stride)
                add_rows<false, M>(a, WARPS * stride, j, n, r.twist, acc);
    }
#pragma unroll
    for (int c = 0; c < C; c++) {
        R own[KEEP];
#pragma unroll
        for (int i = 0; i < KEEP; i++) own[i] = G::root(acc[c][i], k0, r.twist);
        fold_own<F, KEEP>(own);
        shared[warp][x + c] = own[0];
    }
    __syncthreads();
    for (int q = threadIdx.x; q < WIDTH && begin + q < plan.line; q += WARPS * 32)
        columns_conclude(r, plan.line, outer, leaf, begin + q,
                         columns_meet<F, WARPS, false>(shared, q));
}

/* ---- columns, leaves: a block folds 64 accumulators of each of 32 columns ---------------
 * Eight neighbours in a thread, then the eight warps. */
template <typename F> __global__ void __launch_bounds__(256)
    reduce_columns_leaves_kernel(reduce_args r, columns_plan plan, const typename F::acc *from)
{
    typedef typename F::acc R;
    enum { EIGHT = 8 };
    __shared__ R shared[EIGHT][32];
    const int x = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned row = blockIdx.x / plan.across;
    const int64_t outer = row / (unsigned)r.leaves, part = row % (unsigned)r.leaves;
    const int64_t column = (int64_t)(blockIdx.x % plan.across) * 32 + x;
    const int64_t leaf = part * FOLDED + warp * EIGHT;
    R v[EIGHT];
#pragma unroll
    for (int i = 0; i < EIGHT; i++)
        v[i] = column < plan.line && leaf + i < plan.leaves
                   ? from[(outer * plan.leaves + leaf + i) * plan.line + column]
                   : F::none();
#pragma unroll
    for (int d = 1; d < EIGHT; d *= 2)
#pragma unroll
        for (int i = 0; i < EIGHT; i += 2 * d) v[i] = F::fold(v[i], v[i + d]);
    shared[warp][x] = v[0];
    __syncthreads();
    if (warp == 0 && column < plan.line)
        columns_conclude(r, plan.line, outer, part, column,
                         columns_meet<F, EIGHT, true>(shared, x));
}

/* ---- columns, stacked: up to eight elements to an output --------------------------------
 * A thread has all elements of OWN outputs, and all loads of them under way. */
template <typename M> __global__ void __launch_bounds__(256)
    reduce_columns_stacked_kernel(reduce_args r)
{
    typedef typename M::T T;
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { OWN = stacked_outputs<T>() };
    const int count = (int)r.g.count;
    const int64_t first = blockIdx.x * (int64_t)(256 * OWN) + threadIdx.x;
    const T *a = static_cast<const T *>(r.a) + first * r.g.in[0];
    T v[OWN][STACKED];
#pragma unroll
    for (int k = 0; k < STACKED; k++) {
        if (k >= count) break;
#pragma unroll
        for (int c = 0; c < OWN; c++)
            if (first + c * 256 < r.g.outputs) v[c][k] = a[c * 256 * r.g.in[0] + k * r.g.in[1]];
    }
    R value[OWN];
#pragma unroll
    for (int c = 0; c < OWN; c++) {
        R lane[STACKED];
#pragma unroll
        for (int k = 0; k < STACKED; k++)
            lane[k] = k < count && first + c * 256 < r.g.outputs ? M::turn(v[c][k], k, r.twist)
                                                                 : F::none();
        fold_own<F, STACKED>(lane);
        value[c] = lane[0];
    }
#pragma unroll 1
    for (int c = 0; c < OWN; c++)
        if (first + c * 256 < r.g.outputs) finish(r, first + c * 256, pick<OWN>(value, c));
}

/* Whether all groups of `together` columns start at multiples of as many elements. */
static inline bool in_groups(const reduce_args &r, int64_t line, int together, int item)
{
    int64_t bits = line | r.g.in[r.g.kept];
    for (int d = 0; d < r.g.kept - 1; d++) bits |= r.g.in[d];
    return bits % together == 0 && (uintptr_t)r.a % (together * item) == 0;
}

template <typename M, int C>
static gop_status columns_launch(gop_ctx *ctx, const reduce_args &r, columns_plan plan)
{
    plan.across = (unsigned)blocks_for(plan.line, 32 * C);
    const int64_t blocks = r.g.outputs / plan.line * plan.across * r.leaves;
    return GOP_LAUNCH(ctx, (reduce_columns_kernel<M, C>), dim3((unsigned)blocks),
                      dim3(columns_of<M>::WARPS * 32), 0, r, plan);
}

template <typename M>
static gop_status reduce_columns_task(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef typename M::F::acc R;
    enum { C = columns_of<M>::N };
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    const int64_t line = r.g.extent[r.g.kept - 1], outer = r.g.outputs / line;
    columns_plan plan = {line, (unsigned)blocks_for(line, 32), (unsigned)r.leaves};
    R *const half[2] = {static_cast<R *>(r.partial),
                        static_cast<R *>(r.partial) + r.g.outputs * r.leaves};
    /* Wide groups, unless many would be beyond the end of the line. */
    if (C > 1 && in_groups(r, line, C, sizeof(typename M::T)) &&
        3 * blocks_for(line, 32 * C) * C <= 4 * plan.across)
        GOP_TRY((columns_launch<M, C>(ctx, r, plan)));
    else GOP_TRY((columns_launch<M, 1>(ctx, r, plan)));
    for (int from = 0; r.leaves > 1; from ^= 1) {
        plan.leaves = (unsigned)r.leaves;
        r.leaves = blocks_for(r.leaves, FOLDED);
        r.partial = half[from ^ 1];
        GOP_TRY(GOP_LAUNCH(ctx, reduce_columns_leaves_kernel<typename M::F>,
                           dim3((unsigned)(outer * plan.across * r.leaves)), dim3(256), 0, r,
                           plan, (const R *)half[from]));
    }
    return GOP_OK;
}

/* ---- thin: a few columns, row upon row --------------------------------------------------
 * A row is shorter than a line of the cache, but rows follow each other: a block reads a
 * leaf of all columns as one line of elements, four at a time to a thread. Rows 128 apart
 * meet in a thread; then the lanes of a column do, in shared memory. */
template <typename M> __global__ void __launch_bounds__(256) reduce_thin_kernel(reduce_args r)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    typedef gather_of<M> G;
    typedef lanes_of<typename M::T> V;
    extern __shared__ uint4 storage[];
    R *const lane = reinterpret_cast<R *>(storage); /* of column c: lane[l * columns + c] */
    const int columns = (int)r.g.outputs, pieces = LANES * columns / V::N;
    const int64_t k0 = blockIdx.x * (int64_t)LEAF, left = r.g.count - k0;
    const int n = (int)(left < LEAF ? left : LEAF) * columns;
    const typename M::T *a = static_cast<const typename M::T *>(r.a) + k0 * columns;
    for (int p = threadIdx.x; p < pieces; p += blockDim.x) {
        typename G::acc acc[V::N];
#pragma unroll
        for (int i = 0; i < V::N; i++) acc[i] = G::none();
        if (n == LEAF * columns)
#pragma unroll 8
            for (int j = 0; j < LEAF / LANES; j++) {
                const V v = load_group<V>(a + (j * pieces + p) * V::N);
#pragma unroll
                for (int i = 0; i < V::N; i++) G::add(acc[i], v.at[i], j * LANES, r.twist);
            }
        else
#pragma unroll 1
            for (int j = 0; j < LEAF / LANES; j++)
#pragma unroll
                for (int i = 0; i < V::N; i++) {
                    const int e = (j * pieces + p) * V::N + i;
                    if (e < n) G::add(acc[i], a[e], j * LANES, r.twist);
                }
#pragma unroll
        for (int i = 0; i < V::N; i++) {
            const int e = p * V::N + i;
            lane[e] = G::root(acc[i], k0 + e / columns, r.twist);
        }
    }
    __syncthreads();
    for (int d = LANES / 2; d > 0; d /= 2) {
        for (int e = threadIdx.x; e < d * columns; e += blockDim.x)
            lane[e] = F::fold(lane[e], lane[e + d * columns]);
        __syncthreads();
    }
    if (threadIdx.x < columns) conclude(r, threadIdx.x, blockIdx.x, lane[threadIdx.x]);
}

template <typename M>
static gop_status reduce_thin_task(gop_ctx *ctx, const gop_task *task, int64_t)
{
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    const int columns = (int)r.g.outputs, pieces = LANES * columns / lanes_of<typename M::T>::N;
    GOP_TRY(GOP_LAUNCH(ctx, reduce_thin_kernel<M>, dim3((unsigned)r.leaves),
                       dim3(pieces < 256 ? pieces : 256),
                       LANES * columns * sizeof(typename M::F::acc), r));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

#endif
