/*
 * waves.h - which tiles the engine gets: the cut of a product that is done soonest.
 *
 * A device does as many tiles at once as it has multiprocessors, a wave. Large tiles load
 * less, small ones leave less of the last wave idle; the tiles of a last, partial wave can be
 * cut along l besides. Times are counted in blocks of terms of a large tile.
 */
#ifndef GOP_CUDA_MATMUL_WAVES_H
#define GOP_CUDA_MATMUL_WAVES_H

#include "cuda/matmul/images.h"

struct engine_cut {
    int wide;             /* blocks of a cluster, and tiles of 128 rows that each computes */
    int tiles_m, tiles_n; /* of a product */
    int tiles;
    int whole, slices, items;
};

/* `small_tile`: the time of a small tile's block of terms, which fetches more for each product.
 */
static inline double cut_time(int64_t wave, int64_t tiles, int blocks, int wide, int slices,
                              double small_tile)
{
    const double each = wide == 2 ? 1 : small_tile;
    const double around = 0.75;               /* beginning and end of a tile */
    const double fold = 2, fold_part = 0.017; /* adding parts */
    const int64_t rest = tiles % wave;
    double time = (double)(tiles / wave) * (blocks * each + around);
    if (rest == 0) return time;
    const int64_t turns = (rest * slices + wave - 1) / wave;
    time += (double)turns * ((blocks + slices - 1) / slices * each + around);
    if (slices > 1) time += fold + (double)(rest * slices) * wide * wide * fold_part;
    return time;
}

/* The same for the same device and shape, so the bits are, too. `unit`: blocks of a stage. */
static inline engine_cut cut_of(const gop_ctx *ctx, int64_t products, int64_t rows,
                                int64_t columns, int blocks, int unit, int mirrored,
                                double small_tile)
{
    static const int parts[] = {1, 2, 3, 4, 5, 6, 8, 12, 16};
    const int processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    engine_cut best = {};
    double soonest = 0;
    for (int wide = 2; wide >= 1; wide--) {
        const int side = 128 * wide; /* of a cluster's tile */
        const int64_t m = (rows + side - 1) / side, n = (columns + side - 1) / side;
        const int64_t each = mirrored ? m * (m + 1) / 2 : m * n, tiles = each * products;
        const int64_t wave = processors / wide, rest = tiles % wave;
        for (int slices : parts) {
            if (slices > 1 && (rest == 0 || blocks / unit / slices < 2)) continue;
            const double time = cut_time(wave, tiles, blocks, wide, slices, small_tile);
            if (best.items && time >= soonest) continue;
            soonest = time;
            best.wide = wide;
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
    const size_t tile = (size_t)cut.wide * cut.wide * 128 * 128 * sizeof(float);
    return cut.slices > 1 ? (size_t)(cut.items - cut.whole) * tile : 0;
}

#endif
