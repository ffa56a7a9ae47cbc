/*
 * ladder.c - the CPU kernels of rdf, in reading order. Each is in the file of its name.
 *
 * Pair-distance histograms: count, per bin, the pairs of points whose distance is in it. The
 * floor is arithmetic: about ten operations and one increment per pair, for n(n-1)/2 pairs. The
 * difficulty is the increment: its address depends on data, so it cannot be vectorized, and an
 * increment of a counter waits for the one before of the same counter.
 */
#include "cpu/runtime/cpu.h"

/* clang-format off */
#define KERNELS(ROW, op) \
    ROW(op, naive) \
    ROW(op, rotated) \
    ROW(op, simd) \
    ROW(op, threaded) \
    ROW(op, cells)
/* clang-format on */

#define FOLDER rdf
#include "cpu/runtime/each_kernel.inc"

#include "cpu/rdf/choose.c"

GOP_CPU_LADDER(rdf, KERNELS);
