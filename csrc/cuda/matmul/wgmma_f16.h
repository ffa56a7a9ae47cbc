/*
 * wgmma_f16.h - what the kernel of wgmma_f16_sm90.cu is told, and how its tiles are cut.
 *
 * Tiles are 128 rows by 128 columns, or 256 by 128; a cluster of two blocks has two of them
 * side by side. If the last wave would leave SMs idle, its tiles are cut along l.
 */
#ifndef GOP_CUDA_MATMUL_WGMMA_F16_H
#define GOP_CUDA_MATMUL_WGMMA_F16_H

#include "cuda/matmul/straight.h"
#include "cuda/common/tile_scheduler.h"

/* A stage is 128 terms. */
struct matmul_schedule : tile_schedule { /* across: of clusters */
    int waves, cluster;                  /* 128 * waves rows a tile, blocks of a cluster */
};

/* Fills in the schedule of one choice; returns its time in 128 x 128 x 128 products of one SM.
 */
static inline double matmul_count_waves(const gop_ctx *ctx, const gop_gemm &g, int waves,
                                        int cluster, int split, matmul_schedule *t)
{
    const int64_t tile_m = 128 * waves, tile_n = 128 * cluster;
    const int64_t tiles_m = (g.m + tile_m - 1) / tile_m, tiles_n = (g.n + tile_n - 1) / tile_n;
    const int64_t tiles = tiles_m * tiles_n * g.batches;
    const int64_t slots = ctx->info.processors / cluster;
    const int64_t rest = split > 1 ? tiles % slots : 0, full = tiles - rest;
    const int64_t pairs = (g.k + 127) / 128;
    t->waves = waves, t->cluster = cluster;
    t->down = (int)tiles_m, t->across = (int)tiles_n, t->tiles = (int)tiles;
    t->group = 8, t->stages = (int)pairs;
    t->whole = (int)full, t->slices = split, t->items = (int)(full + rest * split);
    /* Small tiles, and blocks without a second one, fetch more for each product; a tile's start
     * and end take as long as two pairs. */
    const double slower = waves * (waves == 2 ? 1 : cluster == 2 ? 1.2 : 1.5);
    const double each = slower * ((double)pairs + 2);
    const double partial = slower * ((double)((pairs + split - 1) / split) + 2);
    const double rounds = (double)((full + slots - 1) / slots);
    const double cut = (double)((rest * split + slots - 1) / slots);
    return rounds * each + cut * partial + (rest ? 6 + 0.5 * split * waves : 0);
}

/* `alike`: all sums are cut, or none, so that two sums with swapped factors stay equal. */
static inline void matmul_choose_schedule(const gop_ctx *ctx, const gop_gemm &g, bool alike,
                                          matmul_schedule *t)
{
    enum { MOST = 64 }; /* partial sums */
    static const int ways[][2] = {{2, 2}, {1, 2}, {1, 1}};
    double best = 1e300;
    for (const int *way : ways)
        for (int split = 1; split <= MOST && split <= (g.k + 127) / 128; split++) {
            matmul_schedule other;
            const double cost = matmul_count_waves(ctx, g, way[0], way[1], split, &other);
            if (alike && other.whole > 0 && other.whole < other.tiles) continue;
            if (cost < best) best = cost, *t = other;
        }
}

static inline size_t matmul_partials_bytes(const matmul_schedule &t)
{
    return (size_t)(t.items - t.whole) * (size_t)(t.waves * t.cluster) * 128 * 128 *
           sizeof(float);
}

/* ---- the kernel ---- */

enum {
    GROUP_THREADS = 128,
    BLOCK_THREADS = 384, /* a warpgroup fetches, two multiply */
    TILE_N = 128,
    TILE_K = 64,  /* terms of a slot of the ring, 128 bytes */
    PROMOTED = 2, /* slots whose terms the tensor cores add by themselves */
};

/* The ring of a block whose warpgroups have WAVES waves of 64 rows each. */
template <int WAVES> struct ring {
    enum {
        TILE_M = 128 * WAVES,
        A_BYTES = TILE_M * TILE_K * 2,
        B_BYTES = TILE_N * TILE_K * 2,
        SLOT = A_BYTES + B_BYTES,
        SLOTS = WAVES == 2 ? 4 : 6, /* as many as fit, in pairs */
        RESULTS = 64 * TILE_N * 2,  /* of a wave, on its way out */
        BYTES = SLOTS * SLOT + 2 * RESULTS + (2 * SLOTS + 2) * 8 + 1024,
    };
};

struct wgmma_f16_work {
    gop_cuda_tensor_map a, b, out;
    int64_t m, n, out_row, out_col, out_batch;
    void *results, *direct; /* `direct` is NULL where the map writes the results */
    float *partials;
    int a_batch, b_batch; /* whether the operand differs from product to product */
    matmul_schedule schedule;
    int first, last; /* of its items */
};

#endif
