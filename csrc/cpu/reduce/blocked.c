/*
 * blocked.c - reduce one leaf at a time, in a buffer in the L1 cache.
 *
 * A leaf is gathered line by line, without a division to find each element. Elements that are
 * strided in memory are first transposed, whole cache lines at a time.
 */
#include "cpu/reduce/plan.h"

static gop_status reduce_blocked(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return run_job(task, one_by_one);
}

static gop_status reduce_blocked_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    (void)ctx;
    GOP_TRY(plan_nodes(task, 0, 1, plan));
    GOP_OWN(reduce_plan, plan)->plain = 1; /* one element at a time */
    return GOP_OK;
}

static const gop_row reduce_blocked_row = {
    .name = "blocked",
    .note =
        "leaf after leaf, gathered line by line: no division tells where an element is, and "
        "elements that lie across memory are turned into order first",
    .role = GOP_CONFORMING,
    .launch = GOP_FN_EVERY(reduce_blocked),
    .plan = reduce_blocked_plan,
};
