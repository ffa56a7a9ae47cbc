/*
 * ladder.c - the OpenCL kernels of add, multiply_add and fma, in the order of reading. Each is
 * in the file of its name, <kernel>.cl, which the device's driver compiles.
 *
 * Floor: every input read once, the output written once. GPUs want neighbouring work-items on
 * neighbouring elements, CPUs a chunk of memory for each: the same source does not serve both.
 */
#include "opencl/add/plan.h"

#define FLOATS (1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16 | 1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)
#define DTYPES_add GOP_EVERY_DTYPE
#define DTYPES_multiply_add GOP_EVERY_DTYPE
#define DTYPES_fma FLOATS
#define DTYPES(op) DTYPES_##op

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, gop_cl_add_by_items, \
        .note = "one element a work-item, any strides: neighbouring work-items write " \
                "neighbours, which a GPU's memory gives at once", \
        .lecture = "opencl", .tunables = {GOP_CL_GROUP}, .dtypes = DTYPES(op)) \
    ROW(op, stem, vectorized, gop_cl_add_by_vectors, \
        .note = "a vector of 16 bytes a work-item, as float4: one access of memory where " \
                "scalars make several; of 64 bytes, as float16, on a CPU", \
        .lecture = "opencl", .tunables = {{"bytes", 4, {16, 64, 32, 8}}, GOP_CL_GROUP}, \
        .dtypes = DTYPES(op)) \
    ROW(op, stem, chunked, gop_cl_add_by_chunks, \
        .note = "a contiguous chunk a work-item, vector by vector: a CPU runs work-items one " \
                "after the other, and reads each chunk in order", \
        .dtypes = DTYPES(op))
/* clang-format on */

GOP_CL_LADDER(add, add, ROWS);
GOP_CL_LADDER(multiply_add, add, ROWS);
GOP_CL_LADDER(fma, add, ROWS);
