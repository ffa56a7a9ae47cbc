/*
 * reduce_prod.cu - products.
 */
#include "cuda/reduce_tree.h"

template <typename E> struct prod_map {
    typedef E T;
    typedef prod_fold<typename sum_of<E>::type> F;
    static GOP_DEVICE typename F::acc turn(E x, int64_t, int) { return widen(x); }
};

template <typename T>
static gop_status reduce_prod(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return reduce_tree_task<prod_map<T>>(ctx, task, step);
}

const gop_launch reduce_prod_of[GOP_NDTYPES] = GOP_LAUNCH_ALL(reduce_prod);
