/*
 * tree.h - a warp's part of tree/v1.
 *
 * A leaf of the tree is 2048 terms in 128 lanes. A warp takes a leaf: each of its threads keeps
 * 4 lanes in registers, N neighbours (one 128-bit load) at a time. docs/numerics.md states
 * every rounding.
 */
#ifndef GOP_CUDA_JACOBI_STEP_TREE_H
#define GOP_CUDA_JACOBI_STEP_TREE_H

#include "cuda/jacobi_step/lanes.h"
#include "cuda/jacobi_step/system.h"

/* The leaves so far of one row: thread j of the warp keeps the full subtree of 2^j leaves where
 * bit j of `leaves` is set. 32 levels are 2^43 terms. */
template <typename T> struct warp_tree {
    int64_t leaves;
    T node;
};

/* Appends the leaf of thread 0: merges equal neighbours, as a binary counter carries. */
template <typename T> GOP_DEVICE void tree_push(warp_tree<T> &tree, T leaf)
{
    int level = 0;
    leaf = shuffle(leaf, 0);
    for (int64_t n = tree.leaves++; n & 1; n >>= 1, level++)
        leaf = plus(shuffle(tree.node, level), leaf);
    if (threadIdx.x == level) tree.node = leaf;
}

/* The root, in every thread. Padding leaves are -0.0, so what is left folds lowest first. */
template <typename T> GOP_DEVICE T tree_root(const warp_tree<T> &tree, T empty)
{
    T root = empty;
    int any = 0;
    for (int level = 0; tree.leaves >> level; level++)
        if (tree.leaves >> level & 1) {
            const T node = shuffle(tree.node, level);
            root = any ? plus(node, root) : node;
            any = 1;
        }
    return root;
}

/* (A x)[i, c] by one warp, in every thread of it; any strides, dense or CSR. */
template <typename T> GOP_DEVICE T warp_row(const jacobi_system<T> &s, int64_t i, int64_t c)
{
    const gop_jacobi &g = s.g;
    csr_row row = {0, g.n};
    if (s.csr) row = row_of(s, i);
    const T *x = s.x + c * g.x_col;
    warp_tree<T> tree = {0, negative_zero<T>()};
    for (int64_t begin = row.begin; begin < row.end; begin += LEAF) {
        const int64_t end = row.end - begin < LEAF ? row.end : begin + LEAF;
        T lane[PER_THREAD];
        for (int v = 0; v < PER_THREAD; v++) lane[v] = negative_zero<T>();
#pragma unroll 2
        for (int64_t chunk = begin + threadIdx.x; chunk < end; chunk += LANES)
#pragma unroll
            for (int v = 0; v < PER_THREAD; v++) {
                const int64_t p = chunk + v * WARP;
                if (p < end && s.csr)
                    lane[v] = multiply_add(s.a[p], x[column_at(s, p) * g.x_row], lane[v]);
                else if (p < end)
                    lane[v] =
                        multiply_add(s.a[i * g.a_row + p * g.a_col], x[p * g.x_row], lane[v]);
            }
        tree_push(tree, fold_lanes<T, 1>(lane));
    }
    return tree_root(tree, positive_zero<T>());
}

/* The diagonal of row i of a CSR matrix, in every thread: duplicates add up in stored order. */
template <typename T> GOP_DEVICE T warp_diagonal(const jacobi_system<T> &s, int64_t i)
{
    T sum = negative_zero<T>();
    if (s.has_alpha) return sum;
    const csr_row row = row_of(s, i);
    for (int64_t begin = row.begin; begin < row.end; begin += WARP) {
        const int64_t p = begin + threadIdx.x;
        const int found = p < row.end && index_at(s.indices, s.g.index64, p) == i;
        for (unsigned m = __ballot_sync(WHOLE_WARP, found); m; m &= m - 1)
            sum = plus(sum, s.a[begin + __ffs((int)m) - 1]);
    }
    return sum;
}

#endif
