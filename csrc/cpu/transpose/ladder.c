/*
 * ladder.c - the CPU kernels of transpose, in the order of reading. Each is in the file of its
 * name.
 *
 * Floor: every item read once and written once. What makes it hard: neighbours in the input are
 * far apart in the output. Memory moves in lines of 64 bytes, so whatever order the loops take,
 * one side wastes most of every line, unless the elements of many lines are held together in
 * cache. Only two axes matter: x, the input's fastest, and y, the output's fastest.
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
