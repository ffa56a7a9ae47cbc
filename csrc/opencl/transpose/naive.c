/*
 * naive.c - the row of naive.cl.
 */
#include "opencl/transpose/plane.h"

typedef struct naive {
    char options[GOP_CL_OPTIONS];
    gop_cl_axes axes;
    int group;
} naive;

static gop_status transpose_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const naive *const own = GOP_OWN(const naive, task->plan);
    gop_cl_launch launch = {
        .source = "transpose/naive",
        .kernel = "transpose_naive_kernel",
        .options = own->options,
        .values = 1,
        .value = {{sizeof own->axes, &own->axes}},
        .dimensions = 1,
        .global = {(size_t)own->axes.size},
        .local = {(size_t)own->group},
    };
    (void)step;
    gop_cl_transpose_operands(task, &launch);
    return gop_cl_transpose_launch(ctx, task, &launch, &own->axes);
}

static gop_status transpose_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    naive *const own = GOP_OWN(naive, plan);
    gop_cl_transpose_options(task, "", own->options);
    gop_cl_transpose_axes(&task->geometry.permutation, &own->axes);
    own->group = gop_cl_group(ctx, (int)task->tune[0]);
    plan->launch = transpose_naive;
    return GOP_OK;
}

extern const gop_row transpose_naive_row;
const gop_row transpose_naive_row = {
    .name = "naive",
    .note = "one element a work-item in the output's order: neighbours are written, reads at "
            "least are cached",
    .role = GOP_CONFORMING,
    .lecture = "opencl",
    .tunables = {GOP_CL_GROUP},
    .plan = transpose_naive_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
