/*
 * ladder.c - the OpenCL kernels of jacobi_step, in the order of reading. Each is in the files
 * of its name: <kernel>.cl, which the device's driver compiles, and its row in <kernel>.c.
 *
 *     s = A x;   out = x + alpha (s - f)   or   out = x + omega (f - s) / d
 *
 * The floor is reading A once: memory decides. The bits of a row's sum must not depend on who
 * adds it up: tree/v1 fixes them, 128 lanes a leaf.
 */
#include "opencl/opencl.h"

#define ROWS(ROW) ROW(jacobi_step, naive) ROW(jacobi_step, group) ROW(jacobi_step, rows)

GOP_CL_LADDER(jacobi_step, ROWS);
