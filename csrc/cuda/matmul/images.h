/*
 * images.h - operands as the matrix instruction wants them: images of shared memory.
 *
 * A first kernel (pack.h) splits each number of a and b into pieces of 16 bits and writes them
 * tile by tile, swizzled, as they will lie in shared memory: strides, transposes and ragged
 * edges end there. The second (engine.h) then fetches whole tiles by the copy engine.
 *
 * A block is 32 terms of l. The image of a: for each tile of rows each block, of this each
 * piece, [rows][32 terms], rows of 64 bytes. That of b: for each 128 columns each block, of
 * this each piece, [2][32 terms][64 columns], rows of 128 bytes. Beyond the edges are zeros.
 */
#ifndef GOP_CUDA_MATMUL_IMAGES_H
#define GOP_CUDA_MATMUL_IMAGES_H

#include "cuda/matmul/product.h"

enum {
    IMAGE_TERMS = 32,    /* of a block */
    IMAGE_COLUMNS = 128, /* of a tile of b */
    PACK_WIDTH = 128,    /* columns of b that a thread block packs, and terms of a */
    PACK_HEIGHT = 64,    /* rows of a, and terms of b */
    PACK_BLOCKS = 4,     /* thread blocks a multiprocessor */
    THREADS_OF_PACK = 256,
    IMAGE_ALIGNED = 1024, /* bytes */
    MOST_SLICES = 16,     /* parts of a sum */
};

/* What becomes of a line whose numbers are scaled by a power of two. */
struct line_scale {
    float undo;  /* what undoes it */
    float doubt; /* a sum this large loses no more than u to the numbers of the line that are
                    too small for their last bits to be held */
};

/* Of one step of halves. */
struct guard_state {
    unsigned tiny;     /* numbers that are not held whole */
    unsigned doubtful; /* places on the list */
    unsigned fallback; /* whether pieces have to compute it all */
};

/* One operand: lines (rows of a, columns of b) of l. */
struct image_side {
    const void *from;
    int64_t line, term; /* strides, in items */
    int64_t lines;
    uint8_t *to;
    int64_t product;   /* bytes of the image of one product */
    int padded;        /* lines in it */
    int tile;          /* of them in a tile: 128 or 256 */
    int shared;        /* 1: all products have the same operand, which is packed once */
    int turned;        /* 1: contiguous in the direction in which its image is not */
    unsigned *largest; /* of each line its largest |item|, as bits; NULL: no scaling */
    line_scale *scale;
    int runs;    /* 1: neighbours in the image are neighbours in memory */
    int vectors; /* 1: eight of them also lie at a multiple of 16 bytes */
};

struct image_job {
    gop_gemm g; /* for the batch's strides */
    image_side a, b;
    int64_t k; /* terms */
    int blocks;
    int64_t batch; /* the first product */
    int64_t units_a, units;
    guard_state *guard;
    const unsigned *only_if; /* on the device: where it is 0, nothing is packed */
    unsigned *bad; /* a word of each thread block: 1 if it met what pieces cannot hold */
};

#endif
