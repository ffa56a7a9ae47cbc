/*
 * columns.cu - reduce: neighbouring outputs, up to 16 bytes of a row to a thread.
 *
 * For outputs that are neighbours in memory, as along axis 0 of a C-contiguous matrix, or have
 * few elements. SHARE threads, from as many warps or quarters of a warp, share a leaf of a
 * column; or one thread has all elements, if they are few. The loads of AT_ONCE lanes are in
 * flight at once. Groups of lanes come in the order in which they fold, since an accumulator
 * for every lane would need too many registers. The threads' results are folded in shared
 * memory.
 */
#include <string.h>

#include "cuda/reduce/columns.h"
#include "cuda/reduce/nodes.h"
#include "cuda/reduce/pairs.h"
#include "cuda/common/l2_policy.h"

enum { FOLDED = 64 }; /* leaves that a block folds once they are accumulators */

template <typename R>
GOP_DEVICE void columns_conclude(const reduce_args &r, int64_t o, int64_t leaf, R value)
{
    if (r.leaves == 1) finish(r, o, value);
    else static_cast<R *>(r.partial)[leaf * r.g.outputs + o] = value; /* row by row */
}

/* Adds the elements row, row + apart, .., those below n: they are `step` apart in memory, or
 * at their `place`. */
template <bool WHOLE, bool PLACED, typename M, int C, int AT_ONCE, int KEEP>
GOP_DEVICE void add_batch(const typename M::T *a, int64_t step, const int32_t *place, int row,
                          int apart, int n, int key_flags,
                          typename gather_of<M>::acc (&acc)[C][KEEP])
{
    typedef typename loaded_of<M, C>::type V;
    enum { AGAIN = !WHOLE && reading<typename M::T>::ALWAYS }; /* the last one */
    V v[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        const int at = row + i * apart;
        if (AGAIN || WHOLE || at < n)
            v[i] = load_group<V>(PLACED ? a + place[AGAIN ? min(at, n - 1) : at] : a);
        if (!PLACED && (!AGAIN || at + apart < n)) a += step;
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        if (WHOLE || row + i * apart < n)
            add_each<M, C, KEEP>(&acc[0][i % KEEP], v[i], row + i * apart, key_flags);
}

/* Adds all elements of the thread in lane `row`, AT_ONCE at a time. */
template <bool PLACED, typename M, int C, int AT_ONCE, bool ALONE, int KEEP>
GOP_DEVICE void add_lane(const typename M::T *a, int64_t step, const int32_t *place, int row,
                         int apart, int n, int key_flags,
                         typename gather_of<M>::acc (&acc)[C][KEEP])
{
#pragma unroll 1
    for (; row < n; row += AT_ONCE * apart, a += AT_ONCE * step) {
        if (row + (AT_ONCE - 1) * apart < n)
            add_batch<true, PLACED, M, C, AT_ONCE>(a, step, place, row, apart, n, key_flags,
                                                   acc);
        else
            add_batch<false, PLACED, M, C, AT_ONCE>(a, step, place, row, apart, n, key_flags,
                                                    acc);
        if (ALONE) break; /* a lane has one element */
    }
}

/* Folds what the threads of each column have put into shared memory. */
template <typename S, typename F, int C, int SHARE, int WIDTH>
GOP_DEVICE void columns_meet(const reduce_args &r, typename F::acc (&shared)[SHARE][WIDTH],
                             int x, int warp, int64_t begin, int64_t leaf)
{
    __syncthreads();
    for (int d = SHARE / 2; d >= S::LEFT; d /= 2) {
        for (int c = x; warp < d && c < x + C && begin + c < r.g.outputs; c++)
            shared[warp][c] = F::fold(shared[warp][c], shared[warp + d][c]);
        __syncthreads();
    }
#pragma unroll 1
    for (int q = threadIdx.x; q < WIDTH && begin + q < r.g.outputs; q += S::THREADS) {
        typename F::acc own[S::LEFT];
#pragma unroll
        for (int w = 0; w < S::LEFT; w++) own[w] = shared[w][q];
        fold_own<F, S::LEFT>(own);
        columns_conclude(r, begin + q, leaf, own[0]);
    }
}

/* A thread has 2^LEVELS groups of lanes, or fewer if there are few elements. Along several
 * axes, the offsets of a leaf's rows are tabled once. */
template <typename M, int C, int SHARE, int LEVELS> __global__ void
__launch_bounds__(columns_of<M, C, SHARE>::THREADS, columns_blocks<M, C, SHARE, LEVELS>::N)
    reduce_columns_kernel(const __grid_constant__ reduce_args r, unsigned across, int groups,
                          int reverse, const __grid_constant__ column_axes axes)
{
    typedef typename M::T T;
    typedef typename M::F F;
    typedef typename F::acc R;
    typedef gather_of<M> G;
    typedef columns_of<M, C, SHARE> S;
    enum { KEEP = S::KEEP, AT_ONCE = S::AT_ONCE };
    __shared__ R shared[SHARE][SHARE > 1 ? S::WIDTH : 1];
    extern __shared__ int32_t place[]; /* of several axes */
    const gop_reduction &g = r.g;
    const int turns = LEVELS > 0 ? groups : 1;
    const int x = threadIdx.x % S::ACROSS * C, warp = threadIdx.x / S::ACROSS;
    const unsigned block = l2_block(reverse);
    const int64_t begin = block % across * (int64_t)S::WIDTH;
    const int64_t leaf = block / across, k0 = leaf * LEAF;
    const bool placed = !is_plain<M> && g.reduced > 1;
    const int64_t stride = placed ? 0 : g.in[g.kept];
    const int n = (int)(g.count - k0 < LEAF ? g.count - k0 : LEAF), apart = SHARE * turns;
    if (placed) {
        for (int i = threadIdx.x; i < n; i += S::THREADS)
            place[i] = (int32_t)axes_at(g.in, axes.by, g.kept, g.kept + g.reduced - 1,
                                        (uint32_t)k0 + i);
        __syncthreads();
    }
    grid_dependency_sync();
    if (begin + x < g.outputs) {
        const T *first =
            static_cast<const T *>(r.a) + column_at(r, axes, begin + x) + k0 * stride;
        const int64_t step = apart * stride;
        R value[C], waiting[LEVELS + 1][C];
#pragma unroll
        for (int c = 0; c < C; c++) value[c] = F::none();
#pragma unroll 1
        for (int t = 0; t < turns; t++) {
            const int lane = group_of_turn(t, turns) * SHARE + warp;
            typename G::acc acc[C][KEEP];
#pragma unroll
            for (int i = 0; i < C * KEEP; i++) acc[i / KEEP][i % KEEP] = G::none();
            const T *a = first + lane * stride;
            if (placed)
                add_lane<true, M, C, AT_ONCE, S::ORDERED && SHARE == 1>(
                    a, step, place, lane, apart, n, r.key_flags, acc);
            else
                add_lane<false, M, C, AT_ONCE, S::ORDERED && SHARE == 1>(
                    a, step, place, lane, apart, n, r.key_flags, acc);
#pragma unroll
            for (int c = 0; c < C; c++) {
                R own[KEEP];
#pragma unroll
                for (int i = 0; i < KEEP; i++) own[i] = G::root(acc[c][i], k0, r.key_flags);
                fold_own<F, KEEP>(own);
                value[c] = own[0];
            }
            fold_turns<F, LEVELS>(t, waiting, value);
        }
        if constexpr (SHARE == 1) finish_neighbours<C>(r, begin + x, value);
        else {
#pragma unroll
            for (int c = 0; c < C; c++) shared[warp][x + c] = value[c];
        }
    }
    if constexpr (SHARE > 1) columns_meet<S, F, C>(r, shared, x, warp, begin, leaf);
}

/* Folds leaves: a block folds 64 accumulators of each of 32 columns, first eight neighbours in
 * a thread, then across the eight warps. */
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
    grid_dependency_sync();
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

struct columns_launch {
    reduce_args r;
    column_axes axes;
    unsigned across;
    int groups;
    bool alternates;
};

template <typename M, int C, int SHARE, int LEVELS>
static gop_status reduce_columns(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef columns_of<M, C, SHARE> S;
    typedef typename M::F F;
    typedef typename F::acc R;
    const columns_launch &own = *GOP_OWN(const columns_launch, task->plan);
    reduce_args r = reduce_addressed(task, own.r);
    R *const buffer[2] = {static_cast<R *>(r.partial),
                          static_cast<R *>(r.partial) + r.g.outputs * r.leaves};
    const size_t places = r.g.reduced > 1 ? (SHARE > 1 ? LEAF : LANES) * sizeof(int32_t) : 0;
    GOP_TRY(GOP_LAUNCH_FIRST(
        ctx, task, r.leaves > 1, (reduce_columns_kernel<M, C, SHARE, LEVELS>),
        dim3((unsigned)(own.across * r.leaves)), dim3(S::THREADS), places, r, own.across,
        own.groups, own.alternates ? l2_reverse<GOP_OP_reduce>() : 0, own.axes));
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

template <typename M, int C, int MOST>
static gop_status reduce_pairs(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef pairs_of<typename M::T, C, MOST> S;
    const columns_launch &own = *GOP_OWN(const columns_launch, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0, (reduce_pairs_kernel<M, C, MOST>),
                            dim3((unsigned)blocks_for(own.r.g.outputs, S::OUTPUTS)),
                            dim3(S::THREADS), 0, reduce_addressed(task, own.r), own.axes);
}

template <typename M, int C, int SHARE, int LEVELS = columns_of<M, C, SHARE>::LEVELS>
static gop_status plan_share(gop_plan *plan)
{
    typedef columns_of<M, C, SHARE> S;
    columns_launch &own = *GOP_OWN(columns_launch, plan);
    own.across = (unsigned)blocks_for(own.r.g.outputs, S::WIDTH);
    own.groups = 1;
    while (own.groups * SHARE * S::AT_ONCE < own.r.g.count && own.groups < 1 << LEVELS)
        own.groups *= 2;
    plan->launch = reduce_columns<M, C, SHARE, LEVELS>;
    return GOP_OK;
}

/* Plans `pairs` for outputs of so few elements that a thread has several groups of them, if
 * that keeps the device busy. */
template <typename M, int C>
static gop_launch pairs_launch(const gop_ctx *ctx, const gop_reduction &g)
{
    enum {
        MOST = pairs_most<M, C>(),
        FOUR = MOST < 4 ? MOST : 4,
        OUTPUTS = pairs_of<typename M::T, C, 2>::OUTPUTS
    };
    const int64_t busy = 2 * (int64_t)ctx->info.processors; /* blocks */
    if (g.reduced > 1 || g.count > MOST || g.outputs < busy * OUTPUTS) return nullptr;
    if (g.count <= 2) return reduce_pairs<M, C, 2>;
    return g.count <= 4 ? reduce_pairs<M, C, FOUR> : reduce_pairs<M, C, MOST>;
}

/* A thread has all elements of its outputs if it loads them at once, or if there are many
 * outputs. One whole column is better than parts of several. */
template <typename M, int C>
static gop_status plan_columns(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    typedef columns_of<M, C, 1> S;
    enum { SHARE = S::ORDERED ? 8 : 16 };
    reduce_args &r = GOP_OWN(columns_launch, plan)->r;
    /* A stored item is at most as long as an accumulator. */
    r.grouped = in_groups(task, C, sizeof(typename M::F::acc), true);
    plan->launch = pairs_launch<M, C>(ctx, r.g);
    if (plan->launch) return GOP_OK;
    if (r.g.count <= S::AT_ONCE) return plan_share<M, C, 1, 0>(plan);
    const int processors = ctx->info.processors;
    const bool alone = !are_short_lines<M>(r.g);
    if (alone && r.g.count <= LANES && r.g.outputs >= ENOUGH * S::WIDTH &&
        !are_uneven<M, C>(r.g, processors))
        return plan_share<M, C, 1>(plan);
    if (alone && are_enough<M, C>(r.g) && !are_uneven<M, 1>(r.g, processors))
        return plan_share<M, 1, 1>(plan);
    if constexpr (C == 1) {
        enum { ARE_LINES = sizeof(typename M::T) > 8 }; /* eight of 16 bytes */
        const int64_t leaves = r.g.outputs * r.leaves, few = 2 * BUSY * 32;
        if (r.g.count >= 4 * LANES && leaves < (ARE_LINES ? few : BUSY * 16))
            return plan_share<M, C, 64>(plan);
        if (!ARE_LINES && leaves < few) return plan_share<M, C, 16>(plan);
    }
    return plan_share<M, C, SHARE>(plan);
}

template <typename M>
static gop_status plan_of_map(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum {
        ITEM = sizeof(typename M::T),
        ACC = sizeof(typename M::F::acc),
        ROOM = M::F::ORDERED ? 16 / ACC : 64 / ACC,
        WIDE = 16 / ITEM < ROOM ? 16 / ITEM : ROOM,
        LEAST = ITEM < 4 ? 4 / ITEM : 1,
        MOST = WIDE < 8 ? WIDE : 8,
        C = MOST > LEAST ? MOST : LEAST /* columns of a thread */
    };
    const bool none = is_plain<M> && task->geometry.reduction.reduced > 1;
    if (none || !are_near(task->geometry.reduction, ITEM))
        return gop_fail(
            GOP_REFUSED,
            "reduce: this kernel needs neighbouring outputs to read neighbouring elements, in "
            "runs of 32 or 64 bytes; or outputs of at most %d elements whose elements lie at "
            "most %d bytes apart; or outputs of at most %d neighbouring elements",
            LANES, SECTOR, FEW_OWN);
    reduce_args &r = GOP_OWN(columns_launch, plan)->r;
    reduce_arguments(task, &r, plan);
    const int64_t leaves = r.g.outputs * r.leaves;
    const auto fit = [&](int columns) {
        return in_groups(task, columns, ITEM, false) && leaves >= BUSY * 32 * columns;
    };
    const bool all = fit(C) && !are_wide_results<M>(r.g);
    const bool many = r.g.count > pairs_most<M, 1>();
    if constexpr (C > 2)
        if (fit(C / 2) && (all ? half_is_better<M, C>(r.g) : many))
            return plan_columns<M, C / 2>(ctx, task, plan);
    if (C > 1 && all) return plan_columns<M, C>(ctx, task, plan);
    if constexpr (C > 4)
        if (fit(2) && many) return plan_columns<M, 2>(ctx, task, plan);
    return plan_columns<M, 1>(ctx, task, plan);
}

typedef gop_status (*columns_plan)(const gop_ctx *ctx, const gop_task *task, gop_plan *plan);
static const reduce_by_map<columns_plan> plans = REDUCE_BY_MAP(plan_of_map, nullptr);

static gop_status reduce_columns_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const columns_plan plan_it = reduce_of_call(plans, task);
    GOP_TRY(reduce_unmasked(task, plan_it));
    const bool known = g.kept + g.reduced <= AXES && g.outputs <= INT32_MAX - LEAF;
    const gop_reduce_op op = task->call->params.reduce.op;
    const int64_t least = op == GOP_ARGMIN || op == GOP_ARGMAX ? 2 : 1;
    if (g.count < least || !are_placed(g, known))
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs an element to an output, two "
                                     "for positions, and none of one 2^31 apart if not by one "
                                     "distance");
    const int64_t blocks = blocks_for(g.outputs, 32) * reduce_leaves(g);
    if (blocks < 1 || blocks > 0x7fffffff)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs 1 to 2^31 - 1 blocks");
    column_axes &axes = GOP_OWN(columns_launch, plan)->axes;
    memset(&axes, 0, sizeof axes); /* unused fields too: equal arguments must be equal bytes */
    axes.known = known;
    for (int d = 0; d < g.kept + g.reduced && known; d++)
        axes.by[d] = make_fast_divisor(g.extent[d]);
    GOP_OWN(columns_launch, plan)->alternates = reduce_exceeds_l2(ctx, task);
    return plan_it(ctx, task, plan);
}

extern const gop_row reduce_columns_row = {
    .name = "columns",
    .note = "outputs side by side, 4 to 16 bytes of a row to a thread: warps share a leaf, or "
            "a thread has the few elements of its outputs; lanes come in the order in which "
            "they fold",
    .role = GOP_CONFORMING,
    .plan = reduce_columns_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
