/*
 * reduce_position.cu - argmin and argmax; and complex min and max, which are read back from the
 * position found, because a key forgets the signs of zeros and which part was NaN.
 */
#include "cuda/reduce_tree.h"

GOP_DEVICE int64_t wide_key(int32_t key)
{
    return key;
}
GOP_DEVICE int64_t wide_key(int64_t key)
{
    return key;
}
GOP_DEVICE key128 wide_key(key128 key)
{
    return key;
}

template <typename E> struct position_map {
    typedef E T;
    typedef best_fold<decltype(wide_key(key_of(E(), 0)))> F;
    static GOP_DEVICE typename F::acc turn(E x, int64_t k, int twist)
    {
        return {wide_key(key_of(x, twist)), k};
    }
};

template <typename T>
static gop_status reduce_position(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return reduce_tree_task<position_map<T>>(ctx, task, step);
}

const gop_launch reduce_position_of[GOP_NDTYPES] = GOP_LAUNCH_ALL(reduce_position);
