/*
 * reduce_columns.h - the kernels for outputs that are neighbours in memory, as along axis 0 of
 * a C-contiguous matrix.
 */
#ifndef GOP_CUDA_REDUCE_COLUMNS_H
#define GOP_CUDA_REDUCE_COLUMNS_H

#include "cuda/reduce_tree.h"

enum {
    FOLDED = 64, /* leaves that a block folds once they are accumulators */
    BUSY = 128   /* blocks that keep a device busy */
};

/* ---- columns: up to 16 bytes of neighbouring outputs to a thread -------------------------
 * SHARE warps share a leaf of their columns; or a thread has all elements of its own, where
 * these are few. The elements of AT_ONCE lanes are under way at once, and groups of lanes come
 * in the order in which they fold: those farthest apart first, and what is done waits in as
 * many levels as a binary counter has bits. An accumulator for every lane would need more
 * registers than there are. What the warps have left meets in shared memory. */

constexpr int log2_of(int n)
{
    return n < 2 ? 0 : 1 + log2_of(n / 2);
}

/* Loads of a thread under way, as many as there are registers for: in order every lane has an
 * accumulator, else every column. */
template <typename M, int C> constexpr int columns_at_once()
{
    const int acc = C * sizeof(typename M::F::acc), item = C * sizeof(typename M::T);
    if (M::F::ORDERED) return acc <= 8 ? 16 : 8;
    return C > 4 || C * item >= 64 ? 4 : 8;
}

template <typename M, int C, int SHARE> struct columns_of {
    enum {
        ORDERED = M::F::ORDERED,
        THREADS = SHARE > 8 ? SHARE * 32 : 256,
        ACROSS = THREADS / SHARE, /* threads side by side */
        WIDTH = ACROSS * C,
        AT_ONCE = columns_at_once<M, C>(),
        OWN = LANES / SHARE, /* lanes of a thread */
        KEEP = ORDERED ? (AT_ONCE < OWN ? AT_ONCE : OWN) : 1,
        LEVELS = ORDERED ? log2_of(OWN / KEEP) : 0
    };
};

/* Blocks that a processor should hold: as registers allow. */
template <typename M, int C, int SHARE, int LEVELS> struct columns_blocks {
    enum {
        ACC = C * sizeof(typename M::F::acc),
        ALONE = SHARE == 1 && LEVELS == 0 && ACC <= 16,
        N = ALONE || (ACC == 4 && SHARE <= 8) ? 4 : 2
    };
};

template <typename R>
GOP_DEVICE void columns_conclude(const reduce_args &r, int64_t o, int64_t leaf, R value)
{
    if (r.leaves == 1) finish(r, o, value);
    else static_cast<R *>(r.partial)[leaf * r.g.outputs + o] = value; /* row by row */
}

/* Adds the elements row, row + apart, .., those below n; they are `step` apart in memory. */
template <bool WHOLE, typename M, int C, int AT_ONCE, int KEEP>
GOP_DEVICE void add_batch(const typename M::T *a, int64_t step, int row, int apart, int n,
                          int twist, typename gather_of<M>::acc (&acc)[C][KEEP])
{
    typedef group_of<typename M::T, C> V;
    V v[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++, a += step)
        if (WHOLE || row + i * apart < n) v[i] = load_group<V>(a);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        if (WHOLE || row + i * apart < n)
#pragma unroll
            for (int c = 0; c < C; c++)
                gather_of<M>::add(acc[c][i % KEEP], v[i].at[c], row + i * apart, twist);
}

/* A thread has 2^LEVELS groups of lanes; where all lanes are its own, as many as there are
 * elements for. */
template <typename M, int C, int SHARE, int LEVELS> __global__ void
__launch_bounds__(columns_of<M, C, SHARE>::THREADS, columns_blocks<M, C, SHARE, LEVELS>::N)
    reduce_columns_kernel(reduce_args r, unsigned across, int groups)
{
    typedef typename M::T T;
    typedef typename M::F F;
    typedef typename F::acc R;
    typedef gather_of<M> G;
    typedef columns_of<M, C, SHARE> S;
    enum { KEEP = S::KEEP, AT_ONCE = S::AT_ONCE };
    __shared__ R shared[SHARE][SHARE > 1 ? S::WIDTH : 1];
    const gop_reduction &g = r.g;
    const int turns = SHARE == 1 && LEVELS > 0 ? groups : 1 << LEVELS;
    const int x = threadIdx.x % S::ACROSS * C, warp = threadIdx.x / S::ACROSS;
    const int64_t begin = blockIdx.x % across * (int64_t)S::WIDTH;
    const int64_t leaf = blockIdx.x / across, k0 = leaf * LEAF, stride = g.in[g.kept];
    if (begin + x < g.outputs) {
        const T *first =
            static_cast<const T *>(r.a) + place_of(g, 0, g.kept, begin + x).in + k0 * stride;
        const int n = (int)(g.count - k0 < LEAF ? g.count - k0 : LEAF), apart = SHARE * turns;
        const int64_t step = apart * stride;
        R value[C], waiting[LEVELS + 1][C];
#pragma unroll
        for (int c = 0; c < C; c++) value[c] = F::none();
#pragma unroll 1
        for (int t = 0; t < turns; t++) {
            int lane = 0; /* the bits of t from right to left */
            for (int bit = 1; bit < turns; bit *= 2) lane = 2 * lane + ((t & bit) != 0);
            lane = lane * SHARE + warp;
            typename G::acc acc[C][KEEP];
#pragma unroll
            for (int i = 0; i < C * KEEP; i++) acc[i / KEEP][i % KEEP] = G::none();
            const T *a = first + lane * stride;
#pragma unroll 1
            for (int row = lane; row < n; row += AT_ONCE * apart, a += AT_ONCE * step) {
                if (row + (AT_ONCE - 1) * apart < n)
                    add_batch<true, M, C, AT_ONCE>(a, step, row, apart, n, r.twist, acc);
                else add_batch<false, M, C, AT_ONCE>(a, step, row, apart, n, r.twist, acc);
                if (S::ORDERED && SHARE == 1) break; /* a lane has one element */
            }
#pragma unroll
            for (int c = 0; c < C; c++) {
                R own[KEEP];
#pragma unroll
                for (int i = 0; i < KEEP; i++) own[i] = G::root(acc[c][i], k0, r.twist);
                fold_own<F, KEEP>(own);
                value[c] = own[0];
            }
#pragma unroll
            for (int l = 0; l < LEVELS; l++) {
                const bool waits = !(t >> l & 1);
#pragma unroll
                for (int c = 0; c < C; c++)
                    if (waits) waiting[l][c] = value[c];
                    else value[c] = F::fold(waiting[l][c], value[c]);
                if (waits) break;
            }
        }
        if constexpr (SHARE == 1) finish_group<C>(r, begin + x, value);
        else {
#pragma unroll
            for (int c = 0; c < C; c++) shared[warp][x + c] = value[c];
        }
    }
    if constexpr (SHARE > 1) {
        __syncthreads();
#pragma unroll 1
        for (int q = threadIdx.x; q < S::WIDTH && begin + q < g.outputs; q += S::THREADS) {
            R own[SHARE];
#pragma unroll
            for (int w = 0; w < SHARE; w++) own[w] = shared[w][q];
            fold_own<F, SHARE>(own);
            columns_conclude(r, begin + q, leaf, own[0]);
        }
    }
}

/* ---- columns, leaves: a block folds 64 accumulators of each of 32 columns ---------------
 * Eight neighbours in a thread, then the eight warps. */
template <typename F> __global__ void __launch_bounds__(256)
    reduce_columns_leaves_kernel(reduce_args r, unsigned across, int64_t leaves,
                                 const typename F::acc *from)
{
    typedef typename F::acc R;
    enum { EIGHT = 8 };
    __shared__ R shared[EIGHT][32];
    const int x = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t part = blockIdx.x / across, o = blockIdx.x % across * (int64_t)32 + x;
    const int64_t leaf = part * FOLDED + warp * EIGHT;
    gop_wait_for_kernel_before();
    R v[EIGHT];
#pragma unroll
    for (int i = 0; i < EIGHT; i++)
        v[i] = o < r.g.outputs && leaf + i < leaves ? from[(leaf + i) * r.g.outputs + o]
                                                    : F::none();
    fold_neighbours<F, EIGHT>(v);
    shared[warp][x] = v[0];
    __syncthreads();
    if (warp > 0 || o >= r.g.outputs) return;
#pragma unroll
    for (int i = 0; i < EIGHT; i++) v[i] = shared[i][x];
    fold_neighbours<F, EIGHT>(v);
    columns_conclude(r, o, part, v[0]);
}

/* Whether groups of `together` columns start at multiples of as many elements: of the array,
 * and in `out` of the result. */
static inline bool in_groups(const reduce_args &r, int together, int item, bool out)
{
    const gop_reduction &g = r.g;
    const int64_t *const stride = out ? g.out : g.in;
    int64_t bits = g.extent[g.kept - 1] | (out ? 0 : g.in[g.kept]);
    for (int d = 0; d < g.kept - 1; d++) bits |= stride[d];
    return stride[g.kept - 1] == 1 && bits % together == 0 &&
           (uintptr_t)(out ? r.out : r.a) % (together * item) == 0;
}

template <typename M, int C, int SHARE, int LEVELS = columns_of<M, C, SHARE>::LEVELS>
static gop_status columns_launch(gop_ctx *ctx, const reduce_args &r)
{
    typedef columns_of<M, C, SHARE> S;
    const unsigned across = (unsigned)blocks_for(r.g.outputs, S::WIDTH);
    int groups = 1;
    while (groups * S::AT_ONCE < r.g.count && groups < 1 << LEVELS) groups *= 2;
    return GOP_LAUNCH(ctx, (reduce_columns_kernel<M, C, SHARE, LEVELS>),
                      dim3((unsigned)(across * r.leaves)), dim3(S::THREADS), 0, r, across,
                      groups);
}

/* A thread has all elements of its outputs, if it loads them at once or if outputs are many. */
template <typename M, int C>
static gop_status columns_choose(gop_ctx *ctx, const reduce_args &r)
{
    typedef columns_of<M, C, 1> S;
    enum { SHARE = S::ORDERED ? 8 : 16 };
    if (r.g.count <= S::AT_ONCE) return columns_launch<M, C, 1, 0>(ctx, r);
    if (r.g.count <= LANES && r.g.outputs >= 2 * BUSY * S::WIDTH)
        return columns_launch<M, C, 1>(ctx, r);
    if constexpr (C == 1)
        if (r.g.outputs * r.leaves < 2 * BUSY * 32) return columns_launch<M, C, 16>(ctx, r);
    return columns_launch<M, C, SHARE>(ctx, r);
}

template <typename M>
static gop_status reduce_columns_task(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    enum {
        ITEM = sizeof(typename M::T),
        ACC = sizeof(R),
        ROOM = F::ORDERED ? 16 / ACC : 64 / ACC,
        WIDE = 16 / ITEM < ROOM ? 16 / ITEM : ROOM,
        LEAST = ITEM < 4 ? 4 / ITEM : 1,
        MOST = WIDE < 8 ? WIDE : 8,
        C = MOST > LEAST ? MOST : LEAST /* columns of a thread */
    };
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    R *const buffer[2] = {static_cast<R *>(r.partial),
                          static_cast<R *>(r.partial) + r.g.outputs * r.leaves};
    r.grouped = in_groups(r, C, ACC, true); /* no item is longer than an accumulator */
    if (C > 1 && in_groups(r, C, ITEM, false) && r.g.outputs * r.leaves >= BUSY * 32 * C)
        GOP_TRY((columns_choose<M, C>(ctx, r)));
    else GOP_TRY((columns_choose<M, 1>(ctx, r)));
    const unsigned across = (unsigned)blocks_for(r.g.outputs, 32);
    for (int from = 0; r.leaves > 1; from ^= 1) {
        const int64_t leaves = r.leaves;
        r.leaves = blocks_for(leaves, FOLDED);
        r.partial = buffer[from ^ 1];
        GOP_TRY(GOP_LAUNCH_EARLY(ctx, reduce_columns_leaves_kernel<F>,
                                 dim3((unsigned)(across * r.leaves)), dim3(256), 0, r, across,
                                 leaves, (const R *)buffer[from]));
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
