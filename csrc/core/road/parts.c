/*
 * parts.c - gop_run: a call as one request, or as a loop over several.
 *
 * A part is a call of its own on views of the arrays. A long call on host arrays goes in
 * panels: while one is computed, the next ones are uploaded and the last ones downloaded. A
 * call that needs more memory than the device has is cut in two, and each half again, until
 * they fit; so is one whose cast copies would leave the caches. And a call with deferred
 * validation runs again if its kernels find an error, or data other than assumed.
 */
#include <stdio.h>
#include <string.h>

#include "core/arrays/axes.h"
#include "core/host/threads.h"
#include "core/road/road.h"

/* Narrows an operand to [begin, end) of an axis. */
static void narrow_operand(gop_array *array, int axis, int64_t begin, int64_t end)
{
    array->data = (char *)array->data + begin * array->strides[axis];
    array->shape[axis] = end - begin;
}

/* ---- panels ---- */

/* A call that is cut into panels along an axis of the output. */
typedef struct cut {
    gop_panels panels; /* first, as the backend sees only it; the output is its last operand */
    const gop_task *task; /* the whole call; its inputs that are not cut are on the device */
    gop_ctx *ctx;
    int axis[GOP_MAX_INPUTS + 1];     /* along which inputs and output are cut; -1: not cut */
    int64_t width;                    /* of a panel along that axis */
    int input[GOP_MAX_INPUTS];        /* operand k is a part of this input */
    char *memory[GOP_MAX_INPUTS + 1]; /* of operand k, for `depth` panels */
    size_t bytes[GOP_MAX_INPUTS + 1]; /* of one panel */
    void *scratch;
} cut;

enum {
    PANELS = 8,             /* of a call, unless their size is out of bounds */
    LEAST_BYTES = 16 << 20, /* of a panel's largest operand: enough to keep both ways busy */
    MOST_BYTES = 128 << 20,
    RUN_BYTES = 1 << 10, /* in a row in a view: shorter runs are slow to gather */
};

/* ---- where to cut ---- */

/* Whether views of `width` elements along an axis consist of long runs. */
static int is_smooth(const gop_array *array, int axis, int64_t width)
{
    return gop_magnitude(array->strides[axis]) * (uint64_t)width >= RUN_BYTES;
}

/* Cuts along an axis of the output; returns 0 if that would make short runs or no panels. */
static int try_axis(cut *c, int axis, int64_t count)
{
    const gop_call *call = c->task->call;
    const gop_array *out = &call->out[0];
    const int64_t width = (out->shape[axis] + count - 1) / count;
    if (width >= out->shape[axis] || !is_smooth(out, axis, width)) return 0;
    for (int i = 0; i < call->nin; i++) {
        const int own = gop_descriptor_of(call->op)->axis_of(call, i, axis);
        if (own >= 0 && !is_smooth(&call->in[i], own, width)) return 0;
        c->axis[i] = own;
    }
    c->axis[call->nin] = axis;
    c->width = width;
    return 1;
}

static int64_t largest_operand(const gop_call *call)
{
    int64_t largest = gop_array_bytes(&call->out[0]);
    for (int i = 0; i < call->nin; i++)
        if (gop_array_bytes(&call->in[i]) > largest) largest = gop_array_bytes(&call->in[i]);
    return largest;
}

/* Chooses, among the axes that can be cut, the outermost one in the output's memory. */
static int choose_panel_axis(cut *c)
{
    const gop_call *call = c->task->call;
    const gop_array *out = &call->out[0];
    const int64_t largest = largest_operand(call);
    int64_t panel = largest / PANELS;
    if (panel < LEAST_BYTES) panel = LEAST_BYTES;
    if (panel > MOST_BYTES) panel = MOST_BYTES;
    int found = -1;
    for (int axis = 0; axis < out->ndim; axis++) {
        const int further =
            found < 0 || gop_magnitude(out->strides[axis]) > gop_magnitude(out->strides[found]);
        if (further && try_axis(c, axis, (largest + panel - 1) / panel)) found = axis;
    }
    return found >= 0;
}

static int find_cut(cut *c, const gop_task *task, gop_ctx *ctx)
{
    const gop_call *call = task->call;
    const gop_array *out = &call->out[0];
    if (!ctx->backend->panels || !gop_descriptor_of(call->op)->in_panels) return 0;
    if (gop_array_bytes(out) < 2 * LEAST_BYTES || !gop_array_on_host(out)) return 0;
    for (int i = 0; i < call->nin; i++)
        /* The first panels of the output are written while the last of the inputs are read. */
        if (!gop_array_on_host(&call->in[i]) || gop_array_may_overlap(&call->in[i], out))
            return 0;
    memset(c, 0, sizeof *c);
    c->task = task;
    c->ctx = ctx;
    return choose_panel_axis(c);
}

/* ---- a panel ---- */

static void operand(const gop_panels *panels, int panel, int k, gop_array *host,
                    gop_array *device)
{
    const cut *c = (const cut *)panels;
    const gop_call *call = c->task->call;
    const int is_out = k == panels->nin;
    const int axis = c->axis[is_out ? call->nin : c->input[k]];
    gop_array_assign(host, is_out ? &call->out[0] : &call->in[c->input[k]]);
    const int64_t begin = panel * c->width, left = host->shape[axis] - begin;
    narrow_operand(host, axis, begin, begin + (left < c->width ? left : c->width));
    gop_array_dense(host, device);
    device->where = c->ctx->device;
    device->data = c->memory[k] + (size_t)(panel % panels->depth) * c->bytes[k];
}

/* Makes the panel a task of its own, and finds its kernel. */
static gop_status plan_panel(const cut *c, int panel, gop_task *task, gop_plan *plan)
{
    const gop_call *call = c->task->call;
    const gop_row *row;
    gop_array host;
    int k = 0;
    task->call = call;
    task->nin = call->nin;
    task->nout = 1;
    task->scratch = c->scratch;
    for (int i = 0; i < call->nin; i++) {
        if (c->axis[i] < 0) gop_array_assign(&task->in[i], &c->task->in[i]);
        else operand(&c->panels, panel, k++, &host, &task->in[i]);
    }
    operand(&c->panels, panel, k, &host, &task->out[0]);
    GOP_TRY(gop_descriptor_of(call->op)->plan(task));
    return gop_choose(c->ctx, task, NULL, 0, &row, plan);
}

static gop_status launch_panel(const gop_panels *panels, gop_ctx *ctx, int panel)
{
    gop_plan plan;
    gop_task task;
    GOP_TRY(plan_panel((const cut *)panels, panel, &task, &plan));
    for (int64_t s = 0; s < plan.steps; s++) GOP_TRY(plan.launch(ctx, &task, s));
    return GOP_OK;
}

/* ---- all of them ---- */

static gop_status take_memory(cut *c)
{
    const gop_backend *backend = c->ctx->backend;
    const gop_panels *panels = &c->panels;
    for (int k = 0; k <= panels->nin; k++) {
        gop_array host, device;
        operand(panels, 0, k, &host, &device); /* none is larger than the first */
        c->bytes[k] = (gop_array_dense(&host, &device) + 255) / 256 * 256;
        GOP_TRY(backend->alloc(c->ctx, c->bytes[k] * (size_t)panels->depth,
                               (void **)&c->memory[k]));
    }
    size_t scratch = 0;
    for (int panel = 0; panel < panels->count; panel += panels->count - 1) {
        gop_plan plan;
        gop_task task;
        GOP_TRY(plan_panel(c, panel, &task, &plan));
        if (plan.scratch > scratch) scratch = plan.scratch;
    }
    return scratch ? backend->alloc(c->ctx, scratch, &c->scratch) : GOP_OK;
}

static gop_status run_panels(cut *c)
{
    const gop_call *call = c->task->call;
    const gop_backend *backend = c->ctx->backend;
    gop_panels *panels = &c->panels;
    const int64_t extent = call->out[0].shape[c->axis[call->nin]];
    panels->count = (int)((extent + c->width - 1) / c->width);
    panels->depth = panels->count < GOP_MAX_DEPTH ? panels->count : GOP_MAX_DEPTH;
    panels->nout = 1;
    panels->operand = operand;
    panels->launch = launch_panel;
    for (int i = 0; i < call->nin; i++)
        if (c->axis[i] >= 0) c->input[panels->nin++] = i;
    gop_status status = gop_named(gop_call_name(call), take_memory(c));
    if (status == GOP_OK) status = backend->panels(c->ctx, panels);
    for (int k = 0; k <= panels->nin; k++) backend->release(c->ctx, c->memory[k]);
    if (c->scratch) backend->release(c->ctx, c->scratch);
    return status;
}

/* ---- halves ---- */

enum { TILE = 256 }; /* long parts end at multiples of it: so do tiles and aligned runs */

/* Whether all arrays are the host's, and no part writes what a later one reads. */
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

/* The part that gives [begin, end) of an axis of the output. */
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

/* The axis of the output that leaves the smallest first part; -1 if none makes it smaller. */
static int choose_part_axis(const gop_call *call)
{
    gop_call part;
    size_t least = device_bytes(call);
    int found = -1;
    for (int axis = 0; axis < call->out[0].ndim; axis++) {
        const int64_t extent = call->out[0].shape[axis];
        const int cannot = gop_descriptor_of(call->op)->axis_of(call, 0, axis) == -2;
        if (extent < 2 || cannot) continue;
        part_of_call(call, axis, 0, middle(extent), &part);
        const size_t bytes = device_bytes(&part);
        if (bytes < least) least = bytes, found = axis;
    }
    return found;
}

static gop_status run_halves(const gop_call *call, const gop_run_options *options, int axis)
{
    const int64_t extent = call->out[0].shape[axis];
    gop_call half;
    part_of_call(call, axis, 0, middle(extent), &half);
    GOP_TRY(gop_run(&half, options));
    part_of_call(call, axis, middle(extent), extent, &half);
    return gop_run(&half, options);
}

static gop_status run_smaller(const gop_call *call, const gop_run_options *options)
{
    const gop_descriptor *op = gop_descriptor_of(call->op);
    const int axis = choose_part_axis(call);
    if (axis >= 0) return run_halves(call, options, axis);
    return op->by_terms ? op->by_terms(call, options, gop_run) : GOP_NO_DEVICE_MEMORY;
}

/* Runs a call that did not fit the device in parts that do. If it cannot be cut, or the
 * smallest part does not fit, the first message stays. */
static gop_status run_parts(const gop_call *call, const gop_run_options *options)
{
    static const char ending[] =
        "; this was for the smallest part that the call can be cut into";
    if (options->kernel || call->ntunables > 0 || !can_be_cut(call))
        return GOP_NO_DEVICE_MEMORY;
    const unsigned environment = gop_float_environment(NULL);
    const gop_status status = run_smaller(call, options);
    gop_float_environment(&environment);
    char *const said = gop_error_slot()->message;
    const size_t used = strlen(said);
    if (status == GOP_NO_DEVICE_MEMORY && !strstr(said, ending))
        snprintf(said + used, sizeof gop_error_slot()->message - used, "%s", ending);
    return status;
}

/* ---- casts on the host ---- */

enum { CAST_BYTES = 1 << 20 }; /* of a thread's copies at a time: its L2 cache */

static int64_t bytes_cast(const gop_call *call)
{
    int64_t bytes = call->out[0].stored ? gop_array_bytes(&call->out[0]) : 0;
    for (int i = 0; i < call->nin; i++) {
        gop_array dense;
        if (call->in[i].stored) bytes += (int64_t)gop_array_dense(&call->in[i], &dense);
    }
    return bytes;
}

/* The outermost axis in the output's memory that can be cut, or -1. */
static int outermost_axis(const gop_array *out)
{
    int found = -1;
    for (int axis = 0; axis < out->ndim; axis++)
        if (out->shape[axis] > 1 && (found < 0 || gop_magnitude(out->strides[axis]) >
                                                      gop_magnitude(out->strides[found])))
            found = axis;
    return found;
}

static int casts_much(const gop_call *call, const gop_run_options *options)
{
    const gop_backend *backend;
    const int64_t bytes = bytes_cast(call);
    if (!bytes || bytes <= (int64_t)gop_threads() * CAST_BYTES) return 0;
    if (options->kernel || call->ntunables > 0) return 0;
    return gop_descriptor_of(call->op)->in_panels && outermost_axis(&call->out[0]) >= 0 &&
           can_be_cut(call) && !gop_array_self_overlaps(&call->out[0]) &&
           gop_backend_get(options->device.backend, &backend) == GOP_OK &&
           backend->facts & GOP_HOST_MEMORY;
}

/* ---- a call ---- */

/* Inputs that are not cut go to the device whole, the others panel by panel. */
static gop_status run_cut(gop_road *r, cut *c)
{
    for (int i = 0; i < r->task.nin; i++) {
        if (c->axis[i] >= 0) continue;
        GOP_TRY(gop_named(gop_call_name(r->call),
                          gop_acquire_operand(r->ctx, 0, &r->task.in[i], &r->in[i])));
        GOP_TRY(gop_upload_operand(r->ctx, &r->task.in[i], &r->in[i]));
    }
    return run_panels(c);
}

/* It has a frame of its own: a cut is large, and most calls have none. */
static __attribute__((noinline)) gop_status run_cut_or_whole(gop_road *r, int64_t *assumed)
{
    cut c;
    return find_cut(&c, &r->task, r->ctx) ? run_cut(r, &c) : gop_run_planned(r, 0, assumed);
}

/* Runs all phases. `*assumed` is what kernels assume of data and check themselves, or 0; it
 * becomes what to assume next. */
static gop_status run_phases(const gop_call *call, const gop_run_options *options,
                             int64_t *assumed)
{
    const int named = options->kernel != NULL;
    gop_road r;
    gop_road_begin(&r, call, *assumed);
    *assumed = 0;
    gop_status status = gop_validate(&r, options);
    if (status == GOP_OK) status = gop_plan_call(&r, options, 0);
    if (status == GOP_OK)
        status = named || !r.ctx->backend->panels ? gop_run_planned(&r, named, assumed)
                                                  : run_cut_or_whole(&r, assumed);
    gop_road_end(&r);
    return status;
}

gop_status gop_run(const gop_call *call, const gop_run_options *options)
{
    const gop_descriptor *op = gop_descriptor_of(call->op);
    if (casts_much(call, options)) {
        if (!options->fits) GOP_TRY(gop_check_outputs(call));
        return run_halves(call, options, outermost_axis(&call->out[0]));
    }
    /* Kernels that validate may find an error, or data other than assumed, or have no memory to
     * report it. Then the call runs again, at last with the check first. */
    int64_t assumed = op->defer ? op->defer(call, options) : 0, tried;
    gop_status status;
    do {
        tried = assumed;
        status = run_phases(call, options, &assumed);
    } while (tried && (status == GOP_REFUSED || gop_lacks_memory(status)));
    return status == GOP_NO_DEVICE_MEMORY ? run_parts(call, options) : status;
}
