/*
 * atomic.c - the row of atomic.cl.
 */
#include "opencl/reduce/lecture.h"

static gop_status reduce_atomic(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_lecture *const own = GOP_OWN(const gop_cl_lecture, task->plan);
    const int64_t n = task->geometry.reduction.count, groups = gop_cl_ceil(n, own->each);
    (void)step;
    GOP_TRY(gop_cl_lecture_launch(ctx, task, "reduce/atomic", "reduce_atomic_clear_kernel",
                                  &task->out[0], &task->in[0], n, 1));
    return gop_cl_lecture_launch(ctx, task, "reduce/atomic", "reduce_atomic_kernel",
                                 &task->out[0], &task->in[0], n,
                                 groups < own->most ? groups : own->most);
}

static gop_status reduce_atomic_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    plan->launch = reduce_atomic;
    return gop_cl_lecture_plan(ctx, task, 4096, gop_cl_lecture_resident(ctx), plan);
}

extern const gop_row reduce_atomic_row;
const gop_row reduce_atomic_row = {
    .name = "atomic",
    .note = "work-groups add to one number: no second pass",
    .role = GOP_TEACHING,
    .caveat = LECTURE_NO_ORDER,
    .lecture = "opencl",
    .tunables = {GOP_CL_GROUP},
    .plan = reduce_atomic_plan,
    .dtypes = 1u << GOP_FLOAT32,
};
