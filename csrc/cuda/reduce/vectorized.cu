/*
 * vectorized.cu - reduce: a warp to a leaf of the tree, 16 bytes a load.
 *
 * The tree's neighbouring lanes are neighbours in memory, so a thread may load 16 bytes of them
 * at once: a quarter of the load instructions for the same bytes in flight. And a block folds
 * up to 64 leaves before it writes.
 */
#include "cuda/reduce/maps.h"

enum {
    GROUP = 64, /* leaves of an output that a block folds at most */
    PART = 16   /* leaves of a longer output: with more, the last blocks run long alone */
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

/* Blocks that a processor should hold: as registers allow without going to memory. */
template <typename M> constexpr int vectorized_blocks()
{
    if (sizeof(typename M::F::acc) > 8 && sizeof(typename M::T) > 8) return 2;
    return sizeof(typename M::F::acc) > 8 || sizeof(typename M::T) == 8 ? 3 : 4;
}

/* Warps take a leaf each until the block has `slots`; then they fold a subtree each. */
template <typename M> __global__ void __launch_bounds__(TEAMS * 32, vectorized_blocks<M>())
    reduce_vectorized_kernel(const __grid_constant__ reduce_brief r, leaf_groups groups)
{
    typedef typename M::F F;
    __shared__ typename F::acc node[GROUP];
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int span = 1 << groups.levels, per_block = groups.slots >> groups.levels;
    const int64_t first = blockIdx.x * (int64_t)per_block;
    const int64_t o = first / r.leaves, part = first - o * r.leaves;
    for (int l = warp; l < groups.slots; l += TEAMS) {
        const int q = l >> groups.levels;
        const int64_t leaf = part * span + (l & (span - 1));
        typename F::acc value = F::none();
        if (first + q < groups.subtrees && leaf * LEAF < r.g.count)
            value = vectorized_leaf<M>(r, o + q, leaf, t);
        if (t == 0) node[l] = value;
    }
    __syncthreads();
    if (warp >= per_block || first + warp >= groups.subtrees) return;
    const typename F::acc root =
        fold_nodes<F>(node + (warp << groups.levels), groups.levels, t);
    if (t == 0) conclude(r, o + warp, part, root);
}

struct vectorized_launch {
    reduce_brief r;
    leaf_groups groups;
    unsigned blocks;
};

template <typename M>
static gop_status reduce_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const vectorized_launch &own = *GOP_OWN(const vectorized_launch, task->plan);
    const reduce_brief r = reduce_addressed(task, own.r);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, r.leaves > 1, reduce_vectorized_kernel<M>,
                                dim3(own.blocks), dim3(TEAMS * 32), 0, r, own.groups));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

static const reduce_by_map<gop_launch> launches = REDUCE_BY_MAP(reduce_vectorized);

static gop_status reduce_vectorized_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    vectorized_launch &own = *GOP_OWN(vectorized_launch, plan);
    plan->launch = reduce_of_call(launches, task);
    GOP_TRY(reduce_in_order(task, plan->launch));
    if (g.count <= LANES && g.outputs > FEW)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs more than %d elements to an output where "
                        "there are more than %d outputs, got %lld",
                        LANES, FEW, (long long)g.count);
    reduce_arguments(task, &own.r, plan);
    int span = 1;
    own.groups = {0, TEAMS, 0};
    /* Outputs of GROUP leaves end in this launch. */
    for (; span < (own.r.leaves <= GROUP ? own.r.leaves : PART); span *= 2) own.groups.levels++;
    own.r.leaves = blocks_for(own.r.leaves, span);
    if (own.groups.slots < span) own.groups.slots = span;
    own.groups.subtrees = g.outputs * own.r.leaves;
    own.blocks = (unsigned)blocks_for(own.groups.subtrees, own.groups.slots / span);
    return GOP_OK;
}

extern const gop_row reduce_vectorized_row = {
    .name = "vectorized",
    .note = "16 bytes a load, and a block folds up to 64 leaves before it writes",
    .role = GOP_CONFORMING,
    .plan = reduce_vectorized_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
