/*
 * run.c - the one road: validate, acquire, run; and its timed twin.
 * Up to the choice of a kernel no device is asked, so every device raises the same sentence.
 * Memory is acquired before anything is written. Timing puts events around the same phases.
 */
#include <string.h>
#include <time.h>

#include "core/choice.h"
#include "core/host/threads.h"
#include "core/ops/reduce.h"
#include "core/road/judge.h"
#include "core/road/outputs.h"
#include "core/road/panels.h"
#include "core/road/parts.h"
#include "core/road/scratch.h"
#include "core/road/stage.h"

typedef struct road {
    const gop_call *call;
    const gop_descriptor *op;
    gop_ctx *ctx, imagined;
    const gop_device_info *like; /* explain's: `ctx` is `imagined`, with which nothing runs */
    gop_arena arena;
    gop_task task;
    const gop_row *row;
    gop_plan plan;
    int staged; /* 0: every array is used where it lies, and `in` and `out` say nothing */
    gop_staged in[GOP_MAX_INPUTS], out[GOP_MAX_OUTPUTS];
    gop_verdict *verdict;       /* of a matrix that nobody looked at before, or NULL */
    const gop_array *source;    /* what is staged: inputs as `prepare` left them, or as given */
    unsigned float_environment; /* of the caller, to be put back */
    void *stream_before;
    int in_order; /* its work is done in the order of the calls on device arrays */
} road;

/* An output that shares memory with an input used in place must be written elsewhere first. */
static int needs_copy(const road *r, const gop_array *out)
{
    for (int i = 0; i < r->call->nin; i++) {
        const gop_array *in = &r->source[i];
        if (r->in[i].source || !gop_array_may_overlap(in, out)) continue;
        if (!(r->op->in_place && gop_array_same_layout(in, out))) return 1;
    }
    return 0;
}

/* Device arrays are used on one stream for all; host arrays need no order but their own. */
static void choose_stream(road *r)
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

/* Whether kernels take every array where it lies: those of the host do, mostly. An output that
 * was made for the call shares no memory with its inputs. */
static int is_in_place(const road *r, int made)
{
    int all = made && (r->ctx->backend->facts & GOP_HOST_MEMORY);
    for (int i = 0; all && i < r->call->nin; i++)
        all = gop_stage_in_place(r->ctx, &r->source[i], r->op->casts);
    return all;
}

static gop_status stage(road *r, int made)
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
    for (int i = 0; i < call->nin; i++)
        GOP_TRY(gop_stage_input(r->ctx, gop_call_name(call), i, r->op->casts, &r->source[i],
                                &r->task.in[i], &r->in[i]));
    const int may_be_dropped = r->task.longest < 0 && !made;
    for (int o = 0; o < call->nout; o++)
        GOP_TRY(gop_stage_output(r->ctx, gop_call_name(call), o, &call->out[o],
                                 may_be_dropped || needs_copy(r, &call->out[o]),
                                 &r->task.out[o], &r->out[o]));
    return GOP_OK;
}

static gop_status validate(road *r, const gop_run_options *options, int timing)
{
    const gop_call *call = r->call;
    const gop_backend *backend;
    if (!options->fits) GOP_TRY(gop_check_outputs(call));
    if (r->op->check) GOP_TRY(r->op->check(call, &r->arena));
    GOP_TRY(gop_backend_get(options->device.backend, &backend));
    GOP_TRY(backend->context(options->device.ordinal, &r->ctx));
    if (r->like) r->ctx = gop_imagine(r->ctx, r->like, &r->imagined);
    choose_stream(r);
    r->task.call = call;
    r->task.longest = r->arena.longest;
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

/* A call without results runs no kernel, so a kernel never sees one. */
static int is_empty(const road *r)
{
    return gop_array_size(&r->task.out[0]) == 0;
}

static int has_no_memory(gop_status status)
{
    return status == GOP_NO_MEMORY || status == GOP_NO_DEVICE_MEMORY;
}

/* Where the kernel was not named, one before it that gives the same bits will do as well. */
static gop_status acquire_scratch(road *r, int named)
{
    const int may_change =
        !named && !r->verdict && !(r->op->bits_vary && r->op->bits_vary(&r->task));
    for (;;) {
        if (r->plan.scratch == 0 || is_empty(r)) return GOP_OK;
        const gop_status status =
            gop_scratch_take(r->ctx, r->plan.scratch, r->in_order, &r->task.scratch);
        if (status == GOP_OK || !has_no_memory(status) || !may_change) return status;
        if (gop_choose_before(r->ctx, &r->task, &r->row, &r->plan) != GOP_OK) return status;
    }
}

static gop_status acquire_each(road *r, int named, int timing)
{
    /* What is timed is a kernel on the device's own memory. */
    const int small = r->staged && r->op->once && r->row->role == GOP_CONFORMING && !timing &&
                      gop_stage_waits(r->ctx, r->task.nout, r->out);
    for (int o = 0; r->staged && o < r->task.nout; o++)
        GOP_TRY(gop_stage_acquire(r->ctx, small, &r->task.out[o], &r->out[o]));
    for (int i = 0; r->staged && i < r->task.nin; i++)
        GOP_TRY(gop_stage_acquire(r->ctx, small, &r->task.in[i], &r->in[i]));
    if (r->task.longest < 0) GOP_TRY(gop_judge_begin(r->ctx, &r->task, &r->verdict));
    return acquire_scratch(r, named);
}

/* All memory, before anything is written. */
static gop_status acquire_run(road *r, int named, int timing)
{
    return gop_named(gop_call_name(r->call), acquire_each(r, named, timing));
}

static void release_run(road *r)
{
    for (int i = 0; r->staged && i < r->task.nin; i++) gop_stage_release(r->ctx, &r->in[i]);
    for (int o = 0; r->staged && o < r->task.nout; o++) gop_stage_release(r->ctx, &r->out[o]);
    if (r->verdict) r->ctx->backend->release(r->ctx, r->verdict);
    if (r->task.scratch) gop_scratch_give(r->ctx, r->task.scratch);
    if (r->ctx) gop_use_stream(r->ctx, r->stream_before);
    gop_arena_free(&r->arena);
    gop_float_environment(&r->float_environment);
}

static gop_status upload_inputs(road *r)
{
    for (int i = 0; r->staged && i < r->task.nin; i++)
        GOP_TRY(gop_stage_upload(r->ctx, &r->task.in[i], &r->in[i]));
    return GOP_OK;
}

static gop_status launch_steps(road *r)
{
    if (is_empty(r)) return GOP_OK;
    for (int64_t s = 0; s < r->plan.steps; s++) {
        GOP_TRY(r->plan.launch(r->ctx, &r->task, s));
        if (r->plan.steps > 1)
            GOP_TRY(r->ctx->backend->sync(r->ctx)); /* so that Ctrl-C is heard */
    }
    return GOP_OK;
}

static gop_status download(road *r)
{
    if (!r->staged) return GOP_OK;
    return gop_stage_download(r->ctx, r->task.nout, r->task.out, r->out);
}

static void begin_run(road *r, const gop_call *call)
{
    /* The large arrays inside are filled as they are used. */
    r->call = call;
    r->op = gop_descriptor_of(call->op);
    r->ctx = NULL;
    r->like = NULL;
    r->arena = (gop_arena){gop_call_name(r->call), NULL, 0};
    r->task.nin = r->task.nout = 0;
    r->task.scratch = NULL;
    r->verdict = NULL;
    r->staged = r->in_order = 0;
    r->float_environment = gop_float_environment(NULL);
}

/* What memory moves for a plan: whole sectors, and scratch that is written and read again; a
 * CPU's, a piece for each thread, stays in the caches. */
static double sector_bytes(const road *r)
{
    const int on_host = (r->ctx->backend->facts & GOP_HOST_MEMORY) != 0;
    const int64_t sector = on_host ? 64 : 32;
    const double least = r->op->bytes(&r->task);
    double bytes = on_host ? 0 : 2.0 * (double)r->plan.scratch;
    for (int i = 0; i < r->task.nin; i++) bytes += gop_array_sectors(&r->task.in[i], sector);
    for (int o = 0; o < r->task.nout; o++) bytes += gop_array_sectors(&r->task.out[o], sector);
    return bytes > least ? bytes : least; /* an iteration reads more than once */
}

static void explain(const road *r, gop_explanation *said)
{
    memset(said, 0, sizeof *said);
    said->kernel = r->row->name;
    said->bytes = r->op->bytes(&r->task);
    said->sector_bytes = sector_bytes(r);
    said->launches = r->plan.steps;
    said->flops = r->op->flops(&r->task);
    said->scratch_bytes = r->plan.scratch;
    said->precision = r->plan.precision;
    if (!(r->ctx->backend->facts & GOP_BUS)) return;
    for (int i = 0; i < r->task.nin; i++) said->upload_bytes += r->in[i].bytes;
    for (int o = 0; o < r->task.nout; o++) said->download_bytes += r->out[o].bytes;
}

gop_status gop_explain(const gop_call *call, const gop_run_options *options,
                       const gop_device_info *like, gop_explanation *said, gop_weighed *list,
                       int *count)
{
    road r;
    begin_run(&r, call);
    r.like = like;
    gop_status status = validate(&r, options, 0);
    const int64_t unchecked = status == GOP_OK ? gop_judge_offer(call, options) : 0;
    if (unchecked) { /* the run has its kernels look, and chooses one that does */
        r.task.longest = unchecked;
        status = gop_choose(r.ctx, &r.task, options->kernel, 0, &r.row, &r.plan);
    }
    if (status == GOP_OK) explain(&r, said);
    *count = status == GOP_OK ? gop_weigh(r.ctx, &r.task, list, *count) : 0;
    release_run(&r);
    return status;
}

/* Acquire and run, all at once. */
static gop_status run_whole(road *r, int named)
{
    GOP_TRY(acquire_run(r, named, 0));
    GOP_TRY(upload_inputs(r));
    GOP_TRY(launch_steps(r));
    if (r->verdict) GOP_TRY(gop_judge_end(r->ctx, r->verdict));
    return download(r);
}

/* The same panel by panel. */
static gop_status run_cut(road *r, gop_cut *cut)
{
    for (int i = 0; i < r->task.nin; i++) {
        if (cut->axis[i] >= 0) continue;
        GOP_TRY(gop_named(gop_call_name(r->call),
                          gop_stage_acquire(r->ctx, 0, &r->task.in[i], &r->in[i])));
        GOP_TRY(gop_stage_upload(r->ctx, &r->task.in[i], &r->in[i]));
    }
    return gop_cut_run(cut);
}

/* A frame of its own: a cut is large, and most calls have none. */
static __attribute__((noinline)) gop_status run_either_way(road *r)
{
    gop_cut cut;
    return gop_cut_find(&cut, &r->task, r->ctx) ? run_cut(r, &cut) : run_whole(r, 0);
}

/* `*unchecked`: what is said of the longest row of a matrix that nobody looks at before, or 0;
 * then what to say of it after a refusal. */
static gop_status run_once(const gop_call *call, const gop_run_options *options,
                           int64_t *unchecked)
{
    road r;
    begin_run(&r, call);
    r.arena.longest = *unchecked;
    gop_status status = validate(&r, options, 0);
    if (status == GOP_OK) {
        const int whole = options->kernel || !r.ctx->backend->panels;
        status = whole ? run_whole(&r, options->kernel != NULL) : run_either_way(&r);
    }
    *unchecked = r.verdict && r.verdict->is_longer ? GOP_UNCHECKED : 0;
    release_run(&r);
    return status;
}

gop_status gop_run(const gop_call *call, const gop_run_options *options)
{
    if (gop_casts_much(call, options)) return gop_run_halves(call, options);
    /* A matrix is judged on the way, if need be with rows of any length; refused, or without
     * memory for that, it is looked at before. */
    int64_t unchecked = gop_judge_offer(call, options);
    int is_last = unchecked == 0;
    gop_status status = run_once(call, options, &unchecked);
    while (!is_last && (status == GOP_REFUSED || has_no_memory(status))) {
        is_last = unchecked == 0;
        status = run_once(call, options, &unchecked);
    }
    return status == GOP_NO_DEVICE_MEMORY ? gop_run_parts(call, options) : status;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The kernel alone, enqueued behind what empties the caches: the device meets it without
 * waiting for the host, as it meets a peer's. */
static gop_status time_kernel(road *r, gop_times *times)
{
    const gop_backend *backend = r->ctx->backend;
    GOP_TRY(backend->flush(r->ctx));
    GOP_TRY(backend->mark(r->ctx, 0));
    GOP_TRY(launch_steps(r));
    GOP_TRY(backend->mark(r->ctx, 1));
    GOP_TRY(backend->sync(r->ctx));
    return backend->elapsed(r->ctx, 0, 1, &times->kernel);
}

/* One timed run, part after part: by the wall clock and by the device's events. */
static gop_status run_timed(road *r, int cold, gop_times *times)
{
    const gop_backend *backend = r->ctx->backend;
    if (cold) GOP_TRY(backend->flush(r->ctx));
    GOP_TRY(backend->sync(r->ctx));
    const double start = seconds_now();
    GOP_TRY(backend->mark(r->ctx, 0));
    GOP_TRY(upload_inputs(r));
    GOP_TRY(backend->mark(r->ctx, 1));
    GOP_TRY(launch_steps(r));
    GOP_TRY(backend->mark(r->ctx, 2));
    GOP_TRY(download(r));
    times->total = seconds_now() - start;
    GOP_TRY(backend->mark(r->ctx, 3));
    GOP_TRY(backend->sync(r->ctx));
    GOP_TRY(backend->elapsed(r->ctx, 0, 1, &times->upload));
    GOP_TRY(backend->elapsed(r->ctx, 1, 2, &times->kernel));
    GOP_TRY(backend->elapsed(r->ctx, 2, 3, &times->download));
    /* Where nothing is enqueued, kernels are called at once, on memory that was just emptied
     * from the caches. */
    return cold && backend->facts & GOP_STREAMS ? time_kernel(r, times) : GOP_OK;
}

/* What a caller waits for: such a call may go in panels, or need no copies. */
static gop_status time_call(road *r, const gop_run_options *options, int cold, double *seconds)
{
    const gop_backend *backend = r->ctx->backend;
    if (cold) GOP_TRY(backend->flush(r->ctx));
    GOP_TRY(backend->sync(r->ctx));
    r->ctx->timed = 0;
    const double start = seconds_now();
    GOP_TRY(gop_run(r->call, options));
    GOP_TRY(backend->sync(r->ctx));
    *seconds = seconds_now() - start;
    r->ctx->timed = 1;
    return GOP_OK;
}

gop_status gop_time(const gop_call *call, const gop_run_options *options, int n_warmup,
                    int n_repeat, int cold, gop_times *times, gop_explanation *said)
{
    road r;
    begin_run(&r, call);
    gop_status status = validate(&r, options, 1);
    if (status == GOP_OK) explain(&r, said);
    if (status == GOP_OK) status = acquire_run(&r, 1, 1);
    if (status == GOP_OK) r.ctx->timed = 1;
    for (int i = -n_warmup; i < n_repeat && status == GOP_OK; i++) {
        gop_times *of = &times[i < 0 ? 0 : i];
        status = run_timed(&r, cold, of);
        if (status == GOP_OK && r.ctx->backend->facts & GOP_BUS && r.row->role != GOP_YARDSTICK)
            status = time_call(&r, options, cold, &of->total);
    }
    if (r.ctx) r.ctx->timed = 0;
    release_run(&r);
    return status;
}
