/*
 * panels.c - long calls on host arrays, cut into panels along an axis of the output.
 *
 * A panel is a call of its own on views of the arrays: planned, given a kernel and launched as
 * any other. While it is computed the next ones are on their way to the device and the last
 * ones on their way back. The device holds a few panels of each array, never the whole.
 */
#include <string.h>

#include "core/arrays/axes.h"
#include "core/road/panels.h"

enum {
    PANELS = 8,             /* that a call is cut into, unless their size is out of bounds */
    LEAST_BYTES = 16 << 20, /* of a panel's largest operand: enough to keep both ways busy */
    MOST_BYTES = 128 << 20,
    RUN_BYTES = 1 << 10, /* that lie together in a view: shorter runs are slow to gather */
};

/* ---- where to cut ---- */

/* Whether views of so many elements along an axis consist of long runs. */
static int is_smooth(const gop_array *array, int axis, int64_t width)
{
    return gop_magnitude(array->strides[axis]) * (uint64_t)width >= RUN_BYTES;
}

/* Cuts along an axis of the output, or 0 where that would make short runs or no panels. */
static int try_axis(gop_cut *cut, int axis, int64_t count)
{
    const gop_call *call = cut->task->call;
    const gop_array *out = &call->out[0];
    const int64_t width = (out->shape[axis] + count - 1) / count;
    if (width >= out->shape[axis] || !is_smooth(out, axis, width)) return 0;
    for (int i = 0; i < call->nin; i++) {
        const int own = gop_descriptor_of(call->op)->axis_of(call, i, axis);
        if (own >= 0 && !is_smooth(&call->in[i], own, width)) return 0;
        cut->axis[i] = own;
    }
    cut->axis[call->nin] = axis;
    cut->width = width;
    return 1;
}

static int64_t largest_operand(const gop_call *call)
{
    int64_t largest = gop_array_bytes(&call->out[0]);
    for (int i = 0; i < call->nin; i++)
        if (gop_array_bytes(&call->in[i]) > largest) largest = gop_array_bytes(&call->in[i]);
    return largest;
}

/* Of the axes that serve, the outermost one in the output's memory. */
static int choose_panel_axis(gop_cut *cut)
{
    const gop_call *call = cut->task->call;
    const gop_array *out = &call->out[0];
    const int64_t largest = largest_operand(call);
    int64_t panel = largest / PANELS;
    if (panel < LEAST_BYTES) panel = LEAST_BYTES;
    if (panel > MOST_BYTES) panel = MOST_BYTES;
    int found = -1;
    for (int axis = 0; axis < out->ndim; axis++) {
        const int further =
            found < 0 || gop_magnitude(out->strides[axis]) > gop_magnitude(out->strides[found]);
        if (further && try_axis(cut, axis, (largest + panel - 1) / panel)) found = axis;
    }
    return found >= 0;
}

int gop_cut_find(gop_cut *cut, const gop_task *task, gop_ctx *ctx)
{
    const gop_call *call = task->call;
    const gop_array *out = &call->out[0];
    if (!ctx->backend->panels || !gop_descriptor_of(call->op)->in_panels) return 0;
    if (gop_array_bytes(out) < 2 * LEAST_BYTES || !gop_array_on_host(out)) return 0;
    for (int i = 0; i < call->nin; i++)
        /* The first panels of the output are written while the last of the inputs are read. */
        if (!gop_array_on_host(&call->in[i]) || gop_array_may_overlap(&call->in[i], out))
            return 0;
    memset(cut, 0, sizeof *cut);
    cut->task = task;
    cut->ctx = ctx;
    return choose_panel_axis(cut);
}

/* ---- a panel ---- */

static void operand(const gop_panels *panels, int panel, int k, gop_array *host,
                    gop_array *device)
{
    const gop_cut *cut = (const gop_cut *)panels;
    const gop_call *call = cut->task->call;
    const int is_out = k == panels->nin;
    const int axis = cut->axis[is_out ? call->nin : cut->input[k]];
    const int64_t begin = panel * cut->width;
    gop_array_assign(host, is_out ? &call->out[0] : &call->in[cut->input[k]]);
    host->data = (char *)host->data + begin * host->strides[axis];
    host->shape[axis] -= begin;
    if (host->shape[axis] > cut->width) host->shape[axis] = cut->width;
    gop_array_dense(host, device);
    device->where = cut->ctx->device;
    device->data = cut->memory[k] + (size_t)(panel % panels->depth) * cut->bytes[k];
}

/* The panel as a task of its own, and the kernel that it is for. */
static gop_status plan_panel(const gop_cut *cut, int panel, gop_task *task, gop_plan *plan)
{
    const gop_call *call = cut->task->call;
    const gop_row *row;
    gop_array host;
    int k = 0;
    task->call = call;
    task->nin = call->nin;
    task->nout = 1;
    task->scratch = cut->scratch;
    for (int i = 0; i < call->nin; i++) {
        if (cut->axis[i] < 0) gop_array_assign(&task->in[i], &cut->task->in[i]);
        else operand(&cut->panels, panel, k++, &host, &task->in[i]);
    }
    operand(&cut->panels, panel, k, &host, &task->out[0]);
    GOP_TRY(gop_descriptor_of(call->op)->plan(task));
    return gop_choose(cut->ctx, task, NULL, 0, &row, plan);
}

static gop_status launch_panel(const gop_panels *panels, gop_ctx *ctx, int panel)
{
    gop_plan plan;
    gop_task task;
    GOP_TRY(plan_panel((const gop_cut *)panels, panel, &task, &plan));
    for (int64_t s = 0; s < plan.steps; s++) GOP_TRY(plan.launch(ctx, &task, s));
    return GOP_OK;
}

/* ---- all of them ---- */

static gop_status take_memory(gop_cut *cut)
{
    const gop_backend *backend = cut->ctx->backend;
    const gop_panels *panels = &cut->panels;
    for (int k = 0; k <= panels->nin; k++) {
        gop_array host, device;
        operand(panels, 0, k, &host, &device); /* none is larger than the first */
        cut->bytes[k] = (gop_array_dense(&host, &device) + 255) / 256 * 256;
        GOP_TRY(backend->alloc(cut->ctx, cut->bytes[k] * (size_t)panels->depth,
                               (void **)&cut->memory[k]));
    }
    size_t scratch = 0;
    for (int panel = 0; panel < panels->count; panel += panels->count - 1) {
        gop_plan plan;
        gop_task task;
        GOP_TRY(plan_panel(cut, panel, &task, &plan));
        if (plan.scratch > scratch) scratch = plan.scratch;
    }
    return scratch ? backend->alloc(cut->ctx, scratch, &cut->scratch) : GOP_OK;
}

gop_status gop_cut_run(gop_cut *cut)
{
    const gop_call *call = cut->task->call;
    const gop_backend *backend = cut->ctx->backend;
    gop_panels *panels = &cut->panels;
    const int64_t extent = call->out[0].shape[cut->axis[call->nin]];
    panels->count = (int)((extent + cut->width - 1) / cut->width);
    panels->depth = panels->count < GOP_MAX_DEPTH ? panels->count : GOP_MAX_DEPTH;
    panels->nout = 1;
    panels->operand = operand;
    panels->launch = launch_panel;
    for (int i = 0; i < call->nin; i++)
        if (cut->axis[i] >= 0) cut->input[panels->nin++] = i;
    gop_status status = gop_named(gop_descriptor_of(call->op)->name, take_memory(cut));
    if (status == GOP_OK) status = backend->panels(cut->ctx, panels);
    for (int k = 0; k <= panels->nin; k++) backend->release(cut->ctx, cut->memory[k]);
    if (cut->scratch) backend->release(cut->ctx, cut->scratch);
    return status;
}
