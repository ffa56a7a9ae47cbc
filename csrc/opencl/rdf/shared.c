/*
 * shared.c - the row of shared.cl.
 */
#include "opencl/rdf/arguments.h"

#include <stdio.h>

static gop_status rdf_shared(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return gop_cl_rdf_run_pairs(ctx, task, step, "rdf/shared", "rdf_shared_kernel");
}

static gop_status rdf_shared_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    gop_cl_rdf_pairs *const own = GOP_OWN(gop_cl_rdf_pairs, plan);
    char group[32];
    GOP_TRY(gop_cl_rdf_can(ctx, task, "shared"));
    own->each = own->group = gop_cl_group(ctx, (int)task->tune[0]);
    GOP_TRY(gop_cl_rdf_fits(ctx, task, "shared", 1, own->group * 32));
    snprintf(group, sizeof group, "-DGROUP=%d", own->group);
    gop_cl_rdf_options(ctx, task, group, own->options);
    own->nearby = 0;
    own->histogram = gop_cl_rdf_counter_bytes(task);
    gop_cl_rdf_cut(task, 1 << 16, 1 << 14, plan);
    plan->launch = rdf_shared;
    return GOP_OK;
}

extern const gop_row rdf_shared_row;
const gop_row rdf_shared_row = {
    .name = "shared",
    .note = "a tile of points and the counters in local memory: atomics stay inside the "
            "compute unit",
    .role = GOP_CONFORMING,
    .lecture = RDF_LECTURE,
    .tunables = {GOP_CL_GROUP},
    .plan = rdf_shared_plan,
    .dtypes = RDF_DTYPES,
};
