/*
 * ladder.cu - the CUDA kernels of transpose, in the order of reading. Each is in the file of
 * its name.
 *
 * Floor: every item read once and written once. What makes it hard: a warp's access is cheap
 * when its 32 threads touch neighbours, and neighbours in the input are far apart in the
 * output.
 */
#include "cuda/ladder.h"

/* clang-format off */
#define ROWS(ROW) \
    ROW(transpose, strided) \
    ROW(transpose, copy) \
    ROW(transpose, staged) \
    ROW(transpose, streamed) \
    ROW(transpose, reads) \
    ROW(transpose, naive) \
    ROW(transpose, tiled) \
    ROW(transpose, padded) \
    ROW(transpose, diagonal) \
    ROW(transpose, swizzled) \
    ROW(transpose, packed) \
    ROW(transpose, boxed) \
    ROW(transpose, gathered) \
    ROW(transpose, sectored) \
    ROW(transpose, shifted) \
    ROW(transpose, small) \
    ROW(transpose, lines) \
    ROW(transpose, pixels) \
    ROW(transpose, vectorized) \
    ROW(transpose, planar)
/* clang-format on */

GOP_CUDA_LADDER(transpose, ROWS);
