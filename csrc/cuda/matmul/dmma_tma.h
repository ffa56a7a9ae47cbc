/*
 * dmma_tma.h - what a block of dmma_tma_sm90.cu fetches and where its sums go.
 */
#ifndef GOP_CUDA_MATMUL_DMMA_TMA_H
#define GOP_CUDA_MATMUL_DMMA_TMA_H

#include "cuda/common/pipeline.h"
#include "cuda/matmul/straight.h"
#include "cuda/common/tile_scheduler.h"

/* A block has 128 producers, four of which issue loads, and 256 consumers, which multiply. */
enum { DMMA_TMA_THREADS = 384, DMMA_TMA_PRODUCERS = 128, DMMA_TMA_CONSUMERS = 256 };
enum { DMMA_TMA_TERMS = 16 };  /* of a stage: 128 bytes */
enum { DMMA_TMA_SLICES = 64 }; /* parts of a sum, at most */

/* The warps of a group multiply a stage; two groups take stages by turns. */
template <int TILE> struct dmma_tma_shape {
    enum { WARP_M = TILE / 2, WARP_N = 32, GROUPS = 128 / TILE };
    enum { M_TILES = WARP_M / 16, N_TILES = WARP_N / 8, BYTES = 2 * TILE * 128 };
    enum { STAGES = TILE == 128 ? 6 : 12, SHARED = STAGES * (BYTES + 16) + 1024 };
};

struct dmma_tma_job : tile_schedule {
    int first, last;      /* items of this step */
    int a_batch, b_batch; /* whether the operand differs from product to product */
    int pairs;            /* whether two neighbours of out are stored at once */
    double *parts;        /* of sums that were cut, a tile each */
};

struct dmma_tma_work {
    gop_cuda_tensor_map a, b;
    straight_product<double> p;
    dmma_tma_job job;
};

#if GOP_SM90

/* An operand's tile: lines of 16 terms, or, 16 lines at a time, terms of 16 lines; either way
 * swizzled rows of 128 bytes. Eight lines make a fragment, in an order in which lanes that read
 * at once meet all banks. */
template <int TILE, bool ALONG> struct dmma_tma_tile {
    enum { BOXES = ALONG ? 1 : TILE / 16 };
    /* Where row r of fragment f lies. */
    static GOP_DEVICE int line(int f, int r)
    {
        if (ALONG) return f * 8 + r % 4 * 2 + r / 4;
        return f / 2 * 16 + f % 2 * 4 + r % 2 + r / 2 % 2 * 8 + r / 4 * 2;
    }
    /* The byte offset of the lane's row and term in fragment 0. */
    static GOP_DEVICE uint32_t base(int lane)
    {
        const int r = lane / 4, q = lane % 4;
        if (ALONG) return line(0, r) * 128 + (q / 2 ^ line(0, r)) * 16 + q % 2 * 8;
        return q * 128 + (line(0, r) / 2 ^ q) * 16 + r % 2 * 8;
    }
    /* The same of fragment f, four * 4 terms on. */
    static GOP_DEVICE const double *at(const uint8_t *tile, uint32_t base, int f, int four)
    {
        const uint32_t to =
            ALONG ? (base ^ four * 32) + f * 1024
                  : (base ^ f % 2 * 32 ^ four % 2 * 64) + f / 2 * 2048 + four * 512;
        return (const double *)(tile + to);
    }
};

/* Issues the TMA loads of a tile: each of four warps every fourth box of it. */
template <int TILE, bool ALONG>
GOP_DEVICE void dmma_tma_fetch(uint8_t *tile, const gop_cuda_tensor_map *map, int warp,
                               int line, int l, int batch, uint64_t *full)
{
    enum { BOXES = dmma_tma_tile<TILE, ALONG>::BOXES };
#pragma unroll
    for (int e = 0; e < (BOXES + 3) / 4; e++) {
        const int box = e * 4 + warp;
        if (box >= BOXES) break;
        const int from = line + box * 16;
        tma_load(tile + box * 2048, map, ALONG ? l : from, ALONG ? from : l, batch, full, 1);
    }
}

/* One thread of each of four warps. */
template <int TILE, int CLUSTER, bool A_ALONG, bool B_ALONG> GOP_DEVICE void
dmma_tma_feed(const dmma_tma_work &w, uint8_t *ring, uint64_t *full, uint64_t *empty, int rank)
{
    typedef dmma_tma_shape<TILE> shape;
    const dmma_tma_job &job = w.job;
    const int warp = threadIdx.x / 32;
    int s = 0;
    uint32_t phase = 1; /* at first all slots are free */
    for (int i = job.first + blockIdx.x / CLUSTER; i < job.last; i += gridDim.x / CLUSTER) {
        const tile_item at = tile_item_of<TILE, TILE, CLUSTER>(job, i, rank);
        for (int stage = at.first; stage < at.last; stage++) {
            uint8_t *const tiles = ring + s * shape::BYTES;
            const int l = stage * DMMA_TMA_TERMS;
            mbarrier_wait(empty + s, phase);
            if (warp == 0) mbarrier_arrive_expect_tx(full + s, shape::BYTES);
            dmma_tma_fetch<TILE, A_ALONG>(tiles, &w.a, warp, at.i0, l,
                                          job.a_batch ? at.batch : 0, full + s);
            dmma_tma_fetch<TILE, B_ALONG>(tiles + shape::BYTES / 2, &w.b, warp ^ 1, at.j0, l,
                                          job.b_batch ? at.batch : 0, full + s);
            pipeline_advance<shape::STAGES>(s, phase);
        }
    }
}

/* Where a tile's sums go: into out, or as one of the parts that are added later. */
struct dmma_tma_target {
    double *to;
    int64_t row, column;
    int rows, columns;
    bool pairs;
};
template <int TILE>
GOP_DEVICE dmma_tma_target dmma_tma_target_of(const dmma_tma_work &w, const tile_item &at)
{
    if (at.part >= 0)
        return {w.job.parts + (int64_t)at.part * TILE * TILE, TILE, 1, TILE, TILE, true};
    const straight_product<double> &p = w.p;
    double *const to = p.out + at.batch * p.out_batch + at.i0 * p.out_row + at.j0 * p.out_col;
    const int64_t rows = p.m - at.i0, columns = p.n - at.j0;
    return {to,
            p.out_row,
            p.out_col,
            (int)(rows < TILE ? rows : TILE),
            (int)(columns < TILE ? columns : TILE),
            w.job.pairs != 0};
}

/* Sums of row r and columns c and d, which may be neighbours. */
template <bool NEIGHBOURS>
GOP_DEVICE void dmma_tma_put(const dmma_tma_target &t, int r, int c, int d, const double2 &sums)
{
    if (r >= t.rows) return;
    double *const to = t.to + r * t.row;
    if (NEIGHBOURS && t.pairs && d < t.columns) {
        *(double2 *)(to + c) = sums;
        return;
    }
    if (c < t.columns) to[c * t.column] = sums.x;
    if (d < t.columns) to[d * t.column] = sums.y;
}

#endif
#endif
