/*
 * vectorized_kernel.h - a kernel in which each warp folds a leaf of the tree, 16 bytes a load,
 * and its launches.
 *
 * The tree's neighbouring lanes are neighbours in memory, so a thread may load 16 bytes of them
 * at once, and a block folds up to 64 leaves before it writes. In lines with gaps, or in rows
 * shorter than a leaf, a thread loads groups of neighbours that divide a line. The map (sums.h,
 * extremes.h) says what an element contributes, and what is stored of a root.
 */
#ifndef GOP_CUDA_REDUCE_VECTORIZED_KERNEL_H
#define GOP_CUDA_REDUCE_VECTORIZED_KERNEL_H

#include <type_traits>

#include "cuda/common/l2_policy.h"
#include "cuda/reduce/leaf.h"
#include "cuda/reduce/root.h"
#include "cuda/reduce/vectorized.h"

enum { LINES = LEAF / LINE + 2 }; /* of a leaf, at most */

/* The template parameter HOW, or N, of contiguous outputs: leaves are aligned to 16 bytes, or
 * may be unaligned. Values above 0 are of outputs in lines: elements of a load. */
enum { WHOLE = 0, ANYWHERE = -1 };

/* The elements of a leaf. If the order is free, a row that is not long is one leaf: leaves of
 * 2048 would leave a short last one. */
template <typename M, int HOW> GOP_DEVICE int leaf_length(const leaf_groups &groups)
{
    return HOW == ANYWHERE && !M::F::ORDERED ? groups.leaf : (int)LEAF;
}

/* Folds one leaf of output o with W threads; the identity if !any. WHOLE: leaves are aligned
 * to 16 bytes, and full but for an output's last. */
template <typename M, int HOW, int W>
GOP_DEVICE typename M::F::acc vectorized_leaf(const reduce_brief &r, const leaf_groups &groups,
                                              uint32_t o, int leaf, bool any, int t)
{
    typedef typename M::T T;
    enum { N = M::F::ORDERED ? (int)lanes_of<T>::N : (int)vec128<T>::N };
    const int length = leaf_length<M, HOW>(groups);
    const int64_t k0 = (int64_t)leaf * length, left = any ? r.g.count - k0 : 0;
    const int n = left < length ? (int)left : length;
    const T *a = l2_persist(static_cast<const T *>(r.a), groups.kept) +
                 place_of(r.g, 0, r.g.kept, o).in + k0;
    if constexpr (HOW == ANYWHERE) return leaf_anywhere<M, N, W>(a, k0, n, t, r.key_flags);
    else if (n < LEAF) return part_of_leaf<M>(a, k0, n, t, r.key_flags);
    else if constexpr (M::F::ORDERED) return ordered_leaf<M>(a, t, r.key_flags);
    else return gathered_leaf<M>(a, k0, t, r.key_flags);
}

/* Folds a leaf whose elements lie in one or several lines with gaps between them. If there are
 * several, the threads compute the offsets of all lines into `begin` first. W < 32: rows
 * shorter than a leaf, one for every W threads. */
template <typename M, int N, int W>
GOP_DEVICE typename M::F::acc leaf_in_lines(const reduce_lined &r, float kept, uint32_t o,
                                            int leaf, bool any, int t, int64_t *begin)
{
    enum {
        BYTES = N * sizeof(typename M::T),
        ITEM = sizeof(typename M::T),
        BATCH = BYTES <= 4 || (BYTES == 8 && ITEM == 8) ? 16
                : BYTES < 16 || W < 32 || ITEM >= 8     ? 8
                                                        : 4 /* as registers allow */
    };
    leaf_by_groups<M, N, W, BATCH> own;
    const reduce_lines &g = r.g;
    const int last = g.kept + g.reduced - 1;
    const int64_t k0 = (int64_t)leaf * LEAF, left = any ? g.count - k0 : 0;
    const int n = (int)(left < LEAF ? left : LEAF) / N;
    const uint32_t q = (uint32_t)k0 / N, line = quotient(q, g.by[last]);
    const uint32_t x = q - line * g.by[last].d;
    const typename M::T *a = l2_persist(static_cast<const typename M::T *>(r.a), kept) +
                             axes_at(g.in, g.by, 0, g.kept - 1, o);
#pragma unroll
    for (auto &acc : own.acc) acc = gather_of<M>::none();
    if (W < 32 || x + n <= g.by[last].d) {
        if (W == 32) a += axes_at(g.in, g.by, g.kept, last - 1, line) + (int64_t)x * N;
#pragma unroll 1
        for (int j = t; j < n + t; j += W * BATCH) {
#pragma unroll
            for (int b = 0; b < BATCH; b++)
                own.load(b, a + (int64_t)(j + b * W < n ? j + b * W : n - 1) * N);
            own.add(j, 0, n, r.key_flags);
        }
    } else {
        const int lines = (int)quotient(x + n - 1, g.by[last]) + 1;
        __syncwarp();
        for (int i = t; i < lines; i += 32)
            begin[i] = axes_at(g.in, g.by, g.kept, last - 1, line + i);
        __syncwarp();
#pragma unroll 1
        for (int j = t; j < n + t; j += W * BATCH) {
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                const uint32_t at = x + (j + b * W < n ? j + b * W : n - 1);
                const uint32_t l = quotient(at, g.by[last]);
                own.load(b, a + begin[l] + (int64_t)(at - l * g.by[last].d) * N);
            }
            own.add(j, 0, n, r.key_flags);
        }
    }
    return own.root(k0, r.key_flags);
}

/* Resident blocks per SM: as many as registers allow without spilling. */
template <typename M, int W> constexpr int vectorized_blocks()
{
    const int acc = sizeof(typename M::F::acc), item = sizeof(typename M::T);
    if ((acc > 8 && item > 8) || (W < 32 && M::F::ORDERED && acc > 4)) return 2;
    return acc > 8 || item >= 8 || W < 32 ? 3 : 4;
}

/* Two neighbouring nodes, loaded at once if they are short. */
template <typename F> GOP_DEVICE typename F::acc fold_pair(const typename F::acc *node)
{
    if constexpr (sizeof(typename F::acc) > 8) return F::fold(node[0], node[1]);
    else {
        const auto pair = load_group<group_of<typename F::acc, 2>>(node);
        return F::fold(pair.at[0], pair.at[1]);
    }
}

/* Each warp takes a leaf, or several with W threads each: first the first leaves of the block's
 * subtrees, then the second ones, so that no warp gets all the short ones. Then one warp folds
 * the subtrees, unless every leaf is an output, while the others go on with the next ones. */
template <typename M, typename A, int N, int W>
__global__ void __launch_bounds__(TEAMS * 32, vectorized_blocks<M, W>())
    reduce_vectorized_kernel(const __grid_constant__ A r, leaf_groups groups)
{
    typedef typename M::F F;
    __shared__ __align__(16) typename F::acc nodes[2][GROUP];
    __shared__ int64_t begin[TEAMS][N > 0 && W == 32 ? LINES : 1];
    const int t = threadIdx.x % W, warp = threadIdx.x / 32;
    const int span = 1 << groups.levels, per_block = 1 << groups.across;
    /* Prologue: leaves that do not exist are the identity. */
    typename F::acc *node = nodes[0];
    for (int i = threadIdx.x; i < 2 * GROUP; i += TEAMS * 32)
        if ((i & (span - 1)) >= groups.leaves) nodes[i / GROUP][i % GROUP] = F::none();
    grid_dependency_sync();
    /* Main loop: the block's subtrees, from the array's end. */
#pragma unroll 1
    for (int first = groups.last - (int)blockIdx.x * per_block; first >= 0;
         first -= (int)gridDim.x * per_block) {
        const uint32_t leaves = (uint32_t)r.leaves, o = first / leaves,
                       part = first - o * leaves;
        /* Leaves. */
        for (int i = threadIdx.x / W; i < groups.leaves << groups.across; i += TEAMS * 32 / W) {
            const int l = i >> groups.across, q = i & (per_block - 1);
            const int leaf = part * span + l;
            const bool any = first + q < groups.subtrees &&
                             (int64_t)leaf * leaf_length<M, N>(groups) < r.g.count;
            typename F::acc value;
            if constexpr (N > 0)
                value = leaf_in_lines<M, N, W>(r, groups.kept, any ? o + q : o, any ? leaf : 0,
                                               any, t, begin[warp]);
            else
                value = vectorized_leaf<M, N, W>(r, groups, any ? o + q : o, any ? leaf : 0,
                                                 any, t);
            if (t == 0) node[(q << groups.levels) + l] = value;
        }
        __syncthreads();
        /* Subtrees: a warp folds their leaves and writes the roots. */
        if (groups.levels == 0 || warp == 0) {
            const int lane = threadIdx.x, pairs = (span + 1) / 2;
            const int q = groups.levels == 0 ? lane : lane >> (groups.levels - 1);
            typename F::acc root = F::none();
            if (q < per_block)
                root = groups.levels == 0 ? node[lane] : fold_pair<F>(node + 2 * lane);
            for (int d = 1; d < pairs; d *= 2) root = F::fold(root, shuffle_down(root, d, 32));
            if (lane % pairs == 0 && q < per_block && first + q < groups.subtrees)
                conclude(r, o + q, part, root);
        }
        node = node == nodes[0] ? nodes[1] : nodes[0];
    }
}

/* ---- launches ---- */

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
        LEAST = ITEM < 4 ? NEAR : 1, /* neighbours; a line may have any number of them */
        /* Outputs have many elements: means of integers that are not those of a sum. */
        LONG = M::F::ORDERED && std::is_integral<typename M::T>::value && ITEM < 8
    };
    vectorized_kernels k = {ITEM, M::F::ORDERED, vectorized_blocks<M, 32>()};
    k.unaligned = reduce_vectorized<M, reduce_brief, ANYWHERE, 32>;
    /* Long items are as fast at any address, positions of complex ones twice as fast. */
    if constexpr (ITEM < 8) k.whole = reduce_vectorized<M, reduce_brief, WHOLE, 32>;
    else k.whole = k.unaligned;
    k.lines[0] = {ALL, reduce_vectorized<M, reduce_lined, ALL, 32>};
    k.lines[1] = {NEAR, reduce_vectorized<M, reduce_lined, NEAR, 32>};
    k.lines[2] = {LEAST, reduce_vectorized<M, reduce_lined, LEAST, 32>};
    if constexpr (NEAR > 1 && !LONG) {
        k.shared = reduce_vectorized<M, reduce_brief, ANYWHERE, SHARED>;
        k.lines[0].shared = reduce_vectorized<M, reduce_lined, ALL, SHARED>;
        k.lines[1].shared = reduce_vectorized<M, reduce_lined, NEAR, SHARED>;
    }
    return k;
}
template <typename M> const vectorized_kernels vectorized_of<M>::kernels = kernels_of_map<M>();

/* Instances for a map, and for its maps of some types. */
/* clang-format off */
#define OF(...) template struct vectorized_of<__VA_ARGS__>;
#define OF_WHOLE(map) OF(map<uint8_t>) OF(map<uint16_t>) OF(map<uint32_t>) OF(map<uint64_t>)
#define OF_REAL(map) OF(map<float16>) OF(map<bfloat16>) OF(map<float>) OF(map<double>)
#define OF_COMPLEX(map) OF(map<complex64>) OF(map<complex128>)
/* clang-format on */

#endif
