/*
 * plan.h - what the plans of the tree's kernels have in common.
 */
#ifndef GOP_CUDA_REDUCE_PLAN_H
#define GOP_CUDA_REDUCE_PLAN_H

#include "cuda/reduce/maps.h"

/* ---- f<M> by the map that a call asks for ---- */

template <typename F> struct reduce_by_map {
    F sum[GOP_NDTYPES], prod[GOP_NDTYPES], square[GOP_NDTYPES], mean[GOP_NDTYPES],
        extreme[GOP_NDTYPES], position[GOP_NDTYPES], truth[GOP_NDTYPES];
};

/* Dtypes of one size share what the key_flags can tell apart. */
/* clang-format off */
#define REDUCE_SIZES(f, map) f<map<uint8_t>>, f<map<uint16_t>>, f<map<uint32_t>>, f<map<uint64_t>>
#define REDUCE_WHOLE(f, map) f<map<uint8_t>>, REDUCE_SIZES(f, map), REDUCE_SIZES(f, map)
#define REDUCE_REAL(f, map) f<map<float16>>, f<map<bfloat16>>, f<map<float>>, f<map<double>>
#define REDUCE_FLOATS(f, map) REDUCE_REAL(f, map), f<map<complex64>>, f<map<complex128>>
#define REDUCE_NONE nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr
#define REDUCE_LONG(mean32, mean64) \
    nullptr, nullptr, nullptr, mean32, mean64, nullptr, nullptr, mean32, mean64
#define REDUCE_LIST(...) __VA_ARGS__
#define REDUCE_TABLE(f, products, squares, means, truth128) \
    {{REDUCE_WHOLE(f, sum_map), REDUCE_FLOATS(f, sum_map)}, \
     {products}, \
     {squares}, \
     {means}, \
     {REDUCE_WHOLE(f, extreme_map), REDUCE_REAL(f, extreme_map)}, \
     {REDUCE_WHOLE(f, position_map), REDUCE_FLOATS(f, position_map)}, \
     {REDUCE_WHOLE(f, extreme_map), f<extreme_map<uint16_t>>, f<extreme_map<uint16_t>>, \
      f<extreme_map<uint32_t>>, f<extreme_map<uint64_t>>, f<extreme_map<uint64_t>>, truth128}}
/* Maps for every call, and the list without rare ones, which `tree` does: of products it keeps
 * those of float32 and float64, with or without means of more than 2^21 numbers of four bytes.
 */
#define REDUCE_EVERY_MAP(f) \
    REDUCE_TABLE(f, REDUCE_LIST(REDUCE_WHOLE(f, prod_map), REDUCE_FLOATS(f, prod_map)), \
                 REDUCE_LIST(REDUCE_WHOLE(f, square_map), REDUCE_FLOATS(f, square_map)), \
                 REDUCE_LIST(REDUCE_WHOLE(f, mean_map)), f<extreme_map<word128>>)
#define REDUCE_BY_MAP(f, mean32) \
    REDUCE_TABLE(f, REDUCE_LIST(REDUCE_NONE, nullptr, nullptr, f<prod_map<float>>, \
                                f<prod_map<double>>), \
                 nullptr, REDUCE_LIST(REDUCE_LONG(mean32, f<mean_map<uint64_t>>)), \
                 f<extreme_map<word128>>)
/* clang-format on */

/* Whether a mean is that of an integer sum: it is if any sum of so many integers is a float64.
 */
static inline bool reduce_mean_is_sum(const gop_task *task)
{
    const int bits = 8 * (int)item_of(task);
    return bits < 64 && task->geometry.reduction.count <= INT64_C(1) << (53 - bits);
}

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

/* How many leaves an output has, at least 1. */
int64_t reduce_leaves(const gop_reduction &g);
/* Bytes of scratch for so many leaves, or parts of leaves, of each output. */
size_t reduce_scratch(const gop_reduction &g, int64_t leaves);

/* Whether groups of n neighbours are aligned and divide all lines. */
bool reduce_divides(const gop_task *task, int n, int64_t item);

/* Whether the array spans more than two thirds of the L2 cache. */
bool reduce_exceeds_l2(const gop_ctx *ctx, const gop_task *task);

/* The plan of a kernel for one map. */
typedef gop_status (*reduce_map_plan)(const gop_task *task, gop_plan *plan);

/* A plan keeps the arguments without addresses, and the scratch memory for leaves. */
void reduce_arguments(const gop_task *task, reduce_args *r, gop_plan *plan);
/* The same for at most BRIEF or LINED axes. */
void reduce_arguments(const gop_task *task, reduce_brief *r, gop_plan *plan);
void reduce_arguments(const gop_task *task, reduce_lined *r, gop_plan *plan);
/* Fills in all but the axes; then the axes. */
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

/* The arguments with the addresses. */
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

/* Refuses maps without a launch (`found`) and masks, as all kernels after `tree` but one do. */
gop_status reduce_unmasked(const gop_task *task, bool found);
/* Refuses several reduced axes too. */
gop_status reduce_plain(const gop_task *task, bool found);
/* Refuses all but contiguous elements too. */
gop_status reduce_in_order(const gop_task *task, bool found);

#endif
