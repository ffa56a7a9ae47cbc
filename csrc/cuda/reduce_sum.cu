/*
 * reduce_sum.cu - sums, and means of floats.
 */
#include "cuda/reduce_rows.h"

template <typename E> struct sum_map {
    typedef E T;
    typedef sum_fold<typename sum_of<E>::type> F;
    static GOP_DEVICE typename F::acc turn(E x, int64_t, int) { return widen(x); }
};

template <typename T> constexpr reduce_launchers reduce_sum = reduce_launchers_of<sum_map<T>>;

const reduce_launchers reduce_sum_of[GOP_NDTYPES] = GOP_LAUNCH_ALL(reduce_sum);

/* A mask is an array of booleans to be summed, with the mask's strides. */
gop_status reduce_count(gop_ctx *ctx, const reduce_args *r)
{
    reduce_args count = *r;
    gop_reduction &g = count.g;
    int64_t stride = 1;
    for (int d = g.kept + g.reduced - 1; d >= 0; d--) g.in[d] = g.where[d];
    for (int d = g.kept - 1; d >= 0; stride *= g.extent[d--]) g.out[d] = stride;
    count.a = r->where;
    count.where = nullptr;
    count.out = const_cast<int64_t *>(r->counts);
    count.op = GOP_SUM;
    count.dtype = GOP_BOOL;
    count.out_dtype = GOP_INT64;
    return reduce_tree_launch<sum_map<boolean>>(ctx, count);
}
