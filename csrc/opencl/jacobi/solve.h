/*
 * solve.h - the loop of the solver: steps of jacobi_step on the device, and the host's verdict.
 */
#ifndef GOP_OPENCL_JACOBI_SOLVE_H
#define GOP_OPENCL_JACOBI_SOLVE_H

#include "core/ops/jacobi.h"
#include "opencl/opencl.h"

#define PLAN(by)                                                                               \
    gop_status gop_cl_solve_by_##by(const gop_ctx *ctx, const gop_task *task,                  \
                                    const gop_cl_names *names, gop_plan *plan) GOP_MUST_CHECK
PLAN(groups); /* by steps of the kernel "group", whatever the system */
PLAN(best);   /* by those of jacobi_step's choice */
#undef PLAN

#endif
