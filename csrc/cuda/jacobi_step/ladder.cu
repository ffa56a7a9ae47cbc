/*
 * ladder.cu - the CUDA kernels of jacobi_step, in the order of reading. Each is in the file of
 * its name.
 *
 *     s = A x;   out = x + alpha (s - f)   or   out = x + omega (f - s) / d
 *
 * The floor is reading A once: two flops for every 4 or 8 bytes, so memory decides. What makes
 * it hard: neighbouring threads must read neighbouring elements of a row, so several threads
 * share a row's sum, and yet its bits must not depend on how many. tree/v1 fixes them: 128
 * lanes a leaf, whoever computes them.
 */
#include "cuda/ladder.h"

/* clang-format off */
#define ROWS(ROW) \
    ROW(jacobi_step, naive) \
    ROW(jacobi_step, tiled) \
    ROW(jacobi_step, warp) \
    ROW(jacobi_step, block) \
    ROW(jacobi_step, column) \
    ROW(jacobi_step, balanced) \
    ROW(jacobi_step, stencil)
/* clang-format on */

GOP_CUDA_LADDER(jacobi_step, ROWS);
