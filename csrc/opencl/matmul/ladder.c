/*
 * ladder.c - the OpenCL kernels of matmul, in the order of reading. Each is in the files of its
 * name: <kernel>.cl, which the device's driver compiles, and its row in <kernel>.c.
 *
 * Floor: 2 m n k operations. What makes it hard: each needs two numbers, which have to come
 * from nearer than memory. On a GPU that is local memory and then private memory, on a CPU
 * caches and registers.
 */
#include "opencl/opencl.h"

/* clang-format off */
#define MATMUL(ROW) \
    ROW(matmul, naive) \
    ROW(matmul, tiled) \
    ROW(matmul, blocktiled) \
    ROW(matmul, thin) \
    ROW(matmul, packed)
/* clang-format on */

GOP_CL_LADDER(matmul, MATMUL);
