/*
 * ladder.c - the OpenCL kernels of jacobi, in the order of reading, and which of them runs.
 *
 * The solver repeats a kernel of jacobi_step, so its floor is that kernel's: A read once a
 * step. What it adds is the norm of the residual at each check, for which the host waits.
 */
#include "opencl/jacobi/solve.h"

#define EVERY                                                                                  \
    (1u << GOP_FLOAT32 | 1u << GOP_FLOAT64 | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128)

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, gop_cl_solve_by_groups, \
        .note = "the steps of a work-group per row, and a norm after each", \
        .lecture = "simple iteration", .dtypes = EVERY) \
    ROW(op, stem, repeated, gop_cl_solve_by_best, \
        .note = "the best steps that take the system, on the device; the host judges a few " \
                "numbers at each check", \
        .dtypes = EVERY)
/* clang-format on */

GOP_CL_LADDER(jacobi, jacobi, ROWS);

static const gop_candidate candidates[] = {
    {.row = &jacobi_repeated_row, .why = "the steps of jacobi_step's choice"},
};

const gop_choice jacobi_choice = {sizeof candidates / sizeof *candidates, candidates, NULL};
