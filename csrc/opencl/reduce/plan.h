/*
 * plan.h - what the rows of tree/v1 share: how a call becomes one or two jobs, each a launch or
 * two.
 */
#ifndef GOP_OPENCL_REDUCE_PLAN_H
#define GOP_OPENCL_REDUCE_PLAN_H

#include "core/numerics.h"
#include "opencl/opencl.h"

/* The structs that finish.cl declares for kernels. */
typedef struct gop_cl_reduce_shape {
    int64_t kept, reduced, outputs, count;
    gop_cl_axes axes; /* out, in, where; without its fourth operand, and so the last member */
} gop_cl_reduce_shape;

typedef struct gop_cl_reduce_work {
    int64_t leaves, nodes, each, counts;
    uint64_t initial[2];
    int node_leaves, turns, flags, has_where, has_initial, is_mean, team, by_rows;
} gop_cl_reduce_work;

/* One reduction of one array. A mean with a mask is two: the first one counts. */
typedef struct gop_cl_reduce_job {
    gop_cl_build build;
    const char *kernel;
    gop_cl_reduce_shape shape;
    gop_cl_reduce_work work;
    int64_t groups;               /* work-groups */
    int group, root_group, items; /* work-items of them; items: elements of a vector */
} gop_cl_reduce_job;

typedef struct gop_cl_reduce_plan {
    gop_cl_reduce_job job, counting;
    int counts; /* whether there is the second one */
} gop_cl_reduce_plan;

/* Whether neighbours in memory belong to several outputs rather than to one. */
int gop_cl_reduce_is_across(const gop_cl_reduce_shape *shape);

/* A row's part: work, kernel and groups of a job, and what its build defines besides. */
typedef void (*gop_cl_reduce_share)(const gop_ctx *ctx, const gop_task *task,
                                    gop_cl_reduce_job *job, char *options, size_t room);

/* Fills the plan of a row in vectors of `bytes`, 0: of one element. */
gop_status gop_cl_reduce_plan_of(const gop_ctx *ctx, const gop_task *task,
                                 const gop_cl_names *names, int bytes,
                                 gop_cl_reduce_share share, gop_plan *plan) GOP_MUST_CHECK;

#endif
