/*
 * naive.c - the row of naive.cl.
 */
#include "opencl/matmul/product.h"

static gop_status matmul_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_multiplying *const own = GOP_OWN(const gop_cl_multiplying, task->plan);
    const gop_cl_product_part part = gop_cl_matmul_part(own, step);
    const gop_cl_launch launch =
        gop_cl_matmul_launch(task, &part, "matmul/naive", "matmul_naive_kernel",
                             part.batches * part.rows * part.columns, own->group);
    return gop_cl_run(ctx, &launch);
}

static gop_status matmul_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { SLOWER = 64 }; /* than the best kernel, cautiously */
    plan->launch = matmul_naive;
    GOP_OWN(gop_cl_multiplying, plan)->group = gop_cl_group(ctx, (int)task->tune[0]);
    return gop_cl_matmul_plan(ctx, task, "naive", gop_cl_matmul_parts(task->in[0].dtype),
                              gop_cl_matmul_work(ctx, SLOWER), "", plan);
}

extern const gop_row matmul_naive_row;
const gop_row matmul_naive_row = {
    .name = "naive",
    .note = "an output a work-item, neighbours in a row: two loads for every multiply-add",
    .role = GOP_CONFORMING,
    .lecture = "opencl",
    .tunables = {GOP_CL_GROUP},
    .plan = matmul_naive_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
