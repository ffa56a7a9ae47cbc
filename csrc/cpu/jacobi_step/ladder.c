/*
 * ladder.c - the CPU kernels of jacobi_step, in reading order. Each is in the file of its
 * name.
 *
 * One step of a stationary iteration, for dense and CSR matrices:
 *
 *     s = A x;   out = x + alpha (s - f)   or   out = x + omega (f - s) / d
 *
 * The floor is reading A once: two flops for every 4 or 8 bytes, so it is memory-bound. The
 * difficulty is that a row's sum has a fixed order, tree/v1. But its 128 lanes are 128
 * independent sums, as vector instructions and memory latency require anyway.
 */
#include "cpu/runtime/cpu.h"

/* clang-format off */
#define KERNELS(ROW, op) \
    ROW(op, naive) \
    ROW(op, simd) \
    ROW(op, threaded)
/* clang-format on */

#define FOLDER jacobi_step
#include "cpu/runtime/each_kernel.inc"

#include "cpu/jacobi_step/choose.c"

GOP_CPU_LADDER(jacobi_step, KERNELS);
