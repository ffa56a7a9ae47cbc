/*
 * run.c - the road: every call on every device takes the phases below, one after another, and
 * each reads what the one before has filled in.
 *
 *   validate  are the arrays what the operation takes?
 *   plan      where each array lies on the device, and which kernel runs (choose.c)
 *   acquire   all memory, before anything is written
 *   run       upload, launch, download
 *
 * No line here knows an operation: its descriptor answers.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/choice.h"
#include "core/host/threads.h"
#include "core/road/road.h"

/* ---- validate ---- */

/* No device is asked, so that every device raises the same sentence. */

#define GOP_OP(name, stem) extern const gop_descriptor gop_describe_##name;
#include "ops.def"
#undef GOP_OP

const gop_descriptor *gop_descriptor_of(gop_op op)
{
    static const gop_descriptor *const table[] = {
#define GOP_OP(name, stem) &gop_describe_##name,
#include "ops.def"
#undef GOP_OP
    };
    return table[op];
}

const char *gop_call_name(const gop_call *call)
{
    const gop_descriptor *op = gop_descriptor_of(call->op);
    return op->called ? op->called(call) : op->name;
}

gop_status gop_infer_outputs(const gop_call *call, gop_array *out)
{
    const gop_descriptor *op = gop_descriptor_of(call->op);
    int64_t size;
    if (call->nout < 1 || call->nout > op->outputs)
        return gop_fail(GOP_BAD_ARGUMENT, "%s: has %d output%s, got %d", gop_call_name(call),
                        op->outputs, op->outputs > 1 ? "s at most" : "", call->nout);
    for (int i = 0; i < call->nin; i++)
        GOP_TRY(
            gop_shape_size(gop_call_name(call), call->in[i].ndim, call->in[i].shape, &size));
    for (int o = 0; o < call->nout; o++) out[o].stored = 0;
    GOP_TRY(op->infer(call, out));
    for (int o = 0; o < call->nout; o++)
        GOP_TRY(gop_shape_size(gop_call_name(call), out[o].ndim, out[o].shape, &size));
    return GOP_OK;
}

gop_status gop_infer(gop_call *call)
{
    return gop_infer_outputs(call, call->out);
}

gop_status gop_check_outputs(const gop_call *call)
{
    const char *const op = gop_call_name(call);
    gop_array inferred[GOP_MAX_OUTPUTS];
    GOP_TRY(gop_infer_outputs(call, inferred));
    for (int o = 0; o < call->nout; o++) {
        const gop_array *given = &call->out[o], *want = &inferred[o];
        char given_text[256], want_text[256];
        if (given->dtype != want->dtype)
            return gop_fail(GOP_BAD_TYPE, "%s: the output has dtype %s, expected %s", op,
                            gop_dtype_name(given->dtype), gop_dtype_name(want->dtype));
        if (given->ndim != want->ndim ||
            memcmp(given->shape, want->shape, (size_t)want->ndim * sizeof *want->shape) != 0)
            return gop_fail(GOP_BAD_ARGUMENT, "%s: the output has shape %s, expected %s", op,
                            gop_shape_text(given_text, given->ndim, given->shape),
                            gop_shape_text(want_text, want->ndim, want->shape));
    }
    if (call->nout == 2 && gop_array_size(&call->out[1]) > 0 &&
        gop_array_may_overlap(&call->out[0], &call->out[1]))
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: the two outputs share memory, expected them apart", op);
    return GOP_OK;
}

gop_status gop_validate(gop_road *r, const gop_run_options *options)
{
    if (!options->fits) GOP_TRY(gop_check_outputs(r->call));
    return r->op->check ? r->op->check(r->call, &r->arena) : GOP_OK;
}

/* ---- plan ---- */

/* Arrays that kernels cannot use in place get a dense layout, whose addresses come later. */

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

/* Fails with the reason why an array that has to be used in place cannot be. */
static gop_status check_place(const gop_ctx *ctx, const char *op, const char *what, int index,
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
static void lay_out(gop_road *r, const gop_array *source, gop_array *array, gop_staged *staged)
{
    if (!r->staged) { /* this is the first */
        memset(r->in, 0, sizeof r->in);
        memset(r->out, 0, sizeof r->out);
    }
    r->staged = 1;
    staged->source = source;
    staged->bytes = gop_array_dense(source, array);
    array->where = r->ctx->device;
    array->data = (void *)256;
}

static gop_status stage_input(gop_road *r, int i)
{
    const gop_array *const source = &r->source[i];
    gop_array_assign(&r->task.in[i], source);
    if (lies_well(r->ctx, source, r->op->casts)) return GOP_OK;
    GOP_TRY(check_place(r->ctx, gop_call_name(r->call), "input", i, source));
    lay_out(r, source, &r->task.in[i], &r->in[i]);
    return GOP_OK;
}

/* Whether an output shares memory with an input that is used in place: then it is written
 * elsewhere first. */
static int needs_copy(const gop_road *r, const gop_array *out)
{
    for (int i = 0; i < r->call->nin; i++) {
        const gop_array *in = &r->source[i];
        if ((r->staged && r->in[i].source) || !gop_array_may_overlap(in, out)) continue;
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
    if (!copies) GOP_TRY(check_place(r->ctx, op, "output", o, source));
    lay_out(r, source, &r->task.out[o], &r->out[o]);
    return GOP_OK;
}

/* `made`: the only output was made for the call, and shares no memory with its inputs. */
static gop_status stage(gop_road *r, int made)
{
    const gop_call *call = r->call;
    for (int i = 0; i < call->nin; i++) GOP_TRY(stage_input(r, i));
    if (made && lies_well(r->ctx, &call->out[0], 0))
        return gop_array_assign(&r->task.out[0], &call->out[0]), GOP_OK;
    /* A result that rests on an assumption waits until kernels have verified it. */
    const int may_be_dropped = r->task.finding < 0 && !made;
    for (int o = 0; o < call->nout; o++)
        GOP_TRY(stage_output(r, o, may_be_dropped || needs_copy(r, &call->out[o])));
    return GOP_OK;
}

/* Whether the call has to wait: any result goes to the host, or a device has no streams. */
static int waits_for_host(const gop_road *r)
{
    int waits = !(r->ctx->backend->facts & (GOP_STREAMS | GOP_HOST_MEMORY));
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

/* ---- acquire: scratch memory ---- */

/* On a GPU, allocating and freeing scratch memory costs more than a launch. So its backend
 * keeps small blocks of calls on device arrays, as it keeps those of the arrays. They are of
 * one size: each such call finds the block of the one before. */
enum { KEPT_BYTES = 64 << 10 };

/* GPUOPS_KEEP_SCRATCH=0: every call gets memory of its own, so that tools see where it ends. */
static int keeps(const gop_ctx *ctx, size_t bytes, int in_order)
{
    static atomic_int known; /* 0: not yet */
    if (!in_order || !ctx->backend->keep || bytes > KEPT_BYTES) return 0;
    int is = atomic_load_explicit(&known, memory_order_relaxed);
    if (!is) {
        const char *wish = getenv("GPUOPS_KEEP_SCRATCH");
        is = wish && strcmp(wish, "0") == 0 ? -1 : 1;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is > 0;
}

/* Hands it back once the call's work is enqueued. */
static void give_scratch(gop_ctx *ctx, const gop_task *task, int in_order)
{
    if (!task->scratch) return;
    if (!keeps(ctx, task->plan->scratch, in_order)) ctx->backend->release(ctx, task->scratch);
    else ctx->backend->keep(ctx, task->scratch, KEPT_BYTES);
}

/* Gets the task's scratch memory. `may_change`: if there is none, another kernel may run. */
static gop_status acquire_scratch(gop_ctx *ctx, gop_task *task, const gop_row **row,
                                  gop_plan *plan, int in_order, int may_change)
{
    task->scratch = NULL;
    for (;;) {
        /* A call without results runs no kernel. */
        if (plan->scratch == 0 || gop_array_size(&task->out[0]) == 0) return GOP_OK;
        const size_t bytes = keeps(ctx, plan->scratch, in_order) ? KEPT_BYTES : plan->scratch;
        const gop_status status = ctx->backend->alloc(ctx, bytes, &task->scratch);
        if (!gop_lacks_memory(status) || !may_change) return status;
        if (gop_choose_before(ctx, task, row, plan) != GOP_OK) return status;
    }
}

/* ---- acquire: all memory ---- */

/* Up to this size, a kernel that reads over the bus is faster than copies. */
enum { LENT_BYTES = 128 << 10 };

gop_status gop_acquire_operand(gop_ctx *ctx, int small, gop_array *array, gop_staged *staged)
{
    const gop_backend *backend = ctx->backend;
    if (!staged->source) return GOP_OK;
    if (small && backend->zero_copy && staged->bytes <= LENT_BYTES &&
        gop_array_on_host(staged->source))
        staged->memory = backend->zero_copy(ctx, staged->bytes);
    staged->zero_copy = staged->memory != NULL;
    if (!staged->zero_copy)
        GOP_TRY(backend->alloc(ctx, staged->bytes ? staged->bytes : 1, &staged->memory));
    array->data = staged->memory;
    return GOP_OK;
}

static gop_status acquire_each(gop_road *r, int named, int timing)
{
    const int small = r->staged && r->op->once && r->row->role == GOP_CONFORMING && !timing &&
                      waits_for_host(r);
    for (int o = 0; r->staged && o < r->task.nout; o++)
        GOP_TRY(gop_acquire_operand(r->ctx, small, &r->task.out[o], &r->out[o]));
    for (int i = 0; r->staged && i < r->task.nin; i++)
        GOP_TRY(gop_acquire_operand(r->ctx, small, &r->task.in[i], &r->in[i]));
    if (r->task.finding < 0) GOP_TRY(r->op->begin(r->ctx, &r->task, &r->findings));
    const int may_change =
        !named && !r->findings && !(r->op->bits_vary && r->op->bits_vary(&r->task));
    return acquire_scratch(r->ctx, &r->task, &r->row, &r->plan, r->in_order, may_change);
}

gop_status gop_acquire(gop_road *r, int named, int timing)
{
    return gop_named(gop_call_name(r->call), acquire_each(r, named, timing));
}

static void give_back_operands(gop_ctx *ctx, gop_staged *staged, int count)
{
    for (int k = 0; k < count; k++)
        if (staged[k].memory) ctx->backend->release(ctx, staged[k].memory);
}

static void give_back(gop_road *r)
{
    if (r->staged) give_back_operands(r->ctx, r->in, r->task.nin);
    if (r->staged) give_back_operands(r->ctx, r->out, r->task.nout);
    if (r->findings) r->ctx->backend->release(r->ctx, r->findings);
    give_scratch(r->ctx, &r->task, r->in_order);
}

/* ---- run: upload and launch ---- */

static int64_t items(const gop_staged *staged)
{
    return (int64_t)staged->bytes / gop_dtype_size(staged->source->dtype);
}

gop_status gop_upload_operand(gop_ctx *ctx, const gop_array *array, const gop_staged *staged)
{
    if (!staged->source || !staged->bytes) return GOP_OK;
    if (!staged->zero_copy) return ctx->backend->upload(ctx, array, staged->source);
    gop_pack(staged->source, 0, items(staged), staged->memory);
    return GOP_OK;
}

gop_status gop_upload(gop_road *r)
{
    for (int i = 0; r->staged && i < r->task.nin; i++)
        GOP_TRY(gop_upload_operand(r->ctx, &r->task.in[i], &r->in[i]));
    return GOP_OK;
}

/* Launches a task whose arrays are on the device and whose kernel is chosen. */
gop_status gop_launch_steps(gop_ctx *ctx, const gop_task *task)
{
    const gop_plan *const plan = task->plan;
    if (gop_array_size(&task->out[0]) == 0) return GOP_OK; /* a kernel never sees such a call */
    for (int64_t s = 0; s < plan->steps; s++) {
        GOP_TRY(plan->launch(ctx, task, s));
        if (plan->steps > 1) GOP_TRY(ctx->backend->sync(ctx)); /* so that Ctrl-C is heard */
    }
    return GOP_OK;
}

/* ---- copies on a device, and to the host ---- */

void gop_copy_call(const gop_array *from, const gop_array *to, gop_call *call)
{
    memset(call, 0, offsetof(gop_call, params));
    call->op = GOP_OP_transpose;
    call->nin = call->nout = 1;
    call->in[0] = *from;
    call->out[0] = *to;
    call->ntunables = 0;
    call->params.transpose.axes.given = 1;
    call->params.transpose.axes.count = from->ndim;
    for (int d = 0; d < from->ndim; d++) call->params.transpose.axes.axis[d] = d;
}

/* It has a frame of its own: a call and a task are large. */
static __attribute__((noinline)) gop_status run_on_device(gop_ctx *ctx, const gop_call *call)
{
    gop_task task;
    gop_plan plan;
    const gop_row *row;
    task.call = call;
    task.nin = task.nout = 1;
    gop_array_assign(&task.in[0], &call->in[0]);
    gop_array_assign(&task.out[0], &call->out[0]);
    GOP_TRY(gop_descriptor_of(call->op)->plan(&task));
    GOP_TRY(gop_choose(ctx, &task, NULL, 0, &row, &plan));
    gop_status status = acquire_scratch(ctx, &task, &row, &plan, 1, 1);
    if (status == GOP_OK) status = gop_launch_steps(ctx, &task);
    give_scratch(ctx, &task, 1);
    return status;
}

/* Copies between two arrays on the context's device, by a kernel. */
static gop_status copy_on_device(gop_ctx *ctx, const gop_array *from, const gop_array *to)
{
    gop_call call;
    if (!gop_array_is_item_aligned(from))
        return check_place(ctx, "transpose", "input", 0, from);
    if (!gop_array_is_item_aligned(to)) return check_place(ctx, "transpose", "output", 0, to);
    gop_copy_call(from, to, &call);
    return run_on_device(ctx, &call);
}

static gop_status fetch_items(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    gop_array dense;
    void *memory = NULL; /* for the elements in the host's layout, if they lie otherwise */
    gop_status status = GOP_OK;
    const size_t bytes = gop_array_dense(host, &dense);
    dense.where = ctx->device;
    dense.data = device->data;
    if (!gop_array_same_layout(&dense, device)) {
        GOP_TRY(ctx->backend->alloc(ctx, bytes, &memory));
        dense.data = memory;
        status = copy_on_device(ctx, device, &dense);
    }
    if (status == GOP_OK) status = ctx->backend->download(ctx, host, &dense);
    if (status == GOP_OK) status = ctx->backend->sync(ctx);
    if (memory) ctx->backend->release(ctx, memory);
    return status;
}

gop_status gop_fetch(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    if (gop_array_size(device) == 0) return GOP_OK;
    void *const before = gop_use_stream(ctx, GOP_DEFAULT_STREAM);
    const gop_status status = fetch_items(ctx, device, host);
    gop_use_stream(ctx, before);
    return status;
}

gop_status gop_fetch_from_anywhere(const gop_array *device, const gop_array *host)
{
    gop_ctx *ctx;
    GOP_TRY(gop_context_of(device->where, &ctx));
    return gop_fetch(ctx, device, host);
}

/* ---- run: download ---- */

gop_status gop_download(gop_road *r)
{
    gop_ctx *const ctx = r->ctx;
    for (int o = 0; r->staged && o < r->task.nout; o++) {
        const gop_array *to = r->out[o].source, *from = &r->task.out[o];
        if (!to || !r->out[o].bytes || r->out[o].zero_copy) continue;
        if (!gop_array_on_host(to)) GOP_TRY(copy_on_device(ctx, from, to));
        else GOP_TRY(ctx->backend->download(ctx, to, from));
    }
    if (waits_for_host(r)) GOP_TRY(ctx->backend->sync(ctx));
    for (int o = 0; r->staged && o < r->task.nout; o++)
        if (r->out[o].zero_copy)
            gop_unpack(r->out[o].source, 0, items(&r->out[o]), r->out[o].memory);
    return GOP_OK;
}

gop_status gop_run_planned(gop_road *r, int named, int64_t *assumed)
{
    GOP_TRY(gop_acquire(r, named, 0));
    GOP_TRY(gop_upload(r));
    GOP_TRY(gop_launch_steps(r->ctx, &r->task));
    if (r->findings) GOP_TRY(r->op->end(r->ctx, r->findings, assumed));
    return gop_download(r);
}

/* ---- all phases ---- */

void gop_road_begin(gop_road *r, const gop_call *call, int64_t assumed)
{
    /* The large arrays inside are filled as they are used. */
    r->call = call;
    r->op = gop_descriptor_of(call->op);
    r->ctx = NULL;
    r->like = NULL;
    r->arena =
        (gop_arena){gop_call_name(call), NULL, assumed, gop_run, gop_fetch_from_anywhere};
    r->task.nin = r->task.nout = 0;
    r->task.scratch = NULL;
    r->findings = NULL;
    r->staged = r->in_order = 0;
    r->float_environment = gop_float_environment(NULL);
}

void gop_road_end(gop_road *r)
{
    give_back(r);
    if (r->ctx) gop_use_stream(r->ctx, r->stream_before);
    if (r->arena.first) gop_arena_free(&r->arena);
    gop_float_environment(&r->float_environment);
}

gop_status gop_check(const gop_call *call, int64_t *finding)
{
    const gop_run_options options = {.fits = 1};
    gop_road r;
    gop_road_begin(&r, call, 0);
    const gop_status status = gop_validate(&r, &options);
    *finding = r.arena.finding;
    gop_road_end(&r);
    return status;
}
