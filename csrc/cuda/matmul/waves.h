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
};
static const engine_pace PIECES_PACE = {0.52, 0.55};

static inline double cut_time(int64_t wave, int64_t tiles, int blocks, double each, double part,
                              int slices)
{
    const double around = 0.75;               /* beginning and end of a tile */
    const double fold = 2, fold_part = 0.017; /* adding parts */
    const int64_t rest = tiles % wave;
    double time = (double)(tiles / wave) * (blocks * each + around);
    if (rest == 0) return time;
    const int64_t turns = (rest * slices + wave - 1) / wave;
    time += (double)turns * ((blocks + slices - 1) / slices * each + around);
    if (slices > 1) time += fold + (double)(rest * slices) * part * fold_part;
    return time;
}

/* The same for the same device and shape, so the bits are, too. `unit`: blocks of a stage.
 * Tiles that are mirrored are square. */
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
                                         waves * cluster, slices);
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
