/*
 * reduce_exact.c - an exact sum of more terms than a device has memory for, half after half.
 *
 * Its numbers add in any order, so the terms are cut in two along any axis, and each half is a
 * call of its own that may be cut again.
 */
#include <string.h>

#include "core/exact.h"
#include "core/ops/reduce.h"

enum { LEAST = 2048 }; /* terms that are not cut */

/* The longest axis of the terms. */
static int longest_axis(const gop_array *a)
{
    int longest = 0;
    for (int d = 1; d < a->ndim; d++)
        if (a->shape[d] > a->shape[longest]) longest = d;
    return longest;
}

/* [begin, end) of an axis of an operand that broadcasts to so many axes. */
static void narrow_terms(gop_array *array, int ndim, int axis, int64_t begin, int64_t end)
{
    const int own = axis - (ndim - array->ndim);
    if (own < 0 || array->shape[own] == 1) return;
    array->data = (char *)array->data + begin * array->strides[own];
    array->shape[own] = end - begin;
}

/* The sums of the terms [begin, end) of an axis, as numbers. */
static gop_status sum_half(const gop_call *call, const gop_run_options *options, gop_runner run,
                           int axis, int64_t begin, int64_t end, int64_t *numbers, int count)
{
    gop_call half = *call;
    gop_array *const out = &half.out[0];
    half.params.reduce.exact = GOP_EXACT_SUMS;
    half.params.reduce.has_initial = 0;
    for (int i = 0; i < half.nin; i++)
        narrow_terms(&half.in[i], call->in[0].ndim, axis, begin, end);
    if (call->params.reduce.exact != GOP_EXACT_SUMS) { /* its numbers are one more axis */
        if (out->ndim == GOP_MAX_NDIM) return GOP_NO_DEVICE_MEMORY;
        out->shape[out->ndim++] = count;
    }
    out->dtype = GOP_INT64;
    out->data = numbers;
    out->stored = 0;
    out->where = (gop_device){GOP_CPU, 0};
    gop_array_c_order(out);
    return run(&half, options);
}

static void finish_half(const gop_call *call, int64_t *sum, int part, void *result)
{
    const gop_reduce_params *params = &call->params.reduce;
    const gop_dtype dtype = call->out[0].dtype;
    const gop_exact_format format = gop_exact_format_of(dtype);
    const uint64_t by = params->op == GOP_MEAN ? (uint64_t)sum[1] : 1;
    uint64_t initial;
    memcpy(&initial, &params->initial.f[part], sizeof initial);
    const uint64_t bits =
        gop_exact_finish(sum[0], gop_exact_line_of(sum + GOP_EXACT_HEAD, 1, call->in[0].dtype),
                         by, params->has_initial ? &initial : NULL, format);
    const size_t bytes = (size_t)format.bits / 8;
    gop_exact_store((char *)result + (size_t)part * bytes, bits, format.bits);
}

gop_status gop_reduce_exactly_by_terms(const gop_call *call, const gop_run_options *options,
                                       gop_runner run)
{
    const gop_array *a = &call->in[0];
    const gop_dtype dtype = a->dtype;
    const int parts = gop_dtype_kind(dtype) == 'c' ? 2 : 1, numbers = gop_exact_numbers(dtype);
    int64_t sums[2][2 * (GOP_EXACT_HEAD + GOP_EXACT_WIDE)];
    _Alignas(16) unsigned char result[16];
    if (gop_array_size(a) <= LEAST) return GOP_NO_DEVICE_MEMORY;
    const int axis = longest_axis(a);
    const int64_t extent = a->shape[axis], middle = extent / 2;
    const int count = parts * numbers;
    GOP_TRY(sum_half(call, options, run, axis, 0, middle, sums[0], count));
    GOP_TRY(sum_half(call, options, run, axis, middle, extent, sums[1], count));
    for (int p = 0; p < parts; p++)
        gop_exact_merge(sums[0] + p * numbers, sums[1] + p * numbers, dtype);
    if (call->params.reduce.exact == GOP_EXACT_SUMS) {
        gop_unpack(&call->out[0], 0, count, sums[0]);
        return GOP_OK;
    }
    for (int p = 0; p < parts; p++) finish_half(call, sums[0] + p * numbers, p, result);
    gop_unpack(&call->out[0], 0, 1, result);
    return GOP_OK;
}
