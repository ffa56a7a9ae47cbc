/*
 * finish.h - where the root of an output's tree goes. What is stored of it says finish(r, o,
 * root), of each kind of accumulator: sums.h, extremes.h.
 */
#ifndef GOP_CUDA_REDUCE_FINISH_H
#define GOP_CUDA_REDUCE_FINISH_H

#include "cuda/reduce/arguments.h"

/* Where output o lies; computed once for all types that may be stored, since a launch waits for
 * its code. */
template <typename G> GOP_DEVICE int64_t out_of(const reduce_args_of<G> &r, int64_t o)
{
    return r.dense ? o : place_of(r.g, 0, r.g.kept, o).out;
}
template <typename G, typename T>
GOP_DEVICE void put(const reduce_args_of<G> &r, int64_t at, T value)
{
    static_cast<T *>(r.out)[at] = value;
}

/* The initial of a call. */
template <typename R> GOP_DEVICE void take(R &to, const gop_scalar &s)
{
    to = R(s.f[0]);
}
GOP_DEVICE void take(uint64_t &to, const gop_scalar &s)
{
    to = s.u;
}
template <typename P> GOP_DEVICE void take(complex<P> &to, const gop_scalar &s)
{
    to = {P(s.f[0]), P(s.f[1])};
}

/* A root, or a leaf of several. */
template <typename G, typename R>
GOP_DEVICE void conclude(const reduce_args_of<G> &r, int64_t o, int64_t leaf, R value)
{
    if (r.leaves == 1) finish(r, o, value);
    else static_cast<R *>(r.partial)[o * r.leaves + leaf] = value;
}

#endif
