/*
 * outer.h - what outer.cu and outer_mma_sm80.cu take, and which tile a block has.
 */
#ifndef GOP_CUDA_MATMUL_OUTER_H
#define GOP_CUDA_MATMUL_OUTER_H

#include "cuda/matmul/tiling.h"

enum { OUTER_TERMS = 64 };                          /* of a sum at most */
enum { OUTER_NARROW_M = 128, OUTER_NARROW_N = 32 }; /* a tile where there are few columns */

/* Tiles of whole sums, those of a row of tiles one after the other: blocks that run together
 * store neighbouring lines of memory. */
template <int M, int N, typename T>
GOP_DEVICE matmul_tile<T> outer_tile_of(const matmul_product<T> &p)
{
    const matmul_geometry &g = p.g;
    const unsigned across = (unsigned)((g.n + N - 1) / N);
    const unsigned down = (unsigned)((p.part.rows + M - 1) / M);
    const unsigned row = blockIdx.x / across;
    matmul_tile<T> tile;
    tile.i0 = (int64_t)(row % down) * M, tile.j0 = (int64_t)(blockIdx.x % across) * N;
    tile.batch = p.part.batch + row / down;
    tile.of = matmul_batch(g, tile.batch);
    tile.rows = (int)(p.part.rows - tile.i0 < M ? p.part.rows - tile.i0 : M);
    tile.columns = (int)(g.n - tile.j0 < N ? g.n - tile.j0 : N);
    tile.terms = g.k;
    tile.a = p.a + tile.of.a + (p.part.row + tile.i0) * g.a_row;
    tile.b = p.b + tile.of.b + tile.j0 * g.b_col;
    tile.out = tile.of.out + (p.part.row + tile.i0) * g.out_row + tile.j0 * g.out_col;
    return tile;
}

/* Refuses, for `who`, long sums, and results that no warp can store by lines. */
static inline gop_status outer_takes(const gop_gemm &g, const char *who)
{
    if (g.k > 0 && g.k <= OUTER_TERMS && (g.n == 1 || g.out_col == 1)) return GOP_OK;
    return gop_fail(
        GOP_REFUSED,
        "matmul: kernel '%s' takes sums of 1 to %d terms and results whose rows are "
        "contiguous, got %lld terms and a stride of %lld items",
        who, (int)OUTER_TERMS, (long long)g.k, (long long)g.out_col);
}

#endif
