/*
 * tree.c - the plan of tree.cl.
 */
#include "opencl/reduce/plan.h"

enum {
    GROUPS_PER_UNIT = 16, /* more would be long queues of short work-groups */
    MOST_LEAVES = 5,      /* a node is 2^5 leaves at most */
    SIDE_BY_SIDE = 32,    /* outputs of a work-group, where they are neighbours */
};

static void share(const gop_ctx *ctx, const gop_task *task, gop_cl_reduce_job *job,
                  char *options, size_t room)
{
    const gop_cl_reduce_shape *const s = &job->shape;
    gop_cl_reduce_work *const w = &job->work;
    int group = 32, lanes = 1, side = 1;
    while (group * 2 <= gop_cl_group(ctx, (int)task->tune[0])) group *= 2;
    while (lanes < REDUCE_LANES && lanes < s->count) lanes *= 2;
    w->by_rows = !gop_cl_reduce_is_across(s);
    if (w->by_rows) /* no more than there are lanes of all outputs */
        while (group > 32 && group / 2 >= lanes * s->outputs) group /= 2;
    else
        while (side < SIDE_BY_SIDE && side < s->outputs) side *= 2;
    w->team = group / side < lanes ? group / side : lanes;
    w->turns = lanes / w->team;
    const int64_t sides = gop_cl_ceil(s->outputs, group / w->team);
    const int64_t wanted = (int64_t)ctx->info.processors * GROUPS_PER_UNIT;
    w->nodes = w->leaves ? w->leaves : 1;
    while (w->node_leaves < MOST_LEAVES && w->nodes > 1 && sides * w->nodes > wanted)
        w->nodes = gop_cl_ceil(w->leaves, INT64_C(1) << ++w->node_leaves);
    job->kernel = "reduce_tree_kernel";
    job->group = job->root_group = group;
    job->groups = sides * w->nodes;
    *options = '\0';
    (void)room;
}

gop_status gop_cl_reduce_tree(const gop_ctx *ctx, const gop_task *task,
                              const gop_cl_names *names, gop_plan *plan)
{
    return gop_cl_reduce_plan_of(ctx, task, names, 0, share, plan);
}
