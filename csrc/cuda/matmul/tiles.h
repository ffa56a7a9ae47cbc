/*
 * tiles.h - kernels whose block computes a tile of outputs: which one it is, how large, and how
 * a warp stores its share.
 */
#ifndef GOP_CUDA_MATMUL_TILES_H
#define GOP_CUDA_MATMUL_TILES_H

#include "cuda/common/tile_scheduler.h"
#include "cuda/matmul/product.h"

/* Outputs of a block and of a thread: as many as registers hold without spilling. */
template <int SUM_BYTES> struct block_tile {
    enum { BM = 128, BN = 128, TM = 8, TN = 8 };
};
template <> struct block_tile<8> {
    enum { BM = 128, BN = 64, TM = 8, TN = 4 };
};
template <> struct block_tile<16> {
    enum { BM = 64, BN = 64, TM = 4, TN = 4 };
};

enum { BK = 8, THREADS = 256 }; /* terms a tile holds; threads of a block */
enum { RASTER = 8 };            /* rows of tiles whose blocks run together and share b in L2 */

/* What a block computes: a tile of one product of the batch, a chunk of its sums. */
template <typename T> struct matmul_tile {
    int64_t i0, j0, batch; /* its first row among those of the launch, and its first column */
    int rows, columns;     /* that exist */
    int64_t terms;         /* of the chunk */
    matmul_offsets of;
    const T *a, *b; /* of its first output and term */
    int64_t out;    /* in items from p.out on */
};

/* The order of blocks, fastest first: tiles of a product, chunks of the sums, products. Tiles
 * follow each other down the columns, in groups of GROUP rows, or of all rows if it is 0. */
template <int M, int N, int GROUP, typename T> GOP_DEVICE matmul_tile<T>
matmul_tile_of(const matmul_product<T> &p, unsigned block = blockIdx.x)
{
    const matmul_geometry &g = p.g;
    matmul_tile<T> tile;
    const unsigned down = (unsigned)((p.part.rows + M - 1) / M);
    const unsigned across = (unsigned)((g.n + N - 1) / N), tiles = down * across;
    const unsigned t = block % tiles, product = block / tiles;
    const int2 place = GROUP > 0 ? tile_coordinates(t, down, across, (unsigned)GROUP)
                                 : make_int2((int)(t % down), (int)(t / down));
    tile.i0 = (int64_t)place.x * M, tile.j0 = (int64_t)place.y * N;
    const int64_t chunk = product % (unsigned)p.part.split, l0 = chunk * p.part.chunk;
    tile.batch = p.part.batch + product / (unsigned)p.part.split;
    tile.of = matmul_batch(g, tile.batch);
    tile.rows = (int)(p.part.rows - tile.i0 < M ? p.part.rows - tile.i0 : M);
    tile.columns = (int)(g.n - tile.j0 < N ? g.n - tile.j0 : N);
    tile.terms = g.k - l0 < p.part.chunk ? g.k - l0 : p.part.chunk;
    tile.a = p.a + tile.of.a + (p.part.row + tile.i0) * g.a_row + l0 * g.a_col;
    tile.b = p.b + tile.of.b + tile.j0 * g.b_col + l0 * g.b_row;
    tile.out = tile.of.out + chunk * p.part.split_stride + (p.part.row + tile.i0) * g.out_row +
               tile.j0 * g.out_col;
    return tile;
}

/* The number of blocks of a launch. */
template <int M, int N, typename T>
static inline unsigned matmul_tile_count(const matmul_product<T> &p)
{
    const int64_t down = (p.part.rows + M - 1) / M, across = (p.g.n + N - 1) / N;
    return (unsigned)(down * across * p.part.batches * p.part.split);
}

/* sum += a column of a's tile times a row of b's, a vector of N items at a time. */
template <typename S, int TM, int TN, int A, int B>
GOP_DEVICE void add_products(S (&sum)[TM][TN], const vec128<S> (&a)[A], const vec128<S> (&b)[B])
{
    enum { N = vec128<S>::N };
#pragma unroll
    for (int r = 0; r < TM; r++)
#pragma unroll
        for (int c = 0; c < TN; c++)
            sum[r][c] = accumulate(a[r / N].at[r % N], b[c / N].at[c % N], sum[r][c]);
}

/* Stores the fragments of a warp, whose outputs begin at row m0 and column n0 of a tile. */
template <typename T, typename S, int DOWN, int ACROSS>
GOP_DEVICE void matmul_store_fragments(const matmul_product<T> &p, const matmul_tile<T> &tile,
                                       const S (&sum)[DOWN][ACROSS][4], int m0, int n0)
{
    const int lane = threadIdx.x % 32;
    S *const out = (S *)p.out + tile.out;
#pragma unroll
    for (int m = 0; m < DOWN; m++)
#pragma unroll
        for (int n = 0; n < ACROSS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = m0 + m * 16 + lane / 4 + e / 2 * 8;
                const int j = n0 + n * 8 + lane % 4 * 2 + e % 2;
                if (i < tile.rows && j < tile.columns)
                    out[i * p.g.out_row + j * p.g.out_col] = sum[m][n][e];
            }
}

/* Enqueues `multiply`: of whole sums, or of chunks, and then the adding of those. */
template <typename T, typename F>
static inline gop_status matmul_multiply_chunks(gop_ctx *ctx, const gop_task *task,
                                                matmul_product<T> p, int64_t split,
                                                int64_t chunk, F multiply)
{
    p.part.split = split, p.part.chunk = chunk;
    p.part.split_stride = p.g.batches * p.g.m * p.g.n;
    if (split == 1) return multiply(p);
    GOP_TRY(multiply(matmul_partials_of(p, task->scratch)));
    return matmul_add_partials(ctx, p, task->scratch);
}

#endif
