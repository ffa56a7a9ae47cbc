/*
 * naive.c - the row of naive.cl.
 */
#include "opencl/add/operands.h"

typedef struct naive {
    char options[GOP_CL_OPTIONS];
    gop_cl_axes axes;
    int group;
} naive;

static gop_status add_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    naive own = *GOP_OWN(const naive, task->plan);
    gop_cl_launch launch = {
        .source = "add/naive",
        .kernel = "add_naive_kernel",
        .options = own.options,
        .values = 1,
        .value = {{sizeof own.axes, &own.axes}},
        .dimensions = 1,
        .global = {(size_t)own.axes.size},
        .local = {(size_t)own.group},
    };
    (void)step;
    gop_cl_add_operands(task, &launch);
    return gop_cl_add_launch(ctx, task, &launch, &own.axes);
}

static gop_status add_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    naive *const own = GOP_OWN(naive, plan);
    GOP_TRY(gop_cl_add_can(ctx, task));
    gop_cl_add_options(task, 1, "", own->options);
    gop_cl_add_axes(&task->geometry.elementwise, &own->axes);
    own->group = gop_cl_group(ctx, (int)task->tune[0]);
    plan->launch = add_naive;
    return GOP_OK;
}

ADD_ROWS(naive,
         .note = "one element a work-item, any strides: neighbouring work-items write "
                 "neighbours, which a GPU's memory gives at once",
         .lecture = "opencl", .tunables = {GOP_CL_GROUP}, .plan = add_naive_plan);
