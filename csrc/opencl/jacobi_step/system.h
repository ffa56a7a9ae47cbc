/*
 * system.h - the operands of a launch of jacobi_step, and the plan of its slices.
 */
#ifndef GOP_OPENCL_JACOBI_STEP_SYSTEM_H
#define GOP_OPENCL_JACOBI_STEP_SYSTEM_H

#include "core/ops/jacobi.h"
#include "opencl/opencl.h"

/* The plan. */
typedef struct gop_cl_step {
    char options[GOP_CL_OPTIONS];
    int group;    /* work-items of a work-group */
    int64_t each; /* rows of a work-item; of a work-group where `together` */
    int together;
} gop_cl_step;

/* What a row's kernel is built with, and what else it defines. Fails where the device has not
 * the arithmetic. Cuts the call into slices of rows, far below 100 ms each. */
gop_status gop_cl_step_plan(const gop_ctx *ctx, const gop_task *task, const char *more,
                            gop_plan *plan) GOP_MUST_CHECK;
gop_status gop_cl_step_run(gop_ctx *ctx, const gop_task *task, int64_t step, const char *source,
                           const char *kernel) GOP_MUST_CHECK;

#define JACOBI_REALS (1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)
#define JACOBI_DTYPES (JACOBI_REALS | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128)
#define JACOBI_LECTURE "simple iteration"

#endif
