/*
 * plan.h - what the rows of tree/v1 share: how a call becomes one or two jobs, each a launch or
 * two.
 */
#ifndef GOP_OPENCL_REDUCE_PLAN_H
#define GOP_OPENCL_REDUCE_PLAN_H

#include "opencl/opencl.h"

enum {
    REDUCE_AXES = 24,
    REDUCE_LEAF = 2048, /* elements of a leaf of tree/v1 */
    REDUCE_LANES = 128,
};

/* The structs that finish.cl declares for kernels. */
typedef struct gop_cl_reduce_shape {
    int64_t kept, reduced, outputs, count;
    int64_t extent[REDUCE_AXES], in[REDUCE_AXES], where[REDUCE_AXES], out[REDUCE_AXES];
} gop_cl_reduce_shape;

typedef struct gop_cl_reduce_work {
    int64_t leaves, nodes, each, counts;
    uint64_t initial[2];
    int node_leaves, turns, flags, has_where, has_initial, is_mean, team, by_rows;
} gop_cl_reduce_work;

/* One reduction of one array. A mean with a mask is two: the first one counts. */
typedef struct gop_cl_reduce_job {
    char options[GOP_CL_OPTIONS];
    const char *kernel;
    gop_cl_reduce_shape shape;
    gop_cl_reduce_work work;
    int64_t groups;               /* work-groups */
    int group, root_group, items; /* work-items of them; items: elements of a vector */
} gop_cl_reduce_job;

typedef struct gop_cl_reduce_plan {
    const gop_cl_names *names;
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

/* ---- the plans of rows ---- */

#define PLAN(by)                                                                               \
    gop_status gop_cl_reduce_##by(const gop_ctx *ctx, const gop_task *task,                    \
                                  const gop_cl_names *names, gop_plan *plan) GOP_MUST_CHECK
PLAN(tree);     /* tunable "group" */
PLAN(chunked);  /* tunable "strip" */
PLAN(pairs);    /* of the lecture, tunable "group": a sum a work-item */
PLAN(groups);   /* a sum a work-group */
PLAN(resident); /* as many groups as fit the device */
PLAN(atomic);
#undef PLAN

#endif
