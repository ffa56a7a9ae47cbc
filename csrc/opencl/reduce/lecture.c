/*
 * lecture.c - from launch to launch of the lecture's kernels, and the rows of those that are
 * told apart by a line: what a sum is made of, how many sums a launch leaves, a note.
 */
#include "opencl/reduce/lecture.h"

#include <stdio.h>

int64_t gop_cl_lecture_resident(const gop_ctx *ctx)
{
    enum { GROUPS = 8 }; /* of a compute unit */
    return (int64_t)ctx->info.processors * GROUPS;
}

gop_status gop_cl_lecture_plan(const gop_ctx *ctx, const gop_task *task, int64_t each,
                               int64_t most, gop_plan *plan)
{
    const gop_reduction *const g = &task->geometry.reduction;
    const gop_reduce_params *const params = &task->call->params.reduce;
    gop_cl_lecture *const own = GOP_OWN(gop_cl_lecture, plan);
    if (params->op != GOP_SUM || params->has_where || params->has_initial)
        return gop_fail(GOP_REFUSED, "reduce: this kernel only sums, without where or initial");
    if (g->outputs != 1 || g->count == 0 || g->reduced > 1 ||
        (g->reduced == 1 && g->in[0] != 1))
        return gop_fail(GOP_REFUSED, "reduce: this kernel sums one whole contiguous array that "
                                     "is not empty");
    if (task->in[0].dtype == GOP_FLOAT64) GOP_TRY(gop_cl_need_double(ctx, "sum", GOP_FLOAT64));
    own->group = 1;
    while (own->group * 2 <= gop_cl_group(ctx, (int)task->tune[0])) own->group *= 2;
    own->each = each ? each : own->group;
    own->most = most;
    const size_t n = (size_t)g->count;
    plan->scratch = ((n + 1) / 2 + (n + 3) / 4 + 2) * 8; /* what the first two launches leave */
    return GOP_OK;
}

gop_status gop_cl_lecture_launch(gop_ctx *ctx, const gop_task *task, const char *source,
                                 const char *kernel, const gop_array *to, const gop_array *from,
                                 int64_t n, int64_t groups)
{
    const gop_cl_lecture *const own = GOP_OWN(const gop_cl_lecture, task->plan);
    const char *const types[GOP_NDTYPES] = {[GOP_INT32] = "int",
                                            [GOP_INT64] = "long",
                                            [GOP_FLOAT32] = "float",
                                            [GOP_FLOAT64] = "double"};
    char options[GOP_CL_OPTIONS];
    snprintf(options, sizeof options, "-DT=%s -DR=%s -DGROUP=%d%s", types[from->dtype],
             types[to->dtype], own->group, to->dtype == GOP_FLOAT64 ? " -DDOUBLE" : "");
    gop_cl_launch launch = {
        .source = source,
        .kernel = kernel,
        .options = options,
        .operands = 2,
        .operand = {{to, 1}, {from, 0}},
        .values = 1,
        .value = {{sizeof n, &n}},
        .dimensions = 1,
        .global = {(size_t)(groups * own->group)},
        .local = {(size_t)own->group},
    };
    return gop_cl_run(ctx, &launch);
}

gop_status gop_cl_lecture_run(gop_ctx *ctx, const gop_task *task, const char *source,
                              const char *kernel)
{
    const gop_cl_lecture *const own = GOP_OWN(const gop_cl_lecture, task->plan);
    const size_t half[2] = {0, (size_t)(task->geometry.reduction.count + 1) / 2 * 8};
    gop_array from = task->in[0], to;
    int64_t n = task->geometry.reduction.count, left = 0;
    for (int level = 0; left != 1; level ^= 1, n = left, from = to) {
        left = gop_cl_ceil(n, own->each);
        if (left > own->most) left = own->most;
        to = left == 1
                 ? task->out[0]
                 : gop_cl_in_scratch(task->scratch, half[level], task->out[0].dtype, left);
        /* Of pairs: a work-item makes each sum. */
        const int64_t groups = own->each == 2 ? gop_cl_ceil(left, own->group) : left;
        GOP_TRY(gop_cl_lecture_launch(ctx, task, source, kernel, &to, &from, n, groups));
    }
    return GOP_OK;
}

#define LECTURE_ROW(kernel, each, most, said)                                                  \
    static gop_status reduce_##kernel(gop_ctx *ctx, const gop_task *task, int64_t step)        \
    {                                                                                          \
        (void)step;                                                                            \
        return gop_cl_lecture_run(ctx, task, "reduce/" #kernel, "reduce_" #kernel "_kernel");  \
    }                                                                                          \
    static gop_status reduce_##kernel##_plan(const gop_ctx *ctx, const gop_task *task,         \
                                             gop_plan *plan)                                   \
    {                                                                                          \
        plan->launch = reduce_##kernel;                                                        \
        return gop_cl_lecture_plan(ctx, task, each, most, plan);                               \
    }                                                                                          \
    extern const gop_row reduce_##kernel##_row;                                                \
    const gop_row reduce_##kernel##_row = {                                                    \
        .name = #kernel,                                                                       \
        .note = said,                                                                          \
        .role = GOP_TEACHING,                                                                  \
        .caveat = LECTURE_OWN_ORDER,                                                           \
        .lecture = "opencl",                                                                   \
        .tunables = {GOP_CL_GROUP},                                                            \
        .plan = reduce_##kernel##_plan,                                                        \
        .dtypes = LECTURE_DTYPES,                                                              \
    }

LECTURE_ROW(naive, 2, INT64_MAX,
            "neighbours in pairs, a launch a level: every level goes through global memory");
LECTURE_ROW(interleaved, 0, INT64_MAX,
            "a work-group meets in local memory: many levels a launch, but a GPU runs on for a "
            "few work-items");
LECTURE_ROW(sequential, 0, INT64_MAX,
            "the words that are added are neighbours: every bank answers once");
LECTURE_ROW(cascaded, 4096, gop_cl_lecture_resident(ctx),
            "a grid that fits the device: a work-item adds many numbers before a group meets");
