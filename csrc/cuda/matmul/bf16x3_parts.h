/*
 * bf16x3_parts.h - float32 on tensor cores: the 16-bit pieces of a number, packed operands
 * (images), and how a product is cut into tiles.
 */
#ifndef GOP_CUDA_MATMUL_BF16X3_PARTS_H
#define GOP_CUDA_MATMUL_BF16X3_PARTS_H

#include "cuda/matmul/product.h"
#include "cuda/common/mma.h"
#include "cuda/common/wgmma.h"

enum { MOST_SLICES = 16 }; /* parts of a sum */

#if GOP_SM80

#include <cuda_bf16.h>

/* ---- a float32 as pieces whose sum it is, and which of their products count ---- */

/* What float32 and its pieces hold alike: below, the last piece loses bits, and above, the
 * first becomes infinite. Zero is held too. */
#define IMAGE_SMALLEST 0x1p-110f
#define IMAGE_LARGEST 3.3e38f

/* x as PIECES of 16 bits whose sum it is, the largest first: bfloat16, or two float16. */
template <int PIECES> GOP_DEVICE void split(float x, uint16_t (&piece)[PIECES])
{
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        if constexpr (PIECES == 2) {
            const float16 part = store<float16>(x);
            piece[p] = part.bits;
            x -= load(part);
        } else {
            const bfloat16 part = {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
            piece[p] = part.bits;
            x -= load(part);
        }
    }
}

/* Whether the pieces cannot hold x. */
template <int PIECES> GOP_DEVICE bool beyond_pieces(float x)
{
    const uint32_t largest = gop_float_to_bits(IMAGE_LARGEST);
    const uint32_t low = gop_float_to_bits(IMAGE_SMALLEST);
    const uint32_t bits = gop_float_to_bits(x) & 0x7fffffffu;
    return PIECES == 3 ? bits && bits - low > largest - low : bits > largest;
}

/* Eight reals that are neighbours in the image, as 16 bytes of each piece. */
template <int PIECES>
GOP_DEVICE void put_pieces(const float (&x)[8], uint8_t *to, int64_t piece_bytes)
{
    uint16_t piece[8][PIECES];
#pragma unroll
    for (int i = 0; i < 8; i++) split<PIECES>(x[i], piece[i]);
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            word[i] = piece[2 * i][p] | (uint32_t)piece[2 * i + 1][p] << 16;
        *reinterpret_cast<uint4 *>(to + p * piece_bytes) =
            make_uint4(word[0], word[1], word[2], word[3]);
    }
}

/* The products of pieces that count, smallest first; a digit names a piece. */
GOP_DEVICE constexpr int products_of(int pieces)
{
    return pieces == 3 ? 6 : pieces == 2 ? 3 : 1;
}
GOP_DEVICE constexpr int piece_of_a(int pieces, int product)
{
    return (pieces == 3 ? "102010" : pieces == 2 ? "100" : "0")[product] - '0';
}
GOP_DEVICE constexpr int piece_of_b(int pieces, int product)
{
    return (pieces == 3 ? "120100" : pieces == 2 ? "010" : "0")[product] - '0';
}

/* ---- pieces in registers ---- */

/* A lane's float32 of half a stage, of lines g and g + 8, as factors; `least` is lowered to the
 * least of those that are not 0, as twice its bits less 1. */
GOP_DEVICE void split_eight(const uint32_t (&low)[4], const uint32_t (&high)[4],
                            uint32_t (&piece)[3][4], uint32_t &least)
{
#pragma unroll
    for (int v = 0; v < 4; v++) {
        const uint32_t one = 2 * low[v] - 1, two = 2 * high[v] - 1;
        least = least < one ? least : one;
        least = least < two ? least : two;
    }
#pragma unroll
    for (int w = 0; w < 4; w++) {
        const uint32_t *const two = w % 2 ? high : low;
        split_two(gop_bits_to_float(two[w / 2 * 2]), gop_bits_to_float(two[w / 2 * 2 + 1]),
                  piece[0][w], piece[1][w], piece[2][w]);
    }
}

/* sum = what a stage adds: lines in registers by the other operand's pieces, which lie PIECE
 * bytes apart in shared memory, `stage` bytes behind the tile `b`: terms of 64 columns, or
 * (B_ALONG) columns of 32 terms. */
template <int PIECE, bool B_ALONG, int SUMS> GOP_DEVICE void
multiply_lines(float (&sum)[SUMS], const uint32_t (&a)[2][3][4], uint64_t b, int stage)
{
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < products_of(3); n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            wgmma_add<!B_ALONG>(
                sum, a[half][piece_of_a(3, n)],
                b + (stage + piece_of_b(3, n) * PIECE + half * (B_ALONG ? 32 : 2048)) / 16,
                n + half > 0);
}

/* Adds a part of four sums of a thread. */
GOP_DEVICE void add_part(float4 &sum, const float4 &part)
{
    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
}

/* All parts of them, `apart` from each other, in order: all loads are in flight before the
 * first is needed. */
GOP_DEVICE float4 sum_of_parts(const float4 *from, int64_t apart, int slices)
{
    float4 part[MOST_SLICES];
#pragma unroll
    for (int slice = 0; slice < MOST_SLICES; slice++)
        if (slice < slices) part[slice] = from[slice * apart];
#pragma unroll
    for (int slice = 1; slice < MOST_SLICES; slice++)
        if (slice < slices) add_part(part[0], part[slice]);
    return part[0];
}

#endif

/* ---- pieces in memory: images of what shared memory will hold, and their two kernels ---- */

/* A first kernel (pack.h) splits each number of a and b and writes the pieces tile by tile,
 * swizzled: strides, transposes and ragged edges end there. The second (engine.h) then fetches
 * whole tiles by TMA.
 *
 * A block is 32 terms of l. The image of a: for each tile of rows each block, of this each
 * piece, [rows][32 terms], rows of 64 bytes. That of b: for each 128 columns each block, of
 * this each piece, [2][32 terms][64 columns], rows of 128 bytes. Images are padded with zeros.
 */
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

struct engine_job {
    matmul_geometry g; /* for out: in the orientation of the images */
    const uint8_t *a, *b;
    int64_t a_product, b_product; /* bytes between the images of two products, 0: one for all */
    void *out;
    float *parts;
    int64_t batch; /* the first product */
    int64_t row;   /* the first row */
    int rows, columns;
    int blocks;           /* of terms */
    int tiles_m, tiles_n; /* of a cluster */
    int tiles;            /* of a product */
    int group;            /* rows of tiles that are done together and share b in L2 */
    int whole;            /* tiles of all products that are not cut */
    int items, slices;    /* the others are cut into so many */
    int pairs;            /* 1: two neighbours of out are written at once */
    int mirrored; /* b is a transposed: tiles below the diagonal, each written twice. 2: of
                     complex numbers, whose tiles are not square: those above it are passed over
                   */
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

/* The power of two for a line whose largest |item| has these bits; its inverse is normal too.
 */
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

/* ---- which tiles a block gets: the fastest cut of a product ---- */

/* The SMs compute one tile each at a time: a wave. Large tiles load less; small ones leave
 * fewer SMs idle in the last wave, whose tiles can also be cut along l. The unit of time is a
 * block of terms of a large tile. */
struct engine_cut {
    int waves;            /* tiles of 128 rows that a block computes */
    int cluster;          /* blocks side by side that share them */
    int tiles_m, tiles_n; /* of a product, each a cluster's */
    int tiles;
    int whole, slices, items;
    double time; /* in blocks of terms of a large tile */
};

/* The time of a block of terms. */
struct engine_pace {
    double shared, alone; /* of 128 rows, for blocks of two and for single ones */
    double less = 1;      /* how many times as long the block of six products takes */
};
static const engine_pace SPLIT_PACE = {0.52, 0.55}, SINGLE_PACE = {0.52, 0.55, 5.5};

static inline double cut_time(int64_t wave, int64_t tiles, int blocks, double each, double part,
                              int slices, double less)
{
    const double around = 0.75 * less;                      /* beginning and end of a tile */
    const double fold = 2 * less, fold_part = 0.017 * less; /* adding parts */
    const int64_t rest = tiles % wave;
    double time = (double)(tiles / wave) * (blocks * each + around);
    if (rest == 0) return time;
    const int64_t waves = (rest * slices + wave - 1) / wave;
    time += (double)waves * ((blocks + slices - 1) / slices * each + around);
    if (slices > 1) time += fold + (double)(rest * slices) * part * fold_part;
    return time;
}

/* Depends only on the device and the shape, and so do the bits. `unit`: blocks that are added
 * at once. Tiles that are mirrored are square. */
static inline engine_cut cut_of(const gop_ctx *ctx, int64_t products, int64_t rows,
                                int64_t columns, int blocks, int unit, int mirrored,
                                const engine_pace &pace)
{
    static const int ways[][2] = {{2, 2}, {1, 2}, {1, 1}};
    const int processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    engine_cut best = {};
    for (const int *way : ways) {
        const int waves = way[0], cluster = way[1];
        if (mirrored && waves != cluster) continue;
        const int64_t m = blocks_for(rows, 128 * waves), n = blocks_for(columns, 128 * cluster);
        const int64_t each = mirrored ? m * (m + 1) / 2 : m * n, tiles = each * products;
        const int64_t wave = processors / cluster, rest = tiles % wave;
        for (int slices = 1; slices <= MOST_SLICES; slices++) {
            if (slices > 1 && (rest == 0 || blocks / unit / slices < 2)) continue;
            const double time = cut_time(wave, tiles, blocks,
                                         waves == 2     ? 1
                                         : cluster == 2 ? pace.shared
                                                        : pace.alone,
                                         waves * cluster, slices, pace.less);
            if (best.items && time >= best.time) continue;
            best.time = time;
            best.waves = waves, best.cluster = cluster;
            best.tiles_m = (int)m, best.tiles_n = (int)n, best.tiles = (int)each;
            best.slices = slices;
            best.whole = (int)(slices > 1 ? tiles - rest : tiles);
            best.items = best.whole + (int)(tiles - best.whole) * slices;
        }
    }
    return best;
}

/* Bytes of the parts of sums. */
static inline size_t cut_parts(const engine_cut &cut)
{
    const size_t tile = (size_t)(cut.waves * cut.cluster) * 128 * 128 * sizeof(float);
    return cut.slices > 1 ? (size_t)(cut.items - cut.whole) * tile : 0;
}

#endif
