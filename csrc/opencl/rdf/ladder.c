/*
 * ladder.c - the OpenCL kernels of rdf, in the order of reading. Each is in the files of its
 * name: <kernel>.cl, which the device's driver compiles, and its row in <kernel>.c.
 *
 * The floor is arithmetic, about ten operations a pair. What makes it hard is the histogram:
 * all work-items increment the same few counters. GPUs bring those to local memory, a CPU to
 * each work-item.
 */
#include "opencl/opencl.h"

#define ROWS(ROW)                                                                              \
    ROW(rdf, naive) ROW(rdf, shared) ROW(rdf, guessed) ROW(rdf, cells) ROW(rdf, chunked)

GOP_CL_LADDER(rdf, ROWS);
