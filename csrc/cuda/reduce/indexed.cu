/*
 * indexed.cu - reduce: any axes, by a table of where elements lie.
 *
 * A block tables the offsets of a leaf's elements once; an element of any of its leaves then
 * costs a load from shared memory, where `tree` divides by the extent of every axis. The number
 * of cache lines that a warp would touch decides whether neighbouring threads share an output
 * or have neighbouring outputs.
 */
#include <string.h>

#include "cuda/reduce/nodes.h"
#include "cuda/reduce/places.h"
#include "cuda/reduce/root.h"
#include "cuda/common/l2_policy.h"

enum {
    INDEXED = 512, /* threads of a block: the more, the fewer tables */
    WARPS = INDEXED / 32,
    BUSY_WARPS = 16, /* of an SM: with fewer, latency is not hidden */
    ASIDE = 32       /* bytes of a thread: as long as finding a leaf, and folding it, takes */
};

/* How a block's threads share its work. `wide` threads of a warp share an output, and so do the
 * `high` warps of a team. Together these are the classes of an output's elements: class c has
 * the lanes c, c + classes, .. below `lanes`, for which there are elements. Teams take items: a
 * leaf of the group of outputs that a team has at once, `inner` groups after each other; or, if
 * a team has one output, all leaves of an output, 2^levels of which fold in the block. */
struct indexed_shape {
    places at;
    int wide, high, lanes, levels;
    fast_divisor inner;
    uint32_t items;
    int reverse;
};

/* Adds elements k, k + apart, .. of KEEP lanes, and again those LANES later, AHEAD in all; if
 * not WHOLE, only those from `begin` to `end`. */
template <typename M, bool MASKED, bool WHOLE, int AHEAD, int KEEP, typename ACC>
GOP_DEVICE void add_indexed(const typename M::T *a, const uint8_t *where, const uint32_t *place,
                            const uint32_t *mask_place, int k, int apart, int begin, int end,
                            int key_flags, ACC *acc)
{
    enum { AGAIN = !WHOLE && !MASKED && reading<typename M::T>::ALWAYS };
    typename M::T v[AHEAD];
    bool in[AHEAD];
#pragma unroll
    for (int b = 0; b < AHEAD; b++) {
        const int at = k + b / KEEP * LANES + b % KEEP * apart;
        in[b] = WHOLE || (at >= begin && at < end);
        const int there = in[b] ? at : begin;
        if (AGAIN || in[b]) v[b] = a[place[there]];
        if (MASKED && in[b]) in[b] = where[mask_place[at]];
    }
#pragma unroll
    for (int b = 0; b < AHEAD; b++)
        if (in[b])
            gather_of<M>::add(acc[M::F::ORDERED ? b % KEEP : 0], v[b],
                              k + b / KEEP * LANES + b % KEEP * apart, key_flags);
}

/* The same for elements [row, row + rows), before and after the place where the table wraps; a
 * few at a time if not all exist. */
template <typename M, bool MASKED, int AHEAD, int KEEP, typename ACC>
GOP_DEVICE void add_rows(const placed_leaf<typename M::T> &l, int row, int rows, int k,
                         int apart, int key_flags, ACC *acc)
{
    enum {
        ORDERED = M::F::ORDERED,
        SOME = AHEAD < 8 ? AHEAD : 8,
        PART = ORDERED ? KEEP : SOME
    };
    const int step = ORDERED ? SOME / KEEP * LANES : SOME * apart;
    const bool turned = row >= l.turn;
    const typename M::T *a = turned ? l.a + l.jump : l.a;
    const uint8_t *where = turned ? l.where + l.mask_jump : l.where;
    int shift = turned ? -l.turn : l.first, begin = turned ? l.turn : 0,
        end = turned ? l.n : l.turn;
#pragma unroll 1
    for (;;) {
        const uint32_t *place = l.place + shift, *mask_place = l.mask_place + shift;
        if (begin <= row && row + rows <= end)
            add_indexed<M, MASKED, true, AHEAD, KEEP>(a, where, place, mask_place, k,
                                                      ORDERED ? LANES / KEEP : apart, begin,
                                                      end, key_flags, acc);
        else
#pragma unroll 1
            for (int more = 0; more < rows && row + more < end; more += step)
                if (!ORDERED && begin <= row + more && row + more + step <= end)
                    add_indexed<M, MASKED, true, SOME, PART>(a, where, place, mask_place,
                                                             k + more, apart, begin, end,
                                                             key_flags, acc);
                else
                    add_indexed<M, MASKED, false, SOME, PART>(a, where, place, mask_place,
                                                              k + more, apart, begin, end,
                                                              key_flags, acc);
        if (row + rows <= end || end == l.n) break;
        a = l.a + l.jump;
        where = l.where + l.mask_jump;
        shift = -l.turn;
        begin = l.turn;
        end = l.n;
    }
}

/* Adds the lanes of a class, KEEP at a time, in the order in which they fold; if order does not
 * matter, all at once. */
template <typename M, bool MASKED, int KEEP>
GOP_DEVICE typename M::F::acc fold_class(const placed_leaf<typename M::T> &l, int c,
                                         int classes, int lanes, int64_t k0, int key_flags)
{
    typedef typename M::F F;
    enum { AHEAD = MASKED || sizeof(typename M::T) > 4 ? 8 : 16 };
    const uint32_t *const place = l.place + l.first, *const mask_place = l.mask_place + l.first;
    if constexpr (!F::ORDERED) {
        enum { FEW = 2 };
        typename gather_of<M>::acc acc = gather_of<M>::none();
        if (l.n <= FEW * classes && l.turn == l.n)
            add_indexed<M, MASKED, false, FEW, FEW>(l.a, l.where, place, mask_place, c, classes,
                                                    0, l.n, key_flags, &acc);
        else
#pragma unroll 1
            for (int row = 0; row < l.n; row += AHEAD * classes)
                add_rows<M, MASKED, AHEAD, AHEAD>(l, row, AHEAD * classes, row + c, classes,
                                                  key_flags, &acc);
        return gather_of<M>::root(acc, k0, key_flags);
    } else {
        enum { ROWS = AHEAD / KEEP * LANES, LEVELS = KEEP <= 4 ? 0 : 4 };
        const int apart = lanes / KEEP;
        const bool one_each = l.n <= LANES && l.turn == l.n; /* to a lane */
        typename F::acc waiting[LEVELS + 1][1], value[1] = {F::none()};
        const int turns = lanes / classes / KEEP;
#pragma unroll 1
        for (int t = 0; t < (LEVELS == 0 ? 1 : turns); t++) {
            typename F::acc acc[KEEP];
#pragma unroll
            for (int i = 0; i < KEEP; i++) acc[i] = F::none();
            const int first = c + group_of_turn(t, turns) * classes;
            if (one_each)
                add_indexed<M, MASKED, false, KEEP, KEEP>(l.a, l.where, place, mask_place,
                                                          first, apart, 0, l.n, key_flags, acc);
            else
#pragma unroll 1
                for (int row = 0; row < l.n; row += ROWS)
                    add_rows<M, MASKED, AHEAD, KEEP>(l, row, ROWS, row + first, apart,
                                                     key_flags, acc);
            fold_own<F, KEEP>(acc);
            value[0] = acc[0];
            fold_turns<F, LEVELS>(t, waiting, value);
        }
        return value[0];
    }
}

/* Blocks that an SM should hold: as registers allow. */
template <typename M> static constexpr int indexed_blocks()
{
    const int item = sizeof(typename M::T),
              acc = M::F::ORDERED ? sizeof(typename M::F::acc) : 0;
    return acc > 8 || item > 8 ? 1 : 2;
}

/* The output, or the first of several, and the leaf of an item. */
GOP_DEVICE uint32_t output_of(const indexed_shape &p, uint32_t item, uint32_t *leaf)
{
    const uint32_t outer = quotient(item, p.inner), inner = item - outer * p.inner.d;
    *leaf = p.wide == 32 ? inner : outer;
    return p.wide == 32 ? outer : inner * (32 / p.wide);
}

template <typename M, bool MASKED, int KEEP>
__global__ void __launch_bounds__(INDEXED, indexed_blocks<M>())
    reduce_indexed_kernel(const __grid_constant__ reduce_placed r,
                          const __grid_constant__ indexed_shape p)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    extern __shared__ uint4 storage[];
    __shared__ R shared[INDEXED];
    uint32_t *const place = reinterpret_cast<uint32_t *>(storage);
    fill_places<MASKED, INDEXED>(r.g, p.at, place);
    grid_dependency_sync();
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp % p.high;
    const uint32_t teams = WARPS / p.high;
    const uint32_t last = (p.items - 1) / teams * teams;
    for (uint32_t begin = blockIdx.x * teams; begin < p.items; begin += gridDim.x * teams) {
        const uint32_t first = p.reverse ? last - begin : begin, item = first + warp / p.high;
        uint32_t leaf, o = output_of(p, item, &leaf) + t / p.wide;
        const bool any = item < p.items && o < r.g.outputs && (int)leaf < p.at.leaves;
        R value = F::none();
        if (any)
            value = fold_class<M, MASKED, KEEP>(leaf_at<M, MASKED>(r, p.at, place, o, leaf),
                                                row * p.wide + t % p.wide, p.wide * p.high,
                                                p.lanes, leaf * (int64_t)LEAF, r.key_flags);
        if (p.high > 1) {
            __syncthreads();
            shared[threadIdx.x] = value;
            for (int d = p.high / 2; d > 0; d /= 2) {
                __syncthreads();
                if (row < d)
                    shared[threadIdx.x] =
                        F::fold(shared[threadIdx.x], shared[threadIdx.x + d * 32]);
            }
            value = shared[threadIdx.x];
        }
        for (int d = p.wide / 2; d > 0; d /= 2)
            value = F::fold(value, shuffle_down(value, d, p.wide));
        bool ends = any && row == 0 && t % p.wide == 0;
        if (p.levels > 0) {
            __syncthreads();
            if (row == 0 && t == 0) shared[warp / p.high] = value;
            __syncthreads();
            const uint32_t at = first + (warp << p.levels);
            ends = warp < (int)teams >> p.levels && at < p.items;
            if (ends) {
                value = fold_nodes<F>(shared + (warp << p.levels), p.levels, t);
                o = output_of(p, at, &leaf);
            }
            ends = ends && t == 0;
        }
        if (ends) conclude(r, o, leaf >> p.levels, value);
    }
}

/* ---- the plan ---- */

struct indexed_launch {
    reduce_placed r;
    indexed_shape shape;
    unsigned blocks;
    bool alternates;
};

template <typename M, bool MASKED, int KEEP>
static gop_status reduce_indexed(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const indexed_launch &own = *GOP_OWN(const indexed_launch, task->plan);
    reduce_placed r = reduce_addressed(task, own.r);
    if (MASKED) r.where = static_cast<const uint8_t *>(task->in[1].data);
    indexed_shape shape = own.shape;
    shape.reverse = own.alternates ? l2_reverse<GOP_OP_reduce>() : 0;
    const places &at = shape.at;
    GOP_TRY(GOP_LAUNCH_FIRST(ctx, task, r.leaves > 1, (reduce_indexed_kernel<M, MASKED, KEEP>),
                             dim3(own.blocks), dim3(INDEXED),
                             sizeof(uint32_t) * at.entries * (at.apart ? 2 : 1), r, shape));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

/* Where order matters, a thread has one, two, four, or eight and more lanes of the leaf. */
template <typename M, bool MASKED>
static gop_status reduce_indexed_by_lanes(gop_ctx *ctx, const gop_task *task, int64_t done)
{
    const indexed_shape &p = GOP_OWN(const indexed_launch, task->plan)->shape;
    const int lanes = p.lanes / (p.wide * p.high);
    if constexpr (M::F::ORDERED) {
        if (lanes == 1) return reduce_indexed<M, MASKED, 1>(ctx, task, done);
        if (lanes == 2) return reduce_indexed<M, MASKED, 2>(ctx, task, done);
        if (lanes > 4) return reduce_indexed<M, MASKED, 8>(ctx, task, done);
    }
    return reduce_indexed<M, MASKED, 4>(ctx, task, done);
}
template <typename M> static constexpr gop_launch unmasked_launch =
    reduce_indexed_by_lanes<M, false>;

/* Masked means are left to `tree`. */
template <typename M> static constexpr gop_launch launch_with_mask()
{
    if constexpr (is_plain<M> || is_mean<M>) return nullptr;
    else return reduce_indexed_by_lanes<M, true>;
}
template <typename M> static constexpr gop_launch masked_launch = launch_with_mask<M>();

static const reduce_by_map<gop_launch> plain = REDUCE_BY_MAP(unmasked_launch, nullptr),
                                       masked = REDUCE_BY_MAP(masked_launch, nullptr);

typedef int (*indexed_count)();
static const reduce_by_map<indexed_count> blocks_of = REDUCE_BY_MAP(indexed_blocks, nullptr);

/* How many of an output's leaves, as a power of two, fold in a block of so many teams: all, or
 * so many that few teams idle. */
static int levels_of(int leaves, int teams)
{
    int levels = 0;
    while (1 << levels < leaves && 2 << levels <= teams) levels++;
    return leaves <= 1 << levels || leaves >= 8 << levels ? levels : 0;
}

/* Chooses the warps of a team for the least time: waves times a thread's work. But the leaves
 * of an output that fit into a block stay there. */
static void plan_teams(const gop_reduction &g, int64_t item, int64_t held, int64_t groups,
                       indexed_shape *p)
{
    const int leaves = p->at.leaves;
    const int64_t n = g.count < LEAF ? g.count : LEAF;
    int64_t least = -1;
    for (int high = 1; high <= WARPS && high * p->wide <= p->lanes; high *= 2) {
        const int levels = p->wide == 32 ? levels_of(leaves, WARPS / high) : 0;
        if (high > 1 && leaves > 1 << levels && leaves <= 1 << p->levels) return;
        const int64_t turns = blocks_for(groups * leaves * high, held);
        const int64_t cost = turns * (blocks_for(n, p->wide * high) * item + ASIDE);
        if (least >= 0 && cost >= least) continue;
        least = cost;
        p->high = high;
        p->levels = levels;
    }
}

static gop_status reduce_indexed_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    indexed_launch &own = *GOP_OWN(indexed_launch, plan);
    indexed_shape &p = own.shape;
    plan->launch = reduce_of_call(params.has_where ? masked : plain, task);
    const bool counts = params.op == GOP_MEAN && params.has_where;
    bool takes = plan->launch && !counts && g.count > 0 && g.outputs > 0 &&
                 g.outputs <= INT32_MAX && g.count <= INT32_MAX - LEAF &&
                 g.kept + g.reduced < AXES + (g.reduced > 0);
    if (takes) {
        memset(&own, 0,
               sizeof own); /* unused fields too: equal arguments must be equal bytes */
        reduce_arguments(task, &own.r, plan);
        takes = plan_places(own.r.g, (int)own.r.leaves, &p.at);
    }
    if (!takes)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel takes no products, sums of squares, masked means "
                        "and masked sums of complex128, %d axes at most that do not merge, and "
                        "fewer than 2^31 outputs and elements of each, those of a leaf as "
                        "near to each other",
                        AXES);
    for (p.lanes = 1; p.lanes < LANES && p.lanes < g.count;) p.lanes *= 2;
    p.wide = wide_of(g, (int)item_of(task), p.lanes);
    const int64_t leaves = own.r.leaves, enough = BUSY_WARPS * (int64_t)ctx->info.processors;
    while (blocks_for(g.outputs, 32 / p.wide) * leaves * WARPS < enough &&
           2 * p.wide * WARPS <= p.lanes)
        p.wide *= 2; /* more teams, of as many warps as a block has */
    const int64_t groups = blocks_for(g.outputs, 32 / p.wide);
    const int64_t blocks = (int64_t)ctx->info.processors * reduce_of_call(blocks_of, task)();
    plan_teams(g, item_of(task), blocks * WARPS, groups, &p);
    own.r.leaves = blocks_for(leaves, 1 << p.levels);
    plan->scratch = reduce_scratch(g, own.r.leaves);
    const int64_t inner = p.wide == 32 ? own.r.leaves << p.levels : groups;
    const int64_t items = p.wide == 32 ? groups * inner : groups * leaves;
    if (items > INT32_MAX)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes up to 2^31 - 1 leaves");
    p.inner = make_fast_divisor(inner);
    p.items = (uint32_t)items;
    const int64_t all = blocks_for(items, WARPS / p.high);
    own.blocks = (unsigned)(all < blocks ? all : blocks);
    own.alternates = reduce_exceeds_l2(ctx, task);
    return GOP_OK;
}

extern const gop_row reduce_indexed_row = {
    .name = "indexed",
    .note = "any axes: where elements lie is found once a block, for all of its leaves, and "
            "neighbours in a warp are what is near in memory",
    .role = GOP_CONFORMING,
    .plan = reduce_indexed_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
