/*
 * chunked.c - the row of chunked.cl.
 */
#include "opencl/reduce/plan.h"

#include <stdio.h>

enum {
    VECTOR = 64,          /* bytes of an accumulator's vector */
    LEAST = 1 << 14,      /* elements that are worth a work-item of their own */
    CHUNKS_PER_UNIT = 16, /* so that a processor that comes late takes fewer */
    FEW = 64,             /* elements of an output: many outputs then go side by side */
    MOST_LEAVES = 6,      /* a node of columns is 2^6 leaves at most */
};

/* Nodes of an output, of 2^node_leaves leaves. */
static void set_nodes(gop_cl_reduce_work *w, int node_leaves)
{
    w->node_leaves = node_leaves;
    w->nodes = w->leaves ? gop_cl_ceil(w->leaves, INT64_C(1) << node_leaves) : 1;
}

/* How many of `all` pieces a work-item takes. */
static void deal(gop_cl_reduce_job *job, int64_t all, int64_t wanted, int64_t elements)
{
    const int64_t least = elements ? gop_cl_ceil(LEAST, elements) : LEAST;
    job->work.each = gop_cl_ceil(all, wanted);
    if (job->work.each < least) job->work.each = least;
    job->groups = gop_cl_ceil(all, job->work.each);
    job->group = 1;
}

static void share_rows(gop_cl_reduce_job *job, int64_t wanted)
{
    const int64_t outputs = job->shape.outputs;
    int node_leaves = 0;
    set_nodes(&job->work, 0);
    while (job->work.nodes > 1 && outputs * job->work.nodes > wanted)
        set_nodes(&job->work, ++node_leaves);
    job->kernel = "reduce_chunked_kernel";
    deal(job, outputs * job->work.nodes, wanted,
         gop_cl_ceil(job->shape.count, job->work.nodes));
}

static void share_columns(gop_cl_reduce_job *job, int64_t wanted, int strip)
{
    const gop_cl_reduce_shape *const s = &job->shape;
    const int64_t line = s->extent[s->kept - 1];
    const int is_narrow = s->count >= REDUCE_LEAF && s->reduced == 1 &&
                          s->in[s->kept - 1] == 1 && s->in[s->kept] == line &&
                          !job->work.has_where;
    while (job->items > line && !is_narrow) job->items /= 2;
    const int64_t across = (int64_t)strip * job->items;
    const int64_t strips = s->outputs / line * gop_cl_ceil(line, across);
    int node_leaves = MOST_LEAVES;
    while (job->work.turns < REDUCE_LANES && job->work.turns < s->count) job->work.turns *= 2;
    set_nodes(&job->work, node_leaves);
    while (node_leaves > 0 && strips * job->work.nodes < wanted)
        set_nodes(&job->work, --node_leaves);
    job->kernel = "reduce_chunked_columns_kernel";
    deal(job, strips * job->work.nodes, wanted,
         gop_cl_ceil(s->count, job->work.nodes) * (line < across ? line : across));
}

static void share(const gop_ctx *ctx, const gop_task *task, gop_cl_reduce_job *job,
                  char *options, size_t room)
{
    const gop_cl_reduce_shape *const s = &job->shape;
    const int64_t wanted = (int64_t)ctx->info.processors * CHUNKS_PER_UNIT;
    const int of_best = job->items == 1 ? VECTOR / 4 : 1; /* no vectors, but as many numbers */
    const int strip = (int)task->tune[0] * of_best;
    if (s->kept && (gop_cl_reduce_is_across(s) || s->count < FEW))
        share_columns(job, wanted, strip);
    else share_rows(job, wanted);
    snprintf(options, room, " -DSTRIP=%d", strip);
}

static gop_status reduce_chunked(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return gop_cl_reduce_run(ctx, task, "reduce/chunked");
}

static gop_status reduce_chunked_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    plan->launch = reduce_chunked;
    return gop_cl_reduce_plan_of(ctx, task, "chunked", VECTOR, share, plan);
}

extern const gop_row reduce_chunked_row;
const gop_row reduce_chunked_row = {
    .name = "chunked",
    .note =
        "a chunk of the array a work-item, in vectors along memory: of an output's elements, "
        "or of several outputs",
    .role = GOP_CONFORMING,
    .tunables = {{"strip", 3, {64, 16, 32}}},
    .plan = reduce_chunked_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
