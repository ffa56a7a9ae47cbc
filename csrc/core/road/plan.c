/*
 * plan.c - the second phase of the road: decides where each array lies on the device, and what
 * runs.
 *
 * Arrays that kernels cannot use in place get a dense layout, whose addresses come later. Then
 * the operation fills the geometry, and choose.c finds the kernel.
 */
#include <string.h>

#include "core/choice.h"
#include "core/road/road.h"

/* Whether the device's kernels can use an array in place. `casts`: the operation's kernels cast
 * what they read on the host. */
static inline int lies_well(const gop_ctx *ctx, const gop_array *array, int casts)
{
    const int facts = ctx->backend->facts;
    const int reads = facts & GOP_HOST_MEMORY && gop_array_on_host(array);
    const int may_cast = casts && reads && facts & GOP_CASTS;
    if (!gop_array_is_item_aligned(array) || (array->stored && !may_cast)) return 0;
    return reads || (array->where.backend == ctx->device.backend &&
                     array->where.ordinal == ctx->device.ordinal);
}

gop_status gop_check_place(const gop_ctx *ctx, const char *op, const char *what, int index,
                           const gop_array *source)
{
    if (gop_array_on_host(source)) return GOP_OK;
    const char *const lives = gop_backend_name(source->where.backend);
    if (source->where.backend != ctx->device.backend ||
        source->where.ordinal != ctx->device.ordinal)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: %s %d lives on %s:%d, expected memory of %s:%d or of the host; "
                        "move it with .get() or to_device()",
                        op, what, index, lives, source->where.ordinal, ctx->backend->name,
                        ctx->device.ordinal);
    return gop_fail(
        GOP_BAD_ARGUMENT,
        "%s: %s %d on %s:%d is not aligned to its %d-byte items, expected an aligned "
        "device array",
        op, what, index, lives, source->where.ordinal, (int)gop_array_item(source));
}

/* Gives a dense layout at an address to come, a multiple of 256 as every allocation is. */
static void lay_out(const gop_ctx *ctx, const gop_array *source, gop_array *array,
                    gop_staged *staged)
{
    staged->source = source;
    staged->bytes = gop_array_dense(source, array);
    array->where = ctx->device;
    array->data = (void *)256;
}

static gop_status stage_input(gop_road *r, int i)
{
    const gop_array *const source = &r->source[i];
    gop_array_assign(&r->task.in[i], source);
    if (lies_well(r->ctx, source, r->op->casts)) return GOP_OK;
    GOP_TRY(gop_check_place(r->ctx, gop_call_name(r->call), "input", i, source));
    lay_out(r->ctx, source, &r->task.in[i], &r->in[i]);
    return GOP_OK;
}

/* Whether an output shares memory with an input that is used in place: then it is written
 * elsewhere first. */
static int needs_copy(const gop_road *r, const gop_array *out)
{
    for (int i = 0; i < r->call->nin; i++) {
        const gop_array *in = &r->source[i];
        if (r->in[i].source || !gop_array_may_overlap(in, out)) continue;
        if (!(r->op->in_place && gop_array_same_layout(in, out))) return 1;
    }
    return 0;
}

/* `copies`: the output is written elsewhere first. */
static gop_status stage_output(gop_road *r, int o, int copies)
{
    const gop_array *const source = &r->call->out[o];
    const char *const op = gop_call_name(r->call);
    gop_array_assign(&r->task.out[o], source);
    if (gop_array_self_overlaps(source))
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: the output's elements overlap each other in memory, "
                        "expected an array in which each has its own place",
                        op);
    if (lies_well(r->ctx, source, 0) && !copies) return GOP_OK;
    if (!copies) GOP_TRY(gop_check_place(r->ctx, op, "output", o, source));
    lay_out(r->ctx, source, &r->task.out[o], &r->out[o]);
    return GOP_OK;
}

/* Whether kernels can use every array in place, as they mostly can. An output that was made for
 * the call shares no memory with its inputs. */
static int is_in_place(const gop_road *r, int made)
{
    const int on_host = r->ctx->backend->facts & GOP_HOST_MEMORY;
    int all = made && (on_host || lies_well(r->ctx, &r->call->out[0], 0));
    for (int i = 0; all && i < r->call->nin; i++)
        all = lies_well(r->ctx, &r->source[i], r->op->casts);
    return all;
}

static gop_status stage(gop_road *r, int made)
{
    const gop_call *call = r->call;
    r->staged = !is_in_place(r, made);
    if (!r->staged) {
        for (int i = 0; i < call->nin; i++) gop_array_assign(&r->task.in[i], &r->source[i]);
        gop_array_assign(&r->task.out[0], &call->out[0]);
        return GOP_OK;
    }
    memset(r->in, 0, sizeof r->in);
    memset(r->out, 0, sizeof r->out);
    for (int i = 0; i < call->nin; i++) GOP_TRY(stage_input(r, i));
    /* A result that rests on an assumption waits until kernels have verified it. */
    const int may_be_dropped = r->task.finding < 0 && !made;
    for (int o = 0; o < call->nout; o++)
        GOP_TRY(stage_output(r, o, may_be_dropped || needs_copy(r, &call->out[o])));
    return GOP_OK;
}

int gop_road_waits(const gop_road *r)
{
    int waits = !(r->ctx->backend->facts & GOP_STREAMS);
    for (int o = 0; r->staged && o < r->task.nout; o++)
        waits |= r->out[o].source && gop_array_on_host(r->out[o].source);
    return waits;
}

/* All calls on device arrays use one stream; a call on host arrays has a stream of its own. */
static void choose_stream(gop_road *r)
{
    const gop_call *call = r->call;
    int device_arrays = 0;
    if (!r->ctx->backend->use) return;
    for (int i = 0; i < call->nin; i++) device_arrays |= !gop_array_on_host(&call->in[i]);
    for (int o = 0; o < call->nout; o++) device_arrays |= !gop_array_on_host(&call->out[o]);
    r->in_order = device_arrays;
    r->stream_before =
        gop_use_stream(r->ctx, device_arrays ? GOP_DEFAULT_STREAM : GOP_OWN_STREAM);
}

gop_status gop_plan_call(gop_road *r, const gop_run_options *options, int timing)
{
    const gop_call *call = r->call;
    GOP_TRY(gop_context_of(options->device, &r->ctx));
    if (r->like) r->ctx = gop_imagine(r->ctx, r->like, &r->imagined);
    choose_stream(r);
    r->task.call = call;
    r->task.finding = r->arena.finding;
    r->task.nin = call->nin;
    r->task.nout = call->nout;
    r->source = call->in;
    if (r->op->prepare) {
        gop_array *const prepared = gop_arena_alloc(&r->arena, sizeof call->in);
        if (!prepared) return GOP_NO_MEMORY;
        memcpy(prepared, call->in, sizeof call->in);
        GOP_TRY(r->op->prepare(&r->task, prepared, &r->arena));
        r->source = prepared;
    }
    GOP_TRY(stage(r, options->made));
    GOP_TRY(r->op->plan(&r->task));
    return gop_choose(r->ctx, &r->task, options->kernel, timing, &r->row, &r->plan);
}
