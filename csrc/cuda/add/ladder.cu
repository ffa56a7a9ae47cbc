/*
 * ladder.cu - the CUDA kernels of add, multiply_add and fma, in the order of reading. Each is
 * in the file of its name.
 *
 * Floor: every input read once, the output written once. The arithmetic hides behind the memory
 * traffic, so what counts is how many bytes are on their way at any moment and how few
 * instructions stand between them. What makes it hard: operands that broadcast or lie strided
 * in memory, where an element's place costs a division per axis, which a GPU does in software.
 */
#include "cuda/ladder.h"

#define ADD(ROW) ROW(add, naive) ROW(add, indexed) ROW(add, tiled) ROW(add, vectorized)
/* clang-format off */
#define MULTIPLY_ADD(ROW) \
    ROW(multiply_add, naive) \
    ROW(multiply_add, contracted) \
    ROW(multiply_add, indexed) \
    ROW(multiply_add, tiled) \
    ROW(multiply_add, vectorized)
#define FMA(ROW) \
    ROW(fma, naive) \
    ROW(fma, contracted) \
    ROW(fma, indexed) \
    ROW(fma, tiled) \
    ROW(fma, vectorized)
/* clang-format on */

GOP_CUDA_LADDER(add, ADD);
GOP_CUDA_LADDER(multiply_add, MULTIPLY_ADD);
GOP_CUDA_LADDER(fma, FMA);
