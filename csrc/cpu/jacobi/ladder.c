/*
 * ladder.c - the CPU kernels of jacobi, in reading order. Each is in the file of its name.
 *
 * The solver repeats a kernel of jacobi_step, so the floor is that kernel's: A is read once per
 * step. The solver adds the norm of the residual at each check, and saves the return to Python
 * at each step.
 */
#include "cpu/runtime/cpu.h"

/* clang-format off */
#define KERNELS(ROW, op) \
    ROW(op, naive) \
    ROW(op, threaded)
/* clang-format on */

#define FOLDER jacobi
#include "cpu/runtime/each_kernel.inc"

#include "cpu/jacobi/choose.c"

GOP_CPU_LADDER(jacobi, KERNELS);
