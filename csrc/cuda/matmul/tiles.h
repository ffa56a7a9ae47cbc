/*
 * tiles.h - the tiles of patches, blocktiled and asynchronous, which splitk cuts sums by.
 */
#ifndef GOP_CUDA_MATMUL_TILES_H
#define GOP_CUDA_MATMUL_TILES_H

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

#endif
