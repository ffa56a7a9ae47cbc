/*
 * tall.h - how tall.cu cuts a product: its plan asks, and choose.cu for times.
 */
#ifndef GOP_CUDA_MATMUL_TALL_H
#define GOP_CUDA_MATMUL_TALL_H

#include <math.h>

#include "cuda/matmul/tiling.h"

enum { TALL_TILES = 5, TALL_FULL = 4 }; /* tiles an SM, from which on others are faster */

/* The tile and the cut of its sums that are expected to be the fastest, in clocks of an SM: a
 * term's, be it to bring its factors or to add its products, and the pieces', which are written
 * and read. Small tiles read operands more often, large ones leave SMs idle where sums are not
 * so long. The same for the same device and shape, so the bits are, too. */
static inline matmul_tiling tall_tiling(const tiling_of &p, bool pairs)
{
    static const int tiles[TALL_TILES][2] = {{16, 16}, {64, 16}, {32, 32}, {48, 48}, {64, 64}};
    enum { HELD = 2, SHORTEST = 32, CHUNKS = 1024 };
    /* Clocks of an SM for a term, measured on an H200: of float32, float64, complex64. */
    static const float measured[3][TALL_TILES] = {
        {5, 15, 14, 34, 50}, {9, 29, 26, 58, 93}, {14, 45, 42, 92, 150}};
    const float *const clocks = measured[p.item == 4 ? 0 : pairs ? 2 : 1];
    const float bytes = 14, rate = 20; /* that come, and of pieces, in a clock of an SM */
    const float processors = (float)(p.processors > 0 ? p.processors : 1);
    matmul_tiling best = {};
    float least = INFINITY;
    for (int way = 0; way < TALL_TILES; way++) {
        const int m = tiles[way][0], n = tiles[way][1];
        const int64_t count = blocks_for(p.m, m) * blocks_for(p.n, n) * p.batches;
        const float lines = (float)((p.m < m ? p.m : m) + (p.n < n ? p.n : n));
        const float term = fmaxf(lines * (float)p.item / bytes, clocks[way]);
        for (int held = 1; held <= HELD; held++) {
            int64_t split = held * (int64_t)processors / (count > 0 ? count : 1);
            if (split > p.k / SHORTEST) split = p.k / SHORTEST;
            if (split > CHUNKS) split = CHUNKS;
            const int64_t chunk = blocks_for(blocks_for(p.k, split > 1 ? split : 1), 32) * 32;
            split = blocks_for(p.k, chunk);
            const float blocks = (float)(count * split);
            const float pieces =
                split > 1 ? (float)(split * p.m * p.n * p.batches * p.item) : 0;
            const float time = ceilf(blocks / processors) * (float)chunk * term *
                                   (blocks > processors ? 1.0f : 1.3f) +
                               pieces / (rate * processors);
            if (time >= least) continue;
            least = time;
            best.way = way, best.lines = m, best.columns = n;
            best.chunk = chunk, best.split = split, best.blocks = count * split;
        }
    }
    best.tiles = 1;
    best.step = 32;
    best.wide = p.a_wide && p.b_wide;
    return best;
}

#endif
