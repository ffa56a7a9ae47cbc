/*
 * chunked.c - the plan of chunked.cl.
 */
#include "opencl/reduce/plan.h"

#include <stdio.h>

enum {
    VECTOR = 64,          /* bytes of an accumulator's vector */
    CHUNKS_PER_UNIT = 16, /* as gop_cl_chunk has it */
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
static void deal(const gop_ctx *ctx, gop_cl_reduce_job *job, int64_t all, int64_t elements)
{
    job->work.each = gop_cl_chunk(ctx, all, elements);
    job->groups = gop_cl_ceil(all, job->work.each);
    job->group = 1;
}

static void share_rows(const gop_ctx *ctx, gop_cl_reduce_job *job, int64_t wanted)
{
    const int64_t outputs = job->shape.outputs;
    int node_leaves = 0;
    set_nodes(&job->work, 0);
    while (job->work.nodes > 1 && outputs * job->work.nodes > wanted)
        set_nodes(&job->work, ++node_leaves);
    job->kernel = "reduce_chunked_kernel";
    deal(ctx, job, outputs * job->work.nodes, gop_cl_ceil(job->shape.count, job->work.nodes));
}

static void share_columns(const gop_ctx *ctx, gop_cl_reduce_job *job, int64_t wanted, int strip)
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
    deal(ctx, job, strips * job->work.nodes,
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
        share_columns(ctx, job, wanted, strip);
    else share_rows(ctx, job, wanted);
    snprintf(options, room, " -DSTRIP=%d", strip);
}

gop_status gop_cl_reduce_chunked(const gop_ctx *ctx, const gop_task *task,
                                 const gop_cl_names *names, gop_plan *plan)
{
    return gop_cl_reduce_plan_of(ctx, task, names, VECTOR, share, plan);
}
