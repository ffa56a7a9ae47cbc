/*
 * guessed.c - the row of guessed.cl.
 */
#include "opencl/rdf/arguments.h"

#include <stdio.h>

enum { COPIED = 16 << 10 }; /* bytes of all copies of the counters, at most */

static gop_status rdf_guessed(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return gop_cl_rdf_run_pairs(ctx, task, step, "rdf/guessed", "rdf_guessed_kernel");
}

static gop_status rdf_guessed_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    gop_cl_rdf_pairs *const own = GOP_OWN(gop_cl_rdf_pairs, plan);
    const int copies = gop_cl_rdf_copies(task, COPIED), points = (int)task->tune[0];
    char more[80];
    GOP_TRY(gop_cl_rdf_can(ctx, task, "guessed"));
    own->group = gop_cl_group(ctx, (int)task->tune[1]);
    own->each = (int64_t)own->group * points;
    own->nearby = (size_t)((task->geometry.pairs.bins + 1) * gop_cl_item(task->in[0].dtype));
    own->histogram = gop_cl_rdf_counter_bytes(task) * (size_t)copies;
    GOP_TRY(
        gop_cl_rdf_fits(ctx, task, "guessed", copies, (int64_t)own->nearby + own->group * 32));
    snprintf(more, sizeof more, "-DGROUP=%d -DPOINTS=%d -DCOPIES=%d", own->group, points,
             copies);
    gop_cl_rdf_options(ctx, task, more, own->options);
    gop_cl_rdf_cut(task, 1 << 18, 1 << 15, plan);
    plan->launch = rdf_guessed;
    return GOP_OK;
}

extern const gop_row rdf_guessed_row;
const gop_row rdf_guessed_row = {
    .name = "guessed",
    .note = "points in registers, several copies of the counters; a guess names the bin, and "
            "thresholds are read only near an edge",
    .role = GOP_CONFORMING,
    .tunables = {{"points", 3, {2, 1, 4}}, GOP_CL_GROUP},
    .plan = rdf_guessed_plan,
    .dtypes = RDF_DTYPES,
};
