/*
 * vectorized.cu - reduce: a warp to a leaf of the tree, 16 bytes a load.
 *
 * The tree's neighbouring lanes are neighbours in memory, so a thread may load 16 bytes of them
 * at once: a quarter of the load instructions for the same bytes in flight. And a block folds
 * up to 64 leaves before it writes. Where an output's elements lie in lines with gaps between
 * them, or in rows shorter than a leaf, a thread loads what neighbours a line can be divided
 * into.
 */
#include "cuda/reduce/maps.h"

enum {
    GROUP = 64, /* leaves of an output that a block folds at most */
    PART = 16,  /* leaves of a longer output: with more, the last blocks run long alone */
    LINE = 16,  /* elements that a line has at least: a shorter one takes longer to find */
    LINES = LEAF / LINE + 2,
    SHARED = 8 /* threads that share a short row: several loads of each are under way */
};

/* How leaves meet in blocks. 2^levels leaves are a subtree of one output; a block has `slots`
 * leaves: a subtree of an output that has several, or of several outputs their only one. */
struct leaf_groups {
    int levels, slots;
    int64_t subtrees; /* of all outputs; r.leaves of each */
};

/* A whole leaf, by a warp; by a thread of its own elements, where order does not matter. */
template <typename M> GOP_DEVICE typename M::F::acc
gathered_leaf(const typename M::T *leaf, int64_t k0, int t, int key_flags)
{
    typedef gather_of<M> G;
    typedef vec128<typename M::T> V;
    enum { LOADS = LEAF / 32 / V::N };
    typename G::acc acc = G::none();
#pragma unroll(LOADS < 8 ? LOADS : 8)
    for (int j = 0; j < LOADS; j++) {
        const int at = (j * 32 + t) * V::N;
        const V v = load128(leaf + at);
#pragma unroll
        for (int i = 0; i < V::N; i++) G::add(acc, v.at[i], at + i, key_flags);
    }
    typename M::F::acc root = G::root(acc, k0, key_flags);
    for (int d = 16; d > 0; d /= 2) root = M::F::fold(root, shuffle_down(root, d, 32));
    return root;
}

/* Thread t owns N neighbouring lanes of each 32 N: all 128 of a leaf in 4 / N pieces. They fold
 * piece by piece, then across threads, then inside one: d = 64, 32, .., 1 in this order. */
template <typename M>
GOP_DEVICE typename M::F::acc ordered_leaf(const typename M::T *leaf, int t, int key_flags)
{
    typedef typename M::F F;
    typedef lanes_of<typename M::T> V;
    enum { N = V::N, PIECES = 4 / N, AHEAD = sizeof(typename M::T) <= 4 ? 8 : 4 };
    typename F::acc acc[PIECES * N];
#pragma unroll
    for (int i = 0; i < PIECES * N; i++) acc[i] = F::none();
#pragma unroll(AHEAD)
    for (int j = 0; j < LEAF; j += LANES)
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const V v = load_group<V>(leaf + j + (p * 32 + t) * N);
#pragma unroll
            for (int i = 0; i < N; i++)
                acc[p * N + i] = F::fold(acc[p * N + i], M::of(v.at[i], 0, key_flags));
        }
#pragma unroll
    for (int d = PIECES / 2; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < d * N; i++) acc[i] = F::fold(acc[i], acc[i + d * N]);
    for (int d = 16; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < N; i++) acc[i] = F::fold(acc[i], shuffle_down(acc[i], d, 32));
    fold_own<F, N>(acc);
    return acc[0];
}

/* The accumulator of a leaf of output o, in thread 0 of the warp. */
template <typename M> GOP_DEVICE typename M::F::acc
vectorized_leaf(const reduce_brief &r, int64_t o, int64_t leaf, int t)
{
    const int64_t k0 = leaf * LEAF, left = r.g.count - k0;
    const typename M::T *a =
        static_cast<const typename M::T *>(r.a) + place_of(r.g, 0, r.g.kept, o).in + k0;
    if (left < LEAF || (uintptr_t)a % 16 != 0)
        return part_of_leaf<M>(a, k0, left < LEAF ? (int)left : LEAF, t, r.key_flags);
    if constexpr (M::F::ORDERED) return ordered_leaf<M>(a, t, r.key_flags);
    else return gathered_leaf<M>(a, k0, t, r.key_flags);
}

/* Of a leaf in groups of N neighbours thread t of W has every W-th; BATCH loads are under way.
 */
template <typename M, int N, int W> struct leaf_by_groups {
    typedef typename M::T T;
    typedef typename M::F F;
    typedef gather_of<M> G;
    typedef group_of<T, N> V;
    typedef typename group_word<sizeof(V)>::type word_t; /* as bytes each had a register */
    enum {
        BATCH = sizeof(V) <= 4             ? 16
                : sizeof(V) < 16 || W < 32 ? 8
                                           : 4,
        PIECES = F::ORDERED ? LANES / W / N : 1,
        OWN = F::ORDERED ? N : 1
    };
    static_assert(BATCH % PIECES == 0, "a batch begins at a thread's first lane");
    typename G::acc acc[PIECES * OWN];
    word_t word[BATCH];

    GOP_DEVICE void load(int b, const T *a) { word[b] = *reinterpret_cast<const word_t *>(a); }
    /* The batch of groups j, j + W, .., those below n. */
    GOP_DEVICE void add(int j, int n, int key_flags)
    {
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            if (j + b * W < n) {
                V v;
                __builtin_memcpy(&v, &word[b], sizeof v);
#pragma unroll
                for (int i = 0; i < N; i++)
                    G::add(acc[b % PIECES * OWN + (F::ORDERED ? i : 0)], v.at[i],
                           (j + b * W) * N + i, key_flags);
            }
    }
    GOP_DEVICE typename F::acc root(int64_t k0, int key_flags)
    {
        typename F::acc lane[PIECES * OWN];
#pragma unroll
        for (int i = 0; i < PIECES * OWN; i++) lane[i] = G::root(acc[i], k0, key_flags);
#pragma unroll
        for (int d = PIECES / 2; d > 0; d /= 2)
#pragma unroll
            for (int i = 0; i < d * OWN; i++) lane[i] = F::fold(lane[i], lane[i + d * OWN]);
        for (int d = W / 2; d > 0; d /= 2)
#pragma unroll
            for (int i = 0; i < OWN; i++)
                lane[i] = F::fold(lane[i], shuffle_down(lane[i], d, W));
        fold_own<F, OWN>(lane);
        return lane[0];
    }
};

/* In lines, of which a leaf may have several: where they begin is found by all threads at once.
 * In rows of a part of a leaf W threads share one. */
template <typename M, int N, int W> GOP_DEVICE typename M::F::acc
leaf_in_lines(const reduce_lined &r, int64_t o, int64_t leaf, bool any, int t, int64_t *begin)
{
    typedef leaf_by_groups<M, N, W> groups;
    groups own;
    const reduce_lines &g = r.g;
    const int last = g.kept + g.reduced - 1;
    const int64_t k0 = leaf * LEAF, left = any ? g.count - k0 : 0;
    const int n = (int)(left < LEAF ? left : LEAF) / N;
    const uint32_t q = (uint32_t)k0 / N, line = quotient(q, g.by[last]);
    const uint32_t x = q - line * g.by[last].d;
    const typename M::T *a = static_cast<const typename M::T *>(r.a) +
                             axes_at(g.in, g.by, 0, g.kept - 1, (uint32_t)o);
#pragma unroll
    for (auto &acc : own.acc) acc = gather_of<M>::none();
    if (W < 32 || x + n <= g.by[last].d) {
        if (W == 32) a += axes_at(g.in, g.by, g.kept, last - 1, line) + (int64_t)x * N;
#pragma unroll 1
        for (int j = t; j < n + t; j += W * groups::BATCH) {
#pragma unroll
            for (int b = 0; b < groups::BATCH; b++)
                if (j + b * W < n) own.load(b, a + (j + b * W) * N);
            own.add(j, n, r.key_flags);
        }
    } else {
        const int lines = (int)quotient(x + n - 1, g.by[last]) + 1;
        __syncwarp();
        for (int i = t; i < lines; i += 32)
            begin[i] = axes_at(g.in, g.by, g.kept, last - 1, line + i);
        __syncwarp();
#pragma unroll 1
        for (int j = t; j < n + t; j += W * groups::BATCH) {
#pragma unroll
            for (int b = 0; b < groups::BATCH; b++)
                if (j + b * W < n) {
                    const uint32_t at = x + j + b * W, l = quotient(at, g.by[last]);
                    own.load(b, a + begin[l] + (int64_t)(at - l * g.by[last].d) * N);
                }
            own.add(j, n, r.key_flags);
        }
    }
    return own.root(k0, r.key_flags);
}

/* Blocks that a processor should hold: as registers allow without going to memory. */
template <typename M, int W> constexpr int vectorized_blocks()
{
    const int acc = sizeof(typename M::F::acc), item = sizeof(typename M::T);
    if ((acc > 8 && item > 8) || (W < 32 && M::F::ORDERED && acc > 4)) return 2;
    return acc > 8 || item == 8 || W < 32 ? 3 : 4;
}

/* Warps take a leaf each, or several of W threads, until the block has `slots`; then they fold
 * a subtree each, or every leaf is an output. */
template <typename M, typename A, int N, int W>
__global__ void __launch_bounds__(TEAMS * 32, vectorized_blocks<M, W>())
    reduce_vectorized_kernel(const __grid_constant__ A r, leaf_groups groups)
{
    typedef typename M::F F;
    __shared__ typename F::acc node[GROUP];
    __shared__ int64_t begin[TEAMS][N > 0 && W == 32 ? LINES : 1];
    const int t = threadIdx.x % W, warp = threadIdx.x / 32;
    const int span = 1 << groups.levels, per_block = groups.slots >> groups.levels;
    const int64_t first = blockIdx.x * (int64_t)per_block;
    const int64_t o = first / r.leaves, part = first - o * r.leaves;
    for (int l = threadIdx.x / W; l < groups.slots; l += TEAMS * 32 / W) {
        const int q = l >> groups.levels;
        const int64_t leaf = part * span + (l & (span - 1));
        const bool any = first + q < groups.subtrees && leaf * LEAF < r.g.count;
        typename F::acc value = F::none();
        if constexpr (N > 0)
            value =
                leaf_in_lines<M, N, W>(r, any ? o + q : o, any ? leaf : 0, any, t, begin[warp]);
        else if (any) value = vectorized_leaf<M>(r, o + q, leaf, t);
        if (t == 0) node[l] = value;
    }
    __syncthreads();
    const bool alone = groups.levels == 0;
    const int q = alone ? threadIdx.x : warp;
    if (q >= per_block || first + q >= groups.subtrees) return;
    const typename F::acc root =
        alone ? node[q]
              : fold_nodes<F>(node + (q << groups.levels), groups.levels, threadIdx.x % 32);
    if (alone || threadIdx.x % 32 == 0) conclude(r, o + q, part, root);
}

/* ---- the plan ---- */

template <typename A> struct vectorized_launch {
    A r;
    leaf_groups groups;
    unsigned blocks;
};

template <typename M, typename A, int N, int W>
static gop_status reduce_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const vectorized_launch<A> &own = *GOP_OWN(const vectorized_launch<A>, task->plan);
    const A r = reduce_addressed(task, own.r);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, r.leaves > 1, (reduce_vectorized_kernel<M, A, N, W>),
                                dim3(own.blocks), dim3(TEAMS * 32), 0, r, own.groups));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

/* Outputs of GROUP leaves end in this launch, where they are enough for all processors. */
template <typename A>
static void plan_groups(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const int64_t outputs = task->geometry.reduction.outputs;
    vectorized_launch<A> &own = *GOP_OWN(vectorized_launch<A>, plan);
    reduce_arguments(task, &own.r, plan);
    const int64_t leaves = own.r.leaves, busy = 4 * (int64_t)ctx->info.processors;
    const int most = leaves <= GROUP ? (int)GROUP : PART;
    int span = 1;
    own.groups = {0, TEAMS, 0};
    for (; span < leaves && span < most &&
           (span < TEAMS || leaves <= 2 * TEAMS || outputs * leaves >= 2 * span * busy);
         span *= 2)
        own.groups.levels++;
    own.r.leaves = blocks_for(leaves, span);
    own.groups.subtrees = outputs * own.r.leaves;
    if (own.groups.slots < span) own.groups.slots = span;
    while (span == 1 && own.groups.slots < GROUP && outputs >= 4 * own.groups.slots * busy)
        own.groups.slots *= 2;
    own.blocks = (unsigned)blocks_for(own.groups.subtrees, own.groups.slots / span);
}

/* Whether groups of n neighbours do not cross the ends of lines, nor begin between multiples.
 */
static bool divides(const gop_task *task, int n, size_t item)
{
    const gop_reduction &g = task->geometry.reduction;
    const int last = g.kept + g.reduced - 1;
    int64_t bits = g.extent[last];
    for (int d = 0; d < last; d++) bits |= g.in[d];
    return n > 1 && g.in[last] == 1 && (bits & (n - 1)) == 0 &&
           (uintptr_t)task->in[0].data % (n * item) == 0;
}

template <typename M>
static gop_status plan_lines(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    typedef typename M::T T;
    enum { NEAR = lanes_of<T>::N, ALL = M::F::ORDERED ? NEAR : 16 / sizeof(T) };
    const gop_reduction &g = task->geometry.reduction;
    const int last = g.kept + g.reduced - 1;
    if (last >= LINED || (g.reduced > 1 && g.extent[last] < LINE) || g.outputs == 0 ||
        g.count == 0 || g.count > INT32_MAX - 2 * LEAF || g.outputs > INT32_MAX ||
        !divides(task, NEAR, sizeof(T)))
        return gop_fail(
            GOP_REFUSED,
            "reduce: this kernel needs the elements of an output side by side, or in "
            "lines of %d and more, %d together, fewer than 2^31 along %d axes at "
            "most, and an array that is not empty",
            LINE, NEAR, LINED);
    if constexpr (NEAR > 1) {
        plan_groups<reduce_lined>(ctx, task, plan);
        vectorized_launch<reduce_lined> &own = *GOP_OWN(vectorized_launch<reduce_lined>, plan);
        const bool all = divides(task, ALL, sizeof(T));
        const int n = all ? (int)ALL : NEAR;
        own.r.g.by[last] = divisor_of(g.extent[last] / n);
        plan->launch = all ? reduce_vectorized<M, reduce_lined, ALL, 32>
                           : reduce_vectorized<M, reduce_lined, NEAR, 32>;
        if (g.reduced > 1 || g.count / n > 16 * SHARED) return GOP_OK;
        if (own.groups.slots < 32 * TEAMS / SHARED) own.groups.slots = 32 * TEAMS / SHARED;
        own.blocks = (unsigned)blocks_for(g.outputs, own.groups.slots);
        plan->launch = all ? reduce_vectorized<M, reduce_lined, ALL, SHARED>
                           : reduce_vectorized<M, reduce_lined, NEAR, SHARED>;
    }
    return GOP_OK;
}

template <typename M>
static gop_status plan_of_map(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { N = lanes_of<typename M::T>::N };
    const gop_reduction &g = task->geometry.reduction;
    const bool part = g.reduced == 1 && g.count < LEAF;
    if (g.reduced > 1 || (part && divides(task, N, sizeof(typename M::T))))
        return plan_lines<M>(ctx, task, plan);
    GOP_TRY(reduce_in_order(task, true));
    plan_groups<reduce_brief>(ctx, task, plan);
    plan->launch = reduce_vectorized<M, reduce_brief, 0, 32>;
    return GOP_OK;
}

typedef gop_status (*vectorized_plan)(const gop_ctx *ctx, const gop_task *task, gop_plan *plan);
static const reduce_by_map<vectorized_plan> plans = REDUCE_BY_MAP(plan_of_map);

static gop_status reduce_vectorized_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const vectorized_plan plan_it = reduce_of_call(plans, task);
    GOP_TRY(reduce_unmasked(task, plan_it));
    if (g.count <= LANES && g.outputs > FEW)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs more than %d elements to an output where "
                        "there are more than %d outputs, got %lld",
                        LANES, FEW, (long long)g.count);
    return plan_it(ctx, task, plan);
}

extern const gop_row reduce_vectorized_row = {
    .name = "vectorized",
    .note = "16 bytes a load, and a block folds up to 64 leaves before it writes",
    .role = GOP_CONFORMING,
    .plan = reduce_vectorized_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
