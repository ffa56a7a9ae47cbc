/*
 * turns.h - how many tiles the processors take in turn, and what is cut to keep them all busy.
 *
 * Tiles are 128 rows by 128 columns, or 256 by 128; a cluster of two blocks has two of them
 * side by side. When the last turn would leave processors idle, its tiles are cut along l.
 */
#ifndef GOP_CUDA_MATMUL_TURNS_H
#define GOP_CUDA_MATMUL_TURNS_H

#include "cuda/device.h"

struct matmul_turns {
    int waves, cluster;    /* 128 * waves rows a tile, blocks of a cluster */
    int tiles_m, tiles_n;  /* of a product; tiles_n of clusters */
    int pairs;             /* 128 terms each */
    int full, rest, split; /* tiles done whole, tiles that are cut, pieces of each */
    int items;             /* whole tiles and pieces */
};

struct tile_item {
    int batch, tile_m, tile_n, from, to; /* 128 terms each */
    int piece;                           /* its number among all, or -1 */
};

/* Rows of tiles go by eights, which share what they need of b in L2. */
GOP_DEVICE tile_item item_of(const matmul_turns &t, int number, int rank)
{
    enum { ROWS = 8 };
    tile_item i = {};
    int tile = number;
    i.piece = -1;
    i.to = t.pairs;
    if (number >= t.full) {
        i.piece = number - t.full;
        const int part = i.piece / t.rest;
        tile = t.full + i.piece % t.rest;
        i.from = (int)((int64_t)t.pairs * part / t.split);
        i.to = (int)((int64_t)t.pairs * (part + 1) / t.split);
    }
    const int tiles = t.tiles_m * t.tiles_n;
    i.batch = tile / tiles;
    tile %= tiles;
    const int strip = ROWS * t.tiles_n, top = tile / strip * ROWS;
    const int height = t.tiles_m - top < ROWS ? t.tiles_m - top : ROWS;
    i.tile_m = top + tile % strip % height;
    i.tile_n = tile % strip / height * t.cluster + rank;
    return i;
}

/* One way to do it, and what it takes, counted in 128 x 128 x 128 products of one processor. */
static inline double matmul_count_turns(const gop_ctx *ctx, const gop_gemm &g, int waves,
                                        int cluster, int split, matmul_turns *t)
{
    const int64_t tile_m = 128 * waves, tile_n = 128 * cluster;
    const int64_t tiles_m = (g.m + tile_m - 1) / tile_m, tiles_n = (g.n + tile_n - 1) / tile_n;
    const int64_t tiles = tiles_m * tiles_n * g.batches;
    const int64_t slots = ctx->info.processors / cluster;
    const int64_t rest = split > 1 ? tiles % slots : 0, full = tiles - rest;
    const int64_t pairs = (g.k + 127) / 128;
    *t = {waves,        cluster,    (int)tiles_m,
          (int)tiles_n, (int)pairs, (int)full,
          (int)rest,    split,      (int)(full + rest * split)};
    /* Small tiles, and blocks without a second one, fetch more for each product; a tile's start
     * and end take as long as two pairs. */
    const double slower = waves * (waves == 2 ? 1 : cluster == 2 ? 1.2 : 1.5);
    const double each = slower * ((double)pairs + 2);
    const double piece = slower * ((double)((pairs + split - 1) / split) + 2);
    const double turns = (double)((full + slots - 1) / slots);
    const double cut = (double)((rest * split + slots - 1) / slots);
    return turns * each + cut * piece + (rest ? 6 + 0.5 * split * waves : 0);
}

/* `alike`: all sums are cut, or none, so that two that swap their factors stay equal. */
static inline void matmul_choose_turns(const gop_ctx *ctx, const gop_gemm &g, bool alike,
                                       matmul_turns *t)
{
    enum { MOST = 64 }; /* pieces */
    static const int ways[][2] = {{2, 2}, {1, 2}, {1, 1}};
    double best = 1e300;
    for (const int *way : ways)
        for (int split = 1; split <= MOST && split <= (g.k + 127) / 128; split++) {
            matmul_turns other;
            const double cost = matmul_count_turns(ctx, g, way[0], way[1], split, &other);
            if (alike && other.rest > 0 && other.full > 0) continue;
            if (cost < best) best = cost, *t = other;
        }
}

static inline size_t matmul_pieces_bytes(const matmul_turns &t)
{
    return (size_t)t.rest * (size_t)t.split * (size_t)(t.waves * t.cluster) * 128 * 128 *
           sizeof(float);
}

#endif
