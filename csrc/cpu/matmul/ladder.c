/*
 * ladder.c - the CPU kernels of matmul, in reading order. Each is in the file of its name.
 *
 * out[batch, i, j] = sum over l of a[batch, i, l] b[batch, l, j]. Floor: 2 m n k flops. A core
 * can do dozens of them in the time of one load from memory. So the kernels differ in how often
 * a loaded value is used: once, once per pass over a block in cache, or once per row or column
 * of accumulators in registers.
 */
#include "cpu/runtime/cpu.h"

/* clang-format off */
#define KERNELS(ROW, op) \
    ROW(op, naive) \
    ROW(op, blocked) \
    ROW(op, simd) \
    ROW(op, threaded) \
    ROW(op, direct) \
    ROW(op, vector)
/* clang-format on */

#define FOLDER matmul
#include "cpu/runtime/each_kernel.inc"

#include "cpu/matmul/choose.c"

GOP_CPU_LADDER(matmul, KERNELS);
