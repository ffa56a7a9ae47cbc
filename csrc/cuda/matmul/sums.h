/*
 * sums.h - what the engine is told, which tile comes next, and where its sums go.
 */
#ifndef GOP_CUDA_MATMUL_SUMS_H
#define GOP_CUDA_MATMUL_SUMS_H

#include "cuda/matmul/pieces.h"
#include "cuda/matmul/scale.h"

enum {
    ENGINE_THREADS = 384,
    ENGINE_SHARED = 232448, /* bytes a block may have */
    ENGINE_COPY = 4096,     /* bytes of a copy: one thread alone cannot issue them all */
    ENGINE_CONSUMERS = 256, /* threads that multiply */
};

/* Sums that may have lost more than they should: 1 or 16 times four of a thread (see below). */
struct doubtful_sums {
    int64_t product;
    int row, column, chunks;
};

struct engine_job {
    gop_gemm g; /* for out: in the orientation of the images */
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
    int mirrored; /* 1: b is a transposed: tiles below the diagonal, each written twice */
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

template <int PIECES, int W> struct engine_stage {
    enum {
        BLOCKS = PIECES == 1 ? 2 : 1, /* of terms */
        ROWS = 128 * W,
        A_PIECE = ROWS * IMAGE_TERMS * 2,
        B_PIECE = IMAGE_COLUMNS * IMAGE_TERMS * 2,
        A_BYTES = PIECES * A_PIECE, /* of a block of terms */
        B_BYTES = PIECES * B_PIECE,
        BYTES = BLOCKS * (A_BYTES + B_BYTES),
        FIT = (ENGINE_SHARED - 2048) / BYTES,
        COUNT = FIT < 8 ? FIT : 8,
    };
};

/* What a block does next: a tile, and of its sums the blocks [first, last). */
struct engine_item {
    int64_t product;
    int tile_m, tile_n; /* tile_n: of the cluster */
    int first, last;
    int64_t part; /* where its sums go in `parts`, in tiles of a cluster; -1: to out */
};

GOP_DEVICE void place_tile(const engine_job &p, int t, engine_item &item)
{
    if (p.mirrored) { /* row m of tiles ends at the diagonal */
        int m = (int)((sqrtf(8.0f * (float)t + 1.0f) - 1.0f) * 0.5f);
        while ((int64_t)m * (m + 1) / 2 > t) m--;
        while ((int64_t)(m + 1) * (m + 2) / 2 <= t) m++;
        item.tile_m = m;
        item.tile_n = t - (int)((int64_t)m * (m + 1) / 2);
        return;
    }
    const int many = p.group * p.tiles_n, top = t / many * p.group;
    const int high = p.tiles_m - top < p.group ? p.tiles_m - top : p.group;
    item.tile_m = top + t % many % high;
    item.tile_n = t % many / high;
}

/* A slice is whole stages, each of UNIT blocks. */
template <int UNIT> GOP_DEVICE engine_item item_of(const engine_job &p, int i)
{
    engine_item item;
    const int all = (p.items - p.whole) / p.slices + p.whole, rest = all - p.whole;
    const int cut = i - p.whole, tile = cut < 0 ? i : p.whole + cut % rest;
    item.product = tile / p.tiles;
    item.first = 0, item.last = p.blocks, item.part = -1;
    if (cut >= 0 && p.slices > 1) {
        const int slice = cut / rest;
        const int64_t stages = p.blocks / UNIT;
        item.first = (int)(stages * slice / p.slices) * UNIT;
        item.last = (int)(stages * (slice + 1) / p.slices) * UNIT;
        item.part = cut;
    }
    place_tile(p, tile % p.tiles, item);
    return item;
}

/* ---- what a thread has of a tile: for each of W 64 rows and each eight columns four sums, two
 * neighbours of a row and two of eight rows further down ---- */

template <typename O>
GOP_DEVICE void write_pair(const engine_job &p, O *out, int64_t at, bool both, float x, float y)
{
    if (p.pairs && both) {
        struct alignas(2 * sizeof(O)) pair {
            O x, y;
        };
        *reinterpret_cast<pair *>(out + at) = {store<O>(x), store<O>(y)};
        return;
    }
    out[at] = store<O>(x);
    if (both) out[at + p.g.out_col] = store<O>(y);
}

template <typename O>
GOP_DEVICE void write_sums(const engine_job &p, O *out, int row, int column, const float *sum)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int i = row + 8 * h;
        const float x = sum[2 * h], y = sum[2 * h + 1];
        if (i >= p.rows || column >= p.columns) continue;
        if constexpr (sizeof(O) == sizeof(complex64)) {
            out[i * p.g.out_row + column / 2 * p.g.out_col] = {x, y};
        } else {
            const bool both = column + 1 < p.columns;
            if (!p.mirrored) {
                write_pair(p, out, i * p.g.out_row + column * p.g.out_col, both, x, y);
                continue;
            }
            if (i < column) continue;
            out[i * p.g.out_row + column * p.g.out_col] = store<O>(x);
            out[column * p.g.out_row + i * p.g.out_col] = store<O>(x);
            if (i <= column) continue;
            out[i * p.g.out_row + (column + 1) * p.g.out_col] = store<O>(y);
            out[(column + 1) * p.g.out_row + i * p.g.out_col] = store<O>(y);
        }
    }
}

template <typename O> GOP_DEVICE O *out_of(const engine_job &p, int64_t product)
{
    return (O *)p.out + matmul_batch(p.g, p.batch + product).out + p.row * p.g.out_row;
}

/* Where chunk c of thread t of a block lies among the parts: neighbours lie side by side. */
template <int W, int C> GOP_DEVICE int64_t part_index(int64_t part, int rank, int chunk, int t)
{
    return (((part * C + rank) * W * 16 + chunk) * ENGINE_CONSUMERS + t) * 4;
}

/* Whether the pack met what pieces cannot hold; asked by all threads of a block. */
GOP_DEVICE bool met_bad(const engine_job &p)
{
    unsigned bad = 0;
    for (int i = threadIdx.x; i < p.bad_words; i += blockDim.x) bad |= p.bad[i];
    return __syncthreads_or((int)bad) != 0;
}

/* Undoes the scaling of four sums of a thread, given the scales of their columns. True if one
 * of them is doubtful. */
GOP_DEVICE bool unscale(const engine_job &p, const line_scale *rows, float4 two, int row,
                        int column, float *sum)
{
    bool doubtful = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const line_scale line = rows[row + 8 * h];
        float &x = sum[2 * h], &y = sum[2 * h + 1];
        const bool inside = row + 8 * h < p.rows;
        doubtful |= inside && column < p.columns && fabsf(x) - two.y < line.doubt;
        doubtful |= inside && column + 1 < p.columns && fabsf(y) - two.w < line.doubt;
        x = unscaled(x, line.undo, two.x);
        y = unscaled(y, line.undo, two.z);
    }
    return doubtful;
}

/* The scales of two neighbouring columns. */
GOP_DEVICE float4 two_scales(const line_scale *columns, int column)
{
    return *reinterpret_cast<const float4 *>(columns + column);
}

GOP_DEVICE void list_doubtful(const engine_job &p, int64_t product, int row, int column,
                              int chunks)
{
    const unsigned at = atomicAdd(&p.guard->doubtful, 1u);
    if (at < p.most_doubtful) p.list[at] = {product, row, column, chunks};
}

/* Whether halves cannot do it: asked by all threads of a block. */
GOP_DEVICE bool hopeless(const engine_job &p)
{
    return met_bad(p) || (p.guard && p.guard->tiny > p.most_tiny);
}

#endif
