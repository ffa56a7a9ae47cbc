/*
 * tall.h - how tall.cu and outer.cu cut a product: their plans ask, and choose.cu for times.
 */
#ifndef GOP_CUDA_MATMUL_TALL_H
#define GOP_CUDA_MATMUL_TALL_H

#include "cuda/matmul/tiling.h"

enum { TALL_TILES = 5, TALL_FULL = 4 }; /* tiles an SM, from which on others are faster */

/* The operands in each other's place. */
static inline tiling_of tiling_swapped(const tiling_of &p)
{
    return {p.n,          p.m,       p.k,      p.batches, p.item,
            p.processors, p.b_along, p.b_wide, p.a_along, p.a_wide};
}

/* The tile whose terms cost the least, be it to bring them or to add them: bytes of its lines,
 * and multiply-adds, both in clocks of an SM. Of its sums as many chunks as fill the device;
 * the same for the same device and shape, so the bits are, too. */
static inline matmul_tiling tall_tiling(const tiling_of &p)
{
    static const int tiles[TALL_TILES][2] = {{16, 16}, {64, 16}, {32, 32}, {48, 48}, {64, 64}};
    enum { BYTES = 16, HELD = 2, SHORTEST = 64, CHUNKS = 1024 };
    const int adds = p.item <= 4 ? 128 : p.item == 8 ? 48 : 16; /* a clock */
    matmul_tiling best = {};
    int64_t least = 0, count = 0;
    for (int way = 0; way < TALL_TILES; way++) {
        const int m = tiles[way][0], n = tiles[way][1];
        const int64_t all = blocks_for(p.m, m) * blocks_for(p.n, n) * p.batches;
        const int64_t bytes = ((p.m < m ? p.m : m) + (p.n < n ? p.n : n)) * p.item;
        const int64_t time = all * (bytes * 128 / BYTES > m * n * 128 / adds
                                        ? bytes * 128 / BYTES
                                        : m * n * 128 / adds);
        if (way > 0 && time >= least) continue;
        least = time, count = all;
        best.way = way, best.lines = m, best.columns = n;
    }
    const int64_t wanted = (int64_t)HELD * p.processors / (count > 0 ? count : 1);
    int64_t most = p.k / SHORTEST < CHUNKS ? p.k / SHORTEST : CHUNKS;
    if (most > wanted) most = wanted;
    best.tiles = 1;
    best.step = 32;
    best.wide = p.a_wide && p.b_wide;
    best.chunk = blocks_for(blocks_for(p.k, most > 1 ? most : 1), 32) * 32;
    best.split = blocks_for(p.k, best.chunk);
    best.blocks = count * best.split;
    return best;
}

#endif
