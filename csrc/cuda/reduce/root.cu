/*
 * root.cu - folds the leaves of an output, neighbours first, to its root.
 *
 * A thread folds 32 bytes of neighbours, then a warp what its threads have, then a block what
 * its warps have. Where one warp is enough for an output a block has eight outputs.
 */
#include "cuda/reduce/nodes.h"
#include "cuda/reduce/plan.h"
#include "cuda/reduce/root.h"

template <typename F> constexpr int leaves_of_thread = SLOT / sizeof(typename F::acc);

template <typename F, typename G> __global__ void __launch_bounds__(1024)
    reduce_tree_leaves_kernel(const __grid_constant__ reduce_args_of<G> r,
                              const typename F::acc *leaf, int64_t leaves, int warps)
{
    typedef typename F::acc R;
    enum { OWN = leaves_of_thread<F> };
    __shared__ R node[32];
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool together = warps > 1;
    const int64_t item = together ? blockIdx.x : blockIdx.x * (int64_t)(blockDim.x / 32) + warp;
    const int64_t o = r.leaves == 1 ? item : item / r.leaves; /* r.leaves: after this fold */
    const int64_t part = item - o * r.leaves;
    const int64_t from = ((together ? part * warps + warp : part) * 32 + t) * OWN;
    const int64_t left = item < r.g.outputs * r.leaves ? leaves - from : 0;
    const int n = left < OWN ? (int)left : OWN;
    const R *own = leaf + o * leaves + from;
    R value[OWN];
    grid_dependency_sync();
#pragma unroll
    for (int i = 0; i < OWN; i++) value[i] = i < n ? own[i] : F::none();
    fold_neighbours<F, OWN>(value);
    R mine = value[0];
    for (int d = 1; d < 32; d *= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
    if (together) {
        if (t == 0) node[warp] = mine;
        __syncthreads();
        if (warp > 0) return;
        mine = t < warps ? node[t] : F::none();
        for (int d = 1; d < 32; d *= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
    }
    if (t == 0 && n > 0) conclude(r, o, part, mine);
}

template <typename F, typename G>
static gop_status fold_leaves(gop_ctx *ctx, reduce_args_of<G> r)
{
    enum { OF_WARP = 32 * leaves_of_thread<F> };
    char *const scratch[2] = {(char *)r.partial,
                              (char *)r.partial + r.g.outputs * r.leaves * SLOT};
    for (int from = 0; r.leaves > 1; from ^= 1) {
        const int64_t leaves = r.leaves;
        const int warps = leaves < 32 * OF_WARP ? (int)blocks_for(leaves, OF_WARP) : 32;
        r.leaves = blocks_for(leaves, warps * OF_WARP);
        r.partial = scratch[from ^ 1];
        const int64_t items = r.g.outputs * r.leaves;
        GOP_TRY(GOP_LAUNCH_EARLY(ctx, (reduce_tree_leaves_kernel<F, G>),
                                 dim3((unsigned)blocks_for(items, warps == 1 ? 8 : 1)),
                                 dim3(warps == 1 ? 256 : 32 * warps), 0, r,
                                 (const typename F::acc *)scratch[from], leaves, warps));
    }
    return GOP_OK;
}

template <typename To, typename From> static reduce_args_of<To> with_axes(const From &r)
{
    reduce_args_of<To> to;
    static_cast<reduce_operands &>(to) = r;
    reduce_copy_axes(r.g, &to.g);
    return to;
}

template <typename F, typename G>
gop_status reduce_fold_leaves(gop_ctx *ctx, reduce_args_of<G> r)
{
    typedef reduce_axes<BRIEF> few;
    if constexpr (std::is_same<G, gop_reduction>::value || std::is_same<G, few>::value)
        return fold_leaves<F, G>(ctx, r);
    else if (r.leaves == 1) return GOP_OK;
    else if (r.g.kept + r.g.reduced <= BRIEF)
        return fold_leaves<F, few>(ctx, with_axes<few>(r));
    else return fold_leaves<F, gop_reduction>(ctx, with_axes<gop_reduction>(r));
}

/* Instances for each fold and each kind of arguments. */
/* clang-format off */
#define FOLDED(F, G) template gop_status reduce_fold_leaves<F, G>(gop_ctx *, reduce_args_of<G>);
#define FOLDS(G) \
    FOLDED(sum_fold<float>, G) FOLDED(sum_fold<double>, G) FOLDED(sum_fold<uint64_t>, G) \
    FOLDED(sum_fold<complex64>, G) FOLDED(sum_fold<complex128>, G) \
    FOLDED(min_fold<int32_t>, G) FOLDED(min_fold<int64_t>, G) \
    FOLDED(min_fold<code<uint32_t>>, G) FOLDED(min_fold<code<uint64_t>>, G) \
    FOLDED(best_fold<int64_t>, G) FOLDED(best_fold<key64>, G) FOLDED(best_fold<key128>, G) \
    FOLDED(prod_fold<float>, G) FOLDED(prod_fold<double>, G)
FOLDS(gop_reduction) FOLDS(reduce_axes<BRIEF>) FOLDS(reduce_lines) FOLDS(placed_axes)
FOLDED(prod_fold<complex64>, gop_reduction) FOLDED(prod_fold<complex128>, gop_reduction)
FOLDED(prod_fold<uint64_t>, gop_reduction)
    /* clang-format on */
