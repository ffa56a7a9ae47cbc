/*
 * timed.c - explains calls, by the road up to the plan, and times them, with events between its
 * phases.
 */
#include <string.h>
#include <time.h>

#include "core/choice.h"
#include "core/road/road.h"

/* The fewest bytes that it moves: every input is read once, every output written once. Of an
 * iteration that is one step. */
static double least_bytes(const gop_task *task)
{
    double bytes = 0;
    for (int i = 0; i < task->nin; i++) bytes += gop_array_least_bytes(&task->in[i]);
    for (int o = 0; o < task->nout; o++) bytes += gop_array_least_bytes(&task->out[o]);
    return bytes;
}

/* The bytes that memory moves for a plan: whole sectors, and scratch that is written and read
 * again. A CPU's scratch, a piece for each thread, stays in the caches. */
static double sector_bytes(const gop_road *r)
{
    const int on_host = (r->ctx->backend->facts & GOP_HOST_MEMORY) != 0;
    const int64_t sector = on_host ? 64 : 32;
    const double least = least_bytes(&r->task);
    double bytes = on_host ? 0 : 2.0 * (double)r->plan.scratch;
    for (int i = 0; i < r->task.nin; i++) bytes += gop_array_sectors(&r->task.in[i], sector);
    for (int o = 0; o < r->task.nout; o++) bytes += gop_array_sectors(&r->task.out[o], sector);
    return bytes > least ? bytes : least; /* an iteration reads more than once */
}

static void explain(const gop_road *r, gop_explanation *said)
{
    memset(said, 0, sizeof *said);
    said->kernel = r->row->name;
    said->bytes = least_bytes(&r->task);
    said->sector_bytes = sector_bytes(r);
    said->launches = r->plan.steps;
    said->flops = r->op->flops(&r->task);
    said->scratch_bytes = r->plan.scratch;
    said->precision = r->plan.precision;
    if (!r->staged || !(r->ctx->backend->facts & GOP_BUS)) return;
    for (int i = 0; i < r->task.nin; i++) said->upload_bytes += r->in[i].bytes;
    for (int o = 0; o < r->task.nout; o++) said->download_bytes += r->out[o].bytes;
}

gop_status gop_explain(const gop_call *call, const gop_run_options *options,
                       const gop_device_info *like, gop_explanation *said, gop_weighed *list,
                       int *count)
{
    gop_road r;
    gop_road_begin(&r, call, 0);
    r.like = like;
    gop_status status = gop_validate(&r, options);
    if (status == GOP_OK) status = gop_plan_call(&r, options, 0);
    const int64_t assumed = status == GOP_OK && r.op->defer ? r.op->defer(call, options) : 0;
    if (assumed) { /* the run chooses a kernel that checks the data itself */
        r.task.finding = assumed;
        status = gop_choose(r.ctx, &r.task, options->kernel, 0, &r.row, &r.plan);
    }
    if (status == GOP_OK) explain(&r, said);
    *count = status == GOP_OK ? gop_weigh(r.ctx, &r.task, list, *count) : 0;
    gop_road_end(&r);
    return status;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gop_status mark(gop_ctx *ctx, int event)
{
    if (ctx->backend->mark) return ctx->backend->mark(ctx, event);
    GOP_TRY(ctx->backend->sync(ctx));
    ctx->marks[event] = seconds_now();
    return GOP_OK;
}

static gop_status elapsed(gop_ctx *ctx, int from, int to, double *seconds)
{
    if (ctx->backend->mark) return ctx->backend->elapsed(ctx, from, to, seconds);
    *seconds = ctx->marks[to] - ctx->marks[from];
    return GOP_OK;
}

/* Times the kernel, enqueued behind the work that empties the caches. So the device does not
 * wait for the host, as in the timing of peers. */
static gop_status time_kernel(gop_road *r, gop_times *times)
{
    const gop_backend *backend = r->ctx->backend;
    GOP_TRY(backend->flush(r->ctx));
    GOP_TRY(mark(r->ctx, 0));
    GOP_TRY(gop_launch_steps(r->ctx, &r->task));
    GOP_TRY(mark(r->ctx, 1));
    GOP_TRY(backend->sync(r->ctx));
    return elapsed(r->ctx, 0, 1, &times->kernel);
}

/* Times one run, part by part, by the wall clock and by the device's events. */
static gop_status run_timed(gop_road *r, int cold, gop_times *times)
{
    const gop_backend *backend = r->ctx->backend;
    if (cold) GOP_TRY(backend->flush(r->ctx));
    GOP_TRY(backend->sync(r->ctx));
    const double start = seconds_now();
    GOP_TRY(mark(r->ctx, 0));
    GOP_TRY(gop_upload(r));
    GOP_TRY(mark(r->ctx, 1));
    GOP_TRY(gop_launch_steps(r->ctx, &r->task));
    GOP_TRY(mark(r->ctx, 2));
    GOP_TRY(gop_download(r));
    times->total = seconds_now() - start;
    GOP_TRY(mark(r->ctx, 3));
    GOP_TRY(backend->sync(r->ctx));
    GOP_TRY(elapsed(r->ctx, 0, 1, &times->upload));
    GOP_TRY(elapsed(r->ctx, 1, 2, &times->kernel));
    GOP_TRY(elapsed(r->ctx, 2, 3, &times->download));
    /* Elsewhere nothing is enqueued: kernels run at once, on memory that was just emptied from
     * the caches. */
    return cold && backend->facts & GOP_BUS ? time_kernel(r, times) : GOP_OK;
}

/* Times the whole call, as a caller sees it. It may go in panels, or need no copies. */
static gop_status time_call(gop_road *r, const gop_run_options *options, int cold,
                            double *seconds)
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
    gop_road r;
    gop_road_begin(&r, call, 0);
    gop_status status = gop_validate(&r, options);
    if (status == GOP_OK) status = gop_plan_call(&r, options, 1);
    if (status == GOP_OK) explain(&r, said);
    if (status == GOP_OK) status = gop_acquire(&r, 1, 1);
    if (status == GOP_OK) r.ctx->timed = 1;
    for (int i = -n_warmup; i < n_repeat && status == GOP_OK; i++) {
        gop_times *of = &times[i < 0 ? 0 : i];
        status = run_timed(&r, cold, of);
        if (status == GOP_OK && r.ctx->backend->facts & GOP_BUS && r.row->role != GOP_YARDSTICK)
            status = time_call(&r, options, cold, &of->total);
    }
    if (r.ctx) r.ctx->timed = 0;
    gop_road_end(&r);
    return status;
}
