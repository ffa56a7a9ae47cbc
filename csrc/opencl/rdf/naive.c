/*
 * naive.c - the row of naive.cl.
 */
#include "opencl/rdf/arguments.h"

static gop_status rdf_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return gop_cl_rdf_run_pairs(ctx, task, step, "rdf/naive", "rdf_naive_kernel");
}

static gop_status rdf_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    gop_cl_rdf_pairs *const own = GOP_OWN(gop_cl_rdf_pairs, plan);
    GOP_TRY(gop_cl_rdf_can(ctx, task, "naive"));
    gop_cl_rdf_options(ctx, task, "", own->options);
    own->each = own->group = gop_cl_group(ctx, (int)task->tune[0]);
    own->nearby = own->histogram = 0;
    gop_cl_rdf_cut(task, 1 << 14, 1 << 12, plan);
    plan->launch = rdf_naive;
    return GOP_OK;
}

extern const gop_row rdf_naive_row;
const gop_row rdf_naive_row = {
    .name = "naive",
    .note = "a work-item per point; every pair adds to a counter in global memory",
    .role = GOP_CONFORMING,
    .lecture = RDF_LECTURE,
    .tunables = {GOP_CL_GROUP},
    .plan = rdf_naive_plan,
    .dtypes = RDF_DTYPES,
};
