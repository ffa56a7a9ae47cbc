/*
 * ladder.c - the OpenCL kernels of transpose, in the order of reading. Each is in the file of
 * its name, <kernel>.cl, which the device's driver compiles.
 *
 * Floor: every item read once and written once. Neighbours of the input lie far apart in the
 * output: on a GPU a tile waits in local memory, on a CPU in the caches.
 */
#include "opencl/transpose/plan.h"

#define SMALL                                                                                  \
    (1u << GOP_BOOL | 1u << GOP_INT8 | 1u << GOP_UINT8 | 1u << GOP_INT16 | 1u << GOP_UINT16 |  \
     1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16)

/* clang-format off */
#define TILES {"side", 3, {32, 16, 64}}, {"rows", 4, {2, 4, 8, 16}}
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, gop_cl_transpose_by_items, \
        .note = "one element a work-item in the output's order: neighbours are written, reads " \
                "at least are cached", \
        .lecture = "opencl", .tunables = {GOP_CL_GROUP}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, tiled, gop_cl_transpose_by_tiles, \
        .note = "a tile through local memory: both sides have neighbours, but a column is one " \
                "bank", \
        .lecture = "opencl", .tunables = {TILES}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, padded, gop_cl_transpose_by_padded_tiles, \
        .note = "one word more per row of the tile: a column lies in different banks", \
        .lecture = "opencl", .tunables = {TILES}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, words, gop_cl_transpose_by_words, \
        .note = "small items by words: squares of them are turned in private memory, so that " \
                "rows are read and written by whole words", \
        .dtypes = SMALL) \
    ROW(op, stem, blocked, gop_cl_transpose_by_blocks, \
        .note = "tiles a work-item without local memory, blocks transposed in a CPU's " \
                "registers: each line of the caches is used up while it is there", \
        .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, chunked, gop_cl_transpose_by_chunks, \
        .note = "a contiguous chunk of the output a work-item, which a CPU runs in order; " \
                "lines that stay lines are copied whole", \
        .dtypes = GOP_EVERY_DTYPE)
/* clang-format on */

GOP_CL_LADDER(transpose, transpose, ROWS);
