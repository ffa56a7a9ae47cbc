/*
 * system.h - the operands of a launch of jacobi_step, and the plan of its slices.
 */
#ifndef GOP_OPENCL_JACOBI_STEP_SYSTEM_H
#define GOP_OPENCL_JACOBI_STEP_SYSTEM_H

#include "core/ops/jacobi.h"
#include "opencl/opencl.h"

/* The plan. */
typedef struct gop_cl_step {
    const gop_cl_names *names;
    char options[GOP_CL_OPTIONS];
    int group;    /* work-items of a work-group */
    int64_t each; /* rows of a work-item; of a work-group where `together` */
    int together;
} gop_cl_step;

/* What a row's kernel is built with, and what else it defines. Fails where the device has not
 * the arithmetic. Cuts the call into slices of rows, far below 100 ms each. */
gop_status gop_cl_step_plan(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                            const char *more, gop_plan *plan) GOP_MUST_CHECK;

/* ---- the plans of rows, tunable "group" ---- */

#define PLAN(by)                                                                               \
    gop_status gop_cl_step_##by(const gop_ctx *ctx, const gop_task *task,                      \
                                const gop_cl_names *names, gop_plan *plan) GOP_MUST_CHECK
PLAN(by_items);  /* a row of a dense A a work-item */
PLAN(by_groups); /* a row of a matrix a work-group */
PLAN(rows);      /* rows of any system */
#undef PLAN

#endif
