/*
 * reduce.c - what reduce accepts and returns, and the geometry of its kernels.
 *
 * The bits of float sums, means and products are those of tree/v1, which counts elements in the
 * C order of the logical array: the reduced axes may merge but not change places. All other
 * reductions, and exact sums, give the same answer in any order, so their axes are sorted as
 * memory likes it.
 */
#include <string.h>

#include "core/arrays/axes.h"
#include "core/core.h"
#include "core/exact.h"
#include "core/ops/reduce.h"

static const char *reduce_called(const gop_call *call)
{
    return gop_reduction_name(call->params.reduce.op);
}

static int is_extreme(gop_reduce_op op)
{
    return op == GOP_MIN || op == GOP_MAX;
}

static int is_arg(gop_reduce_op op)
{
    return op == GOP_ARGMIN || op == GOP_ARGMAX;
}

/* Sets reduces[d] for every axis d that the call reduces. */
static gop_status reduce_resolve_axes(const gop_call *call, int reduces[GOP_MAX_NDIM])
{
    const gop_axes *axes = &call->params.reduce.axes;
    const int ndim = call->in[0].ndim;
    int axis[GOP_MAX_NDIM];
    for (int d = 0; d < ndim; d++) reduces[d] = !axes->given;
    if (!axes->given) return GOP_OK;
    /* NumPy lets axis 0 or -1 of a 0-d array mean the array, but in mean. */
    if (ndim == 0 && axes->count == 1 && (axes->axis[0] == 0 || axes->axis[0] == -1) &&
        call->params.reduce.op != GOP_MEAN)
        return GOP_OK;
    GOP_TRY(gop_axes_normalize(gop_reductions[call->params.reduce.op], axes, ndim, axis));
    for (int i = 0; i < axes->count; i++) reduces[axis[i]] = 1;
    return GOP_OK;
}

static gop_status check_where(const gop_call *call)
{
    const gop_reduce_params *params = &call->params.reduce;
    const gop_array *a = &call->in[0], *where = &call->in[1];
    char a_text[256], where_text[256];
    if (is_arg(params->op))
        return gop_fail(GOP_BAD_TYPE, "%s: takes no where", gop_reductions[params->op]);
    if (where->dtype != GOP_BOOL)
        return gop_fail(GOP_BAD_TYPE, "%s: where has dtype %s, expected bool",
                        gop_reductions[params->op], gop_dtype_name(where->dtype));
    int fits = where->ndim <= a->ndim;
    for (int d = 0; d < where->ndim && fits; d++)
        fits = where->shape[d] == 1 || where->shape[d] == a->shape[a->ndim - where->ndim + d];
    if (!fits)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: where of shape %s does not broadcast to the array's shape %s",
                        gop_reductions[params->op],
                        gop_shape_text(where_text, where->ndim, where->shape),
                        gop_shape_text(a_text, a->ndim, a->shape));
    if (is_extreme(params->op) && !params->has_initial)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: there is no identity, so with where= it needs initial=, too",
                        gop_reductions[params->op]);
    return GOP_OK;
}

/* Whole numbers are summed exactly as it is, but their means are rounded. */
static gop_status check_exact(const gop_call *call)
{
    const gop_reduce_params *params = &call->params.reduce;
    const int is_whole = !strchr("fc", gop_dtype_kind(call->in[0].dtype));
    const int sums = params->exact == GOP_EXACT_SUMS;
    if (params->op != GOP_SUM && params->op != GOP_MEAN)
        return gop_fail(GOP_BAD_TYPE, "%s: exact=True is only for sum and mean",
                        gop_reductions[params->op]);
    if (params->op == GOP_SUM && is_whole && !sums)
        return gop_fail(GOP_BAD_TYPE, "sum: sums of %s are exact without exact=True",
                        gop_dtype_name(call->in[0].dtype));
    if (sums && params->has_initial)
        return gop_fail(GOP_BAD_TYPE,
                        "%s: a part of a sum takes no initial, which is added when the sum is "
                        "finished",
                        gop_reductions[params->op]);
    return GOP_OK;
}

static gop_status check_params(const gop_call *call)
{
    const gop_reduce_params *params = &call->params.reduce;
    if ((int)params->op < 0 || params->op >= GOP_NREDUCE)
        return gop_fail(GOP_BAD_ARGUMENT, "reduce: unknown reduction number %d",
                        (int)params->op);
    if (call->nin != 1 + (params->has_where != 0))
        return gop_fail(GOP_BAD_ARGUMENT, "%s: takes %d arrays, got %d",
                        gop_reductions[params->op], 1 + (params->has_where != 0), call->nin);
    if (params->has_initial && params->op != GOP_SUM && params->op != GOP_PROD &&
        !is_extreme(params->op))
        return gop_fail(GOP_BAD_TYPE, "%s: takes no initial", gop_reductions[params->op]);
    if (is_arg(params->op) && params->axes.given && params->axes.count != 1)
        return gop_fail(GOP_BAD_TYPE, "%s: takes one axis or none, got %d axes",
                        gop_reductions[params->op], params->axes.count);
    if (params->exact) GOP_TRY(check_exact(call));
    return params->has_where ? check_where(call) : GOP_OK;
}

static gop_status reduce_infer(const gop_call *call, gop_array *out)
{
    const gop_array *a = &call->in[0];
    const gop_reduce_params *params = &call->params.reduce;
    int reduces[GOP_MAX_NDIM];
    int empty = 0;
    char text[256];
    GOP_TRY(check_params(call));
    GOP_TRY(reduce_resolve_axes(call, reduces));
    out->dtype = gop_reduction_dtype(params->op, a->dtype);
    out->ndim = 0;
    for (int d = 0; d < a->ndim; d++) {
        if (reduces[d]) empty |= a->shape[d] == 0;
        if (reduces[d] && !params->keepdims) continue;
        out->shape[out->ndim++] = reduces[d] ? 1 : a->shape[d];
    }
    if (params->exact == GOP_EXACT_SUMS) {
        const int numbers = gop_exact_numbers(a->dtype);
        if (out->ndim == GOP_MAX_NDIM)
            return gop_fail(GOP_BAD_ARGUMENT, "%s: exact sums of %d axes need one more",
                            gop_reductions[params->op], GOP_MAX_NDIM);
        out->dtype = GOP_INT64;
        out->shape[out->ndim++] = gop_dtype_kind(a->dtype) == 'c' ? 2 * numbers : numbers;
    }
    if (empty && ((is_extreme(params->op) && !params->has_initial) || is_arg(params->op)))
        return gop_fail(
            GOP_BAD_ARGUMENT,
            "%s: there is nothing to reduce in the array of shape %s, and there is no identity",
            gop_reductions[params->op], gop_shape_text(text, a->ndim, a->shape));
    return GOP_OK;
}

/* Puts axes [first, last) in memory order: the input's smallest stride last. */
static void sort_axes(gop_reduction *g, int first, int last)
{
    for (int j = first + 1; j < last; j++)
        for (int k = j; k > first && gop_magnitude(g->in[k]) > gop_magnitude(g->in[k - 1]);
             k--) {
            gop_swap(g->extent, k, k - 1);
            gop_swap(g->in, k, k - 1);
            gop_swap(g->where, k, k - 1);
            gop_swap(g->out, k, k - 1);
        }
}

static int any_order(const gop_reduce_params *params, gop_dtype dtype)
{
    const gop_reduce_op op = params->op;
    const char kind = gop_dtype_kind(dtype);
    if (params->exact) return 1;
    if (op == GOP_ANY || op == GOP_ALL) return 1;
    if (is_extreme(op)) return kind != 'c'; /* NumPy keeps the first complex NaN */
    return (op == GOP_SUM || op == GOP_PROD) && kind != 'f' && kind != 'c';
}

/* Appends the axes d with reduces[d] == which to the geometry; returns the number of axes. */
static int append_axes(gop_task *task, const int *reduces, int which, int rank)
{
    gop_reduction *g = &task->geometry.reduction;
    const gop_array *a = &task->in[0], *where = &task->in[1], *out = &task->out[0];
    const gop_reduce_params *params = &task->call->params.reduce;
    const int64_t item = gop_array_item(a), out_item = gop_dtype_size(out->dtype);
    int o = 0;
    for (int d = 0; d < a->ndim; d++) {
        const int at = reduces[d] && !params->keepdims ? -1 : o++; /* the output's axis */
        if (reduces[d] != which) continue;
        g->extent[rank] = a->shape[d];
        g->in[rank] = a->strides[d] / item;
        g->out[rank] = which ? 0 : out->strides[at] / out_item;
        const int w = params->has_where ? where->ndim - a->ndim + d : -1;
        g->where[rank++] = w < 0 || where->shape[w] == 1 ? 0 : where->strides[w];
    }
    return rank;
}

static int64_t product(const int64_t *extent, int first, int last)
{
    int64_t size = 1;
    for (int d = first; d < last; d++) size *= extent[d];
    return size;
}

static gop_status reduce_plan(gop_task *task)
{
    gop_reduction *g = &task->geometry.reduction;
    int reduces[GOP_MAX_NDIM];
    GOP_TRY(reduce_resolve_axes(task->call, reduces));
    const int kept = append_axes(task, reduces, 0, 0);
    const int rank = append_axes(task, reduces, 1, kept);
    g->outputs = product(g->extent, 0, kept);
    g->count = product(g->extent, kept, rank);
    sort_axes(g, 0, kept);
    if (any_order(&task->call->params.reduce, task->in[0].dtype)) sort_axes(g, kept, rank);

    /* Merged apart, as the boundary between kept and reduced axes must stay; then closed up. */
    int64_t *outer[3] = {g->in, g->where, g->out};
    int64_t *inner[2] = {g->in + kept, g->where + kept};
    g->kept = gop_merge_axes(kept, g->extent, 3, outer);
    g->reduced = gop_merge_axes(rank - kept, g->extent + kept, 2, inner);
    for (int d = 0; d < g->reduced; d++) {
        g->extent[g->kept + d] = g->extent[kept + d];
        g->in[g->kept + d] = g->in[kept + d];
        g->where[g->kept + d] = g->where[kept + d];
        g->out[g->kept + d] = 0;
    }
    return GOP_OK;
}

static int reduce_axis_of(const gop_call *call, int i, int axis)
{
    const gop_array *a = &call->in[0], *in = &call->in[i];
    int reduces[GOP_MAX_NDIM], d = 0;
    if (call->params.reduce.exact == GOP_EXACT_SUMS && axis == call->out[0].ndim - 1) return -2;
    if (reduce_resolve_axes(call, reduces) != GOP_OK) return -1;
    for (int o = 0;; d++)
        if ((!reduces[d] || call->params.reduce.keepdims) && o++ == axis) break;
    const int own = d - (a->ndim - in->ndim);
    return reduces[d] || own < 0 || in->shape[own] == 1 ? -1 : own;
}

static double reduce_flops(const gop_task *task)
{
    const double elements = (double)gop_array_size(&task->in[0]);
    return gop_dtype_kind(task->in[0].dtype) == 'c' ? 2.0 * elements : elements;
}

static int reduce_is_exact(const gop_call *call)
{
    return call->params.reduce.exact != GOP_EXACT_NOT;
}

const gop_descriptor gop_describe_reduce = {
    .name = "reduce",
    .stem = "reduce",
    .called = reduce_called,
    .infer = reduce_infer,
    .plan = reduce_plan,
    .flops = reduce_flops,
    .once = 1,
    .outputs = 1,
    .is_exact = reduce_is_exact,
    .axis_of = reduce_axis_of,
    .casts = 1,
    .by_terms = gop_reduce_by_terms,
};
