/*
 * run.c - the last phase of the road: upload, launch, download. And all phases in a row.
 */
#include <string.h>

#include "core/host/threads.h"
#include "core/road/road.h"

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

gop_status gop_download(gop_road *r)
{
    gop_ctx *const ctx = r->ctx;
    if (!r->staged && ctx->backend->facts & GOP_HOST_MEMORY) return GOP_OK; /* all is done */
    for (int o = 0; r->staged && o < r->task.nout; o++) {
        const gop_array *to = r->out[o].source, *from = &r->task.out[o];
        if (!to || !r->out[o].bytes || r->out[o].zero_copy) continue;
        if (!gop_array_on_host(to)) GOP_TRY(gop_device_copy(ctx, from, to));
        else GOP_TRY(ctx->backend->download(ctx, to, from));
    }
    if (gop_road_waits(r)) GOP_TRY(ctx->backend->sync(ctx));
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

/* Runs a call that a check makes. Such calls are not cut. */
static gop_status run_whole(const gop_call *call, const gop_run_options *options)
{
    int64_t assumed = 0;
    return gop_run_phases(call, options, gop_run_planned, &assumed);
}

void gop_road_begin(gop_road *r, const gop_call *call, int64_t assumed)
{
    /* The large arrays inside are filled as they are used. */
    r->call = call;
    r->op = gop_descriptor_of(call->op);
    r->ctx = NULL;
    r->like = NULL;
    r->arena =
        (gop_arena){gop_call_name(call), NULL, assumed, run_whole, gop_fetch_from_anywhere};
    r->task.nin = r->task.nout = 0;
    r->task.scratch = NULL;
    r->findings = NULL;
    r->staged = r->in_order = 0;
    r->float_environment = gop_float_environment(NULL);
}

void gop_road_end(gop_road *r)
{
    gop_give_back(r);
    if (r->ctx) gop_use_stream(r->ctx, r->stream_before);
    gop_arena_free(&r->arena);
    gop_float_environment(&r->float_environment);
}

gop_status gop_run_phases(const gop_call *call, const gop_run_options *options,
                          gop_last_phases last, int64_t *assumed)
{
    gop_road r;
    gop_road_begin(&r, call, *assumed);
    *assumed = 0;
    gop_status status = gop_validate(&r, options);
    if (status == GOP_OK) status = gop_plan_call(&r, options, 0);
    if (status == GOP_OK) status = last(&r, options->kernel != NULL, assumed);
    gop_road_end(&r);
    return status;
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
