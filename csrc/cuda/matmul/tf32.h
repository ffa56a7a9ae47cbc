/*
 * tf32.h - what the kernel of tf32_sm90.cu is told: operands, tiles, and how sums are
 * cut.
 */
#ifndef GOP_CUDA_MATMUL_TF32_H
#define GOP_CUDA_MATMUL_TF32_H

#include "cuda/matmul/wgmma_f16.h"

/* A block has 256 lines of the operand that is multiplied from shared memory, the wide one, and
 * 128 of the other; of the wide one each block of a cluster fetches half for both. */
enum {
    TF32_WIDE = 256,
    TF32_OTHER = 128,
    TF32_CLUSTER = 2,
    TF32_TERMS = 32, /* of a slot, 128 bytes */
    TF32_WIDE_BYTES = TF32_WIDE * 128,
    TF32_SLOT = TF32_WIDE_BYTES + TF32_OTHER * 128,
    TF32_SLOTS = 4,
    TF32_PITCH = 40, /* of 32 results of a line on their way out, without bank conflicts */
    TF32_RESULTS = 16 * TF32_PITCH, /* of a warp */
    TF32_SHARED = TF32_SLOTS * (TF32_SLOT + 16) + 8 * TF32_RESULTS * 4 + 1024,
    TF32_LINE = TF32_OTHER * TF32_CLUSTER, /* of a cluster's results */
    TF32_PARTIAL = TF32_WIDE * TF32_LINE,
};

struct tf32_work {
    gop_cuda_tensor_map wide, other;
    matmul_geometry g; /* its a is wide */
    float *out, *partials;
    int wide_batch, other_batch; /* whether the operand differs from product to product */
    int together;                /* results that are neighbours may be written as one */
    tile_schedule schedule;      /* a stage is a pair of slots, across: of clusters */
    int first, last;             /* of its items */
};

/* ---- operands ---- */

/* The operand as it lies, if a tensor map can describe it and its terms are contiguous where
 * they must be (`along`); else a copy that is laid out so. */
static inline straight_operand tf32_operand(const gop_gemm &g, const int64_t *batch,
                                            const void *data, int64_t lines, int64_t from_line,
                                            int64_t from_term, bool along)
{
    straight_operand o = straight_operand_of(g, batch, data, lines, from_line, from_term, 4);
    o.rounded = true;
    if (!o.copied && !(along && o.transposed)) return o;
    o.copied = true, o.transposed = false;
    o.inner = g.k, o.outer = lines;
    o.from_inner = from_term, o.from_outer = from_line;
    o.line = (g.k + 3) / 4 * 4;
    o.batch = o.line * lines;
    return o;
}

#if GOP_SM90

enum { TF32_COPIED = 32 }; /* lines and terms of a tile that a block copies */

static __global__ void __launch_bounds__(256)
    matmul_tf32_copy_kernel(const straight_operand o, const matmul_geometry g, bool is_b,
                            const float *from, float *to)
{
    __shared__ float tile[TF32_COPIED][TF32_COPIED + 1];
    const int x = threadIdx.x % TF32_COPIED, y = threadIdx.x / TF32_COPIED;
    const int64_t across = (o.inner + TF32_COPIED - 1) / TF32_COPIED;
    const int64_t tiles = (o.outer + TF32_COPIED - 1) / TF32_COPIED * across;
    const bool by_lines = llabs(o.from_outer) < llabs(o.from_inner);
    for (int64_t at = blockIdx.x; at < tiles * o.batches; at += gridDim.x) {
        const matmul_offsets of = matmul_batch(g, at / tiles);
        const float *const product = from + (o.batches == 1 ? 0 : is_b ? of.b : of.a);
        const int64_t line = at % tiles / across * TF32_COPIED;
        const int64_t term = at % across * TF32_COPIED;
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TF32_COPIED; e += 8) {
            const int i = by_lines ? x : y + e, l = by_lines ? y + e : x;
            if (line + i < o.outer && term + l < o.inner)
                tile[i][l] = product[(line + i) * o.from_outer + (term + l) * o.from_inner];
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TF32_COPIED; e += 8)
            if (line + y + e < o.outer && term + x < o.inner)
                to[at / tiles * o.batch + (line + y + e) * o.line + term + x] = tile[y + e][x];
    }
}

static inline gop_status tf32_copy(gop_ctx *ctx, const straight_operand &o, const gop_gemm &g,
                                   bool is_b, const void *from, void *to)
{
    const int64_t tiles =
        (o.inner + TF32_COPIED - 1) / TF32_COPIED * ((o.outer + TF32_COPIED - 1) / TF32_COPIED);
    return GOP_LAUNCH(ctx, matmul_tf32_copy_kernel, (unsigned)blocks_for(tiles * o.batches, 1),
                      256, 0, o, matmul_geometry_of(g), is_b, (const float *)from, (float *)to);
}

#endif

/* ---- tiles ---- */

/* Cuts the sums of the last wave into `split` partial ones; returns the time of all, in pairs
 * of slots. */
static inline double tf32_count_waves(const gop_ctx *ctx, const gop_gemm &g, int split,
                                      tile_schedule *t)
{
    enum { AROUND = 3, ADDING = 4 }; /* a tile's start and end; the launch that adds */
    const double partial = 0.1;      /* written and read once more */
    const int tiles_m = (int)((g.m + TF32_WIDE - 1) / TF32_WIDE);
    const int tiles_n = (int)((g.n + TF32_LINE - 1) / TF32_LINE);
    const int pairs = (int)((g.k + 2 * TF32_TERMS - 1) / (2 * TF32_TERMS));
    const int tiles = (int)(tiles_m * tiles_n * g.batches);
    const int slots = ctx->info.processors / TF32_CLUSTER;
    const int rest = split > 1 ? tiles % slots : 0, full = tiles - rest;
    *t = {tiles_m, tiles_n, tiles, 8, pairs, full, split, full + rest * split};
    const int rounds = (full + slots - 1) / slots, cut = (rest * split + slots - 1) / slots;
    return rounds * (pairs + AROUND) + cut * ((pairs + split - 1) / split + AROUND) +
           (rest ? ADDING + rest * split * partial : 0);
}

/* `alike`: all sums are cut, or none, so that two sums with swapped factors stay equal. */
static inline void tf32_choose_schedule(const gop_ctx *ctx, const gop_gemm &g, bool alike,
                                        tile_schedule *best)
{
    enum { MOST = 16 }; /* partial sums */
    double least = 0;
    for (int split = 1; split <= MOST && (split == 1 || 64 * split <= g.k); split++) {
        tile_schedule t;
        const double time = tf32_count_waves(ctx, g, split, &t);
        if (alike && t.whole > 0 && t.whole < t.tiles) continue;
        if (split == 1 || time < least) least = time, *best = t;
    }
}

#endif
