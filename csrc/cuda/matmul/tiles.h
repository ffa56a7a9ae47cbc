/*
 * tiles.h - the tiles of blocktiled, whose kernel splitk launches too.
 */
#ifndef GOP_CUDA_MATMUL_TILES_H
#define GOP_CUDA_MATMUL_TILES_H

#include "cuda/matmul/arithmetic.h"
#include "cuda/matmul/product.h"

/* Outputs of a block and of a thread: as many as registers hold without spilling. */
template <int SUM_BYTES> struct block_tile {
    enum { BM = 128, BN = 128, TM = 8, TN = 8 };
};
template <> struct block_tile<8> {
    enum { BM = 128, BN = 64, TM = 8, TN = 4 };
};
template <> struct block_tile<16> {
    enum { BM = 64, BN = 64, TM = 4, TN = 4 };
};

enum { BK = 8, THREADS = 256 }; /* terms a tile holds; threads of a block */

/* Enqueues the kernel. O is the output's type, or the sum's own for pieces of a sum. */
template <typename T, typename O>
gop_status matmul_launch_blocks(gop_ctx *ctx, const matmul_product<T> &p);

#endif
