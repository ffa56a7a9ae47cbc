/*
 * checked.h - a step of a stencil that sums the squares of its residual on the way.
 */
#ifndef GOP_CUDA_JACOBI_CHECKED_H
#define GOP_CUDA_JACOBI_CHECKED_H

#include "cuda/device.h"

/* Whether there is one for that call of the solver: for real numbers, coefficients that are the
 * same everywhere, and one right-hand side whose items lie side by side. */
bool gop_jacobi_is_checked(const gop_task *task);

/* The step between two iterates, the residual, where it is not NULL, and the sum of its squares
 * of each leaf. */
gop_status gop_jacobi_checked(gop_ctx *ctx, const gop_task *task, const void *from, void *to,
                              void *residual, double *sums);

#endif
