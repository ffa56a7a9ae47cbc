/*
 * ladder.c - the OpenCL kernels of reduce, in the order of reading. Each is in the file of its
 * name, <kernel>.cl, which the device's driver compiles.
 *
 * Floor: every element is read once. What makes it hard: an output waits for a chain of
 * additions, whose order is fixed. tree/v1 has 128 independent lanes, for work-items on a GPU
 * and for vectors on a CPU.
 */
#include "opencl/reduce/plan.h"

#define OWN_ORDER                                                                              \
    "adds in an order of its own: the last bits of a float sum differ from those of tree/v1"
#define NO_ORDER                                                                               \
    "adds in whatever order groups end: the last bits of a float sum change from run to run"
#define SUMMED (1u << GOP_INT32 | 1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)

/* clang-format off */
#define LESSON(said) \
    .role = GOP_TEACHING, .caveat = said, .lecture = "opencl", .tunables = {GOP_CL_GROUP}
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, gop_cl_reduce_pairs, \
        .note = "neighbours in pairs, a launch a level: every level goes through global memory", \
        LESSON(OWN_ORDER), .dtypes = SUMMED) \
    ROW(op, stem, interleaved, gop_cl_reduce_groups, \
        .note = "a work-group meets in local memory: many levels a launch, but a GPU runs on " \
                "for a few work-items", \
        LESSON(OWN_ORDER), .dtypes = SUMMED) \
    ROW(op, stem, sequential, gop_cl_reduce_groups, \
        .note = "the words that are added are neighbours: every bank answers once", \
        LESSON(OWN_ORDER), .dtypes = SUMMED) \
    ROW(op, stem, cascaded, gop_cl_reduce_resident, \
        .note = "a grid that fits the device: a work-item adds many numbers before a group " \
                "meets", \
        LESSON(OWN_ORDER), .dtypes = SUMMED) \
    ROW(op, stem, atomic, gop_cl_reduce_atomic, \
        .note = "work-groups add to one number: no second pass", \
        LESSON(NO_ORDER), .dtypes = 1u << GOP_FLOAT32) \
    ROW(op, stem, tree, gop_cl_reduce_tree, \
        .note = "a lane of a leaf a work-item, in private memory; teams of them meet in local " \
                "memory", \
        .tunables = {GOP_CL_GROUP}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, chunked, gop_cl_reduce_chunked, \
        .note = "a chunk of the array a work-item, in vectors along memory: of an output's " \
                "elements, or of several outputs", \
        .tunables = {{"strip", 3, {64, 16, 32}}}, .dtypes = GOP_EVERY_DTYPE)
/* clang-format on */

GOP_CL_LADDER(reduce, reduce, ROWS);
