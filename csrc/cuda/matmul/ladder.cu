/*
 * ladder.cu - the CUDA kernels of matmul, in the order of reading. Each is in the file of its
 * name.
 *
 *     out[batch, i, j] = sum over l of a[batch, i, l] b[batch, l, j]
 *
 * Floor: 2 m n k flops; memory must be read only once. The hardware fact that makes it hard: a
 * SM multiplies far faster than any memory delivers factors, so each loaded value
 * must be used many times, first from shared memory, then from registers.
 *
 * The kernels down to splitk, small and outer add the terms of an output in the order of l, one
 * fused multiply-add each; splitk and tall add pieces of such sums. The others have tensor
 * cores add, some terms at a time, or, for few rows or columns, lanes that share a sum.
 */
#include "cuda/ladder.h"

/* clang-format off */
#define ROWS(ROW) \
    ROW(matmul, units) \
    ROW(matmul, strided) \
    ROW(matmul, naive) \
    ROW(matmul, tiled) \
    ROW(matmul, strips) \
    ROW(matmul, patches) \
    ROW(matmul, blocktiled) \
    ROW(matmul, splitk) \
    ROW(matmul, tall) \
    ROW(matmul, outer) \
    ROW(matmul, outer_mma) \
    ROW(matmul, tensor) \
    ROW(matmul, imma) \
    ROW(matmul, dmma) \
    ROW(matmul, dmma_tma) \
    ROW(matmul, bf16x3_packed) \
    ROW(matmul, fp16x2) \
    ROW(matmul, bf16x3_small) \
    ROW(matmul, bf16x3_batch) \
    ROW(matmul, mma) \
    ROW(matmul, bf16x3) \
    ROW(matmul, wgmma_f16) \
    ROW(matmul, tf32) \
    ROW(matmul, small) \
    ROW(matmul, gemv_col) \
    ROW(matmul, gemv_row) \
    ROW(matmul, ring) \
    ROW(matmul, skinny_wgmma)
/* clang-format on */

GOP_CUDA_LADDER(matmul, ROWS);
