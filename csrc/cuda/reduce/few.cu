/*
 * few.cu - reduce: a thread to a lane of the tree, where leaves are few.
 *
 * If there are too few leaves to fill the device with a warp each, latency counts: all loads
 * must be in flight soon. So a leaf, at any address, has as many threads as lanes, and each has
 * sixteen loads in flight. A block has a subtree of `span` leaves.
 */
#include "cuda/reduce/plan.h"
#include "cuda/reduce/root.h"

template <typename M> __global__ void __launch_bounds__(TEAMS *LANES)
    reduce_few_kernel(const __grid_constant__ reduce_brief r, int span)
{
    typedef typename M::T T;
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { ROWS = LEAF / LANES, AHEAD = sizeof(T) > 8 ? ROWS / 2 : ROWS };
    __shared__ R lane[TEAMS][LANES], node[TEAMS];
    const int t = threadIdx.x % LANES, l = threadIdx.x / LANES;
    const int64_t o = blockIdx.y, part = blockIdx.x;
    const int64_t k0 = (part * span + l) * LEAF + t;
    const int left = (int)(r.g.count - k0 < LEAF ? r.g.count - k0 : LEAF);
    const T *const begin = static_cast<const T *>(r.a) + place_of(r.g, 0, r.g.kept, o).in;
    const T *const a = begin + k0;
    R mine = F::none();
#pragma unroll
    for (int from = 0; from < ROWS; from += AHEAD) {
        T v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (const int at = (from + j) * LANES; reading<T>::ALWAYS || at < left)
                v[j] = *(at < left ? a + at : begin);
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if ((from + j) * LANES < left)
                mine = F::fold(mine, M::of(v[j], k0 + (from + j) * LANES, r.key_flags));
    }
    if (t >= 32) lane[l][t] = mine;
    __syncthreads();
    if (t < 32) {
        mine =
            F::fold(F::fold(mine, lane[l][64 + t]), F::fold(lane[l][32 + t], lane[l][96 + t]));
        for (int d = 16; d > 0; d /= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
        if (t == 0) node[l] = mine;
    }
    if (span > 1) {
        __syncthreads();
        if (threadIdx.x < 32) {
            mine = t < span ? node[t] : F::none();
            for (int d = 1; d < span; d *= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
        }
    }
    if (threadIdx.x == 0) conclude(r, o, part, mine);
}

/* For at most one element to a lane: a warp to an output. It is a kernel of its own because a
 * short kernel waits mostly for its instructions to be fetched. */
template <typename M> __global__ void __launch_bounds__(32)
    reduce_lanes_kernel(const __grid_constant__ reduce_brief r)
{
    typedef typename M::T T;
    typedef typename M::F F;
    enum { ROWS = LANES / 32 };
    const int t = threadIdx.x, left = (int)r.g.count - t;
    const int64_t o = blockIdx.x;
    const T *const begin = static_cast<const T *>(r.a) + place_of(r.g, 0, r.g.kept, o).in;
    T v[ROWS];
    typename F::acc lane[ROWS];
#pragma unroll
    for (int j = 0; j < ROWS; j++)
        if (reading<T>::ALWAYS || j * 32 < left) v[j] = begin[j * 32 < left ? t + j * 32 : 0];
#pragma unroll
    for (int j = 0; j < ROWS; j++)
        lane[j] = j * 32 < left ? F::fold(F::none(), M::of(v[j], t + j * 32, r.key_flags))
                                : F::none();
    fold_own<F, ROWS>(lane);
    for (int d = 16; d > 0; d /= 2) lane[0] = F::fold(lane[0], shuffle_down(lane[0], d, 32));
    if (t == 0) finish(r, o, lane[0]);
}

struct few_launch {
    reduce_brief r;
    int span;
};

template <typename M>
static gop_status reduce_few_lanes(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const reduce_brief r = reduce_addressed(task, GOP_OWN(const few_launch, task->plan)->r);
    return GOP_LAUNCH(ctx, reduce_lanes_kernel<M>, dim3((unsigned)r.g.outputs), dim3(32), 0, r);
}

template <typename M> static gop_status reduce_few(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const few_launch &own = *GOP_OWN(const few_launch, task->plan);
    const reduce_brief r = reduce_addressed(task, own.r);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, r.leaves > 1, reduce_few_kernel<M>,
                                dim3((unsigned)r.leaves, (unsigned)r.g.outputs),
                                dim3(own.span * LANES), 0, r, own.span));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

static const reduce_by_map<gop_launch> by_leaf = REDUCE_BY_MAP(reduce_few, nullptr),
                                       by_lane = REDUCE_BY_MAP(reduce_few_lanes, nullptr);

static gop_status reduce_few_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    few_launch &own = *GOP_OWN(few_launch, plan);
    plan->launch = reduce_of_call(g.count <= LANES ? by_lane : by_leaf, task);
    GOP_TRY(reduce_in_order(task, plan->launch));
    reduce_arguments(task, &own.r, plan);
    const int64_t leaves = g.outputs * own.r.leaves;
    if (leaves > FEW)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel takes at most %d leaves of %d elements, got %lld",
                        FEW, LEAF, (long long)leaves);
    own.span = 1;
    if (own.r.leaves <= TEAMS) /* outputs end in this launch */
        while (own.span < own.r.leaves) own.span *= 2;
    own.r.leaves = blocks_for(own.r.leaves, own.span);
    return GOP_OK;
}

extern const gop_row reduce_few_row = {
    .name = "few",
    .note = "a thread to a lane where leaves are few: all loads are under way at once, and up "
            "to eight leaves end in one launch",
    .role = GOP_CONFORMING,
    .plan = reduce_few_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
