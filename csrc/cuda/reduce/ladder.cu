/*
 * ladder.cu - the CUDA kernels of reduce, in the order of reading. Each is in the file of its
 * name.
 *
 * The floor is reading every element once. What makes it hard: thousands of threads must end in
 * one number. The lectures' kernels, down to `ticket`, show how threads meet; their answer
 * depends on the grid. The tree fixes who adds to whom, so that any grid, and the CPU, give the
 * same bits.
 */
#include "cuda/ladder.h"

/* clang-format off */
#define ROWS(ROW) \
    ROW(reduce, naive) \
    ROW(reduce, interleaved) \
    ROW(reduce, strided) \
    ROW(reduce, sequential) \
    ROW(reduce, loaded) \
    ROW(reduce, unrolled) \
    ROW(reduce, complete) \
    ROW(reduce, cascaded) \
    ROW(reduce, shuffled) \
    ROW(reduce, multipass) \
    ROW(reduce, wide) \
    ROW(reduce, atomic) \
    ROW(reduce, ticket) \
    ROW(reduce, tree) \
    ROW(reduce, indexed) \
    ROW(reduce, vectorized) \
    ROW(reduce, short) \
    ROW(reduce, few) \
    ROW(reduce, columns) \
    ROW(reduce, rows) \
    ROW(reduce, thin) \
    ROW(reduce, exact)
/* clang-format on */

GOP_CUDA_LADDER(reduce, ROWS);
