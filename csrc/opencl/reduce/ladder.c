/*
 * ladder.c - the OpenCL kernels of reduce, in the order of reading. Each is in the files of its
 * name: <kernel>.cl, which the device's driver compiles, and its row in <kernel>.c.
 *
 * Floor: every element is read once. What makes it hard: an output waits for a chain of
 * additions, whose order is fixed. tree/v1 has 128 independent lanes, for work-items on a GPU
 * and for vectors on a CPU.
 */
#include "opencl/opencl.h"

/* clang-format off */
#define REDUCE(ROW) \
    ROW(reduce, naive) \
    ROW(reduce, interleaved) \
    ROW(reduce, sequential) \
    ROW(reduce, cascaded) \
    ROW(reduce, atomic) \
    ROW(reduce, tree) \
    ROW(reduce, chunked)
/* clang-format on */

GOP_CL_LADDER(reduce, REDUCE);
