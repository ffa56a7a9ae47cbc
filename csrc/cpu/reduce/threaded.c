/*
 * threaded.c - the simd kernel on all threads: each takes nodes of runs.
 *
 * One core cannot saturate memory. A node is a whole subtree of an output's tree, so the bits
 * do not depend on the thread that folds it.
 */
#include "cpu/reduce/plan.h"

/* Elements of an input from which sleeping workers are woken at once. */
enum { LONG = 1 << 17 };

static gop_status reduce_threaded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    const int is_brief = gop_array_size(&task->in[0]) < LONG;
    return run_job(task, is_brief ? gop_parallel_brief : gop_parallel_by);
}

static gop_status reduce_threaded_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return plan_nodes(task, 1, ctx->info.processors, plan);
}

static const gop_row reduce_threaded_row = {
    .name = "threaded",
    .note = "whole subtrees to every core: one core cannot fill the memory bus",
    .role = GOP_CONFORMING,
    .launch = GOP_FN_EVERY(reduce_threaded),
    .plan = reduce_threaded_plan,
};
