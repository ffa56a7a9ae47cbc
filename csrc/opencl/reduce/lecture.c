/*
 * lecture.c - the plans of the lecture's kernels, which sum a contiguous array.
 *
 * A launch makes a shorter array of partial sums, in one half of scratch or the other, until
 * one is left. int32 is summed as int64. The order of the additions depends on the groups.
 */
#include <stdio.h>

#include "opencl/reduce/plan.h"

/* A sum for every `each` numbers, but at most `most` sums. */
typedef struct lecture {
    const gop_cl_names *names;
    int64_t each, most;
    int group;
} lecture;

/* From n numbers at `from` to the sums of `groups` groups. */
static gop_status launch_once(gop_ctx *ctx, const gop_task *task, const char *kernel,
                              const gop_array *to, const gop_array *from, int64_t n,
                              int64_t groups)
{
    const lecture *const own = GOP_OWN(const lecture, task->plan);
    const char *const types[GOP_NDTYPES] = {[GOP_INT32] = "int",
                                            [GOP_INT64] = "long",
                                            [GOP_FLOAT32] = "float",
                                            [GOP_FLOAT64] = "double"};
    char options[GOP_CL_OPTIONS];
    snprintf(options, sizeof options, "-DT=%s -DR=%s -DGROUP=%d%s", types[from->dtype],
             types[to->dtype], own->group, to->dtype == GOP_FLOAT64 ? " -DDOUBLE" : "");
    gop_cl_launch l = {
        .source = own->names->source,
        .kernel = kernel,
        .options = options,
        .dimensions = 1,
        .global = {(size_t)(groups * own->group)},
        .local = {(size_t)own->group},
    };
    gop_cl_give(&l, to, 1);
    gop_cl_give(&l, from, 0);
    GOP_CL_SAY(&l, n);
    return gop_cl_run(ctx, &l);
}

/* Launches until one sum is left. */
static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const lecture *const own = GOP_OWN(const lecture, task->plan);
    const size_t half[2] = {0, (size_t)(task->geometry.reduction.count + 1) / 2 * 8};
    gop_array from = task->in[0], to;
    int64_t n = task->geometry.reduction.count, left = 0;
    (void)step;
    for (int level = 0; left != 1; level ^= 1, n = left, from = to) {
        left = gop_cl_ceil(n, own->each);
        if (left > own->most) left = own->most;
        to = left == 1
                 ? task->out[0]
                 : gop_cl_in_scratch(task->scratch, half[level], task->out[0].dtype, left);
        /* Of pairs: a work-item makes each sum. */
        const int64_t groups = own->each == 2 ? gop_cl_ceil(left, own->group) : left;
        GOP_TRY(launch_once(ctx, task, own->names->kernel, &to, &from, n, groups));
    }
    return GOP_OK;
}

/* Refuses all but the sum of a whole contiguous array. each 0: the numbers of a group. */
static gop_status begin(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                        int64_t each, int64_t most, gop_plan *plan)
{
    const gop_reduction *const g = &task->geometry.reduction;
    const gop_reduce_params *const params = &task->call->params.reduce;
    lecture *const own = GOP_OWN(lecture, plan);
    if (params->op != GOP_SUM || params->has_where || params->has_initial)
        return gop_fail(GOP_REFUSED, "reduce: this kernel only sums, without where or initial");
    if (g->outputs != 1 || g->count == 0 || g->reduced > 1 ||
        (g->reduced == 1 && g->in[0] != 1))
        return gop_fail(GOP_REFUSED, "reduce: this kernel sums one whole contiguous array that "
                                     "is not empty");
    if (task->in[0].dtype == GOP_FLOAT64) GOP_TRY(gop_cl_need_double(ctx, "sum", GOP_FLOAT64));
    own->group = 1;
    while (own->group * 2 <= gop_cl_group(ctx, (int)task->tune[0])) own->group *= 2;
    own->names = names;
    own->each = each ? each : own->group;
    own->most = most;
    const size_t n = (size_t)g->count;
    plan->launch = launch;
    plan->scratch = ((n + 1) / 2 + (n + 3) / 4 + 2) * 8; /* what the first two launches leave */
    return GOP_OK;
}

gop_status gop_cl_reduce_pairs(const gop_ctx *ctx, const gop_task *task,
                               const gop_cl_names *names, gop_plan *plan)
{
    return begin(ctx, task, names, 2, INT64_MAX, plan);
}

gop_status gop_cl_reduce_groups(const gop_ctx *ctx, const gop_task *task,
                                const gop_cl_names *names, gop_plan *plan)
{
    return begin(ctx, task, names, 0, INT64_MAX, plan);
}

gop_status gop_cl_reduce_resident(const gop_ctx *ctx, const gop_task *task,
                                  const gop_cl_names *names, gop_plan *plan)
{
    enum {
        EACH = 4096,
        GROUPS = 8
    }; /* numbers of a group at least; groups of a compute unit */
    return begin(ctx, task, names, EACH, (int64_t)ctx->info.processors * GROUPS, plan);
}

/* One launch of groups that all add to the result, after one that clears it. */
static gop_status launch_atomic(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const lecture *const own = GOP_OWN(const lecture, task->plan);
    const int64_t n = task->geometry.reduction.count, groups = gop_cl_ceil(n, own->each);
    (void)step;
    GOP_TRY(launch_once(ctx, task, "reduce_atomic_clear_kernel", &task->out[0], &task->in[0], n,
                        1));
    return launch_once(ctx, task, own->names->kernel, &task->out[0], &task->in[0], n,
                       groups < own->most ? groups : own->most);
}

gop_status gop_cl_reduce_atomic(const gop_ctx *ctx, const gop_task *task,
                                const gop_cl_names *names, gop_plan *plan)
{
    GOP_TRY(gop_cl_reduce_resident(ctx, task, names, plan));
    plan->launch = launch_atomic;
    return GOP_OK;
}
