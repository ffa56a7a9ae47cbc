/*
 * ladder.c - the OpenCL kernels of add, multiply_add and fma, in the order of reading. Each is
 * in the files of its name: <kernel>.cl, which the device's driver compiles, and its row in
 * <kernel>.c.
 *
 * Floor: every input read once, the output written once. GPUs want neighbouring work-items on
 * neighbouring elements, CPUs a chunk of memory for each: the same source does not serve both.
 */
#include "opencl/opencl.h"

#define ADD(ROW) ROW(add, naive) ROW(add, vectorized) ROW(add, chunked)
/* clang-format off */
#define MULTIPLY_ADD(ROW) \
    ROW(multiply_add, naive) \
    ROW(multiply_add, vectorized) \
    ROW(multiply_add, chunked)
/* clang-format on */
#define FMA(ROW) ROW(fma, naive) ROW(fma, vectorized) ROW(fma, chunked)

GOP_CL_LADDER(add, ADD);
GOP_CL_LADDER(multiply_add, MULTIPLY_ADD);
GOP_CL_LADDER(fma, FMA);
