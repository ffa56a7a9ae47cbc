/*
 * ladder.c - the CPU kernels of transpose, in reading order. Each is in the file of its name.
 *
 * Floor: every item is read once and written once. The difficulty: contiguous items of the
 * input are far apart in the output. Memory moves in cache lines of 64 bytes. So in any loop
 * order one side wastes most of every line, unless the elements of many lines are kept together
 * in cache. Only two axes matter: x, the input's fastest, and y, the output's fastest.
 */
#include "cpu/runtime/cpu.h"
#include "cpu/transpose/cast.h"

/* clang-format off */
#define KERNELS(ROW, op) \
    ROW(op, naive) \
    ROW(op, blocked) \
    ROW(op, simd) \
    ROW(op, streaming) \
    ROW(op, threaded)
/* clang-format on */

#define FOLDER transpose
#include "cpu/runtime/each_kernel.inc"

#include "cpu/transpose/choose.c"

GOP_CPU_LADDER(transpose, KERNELS);
