/*
 * vectorized_plan.cu - how many leaves a block of reduce's vectorized kernel folds, and by
 * which loads.
 */
#include "cuda/common/l2_policy.h"
#include "cuda/reduce/plan.h"
#include "cuda/reduce/vectorized.h"

enum {
    PART =
        16, /* leaves of a longer output: with more, the last wave is long and mostly empty */
    TURN = 256,     /* elements that take as long as the rest of a block's work */
    LONG = 16 << 10 /* bytes of a row up to which a warp may have it alone */
};

template <typename M> static constexpr const vectorized_kernels *kernels_of =
    &vectorized_of<M>::kernels;
static const reduce_by_map<const vectorized_kernels *> kernels =
    REDUCE_BY_MAP(kernels_of, kernels_of<mean_map<uint32_t>>);

/* Blocks of a map that the device holds at once. */
static int64_t blocks_held(const gop_ctx *ctx, const vectorized_kernels &k)
{
    return k.blocks * (int64_t)ctx->info.processors;
}

/* Chooses a block's 2^across outputs for the least time: waves of blocks, times the leaves of a
 * warp, whole and last ones. */
static int across_of(const gop_reduction &g, const leaf_groups &groups, int64_t held)
{
    const int64_t length = groups.leaf < g.count ? groups.leaf : g.count;
    const int64_t tail = g.count - (groups.leaves - 1) * length;
    int64_t least = INT64_MAX;
    int across = 0;
    for (int a = 0; 1 << (groups.levels + a) <= GROUP; a++) {
        const int64_t turns = blocks_for(blocks_for(g.outputs, 1 << a), held);
        const int64_t whole = blocks_for((int64_t)(groups.leaves - 1) << a, TEAMS);
        const int64_t rounds = blocks_for((int64_t)groups.leaves << a, TEAMS);
        const int64_t cost = turns * (whole * length + (rounds - whole) * tail + TURN);
        if (cost >= least) continue;
        least = cost;
        across = a;
    }
    return across;
}

/* Outputs of up to GROUP leaves are finished in this launch if they fill all SMs. More blocks
 * than one wave are made persistent with equal shares; except for bytes, and for halves where
 * order does not matter, which have too few bytes in flight. */
template <typename A>
static vectorized_grid &plan_groups(const gop_ctx *ctx, const gop_task *task,
                                    const vectorized_kernels &k, int leaf, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    vectorized_launch<A> &own = *GOP_OWN(vectorized_launch<A>, plan);
    reduce_arguments(task, &own.r, plan);
    const int64_t leaves = leaf == LEAF ? own.r.leaves : 1;
    const int64_t busy = 4 * (int64_t)ctx->info.processors, held = blocks_held(ctx, k);
    const bool ends = leaves <= GROUP && 2 * g.outputs >= held;
    const int most = leaves <= GROUP ? (int)GROUP : PART;
    int span = 1;
    const float persisting = l2_persisting_share(ctx, g.outputs * g.count * k.item);
    leaf_groups &groups = own.groups = {0, 0, 1, leaf, 0, 0, persisting};
    for (;
         span < leaves && span < most &&
         (ends || span < TEAMS || leaves <= 2 * TEAMS || g.outputs * leaves >= 2 * span * busy);
         span *= 2)
        groups.levels++;
    groups.leaves = (int)(leaves < span ? leaves : span);
    own.r.leaves = blocks_for(leaves, span);
    plan->scratch = reduce_scratch(g, own.r.leaves);
    groups.subtrees = (int)(g.outputs * own.r.leaves);
    if (own.r.leaves == 1) groups.across = across_of(g, groups, held);
    const int64_t blocks = blocks_for(groups.subtrees, 1 << groups.across);
    groups.last = (int)(blocks - 1) << groups.across;
    const bool all_take_turns = k.item > (k.ordered ? 1 : 2);
    const int64_t turns = all_take_turns ? blocks_for(blocks, held) : 1;
    own.blocks = (unsigned)blocks_for(blocks, turns);
    return own;
}

/* Gives SHARED threads to each output of one leaf. */
static void share_rows(const gop_reduction &g, vectorized_grid &own)
{
    while (1 << own.groups.across < 32 * TEAMS / SHARED) own.groups.across++;
    own.blocks = (unsigned)blocks_for(g.outputs, 1 << own.groups.across);
    own.groups.last = (int)(own.blocks - 1) << own.groups.across;
}

/* Whether contiguous leaves are aligned to 16 bytes, and most of an output's are full. */
static bool are_whole(const gop_task *task, int item)
{
    const gop_reduction &g = task->geometry.reduction;
    int64_t bits = (int64_t)(uintptr_t)task->in[0].data;
    for (int d = 0; d < g.kept; d++) bits |= g.in[d] * (int64_t)item;
    return bits % 16 == 0 && (g.count % LEAF == 0 || g.count >= 8 * LEAF);
}

static gop_status plan_lines(const gop_ctx *ctx, const gop_task *task,
                             const vectorized_kernels &k, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const int last = g.kept + g.reduced - 1, least = k.lines[2].n;
    if (last >= LINED || (g.reduced > 1 && g.extent[last] < LINE) || g.outputs == 0 ||
        g.count == 0 || g.count > INT32_MAX - 2 * LEAF || g.outputs > INT32_MAX ||
        !reduce_divides(task, least, k.item))
        return gop_fail(
            GOP_REFUSED,
            "reduce: this kernel needs the elements of an output side by side, or in lines of "
            "%d and more, a multiple of %d; fewer than 2^31 along %d axes at most, and an "
            "array that is not empty",
            LINE, least, LINED);
    vectorized_grid &own = plan_groups<reduce_lined>(ctx, task, k, LEAF, plan);
    /* Their threads have fewer loads in flight: avoid a wave that is less than 90 % full. */
    if (10 * own.blocks < 9 * blocks_held(ctx, k))
        own.blocks = (unsigned)((own.groups.last >> own.groups.across) + 1);
    int way = 0;
    while (way < 2 && !reduce_divides(task, k.lines[way].n, k.item)) way++;
    const auto &line = k.lines[way];
    GOP_OWN(vectorized_launch<reduce_lined>, plan)->r.g.by[last] =
        make_fast_divisor(g.extent[last] / line.n);
    plan->launch = line.alone;
    if (k.shared && g.reduced == 1 && g.count / line.n <= 16 * SHARED) {
        share_rows(g, own);
        plan->launch = line.shared;
    }
    return GOP_OK;
}

gop_status reduce_vectorized_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const vectorized_kernels *const found = reduce_of_call(kernels, task);
    GOP_TRY(reduce_unmasked(task, found));
    const vectorized_kernels &k = *found;
    const gop_reduction &g = task->geometry.reduction;
    const int near = k.lines[1].n;
    const bool divided = reduce_divides(task, near, k.item);
    if (g.outputs > INT32_MAX / reduce_leaves(g))
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes up to 2^31 - 1 leaves");
    if (g.reduced > 1 || (g.reduced == 1 && g.count < LEAF && near > 1 && divided))
        return plan_lines(ctx, task, k, plan);
    GOP_TRY(reduce_in_order(task, true));
    const bool whole = are_whole(task, k.item);
    const bool row = !k.ordered && !whole && g.count > LEAF && g.count * k.item <= LONG &&
                     g.outputs >= 2 * TEAMS * blocks_held(ctx, k);
    vectorized_grid &own =
        plan_groups<reduce_brief>(ctx, task, k, row ? (int)g.count : (int)LEAF, plan);
    plan->launch = whole ? k.whole : k.unaligned;
    if (k.shared && g.count / near <= 16 * SHARED) {
        share_rows(g, own);
        plan->launch = k.shared;
    }
    return GOP_OK;
}
