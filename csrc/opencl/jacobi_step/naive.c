/*
 * naive.c - the row of naive.cl.
 */
#include "opencl/jacobi_step/system.h"

static gop_status jacobi_step_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return gop_cl_step_run(ctx, task, step, "jacobi_step/naive", "jacobi_step_naive_kernel");
}

static gop_status jacobi_step_naive_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    gop_cl_step *const own = GOP_OWN_OF_STEP(gop_cl_step, plan);
    if (p->csr || p->grid.axes)
        return gop_fail(GOP_REFUSED,
                        "jacobi_step: kernel 'naive' takes a dense A, got a %s; "
                        "kernel 'rows' takes those",
                        p->csr ? "CSR matrix" : "stencil");
    GOP_TRY(gop_cl_step_plan(ctx, task, "", plan));
    own->group = gop_cl_group(ctx, (int)task->tune[0]);
    own->each = 1;
    own->together = 0;
    plan->launch = jacobi_step_naive;
    return GOP_OK;
}

extern const gop_row jacobi_step_naive_row;
const gop_row jacobi_step_naive_row = {
    .name = "naive",
    .note = "a work-item per row: neighbouring work-items read a whole row apart",
    .role = GOP_TEACHING,
    .caveat = "adds a row's terms in column order, each product rounded, not in the order of "
              "tree/v1",
    .lecture = JACOBI_LECTURE,
    .tunables = {GOP_CL_GROUP},
    .plan = jacobi_step_naive_plan,
    .dtypes = JACOBI_REALS,
};
