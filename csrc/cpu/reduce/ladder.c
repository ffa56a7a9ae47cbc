/*
 * ladder.c - the CPU kernels of reduce, in reading order. Each is in the file of its name.
 *
 * Floor: every element is read once. The difficulty: each output is a chain of dependent
 * additions in a fixed order. tree/v1 has 128 independent chains, wide enough for any vector
 * unit, and leaves of 2048 elements, which threads can compute without changing the order.
 */
#include "cpu/runtime/cpu.h"

/* clang-format off */
#define KERNELS(ROW, op) \
    ROW(op, naive) \
    ROW(op, blocked) \
    ROW(op, simd) \
    ROW(op, threaded) \
    ROW(op, exact)
/* clang-format on */

#define FOLDER reduce
#include "cpu/runtime/each_kernel.inc"

#include "cpu/reduce/choose.c"

GOP_CPU_LADDER(reduce, KERNELS);
