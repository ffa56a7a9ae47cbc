/*
 * solve.h - the loop of the solver: steps of jacobi_step on the device, and the host's verdict.
 */
#ifndef GOP_OPENCL_JACOBI_SOLVE_H
#define GOP_OPENCL_JACOBI_SOLVE_H

#include "core/ops/jacobi.h"
#include "opencl/opencl.h"

/* The plan of a row whose steps are those of a kernel of jacobi_step; NULL: of its choice. */
gop_status gop_cl_solve_plan(const gop_ctx *ctx, const gop_task *task, const char *name,
                             gop_plan *plan) GOP_MUST_CHECK;
gop_status gop_cl_solve(gop_ctx *ctx, const gop_task *task) GOP_MUST_CHECK;

#define SOLVE_DTYPES                                                                           \
    (1u << GOP_FLOAT32 | 1u << GOP_FLOAT64 | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128)

#endif
