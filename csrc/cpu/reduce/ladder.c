/*
 * ladder.c - the CPU kernels of reduce, in the order of reading. Each is in the file
 * of its name.
 *
 * Floor: every element is read once. What makes it hard: each output waits for a chain of
 * additions, whose order is fixed. tree/v1 has 128 independent chains, wide enough for any
 * vector unit, and leaves of 2048 elements, which threads can take without touching the order.
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
