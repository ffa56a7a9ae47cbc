/*
 * plan.h - what the plans of the tree's kernels have in common.
 */
#ifndef GOP_CUDA_REDUCE_PLAN_H
#define GOP_CUDA_REDUCE_PLAN_H

#include "cuda/reduce/by_map.h"

/* Whether a mean may be computed from an integer sum: any sum of `count` such integers must be
 * exact in float64. */
static inline bool reduce_mean_is_sum(const gop_task *task)
{
    const int bits = 8 * (int)item_of(task);
    return bits < 64 && task->geometry.reduction.count <= INT64_C(1) << (53 - bits);
}

/* The table's entry for the call's reduction and dtype. */
template <typename F> static F reduce_of_call(const reduce_by_map<F> &f, const gop_task *task)
{
    const gop_dtype dtype = task->in[0].dtype;
    const int complex_kind = dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128;
    switch (task->call->params.reduce.op) {
    case GOP_PROD:
        return f.prod[dtype];
    case GOP_MIN:
    case GOP_MAX:
        return (complex_kind ? f.position : f.extreme)[dtype];
    case GOP_MEAN:
        return (dtype > GOP_UINT64 || reduce_mean_is_sum(task) ? f.sum : f.mean)[dtype];
    case GOP_ANY:
    case GOP_ALL:
        return f.truth[dtype];
    case GOP_ARGMIN:
    case GOP_ARGMAX:
        return f.position[dtype];
    case GOP_SUMSQ:
        return f.square[dtype];
    default:
        return f.sum[dtype];
    }
}

/* ---- plan.cu ---- */

/* The number of leaves of an output, at least 1. */
int64_t reduce_leaves(const gop_reduction &g);
/* Bytes of scratch for the states of `leaves` leaves, or parts of leaves, of each output. */
size_t reduce_scratch(const gop_reduction &g, int64_t leaves);

/* Whether the elements can be loaded in groups of n: these are aligned, and a whole number of
 * them makes up each contiguous line. */
bool reduce_divides(const gop_task *task, int n, int64_t item);

/* Whether the array spans more than two thirds of the L2 cache. */
bool reduce_exceeds_l2(const gop_ctx *ctx, const gop_task *task);

/* The plan of a kernel for one map. */
typedef gop_status (*reduce_map_plan)(const gop_task *task, gop_plan *plan);

/* Copies the axes of another geometry. Unused fields become zero, so that equal calls have
 * equal arguments, which a launch then need not set again. */
template <typename To, typename From> static void reduce_copy_axes(const From &g, To *to)
{
    *to = {g.kept, g.reduced, g.outputs, g.count, {}, {}, {}};
    for (int d = 0; d < g.kept + g.reduced; d++) {
        to->extent[d] = g.extent[d];
        to->in[d] = g.in[d];
        to->out[d] = g.out[d];
    }
}

/* Fills the axes of each kind of kernel arguments from the call's. */
template <int N> static void reduce_fill_axes(const gop_reduction &g, reduce_axes<N> *to)
{
    reduce_copy_axes(g, to);
}
static inline void reduce_fill_axes(const gop_reduction &g, reduce_lines *to)
{
    reduce_copy_axes<reduce_axes<LINED>>(g, to);
    for (int d = 0; d < g.kept + g.reduced; d++) to->by[d] = make_fast_divisor(g.extent[d]);
}
static inline void reduce_fill_axes(const gop_reduction &g, gop_reduction *to)
{
    reduce_copy_axes(g, to);
    for (int d = 0; d < g.kept + g.reduced; d++) to->where[d] = g.where[d];
}

/* Fill the arguments that a plan keeps, all but addresses, and ask for scratch for leaves. */
void reduce_fill_operands(const gop_task *task, reduce_operands *r, gop_plan *plan);
template <typename A> static void reduce_arguments(const gop_task *task, A *r, gop_plan *plan)
{
    reduce_fill_axes(task->geometry.reduction, &r->g);
    reduce_fill_operands(task, r, plan);
}

/* Refuses a mask, and a dtype or reduction that the kernel has no launch for (!found). */
gop_status reduce_unmasked(const gop_task *task, bool found);
/* Refuses the same, and several reduced axes. */
gop_status reduce_plain(const gop_task *task, bool found);
/* Refuses the same, and elements that are not contiguous. */
gop_status reduce_in_order(const gop_task *task, bool found);

#endif
