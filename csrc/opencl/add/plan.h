/*
 * plan.h - the plans of add, multiply_add and fma: a number, a vector or a chunk a work-item.
 */
#ifndef GOP_OPENCL_ADD_PLAN_H
#define GOP_OPENCL_ADD_PLAN_H

#include "opencl/opencl.h"

#define PLAN(by)                                                                               \
    gop_status gop_cl_add_by_##by(const gop_ctx *ctx, const gop_task *task,                    \
                                  const gop_cl_names *names, gop_plan *plan) GOP_MUST_CHECK
PLAN(items);   /* kernels that are told the axes, tunable "group" */
PLAN(vectors); /* one axis without gaps; tunables "bytes" and "group" */
PLAN(chunks);  /* told the axes and the chunk's elements */
#undef PLAN

#endif
