/*
 * ladder.c - the OpenCL kernels of jacobi, in the order of reading, and which of them runs.
 *
 * The solver repeats a kernel of jacobi_step, so its floor is that kernel's: A read once a
 * step. What it adds is the norm of the residual at each check, for which the host waits.
 */
#include "opencl/opencl.h"

#define ROWS(ROW) ROW(jacobi, naive) ROW(jacobi, repeated)

GOP_CL_LADDER(jacobi, ROWS);

static const gop_candidate candidates[] = {
    {.row = &jacobi_repeated_row, .why = "the steps of jacobi_step's choice"},
};

const gop_choice jacobi_choice = {sizeof candidates / sizeof *candidates, candidates, NULL};
