/*
 * ladder.c - the CPU kernels of jacobi, in the order of reading. Each is in the file of its
 * name.
 *
 * The solver repeats a kernel of jacobi_step, so its floor is that kernel's: A read once a
 * step. What it adds is the norm of the residual at each check, and no step through Python.
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
