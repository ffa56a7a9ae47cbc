/*
 * vectorized.cu - reduce: a warp to a leaf of the tree, 16 bytes a load. The launches of
 * vectorized_kernel.h, for every map.
 */
#include "cuda/reduce/by_map.h"
#include "cuda/reduce/root.h"
#include "cuda/reduce/vectorized_kernel.h"

template <typename M, typename A, int N, int W>
static gop_status reduce_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const vectorized_launch<A> &own = *GOP_OWN(const vectorized_launch<A>, task->plan);
    const A r = reduce_addressed(task, own.r);
    GOP_TRY(GOP_LAUNCH_FIRST(ctx, task, r.leaves > 1, (reduce_vectorized_kernel<M, A, N, W>),
                             dim3(own.blocks), dim3(TEAMS * 32), 0, r, own.groups));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

template <typename M> static constexpr vectorized_kernels kernels_of_map(void)
{
    enum {
        ITEM = sizeof(typename M::T),
        NEAR = lanes_of<typename M::T>::N,
        ALL = M::F::ORDERED ? NEAR : 16 / ITEM,
        LEAST = ITEM < 4 ? NEAR : 1 /* neighbours; a line may have any number of them */
    };
    vectorized_kernels k = {ITEM, M::F::ORDERED, vectorized_blocks<M, 32>()};
    k.unaligned = reduce_vectorized<M, reduce_brief, ANYWHERE, 32>;
    /* Long items are as fast at any address, positions of complex ones twice as fast. */
    if constexpr (ITEM < 8) k.whole = reduce_vectorized<M, reduce_brief, WHOLE, 32>;
    else k.whole = k.unaligned;
    k.lines[0] = {ALL, reduce_vectorized<M, reduce_lined, ALL, 32>};
    k.lines[1] = {NEAR, reduce_vectorized<M, reduce_lined, NEAR, 32>};
    k.lines[2] = {LEAST, reduce_vectorized<M, reduce_lined, LEAST, 32>};
    if constexpr (NEAR > 1 && !is_long<M>) {
        k.shared = reduce_vectorized<M, reduce_brief, ANYWHERE, SHARED>;
        k.lines[0].shared = reduce_vectorized<M, reduce_lined, ALL, SHARED>;
        k.lines[1].shared = reduce_vectorized<M, reduce_lined, NEAR, SHARED>;
    }
    return k;
}
template <typename M> static constexpr vectorized_kernels kernels = kernels_of_map<M>();
template <typename M> static constexpr const vectorized_kernels *kernels_of = &kernels<M>;

extern const reduce_by_map<const vectorized_kernels *> reduce_vectorized_kernels;
const reduce_by_map<const vectorized_kernels *> reduce_vectorized_kernels =
    REDUCE_BY_MAP(kernels_of, kernels_of<mean_map<uint32_t>>);

extern const gop_row reduce_vectorized_row = {
    .name = "vectorized",
    .note = "16 bytes a load, and a block folds up to 64 leaves before it writes",
    .role = GOP_CONFORMING,
    .plan = reduce_vectorized_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
