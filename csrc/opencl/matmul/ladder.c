/*
 * ladder.c - the OpenCL kernels of matmul, in the order of reading. Each is in the file of its
 * name, <kernel>.cl, which the device's driver compiles.
 *
 * Floor: 2 m n k operations. What makes it hard: each needs two numbers, which have to come
 * from nearer than memory. On a GPU that is local memory and then private memory, on a CPU
 * caches and registers.
 */
#include "opencl/matmul/product.h"

#define REAL (GOP_EVERY_DTYPE & ~(1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128))

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, gop_cl_matmul_by_items, \
        .note = "an output a work-item, neighbours in a row: two loads for every multiply-add", \
        .lecture = "opencl", .tunables = {GOP_CL_GROUP}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, tiled, gop_cl_matmul_by_tiles, \
        .note = "tiles of a and b pass through local memory: a number is fetched once for a " \
                "whole row or column of work-items", \
        .lecture = "opencl", .tunables = {{"tile", 2, {16, 8}}}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, blocktiled, gop_cl_matmul_by_private_tiles, \
        .note = "a work-item keeps 8 x 8 outputs in private memory: 16 numbers from local " \
                "memory feed 64 multiply-adds, and the next tile is on its way meanwhile", \
        .tunables = {{"side", 2, {8, 4}}, {"rows", 2, {16, 8}}}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, thin, gop_cl_matmul_thin, \
        .note = "few rows or columns: the long operand is read as it lies, in vectors of " \
                "outputs, or in blocks that are transposed in registers", \
        .dtypes = REAL) \
    ROW(op, stem, packed, gop_cl_matmul_packed, \
        .note = "panels of a and b, packed as they are multiplied: 6 vectors of sums in a " \
                "CPU's registers, and a panel of b in its first cache", \
        .dtypes = GOP_EVERY_DTYPE)
/* clang-format on */

GOP_CL_LADDER(matmul, matmul, ROWS);
