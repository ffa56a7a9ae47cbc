/*
 * image.h - packed operands: pieces in memory as shared memory will hold them, and what the two
 * kernels are told that write and read them.
 *
 * A first kernel (pack.h) splits each number of a and b and writes the pieces tile by tile,
 * swizzled: strides, transposes and ragged edges end there. The second (engine.h) then fetches
 * whole tiles by TMA.
 *
 * A block is 32 terms of l. The image of a: for each tile of rows each block, of this each
 * piece, [rows][32 terms], rows of 64 bytes. That of b: for each 128 columns each block, of
 * this each piece, [2][32 terms][64 columns], rows of 128 bytes. Images are padded with zeros.
 */
#ifndef GOP_CUDA_MATMUL_IMAGE_H
#define GOP_CUDA_MATMUL_IMAGE_H

#include "cuda/common/tile_scheduler.h"
#include "cuda/matmul/bf16x3_parts.h"

enum {
    IMAGE_TERMS = 32,    /* of a block */
    IMAGE_COLUMNS = 128, /* of a tile of b */
    PACK_WIDTH = 128,    /* columns of b that a thread block packs, and terms of a */
    PACK_HEIGHT = 64,    /* rows of a, and terms of b */
    PACK_BLOCKS = 4,     /* thread blocks an SM */
    THREADS_OF_PACK = 256,
    IMAGE_ALIGNED = 1024, /* bytes */
};

/* A line's numbers are scaled by a power of two. */
struct line_scale {
    float undo;  /* what undoes it */
    float doubt; /* a sum this large loses at most u by the numbers of the line that are too
                    small to be held whole */
};

/* The state of the guard during one step of halves. */
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
    int transposed;    /* 1: contiguous in the direction in which its image is not */
    unsigned *largest; /* of each line its largest |item|, as bits; NULL: no scaling */
    line_scale *scale;
    int runs;    /* 1: neighbours in the image are neighbours in memory */
    int vectors; /* 1: eight of them also lie at a multiple of 16 bytes */
};

/* What the first kernel is told, and the second. */
struct image_job {
    matmul_geometry g; /* for the batch's strides */
    image_side a, b;
    int64_t k; /* terms */
    int blocks;
    int64_t batch; /* the first product */
    int64_t units_a, units;
    guard_state *guard;
    const unsigned *only_if; /* on the device: where it is 0, nothing is packed */
    unsigned *bad; /* a word of each thread block: 1 if it met what pieces cannot hold */
};

/* Sums that may have lost more than they should: 1 or 16 times four of a thread (engine.h). */
struct doubtful_sums {
    int64_t product;
    int row, column, chunks;
};

struct engine_job
    : tile_schedule {  /* tiles of a cluster; a stage is what is promoted at once */
    matmul_geometry g; /* for out: in the orientation of the images */
    const uint8_t *a, *b;
    int64_t a_product, b_product; /* bytes between the images of two products, 0: one for all */
    void *out;
    float *parts;
    int64_t batch; /* the first product */
    int64_t row;   /* the first row */
    int rows, columns;
    int blocks;   /* of terms */
    int each;     /* tiles of a product */
    int pairs;    /* 1: two neighbours of out are written at once */
    int mirrored; /* b is a transposed: tiles below the diagonal, each written twice. 2: of
                     complex numbers, whose tiles are not square: skips those above it */
    const unsigned *bad; /* what the pack met, a word of each of its blocks */
    int bad_words;
    const unsigned *only_if; /* on the device: where it is 0, nothing is computed */
    const line_scale *row_scale, *column_scale; /* of halves */
    int64_t row_scales, column_scales;          /* of one product, 0: the same for all */
    guard_state *guard;
    doubtful_sums *list;
    unsigned most_doubtful, most_tiny; /* more cost too much to mend */
    unsigned *wanted; /* receives whether another kernel has to compute it all */
};

/* ---- lines scaled by powers of two, so that two float16 hold their numbers ---- */

/* The largest number of a row of a, or of a column of b, comes to lie in [2^14, 2^15), near the
 * end of float16's range. Two float16 hold 22 bits of numbers down to 2^-17 of it; below, the
 * second is subnormal and what is lost is up to 2^-25. Times a number of up to 2^15 that is
 * 2^-10, which a sum of 2^14 does not notice: a sum is certain if it is at least 2^14 times as
 * large as the tiny numbers in its row and column are many. */
#define FP16X2_TINY 0x1p-2f
#define FP16X2_DOUBT 0x1p14f

/* The power of two for a line whose largest |item| has these bits; its inverse is normal. */
GOP_DEVICE float scale_by(unsigned largest)
{
    const int exponent = largest ? (int)(largest >> 23) - 127 : 14;
    const int from = exponent < -112 ? -112 : exponent;
    return gop_bits_to_float((uint32_t)(127 + 14 - from) << 23);
}

/* x times two powers of two, by two of about their mean: so nothing overflows or underflows on
 * the way that does not in the end. */
GOP_DEVICE float unscaled(float x, float one, float other)
{
    const uint32_t both = gop_float_to_bits(one) + gop_float_to_bits(other);
    const uint32_t half = both >> 1 & 0xff800000u;
    return x * gop_bits_to_float(half) * gop_bits_to_float(both - half);
}

#endif
