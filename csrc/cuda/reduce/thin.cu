/*
 * thin.cu - reduce: a few columns, in contiguous rows.
 *
 * A row is shorter than a cache line, but rows follow each other, at least within each matrix:
 * a block reads a leaf of all columns as one run of elements, four at a time to a thread. Rows
 * 128 apart fold in a thread, then the lanes of a column in shared memory. If leaves are few, a
 * block has a part of one: every parts-th lane, which fold with each other first; or, where
 * order does not matter, neighbouring rows. Parts fold as leaves do, as neighbours, so the
 * first lane of part i is i with its bits reversed.
 */
#include "cuda/reduce/neighbours.h"
#include "cuda/reduce/plan.h"
#include "cuda/reduce/root.h"

enum { SECTOR = 32 /* bytes that are read at once */ };

template <typename M> __global__ void __launch_bounds__(256)
    reduce_thin_kernel(reduce_args r, int levels)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    typedef gather_of<M> G;
    typedef lanes_of<typename M::T> V;
    enum { ROWS = LEAF / LANES };
    extern __shared__ uint4 storage[];
    R *const lane = reinterpret_cast<R *>(storage); /* of column c: lane[l * columns + c] */
    const unsigned matrix = blockIdx.x / (unsigned)r.leaves;
    const unsigned leaf = blockIdx.x - matrix * (unsigned)r.leaves;
    const int part = (int)(leaf & ((1u << levels) - 1)), lanes = LANES >> levels;
    const int columns = (int)r.g.extent[r.g.kept - 1], pieces = lanes * columns / V::N;
    const bool apart = F::ORDERED && levels > 0;
    /* Lane l has the rows first + l * near + j * far. */
    const int near = apart ? 1 << levels : 1, far = apart ? (int)LANES : lanes;
    int first = apart ? 0 : part * (lanes * ROWS);
    for (int l = 0; apart && l < levels; l++) first = 2 * first + (part >> l & 1);
    const int64_t k0 = (int64_t)(leaf >> levels) * LEAF, left = r.g.count - k0;
    const bool whole = left >= LEAF && (!apart || columns % V::N == 0);
    const typename M::T *a = static_cast<const typename M::T *>(r.a) + k0 * columns +
                             place_of(r.g, 0, r.g.kept - 1, matrix).in;
    grid_dependency_sync();
    for (int p = threadIdx.x; p < pieces; p += blockDim.x) {
        typename G::acc acc[V::N];
#pragma unroll
        for (int i = 0; i < V::N; i++) acc[i] = G::none();
        if (whole) {
            const int l = apart ? p * V::N / columns : 0; /* a piece is of one row */
            const int at = (first + l * (near - 1)) * columns + p * V::N;
#pragma unroll 8
            for (int j = 0; j < ROWS; j++) {
                typedef typename loaded_of<M, V::N>::type loaded;
                add_each<M, V::N, 1>(acc, load_group<loaded>(a + at + j * far * columns),
                                     j * far, r.key_flags);
            }
        } else {
#pragma unroll
            for (int i = 0; i < V::N; i++) {
                const int e = p * V::N + i, l = e / columns, row = first + l * near;
#pragma unroll 4
                for (int j = 0; j < ROWS; j++)
                    if (row + j * far < left)
                        G::add(acc[i], a[(row + j * far - l) * columns + e], j * far,
                               r.key_flags);
            }
        }
#pragma unroll
        for (int i = 0; i < V::N; i++) {
            const int e = p * V::N + i;
            lane[e] = G::root(acc[i], k0 + first + e / columns * near, r.key_flags);
        }
    }
    __syncthreads();
    for (int d = lanes / 2; d > 0; d /= 2) {
        for (int e = threadIdx.x; e < d * columns; e += blockDim.x)
            lane[e] = F::fold(lane[e], lane[e + d * columns]);
        __syncthreads();
    }
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        conclude(r, matrix * (int64_t)columns + c, leaf, lane[c]);
}

struct thin_launch {
    reduce_args r;
    int64_t matrices;
    int pieces, levels; /* of the lanes of a leaf; a leaf is 2^levels parts */
    bool parts;         /* no part reads the sectors of memory that another reads */
    size_t shared;
};

template <typename M> static gop_status reduce_thin(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const thin_launch &own = *GOP_OWN(const thin_launch, task->plan);
    const reduce_args r = reduce_addressed(task, own.r);
    GOP_TRY(GOP_LAUNCH_FIRST(ctx, task, r.leaves > 1, reduce_thin_kernel<M>,
                             dim3((unsigned)(own.matrices * r.leaves)),
                             dim3(own.pieces < 256 ? own.pieces : 256), own.shared, r,
                             own.levels));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

template <typename M> static gop_status plan_of_map(const gop_task *task, gop_plan *plan)
{
    enum { GROUP_BYTES = sizeof(lanes_of<typename M::T>) };
    const gop_reduction &g = task->geometry.reduction;
    thin_launch &own = *GOP_OWN(thin_launch, plan);
    const int64_t columns = g.extent[g.kept - 1], item = sizeof(typename M::T);
    const int64_t bytes = columns * LANES * (int)sizeof(typename M::F::acc);
    int64_t bits = 0; /* of where matrices begin */
    for (int d = 0; d < g.kept - 1; d++) bits |= g.in[d] * item;
    if (bytes > 48 * 1024 || bits % GROUP_BYTES != 0 ||
        g.outputs / columns * reduce_leaves(g) > INT32_MAX)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel takes as many columns as fit into 48 KiB of "
                        "shared memory, %d accumulators of each; got %lld; of several matrices "
                        "those that begin at multiples of %d bytes",
                        LANES, (long long)columns, GROUP_BYTES);
    reduce_arguments(task, &own.r, plan);
    own.matrices = g.outputs / columns;
    own.pieces = LANES * (int)columns / lanes_of<typename M::T>::N;
    own.shared = (size_t)bytes;
    own.parts = !M::F::ORDERED || columns * sizeof(typename M::T) >= SECTOR;
    plan->launch = reduce_thin<M>;
    return GOP_OK;
}

static const reduce_by_map<reduce_map_plan> plans = REDUCE_BY_MAP(plan_of_map, nullptr);

static gop_status reduce_thin_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const reduce_map_plan plan_it = reduce_of_call(plans, task);
    GOP_TRY(reduce_plain(task, plan_it));
    if (g.kept < 1 || g.reduced != 1 || g.outputs == 0 || g.in[g.kept - 1] != 1 ||
        g.in[g.kept] != g.extent[g.kept - 1] || g.count < LANES ||
        (uintptr_t)task->in[0].data % 16 != 0)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs rows that follow each other without a gap, "
                        "from an address that is a multiple of 16, at least %d of them",
                        LANES);
    GOP_TRY(plan_it(task, plan));
    thin_launch &own = *GOP_OWN(thin_launch, plan);
    const int64_t busy = 2 * (int64_t)ctx->info.processors;
    for (own.levels = 0; own.parts && own.matrices * own.r.leaves < busy && own.levels < 4 &&
                         own.pieces >= 64;) {
        own.levels++;
        own.r.leaves *= 2;
        own.pieces /= 2;
        own.shared /= 2;
    }
    plan->scratch = reduce_scratch(g, own.r.leaves);
    return GOP_OK;
}

extern const gop_row reduce_thin_row = {
    .name = "thin",
    .note = "few columns: rows that follow each other are read as one line, and columns are "
            "told apart when lanes meet",
    .role = GOP_CONFORMING,
    .plan = reduce_thin_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
