/*
 * ladder.c - the OpenCL kernels of rdf, in the order of reading. Each is in the file of its
 * name, <kernel>.cl, which the device's driver compiles.
 *
 * The floor is arithmetic, about ten operations a pair. What makes it hard is the histogram:
 * all work-items increment the same few counters. GPUs bring those to local memory, a CPU to
 * each work-item.
 */
#include "opencl/rdf/arguments.h"

#define REALS (1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, gop_cl_rdf_naive, \
        .note = "a work-item per point; every pair adds to a counter in global memory", \
        .lecture = "radial distribution function", .tunables = {GOP_CL_GROUP}, .dtypes = REALS) \
    ROW(op, stem, shared, gop_cl_rdf_shared, \
        .note = "a tile of points and the counters in local memory: atomics stay inside the " \
                "compute unit", \
        .lecture = "radial distribution function", .tunables = {GOP_CL_GROUP}, .dtypes = REALS) \
    ROW(op, stem, guessed, gop_cl_rdf_guessed, \
        .note = "points in registers, several copies of the counters; a guess names the bin, " \
                "and thresholds are read only near an edge", \
        .tunables = {{"points", 3, {2, 1, 4}}, GOP_CL_GROUP}, .dtypes = REALS) \
    ROW(op, stem, cells, gop_cl_rdf_cells, \
        .note = "points sorted into cells on the device; a work-item looks at near cells only", \
        .tunables = {{"group", 3, {128, 64, 256}}}, .dtypes = REALS) \
    ROW(op, stem, chunked, gop_cl_rdf_chunked, \
        .note = "for CPUs: vectors of pairs, a chunk of points and counters of its own a " \
                "work-item; near cells only where r_max is short", \
        .tunables = {{"cells", 2, {1, 0}}, {"width", 4, {0, 16, 8, 4}}}, .dtypes = REALS)
/* clang-format on */

GOP_CL_LADDER(rdf, rdf, ROWS);
