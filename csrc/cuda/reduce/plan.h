/*
 * plan.h - what the plans of the tree's kernels have in common.
 */
#ifndef GOP_CUDA_REDUCE_PLAN_H
#define GOP_CUDA_REDUCE_PLAN_H

#include "cuda/reduce/finish.h"
#include "cuda/reduce/maps.h"

/* ---- f<M> by the map that a call asks for ---- */

/* What kernels tell apart of a dtype: an item's size, and whether floats are computed with. */
enum reduce_kind {
    WORD8,
    WORD16,
    WORD32,
    WORD64,
    HALF,
    FLOAT,
    DOUBLE,
    PAIR64,
    PAIR128,
    REDUCE_KINDS
};
static inline reduce_kind reduce_kind_of(gop_dtype dtype)
{
    static const reduce_kind kind[GOP_NDTYPES] = {WORD8, WORD8,  WORD16, WORD32, WORD64,
                                                  WORD8, WORD16, WORD32, WORD64, HALF,
                                                  HALF,  FLOAT,  DOUBLE, PAIR64, PAIR128};
    return kind[dtype];
}

template <typename F> struct reduce_by_map {
    F sum[REDUCE_KINDS], prod[REDUCE_KINDS], square[REDUCE_KINDS], mean[REDUCE_KINDS],
        extreme[REDUCE_KINDS], position[REDUCE_KINDS], truth;
};

/* clang-format off */
#define REDUCE_WORDS(f, map) f<map<uint8_t>>, f<map<uint16_t>>, f<map<uint32_t>>, f<map<uint64_t>>
#define REDUCE_NO_WORDS nullptr, nullptr, nullptr, nullptr
#define REDUCE_PAIRS(f, map) f<map<complex64>>, f<map<complex128>>
#define REDUCE_FLOATS(f, map) \
    f<map<half16>>, f<map<float>>, f<map<double>>, REDUCE_PAIRS(f, map)
#define REDUCE_PRODUCTS(f) /* of real floats as their sums, by a flag */ \
    f<sum_map<half16>>, f<sum_map<float>>, f<sum_map<double>>, REDUCE_PAIRS(f, prod_map)
#define REDUCE_BITS(f, map) /* floats that are compared */ \
    REDUCE_WORDS(f, map), f<map<half16>>, f<map<uint32_t>>, f<map<uint64_t>>
#define REDUCE_COMPARED(f) \
    {REDUCE_BITS(f, extreme_map)}, \
    {REDUCE_BITS(f, position_map), REDUCE_PAIRS(f, position_map)}, \
    f<truth_map>
/* For every call; or without what is rarely asked for, which the tree does. */
#define REDUCE_EVERY_MAP(f) \
    {{REDUCE_WORDS(f, sum_map), REDUCE_FLOATS(f, sum_map)}, \
     {REDUCE_WORDS(f, prod_map), REDUCE_PRODUCTS(f)}, \
     {REDUCE_WORDS(f, square_map), REDUCE_FLOATS(f, square_map)}, \
     {REDUCE_WORDS(f, mean_map)}, \
     REDUCE_COMPARED(f)}
#define REDUCE_BY_MAP(f) \
    {{REDUCE_WORDS(f, sum_map), REDUCE_FLOATS(f, sum_map)}, \
     {REDUCE_NO_WORDS, REDUCE_PRODUCTS(f)}, \
     {}, \
     {nullptr, nullptr, f<mean_map<uint32_t>>, f<mean_map<uint64_t>>}, \
     REDUCE_COMPARED(f)}
/* clang-format on */

/* Whether a mean is that of a sum of whole numbers: any sum of so many is a float64. */
static inline bool reduce_mean_is_sum(const gop_task *task)
{
    static const int most[REDUCE_KINDS] = {53 - 8, 53 - 16, 53 - 32, -1}; /* log2 of them */
    const reduce_kind kind = reduce_kind_of(task->in[0].dtype);
    return kind < WORD64 && task->geometry.reduction.count <= INT64_C(1) << most[kind];
}

template <typename F> static F reduce_of_call(const reduce_by_map<F> &f, const gop_task *task)
{
    const reduce_kind kind = reduce_kind_of(task->in[0].dtype);
    static const reduce_kind word_of[REDUCE_KINDS] = {WORD8,  WORD16, WORD32, WORD64,
                                                      WORD16, WORD32, WORD64, WORD64};
    switch (task->call->params.reduce.op) {
    case GOP_PROD:
        return f.prod[kind];
    case GOP_MIN:
    case GOP_MAX:
        return (kind >= PAIR64 ? f.position : f.extreme)[kind];
    case GOP_MEAN:
        return (kind >= HALF || reduce_mean_is_sum(task) ? f.sum : f.mean)[kind];
    case GOP_ANY:
    case GOP_ALL:
        return kind == PAIR128 ? f.truth : f.extreme[word_of[kind]];
    case GOP_ARGMIN:
    case GOP_ARGMAX:
        return f.position[kind];
    case GOP_SUMSQ:
        return f.square[kind];
    default:
        return f.sum[kind];
    }
}

/* ---- plan.cu ---- */

/* Elements are folded leaf by leaf: this many to an output, at least 1. */
int64_t reduce_leaves(const gop_reduction &g);
/* The bytes that these, or as many parts of leaves, take until they are folded. */
size_t reduce_scratch(const gop_reduction &g, int64_t leaves);

/* The plan of a kernel for one map. */
typedef gop_status (*reduce_map_plan)(const gop_task *task, gop_plan *plan);

/* A plan keeps the arguments without addresses, and the scratch memory for leaves. */
void reduce_arguments(const gop_task *task, reduce_args *r, gop_plan *plan);
/* The same for BRIEF or LINED axes at most. */
void reduce_arguments(const gop_task *task, reduce_brief *r, gop_plan *plan);
void reduce_arguments(const gop_task *task, reduce_lined *r, gop_plan *plan);
/* All but the axes; and these. */
void reduce_fill_operands(const gop_task *task, reduce_operands *r, gop_plan *plan);
template <int N> static void reduce_fill_axes(const gop_reduction &g, reduce_axes<N> *to)
{
    *to = {g.kept, g.reduced, g.outputs, g.count, {}, {}, {}};
    for (int d = 0; d < g.kept + g.reduced; d++) {
        to->extent[d] = g.extent[d];
        to->in[d] = g.in[d];
        to->out[d] = g.out[d];
    }
}

/* With the addresses. */
template <typename G>
static reduce_args_of<G> reduce_addressed(const gop_task *task, reduce_args_of<G> r)
{
    r.a = task->in[0].data;
    r.where = nullptr;
    r.out = task->out[0].data;
    r.counts = nullptr;
    r.partial = task->scratch;
    return r;
}

/* What all kernels after the tree but one refuse: maps that they have no `found` for, a mask.
 */
gop_status reduce_unmasked(const gop_task *task, bool found);
/* The same, and several reduced axes. */
gop_status reduce_plain(const gop_task *task, bool found);
/* The same, and all but elements of an output side by side. */
gop_status reduce_in_order(const gop_task *task, bool found);

#endif
