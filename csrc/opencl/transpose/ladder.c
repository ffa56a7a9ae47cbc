/*
 * ladder.c - the OpenCL kernels of transpose, in the order of reading. Each is in the files of
 * its name: <kernel>.cl, which the device's driver compiles, and its row in <kernel>.c.
 *
 * Floor: every item read once and written once. Neighbours of the input lie far apart in the
 * output: on a GPU a tile waits in local memory, on a CPU in the caches.
 */
#include "opencl/opencl.h"

/* clang-format off */
#define TRANSPOSE(ROW) \
    ROW(transpose, naive) \
    ROW(transpose, tiled) \
    ROW(transpose, padded) \
    ROW(transpose, words) \
    ROW(transpose, blocked) \
    ROW(transpose, chunked)
/* clang-format on */

GOP_CL_LADDER(transpose, TRANSPOSE);
