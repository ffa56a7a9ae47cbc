/*
 * parts.c - calls on host arrays that need more memory than the device has: cut in two, and
 * each part again, until they fit.
 *
 * A part is a call of its own on views of the arrays. The first of two is never the smaller
 * one, so that memory lacks, if it does, before anything is written.
 */
#include <stdio.h>
#include <string.h>

#include "core/arrays/axes.h"
#include "core/host/threads.h"
#include "core/road/outputs.h"
#include "core/road/parts.h"

enum { TILE = 256 }; /* long parts end at multiples of it: so do tiles and aligned runs */

/* Its arrays are all the host's, and no part writes what a later one reads. */
static int can_be_cut(const gop_call *call)
{
    const gop_descriptor *op = gop_descriptor_of(call->op);
    const gop_array *out = &call->out[0];
    if (!op->axis_of || call->nout != 1 || !gop_array_on_host(out)) return 0;
    for (int i = 0; i < call->nin; i++) {
        const gop_array *in = &call->in[i];
        if (!gop_array_on_host(in)) return 0;
        if (gop_array_may_overlap(in, out) && !(op->in_place && gop_array_same_layout(in, out)))
            return 0;
    }
    return 1;
}

static void narrow_operand(gop_array *array, int axis, int64_t begin, int64_t end)
{
    array->data = (char *)array->data + begin * array->strides[axis];
    array->shape[axis] = end - begin;
}

/* [begin, end) of an axis of the output. */
static void part_of_call(const gop_call *whole, int axis, int64_t begin, int64_t end,
                         gop_call *part)
{
    *part = *whole;
    narrow_operand(&part->out[0], axis, begin, end);
    for (int i = 0; i < whole->nin; i++) {
        const int own = gop_descriptor_of(whole->op)->axis_of(whole, i, axis);
        if (own >= 0) narrow_operand(&part->in[i], own, begin, end);
    }
}

static int64_t middle(int64_t extent)
{
    const int64_t half = (extent + 1) / 2;
    return half < TILE ? half : (half + TILE - 1) / TILE * TILE;
}

static size_t device_bytes(const gop_call *call)
{
    gop_array dense;
    size_t bytes = gop_array_dense(&call->out[0], &dense);
    for (int i = 0; i < call->nin; i++) bytes += gop_array_dense(&call->in[i], &dense);
    return bytes;
}

/* The axis of the output that leaves the smallest first part; -1 where none makes it smaller.
 */
static int choose_part_axis(const gop_call *call, gop_call *part)
{
    size_t least = device_bytes(call);
    int found = -1;
    for (int axis = 0; axis < call->out[0].ndim; axis++) {
        const int64_t extent = call->out[0].shape[axis];
        const int cannot = gop_descriptor_of(call->op)->axis_of(call, 0, axis) == -2;
        if (extent < 2 || cannot) continue;
        part_of_call(call, axis, 0, middle(extent), part);
        const size_t bytes = device_bytes(part);
        if (bytes < least) least = bytes, found = axis;
    }
    return found;
}

static gop_status run_both(const gop_call *call, const gop_run_options *options)
{
    gop_call part;
    const int axis = choose_part_axis(call, &part);
    if (axis < 0) {
        const gop_descriptor *op = gop_descriptor_of(call->op);
        return op->by_terms ? op->by_terms(call, options) : GOP_NO_DEVICE_MEMORY;
    }
    const int64_t extent = call->out[0].shape[axis];
    part_of_call(call, axis, 0, middle(extent), &part);
    GOP_TRY(gop_run(&part, options));
    part_of_call(call, axis, middle(extent), extent, &part);
    return gop_run(&part, options);
}

gop_status gop_run_parts(const gop_call *call, const gop_run_options *options)
{
    static const char ending[] =
        "; this was for the smallest part that the call can be cut into";
    if (options->kernel || call->ntunables > 0 || !can_be_cut(call))
        return GOP_NO_DEVICE_MEMORY;
    const unsigned environment = gop_float_environment(NULL);
    const gop_status status = run_both(call, options);
    gop_float_environment(&environment);
    char *const said = gop_error_slot()->message;
    const size_t used = strlen(said);
    if (status == GOP_NO_DEVICE_MEMORY && !strstr(said, ending))
        snprintf(said + used, sizeof gop_error_slot()->message - used, "%s", ending);
    return status;
}

/* ---- casts on the host ---- */

enum { CAST_BYTES = 1 << 20 }; /* of copies at a time, a thread: its L2 cache */

static int64_t bytes_cast(const gop_call *call)
{
    int64_t bytes = call->out[0].stored ? gop_array_bytes(&call->out[0]) : 0;
    for (int i = 0; i < call->nin; i++) {
        gop_array dense;
        if (call->in[i].stored) bytes += (int64_t)gop_array_dense(&call->in[i], &dense);
    }
    return bytes;
}

/* The axis on which the output's memory goes on last, of those that can be cut; or -1. */
static int outermost_axis(const gop_array *out)
{
    int found = -1;
    for (int axis = 0; axis < out->ndim; axis++)
        if (out->shape[axis] > 1 && (found < 0 || gop_magnitude(out->strides[axis]) >
                                                      gop_magnitude(out->strides[found])))
            found = axis;
    return found;
}

int gop_casts_much(const gop_call *call, const gop_run_options *options)
{
    const gop_backend *backend;
    const int64_t bytes = bytes_cast(call);
    if (bytes <= (int64_t)gop_threads() * CAST_BYTES || options->kernel || call->ntunables > 0)
        return 0;
    return gop_descriptor_of(call->op)->in_panels && outermost_axis(&call->out[0]) >= 0 &&
           can_be_cut(call) && !gop_array_self_overlaps(&call->out[0]) &&
           gop_backend_get(options->device.backend, &backend) == GOP_OK &&
           backend->facts & GOP_HOST_MEMORY;
}

gop_status gop_run_halves(const gop_call *call, const gop_run_options *options)
{
    const int axis = outermost_axis(&call->out[0]);
    const int64_t extent = call->out[0].shape[axis];
    gop_call part;
    if (!options->fits) GOP_TRY(gop_check_outputs(call));
    part_of_call(call, axis, 0, middle(extent), &part);
    GOP_TRY(gop_run(&part, options));
    part_of_call(call, axis, middle(extent), extent, &part);
    return gop_run(&part, options);
}
