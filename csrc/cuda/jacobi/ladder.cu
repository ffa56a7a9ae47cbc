/*
 * ladder.cu - the CUDA kernels of jacobi, in the order of reading. Each is in the file of its
 * name.
 *
 * The solver repeats a kernel of jacobi_step, so its floor is that kernel's: A read once a
 * step. What makes it hard is the end: the host would have to wait for each norm to know
 * whether another step is wanted.
 */
#include "cuda/ladder.h"

/* clang-format off */
#define ROWS(ROW) \
    ROW(jacobi, naive) \
    ROW(jacobi, chained) \
    ROW(jacobi, blocked) \
    ROW(jacobi, regular) \
    ROW(jacobi, resident)
/* clang-format on */

GOP_CUDA_LADDER(jacobi, ROWS);
