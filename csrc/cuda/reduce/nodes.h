/*
 * nodes.h - folds of what a tree has above its lanes: one after another, or side by side.
 */
#ifndef GOP_CUDA_REDUCE_NODES_H
#define GOP_CUDA_REDUCE_NODES_H

#include "cuda/reduce/fold.h"

/* The group of lanes that comes t-th in the order of the fold, farthest apart first: t with its
 * bits reversed. There are `turns` groups, a power of two. */
GOP_DEVICE int group_of_turn(int t, int turns)
{
    int group = 0;
    for (int bit = 1; bit < turns; bit *= 2) group = 2 * group + ((t & bit) != 0);
    return group;
}

/* Folds the value of group t with those that wait, or lets it wait, as in a binary counter.
 * After the last of 2^k groups `value` is the fold of all. */
template <typename F, int LEVELS, int N, typename R>
GOP_DEVICE void fold_turns(int t, R (*waiting)[N], R (&value)[N])
{
#pragma unroll
    for (int l = 0; l < LEVELS; l++) {
        const bool waits = !(t >> l & 1);
#pragma unroll
        for (int i = 0; i < N; i++)
            if (waits) waiting[l][i] = value[i];
            else value[i] = F::fold(waiting[l][i], value[i]);
        if (waits) break;
    }
}

/* Folds neighbours, as leaves do. */
template <typename F, int N, typename R> GOP_DEVICE void fold_neighbours(R *v)
{
#pragma unroll
    for (int d = 1; d < N; d *= 2)
#pragma unroll
        for (int i = 0; i < N; i += 2 * d) v[i] = F::fold(v[i], v[i + d]);
}

/* The root of 2^levels neighbours, 64 at most, in thread 0 of the warp. */
template <typename F>
GOP_DEVICE typename F::acc fold_nodes(const typename F::acc *node, int levels, int t)
{
    const int pairs = (1 << levels) / 2;
    if (pairs == 0) return node[0];
    typename F::acc value = t < pairs ? F::fold(node[2 * t], node[2 * t + 1]) : F::none();
    for (int d = 1; d < pairs; d *= 2) value = F::fold(value, shuffle_down(value, d, 32));
    return value;
}

#endif
