/*
 * thin.cu - reduce: a few columns, row upon row.
 *
 * A row is shorter than a line of the cache, but rows follow each other: a block reads a leaf
 * of all columns as one line of elements, four at a time to a thread. Rows 128 apart meet in a
 * thread; then the lanes of a column do, in shared memory.
 */
#include "cuda/reduce/maps.h"

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
                for (int i = 0; i < V::N; i++) G::add(acc[i], v.at[i], j * LANES, r.key_flags);
            }
        else
#pragma unroll 1
            for (int j = 0; j < LEAF / LANES; j++)
#pragma unroll
                for (int i = 0; i < V::N; i++) {
                    const int e = (j * pieces + p) * V::N + i;
                    if (e < n) G::add(acc[i], a[e], j * LANES, r.key_flags);
                }
#pragma unroll
        for (int i = 0; i < V::N; i++) {
            const int e = p * V::N + i;
            lane[e] = G::root(acc[i], k0 + e / columns, r.key_flags);
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

struct thin_launch {
    reduce_args r;
    int threads;
    size_t shared;
};

template <typename M> static gop_status reduce_thin(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const thin_launch &own = *GOP_OWN(const thin_launch, task->plan);
    const reduce_args r = reduce_addressed(task, own.r);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, r.leaves > 1, reduce_thin_kernel<M>,
                                dim3((unsigned)r.leaves), dim3(own.threads), own.shared, r));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

template <typename M> static gop_status plan_of_map(const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    thin_launch &own = *GOP_OWN(thin_launch, plan);
    const int64_t bytes = g.outputs * LANES * (int)sizeof(typename M::F::acc);
    if (bytes > 48 * 1024)
        return gop_fail(
            GOP_REFUSED,
            "reduce: this kernel takes as many columns as fit into 48 KiB of shared "
            "memory, %d accumulators of each; got %lld",
            LANES, (long long)g.outputs);
    reduce_arguments(task, &own.r, plan);
    const int pieces = LANES * (int)g.outputs / lanes_of<typename M::T>::N;
    own.threads = pieces < 256 ? pieces : 256;
    own.shared = (size_t)bytes;
    plan->launch = reduce_thin<M>;
    return GOP_OK;
}

static const reduce_by_map<reduce_map_plan> plans = REDUCE_BY_MAP(plan_of_map);

static gop_status reduce_thin_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const reduce_map_plan plan_it = reduce_of_call(plans, task);
    GOP_TRY(reduce_plain(task, plan_it));
    if (g.kept != 1 || g.reduced != 1 || g.in[0] != 1 || g.in[1] != g.outputs ||
        g.count < LANES || (uintptr_t)task->in[0].data % 16 != 0)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs rows that follow each other without a gap, "
                        "from an address that is a multiple of 16, at least %d of them",
                        LANES);
    return plan_it(task, plan);
}

extern const gop_row reduce_thin_row = {
    .name = "thin",
    .note = "few columns: rows that follow each other are read as one line, and columns are "
            "told apart "
            "when lanes meet",
    .role = GOP_CONFORMING,
    .plan = reduce_thin_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
