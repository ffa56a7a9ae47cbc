/*
 * arguments.h - what kernels of rdf are given: points, bins, counters, and which pairs.
 */
#ifndef GOP_OPENCL_RDF_ARGUMENTS_H
#define GOP_OPENCL_RDF_ARGUMENTS_H

#include "core/ops/rdf.h"
#include "opencl/opencl.h"

/* As opencl/rdf/pairs.cl has them. */
typedef struct gop_cl_rdf_call {
    int64_t n, n2, row, col, row2, col2, type_row, type_row2, out_row, out_col;
    int32_t bins, types, one_set, counters;
    float scale, shift, slack, unused;
} gop_cl_rdf_call;

typedef struct gop_cl_rdf_range {
    int64_t i0, i1, j0, j1;
} gop_cl_rdf_range;

typedef struct gop_cl_rdf_box {
    unsigned char numbers[9 * 8]; /* in the points' dtype */
    size_t bytes;
} gop_cl_rdf_box;

enum { GOP_CL_RDF_GROUP = 256 };

/* Refuses, for a kernel, several frames, and points that the device has no arithmetic for. */
gop_status gop_cl_rdf_can(const gop_ctx *ctx, const gop_task *task,
                          const gop_cl_names *names) GOP_MUST_CHECK;
/* The options of a build, and what else it defines. */
void gop_cl_rdf_options(const gop_ctx *ctx, const gop_task *task, const char *more,
                        char options[GOP_CL_OPTIONS]);
gop_cl_rdf_call gop_cl_rdf_call_of(const gop_task *task);
gop_cl_rdf_box gop_cl_rdf_box_of(const gop_task *task);
/* The labels of a set, or what stands for them where there are none. */
const gop_array *gop_cl_rdf_types(const gop_task *task, int second);
/* Writes the counters: the sums of so many slots', which begin at `slots`. */
gop_status gop_cl_rdf_sum(gop_ctx *ctx, const gop_task *task, const gop_array *slots,
                          int count) GOP_MUST_CHECK;
static inline gop_status gop_cl_rdf_clear(gop_ctx *ctx, const gop_task *task)
{
    return gop_cl_rdf_sum(ctx, task, &task->out[0], 0);
}

/* Refuses where the device's local memory has no room for a kernel's counters and thresholds,
 * each copy of the counters by itself, beside `beside` bytes. */
gop_status gop_cl_rdf_fits(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                           int copies, int64_t beside) GOP_MUST_CHECK;
size_t gop_cl_rdf_counter_bytes(const gop_task *task);
/* Copies of the counters that are few enough for local memory, a power of two. */
int gop_cl_rdf_copies(const gop_task *task);

/* ---- the plans of rows; tunable "group", of guessed after "points" ---- */

#define PLAN(by)                                                                               \
    gop_status gop_cl_rdf_##by(const gop_ctx *ctx, const gop_task *task,                       \
                               const gop_cl_names *names, gop_plan *plan) GOP_MUST_CHECK
PLAN(naive); /* all pairs */
PLAN(shared);
PLAN(guessed);
PLAN(cells); /* those of near cells */
PLAN(chunked);
#undef PLAN

#endif
